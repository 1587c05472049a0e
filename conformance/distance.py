"""Distances between arrays as the WPT suite measures them: bit patterns (ULP) or absolute difference (ATOL)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from webnn_xla.dtypes import MLOperandDataType

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Mismatch:
    """The worst element out of tolerance: its position, what was got and wanted, and how far apart they are."""

    position: tuple[int, ...]
    got: Any
    want: Any
    distance: float
    allowed: float
    metric: str
    count: int
    size: int

    def __str__(self) -> str:
        element = f"element {list(self.position)}" if self.position else "element"
        others = f"; {self.count} of {self.size} elements are off" if self.count > 1 else ""
        return (
            f"{element}: got {self.got}, wanted {self.want}, distance {self.distance:g} {self.metric}, "
            f"allowed {self.allowed:g}{others}"
        )


def mismatch(got: Array, want: Array, metric: str, allowed: float, *, signed_zero: bool = False) -> Mismatch | None:
    """The worst element of ``got`` that is further from ``want`` than allowed, or None.

    Both have one type and shape. Equal values, and NaN with NaN, are at distance 0. With ``signed_zero``, zeros of
    different sign do not count as equal.
    """
    data_type = MLOperandDataType.of(got.dtype)
    different = got != want
    if data_type.is_float:
        different &= ~(np.isnan(got) & np.isnan(want))
        if signed_zero:
            different |= (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    places = np.flatnonzero(different)
    if not places.size:
        return None
    some_got, some_want = got.reshape(-1)[places], want.reshape(-1)[places]
    distances = ulp_distance(some_got, some_want) if metric == "ULP" else absolute_distance(some_got, some_want)
    off = distances > allowed
    if signed_zero:
        # Their distance is 0 by either metric.
        off |= (some_got == 0) & (some_want == 0)
        distances = np.where(off, np.maximum(distances, 1), distances)
    count = int(off.sum())
    if not count:
        return None
    worst = int(distances.argmax())
    position = tuple(int(i) for i in np.unravel_index(places[worst], got.shape))
    return Mismatch(position, some_got[worst], some_want[worst], float(distances[worst]), allowed, metric, count, got.size)


def ulp_distance(got: Array, want: Array) -> Array:
    """How many numbers of the type lie between: the difference of integers, or of the bit patterns of floats.

    float32 patterns are ordered by sign and magnitude, +0 = -0. float16 patterns are compared as unsigned 16-bit
    integers, so that numbers of different sign are far apart, as in the suite. NaN is infinitely far from all else.
    """
    data_type = MLOperandDataType.of(got.dtype)
    if data_type.is_integer:
        return _integer_distance(got, want)
    signed = np.dtype(f"int{data_type.bits}")
    magnitude = 2 ** (data_type.bits - 1) - 1

    def order(values: Array) -> Array:
        bits = np.ascontiguousarray(values).view(signed).astype(np.int64)
        if data_type is MLOperandDataType.FLOAT16:
            return np.where(values == 0, 0, bits & 0xFFFF)
        return np.where(bits < 0, -(bits & magnitude), bits)

    distance = np.abs(order(got) - order(want)).astype(np.float64)
    return np.where(np.isnan(got) | np.isnan(want), np.inf, distance)


def absolute_distance(got: Array, want: Array) -> Array:
    """``|got - want|``, exact for integers, in float64 for floats. NaN is infinitely far from all else."""
    if MLOperandDataType.of(got.dtype).is_integer:
        return _integer_distance(got, want)
    with np.errstate(invalid="ignore"):
        distance = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return np.where(np.isnan(distance), np.inf, distance)


def _integer_distance(got: Array, want: Array) -> Array:
    if MLOperandDataType.of(got.dtype).bits == 4:
        got, want = got.astype(np.int64), want.astype(np.int64)
    # Modulo 2**64 the difference of the larger and the smaller is exact, whatever their type.
    return np.maximum(got, want).astype(np.uint64) - np.minimum(got, want).astype(np.uint64)
