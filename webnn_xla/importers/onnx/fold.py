"""WebNN ops on known values, in NumPy: shape computations fold on import, with exact integers of their logical type.

Each function takes arrays of logical types, then the op's arguments, as the builder's method does. Empty tensors, which
WebNN does not have, are evaluated here as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from webnn_xla.importers.onnx.types import Array, DType, integer_range

FOLD_ELEMENTS: Final = 1 << 18
"""Results larger than this are left to XLA, unless they are empty."""

Fold = Callable[..., Any]


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu" and a.dtype.name not in ("int4", "uint4"):
        return np.asarray(np.divide(a, b))
    zero = np.equal(b, 0)
    safe = np.where(zero, np.ones_like(b), b)
    quotient = np.floor_divide(a, safe)
    inexact = np.not_equal(np.multiply(quotient, safe), a) & (np.less(a, 0) != np.less(safe, 0))
    fixed = np.where(inexact, quotient + np.ones_like(quotient), quotient)
    by_zero = -1 if a.dtype.kind == "i" else np.iinfo(a.dtype).max
    return np.where(zero, np.asarray(by_zero, a.dtype), fixed).astype(a.dtype)


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "i":
        return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype) if np.any(b < 0) else np.power(a, b)
    return np.asarray(np.power(a, b))


def cast(x: Array, dtype: DType) -> Array:
    """Conversion between logical types: floats to integers truncate and saturate, NaN becomes 0; integers wrap."""
    if x.dtype == dtype:
        return x
    if dtype == np.bool_:
        return np.not_equal(x, 0)
    floats = x.dtype.kind == "f" or "float" in x.dtype.name
    if floats and "int" in dtype.name:
        low, high = integer_range(dtype)
        wide = np.asarray(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        exact = [min(max(int(v), low), high) if math.isfinite(v) else (high if v > 0 else low) for v in wide.reshape(-1)]
        return np.array(exact, dtype=object).reshape(x.shape).astype(_carrier(dtype)).astype(dtype)
    if dtype.name in ("int4", "uint4", "int2", "uint2"):
        bits = int(dtype.name[-1])
        raw = x.astype(np.int64) & (2**bits - 1)
        if dtype.name.startswith("i"):
            raw = np.where(raw >= 2 ** (bits - 1), raw - 2**bits, raw)
        return raw.astype(np.int8).astype(dtype)
    return x.astype(dtype)


def _carrier(dtype: DType) -> DType:
    return dtype if dtype.kind in "iu" else np.dtype(np.uint8 if dtype.name.startswith("u") else np.int8)


def _slice(x: Array, starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None) -> Array:
    strides = strides or [1] * x.ndim
    return x[tuple(slice(a, a + n, s) for a, n, s in zip(starts, sizes, strides, strict=True))]


def _split(x: Array, splits: int | Sequence[int], axis: int = 0) -> list[Array]:
    if isinstance(splits, int):
        return list(np.split(x, splits, axis))
    return list(np.split(x, np.cumsum(splits)[:-1], axis))


def _indices(x: Array, size: int) -> Array:
    wrapped = np.where(x < 0, x.astype(np.int64) + size, x.astype(np.int64))
    return np.clip(wrapped, 0, max(size - 1, 0))


def _gather(x: Array, indices: Array, axis: int = 0) -> Array:
    return (
        np.asarray(np.take(x, _indices(indices, x.shape[axis]), axis=axis))
        if indices.size
        else np.zeros(x.shape[:axis] + indices.shape + x.shape[axis + 1 :], x.dtype)
    )


def _gather_elements(x: Array, indices: Array, axis: int = 0) -> Array:
    selected: list[Array] = list(np.indices(indices.shape, sparse=True))
    selected[axis] = _indices(indices, x.shape[axis])
    return x[tuple(selected)]


def _gather_nd(x: Array, indices: Array) -> Array:
    depth = indices.shape[-1]
    columns = tuple(_indices(indices[..., k], x.shape[k]) for k in range(depth))
    return x[columns] if depth else np.broadcast_to(x, indices.shape[:-1] + x.shape)


def _scatter_elements(x: Array, indices: Array, updates: Array, axis: int = 0) -> Array:
    result = x.copy()
    selected: list[Array] = list(np.indices(indices.shape, sparse=True))
    selected[axis] = _indices(indices, x.shape[axis])
    result[tuple(selected)] = updates
    return result


def _scatter_nd(x: Array, indices: Array, updates: Array) -> Array:
    result = x.copy()
    result[tuple(_indices(indices[..., k], x.shape[k]) for k in range(indices.shape[-1]))] = updates
    return result


def _reduce(function: Callable[..., Any], empty: float | None = None) -> Fold:
    def fold(x: Array, axes: Sequence[int] | None = None, keep_dimensions: bool = False) -> Array:
        axis = tuple(range(x.ndim)) if axes is None else tuple(axes)
        kept: list[int] = [1 if i in axis else n for i, n in enumerate(x.shape)]
        if x.size == 0 and all(kept) and empty is not None:
            low = empty
            if math.isinf(empty) and x.dtype == np.bool_:
                low = empty > 0
            elif math.isinf(empty) and "int" in x.dtype.name:
                info = np.iinfo(x.dtype)
                low = info.max if empty > 0 else info.min
            result = np.full(kept, low, x.dtype)
            return result if keep_dimensions else result.reshape([n for i, n in enumerate(x.shape) if i not in axis])
        return np.asarray(function(x, axis, keep_dimensions)).astype(x.dtype)

    return fold


def _lse(x: Array, axis: tuple[int, ...], keep: bool) -> Any:
    wide = x.astype(np.float64)
    top = np.max(wide, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.sum(np.exp(wide - top), axis=axis, keepdims=True)) + top
    return total if keep else np.squeeze(total, axis)


def _cumulative(x: Array, axis: int, exclusive: bool = False, reversed: bool = False) -> Array:
    y = np.flip(x, axis) if reversed else x
    total = np.cumsum(y, axis=axis, dtype=x.dtype)
    if exclusive:
        total = total - y
    return np.flip(total, axis) if reversed else total


def _pad(x: Array, before: Sequence[int], after: Sequence[int], mode: str = "constant", value: float = 0) -> Array:
    widths = list(zip(before, after, strict=True))
    if mode == "constant":
        return np.pad(x, widths, constant_values=np.asarray(value).astype(x.dtype))
    return np.pad(x, widths, mode="edge" if mode == "edge" else "reflect")


def _arg(function: Callable[..., Any]) -> Fold:
    def fold(x: Array, axis: int, keep_dimensions: bool = False, output_data_type: str = "int32") -> Array:
        return np.asarray(function(x, axis=axis, keepdims=keep_dimensions)).astype(output_data_type)

    return fold


def _triangular(x: Array, upper: bool = True, diagonal: int = 0) -> Array:
    return np.triu(x, diagonal) if upper else np.tril(x, diagonal)


def _sign(x: Array) -> Array:
    return np.sign(x)


def _logical(function: Callable[..., Any]) -> Fold:
    return lambda *arrays: function(*(np.not_equal(array, 0) for array in arrays))


def _wide(function: Callable[..., Any]) -> Fold:
    """Evaluates in double precision and rounds once."""
    return lambda x: np.asarray(function(x.astype(np.float64))).astype(x.dtype)


def _sum(x: Array, axis: tuple[int, ...], keep: bool) -> Any:
    wide = np.float64 if x.dtype.kind not in "iu" else x.dtype
    return np.sum(x, axis=axis, keepdims=keep, dtype=wide)


def _prod(x: Array, axis: tuple[int, ...], keep: bool) -> Any:
    wide = np.float64 if x.dtype.kind not in "iu" else x.dtype
    return np.prod(x, axis=axis, keepdims=keep, dtype=wide)


FOLDS: Final[Mapping[str, Fold]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "max": np.maximum,
    "min": np.minimum,
    "pow": _power,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_or_equal": np.greater_equal,
    "lesser": np.less,
    "lesser_or_equal": np.less_equal,
    "logical_not": _logical(np.logical_not),
    "logical_and": _logical(np.logical_and),
    "logical_or": _logical(np.logical_or),
    "logical_xor": _logical(np.logical_xor),
    "is_nan": np.isnan,
    "is_infinite": np.isinf,
    "where": lambda c, a, b: np.where(np.not_equal(c, 0), a, b),
    "identity": lambda x: x,
    "abs": np.abs,
    "neg": np.negative,
    "ceil": np.ceil,
    "floor": np.floor,
    "round_even": np.rint,
    "sign": _sign,
    "sqrt": _wide(np.sqrt),
    "exp": _wide(np.exp),
    "log": _wide(np.log),
    "sin": _wide(np.sin),
    "cos": _wide(np.cos),
    "tan": _wide(np.tan),
    "tanh": _wide(np.tanh),
    "reciprocal": _wide(np.reciprocal),
    "relu": lambda x: np.maximum(x, np.zeros((), x.dtype)),
    "reshape": lambda x, new_shape: x.reshape(new_shape),
    "expand": lambda x, new_shape: np.broadcast_to(x, new_shape),
    "transpose": lambda x, permutation=None: np.transpose(x, permutation),
    "concat": lambda *xs, axis: np.concatenate(xs, axis),
    "split": _split,
    "slice": _slice,
    "tile": lambda x, repetitions: np.tile(x, repetitions),
    "pad": _pad,
    "reverse": lambda x, axes=None: np.flip(x, axes),
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "triangular": _triangular,
    "cumulative_sum": _cumulative,
    "arg_max": _arg(np.argmax),
    "arg_min": _arg(np.argmin),
    "matmul": lambda a, b: np.matmul(a, b).astype(a.dtype),
    "reduce_sum": _reduce(_sum, 0),
    "reduce_product": _reduce(_prod, 1),
    "reduce_mean": _reduce(lambda x, a, k: np.mean(x.astype(np.float64), axis=a, keepdims=k)),
    "reduce_max": _reduce(lambda x, a, k: np.max(x, axis=a, keepdims=k), -math.inf),
    "reduce_min": _reduce(lambda x, a, k: np.min(x, axis=a, keepdims=k), math.inf),
    "reduce_l1": _reduce(lambda x, a, k: _sum(np.abs(x), a, k), 0),
    "reduce_l2": _reduce(lambda x, a, k: np.sqrt(_sum(np.square(x.astype(np.float64)), a, k)), 0),
    "reduce_sum_square": _reduce(lambda x, a, k: _sum(np.square(x), a, k), 0),
    "reduce_log_sum": _reduce(lambda x, a, k: np.log(_sum(x.astype(np.float64), a, k)), -math.inf),
    "reduce_log_sum_exp": _reduce(_lse, -math.inf),
}


def result_size(op: str, arrays: Sequence[Array], arguments: Mapping[str, Any]) -> int:
    """An upper bound of the elements of a result, before it is computed."""
    if op == "expand":
        return math.prod(arguments["new_shape"])
    if op == "tile":
        return arrays[0].size * math.prod(arguments["repetitions"])
    if op == "pad":
        sides = zip(arrays[0].shape, arguments["beginning_padding"], arguments["ending_padding"], strict=True)
        return math.prod(sum(side) for side in sides)
    if op == "gather":
        return arrays[1].size * (arrays[0].size // max(arrays[0].shape[arguments.get("axis", 0)], 1))
    if op == "matmul":
        return max(a.size for a in arrays) ** 2 if all(a.size for a in arrays) else 0
    if op in ("concat",):
        return sum(array.size for array in arrays)
    shape = (
        np.broadcast_shapes(*(array.shape for array in arrays))
        if op in _BROADCAST
        else max((a.shape for a in arrays), key=math.prod)
    )
    return math.prod(shape)


_BROADCAST: Final = frozenset(
    {
        "add", "sub", "mul", "div", "max", "min", "pow", "equal", "not_equal", "greater", "greater_or_equal", "lesser",
        "lesser_or_equal", "logical_and", "logical_or", "logical_xor", "where",
    }
)  # fmt: skip
