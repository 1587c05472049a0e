"""Rounding to floats of 8 and 4 bits, which WebNN does not have: by comparison with the midpoints of the type's numbers."""

from __future__ import annotations

from functools import cache

import numpy as np

from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.types import FLOAT32, Array, DType
from webnn_xla.importers.onnx.values import Tensor


@cache
def _numbers(dtype: DType) -> Array:
    """All finite numbers of the type, in order, as float64."""
    bits = 4 if "float4" in dtype.name else 8
    raw = np.arange(2**bits, dtype=np.uint8).view(dtype)
    values = raw.astype(np.float64)
    return np.unique(values[np.isfinite(values)])


@cache
def _edges(dtype: DType) -> Array:
    """For each neighbouring pair, the smallest float32 that rounds to the upper one (ties to the even mantissa)."""
    numbers = _numbers(dtype)
    middles = (numbers[:-1] + numbers[1:]) / 2
    if "e8m0" in dtype.name:
        return middles.astype(np.float32)
    edges = []
    for middle, upper in zip(middles, numbers[1:], strict=True):
        rounds_up = float(np.float64(middle).astype(dtype)) == upper
        edge = np.float32(middle)
        edges.append(edge if rounds_up else np.nextafter(edge, np.float32(np.inf)))
    return np.array(edges, np.float32)


def round_to(n: Node, x: Tensor, dtype: DType, *, saturate: bool = True) -> Tensor:
    """``x`` as numbers of ``dtype``, held as float32. Out of range: the largest number, or NaN or infinity."""
    wide = n.cast_to(x, FLOAT32)
    numbers = _numbers(dtype)
    edges = n.const(_edges(dtype))
    passed = n.greater_or_equal(n.unsqueezed(wide, [wide.rank]), edges)
    index = n.reduce_sum(n.cast_to(passed, np.int32), axes=[wide.rank])
    rounded = n.gather(n.const(numbers.astype(np.float32)), index)
    top = float(numbers[-1])
    over = n.greater(n.abs(wide), _overflow(dtype, top))
    has_nan = bool(np.isnan(np.array([np.nan]).astype(dtype).astype(np.float32))[0])
    if not saturate:
        beyond = (
            n.mul(n.sign(wide), np.inf)
            if np.isinf(float(np.array(np.inf, np.float32).astype(dtype)))
            else n.const(np.nan, FLOAT32)
        )
        rounded = n.where(over, beyond, rounded)
    elif np.isinf(float(np.array(np.inf, np.float32).astype(dtype))):
        rounded = n.where(n.is_infinite(wide), n.mul(n.sign(wide), top), rounded)
    if has_nan:
        rounded = n.where(n.is_nan(wide), n.const(np.nan, FLOAT32), rounded)
    return n.retype(rounded, dtype)


def _overflow(dtype: DType, top: float) -> float:
    numbers = _numbers(dtype)
    return float(top + (numbers[-1] - numbers[-2]) / 2)
