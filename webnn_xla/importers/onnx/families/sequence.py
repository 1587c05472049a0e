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


@onnx_op("TfIdfVectorizer", since=9, partial="of integers")
def tfidf(n: Node) -> Tensor:
    """Counts of n-grams: each place of each n-gram is compared with the input, at every skip."""
    x = n[0]
    pool = n.ints("pool_int64s")
    if pool is None:
        raise Unsupported("n-grams of strings")
    mode, low, high = n.need("mode", str), n.need("min_gram_length", int), n.need("max_gram_length", int)
    starts, places = [*(n.ints("ngram_counts") or []), len(pool)], n.ints("ngram_indexes") or []
    if x.rank not in (1, 2) or mode not in ("TF", "IDF", "TFIDF") or not places:
        raise Malformed(f"mode {mode!r} and n-grams do not fit {x}")
    rows = n.to(n.cast_to(x, INT64), [-(-x.size // max(x.shape[-1], 1)) if x.rank == 2 else 1, x.shape[-1]])
    size = rows.shape[1]
    counts = [n.const(np.zeros(rows.shape[0]), np.float32)] * (max(places) + 1)
    index = 0
    for length in range(1, len(starts)):
        for start in range(starts[length - 1], starts[length], length):
            gram, place = pool[start : start + length], places[index]
            index += 1
            if not low <= length <= high or len(gram) < length:
                continue
            for skip in range(n.attr("max_skip_count", 0) + 1 if length > 1 else 1):
                reach = (length - 1) * (skip + 1)
                if reach >= size:
                    break
                hits = None
                for k, item in enumerate(gram):
                    equal = n.equal(n.cut(rows, 1, k * (skip + 1), size - reach), item)
                    hits = equal if hits is None else n.logical_and(hits, equal)
                assert hits is not None
                counts[place] = n.add(counts[place], n.reduce_sum(n.cast_to(hits, np.float32), axes=[1]))
    y = n.joined([n.unsqueezed(c, [1]) for c in counts], 1)
    weights = n.attributes.get("weights")
    factors = np.ones(len(counts), np.float32)
    if weights is not None:
        for place, weight in zip(places, weights, strict=True):
            factors[place] = weight
    if mode == "IDF":
        y = n.cast_to(n.greater(y, 0.0), np.float32)
    if mode != "TF":
        y = n.mul(y, n.const(factors))
    return n.to(y, [len(counts)]) if x.rank == 1 else y
