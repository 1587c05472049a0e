"""Gather, scatter, one-hot and selection."""

from __future__ import annotations

import math

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import BOOL, INT64, Array, is_float
from webnn_xla.importers.onnx.values import Tensor

MAX_ONE_HOT = 1 << 26
"""Elements of the comparison matrix that stands in for a scatter with a reduction."""


@onnx_op("Gather")
def gather(n: Node) -> Tensor:
    x, indices = n[0], n[1]
    if not x.rank:
        raise Malformed(f"a gather from {x}, which has no axes")
    axis = n.axis(n.attr("axis", 0), x.rank)
    if indices.data is not None and indices.size and x.size:
        low, high = int(indices.data.min()), int(indices.data.max())
        if low < -x.shape[axis] or high >= x.shape[axis]:
            raise Malformed(f"indices {low} to {high} are out of range for axis {axis} of {x}")
        if indices.rank == 0 and not x.known:
            return n.squeezed(n.cut(x, axis, int(indices.data) % x.shape[axis], 1), [axis])
    return n.gather(x, indices, axis=axis)


@onnx_op("GatherElements", since=11)
def gather_elements(n: Node) -> Tensor:
    return n.gather_elements(n[0], n[1], axis=n.axis(n.attr("axis", 0), n[0].rank))


def with_batch(n: Node, indices: Tensor, batch: int) -> Tensor:
    """Coordinates of the first ``batch`` axes put before each index vector."""
    parts = []
    for axis in range(batch):
        places = n.to(n.iota(indices.shape[axis]), [indices.shape[axis] if k == axis else 1 for k in range(indices.rank)])
        parts.append(n.broadcast(places, (*indices.shape[:-1], 1)))
    return n.joined([*parts, n.cast_to(indices, INT64)], indices.rank - 1)


@onnx_op("GatherND", since=11)
def gather_nd(n: Node) -> Tensor:
    x, indices = n[0], n[1]
    batch = n.attr("batch_dims", 0)
    if indices.rank < 1 or not 0 <= batch < min(x.rank, indices.rank) or batch + indices.shape[-1] > x.rank:
        raise Malformed(f"indices {indices} and batch_dims {batch} do not fit {x}")
    return n.gather_nd(x, with_batch(n, indices, batch) if batch else indices)


def _reduced(n: Node, base: Tensor, positions: Tensor, updates: Tensor, reduction: str) -> Tensor:
    """``base`` [P, S] with rows ``positions`` [U] of ``updates`` [U, S] combined in, repeats included."""
    p, s, u = base.shape[0], base.shape[1], positions.size
    if p * u * (1 if reduction == "add" and is_float(base.dtype) else s) > MAX_ONE_HOT:
        raise Unsupported(f"a scatter with reduction {reduction!r} of {u} rows into {p}")
    hit = n.equal(n.to(n.iota(p), [p, 1]), n.to(positions, [1, u]))
    if reduction == "add" and is_float(base.dtype):
        return n.add(base, n.matmul(n.cast_to(hit, base.dtype), updates))
    neutral: float = {"add": 0, "mul": 1}.get(reduction, 0)
    if reduction in ("max", "min"):
        low = reduction == "max"
        if is_float(base.dtype):
            neutral = -math.inf if low else math.inf
        else:
            info = np.iinfo(np.uint8 if base.dtype == BOOL else base.dtype)
            neutral = info.min if low else info.max
    spread = n.where(n.to(hit, [p, u, 1]), n.to(updates, [1, u, s]), n.const(neutral, base))
    method = {"add": "reduce_sum", "mul": "reduce_product", "max": "reduce_max", "min": "reduce_min"}[reduction]
    combine = {"add": "add", "mul": "mul", "max": "max", "min": "min"}[reduction]
    return n.call(combine, base, n.call(method, spread, axes=[1]))


def _linear(n: Node, coordinates: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Row-major positions of index vectors (last axis) in ``shape``; negative ones count from the end."""
    sizes = n.const(np.array(shape, np.int64))
    strides: Array = np.array([math.prod(shape[k + 1 :]) for k in range(len(shape))], np.int64)
    wide = n.cast_to(coordinates, INT64)
    wrapped = n.where(n.lesser(wide, 0), n.add(wide, sizes), wide)
    return n.reduce_sum(n.mul(wrapped, n.const(strides)), axes=[coordinates.rank - 1])


def _reduction(n: Node) -> str:
    reduction = n.attr("reduction", "none")
    if reduction not in ("none", "add", "mul", "max", "min"):
        raise Malformed(f"reduction {reduction!r}; ONNX has none, add, mul, max and min")
    return str(reduction)


@onnx_op("ScatterND", since=11)
def scatter_nd(n: Node) -> Tensor:
    x, indices, updates = n[0], n[1], n[2]
    reduction = _reduction(n)
    if indices.rank < 1 or not 1 <= indices.shape[-1] <= x.rank:
        raise Malformed(f"indices {indices} do not fit {x}")
    if reduction == "none" or not updates.size:
        return n.scatter_nd(x, indices, updates) if updates.size else x
    depth = indices.shape[-1]
    p, s = math.prod(x.shape[:depth]), math.prod(x.shape[depth:])
    rows = _linear(n, indices, x.shape[:depth])
    u = rows.size
    return n.to(_reduced(n, n.to(x, [p, s]), n.to(rows, [u]), n.to(updates, [u, s]), reduction), x.shape)


@onnx_op("ScatterElements", "Scatter", since=9)
def scatter_elements(n: Node) -> Tensor:
    x, indices, updates = n[0], n[1], n[2]
    axis = n.axis(n.attr("axis", 0), x.rank)
    reduction = _reduction(n)
    if indices.shape != updates.shape or indices.rank != x.rank:
        raise Malformed(f"indices {indices} and updates {updates} do not fit {x}")
    if not updates.size:
        return x
    if reduction == "none":
        return n.scatter_elements(x, indices, updates, axis=axis)
    parts = []
    for k in range(x.rank):
        if k == axis:
            parts.append(n.unsqueezed(n.cast_to(indices, INT64), [x.rank]))
        else:
            places = n.to(n.iota(indices.shape[k]), [indices.shape[k] if j == k else 1 for j in range(x.rank)] + [1])
            parts.append(n.broadcast(places, (*indices.shape, 1)))
    rows = _linear(n, n.joined(parts, x.rank), x.shape)
    u = updates.size
    return n.to(_reduced(n, n.to(x, [x.size, 1]), n.to(rows, [u]), n.to(updates, [u, 1]), reduction), x.shape)


@onnx_op("TensorScatter", since=24)
def tensor_scatter(n: Node) -> Tensor:
    cache, update = n[0], n[1]
    axis = n.axis(n.attr("axis", -2), cache.rank)
    mode = n.attr("mode", "linear")
    if mode not in ("linear", "circular") or axis == 0 or cache.rank != update.rank:
        raise Malformed(f"mode {mode!r} and axis {axis} do not fit {cache}")
    batch, length = cache.shape[0], update.shape[axis]
    starts = n.get(2)
    first = n.const(np.zeros(batch), INT64) if starts is None else n.cast_to(starts, INT64)
    places = n.add(n.to(first, [batch, 1]), n.to(n.iota(length), [1, length]))
    if mode == "circular":
        places = n.sub(places, n.mul(n.floor_div(places, cache.shape[axis]), cache.shape[axis]))
    index = n.to(places, [batch if k == 0 else length if k == axis else 1 for k in range(cache.rank)])
    return n.scatter_elements(cache, n.broadcast(index, update.shape), update, axis=axis)


@onnx_op("OneHot", since=9)
def one_hot(n: Node) -> Tensor:
    indices, values = n[0], n[2]
    depth = int(n.known_input(1, "depth").reshape(-1)[0])
    if depth < 1 or values.size != 2:
        raise Malformed(f"depth {depth} and values {values} make no one-hot tensor")
    axis = n.axis(n.attr("axis", -1), indices.rank + 1)
    wide = n.cast_to(indices, INT64)
    wrapped = n.unsqueezed(n.where(n.lesser(wide, 0), n.add(wide, depth), wide), [axis])
    places = n.to(n.iota(depth), [depth if k == axis else 1 for k in range(indices.rank + 1)])
    flat = n.to(values, [2])
    on, off = n.squeezed(n.cut(flat, 0, 1, 1), [0]), n.squeezed(n.cut(flat, 0, 0, 1), [0])
    return n.where(n.equal(wrapped, places), on, off)


@onnx_op("NonZero", since=9, partial="of values known on import")
def non_zero(n: Node) -> Tensor:
    data = n[0].data
    if data is None:
        raise Unsupported("the number of results depends on data")
    found = np.array(np.nonzero(np.atleast_1d(data)), np.int64)
    return n.const(found if data.ndim else found[:0])


@onnx_op("Compress", since=9, partial="with a condition known on import")
def compress(n: Node) -> Tensor:
    x = n[0]
    chosen = np.nonzero(n.known_input(1, "the condition").reshape(-1))[0]
    axis = n.attr("axis", None)
    if axis is None:
        return n.gather(n.to(x, [x.size]), n.const(chosen, INT64))
    return n.gather(x, n.const(chosen, INT64), axis=n.axis(axis, x.rank))


@onnx_op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(n: Node) -> Tensor:
    x, indices = n[0], n[1]
    y = n.gather(x, n.to(indices, [indices.size]), axis=x.rank - 1)
    return n.to(y, [1, *y.shape]) if x.rank == 1 else y


@onnx_op("Binarizer", domain="ai.onnx.ml")
def binarizer(n: Node) -> Tensor:
    return n.cast_to(n.greater(n[0], n.attr("threshold", 0.0)), n[0].dtype)
