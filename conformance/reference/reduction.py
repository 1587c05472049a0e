"""References of reductions, positions of extremes, and running sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import special as scipy_special

from webnn_xla.conformance.reference import Array, Case, Cases, Rng, Scaled, numbers, reference, shapes, special
from webnn_xla.dtypes import MLOperandDataType

Axes = tuple[int, ...]

# Reductions


def _some(data_type: MLOperandDataType, rank: int, choices: list[Any]) -> list[Any]:
    """Two of the choices: others for each rank and data type, so that together they are all there."""
    start = 2 * rank + list(MLOperandDataType).index(data_type)
    return [choices[(start + index) % len(choices)] for index in range(min(2, len(choices)))]


def _axes(rank: int) -> Iterator[list[int] | None]:
    """All dimensions, none, one, all but one, and an order that is not ascending."""
    yield None
    yield []
    if rank:
        yield [rank - 1]
        yield [0]
    if rank >= 2:
        yield list(range(rank - 1))
    if rank >= 3:
        yield [rank - 1, 0]


def _pairs(data_type: MLOperandDataType) -> Array:
    """Every pair of corner values, one pair a row."""
    corner = special(data_type)
    return np.stack(np.broadcast_arrays(corner[:, None], corner[None, :]), axis=-1).reshape(-1, 2)


def _reduce_cases(low: float = -8, high: float = 8, many: float | None = None) -> Cases:
    """``many`` bounds the numbers of the long rows, whose result would leave the range of a float otherwise."""

    def cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
        for shape in shapes():
            for index, axes in enumerate(_some(data_type, len(shape), list(_axes(len(shape))))):
                options: dict[str, Any] = {} if axes is None else {"axes": axes}
                if (index + len(shape)) % 2:
                    options["keep_dimensions"] = True
                yield Case({"input": numbers(data_type, rng, shape, low, high)}, options)
        long = numbers(data_type, rng, (3, 5000), low if many is None else -many if low < 0 else 1 / many, many or high)
        yield Case({"input": long}, {"axes": [1]}, note="many")
        yield Case({"input": long.T.copy()}, {"axes": [0]}, note="many, strided")
        yield Case({"input": _pairs(data_type)}, {"axes": [1]}, note="corner values")
        yield Case({"input": special(data_type)}, {"axes": []}, note="corner values, each alone")

    return cases


def _product_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    """Floats around 1; integers that are odd, so that products wrap and are not 0."""
    if data_type.is_float:
        yield from _reduce_cases(0.5, 2, many=1.001)(data_type, rng)
        return
    for case in _reduce_cases(-50, 50)(data_type, rng):
        yield (
            case
            if case.note.startswith("corner")
            else Case({"input": case.operands["input"] * 2 + 1}, case.attributes, note=case.note)
        )


def _reduction(name: str, cases: Cases, function: Callable[[Array, Axes], Any]) -> None:
    @reference(name, cases)
    def compute(input: Array, axes: Any, keep_dimensions: bool) -> Any:
        over = tuple(range(input.ndim)) if axes is None else tuple(axes)
        kept = [1 if axis in over else size for axis, size in enumerate(input.shape)]
        shape = kept if keep_dimensions else [size for axis, size in enumerate(input.shape) if axis not in over]
        result = function(input, over)
        if isinstance(result, Scaled):
            return Scaled(np.reshape(result.value, shape), np.reshape(result.scale, shape))
        return np.reshape(result, shape)


def _total(x: Array, axes: Axes) -> Array:
    """The sum in the type of ``x``: integers wrap."""
    return np.asarray(np.sum(x, axis=axes, dtype=x.dtype))


def _product(x: Array, axes: Axes) -> Any:
    """The scale: every factor brings a relative rounding error, of either sign."""
    value = np.asarray(np.prod(x, axis=axes, dtype=x.dtype))
    factors = x.size // max(value.size, 1)
    return Scaled(value, np.abs(value) * np.sqrt(factors)) if x.dtype.kind == "f" else value


def _sum(x: Array, axes: Axes) -> Any:
    return Scaled(_total(x, axes), _total(np.abs(x), axes)) if x.dtype.kind == "f" else _total(x, axes)


def _mean(x: Array, axes: Axes) -> Scaled:
    return Scaled(np.mean(x, axis=axes), np.mean(np.abs(x), axis=axes))


def _log_sum(x: Array, axes: Axes) -> Scaled:
    total = _total(x, axes)
    return Scaled(np.log(total), np.maximum(np.abs(np.log(total)), _total(np.abs(x), axes) / np.abs(total)))


def _log_sum_exp(x: Array, axes: Axes) -> Scaled:
    """The scale: the two terms that the stable form adds, and an ulp of 1 for the sum that the logarithm is of."""
    result = np.asarray(scipy_special.logsumexp(x, axis=axes) if axes else x)
    result = np.where(np.any(np.isposinf(x), axis=axes) & ~np.any(np.isnan(x), axis=axes), np.inf, result)
    peak = np.abs(np.max(x, axis=axes))
    return Scaled(result, np.maximum(peak, np.maximum(np.abs(result - np.max(x, axis=axes)), 1)))


_reduction("reduce_l1", _reduce_cases(), lambda x, axes: _total(np.abs(x), axes))
_reduction("reduce_l2", _reduce_cases(), lambda x, axes: np.sqrt(_total(x * x, axes)))
_reduction("reduce_log_sum", _reduce_cases(0.01, 8), _log_sum)
_reduction("reduce_log_sum_exp", _reduce_cases(-80, 80), _log_sum_exp)
_reduction("reduce_max", _reduce_cases(-100, 100), lambda x, axes: np.max(x, axis=axes))
_reduction("reduce_mean", _reduce_cases(), _mean)
_reduction("reduce_min", _reduce_cases(-100, 100), lambda x, axes: np.min(x, axis=axes))
_reduction("reduce_product", _product_cases, _product)
_reduction("reduce_sum", _reduce_cases(), _sum)
_reduction("reduce_sum_square", _reduce_cases(), lambda x, axes: _total(x * x, axes))


# Positions of extremes


def _arg_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    for shape in shapes(1):
        for index, axis in enumerate(_some(data_type, len(shape), list(range(len(shape))))):
            # A narrow range, so that most rows have ties.
            values = np.trunc(numbers(data_type, rng, shape, -2, 2))
            options: dict[str, Any] = {"axis": axis, "select_last_index": bool(index)}
            if (axis + len(shape)) % 2:
                options["keep_dimensions"] = True
            if len(shape) % 2:
                options["output_data_type"] = "int64"
            yield Case({"input": values}, options)
    for last in (False, True):
        options = {"axis": 1, "select_last_index": last}
        yield Case({"input": _pairs(data_type)}, options, note="corner values")
        corner = special(data_type)
        yield Case({"input": np.stack([corner, corner[::-1]])}, options, note="corner values")
        yield Case({"input": numbers(data_type, rng, (4, 3000), -100, 100)}, options, note="many")


def _arg(better: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    """A scan over positions, one row at a time: NaN beats all numbers, and only the first (or last) of equals counts."""

    def compute(input: Array, axis: int, keep_dimensions: bool, output_data_type: Any, select_last_index: bool) -> Array:
        rows = np.moveaxis(input, axis, -1)
        positions = np.zeros(rows.shape[:-1], np.int64)
        for where in np.ndindex(*positions.shape):
            row = rows[where]
            order = range(len(row) - 1, -1, -1) if select_last_index else range(len(row))
            best = order[0]
            for index in order:
                if row[best] == row[best] and (row[index] != row[index] or better(row[index], row[best])):
                    best = index
            positions[where] = best
        return np.expand_dims(positions, axis) if keep_dimensions else positions

    return compute


reference("arg_min", _arg_cases)(_arg(lambda a, b: a < b))
reference("arg_max", _arg_cases)(_arg(lambda a, b: a > b))


# Running sums


def _cumulative_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    options: list[dict[str, Any]] = [
        {"exclusive": exclusive, "reversed": backward} for exclusive in (False, True) for backward in (False, True)
    ]
    for shape in shapes(1):
        axis = _some(data_type, len(shape), list(range(len(shape))))[0]
        yield Case({"input": numbers(data_type, rng, shape)}, {"axis": axis, **options[len(shape) % 4]})
    for each in options:
        yield Case({"input": special(data_type)}, {"axis": 0, **each}, note="corner values")
    yield Case({"input": numbers(data_type, rng, (2, 1500))}, {"axis": 1}, note="many")
    yield Case({"input": numbers(data_type, rng, (300, 2))}, {"axis": 0, "exclusive": True, "reversed": True}, note="many")


@reference("cumulative_sum", _cumulative_cases)
def cumulative_sum(input: Array, axis: int, exclusive: bool, reversed: bool) -> Any:
    """One addition after the other, in the type of ``input``: integers wrap."""

    def running(x: Array) -> Array:
        x = np.moveaxis(x, axis, 0)
        x = x[::-1] if reversed else x
        sums = np.cumsum(x, axis=0, dtype=x.dtype)
        if exclusive:
            sums = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
        return np.moveaxis(sums[::-1] if reversed else sums, 0, axis)

    return Scaled(running(input), running(np.abs(input))) if input.dtype.kind == "f" else running(input)
