"""Reductions of rows as XLA's CPU backend runs them fast.

A sum over the last dimension goes through the elements of a row one by one, since floats are added in order; one over
another dimension takes as many columns at once as a register holds. So a row is folded into columns first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from jax import Array, lax

from webnn_xla.lowering.op import Target

LANES: Final = 32
"""Columns that a long row is folded into: four registers, so that their sums do not wait for each other."""

FEW_LANES: Final = 8
"""The same of a short row."""

SHORT: Final = 2 * LANES
MIN_ROW: Final = 4 * FEW_LANES
"""Shorter rows gain nothing."""

Reduce = Callable[[Array, Sequence[int]], Any]
Combine = Callable[[Any, Any], Any]


def reduce_axes(x: Array, axes: Sequence[int], reduce: Reduce, combine: Combine, target: Target) -> Array:
    """``reduce`` (such as ``lax.reduce_sum``) over ``axes``, sorted; ``combine`` (such as ``lax.add``) is that of two elements.

    For CPU, the last dimensions, where they are among ``axes``, are one row, whose elements are taken in another order.
    """
    first = x.ndim
    while first - 1 in axes:
        first -= 1
    count = math.prod(x.shape[first:])
    if target.platform != "cpu" or first == x.ndim or count < MIN_ROW:
        result: Array = reduce(x, axes)
        return result
    leading = [axis for axis in axes if axis < first]
    if leading:
        x = reduce(x, leading)
    return _reduce_rows(lax.reshape(x, (*x.shape[: first - len(leading)], count)), reduce, combine)


def _reduce_rows(x: Array, reduce: Reduce, combine: Combine) -> Array:
    """``reduce`` over the last dimension: the columns of the folded row, the row that they make, and what did not fill one."""
    last, size = x.ndim - 1, x.shape[-1]
    lanes = LANES if size >= SHORT else FEW_LANES
    folded = size - size % lanes
    whole = x if folded == size else lax.slice_in_dim(x, 0, folded, axis=last)
    columns = reduce(lax.reshape(whole, (*x.shape[:last], folded // lanes, lanes)), [last])
    # Without the barrier, XLA makes one reduction of the two again.
    result: Array = reduce(lax.optimization_barrier(columns), [last])
    if folded < size:
        result = combine(result, reduce(lax.slice_in_dim(x, folded, size, axis=last), [last]))
    return result
