"""Pooling as XLA's CPU backend runs it fast: one axis after the other, each a few shifted slices; or as a plain reduction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from jax import Array, lax

from webnn_xla.lowering.fast_reduction import reduce_axes
from webnn_xla.lowering.op import Target
from webnn_xla.lowering.window import SPATIAL, Window

MAX_TAPS: Final = 32
"""Taps along one axis, beyond which a ``reduce_window`` makes the shorter program."""

DOT_ELEMENTS: Final = 4096
"""Longest sum that is taken as a matrix product."""


def is_global(windows: Sequence[Window]) -> bool:
    """True where one window covers the whole image and nothing else."""
    return all(window.size == window.input and not window.before and not window.after for window in windows)


def can_slice(windows: Sequence[Window]) -> bool:
    return all(window.size <= MAX_TAPS for window in windows)


def reduce_all(input: Array, start: float, combine: Callable[[Array, Array], Array], layout: str, target: Target) -> Array:
    """One window over all of height and width, which stay with size 1."""
    axes = [layout.index(axis) for axis in SPATIAL]
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(input.shape))
    count = input.shape[axes[0]] * input.shape[axes[1]]
    if combine is lax.add and axes == [2, 3] and count <= DOT_ELEMENTS and input.dtype == np.float32:
        rows = lax.reshape(input, (input.shape[0], input.shape[1], count))
        ones = lax.full((count,), np.asarray(1, input.dtype), input.dtype)
        total = lax.dot_general(rows, ones, (((2,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)
        return lax.reshape(total, shape)

    def reduce(x: Array, over: Sequence[int]) -> Array:
        result: Array = lax.reduce(x, np.asarray(start, x.dtype), combine, tuple(over))
        return result

    return lax.reshape(reduce_axes(input, axes, reduce, combine, target), shape)


def reduce_by_slices(
    input: Array,
    start: float,
    combine: Callable[[Array, Array], Array],
    windows: Sequence[Window],
    sizes: Sequence[int],
    layout: str,
) -> Array:
    """``combine`` over the windows of height, and of the results over those of width; padding has the value ``start``."""
    config = [(0, 0, 0)] * 4
    for axis, window, size in zip(SPATIAL, windows, sizes, strict=True):
        config[layout.index(axis)] = (*window.padding(size), 0)
    if any(low or high for low, high, _ in config):
        # In memory: fused into what reads it, padding would be a condition for every element.
        input = _barrier(lax.pad(input, np.asarray(start, input.dtype), config))
    for axis, window, size in zip(SPATIAL, windows, sizes, strict=True):
        dimension = layout.index(axis)
        parts = [
            lax.slice_in_dim(input, first, first + (size - 1) * window.stride + 1, window.stride, dimension)
            for first in range(0, window.size * window.dilation, window.dilation)
        ]
        input = parts[0]
        for part in parts[1:]:
            input = combine(input, part)
        if axis == "h" and window.size > 1:
            # Otherwise XLA computes the rows again for each tap of the width.
            input = _barrier(input)
    return input


def _barrier(x: Array) -> Any:
    return lax.optimization_barrier(x)
