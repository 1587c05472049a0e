"""Reference of resampling: the specification's formulas, in exact fractions where they decide or are integers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from webnn_xla.conformance.reference import Array, Case, Rng, Scaled, numbers, reference, special
from webnn_xla.dtypes import MLOperandDataType

GEOMETRIES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 4, 6), {}),
    ((1, 1, 2, 3), {"scales": (2, 2)}),
    ((2, 3, 4, 6), {"sizes": (2, 3)}),
    ((2, 3, 4, 6), {"sizes": (7, 11)}),
    ((2, 3, 4, 6), {"scales": (0.5, 3.3)}),
    ((2, 3, 4, 6), {"scales": (0.5, 0.5), "sizes": (8, 3)}),
    ((2, 3, 4, 6), {"sizes": (4, 9)}),
    ((2, 5, 7, 2), {"scales": (1.3, 0.7), "axes": (1, 2)}),
    ((2, 5, 7, 2), {"sizes": (3, 12), "axes": (2, 1)}),
    ((2, 3, 2, 5), {"sizes": (4, 2), "axes": (3, 0)}),
    ((3, 2, 1, 1), {"sizes": (4, 6), "axes": (1, 0)}),
    ((1, 1, 1, 1), {"sizes": (3, 5)}),
    ((1, 1, 13, 9), {"sizes": (1, 1)}),
    ((1, 2, 29, 31), {"sizes": (17, 64)}),
    ((1, 1, 1, 10), {"scales": (1, 0.7)}),
]


def _cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    for shape, options in GEOMETRIES:
        for mode in ({}, {"mode": "linear"}):
            yield Case({"input": numbers(data_type, rng, shape, -200, 200)}, {**options, **mode})
    corner = np.resize(special(data_type), (1, 1, 5, 6))
    yield Case({"input": corner}, {"sizes": (7, 3)}, note="corner values")
    if data_type.is_integer:
        yield Case({"input": corner}, {"sizes": (9, 8), "mode": "linear"}, note="corner values")
        every = np.arange(*np.add(data_type.integer_range, (0, 1))).reshape(1, 1, 16, 16)
        yield Case({"input": every}, {"sizes": (24, 40), "mode": "linear"}, note="ties")


def _coordinates(input_size: int, output_size: int) -> list[Fraction]:
    scale = Fraction(output_size, input_size)
    half = Fraction(1, 2)
    return [min(max((at + half) / scale - half, Fraction(0)), Fraction(input_size - 1)) for at in range(output_size)]


@reference("resample2d", _cases)
def resample2d(
    input: Array, mode: str, scales: Sequence[float] | None, sizes: Sequence[int] | None, axes: Sequence[int] | None
) -> Array | Scaled:
    axes = axes or (2, 3)
    exact = [Fraction(float(np.float32(scale))) for scale in scales or (1, 1)]
    sizes = sizes or [math.floor(input.shape[axis] * scale) for axis, scale in zip(axes, exact, strict=True)]
    lines = {axis: _coordinates(input.shape[axis], size) for axis, size in zip(axes, sizes, strict=True)}
    if mode == "nearest-neighbor":
        for axis, line in lines.items():
            input = input.take([math.ceil(at - Fraction(1, 2)) for at in line], axis)
        return input
    if input.dtype.kind == "f":
        return Scaled(_linear(input, lines), _linear(np.abs(input), lines))
    total = _linear(input.astype(object), lines, exact=True)
    return np.array([round(value) for value in total.flat], input.dtype).reshape(total.shape)


def _linear(input: Array, lines: dict[int, list[Fraction]], *, exact: bool = False) -> Array:
    for axis, line in lines.items():
        parts: Any = [at - math.floor(at) for at in line]
        share = np.array(parts, object if exact else np.float64)
        share = share.reshape([-1 if dimension == axis else 1 for dimension in range(input.ndim)])
        below = input.take([math.floor(at) for at in line], axis)
        above = input.take([math.ceil(at) for at in line], axis)
        input = below * (1 - share) + above * share
    return input
