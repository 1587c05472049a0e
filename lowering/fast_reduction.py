"""Reductions of rows as XLA's CPU backend runs them fast: elements of a row go one by one, those of columns eight at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from jax import Array, lax

LANES: Final = 16
MIN_ROW: Final = 64
"""Shorter rows gain nothing."""


def can_split(x: Array) -> bool:
    """True for rows that are a multiple of the lanes."""
    return x.ndim > 0 and x.shape[-1] >= MIN_ROW and x.shape[-1] % LANES == 0


def reduce_rows(x: Array, start: float, combine: Callable[[Any, Any], Any]) -> Array:
    """``combine`` over the last dimension: first every 16th element together, then the 16 results."""
    last = x.ndim - 1
    lanes = lax.reshape(x, (*x.shape[:last], x.shape[last] // LANES, LANES))
    partial = lax.optimization_barrier(lax.reduce(lanes, np.asarray(start, x.dtype), combine, [last]))
    result: Array = lax.reduce(partial, np.asarray(start, x.dtype), combine, [last])
    return result
