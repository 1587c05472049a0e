"""Top-k and order, by comparison: WebNN has no sort."""

from __future__ import annotations

import math

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import INT64, is_float
from webnn_xla.importers.onnx.values import Tensor

RANKED = 2048
"""Axes up to this long are ranked all against all; longer ones give their largest elements one at a time."""

ONE_AT_A_TIME = 256


@onnx_op("TopK", since=1, until=9)
def top_k_attribute(n: Node) -> list[Tensor]:
    return _top_k(n, n.need("k", int))


@onnx_op("TopK", since=10)
def top_k(n: Node) -> list[Tensor]:
    return _top_k(n, n.known_int(1, "k"))


def _top_k(n: Node, k: int) -> list[Tensor]:
    x = n[0]
    axis = n.axis(n.attr("axis", -1), x.rank)
    size = x.shape[axis]
    largest = bool(n.attr("largest", 1))
    if not 0 <= k <= size:
        raise Malformed(f"k {k} is out of range for the {size} elements of axis {axis}")
    last = [a for a in range(x.rank) if a != axis] + [axis]
    moved = n.permuted(x, last)
    if k == 0:
        values = n.cut(moved, moved.rank - 1, 0, 0)
        return [n.permuted(v, np.argsort(last).tolist()) for v in (values, n.cast_to(values, INT64))]
    indices = _ranked(n, moved, k, largest) if size <= RANKED else _one_at_a_time(n, moved, k, largest)
    values = n.gather_elements(moved, indices, axis=moved.rank - 1)
    back = np.argsort(last).tolist()
    return [n.permuted(values, back), n.permuted(indices, back)]


def _ranked(n: Node, x: Tensor, k: int, largest: bool) -> Tensor:
    """Indices of the first ``k`` in order: an element's place is the number of those that come before it."""
    size, rank = x.shape[-1], x.rank
    this, other = n.unsqueezed(x, [rank]), n.unsqueezed(x, [rank - 1])
    ahead = n.greater(other, this) if largest else n.lesser(other, this)
    earlier = n.const(np.arange(size)[None, :] < np.arange(size)[:, None])
    before = n.logical_or(ahead, n.logical_and(n.equal(other, this), earlier))
    place = n.reduce_sum(n.cast_to(before, np.int32), axes=[rank])
    hit = n.equal(n.unsqueezed(place, [rank - 1]), n.const(np.arange(k)[:, None], np.int32))
    return n.reduce_sum(n.where(hit, n.iota(size), n.const(0, INT64)), axes=[rank])


def _one_at_a_time(n: Node, x: Tensor, k: int, largest: bool) -> Tensor:
    if k > ONE_AT_A_TIME:
        raise Unsupported(f"the {k} largest of {x.shape[-1]} elements: at most {ONE_AT_A_TIME} of more than {RANKED}")
    size, axis = x.shape[-1], x.rank - 1
    worst: float = -math.inf if largest else math.inf
    if not is_float(x.dtype):
        worst = np.iinfo(x.dtype).min if largest else np.iinfo(x.dtype).max
    found = []
    for _ in range(k):
        method = "arg_max" if largest else "arg_min"
        index = n.call(method, x, axis, keep_dimensions=True, output_data_type="int64")
        found.append(index)
        x = n.where(n.equal(n.iota(size), index), n.const(worst, x), x)
    return n.joined(found, axis)


@onnx_op("Unique", since=11, partial="of values known on import")
def unique(n: Node) -> list[Tensor]:
    data = n[0].data
    if data is None:
        raise Unsupported("the number of results depends on data")
    axis = n.attr("axis", None)
    values, first, inverse, counts = np.unique(data, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    if not n.attr("sorted", 1):
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        inverse = np.argsort(order)[inverse.reshape(-1)]
        first, counts = first[order], counts[order]
    return [n.const(values), *(n.const(a.reshape(-1), INT64) for a in (first, inverse, counts))]
