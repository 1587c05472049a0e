"""Linear resampling as XLA's CPU backend runs it fast: whole multiples of a size by shifted slices, without a gather."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from jax import Array, lax

Integers = np.ndarray[Any, np.dtype[np.int64]]

MAX_FACTOR: Final = 8


def can_interleave(input: int, below: Integers) -> bool:
    """True where each of the outputs of one input pixel lies at the same distance from it, but for the clamped borders."""
    factor = len(below) // input
    if input < 3 or len(below) % input or not 2 <= factor <= MAX_FACTOR:
        return False
    shifts = [_shift(below, factor, phase) for phase in range(factor)]
    return set(shifts) <= {-1, 0} and all(
        np.array_equal(below[phase::factor], _clamped(input, shift)) for phase, shift in enumerate(shifts)
    )


def interleave(x: Array, axis: int, below: Integers, part: Integers, whole: int) -> Array:
    """``x`` at ``below + part / whole`` along ``axis``: every factor-th output is one weighted sum of two slices."""
    size = x.shape[axis]
    factor = len(below) // size
    neighbours = {0: x}
    phases = []
    for phase in range(factor):
        shift = _shift(below, factor, phase)
        # At the borders both neighbours are the same pixel, so that the weights of the inside do.
        weight = int(part[phase::factor][size // 2])
        # What has no weight is not read: 0 * infinity would be NaN.
        for step in (shift, shift + 1)[: 2 if weight else 1]:
            if step not in neighbours:
                neighbours[step] = _shifted(x, axis, step)
        mixed = low = neighbours[shift]
        if weight:
            high = neighbours[shift + 1]
            mixed = lax.add(
                lax.mul(low, lax.full_like(low, (whole - weight) / whole)), lax.mul(high, lax.full_like(high, weight / whole))
            )
        phases.append(lax.expand_dims(mixed, (axis + 1,)))
    shape = (*x.shape[:axis], size * factor, *x.shape[axis + 1 :])
    return lax.reshape(lax.concatenate(phases, axis + 1), shape)


def _shifted(x: Array, axis: int, step: int) -> Array:
    """``x`` from one element before (-1) or after (1), which the border has again."""
    size = x.shape[axis]
    if step < 0:
        parts = [lax.slice_in_dim(x, 0, 1, axis=axis), lax.slice_in_dim(x, 0, size - 1, axis=axis)]
    else:
        parts = [lax.slice_in_dim(x, 1, size, axis=axis), lax.slice_in_dim(x, size - 1, size, axis=axis)]
    return lax.concatenate(parts, axis)


def _shift(below: Integers, factor: int, phase: int) -> int:
    """Which neighbour is below, counted from the pixel itself; read in the middle, where nothing is clamped."""
    middle = (len(below) // factor) // 2
    return int(below[phase::factor][middle]) - middle


def _clamped(size: int, shift: int) -> Integers:
    return np.clip(np.arange(size, dtype=np.int64) + shift, 0, size - 1)
