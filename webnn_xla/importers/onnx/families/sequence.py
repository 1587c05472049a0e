"""Sequences and optionals inside a graph: their lengths are known on import, so they are Python lists here."""

from __future__ import annotations

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import INT64
from webnn_xla.importers.onnx.values import Absent, Tensor, TensorList, Value


@onnx_op("SequenceEmpty", since=11)
def sequence_empty(n: Node) -> TensorList:
    return TensorList(())


@onnx_op("SequenceConstruct", since=11)
def sequence_construct(n: Node) -> TensorList:
    return TensorList(tuple(n.tensors()))


def _position(n: Node, index: int, length: int, default: int, extra: int = 0) -> int:
    if n.get(index) is None:
        return default
    place = n.known_int(index, "the position")
    if not -length <= place < length + extra:
        raise Malformed(f"position {place} is out of range for a sequence of {length}")
    return place + length if place < 0 else place


@onnx_op("SequenceInsert", since=11)
def sequence_insert(n: Node) -> TensorList:
    items = n.listed(0).items
    place = _position(n, 2, len(items), len(items), 1)
    return TensorList((*items[:place], n[1], *items[place:]))


@onnx_op("SequenceErase", since=11)
def sequence_erase(n: Node) -> TensorList:
    items = n.listed(0).items
    place = _position(n, 1, len(items), len(items) - 1)
    return TensorList((*items[:place], *items[place + 1 :]))


@onnx_op("SequenceAt", since=11)
def sequence_at(n: Node) -> Value:
    items = n.listed(0).items
    return items[_position(n, 1, len(items), 0)]


@onnx_op("SequenceLength", since=11)
def sequence_length(n: Node) -> Tensor:
    return n.const(len(n.listed(0).items), INT64)


@onnx_op("SplitToSequence", since=11)
def split_to_sequence(n: Node) -> TensorList:
    x = n[0]
    axis = n.axis(n.attr("axis", 0), x.rank)
    size = x.shape[axis]
    keep = True
    if n.get(1) is None:
        sizes, keep = [1] * size, bool(n.attr("keepdims", 1))
    else:
        sizes = n.known_ints(1, "the split")
        if n[1].rank == 0:
            sizes = [min(sizes[0], size - k) for k in range(0, size, sizes[0])] if sizes[0] > 0 else []
    if sum(sizes) != size:
        raise Malformed(f"sizes {sizes} do not add up to {size}")
    parts, start = [], 0
    for each in sizes:
        part = n.cut(x, axis, start, each)
        parts.append(part if keep else n.squeezed(part, [axis]))
        start += each
    return TensorList(tuple(parts))


@onnx_op("ConcatFromSequence", since=11)
def concat_from_sequence(n: Node) -> Tensor:
    items = [item for item in n.listed(0).items if isinstance(item, Tensor)]
    if not items:
        raise Malformed("an empty sequence")
    if n.attr("new_axis", 0):
        axis = n.axis(n.need("axis", int), items[0].rank + 1)
        return n.joined([n.unsqueezed(item, [axis]) for item in items], axis)
    return n.joined(items, n.axis(n.need("axis", int), items[0].rank))


@onnx_op("Optional", since=15)
def optional(n: Node) -> Value:
    return n.value(0) if n.inputs and n.inputs[0] is not None else Absent()


@onnx_op("OptionalHasElement", since=15)
def has_element(n: Node) -> Tensor:
    return n.const(np.asarray(bool(n.inputs) and n.inputs[0] is not None and not isinstance(n.inputs[0], Absent)))


@onnx_op("OptionalGetElement", since=15)
def get_element(n: Node) -> Value:
    value = n.value(0)
    if isinstance(value, Absent):
        raise Unsupported("an optional without a value")
    return value
