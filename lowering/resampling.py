"""Resampling of two axes to other sizes. Coordinates and their ties are exact: they are worked out in integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import MAX_DIMENSION, Descriptor
from webnn_xla.lowering.fast_resampling import can_interleave, interleave
from webnn_xla.lowering.kinds import SINGLES, UINT32S, choice
from webnn_xla.lowering.op import FLOATS, Op, Operand, Option, Output, Same, T, Target, Tolerance, reject, require
from webnn_xla.lowering.primitives import broadcast_along, constant, data_type_of, in_float32, narrow, require_axes
from webnn_xla.lowering.tosa import Emitter, Tensor

Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Samples:
    """Where along one axis the outputs lie: at ``below + part / whole``, the first and last pixel's centre at most.

    ``below`` and ``part`` have one integer for each output; 0 <= part < whole.
    """

    below: Integers
    part: Integers
    whole: int

    @property
    def above(self) -> Integers:
        """The pixel after ``below``, or the same where the output lies on it."""
        return self.below + (self.part > 0)

    @property
    def nearest(self) -> Integers:
        """ceil(coordinate - 0.5): the nearest pixel, and the lower one of two that are equally near."""
        return self.below + (2 * self.part > self.whole)


def make_samples(input: int, output: int) -> Samples:
    """The coordinates (position + 0.5) * input / output - 0.5, clamped to 0 … input - 1."""
    common = math.gcd(input, output)
    whole = 2 * (output // common)
    numerator = (2 * np.arange(output, dtype=np.int64) + 1) * (input // common) - output // common
    numerator = np.clip(numerator, 0, (input - 1) * whole)
    return Samples(numerator // whole, numerator % whole, whole)


class Resample2d(Op):
    """Resizes two axes, without antialiasing: each output takes the nearest input, or interpolates its two neighbours.

    An output lies at (position + 0.5) * input size / output size - 0.5, clamped to the input. Half-way between two inputs,
    the nearest is the one before. Linear results of integers are exact, rounded half to even; a neighbour whose weight
    is 0 still counts where it is infinite or NaN. An axis whose size stays is not touched.
    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-resample2d-method.
    """

    section = "#api-mlgraphbuilder-resample2d-method"
    input = Operand((*FLOATS, T.UINT8, T.INT8), (4, 4), required=FLOATS, required_ranks=(4, 4))
    mode = Option(choice("nearest-neighbor", "linear"), "nearest-neighbor")
    scales = Option(SINGLES, None, "For each of axes, rounded to float32; a size is floor(size * scale). By default ones.")
    sizes = Option(UINT32S, None, "For each of axes; scales are then ignored.")
    axes = Option(UINT32S, None, "The two axes to resize. By default [2, 3].")
    output = Output(Same("input"), (4, 4), required=FLOATS, required_ranks=(4, 4))
    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "TRANSPOSE RESIZE"
    tosa_note = "nearest rounds ties up: scale [4 * out, 4 * in] with the offset less 1 rounds them down"
    stablehlo = "add broadcast_in_dim gather multiply"

    @staticmethod
    def infer(
        input: Descriptor, mode: str, scales: Sequence[float] | None, sizes: Sequence[int] | None, axes: Sequence[int] | None
    ) -> Descriptor:
        axes = (2, 3) if axes is None else axes
        require(len(axes) == 2, "axes", list(axes), "2 axes")
        require_axes(axes, input.rank)
        shape = list(input.shape)
        for axis, size in zip(axes, output_sizes(shape, scales, sizes, axes), strict=True):
            shape[axis] = size
        return input.with_shape(shape)

    @staticmethod
    def lower(
        input: Array,
        mode: str,
        scales: Sequence[float] | None,
        sizes: Sequence[int] | None,
        axes: Sequence[int] | None,
        target: Target,
    ) -> Array:
        axes = (2, 3) if axes is None else axes
        wanted = dict(zip(axes, output_sizes(input.shape, scales, sizes, axes), strict=True))
        # The second axis first, as the specification interpolates.
        samples = {
            axis: make_samples(input.shape[axis], size) for axis, size in reversed(wanted.items()) if size != input.shape[axis]
        }
        if not samples:
            return input
        if mode == "nearest-neighbor":
            for axis, sample in samples.items():
                input = take(input, sample.nearest, axis)
            return input
        if data_type_of(input).is_integer:
            return _interpolate_integers(input, samples)
        return in_float32(_interpolate)(input, samples=samples, target=target)

    @staticmethod
    def to_tosa(
        t: Emitter,
        input: Tensor,
        mode: str,
        scales: Sequence[float] | None,
        sizes: Sequence[int] | None,
        axes: Sequence[int] | None,
    ) -> Tensor:
        axes = (2, 3) if axes is None else axes
        wanted = dict(zip(axes, output_sizes(input.shape, scales, sizes, axes), strict=True))
        resized = [axis for axis in reversed(wanted) if wanted[axis] != input.shape[axis]]
        nearest = mode == "nearest-neighbor"
        geometry = [_tosa_scale(input.shape[axis], wanted[axis], nearest) for axis in sorted(axes)]
        if resized and (nearest or input.is_float) and all(geometry):
            found = [values for values in geometry if values]
            return t.in_float32(lambda x: _tosa_resize(t, x, wanted, found, nearest), input)
        samples = {axis: make_samples(input.shape[axis], wanted[axis]) for axis in resized}
        if nearest:
            for axis, sample in samples.items():
                input = t.take(input, t.const(sample.nearest, "i32"), axis)
            return input
        if not input.is_float:
            return _tosa_interpolate_integers(t, input, samples)
        return t.in_float32(lambda x: _tosa_interpolate(t, x, samples), input)


def _tosa_scale(size: int, output: int, nearest: bool) -> tuple[int, int, int, int] | None:
    """RESIZE's scale (numerator, denominator), offset and border along an axis; None where they are out of its limits.

    Nearest rounds halves up; with four times finer coordinates, one step back, it rounds them down.
    """
    common = math.gcd(size, output)
    fine = 4 if nearest else 2
    numerator, denominator = fine * (output // common), fine * (size // common)
    offset = fine // 2 * (size - output) // common - nearest
    border = (output - 1) * denominator - (size - 1) * numerator + offset
    fits = (
        max(size, output) < 16384
        and numerator <= 2048
        and denominator < 16 * numerator
        and numerator <= 256 * denominator
        and -numerator <= offset < 16 * numerator
        and -16 * numerator <= border < numerator
    )
    return (numerator, denominator, offset, border) if fits else None


def _tosa_resize(
    t: Emitter, x: Tensor, wanted: dict[int, int], geometry: Sequence[tuple[int, int, int, int]], nearest: bool
) -> Tensor:
    """RESIZE resizes the second and third dimension."""
    height, width = sorted(wanted)
    batch, channel = (axis for axis in range(4) if axis not in wanted)
    order = (batch, height, width, channel)
    image = t.transpose(x, order)
    (ny, dy, oy, by), (nx, dx, ox, bx) = geometry
    operands = (image, t.shape([ny, dy, nx, dx]), t.shape([oy, ox]), t.shape([by, bx]))
    shape = (image.shape[0], wanted[height], wanted[width], image.shape[3])
    mode = "NEAREST_NEIGHBOR" if nearest else "BILINEAR"
    resized = t.op("resize", operands, image.element, shape, f"mode = #tosa.resize_mode<{mode}>", unsigned=x.unsigned)
    return t.transpose(resized, [order.index(axis) for axis in range(4)])


def _tosa_weighted(t: Emitter, x: Tensor, sample: Samples, axis: int, weights: tuple[Any, Any]) -> Tensor:
    parts = (t.take(x, t.const(indices, "i32"), axis) for indices in (sample.below, sample.above))
    first, second = (
        t.mul(part, t.along(t.const(weight, x.element), x.rank, axis)) for part, weight in zip(parts, weights, strict=True)
    )
    return t.add(first, second)


def _tosa_interpolate(t: Emitter, x: Tensor, samples: dict[int, Samples]) -> Tensor:
    for axis, sample in samples.items():
        x = _tosa_weighted(t, x, sample, axis, ((sample.whole - sample.part) / sample.whole, sample.part / sample.whole))
    return x


def _tosa_interpolate_integers(t: Emitter, input: Tensor, samples: dict[int, Samples]) -> Tensor:
    """As ``_interpolate_integers``, with INTDIV."""
    whole = math.prod(sample.whole for sample in samples.values())
    wide = t.widen_integer(input)
    shift = 0 if input.unsigned else 128
    wide = t.add(t.cast(wide, "i32" if whole <= 2**23 else "i64"), shift)
    for axis, sample in samples.items():
        wide = _tosa_weighted(t, wide, sample, axis, (sample.whole - sample.part, sample.part))
    quotient = t.binary("intdiv", wide, whole)
    twice = t.mul(t.sub(wide, t.mul(quotient, whole)), 2)
    up = t.compare("greater", t.add(twice, t.binary("bitwise_and", quotient, 1)), whole)
    rounded = t.sub(t.select(up, t.add(quotient, 1), quotient), shift)
    return t.narrow_integer(t.cast(rounded, "i32"), input)


def output_sizes(
    shape: Sequence[int], scales: Sequence[float] | None, sizes: Sequence[int] | None, axes: Sequence[int]
) -> list[int]:
    """New sizes of ``axes``: ``sizes`` where they are given, else floor(size * scale), of the exact product."""
    scales = (1.0, 1.0) if scales is None else scales
    require(len(scales) == 2, "scales", list(scales), "2 numbers")
    require(all(scale > 0 for scale in scales), "scales", list(scales), "numbers greater than 0")
    if sizes is not None:
        require(len(sizes) == 2, "sizes", list(sizes), "2 numbers")
        require(all(0 < size <= MAX_DIMENSION for size in sizes), "sizes", list(sizes), f"1 to {MAX_DIMENSION}")
        return list(sizes)
    result = []
    for axis, scale in zip(axes, scales, strict=True):
        numerator, denominator = float(scale).as_integer_ratio()
        size = shape[axis] * numerator // denominator
        if not 0 < size <= MAX_DIMENSION:
            reject(
                "scales", f"{list(scales)}, which make {size} of the size {shape[axis]} of axis {axis}", f"1 to {MAX_DIMENSION}"
            )
        result.append(size)
    return result


def take(input: Array, indices: Integers, axis: int) -> Array:
    """The slices of ``input`` at ``indices``, all in bounds and sorted, along ``axis``."""
    return lax.gather(
        input,
        indices.astype(np.int32)[:, None],
        lax.GatherDimensionNumbers(
            offset_dims=tuple(dimension for dimension in range(input.ndim) if dimension != axis),
            collapsed_slice_dims=(axis,),
            start_index_map=(axis,),
        ),
        slice_sizes=(*input.shape[:axis], 1, *input.shape[axis + 1 :]),
        indices_are_sorted=True,
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def _weighted(input: Array, sample: Samples, axis: int, weights: tuple[Any, Any]) -> Array:
    """The two neighbours of each output, each times its weight, added."""
    below, above = take(input, sample.below, axis), take(input, sample.above, axis)
    first, second = (broadcast_along(weight.astype(input.dtype), below.shape, (axis,)) for weight in weights)
    return lax.add(lax.mul(below, first), lax.mul(above, second))


def _interpolate(input: Array, samples: dict[int, Samples], target: Target) -> Array:
    # Where rows of pixels are contiguous, gathering them would be slow; where channels are, it is fast.
    interleaved = target.platform == "cpu" and input.ndim - 1 in samples
    for index, (axis, sample) in enumerate(samples.items()):
        if interleaved and can_interleave(input.shape[axis], sample.below):
            source = lax.optimization_barrier(input) if index else input
            input = interleave(source, axis, sample.below, sample.part, sample.whole)
            continue
        # Both weights from the exact fraction: 1 - weight would carry the rounding of the other.
        weights = ((sample.whole - sample.part) / sample.whole, sample.part / sample.whole)
        input = _weighted(input, sample, axis, weights)
    return input


def _interpolate_integers(input: Array, samples: dict[int, Samples]) -> Array:
    """Integer weights, one division at the end: exact, and the same on every backend."""
    whole = math.prod(sample.whole for sample in samples.values())
    # No sum is over 255 * whole.
    wide = lax.convert_element_type(input, np.int32 if whole <= 2**23 else np.int64)
    # Moved to 0 and up, so that division is a floor; the shift is even, so ties are the same.
    shift = -data_type_of(input).integer_range[0]
    wide = lax.add(wide, constant(shift, wide))
    for axis, sample in samples.items():
        wide = _weighted(wide, sample, axis, (sample.whole - sample.part, sample.part))
    quotient = lax.div(wide, constant(whole, wide))
    twice = lax.mul(lax.sub(wide, lax.mul(quotient, constant(whole, wide))), constant(2, wide))
    odd = lax.bitwise_and(quotient, constant(1, wide))
    # Up where the remainder is over a half, or is a half and the quotient odd: 2 * remainder + odd > whole.
    up = lax.convert_element_type(lax.gt(lax.add(twice, odd), constant(whole, wide)), wide.dtype)
    return narrow(lax.sub(lax.add(quotient, up), constant(shift, wide)), input)
