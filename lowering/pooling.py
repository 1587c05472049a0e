"""Pooling: average, L2 norm and maximum of the window of the input under each output.

Padding is not part of a window: the average counts only what is in the input, the maximum never is a padded value. A
window that lies wholly in padding gives 0 (average, L2), or the smallest value of the type (maximum: -infinity).
float16 is accumulated in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor
from webnn_xla.lowering import tosa_windows
from webnn_xla.lowering.fast_pooling import can_slice, is_global, reduce_all, reduce_by_slices
from webnn_xla.lowering.kinds import UINT32S, choice
from webnn_xla.lowering.op import ANY, FLOATS, Op, Operand, Option, Output, Same, Target, Tolerance, reject
from webnn_xla.lowering.primitives import broadcast_along, constant, data_type_of, in_float32
from webnn_xla.lowering.tosa import Emitter, Tensor
from webnn_xla.lowering.window import (
    SPATIAL,
    Window,
    by_letter,
    make_windows,
    require_length,
    require_output,
    require_positive,
)

Integers = Sequence[int]


@dataclass(frozen=True)
class Pool:
    """What the options of a pooling op mean for one input shape: windows and output sizes along ``h`` and ``w``.

    The windows are trimmed: a window over the whole padded input is one over the whole input.
    """

    layout: str
    windows: tuple[Window, Window]
    sizes: tuple[int, ...]

    def shape(self, input: Sequence[int]) -> list[int]:
        """Shape of the output."""
        by_name = by_letter(self.layout, input) | dict(zip(SPATIAL, self.sizes, strict=True))
        return [by_name[letter] for letter in self.layout]

    def per_dimension(self, values: Sequence[Any], other: Any) -> list[Any]:
        """``values`` of ``h`` and ``w`` at their dimensions, ``other`` at the rest."""
        by_name = dict(zip(SPATIAL, values, strict=True))
        return [by_name.get(letter, other) for letter in self.layout]

    @property
    def padding(self) -> list[tuple[int, int]]:
        """Padding along ``h`` and ``w`` that makes a ``reduce_window`` give exactly ``sizes``."""
        return [window.padding(size) for window, size in zip(self.windows, self.sizes, strict=True)]


def make_pool(
    shape: Sequence[int],
    window_dimensions: Integers | None,
    padding: Integers | None,
    strides: Integers | None,
    dilations: Integers | None,
    layout: str,
    output_shape_rounding: str,
    output_sizes: Integers | None,
) -> Pool:
    """Checks the options as the specification does, and works out the geometry."""
    image = by_letter(layout, shape)
    taps = (image["h"], image["w"]) if window_dimensions is None else window_dimensions
    require_length("window_dimensions", taps, 2)
    require_positive("window_dimensions", taps)
    windows = make_windows(image, dict(zip(SPATIAL, taps, strict=True)), padding, strides, dilations)
    floor = tuple(window.positions for window in windows)
    ceil = tuple(window.positions_ceil for window in windows)
    if output_sizes is None:
        sizes, name = ceil if output_shape_rounding == "ceil" else floor, "window_dimensions"
    else:
        # The text of the specification zeroes the padding here and wants sizes less than the strides; browsers and the
        # platform tests do neither.
        require_length("output_sizes", output_sizes, 2)
        sizes, name = tuple(output_sizes), "output_sizes"
        if sizes not in (floor, ceil):
            reject(name, list(sizes), f"{list(floor)} (rounded down)" + (f" or {list(ceil)} (up)" if ceil != floor else ""))
    for axis, window, size in zip(SPATIAL, windows, sizes, strict=True):
        require_output(axis, window, size, name)
    height, width = (window.trimmed(size) for window, size in zip(windows, sizes, strict=True))
    return Pool(layout, (height, width), sizes)


class Pooling(Op, abstract=True):
    input = Operand(FLOATS, (4, 4), required=FLOATS, required_ranks=(4, 4), doc="Image, in layout.")
    window_dimensions = Option(UINT32S, None, "[height, width]. By default those of the input (global pooling).")
    padding = Option(UINT32S, None, "[before height, after height, before width, after width]. By default zeros.")
    strides = Option(UINT32S, None, "[height, width]. By default ones.")
    dilations = Option(UINT32S, None, "[height, width] between the elements of a window. By default ones.")
    layout = Option(choice("nchw", "nhwc"), "nchw", "Of the input and the output.")
    output_shape_rounding = Option(choice("floor", "ceil"), "floor", "ceil: the last windows may reach beyond the padding.")
    output_sizes = Option(UINT32S, None, "[height, width], both rounded down or both up; the rounding is then ignored.")
    output = Output(Same("input"), (4, 4), required=FLOATS, required_ranks=(4, 4))

    @staticmethod
    def infer(input: Descriptor, **options: Any) -> Descriptor:
        return input.with_shape(make_pool(input.shape, **options).shape(input.shape))


class AveragePool2d(Pooling):
    """Mean of each window. Padding is not counted: of ones it is one everywhere; 0 where a window is all padding.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pool2d-average.
    """

    section = "#api-mlgraphbuilder-pool2d-average"
    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "AVG_POOL2D TRANSPOSE SLICE ADD MUL PAD RESHAPE"
    tosa_note = "dilations, and windows wholly in padding: sums of slices; windows and strides up to 8192"
    stablehlo = "add broadcast_in_dim divide multiply reduce_window"

    @staticmethod
    def lower(input: Array, target: Target, **options: Any) -> Array:
        return in_float32(_average)(input, pool=make_pool(input.shape, **options), target=target)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, **options: Any) -> Tensor:
        pool = make_pool(input.shape, **options)
        return t.in_float32(lambda x: tosa_windows.average(t, x, pool.layout, pool.windows, pool.sizes), input)


class L2Pool2d(Pooling):
    """Square root of the sum of squares of each window. 0 where a window is all padding.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pool2d-l2.
    """

    section = "#api-mlgraphbuilder-pool2d-l2"
    tolerance = Tolerance(3, 1, reduction=True)
    tosa = "MUL AVG_POOL2D RSQRT RECIPROCAL TRANSPOSE PAD SLICE ADD RESHAPE"
    tosa_note = "the average of the padded squares times the size of the window; dilations: sums of slices"
    stablehlo = "add broadcast_in_dim multiply reduce_window sqrt"

    @staticmethod
    def lower(input: Array, target: Target, **options: Any) -> Array:
        return in_float32(_l2)(input, pool=make_pool(input.shape, **options), target=target)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, **options: Any) -> Tensor:
        pool = make_pool(input.shape, **options)
        return t.in_float32(lambda x: tosa_windows.l2(t, x, pool.layout, pool.windows, pool.sizes), input)


class MaxPool2d(Pooling):
    """Greatest value of each window. NaN in a window gives NaN; max(-0, 0) is 0.

    Where a window is all padding it is -infinity, or the smallest integer.
    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pool2d-max.
    """

    section = "#api-mlgraphbuilder-pool2d-max"
    input = Operand(ANY, (4, 4), required=FLOATS, required_ranks=(4, 4), doc="Image, in layout.")
    tosa = "MAX_POOL2D TRANSPOSE SLICE MAXIMUM PAD RESHAPE"
    tosa_note = "dilations, and integers but int8 and uint8: MAXIMUM of slices"
    stablehlo = "broadcast_in_dim maximum reduce_window"

    @staticmethod
    def lower(input: Array, target: Target, **options: Any) -> Array:
        data_type = data_type_of(input)
        smallest = -np.inf if data_type.is_float else data_type.integer_range[0]
        return _reduce(input, smallest, lax.max, make_pool(input.shape, **options), target)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, **options: Any) -> Tensor:
        pool = make_pool(input.shape, **options)
        return tosa_windows.maximum(t, input, pool.layout, pool.windows, pool.sizes)


def _reduce(input: Array, start: float, combine: Callable[[Array, Array], Array], pool: Pool, target: Target) -> Array:
    """``combine`` over each window, where padding has the value ``start``."""
    if target.platform == "cpu":
        if is_global(pool.windows):
            return reduce_all(input, start, combine, pool.layout, target)
        if can_slice(pool.windows):
            return reduce_by_slices(input, start, combine, pool.windows, pool.sizes, pool.layout)
    reduced: Array = lax.reduce_window(
        input,
        np.asarray(start, input.dtype),
        combine,
        window_dimensions=pool.per_dimension([window.size for window in pool.windows], 1),
        window_strides=pool.per_dimension([window.stride for window in pool.windows], 1),
        padding=pool.per_dimension(pool.padding, (0, 0)),
        window_dilation=pool.per_dimension([window.dilation for window in pool.windows], 1),
    )
    return reduced


def _average(input: Array, pool: Pool, target: Target) -> Array:
    total = _reduce(input, 0, lax.add, pool, target)
    counts = [window.counts(size) for window, size in zip(pool.windows, pool.sizes, strict=True)]
    if all((count == window.size).all() for count, window in zip(counts, pool.windows, strict=True)):
        return lax.div(total, constant(pool.windows[0].size * pool.windows[1].size, total))
    # A window that is all padding has the sum 0, and 0 / 1 is 0.
    rows, columns = (np.maximum(count, 1).astype(total.dtype) for count in counts)
    height, width = (pool.layout.index(axis) for axis in SPATIAL)
    area = lax.mul(broadcast_along(rows, pool.sizes, (0,)), broadcast_along(columns, pool.sizes, (1,)))
    return lax.div(total, broadcast_along(area, total.shape, (height, width)))


def _l2(input: Array, pool: Pool, target: Target) -> Array:
    return lax.sqrt(_reduce(lax.mul(input, input), 0, lax.add, pool, target))
