"""From the names and values of the WPT vectors to calls of the builder.

The files speak the specification's camelCase and JavaScript's values. Names convert by ``naming``, and what an argument
is (operand, number, enum) is read from the op table, so no op is named here. Source: https://webidl.spec.whatwg.org.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from webnn_xla import buffers
from webnn_xla.builder import MLGraphBuilder, MLOperand
from webnn_xla.conformance.wpt_vectors import Call, ConformanceCase, Tensor, to_float
from webnn_xla.dtypes import MLOperandDescriptor
from webnn_xla.lowering import OPS
from webnn_xla.lowering.kinds import NUMBER, Double, Either, Integer, Kind, ListOf, Number
from webnn_xla.lowering.op import Op, Operand, OperandList, Option, OptionalOperand
from webnn_xla.naming import to_snake

BUFFERS: Final[dict[str, Any]] = {
    "Float32Array": np.float32,
    "Float16Array": np.float16,
    "Int32Array": np.int32,
    "Uint32Array": np.uint32,
    "BigInt64Array": np.int64,
    "BigUint64Array": np.uint64,
    "Int8Array": np.int8,
    "Uint8Array": np.uint8,
    "Uint8ClampedArray": np.uint8,
    "Int16Array": np.int16,
    "Uint16Array": np.uint16,
    "Float64Array": np.float64,
}


class CaseFailure(Exception):  # noqa: N818  (not an error: it becomes the problem of a result)
    """A case does not do what it must."""


def record(builder: MLGraphBuilder, case: ConformanceCase, prefix: str, inputs: dict[str, Tensor]) -> dict[str, MLOperand]:
    """Makes the calls of a case; its outputs by name, after their descriptors were checked."""
    operands: dict[str, MLOperand] = {}
    for name, tensor in case.inputs.items():
        if tensor.constant:
            operands[name] = builder.constant(tensor.descriptor, to_bytes(tensor.data, tensor.descriptor))
        else:
            operands[name] = builder.input(prefix + name, tensor.descriptor)
            inputs[prefix + name] = tensor
    for call in case.calls:
        op, method = _find(builder, call.op)
        made = method(*_positional(op, call, operands), **_options(op, call.options, operands))
        if isinstance(made, list) != call.returns_list or (call.returns_list and len(made) != len(call.outputs)):
            got = f"a list of {len(made)}" if isinstance(made, list) else "one operand"
            raise CaseFailure(f"{call.op} returned {got}; wanted {', '.join(call.outputs)}")
        operands.update(zip(call.outputs, made if isinstance(made, list) else [made], strict=True))
    outputs = {name: operands[name] for name in case.outputs}
    for name, tensor in case.outputs.items():
        check_descriptor(name, outputs[name], tensor.descriptor)
    return outputs


def invoke(builder: MLGraphBuilder, camel: str, args: Sequence[Any], operands: Mapping[str, MLOperand]) -> Any:
    """One call with JavaScript's arguments: operands, numbers and buffers by position, then the options."""
    if camel in ("input", "constant"):
        return getattr(builder, camel)(*(arg if _is_plain(arg) else to_python(arg, NUMBER) for arg in args))
    op, method = _find(builder, camel)
    args = list(args)
    options = args.pop() if args and _is_plain(args[-1]) else {}
    names = [name for name, argument in op.arguments.items() if not isinstance(argument, (Option, OptionalOperand))]
    known = [_argument(op, name, value, operands) for name, value in zip(names, args, strict=False)]
    return method(*known, *args[len(names) :], **_options(op, options, operands))


def _is_plain(value: Any) -> bool:
    return isinstance(value, dict) and not any(key.startswith("$") for key in value)


def _find(builder: MLGraphBuilder, camel: str) -> tuple[type[Op], Callable[..., Any]]:
    op = OPS.get(to_snake(camel))
    if op is None:
        raise CaseFailure(f"there is no op {camel}")
    return op, getattr(builder, op.name)


def _positional(op: type[Op], call: Call, operands: Mapping[str, MLOperand]) -> list[Any]:
    names = [name for name, argument in op.arguments.items() if not isinstance(argument, (Option, OptionalOperand))]
    given = [to_snake(name) for name, _ in call.arguments]
    # The list may be short (the op itself then says what is missing), but never in another order.
    if given != names[: len(given)]:
        raise CaseFailure(f"{call.op} takes {names}; the case gives {given}")
    return [_argument(op, name, value, operands) for name, (_, value) in zip(given, call.arguments, strict=True)]


def _options(op: type[Op], options: Mapping[str, Any], operands: Mapping[str, MLOperand]) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for camel, value in options.items():
        name = to_snake(camel)
        if name == "label":
            converted[name] = value
        elif isinstance(op.arguments.get(name), (Option, OptionalOperand)):
            converted[name] = _argument(op, name, value, operands)
        else:
            raise CaseFailure(f"{op.name} has no option {camel}")
    return converted


def _argument(op: type[Op], name: str, value: Any, operands: Mapping[str, MLOperand]) -> Any:
    """One argument in Python: operands by name or ``$operand``, the others by their declared kind."""
    declared = op.arguments[name]
    if isinstance(declared, (Operand, OptionalOperand, OperandList)):
        return [_operand(item, operands) for item in value] if isinstance(value, list) else _operand(value, operands)
    return to_python(value, declared.kind)


def _operand(value: Any, operands: Mapping[str, MLOperand]) -> Any:
    if isinstance(value, dict) and "$operand" in value:
        if value["$operand"] not in operands:
            # Passed on, it would make the op throw, which the case may want for another reason.
            raise CaseFailure(f"the case has no operand {value['$operand']!r}")
        return operands[value["$operand"]]
    return operands.get(value, value) if isinstance(value, str) else value


def to_python(value: Any, kind: Kind | None = None) -> Any:
    """A value of the files as Python's, by WebIDL's conversion to ``kind`` where JavaScript's numbers differ."""
    if isinstance(value, dict):
        if "$bigint" in value:
            return int(value["$bigint"])
        if "$buffer" in value:
            return to_buffer(value["$buffer"])
        # An odd JavaScript value, or an object where none belongs: nothing that converts.
        return object()
    if isinstance(value, list):
        item = kind.sequence if isinstance(kind, Either) else kind
        return [to_python(element, item.item if isinstance(item, ListOf) else None) for element in value]
    scalar = kind.scalar if isinstance(kind, Either) else kind
    if isinstance(scalar, (Double, Number, Integer)) and value in ("NaN", "Infinity", "-Infinity"):
        return to_float(value)
    if isinstance(scalar, Integer) and isinstance(value, float):
        return int(value)
    return value


def to_buffer(described: Mapping[str, Any]) -> Any:
    """A zero-filled buffer: raw bytes for an ArrayBuffer, else an array of the view's type."""
    name, length = described["type"], described["byteLength"]
    if name in ("ArrayBuffer", "SharedArrayBuffer"):
        return bytes(length)
    if name not in BUFFERS:
        raise CaseFailure(f"got a buffer of type {name}; allowed: ArrayBuffer, {', '.join(BUFFERS)}")
    return np.frombuffer(bytes(length), BUFFERS[name])


def to_bytes(data: Any, descriptor: MLOperandDescriptor) -> bytes:
    """The content of an ArrayBuffer with ``data``; 4-bit integers are two to a byte."""
    return buffers.pack(np.ascontiguousarray(data), descriptor).tobytes()


def check_descriptor(name: str, operand: Any, want: MLOperandDescriptor) -> None:
    """CaseFailure unless ``operand`` is one, of the wanted type and shape."""
    if not isinstance(operand, MLOperand):
        raise CaseFailure(f"{name}: got {type(operand).__name__}, wanted an operand of {want}")
    if operand.data_type is not want.data_type or operand.shape != want.shape:
        raise CaseFailure(f"{name}: got {MLOperandDescriptor(operand.data_type, operand.shape)}, wanted {want}")
