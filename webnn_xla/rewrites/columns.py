"""Weights whose rows do not lie a power of two apart in memory."""

from __future__ import annotations

import math
from typing import Any, Final

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes

ALIKE: Final = 512
"""Columns of float32 from which on, and at whose multiples, rows fall on the same few lines of a cache."""

MORE: Final = 16
"""Columns that are added: a line of a cache."""

MIN_ROWS: Final = 16
"""Rows of the other operand, from which weights are packed in blocks. With fewer each weight is read once, in order."""

MAX_BYTES: Final = 2**24
"""Weights from here on are left as they are: the wider ones are another copy in memory."""

MAX_TOTAL: Final = 2**28
"""Bytes of all wider weights of a graph."""


def widen_columns(graph: Graph, target: Target) -> Graph:
    """``matmul(a, w)`` → ``slice(matmul(a, pad(w)))``, where w has a multiple of 512 columns: 16 more, of zeros.

    XLA's product copies blocks of w, and rows a multiple of 2048 bytes apart evict each other: it takes up to twice as
    long. w is a constant [rows, columns] of float32 of less than 16 MiB (all together, 256 MiB), not the transpose of
    one, and a has 16 rows or more. The same for ``conv2d`` in one group with a filter in ``hwio``: its output channels
    are the columns. For CPU.
    """
    if target.platform != "cpu":
        return graph
    wide: dict[Value, int] = {}
    return rewrite_nodes(graph, lambda node, view: _rule(node, view, wide))


def _rule(node: Node, view: View, wide: dict[Value, int]) -> Draft | None:
    if node.outputs[0].descriptor.data_type != "float32":
        return None
    if node.op.name == "matmul":
        weights = node.operands["b"]
    elif node.op.name == "conv2d" and node.attributes["groups"] == 1 and node.attributes["filter_layout"] == "hwio":
        weights = node.operands["filter"]
        if node.attributes["input_layout"] != "nhwc":
            return None
    else:
        return None
    assert isinstance(weights, Value)
    shape, output = weights.descriptor.shape, node.outputs[0].descriptor
    rank = len(shape)
    if rank != (2 if node.op.name == "matmul" else 4) or shape[-1] % ALIKE or not _is_stored(weights, view):
        return None
    if output.rank < 2 or math.prod(output.shape[:-1]) < MIN_ROWS or all(map(view.is_constant, node.inputs())):
        return None
    size = weights.descriptor.byte_length
    if size >= MAX_BYTES or (weights not in wide and sum(wide.values()) + size > MAX_TOTAL):
        return None
    wide[weights] = size
    draft = Draft(node.label)
    nothing = (0,) * (rank - 1)
    padded = draft.emit("pad", input=weights, beginning_padding=(*nothing, 0), ending_padding=(*nothing, MORE))
    operands: dict[str, Any] = {**node.operands, "b" if node.op.name == "matmul" else "filter": padded}
    bias = operands.pop("bias", None)
    product = draft.emit(node.op.name, **operands, **node.attributes)
    starts, sizes = (0,) * output.rank, tuple(output.shape)
    if bias is None:
        draft.emit("slice", outputs=node.outputs, input=product, starts=starts, sizes=sizes)
    else:
        draft.emit("add", outputs=node.outputs, a=draft.emit("slice", input=product, starts=starts, sizes=sizes), b=bias)
    return draft


def _is_stored(weights: Value, view: View) -> bool:
    """True for constants that lie in memory as they are read. The transpose of a matrix is left to YNNPACK's product."""
    if not view.is_constant(weights):
        return False
    producer = view.producer(weights, "transpose")
    return producer is None or weights.descriptor.rank != 2
