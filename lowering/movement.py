"""Data movement: concatenation, broadcasting, padding, reshaping, reversal, slicing, tiling, transposition.

Values pass through bit for bit, whatever they are: NaN payloads, -0 and the extremes of 64-bit integers. (Of a NaN in
bfloat16, XLA's CPU backend may keep the sign alone.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jax import Array, lax

from webnn_xla.dtypes import MAX_DIMENSION, Descriptor, cast_number
from webnn_xla.lowering.emulation import Emulator, Handle
from webnn_xla.lowering.kinds import NUMBER, SPLITS, UINT32, UINT32S, choice
from webnn_xla.lowering.op import (
    ANY,
    COMMON,
    FLOATS,
    INTEGERS_8,
    MOVED,
    Op,
    Operand,
    OperandList,
    Option,
    Output,
    OutputList,
    Param,
    Same,
    SameRank,
    reject,
    require,
)
from webnn_xla.lowering.primitives import (
    broadcast_to,
    constant,
    data_type_of,
    require_axes,
    require_axis,
)
from webnn_xla.lowering.tosa import Emitter, Tensor, number_bits

MAX_TENSOR_COUNT = 8192
"""The specification's bound of a "valid tensor count": how many tensors ``concat`` takes and ``split`` makes."""

COMMON_8 = COMMON + INTEGERS_8


def require_length(values: Sequence[int], rank: int, name: str) -> None:
    """Rejects a list of other than one item for each dimension."""
    require(len(values) == rank, name, f"{list(values)} of length {len(values)}", f"length {rank}, the rank of the input")


def require_count(count: int, name: str) -> None:
    """Rejects what is not the specification's "valid tensor count"."""
    require(0 < count <= MAX_TENSOR_COUNT, name, f"{count} tensors", f"1 to {MAX_TENSOR_COUNT} tensors")


def require_shape(shape: Sequence[int], name: str) -> None:
    """Rejects a shape with a dimension that is not valid."""
    for dimension in shape:
        require(0 < dimension <= MAX_DIMENSION, name, list(shape), f"dimensions from 1 to {MAX_DIMENSION}")


class Movement(Op, abstract=True):
    input = Operand(ANY, extensions=MOVED)
    output = Output(Same("input"), SameRank("input"))


class Concat(Op):
    """Joins tensors along ``axis``; all other dimensions are equal.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-concat.
    """

    inputs = OperandList(ANY, (1, None), required_ranks=(1, 5), extensions=MOVED)
    axis = Param(UINT32, "The dimension along which to join.")
    output = Output(Same("inputs"), SameRank("inputs"), required_ranks=(1, 5))
    tosa = "CONCAT"
    stablehlo = "concatenate"

    @staticmethod
    def infer(inputs: list[Descriptor], axis: int) -> Descriptor:
        require_count(len(inputs), "inputs")
        first = inputs[0]
        require_axis(axis, first.rank)
        shape = list(first.shape)
        for index, other in enumerate(inputs[1:], 1):
            name = f"inputs[{index}]"
            require(other.data_type is first.data_type, name, other, f"{first.data_type}, the data type of inputs[0]")
            require(other.rank == first.rank, name, f"{other} of rank {other.rank}", f"rank {first.rank}, that of inputs[0]")
            for dimension in range(first.rank):
                if dimension != axis and other.shape[dimension] != first.shape[dimension]:
                    reject(name, other, f"the shape of inputs[0], {list(first.shape)}, except in dimension {axis}")
            shape[axis] += other.shape[axis]
        require(shape[axis] <= MAX_DIMENSION, "inputs", f"{shape[axis]} along the axis in all", f"at most {MAX_DIMENSION}")
        return first.with_shape(shape)

    @staticmethod
    def lower(inputs: list[Array], axis: int) -> Array:
        return lax.concatenate(inputs, axis) if len(inputs) > 1 else inputs[0]

    @staticmethod
    def to_tosa(t: Emitter, inputs: list[Tensor], axis: int) -> Tensor:
        return t.concat(inputs, axis)


class Expand(Op):
    """Broadcasts to ``new_shape``: dimensions of size 1 repeat, and leading dimensions are added.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-expand.
    """

    input = Operand(ANY, extensions=MOVED)
    new_shape = Param(UINT32S, "Shape of the output.")
    output = Output(Same("input"))
    tosa = "TILE"
    stablehlo = "broadcast_in_dim"

    @staticmethod
    def infer(input: Descriptor, new_shape: tuple[int, ...]) -> Descriptor:
        require_shape(new_shape, "new_shape")
        padded = (1,) * (len(new_shape) - input.rank) + tuple(input.shape)
        fits = len(padded) == len(new_shape) and all(a in (1, b) for a, b in zip(padded, new_shape, strict=True))
        require(fits, "new_shape", list(new_shape), f"a shape that {list(input.shape)} broadcasts to")
        return input.with_shape(new_shape)

    @staticmethod
    def lower(input: Array, new_shape: tuple[int, ...]) -> Array:
        return broadcast_to(input, new_shape)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, new_shape: tuple[int, ...]) -> Tensor:
        return t.broadcast_to(input, new_shape)


def _edge(x: Array, axis: int, before: int, after: int) -> list[Array]:
    """The first element ``before`` times, ``x``, and the last element ``after`` times."""
    size = x.shape[axis]

    def repeated(index: int, count: int) -> Array:
        shape = list(x.shape)
        shape[axis] = count
        return broadcast_to(lax.slice_in_dim(x, index, index + 1, axis=axis), shape)

    return [repeated(0, before), x, repeated(size - 1, after)]


def _reflection(x: Array, axis: int, before: int, after: int) -> list[Array]:
    """``x`` between its mirror images, which leave out the element on the edge."""
    size = x.shape[axis]
    first = lax.rev(lax.slice_in_dim(x, 1, 1 + before, axis=axis), (axis,))
    last = lax.rev(lax.slice_in_dim(x, size - 1 - after, size - 1, axis=axis), (axis,))
    return [first, x, last]


class Pad(Movement):
    """Adds elements before and after each dimension: a ``value``, the nearest edge, or the reflection about the edge.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pad.
    """

    input = Operand(ANY, required=FLOATS, extensions=MOVED)
    beginning_padding = Param(UINT32S, "How many elements to add before each dimension.")
    ending_padding = Param(UINT32S, "How many elements to add after each dimension.")
    mode = Option(choice("constant", "edge", "reflection"), "constant", "What to add; reflection leaves the edge itself out.")
    value = Option(NUMBER, 0, "What to add in mode constant; cast to the input's data type.")
    output = Output(Same("input"), SameRank("input"), required=FLOATS)
    tosa = "SLICE REVERSE CONCAT PAD TILE"
    tosa_note = "constant; edge and reflection: SLICE, TILE or REVERSE, CONCAT"
    stablehlo = "broadcast_in_dim concatenate pad reverse slice"

    @staticmethod
    def infer(
        input: Descriptor, beginning_padding: tuple[int, ...], ending_padding: tuple[int, ...], mode: str, value: int | float
    ) -> Descriptor:
        for name, padding in (("beginning_padding", beginning_padding), ("ending_padding", ending_padding)):
            require_length(padding, input.rank, name)
            for size, count in zip(input.shape, padding, strict=True):
                if mode == "reflection" and count >= size:
                    reject(name, list(padding), f"less than each dimension of {list(input.shape)}, to reflect about its edge")
        shape = [sum(sizes) for sizes in zip(input.shape, beginning_padding, ending_padding, strict=True)]
        for size in shape:
            require(size <= MAX_DIMENSION, "ending_padding", f"a padded shape of {shape}", f"dimensions to {MAX_DIMENSION}")
        return input.with_shape(shape)

    @staticmethod
    def lower(
        input: Array, beginning_padding: tuple[int, ...], ending_padding: tuple[int, ...], mode: str, value: int | float
    ) -> Array:
        if mode == "constant":
            filler = constant(cast_number(value, data_type_of(input)), input, ())
            return lax.pad(input, filler, [(*counts, 0) for counts in zip(beginning_padding, ending_padding, strict=True)])
        parts = _edge if mode == "edge" else _reflection
        for axis, (before, after) in enumerate(zip(beginning_padding, ending_padding, strict=True)):
            if before or after:
                input = lax.concatenate([part for part in parts(input, axis, before, after) if part.size], axis)
        return input

    @staticmethod
    def to_tosa(
        t: Emitter,
        input: Tensor,
        beginning_padding: tuple[int, ...],
        ending_padding: tuple[int, ...],
        mode: str,
        value: int | float,
    ) -> Tensor:
        if mode == "constant":
            return t.pad(input, beginning_padding, ending_padding, number_bits(value, input))
        for axis, (before, after) in enumerate(zip(beginning_padding, ending_padding, strict=True)):
            if not before and not after:
                continue
            size = input.shape[axis]
            if mode == "edge":
                first, last = t.slice_axis(input, axis, 0, 1), t.slice_axis(input, axis, size - 1, 1)
                first, last = t.tile_axis(first, axis, before), t.tile_axis(last, axis, after)
            else:
                first = t.reverse(t.slice_axis(input, axis, 1, before), axis) if before else input
                last = t.reverse(t.slice_axis(input, axis, size - 1 - after, after), axis) if after else input
            parts = zip((first, input, last), (before, 1, after), strict=True)
            input = t.concat([part for part, count in parts if count], axis)
        return input


class Reshape(Op):
    """The same elements, in row-major order, in another shape.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reshape-method.
    """

    section = "#api-mlgraphbuilder-reshape-method"
    input = Operand(ANY, required=COMMON_8, extensions=MOVED)
    new_shape = Param(UINT32S, "Shape of the output; an empty one makes a scalar.")
    output = Output(Same("input"), required=COMMON_8)
    tosa = "RESHAPE"
    stablehlo = "reshape"

    @staticmethod
    def infer(input: Descriptor, new_shape: tuple[int, ...]) -> Descriptor:
        require_shape(new_shape, "new_shape")
        count = math.prod(new_shape)
        if count != input.element_count:
            reject("new_shape", f"{list(new_shape)} of {count} elements", f"{input.element_count} elements, as in {input}")
        return input.with_shape(new_shape)

    @staticmethod
    def lower(input: Array, new_shape: tuple[int, ...]) -> Array:
        return lax.reshape(input, new_shape)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, new_shape: tuple[int, ...]) -> Tensor:
        return t.reshape(input, new_shape)


class Reverse(Movement):
    """Reverses the order of the elements along ``axes``.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reverse-method.
    """

    section = "#api-mlgraphbuilder-reverse-method"
    axes = Option(UINT32S, None, "The dimensions to reverse. By default all; none if empty.")
    tosa = "REVERSE"
    stablehlo = "reverse"

    @staticmethod
    def infer(input: Descriptor, axes: tuple[int, ...] | None) -> Descriptor:
        require_axes(axes or (), input.rank)
        return input

    @staticmethod
    def lower(input: Array, axes: tuple[int, ...] | None) -> Array:
        return lax.rev(input, tuple(range(input.ndim)) if axes is None else axes)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, axes: tuple[int, ...] | None) -> Tensor:
        for axis in range(input.rank) if axes is None else axes:
            input = t.reverse(input, axis)
        return input


class Slice(Movement):
    """A window of the input: from ``starts``, ``sizes`` elements of each dimension, of which every stride-th is taken.

    An output dimension is ceil(size / stride). Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-slice.
    """

    input = Operand(ANY, required=COMMON_8, extensions=MOVED)
    starts = Param(UINT32S, "First element of each dimension.")
    sizes = Param(UINT32S, "Size of the window in each dimension, in elements of the input.")
    strides = Option(UINT32S, None, "Step in each dimension. By default all 1.")
    output = Output(Same("input"), SameRank("input"), required=COMMON_8)
    tosa = "SLICE PAD RESHAPE"
    tosa_note = "strides: PAD RESHAPE SLICE"
    stablehlo = "slice"

    @staticmethod
    def infer(
        input: Descriptor, starts: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...] | None
    ) -> Descriptor:
        require_length(starts, input.rank, "starts")
        require_length(sizes, input.rank, "sizes")
        steps = (1,) * input.rank if strides is None else strides
        require_length(steps, input.rank, "strides")
        for dimension, start, size, step in zip(input.shape, starts, sizes, steps, strict=True):
            require(size > 0, "sizes", list(sizes), "sizes from 1")
            require(step > 0, "strides", list(steps), "strides from 1")
            require(start < dimension, "starts", list(starts), f"less than each dimension of {list(input.shape)}")
            if start + size > dimension:
                reject("sizes", f"{list(sizes)} from {list(starts)}", f"a window within the shape {list(input.shape)}")
        return input.with_shape(-(-size // step) for size, step in zip(sizes, steps, strict=True))

    @staticmethod
    def lower(input: Array, starts: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> Array:
        limits = [start + size for start, size in zip(starts, sizes, strict=True)]
        # A stride beyond the window takes its first element; so bounded, it fits the attribute's signed type anywhere.
        steps = None if strides is None else [min(step, size) for step, size in zip(strides, sizes, strict=True)]
        return lax.slice(input, starts, limits, steps)

    @staticmethod
    def to_tosa(
        t: Emitter, input: Tensor, starts: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...] | None
    ) -> Tensor:
        input = t.slice(input, starts, sizes)
        for axis, stride in enumerate(strides or ()):
            input = t.slice_axis(input, axis, 0, sizes[axis], stride)
        return input


class Split(Op):
    """Parts of the input along ``axis``: ``splits`` equal ones, or one of each size in ``splits``. Returns a list.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-split.
    """

    input = Operand(ANY, (1, None), required_ranks=(1, 5), extensions=MOVED)
    splits = Param(SPLITS, "How many parts of equal size; or the size of each part, which add up to the dimension.")
    axis = Option(UINT32, 0, "The dimension to split.")
    outputs = OutputList(Same("input"), SameRank("input"), required_ranks=(1, 5))  # type: ignore[assignment]
    tosa = "SLICE"
    stablehlo = "slice"

    @staticmethod
    def infer(input: Descriptor, splits: int | tuple[int, ...], axis: int) -> list[Descriptor]:
        require_axis(axis, input.rank)
        dimension = input.shape[axis]
        if isinstance(splits, int):
            require_count(splits, "splits")
            require(dimension % splits == 0, "splits", splits, f"a divisor of {dimension}, the size of dimension {axis}")
        else:
            require_count(len(splits), "splits")
            require(all(splits), "splits", list(splits), "sizes from 1")
            if sum(splits) != dimension:
                reject("splits", f"{list(splits)}, in all {sum(splits)}", f"{dimension} in all, the size of dimension {axis}")
        sizes = _split_sizes(dimension, splits)
        return [input.with_shape((*input.shape[:axis], size, *input.shape[axis + 1 :])) for size in sizes]

    @staticmethod
    def lower(input: Array, splits: int | tuple[int, ...], axis: int) -> list[Array]:
        parts, start = [], 0
        for size in _split_sizes(input.shape[axis], splits):
            parts.append(lax.slice_in_dim(input, start, start + size, axis=axis))
            start += size
        return parts

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, splits: int | tuple[int, ...], axis: int) -> list[Tensor]:
        parts, start = [], 0
        for size in _split_sizes(input.shape[axis], splits):
            parts.append(t.slice_axis(input, axis, start, size))
            start += size
        return parts

    @staticmethod
    def emulate(b: Emulator, input: Handle, splits: int | tuple[int, ...], axis: int) -> list[Any]:
        shape = tuple(input.descriptor.shape)
        parts, start = [], 0
        for size in _split_sizes(shape[axis], splits):
            starts = tuple(start if dimension == axis else 0 for dimension in range(len(shape)))
            parts.append(b.slice(input, starts, (*shape[:axis], size, *shape[axis + 1 :])))
            start += size
        return parts


def _split_sizes(dimension: int, splits: int | tuple[int, ...]) -> Sequence[int]:
    return [dimension // splits] * splits if isinstance(splits, int) else splits


class Tile(Movement):
    """Repeats the whole input along each dimension.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-tile.
    """

    repetitions = Param(UINT32S, "How often to repeat along each dimension, from 1.")
    tosa = "TILE"
    stablehlo = "broadcast_in_dim reshape"

    @staticmethod
    def infer(input: Descriptor, repetitions: tuple[int, ...]) -> Descriptor:
        require_length(repetitions, input.rank, "repetitions")
        require(all(repetitions), "repetitions", list(repetitions), "repetitions from 1")
        return input.with_shape(size * count for size, count in zip(input.shape, repetitions, strict=True))

    @staticmethod
    def lower(input: Array, repetitions: tuple[int, ...]) -> Array:
        shape: list[int] = []
        axes: list[int] = []
        for size, count in zip(input.shape, repetitions, strict=True):
            if count > 1:
                shape.append(count)
            axes.append(len(shape))
            shape.append(size)
        repeated = lax.broadcast_in_dim(input, shape, axes)
        return lax.reshape(repeated, [size * count for size, count in zip(input.shape, repetitions, strict=True)])

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, repetitions: tuple[int, ...]) -> Tensor:
        return t.tile(input, repetitions)


class Transpose(Movement):
    """Permutes the dimensions: output dimension i is input dimension ``permutation[i]``.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-transpose.
    """

    permutation = Option(UINT32S, None, "Order of the dimensions. By default reversed.")
    tosa = "TRANSPOSE"
    stablehlo = "transpose"

    @staticmethod
    def infer(input: Descriptor, permutation: tuple[int, ...] | None) -> Descriptor:
        if permutation is None:
            return input.with_shape(reversed(input.shape))
        require_length(permutation, input.rank, "permutation")
        require_axes(permutation, input.rank, "permutation")
        return input.with_shape(input.shape[axis] for axis in permutation)

    @staticmethod
    def lower(input: Array, permutation: tuple[int, ...] | None) -> Array:
        return lax.transpose(input, tuple(reversed(range(input.ndim))) if permutation is None else permutation)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, permutation: tuple[int, ...] | None) -> Tensor:
        return t.transpose(input, tuple(reversed(range(input.rank))) if permutation is None else permutation)
