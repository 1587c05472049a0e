"""``op_support_limits``: derived from the op table, in the specification's own names.

Source: https://www.w3.org/TR/webnn/#api-mlcontext-opsupportlimits-dictionary.
"""

from __future__ import annotations

from typing import Any

from webnn_xla.dtypes import EXTENSION_TYPES, MAX_RANK, SPEC_TYPES
from webnn_xla.lowering import OPS
from webnn_xla.lowering.op import Limits, Op, Same, SameRank, Types
from webnn_xla.naming import to_camel


def op_support_limits(max_tensor_byte_length: int, *, extensions: bool = False) -> dict[str, Any]:
    """MLOpSupportLimits as a dictionary of plain values; a new one each time."""
    types = SPEC_TYPES + (EXTENSION_TYPES if extensions else ())
    anything = {"dataTypes": list(map(str, types)), "rankRange": {"min": 0, "max": MAX_RANK}}
    limits: dict[str, Any] = {
        "preferredInputLayout": "nchw",
        "maxTensorByteLength": max_tensor_byte_length,
        "input": anything,
        "constant": {**anything},
        "output": {**anything},
    }
    for op in OPS.values():
        if extensions or not op.extension:
            limits[to_camel(op.name)] = op_limits(op, extensions=extensions)
    return limits


def op_limits(op: type[Op], *, extensions: bool = False) -> dict[str, Any]:
    """Limits of one op: camelCase operand or output name → data types and rank range."""
    tensors: dict[str, Limits] = {**op.operands(), **op.outputs}
    return {
        to_camel(name): {
            "dataTypes": list(map(str, allowed_types(op, tensor, extensions=extensions))),
            "rankRange": dict(zip(("min", "max"), allowed_ranks(op, tensor), strict=True)),
        }
        for name, tensor in tensors.items()
    }


def allowed_types(op: type[Op], tensor: Limits, *, extensions: bool = False) -> Types:
    """Data types of an operand or output, with "same as another" resolved."""
    while isinstance(tensor.types, Same):
        tensor = op.operands()[tensor.types.operand]
    return tensor.types + (tensor.extensions if extensions else ())


def allowed_ranks(op: type[Op], tensor: Limits) -> tuple[int, int]:
    """Smallest and largest rank, with "same as another" and N resolved."""
    while isinstance(tensor.ranks, SameRank):
        tensor = op.operands()[tensor.ranks.operand]
    low, high = tensor.ranks
    return low, MAX_RANK if high is None else high
