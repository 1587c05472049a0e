"""Preparation on the host: the few ops that rewrites put before weights, in NumPy.

These ops give the same bits everywhere (they move data, or round once, as IEEE 754 says; only subnormal numbers, which are
0 to arithmetic in XLA's CPU backend, stay themselves here), so that running them here changes nothing but the time:
compiling a program of them takes XLA longer than all the rest of a small network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from webnn_xla import buffers
from webnn_xla.graph import Graph, Node, Value

Array = np.ndarray[Any, Any]

_MOVING: Final[Mapping[str, Callable[..., Any]]] = {
    "reshape": lambda input, new_shape: input.reshape(new_shape),
    "expand": lambda input, new_shape: np.broadcast_to(input, new_shape),
    "transpose": lambda input, permutation: input.transpose(permutation),
    "squeeze": lambda input, axes: np.squeeze(input, axis=tuple(axes) if axes else None),
    "unsqueeze": lambda input, axes: np.expand_dims(input, tuple(axes)),
    "concat": lambda inputs, axis: np.concatenate(inputs, axis),
    "reverse": lambda input, axes: np.flip(input, None if axes is None else tuple(axes)),
    "pad": lambda input, beginning_padding, ending_padding, mode, value: np.pad(
        input, tuple(zip(beginning_padding, ending_padding, strict=True))
    ),
    "split": lambda input, splits, axis: np.split(input, splits if isinstance(splits, int) else np.cumsum(splits)[:-1], axis),
}

_ROUNDED_ONCE: Final[Mapping[str, Callable[..., Array]]] = {
    "add": lambda a, b: np.add(a, b),
    "sub": lambda a, b: np.subtract(a, b),
    "mul": lambda a, b: np.multiply(a, b),
    "div": lambda a, b: np.divide(a, b),
    "neg": lambda input: np.negative(input),
    "sqrt": lambda input: np.sqrt(input),
}


def can_run(graph: Graph) -> bool:
    """True if every node is of an op that is exact here."""
    return all(_exact(node) for node in graph.nodes)


def run(graph: Graph, data: Mapping[Value, Any]) -> dict[Value, Array]:
    """The outputs of a graph of constants, contiguous, in the types of their values."""
    known: dict[Value, Array] = {}

    def array(value: Value) -> Array:
        if value not in known:
            # Literals that a rewrite brought in are in the graph only.
            held = np.asarray(data[value] if value in data else graph.constants[value].data)
            known[value] = (
                held if held.dtype == value.descriptor.data_type.numpy else held.astype(value.descriptor.data_type.numpy)
            )
        return known[value]

    remaining = {value: len(users) for value, users in graph.users().items()}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            operands = {
                name: [array(item) for item in operand] if isinstance(operand, tuple) else array(operand)
                for name, operand in node.operands.items()
            }
            result = _function(node)(**operands, **node.attributes)
            known.update(zip(node.outputs, result if isinstance(result, list) else [result], strict=True))
            # What nobody reads any more is released at once: the transformed weights of a large model are large too.
            for value in node.inputs():
                remaining[value] -= 1
                if not remaining[value]:
                    known.pop(value, None)
    results: dict[Value, Array] = {}
    for value in graph.outputs.values():
        results[value] = buffers.aligned_empty(value.descriptor)
        np.copyto(results[value], known.pop(value))
    return results


def _exact(node: Node) -> bool:
    if node.op.name == "pad":
        return bool(
            node.attributes["mode"] == "constant" and node.attributes["value"] == 0 and not np.signbit(node.attributes["value"])
        )
    if node.op.name in _MOVING:
        return True
    return node.op.name in _ROUNDED_ONCE and node.outputs[0].descriptor.data_type == "float32"


def _function(node: Node) -> Callable[..., Any]:
    return _MOVING.get(node.op.name) or _ROUNDED_ONCE[node.op.name]
