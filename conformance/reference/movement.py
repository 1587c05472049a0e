"""References of data movement, and of the extensions that reshape and fill."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from webnn_xla.conformance.reference import Array, Case, Rng, numbers, reference, shapes, special
from webnn_xla.dtypes import MLOperandDataType

Type = MLOperandDataType


def _axis(shape: tuple[int, ...]) -> int:
    """One dimension of a shape: the first, the middle or the last, by rank."""
    return (0, len(shape) // 2, len(shape) - 1)[len(shape) % 3]


def _singles(data_type: Type, rng: Rng, low: int = 0) -> Iterator[Array]:
    """One array of every rank, and the corner values of the type."""
    for shape in shapes(low):
        yield numbers(data_type, rng, shape)
    yield special(data_type)


def _concat_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    cases = [(shape, _axis(shape)) for shape in shapes(1)] + [((2, 3, 4), axis) for axis in range(3)]
    for shape, axis in cases:
        parts = [(*shape[:axis], size, *shape[axis + 1 :]) for size in (2, 1, 3)]
        yield Case({"inputs": [numbers(data_type, rng, part) for part in parts]}, {"axis": axis})
    yield Case({"inputs": [special(data_type)]}, {"axis": 0}, note="one input")
    yield Case({"inputs": [special(data_type), special(data_type)[::-1]]}, {"axis": 0}, note="corner values")


@reference("concat", _concat_cases)
def concat(inputs: list[Array], axis: int) -> Array:
    return np.concatenate(inputs, axis)


def _expand_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((), ()),
        ((), (3,)),
        ((), (2, 1, 2, 1, 2, 1, 2, 1)),
        ((1,), (4,)),
        ((3,), (2, 3)),
        ((2, 1), (2, 3)),
        ((1, 3), (2, 3)),
        ((2, 1, 3), (2, 2, 4, 3)),
        ((1, 2, 1, 3, 1, 2, 1, 2), (2, 2, 3, 3, 2, 2, 1, 2)),
    ]
    for shape, new_shape in [*pairs, *((shape, shape) for shape in shapes(1))]:
        yield Case({"input": numbers(data_type, rng, shape)}, {"new_shape": new_shape})
    corner = special(data_type)
    yield Case({"input": corner}, {"new_shape": (2, corner.size)}, note="corner values")


@reference("expand", _expand_cases)
def expand(input: Array, new_shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(input, new_shape)


def _pad_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    low, high = data_type.integer_range if data_type.is_integer else (-math.inf, math.nan)
    modes = ("constant", "edge", "reflection")
    for index, shape in enumerate(shapes()):
        mode = modes[index % 3]
        most = [size - 1 for size in shape] if mode == "reflection" else [2] * len(shape)
        before = [int(rng.integers(0, count, endpoint=True)) for count in most]
        after = [count * (axis % 2) for axis, count in enumerate(most)]
        value: Any = {} if index % 2 else {"value": 3}
        attributes = {"beginning_padding": before, "ending_padding": after, "mode": mode, **value}
        yield Case({"input": numbers(data_type, rng, shape)}, attributes)
    for mode in modes if data_type == "float32" else modes[:1]:
        eight = {"beginning_padding": [1, 0, 0, 0] * 2, "ending_padding": [0, 0, 0, 1] * 2, "mode": mode}
        yield Case({"input": numbers(data_type, rng, (2,) * 8)}, eight, note="8-D")
    for mode in modes:
        most_of_it = {"beginning_padding": [0, 3], "ending_padding": [2, 3], "mode": mode}
        yield Case({"input": numbers(data_type, rng, (3, 4))}, most_of_it, note="all but the edge")
    none = {"beginning_padding": [0, 0], "ending_padding": [0, 0], "mode": "reflection"}
    yield Case({"input": numbers(data_type, rng, (2, 1))}, none, note="none")
    for value in (low, high):
        yield Case(
            {"input": special(data_type)}, {"beginning_padding": [1], "ending_padding": [2], "value": value}, note="extremes"
        )
    wide = {"beginning_padding": [7], "ending_padding": [9], "mode": "edge"}
    yield Case({"input": numbers(data_type, rng, (2,))}, wide, note="more padding than input")


@reference("pad", _pad_cases)
def pad(input: Array, beginning_padding: list[int], ending_padding: list[int], mode: str, value: Any) -> Array:
    widths = list(zip(beginning_padding, ending_padding, strict=True))
    if not widths:
        return input
    if mode == "constant":
        return np.pad(input, widths, constant_values=np.asarray(value).astype(input.dtype))
    return np.pad(input, widths, "edge" if mode == "edge" else "reflect")


def _reshape_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for shape in shapes():
        count = math.prod(shape)
        for new_shape in ((count,), tuple(reversed(shape)), (1,) * (8 - len(shape)) + shape):
            yield Case({"input": numbers(data_type, rng, shape)}, {"new_shape": new_shape})
    for shape in ((), (1,), (1, 1, 1)):
        yield Case({"input": numbers(data_type, rng, shape)}, {"new_shape": ()}, note="to a scalar")
    yield Case({"input": special(data_type)}, {"new_shape": (special(data_type).size, 1)}, note="corner values")


@reference("reshape", _reshape_cases)
def reshape(input: Array, new_shape: tuple[int, ...]) -> Array:
    return input.reshape(new_shape)


def _reverse_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for array in _singles(data_type, rng):
        yield Case({"input": array})
        yield Case({"input": array}, {"axes": []}, note="no axes")
        if array.ndim:
            yield Case({"input": array}, {"axes": list(range(array.ndim))[::-2]})


@reference("reverse", _reverse_cases)
def reverse(input: Array, axes: list[int] | None) -> Array:
    return np.flip(input, None if axes is None else tuple(axes))


def _slice_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for array in _singles(data_type, rng):
        starts = [int(rng.integers(0, size)) for size in array.shape]
        sizes = [int(rng.integers(1, size - start, endpoint=True)) for size, start in zip(array.shape, starts, strict=True)]
        yield Case({"input": array}, {"starts": starts, "sizes": sizes})
        yield Case({"input": array}, {"starts": starts, "sizes": sizes, "strides": [2] * array.ndim})
        whole = {"starts": [0] * array.ndim, "sizes": array.shape, "strides": [1 + axis % 3 for axis in range(array.ndim)]}
        yield Case({"input": array}, whole)
    for stride in (2, 3, 7, 2**32 - 1):
        for size in (7, 6):
            attributes = {"starts": [1], "sizes": [size], "strides": [stride]}
            yield Case({"input": numbers(data_type, rng, (8,))}, attributes, note="strides")


@reference("slice", _slice_cases)
def slice_(input: Array, starts: list[int], sizes: list[int], strides: list[int] | None) -> Array:
    steps = strides or [1] * input.ndim
    window = tuple(slice(start, start + size, step) for start, size, step in zip(starts, sizes, steps, strict=True))
    return np.asarray(input[window])


def _split_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for shape in shapes(1):
        axis = _axis(shape)
        array = numbers(data_type, rng, (*shape[:axis], 6, *shape[axis + 1 :]))
        yield Case({"input": array}, {"splits": 3 if len(shape) % 2 else [1, 3, 2], "axis": axis})
    for splits, axis in ((1, 0), (2, 1), ([6], 1), ([1, 3, 2], 0)):
        yield Case({"input": numbers(data_type, rng, (6, 6))}, {"splits": splits, "axis": axis})
    corner = special(data_type)
    yield Case({"input": corner}, {"splits": corner.size}, note="default axis, corner values")


@reference("split", _split_cases)
def split(input: Array, splits: int | list[int], axis: int) -> list[Array]:
    return np.split(input, splits if isinstance(splits, int) else np.cumsum(splits)[:-1], axis)


def _tile_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for array in _singles(data_type, rng):
        yield Case({"input": array}, {"repetitions": [2] * array.ndim})
        yield Case({"input": array}, {"repetitions": [1 + axis % 3 for axis in range(array.ndim)]})
    yield Case({"input": numbers(data_type, rng, (2, 3))}, {"repetitions": [1, 1]}, note="once")


@reference("tile", _tile_cases)
def tile(input: Array, repetitions: list[int]) -> Array:
    return np.tile(input, repetitions)


def _transpose_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for array in _singles(data_type, rng):
        yield Case({"input": array})
        yield Case({"input": array}, {"permutation": list(range(array.ndim))})
        yield Case({"input": array}, {"permutation": rng.permutation(array.ndim).tolist()})


@reference("transpose", _transpose_cases)
def transpose(input: Array, permutation: list[int] | None) -> Array:
    return np.transpose(input, permutation)


# Extensions


def _squeeze_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for shape in [*shapes(), (1,), (1, 1), (1, 2, 1, 3), (1,) * 8]:
        ones = [axis for axis, size in enumerate(shape) if size == 1]
        for axes in (None, [], ones[::-1], ones[-1:]):
            yield Case({"input": numbers(data_type, rng, shape)}, {"axes": axes})


@reference("squeeze", _squeeze_cases)
def squeeze(input: Array, axes: list[int] | None) -> Array:
    return np.squeeze(input, tuple(axes) if axes else None)


def _unsqueeze_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for shape in shapes(0, 6):
        rank = len(shape)
        for axes in ([], [rank], [rank + 1, 0]):
            yield Case({"input": numbers(data_type, rng, shape)}, {"axes": axes})


@reference("unsqueeze", _unsqueeze_cases)
def unsqueeze(input: Array, axes: list[int]) -> Array:
    return np.expand_dims(input, tuple(axes))


def _flatten_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for shape in shapes():
        for axis in sorted({0, len(shape) // 2, len(shape)}):
            yield Case({"input": numbers(data_type, rng, shape)}, {"axis": axis})


@reference("flatten_to_2d", _flatten_cases)
def flatten_to_2d(input: Array, axis: int) -> Array:
    return input.reshape(int(np.prod(input.shape[:axis])), -1)


def _fill_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    def case(shape: tuple[int, ...], start: Any, step: Any, note: str = "") -> Case:
        return Case({}, {"data_type": data_type, "shape": shape, "start": start, "step": step}, note=note)

    for shape in ((), (3,), (2, 3), (1, 7, 1, 1, 1, 1, 1, 1)):
        yield case(shape, 1, 1)
        yield case(shape, 7, -1, "unsigned types count down too")
        yield case(shape, 5, 0, "fill")
        yield case(shape, 0.0, 1.0)
    if data_type.is_integer:
        low, high = data_type.integer_range
        yield case((4,), high - 3, 1, "to the largest")
        yield case((4,), low + 3, -1, "to the smallest")
        yield case((2,), low, high - low, "one step over the whole range")
        yield case((2, 2), high, 0, "fill with the largest")
        yield case((2, 8), low, (high - low) // 15, "large steps")
        yield case((2,), -math.inf, 0, "clamped")
        yield case((2,), 1e30, 0, "clamped")
        yield case((3,), 1.5, 0, "rounded to even")
        if data_type.bits == 64:
            yield case((1000,), 2**53 + 1, 1, "beyond float64")
            yield case((5,), 2**61 + 1, 2**60 + 3, "beyond float64")
            if not data_type.is_signed:
                yield case((3,), 2**64 - 1, -(2**63) + 1, "beyond int64")
        if data_type.bits >= 16:
            yield case((300, 300), 5, 7, "many")
    else:
        yield case((300, 3), 0.1, 0.1, "no error adds up")
        yield case((50, 3), -1.7, 1 / 3)
        yield case((40,), 1000, -0.37)
        for value in (math.inf, -math.inf, math.nan, 1e300, 10**400):
            yield case((2,), value, 0, "fill")
        yield case((3,), 0, 1e-3)
        yield case((3,), -3e4, 3e4)
        if data_type == "float32":
            yield case((100000,), 16777217, 1, "integers beyond float32 round")


@reference("fill_sequence", _fill_cases)
def fill_sequence(data_type: Type, shape: tuple[int, ...], start: Any, step: Any) -> Array:
    count = math.prod(shape)
    if data_type.is_float:
        first = float(start) if abs(start) < 1e308 or not isinstance(start, int) else math.inf
        return (first + np.arange(count, dtype=np.float64) * float(step)).reshape(shape)
    low, high = data_type.integer_range
    if step == 0:
        start = min(max(start, low), high)
    values = [int(np.rint(start)) if isinstance(start, float) else start] if step == 0 else []
    values = values * count if values else [int(start) + index * int(step) for index in range(count)]
    return np.array(values, object).reshape(shape)
