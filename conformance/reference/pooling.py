"""References of pooling: every window is cut out of the input, and reduced by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from webnn_xla.conformance.reference import Array, Case, Cases, Rng, Scaled, numbers, reference, special
from webnn_xla.dtypes import MLOperandDataType

BIG = 2**32 - 1

GEOMETRIES: list[tuple[tuple[int, int], dict[str, Any]]] = [
    ((5, 4), {}),
    ((1, 1), {}),
    ((5, 5), {"padding": (1, 0, 0, 1)}),
    ((5, 6), {"window_dimensions": (3, 2)}),
    ((5, 6), {"window_dimensions": (3, 2), "strides": (2, 3)}),
    ((5, 6), {"window_dimensions": (3, 3), "padding": (1, 1, 2, 0), "strides": (2, 1)}),
    ((7, 9), {"window_dimensions": (3, 2), "dilations": (2, 3)}),
    ((7, 9), {"window_dimensions": (3, 2), "dilations": (2, 3), "padding": (1, 2, 3, 4), "strides": (2, 2)}),
    ((7, 9), {"window_dimensions": (3, 3), "dilations": (3, 4), "padding": (2, 2, 5, 5), "strides": (1, 2)}),
    ((4, 4), {"window_dimensions": (3, 3), "strides": (2, 2), "output_shape_rounding": "ceil"}),
    ((5, 5), {"window_dimensions": (3, 3), "padding": (1, 0, 0, 1), "strides": (2, 2), "output_shape_rounding": "floor"}),
    ((5, 5), {"window_dimensions": (3, 3), "padding": (1, 0, 0, 1), "strides": (2, 2), "output_shape_rounding": "ceil"}),
    ((7, 7), {"window_dimensions": (4, 4), "padding": (1, 1, 1, 1), "strides": (2, 2), "output_sizes": (3, 3)}),
    ((7, 7), {"window_dimensions": (4, 4), "padding": (1, 1, 1, 1), "strides": (2, 2), "output_sizes": (4, 4)}),
    ((5, 5), {"window_dimensions": (3, 3), "strides": (2, 2), "output_sizes": (2, 2), "output_shape_rounding": "ceil"}),
    # Windows wholly in padding; beyond it, which only rounding up makes; and larger than the input.
    ((2, 3), {"window_dimensions": (2, 2), "padding": (3, 2, 0, 4), "strides": (2, 2)}),
    ((5, 5), {"window_dimensions": (3, 3), "padding": (1, 1, 1, 1), "strides": (3, 3), "output_shape_rounding": "ceil"}),
    ((4, 4), {"window_dimensions": (1, 1), "padding": (0, 2, 0, 2), "strides": (3, 3), "output_shape_rounding": "ceil"}),
    ((2, 2), {"window_dimensions": (3, 5), "strides": (2, 4), "output_shape_rounding": "ceil"}),
    ((2, 3), {"window_dimensions": (5, 7), "padding": (2, 2, 3, 3)}),
    ((1, 6), {"window_dimensions": (1, 3), "strides": (BIG, 2), "dilations": (BIG, 1)}),
    ((40, 33), {}),
]


def _cases(low: float, high: float) -> Cases:
    def cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
        for index, (size, options) in enumerate(GEOMETRIES):
            batches, channels = ((2, 3), (1, 1), (3, 2))[index % 3]
            if index % 2:
                yield Case({"input": numbers(data_type, rng, (batches, channels, *size), low, high)}, options)
            else:
                values = numbers(data_type, rng, (batches, *size, channels), low, high)
                yield Case({"input": values}, {**options, "layout": "nhwc"})
        corner = special(data_type)
        square = np.resize(corner, (2, 3, 5, 5))
        yield Case({"input": square}, {"window_dimensions": (2, 2), "padding": (1, 1, 1, 1)}, note="corner values")
        yield Case({"input": square}, {"window_dimensions": (1, 1)}, note="corner values, one by one")

    return cases


def _pooled(
    input: Array,
    window_dimensions: Sequence[int] | None,
    padding: Sequence[int] | None,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    layout: str,
    output_shape_rounding: str,
    output_sizes: Sequence[int] | None,
    reduce: Callable[[Array], Any],
) -> Array:
    """``reduce`` of the elements in the input under each window, [batch, channel, element]; there may be none."""
    image = input if layout == "nchw" else input.transpose(0, 3, 1, 2)
    extent = image.shape[2:]
    taps, gaps, steps = window_dimensions or extent, dilations or (1, 1), strides or (1, 1)
    pads = padding or (0, 0, 0, 0)
    columns = []
    for i in (0, 1):
        room = extent[i] + pads[2 * i] + pads[2 * i + 1] - (taps[i] - 1) * gaps[i] - 1
        size = 1 + Fraction(room, steps[i])
        positions = (
            output_sizes[i] if output_sizes else math.ceil(size) if output_shape_rounding == "ceil" else math.floor(size)
        )
        starts = [position * steps[i] - pads[2 * i] for position in range(positions)]
        columns.append(
            [[at for at in (start + tap * gaps[i] for tap in range(taps[i])) if 0 <= at < extent[i]] for start in starts]
        )
    rows = [
        np.stack([reduce(image[:, :, ys][:, :, :, xs].reshape(*image.shape[:2], len(ys) * len(xs))) for xs in columns[1]], -1)
        for ys in columns[0]
    ]
    result = np.stack(rows, -2)
    return result if layout == "nchw" else result.transpose(0, 2, 3, 1)


@reference("average_pool2d", _cases(-8, 8))
def average_pool2d(input: Array, **options: Any) -> Scaled:
    def mean(window: Array) -> Array:
        return window.mean(-1) if window.shape[-1] else np.zeros(window.shape[:-1])

    return Scaled(_pooled(input, **options, reduce=mean), _pooled(np.abs(input), **options, reduce=mean))


@reference("l2_pool2d", _cases(-8, 8))
def l2_pool2d(input: Array, **options: Any) -> Array:
    return _pooled(input, **options, reduce=lambda window: np.sqrt((window * window).sum(-1)))


@reference("max_pool2d", _cases(-100, 100))
def max_pool2d(input: Array, **options: Any) -> Array:
    smallest = -np.inf if input.dtype.kind == "f" else np.iinfo(input.dtype).min

    def greatest(window: Array) -> Array:
        return window.max(-1) if window.shape[-1] else np.full(window.shape[:-1], smallest, input.dtype)

    return _pooled(input, **options, reduce=greatest)
