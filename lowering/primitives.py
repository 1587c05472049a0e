"""Small pieces that lowerings share. ``jax.lax`` only, and broadcasting is always explicit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor, MLOperandDataType, Shape
from webnn_xla.lowering.op import reject


def constant(value: Any, like: Array, shape: Sequence[int] | None = None) -> Array:
    """``value`` in the type of ``like``, filling ``shape`` (by default that of ``like``)."""
    return lax.full(like.shape if shape is None else tuple(shape), np.asarray(value, like.dtype), like.dtype)


def broadcast_to(x: Array, shape: Sequence[int]) -> Array:
    """``x`` broadcast to ``shape``, dimensions aligned at the last."""
    shape = tuple(shape)
    if x.shape == shape:
        return x
    offset = len(shape) - x.ndim
    return lax.broadcast_in_dim(x, shape, tuple(range(offset, len(shape))))


def broadcast_along(x: Array, shape: Sequence[int], axes: Sequence[int]) -> Array:
    """``x`` broadcast to ``shape``, its dimensions placed at ``axes``, in order."""
    return lax.broadcast_in_dim(x, tuple(shape), tuple(axes))


def broadcast_all(*arrays: Array) -> tuple[Array, ...]:
    """All arrays, broadcast to their common shape."""
    shape: tuple[int, ...] = ()
    for array in arrays:
        shape = broadcast_shapes(shape, array.shape)
    return tuple(broadcast_to(array, shape) for array in arrays)


def broadcast_shapes(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The specification's "bidirectionally broadcast the shapes"; ValueError if they do not fit."""
    rank = max(len(a), len(b))
    padded_a = (1,) * (rank - len(a)) + tuple(a)
    padded_b = (1,) * (rank - len(b)) + tuple(b)
    for x, y in zip(padded_a, padded_b, strict=True):
        if x != y and x != 1 and y != 1:
            raise ValueError(f"shapes {list(a)} and {list(b)} do not broadcast")
    return tuple(max(x, y) for x, y in zip(padded_a, padded_b, strict=True))


def common_shape(first: Descriptor, second: Descriptor, name: str) -> Shape:
    """The broadcast shape of two operands, or a rejection of the operand ``name`` (the second)."""
    try:
        return Shape(broadcast_shapes(first.shape, second.shape))
    except ValueError:
        reject(name, f"shape {list(second.shape)}", f"a shape that broadcasts with {list(first.shape)}")


def require_broadcastable(source: Descriptor, shape: Sequence[int], name: str) -> None:
    """Rejects operand ``name`` unless it is unidirectionally broadcastable to ``shape``."""
    rank = len(shape)
    padded = (1,) * (rank - source.rank) + tuple(source.shape)
    if source.rank > rank or any(a not in (1, b) for a, b in zip(padded, shape, strict=True)):
        reject(name, f"shape {list(source.shape)}", f"a shape that broadcasts to {list(shape)}")


def require_axis(axis: int, rank: int, name: str = "axis") -> None:
    """Rejects an axis outside of 0 … rank - 1."""
    if not 0 <= axis < rank:
        reject(name, str(axis), f"0 to {rank - 1}, as the input has rank {rank}" if rank else "nothing: the input is a scalar")


def require_axes(axes: Sequence[int], rank: int, name: str = "axes") -> None:
    """Rejects axes out of range or given twice."""
    for axis in axes:
        require_axis(axis, rank, name)
    if len(set(axes)) != len(axes):
        reject(name, str(list(axes)), "distinct axes")


def data_type_of(x: Array) -> MLOperandDataType:
    """The WebNN data type of an array."""
    return MLOperandDataType.of(x.dtype)


def is_narrow_float(x: Array) -> bool:
    """True for float16 and bfloat16, in which nothing may be accumulated."""
    return bool(x.dtype == np.float16 or x.dtype == ml_dtypes.bfloat16)


def widen(x: Array) -> Array:
    """float16 and bfloat16 as float32; others as they are. Sums are taken wide and rounded once, by ``narrow``."""
    return lax.convert_element_type(x, np.float32) if is_narrow_float(x) else x


def narrow(x: Array, like: Array) -> Array:
    """``x`` in the type of ``like``."""
    return x if x.dtype == like.dtype else lax.convert_element_type(x, like.dtype)


def in_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wraps a lowering of floats: narrow operands are widened before, and the result is rounded once after."""

    def lower(first: Array, *rest: Array, **arguments: Any) -> Array:
        return narrow(function(widen(first), *map(widen, rest), **arguments), first)

    return lower


def to_boolean(x: Array) -> Array:
    """True where ``x`` is not zero."""
    return lax.ne(x, constant(0, x))


def from_boolean(x: Array) -> Array:
    """WebNN's boolean: uint8 of 0 and 1."""
    return lax.convert_element_type(x, np.uint8)


def float_to_integer(x: Array, data_type: MLOperandDataType) -> Array:
    """Truncates toward zero, saturates at the type's range, NaN becomes 0: the same on every backend.

    XLA leaves out-of-range conversions to the backend, so the range is applied before: the largest float below the
    upper bound converts exactly, and whatever is at or above the bound is selected to be the bound itself.
    """
    low, high = data_type.integer_range
    wide = widen(x)
    low_float = constant(float(low), wide)
    high_float = constant(float(high + 1), wide)
    in_range = lax.bitwise_and(lax.ge(wide, low_float), lax.lt(wide, high_float))
    converted = lax.convert_element_type(lax.select(in_range, wide, constant(0, wide)), data_type.carrier)
    # The carrier of int4/uint4 is a byte: one conversion more, of a value already in range.
    converted = lax.convert_element_type(converted, data_type.numpy)
    bound = lax.select(lax.ge(wide, high_float), constant(high, converted), constant(low, converted))
    saturated = lax.select(in_range, converted, bound)
    return lax.select(lax.ne(wide, wide), constant(0, converted), saturated)
