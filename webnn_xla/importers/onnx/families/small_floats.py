"""Rounding to floats of 8 and 4 bits, which WebNN does not have: by comparison with where neighbouring numbers part."""

from __future__ import annotations

from functools import cache

import numpy as np

from webnn_xla.importers.onnx.emitter import Emitter
from webnn_xla.importers.onnx.errors import Malformed
from webnn_xla.importers.onnx.types import FLOAT32, Array, DType
from webnn_xla.importers.onnx.values import Tensor


@cache
def _numbers(dtype: DType) -> Array:
    """All finite numbers of the type, in order, as float64."""
    bits = 4 if "float4" in dtype.name else 8
    values = np.arange(2**bits, dtype=np.uint8).view(dtype).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


@cache
def _edges(dtype: DType, mode: str) -> Array:
    """For each neighbouring pair, the smallest float32 that rounds to the upper one."""
    numbers = _numbers(dtype)
    lower, upper = numbers[:-1].astype(np.float32), numbers[1:].astype(np.float32)
    if mode == "up":
        return np.nextafter(lower, np.float32(np.inf))
    if mode == "down":
        return upper
    middles = ((numbers[:-1] + numbers[1:]) / 2).astype(np.float32)
    # Ties go to the even mantissa, as the type's own conversion has it.
    rounds_up = middles.astype(dtype).astype(np.float32) == upper
    return np.where(rounds_up | ("e8m0" in dtype.name), middles, np.nextafter(middles, np.float32(np.inf)))


def _special(dtype: DType, value: float) -> float:
    return float(np.array(value, np.float32).astype(dtype).astype(np.float32))


def round_to(n: Emitter, x: Tensor, dtype: DType, *, saturate: bool = True, mode: str = "") -> Tensor:
    """``x`` as numbers of ``dtype``, held as float32. Out of range: the largest number, or NaN or infinity.

    ``mode`` is "up", "down" or "nearest"; by default "up" for the type that is an exponent only.
    """
    exponent = "e8m0" in dtype.name
    mode = mode or ("up" if exponent else "nearest")
    if mode not in ("up", "down", "nearest"):
        raise Malformed(f"round_mode {mode!r}; ONNX has up, down and nearest")
    wide = n.cast_to(x, FLOAT32)
    numbers = _numbers(dtype)
    passed = n.greater_or_equal(n.unsqueezed(wide, [wide.rank]), n.const(_edges(dtype, mode if exponent else "nearest")))
    index = n.reduce_sum(n.cast_to(passed, np.int32), axes=[wide.rank])
    rounded = n.gather(n.const(numbers.astype(np.float32)), index)
    top = float(numbers[-1])
    infinite = np.isinf(_special(dtype, np.inf))
    if not saturate:
        over = n.greater(n.abs(wide), float(top + (numbers[-1] - numbers[-2]) / 2))
        beyond = n.mul(n.sign(wide), np.inf) if infinite else n.const(np.nan, FLOAT32)
        rounded = n.where(over, beyond, rounded)
    elif infinite:
        rounded = n.where(n.is_infinite(wide), n.mul(n.sign(wide), top), rounded)
    return n.retype(n.where(n.is_nan(wide), n.const(_special(dtype, np.nan), FLOAT32), rounded), dtype)
