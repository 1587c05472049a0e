"""Worker: runs StableHLO text in the reference interpreter that jaxlib carries.

Fatal errors of the interpreter abort the process (integer division by zero, out of memory), hence ``oracle``.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
from jax.interpreters import mlir
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

Array = np.ndarray[Any, Any]

stablehlo.register_stablehlo_passes()

_NAMES = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int8": "i8",
    "uint64": "ui64",
    "uint32": "ui32",
    "uint8": "ui8",
}


def serve(request: tuple[str, list[Array]]) -> list[Array]:
    """``(module text, arguments)`` → results, bit-exact both ways."""
    text, arguments = request
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(module.operation)
        results = stablehlo.eval_module(module, [_to_attribute(argument) for argument in arguments])
        return [_from_attribute(result) for result in results]


def _to_attribute(array: Array) -> ir.Attribute:
    # The buffer protocol rejects bfloat16; the hexadecimal text form takes every type.
    shape = "".join(f"{size}x" for size in array.shape)
    data = np.ascontiguousarray(array).tobytes().hex().upper()
    return ir.Attribute.parse(f'dense<"0x{data}"> : tensor<{shape}{_NAMES[array.dtype.name]}>')


def _from_attribute(attribute: ir.Attribute) -> Array:
    tensor = ir.RankedTensorType(attribute.type)
    shape = tuple(tensor.shape)
    if str(tensor.element_type) != "bf16":
        return np.array(attribute).reshape(shape)
    text = str(attribute)
    packed = re.match(r'dense<"0x([0-9A-F]*)">', text)
    if packed:
        return np.frombuffer(bytes.fromhex(packed[1]), ml_dtypes.bfloat16).reshape(shape)
    values = [
        np.uint16(int(token, 16)).view(ml_dtypes.bfloat16) if token.startswith("0x") else np.float32(token)
        for token in re.findall(r"0x[0-9A-F]+|[-+0-9.eE]+", text[: text.rindex(":")].removeprefix("dense<"))
    ]
    flat = np.array(values, ml_dtypes.bfloat16)
    return np.full(shape, flat[0]) if flat.size == 1 else flat.reshape(shape)
