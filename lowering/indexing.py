"""Reading and writing by index, and triangular parts of matrices.

A negative index counts from the end of its dimension; whatever is out of range then is clamped to it: the same on every
backend, and never an access outside. Where several updates go to one element, it gets one of them, whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor, Shape
from webnn_xla.lowering.kinds import BOOL, INT32, UINT32
from webnn_xla.lowering.op import (
    ANY,
    COMMON,
    FLOATS,
    INDICES,
    INTEGERS_8,
    MOVED,
    Op,
    Operand,
    Option,
    Output,
    Same,
    SameRank,
    T,
    require,
)
from webnn_xla.lowering.primitives import broadcast_along, constant, require_axis
from webnn_xla.lowering.tosa import Emitter, Tensor, fail

COMMON_8 = COMMON + INTEGERS_8

CLIP: Final = lax.GatherScatterMode.CLIP
"""A gather clamps its indices, as StableHLO defines it. Doing so before as well is up to three times slower on CPU."""

IN_BOUNDS: Final = lax.GatherScatterMode.PROMISE_IN_BOUNDS
"""A scatter would skip what is out of bounds, so its indices are clamped before, and nothing is left to check."""


def wrap(indices: Array, sizes: Sequence[int]) -> Array:
    """Indices as int32, negative ones counted from the end; out of range on the side where they were.

    ``sizes`` has one size for all indices, or one for each item of the last dimension. No step overflows, at any value
    of any index type: a size is at most 2**31 - 1, is added to negative numbers only, and what int32 does not hold is
    saturated, for it is out of range either way.
    """
    if indices.dtype == np.uint32:
        return lax.convert_element_type(lax.min(indices, constant(INT32.high, indices)), np.int32)
    if indices.dtype == np.int64:
        indices = lax.clamp(constant(INT32.low, indices, ()), indices, constant(INT32.high, indices, ()))
        indices = lax.convert_element_type(indices, np.int32)
    return lax.select(lax.lt(indices, constant(0, indices)), lax.add(indices, _filled(sizes, indices.shape)), indices)


def wrap_and_clamp(indices: Array, sizes: Sequence[int]) -> Array:
    """Indices as int32 in 0 … size - 1."""
    wrapped = wrap(indices, sizes)
    return lax.clamp(constant(0, wrapped), wrapped, _filled([size - 1 for size in sizes], wrapped.shape))


def _filled(values: Sequence[int], shape: Sequence[int]) -> Array:
    if len(set(values)) == 1:
        return lax.full(shape, np.int32(values[0]), np.int32)
    return lax.broadcast_in_dim(np.asarray(values, np.int32), shape, (len(shape) - 1,))


def as_coordinates(indices: Array, axis: int) -> Array:
    """Full coordinates of elements, in a new last dimension: the index along ``axis``, the position along all others."""
    columns = [
        indices if dimension == axis else lax.broadcasted_iota(np.int32, indices.shape, dimension)
        for dimension in range(indices.ndim)
    ]
    return lax.concatenate([lax.expand_dims(column, (indices.ndim,)) for column in columns], indices.ndim)


def gather_coordinates(input: Array, coordinates: Array) -> Array:
    """The elements, or slices of trailing dimensions, at the coordinates in the last dimension."""
    batch, depth = coordinates.ndim - 1, coordinates.shape[-1]
    leading = tuple(range(depth))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(batch, batch + input.ndim - depth)), collapsed_slice_dims=leading, start_index_map=leading
    )
    sizes = (1,) * depth + input.shape[depth:]
    return lax.gather(input, coordinates, numbers, sizes, mode=CLIP)


def scatter_coordinates(input: Array, coordinates: Array, updates: Array) -> Array:
    """``input`` with the elements, or slices of trailing dimensions, at the coordinates replaced by ``updates``."""
    batch, depth = coordinates.ndim - 1, coordinates.shape[-1]
    leading = tuple(range(depth))
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(batch, batch + input.ndim - depth)),
        inserted_window_dims=leading,
        scatter_dims_to_operand_dims=leading,
    )
    return lax.scatter(input, coordinates, updates, numbers, mode=IN_BOUNDS)


def require_along(indices: Descriptor, input: Descriptor, axis: int) -> None:
    """Rejects indices whose shape is not that of the input in all dimensions but ``axis``."""
    require_axis(axis, input.rank)
    expected = (*input.shape[:axis], indices.shape[axis], *input.shape[axis + 1 :])
    require(
        indices.shape == expected,
        "indices",
        indices,
        f"the shape of the input, {list(input.shape)}, except in dimension {axis}",
    )


def coordinate_shape(input: Descriptor, indices: Descriptor) -> Shape:
    """Shape of what the coordinates in the last dimension of ``indices`` select."""
    depth = indices.shape[-1]
    allowed = f"coordinates (last dimension) of at most {input.rank} indices, the rank of the input"
    require(depth <= input.rank, "indices", indices, allowed)
    return Shape((*indices.shape[:-1], *input.shape[depth:]))


def tosa_positions(t: Emitter, indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """``wrap_and_clamp`` in TOSA, where an index out of bounds is unpredictable: i32 in 0 … size - 1."""
    bound = np.asarray(sizes)
    bound = bound if len(set(sizes)) > 1 else bound[:1].reshape((1,) * indices.rank)
    if indices.value is not None:
        value = indices.value.astype(np.int64) % 2**32 if indices.unsigned else indices.value.astype(np.int64)
        return t.const(np.clip(np.where(value < 0, value + bound, value), 0, bound - 1), "i32")
    if indices.unsigned:
        indices = t.select(t.compare("greater", t.scalar(0, indices), indices), INT32.high, indices)
        return t.minimum(indices, t.const(bound - 1, "i32"))
    limited = t.maximum(t.minimum(indices, t.const(bound - 1, indices.element)), t.const(-bound, indices.element))
    index = t.cast(limited, "i32")
    return t.select(t.compare("greater", t.scalar(0, index), index), t.add(index, t.const(bound, "i32")), index)


def _tosa_linear(t: Emitter, indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """Coordinates as positions in the elements, or slices, in row-major order: [1, count]."""
    positions = tosa_positions(t, indices, sizes)
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    if positions.value is not None:
        return t.const((positions.value * strides).sum(-1).reshape(1, -1), "i32")
    if len(sizes) > 1:
        last = positions.rank - 1
        positions = t.reduce("reduce_sum", t.mul(positions, t.const(strides, "i32")), last)
    return t.reshape(positions, (1, positions.size))


def _tosa_rows(t: Emitter, x: Tensor, axis: int) -> Tensor:
    """[all other elements, those along ``axis``]"""
    moved = t.transpose(x, [dimension for dimension in range(x.rank) if dimension != axis] + [axis])
    return t.reshape(moved, (x.size // x.shape[axis], x.shape[axis]))


def _tosa_from_rows(t: Emitter, rows: Tensor, shape: Sequence[int], axis: int) -> Tensor:
    """The inverse of ``_tosa_rows``, to ``shape``."""
    moved = t.reshape(rows, (*shape[:axis], *shape[axis + 1 :], shape[axis]))
    last = len(shape) - 1
    return t.transpose(moved, (*range(axis), last, *range(axis, last)))


def _tosa_distinct(rows: Tensor) -> None:
    """Refuses constant indices that repeat. Those known at run time only are the caller's business."""
    if rows.value is not None and any(len(set(row)) < len(row) for row in rows.value.tolist()):
        fail("indices repeat, which is unpredictable in SCATTER")


class Gather(Op):
    """Slices of the input at ``indices`` along ``axis``: the shape of the indices takes the place of that dimension.

    Negative indices count from the end, then all are clamped to the dimension.
    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gather.
    """

    input = Operand(ANY, (1, None), required=COMMON_8, required_ranks=(1, 5), extensions=MOVED)
    indices = Operand(INDICES, required=(T.INT32,))
    axis = Option(UINT32, 0, "The dimension that the indices select from.")
    output = Output(Same("input"), (1, None), required=COMMON_8, required_ranks=(1, 5), doc="A scalar if both shapes allow.")
    tosa = "GREATER SELECT MINIMUM RESHAPE GATHER MAXIMUM CAST ADD TRANSPOSE"
    tosa_note = "indices int32; out of range is unpredictable, so they are clamped before"
    stablehlo = "add broadcast_in_dim clamp compare convert gather minimum select"

    @staticmethod
    def infer(input: Descriptor, indices: Descriptor, axis: int) -> Descriptor:
        require_axis(axis, input.rank)
        return input.with_shape((*input.shape[:axis], *indices.shape, *input.shape[axis + 1 :]))

    @staticmethod
    def lower(input: Array, indices: Array, axis: int) -> Array:
        after = range(axis + indices.ndim, input.ndim - 1 + indices.ndim)
        numbers = lax.GatherDimensionNumbers(
            offset_dims=(*range(axis), *after), collapsed_slice_dims=(axis,), start_index_map=(axis,)
        )
        coordinates = lax.expand_dims(wrap(indices, (input.shape[axis],)), (indices.ndim,))
        sizes = (*input.shape[:axis], 1, *input.shape[axis + 1 :])
        return lax.gather(input, coordinates, numbers, sizes, mode=CLIP)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, indices: Tensor, axis: int) -> Tensor:
        return t.take(input, tosa_positions(t, indices, (input.shape[axis],)), axis)


class GatherElements(Op):
    """Elements of the input at ``indices`` along ``axis``, and at the position of the index along all other dimensions.

    Negative indices count from the end, then all are clamped to the dimension.
    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gatherelements.
    """

    input = Operand(ANY, (1, None), required_ranks=(1, 5), extensions=MOVED)
    indices = Operand(INDICES, SameRank("input"), required=(T.INT32,), required_ranks=(1, 5))
    axis = Option(UINT32, 0, "The dimension that the indices select from.")
    output = Output(Same("input"), SameRank("input"), required_ranks=(1, 5), doc="The shape is that of the indices.")
    tosa = "GREATER SELECT MINIMUM RESHAPE GATHER MAXIMUM CAST ADD TRANSPOSE"
    tosa_note = "indices made linear: int32"
    stablehlo = "add broadcast_in_dim clamp compare concatenate convert gather iota minimum select"

    @staticmethod
    def infer(input: Descriptor, indices: Descriptor, axis: int) -> Descriptor:
        require_along(indices, input, axis)
        return input.with_shape(indices.shape)

    @staticmethod
    def lower(input: Array, indices: Array, axis: int) -> Array:
        return gather_coordinates(input, as_coordinates(wrap(indices, (input.shape[axis],)), axis))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, indices: Tensor, axis: int) -> Tensor:
        positions = tosa_positions(t, indices, (input.shape[axis],))
        values, rows = _tosa_rows(t, input, axis), _tosa_rows(t, positions, axis)
        gathered = t.gather(t.reshape(values, (*values.shape, 1)), rows)
        return _tosa_from_rows(t, gathered, indices.shape, axis)


class GatherND(Op):
    """Elements of the input, or slices of its trailing dimensions, at the coordinates in the last dimension of ``indices``.

    Negative indices count from the end, then all are clamped to their dimension.
    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gathernd.
    """

    input = Operand(ANY, (1, None), required=COMMON_8, required_ranks=(1, 5), extensions=MOVED)
    indices = Operand(INDICES, (1, None), required=(T.INT32,), required_ranks=(1, 5))
    output = Output(Same("input"), required=COMMON_8)
    tosa = "RESHAPE GREATER SELECT MINIMUM GATHER MAXIMUM CAST ADD MUL REDUCE_SUM"
    tosa_note = "indices made linear: int32"
    stablehlo = "add broadcast_in_dim clamp compare convert gather minimum select"

    @staticmethod
    def infer(input: Descriptor, indices: Descriptor) -> Descriptor:
        return input.with_shape(coordinate_shape(input, indices))

    @staticmethod
    def lower(input: Array, indices: Array) -> Array:
        return gather_coordinates(input, wrap(indices, input.shape[: indices.shape[-1]]))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, indices: Tensor) -> Tensor:
        depth = indices.shape[-1]
        values = t.reshape(input, (1, math.prod(input.shape[:depth]), math.prod(input.shape[depth:])))
        gathered = t.gather(values, _tosa_linear(t, indices, input.shape[:depth]))
        return t.reshape(gathered, (*indices.shape[:-1], *input.shape[depth:]))


class ScatterElements(Op):
    """A copy of the input with ``updates`` in place of the elements at ``indices`` along ``axis``.

    Negative indices count from the end, then all are clamped. Where indices repeat, the element is one of the updates.
    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-scatterelements.
    """

    input = Operand(ANY, (1, None), required_ranks=(1, 5), extensions=MOVED)
    indices = Operand(INDICES, SameRank("input"), required=(T.INT32,), required_ranks=(1, 5))
    updates = Operand(Same("input"), SameRank("input"), required_ranks=(1, 5))
    axis = Option(UINT32, 0, "The dimension that the indices select from.")
    output = Output(Same("input"), SameRank("input"), required_ranks=(1, 5))
    tosa = "GREATER SELECT MINIMUM RESHAPE SCATTER MAXIMUM CAST ADD TRANSPOSE"
    tosa_note = "repeated indices are unpredictable"
    stablehlo = "add broadcast_in_dim clamp compare concatenate convert iota minimum scatter select"

    @staticmethod
    def infer(input: Descriptor, indices: Descriptor, updates: Descriptor, axis: int) -> Descriptor:
        require_along(indices, input, axis)
        require(updates.shape == indices.shape, "updates", updates, f"the shape of the indices, {list(indices.shape)}")
        return input

    @staticmethod
    def lower(input: Array, indices: Array, updates: Array, axis: int) -> Array:
        return scatter_coordinates(input, as_coordinates(wrap_and_clamp(indices, (input.shape[axis],)), axis), updates)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
        positions = tosa_positions(t, indices, (input.shape[axis],))
        values, rows, written = (_tosa_rows(t, x, axis) for x in (input, positions, updates))
        _tosa_distinct(rows)
        scattered = t.scatter(t.reshape(values, (*values.shape, 1)), rows, t.reshape(written, (*written.shape, 1)))
        return _tosa_from_rows(t, scattered, input.shape, axis)


class ScatterND(Op):
    """A copy of the input with ``updates`` in place of elements or slices, at the coordinates in ``indices``.

    Negative indices count from the end, then all are clamped. Where coordinates repeat, the element is one of the updates.
    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-scatternd.
    """

    input = Operand(ANY, (1, None), required_ranks=(1, 5), extensions=MOVED)
    indices = Operand(INDICES, (1, None), required=(T.INT32,), required_ranks=(1, 5))
    updates = Operand(Same("input"))
    output = Output(Same("input"), (1, None), required_ranks=(1, 5))
    tosa = "GREATER SELECT MINIMUM RESHAPE SCATTER MAXIMUM CAST ADD MUL REDUCE_SUM"
    tosa_note = "repeated indices are unpredictable"
    stablehlo = "add broadcast_in_dim clamp compare convert minimum scatter select"

    @staticmethod
    def infer(input: Descriptor, indices: Descriptor, updates: Descriptor) -> Descriptor:
        expected = coordinate_shape(input, indices)
        require(updates.shape == expected, "updates", updates, f"shape {list(expected)}, what the indices select")
        return input

    @staticmethod
    def lower(input: Array, indices: Array, updates: Array) -> Array:
        return scatter_coordinates(input, wrap_and_clamp(indices, input.shape[: indices.shape[-1]]), updates)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        depth = indices.shape[-1]
        rest = math.prod(input.shape[depth:])
        linear = _tosa_linear(t, indices, input.shape[:depth])
        _tosa_distinct(linear)
        values = t.reshape(input, (1, input.size // rest, rest))
        return t.reshape(t.scatter(values, linear, t.reshape(updates, (1, updates.size // rest, rest))), input.shape)


class Triangular(Op):
    """The upper or lower triangle of each matrix in the last two dimensions; the rest is 0.

    Upper keeps column - row >= diagonal, lower keeps column - row <= diagonal.
    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-triangular.
    """

    input = Operand(ANY, (2, None), required=FLOATS, required_ranks=(2, 5), extensions=MOVED)
    upper = Option(BOOL, True, "Whether the upper part is kept.")
    diagonal = Option(INT32, 0, "Which diagonal bounds the part: 0 the main one, positive ones above it.")
    output = Output(Same("input"), SameRank("input"), required=FLOATS, required_ranks=(2, 5))
    tosa = "SELECT"
    tosa_note = "with a constant mask"
    stablehlo = "broadcast_in_dim compare iota select subtract"

    @staticmethod
    def lower(input: Array, upper: bool, diagonal: int) -> Array:
        matrix = input.shape[-2:]
        # The difference of two positions fits int32; adding the diagonal to one of them might not.
        offset = lax.sub(lax.broadcasted_iota(np.int32, matrix, 1), lax.broadcasted_iota(np.int32, matrix, 0))
        bound = constant(diagonal, offset)
        kept = lax.ge(offset, bound) if upper else lax.le(offset, bound)
        return lax.select(broadcast_along(kept, input.shape, (input.ndim - 2, input.ndim - 1)), input, constant(0, input))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, upper: bool, diagonal: int) -> Tensor:
        rows, columns = input.shape[-2:]
        offset = np.arange(columns)[None, :] - np.arange(rows)[:, None]
        kept = t.const(offset >= diagonal if upper else offset <= diagonal, "i1")
        return t.select(kept, input, t.scalar(0, input))


class TriangularMatrix(Triangular):
    """The name that ``triangular`` had when it was proposed."""

    section = "#api-mlgraphbuilder-triangular"
    extension = True
    stablehlo = "broadcast_in_dim compare iota select subtract"
