"""References of normalization.

The magnitude that differences are measured against is that of the normalized numbers plus one deviation, times the scale, plus
the bias: an element that happens to lie at the mean is as exact as the others, no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from webnn_xla.conformance.reference import Array, Case, Rng, Scaled, numbers, reference, shapes
from webnn_xla.dtypes import MLOperandDataType


def _moments(x: Array, axes: Sequence[int]) -> tuple[Array, Array]:
    """Mean and variance, dimensions kept."""
    over = tuple(axes)
    return np.asarray(x.mean(over, keepdims=True)), np.asarray(x.var(over, keepdims=True))


def _apply(x: Array, mean: Array, variance: Array, scale: Array | None, bias: Array | None, epsilon: float) -> Scaled:
    """All operands broadcast to ``x``."""
    normalized = (x - mean) / np.sqrt(variance + epsilon)
    factor = np.ones(()) if scale is None else scale
    offset = np.zeros(()) if bias is None else bias
    return Scaled(normalized * factor + offset, (np.abs(normalized) + 1) * np.abs(factor) + np.abs(offset))


def _align(operand: Array, axes: Sequence[int], rank: int) -> Array:
    """``operand``, whose dimension i is dimension ``axes[i]`` of a tensor of ``rank``, in the shape that broadcasts to it."""
    for axis in range(rank):
        if axis not in axes:
            operand = operand[..., None]
    places = [*axes, *(axis for axis in range(rank) if axis not in axes)]
    return np.asarray(np.transpose(operand, [places.index(axis) for axis in range(rank)]))


def _parameters(data_type: MLOperandDataType, rng: Rng, shape: tuple[int, ...], *names: str) -> dict[str, Array]:
    return {name: numbers(data_type, rng, shape, *((0.25, 4) if name == "variance" else (-3, 3))) for name in names}


_AFFINE: tuple[tuple[str, ...], ...] = ((), ("scale",), ("bias",), ("scale", "bias"))
_BATCH_OPERANDS = [("mean", "variance", *names) for names in _AFFINE]


def _batch_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    for shape in shapes(1):
        for axis in {0, min(1, len(shape) - 1), len(shape) - 1}:
            for names in _BATCH_OPERANDS[::3]:
                parameters = _parameters(data_type, rng, shape[axis : axis + 1], *names)
                yield Case({"input": numbers(data_type, rng, shape), **parameters}, {"axis": axis})
    for names in _BATCH_OPERANDS:
        operands = {"input": numbers(data_type, rng, (4, 6, 5, 7)), **_parameters(data_type, rng, (6,), *names)}
        yield Case(operands, {"epsilon": 0.125})
    vector = {"input": numbers(data_type, rng, (6,)), **_parameters(data_type, rng, (6,), "mean", "variance")}
    yield Case(vector, {"axis": 0}, note="vector")


@reference("batch_normalization", _batch_cases)
def batch_normalization(
    input: Array, mean: Array, variance: Array, scale: Array | None, bias: Array | None, axis: int, epsilon: float
) -> Scaled:
    def align(operand: Array) -> Array:
        return _align(operand, [axis], input.ndim)

    scale, bias = (None if operand is None else align(operand) for operand in (scale, bias))
    return _apply(input, align(mean), align(variance), scale, bias, epsilon)


def _instance_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    for shape in ((2, 3, 4, 5), (1, 1, 1, 7), (3, 2, 1, 1), (1, 5, 70, 70)):
        for layout in ("nchw", "nhwc"):
            channels = (shape[layout.index("c")],)
            for names in _AFFINE:
                operands = {"input": numbers(data_type, rng, shape), **_parameters(data_type, rng, channels, *names)}
                yield Case(operands, {"layout": layout, "epsilon": 0.125} if names == ("bias",) else {"layout": layout})
    yield Case({"input": numbers(data_type, rng, (2, 2, 6, 6), 900, 1000)}, note="the mean is large")


@reference("instance_normalization", _instance_cases)
def instance_normalization(input: Array, scale: Array | None, bias: Array | None, epsilon: float, layout: str) -> Scaled:
    channel = [1 if layout == "nchw" else 3]
    mean, variance = _moments(input, (2, 3) if layout == "nchw" else (1, 2))
    scale, bias = (None if operand is None else _align(operand, channel, 4) for operand in (scale, bias))
    return _apply(input, mean, variance, scale, bias, epsilon)


def _layer_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    def case(shape: tuple[int, ...], axes: list[int] | None, names: Sequence[str] = (), note: str = "", **options: Any) -> Case:
        over = range(1, len(shape)) if axes is None else axes
        parameters = _parameters(data_type, rng, tuple(shape[axis] for axis in over), *names)
        attributes = options if axes is None else {"axes": axes, **options}
        return Case({"input": numbers(data_type, rng, shape), **parameters}, attributes, note=note)

    for shape in shapes():
        rank = len(shape)
        yield case(shape, None, _AFFINE[rank % 4])
        yield case(shape, [], _AFFINE[3 - rank % 4])
        yield case(shape, list(range(rank))[::-1], _AFFINE[3], note="all, backward")
        if rank > 1:
            yield case(shape, [rank - 1, 0], _AFFINE[3], note="last and first")
    for axes in ([2], [0, 2], [3, 1, 2], [1, 3], [0]):
        for names in _AFFINE[1:]:
            yield case((4, 3, 5, 6), axes, names, epsilon=0.125)
    for shape in ((3, 384), (2, 5000), (2, 60, 100)):
        yield case(shape, None, ("scale", "bias"), note="long")
    yield case((500, 3), [0], ("scale", "bias"), note="long, not last")
    yield Case({"input": numbers(data_type, rng, (8, 100), 900, 1000)}, note="the mean is large")
    yield Case({"input": np.full((2, 100), 1000.0)}, note="equal elements")


@reference("layer_normalization", _layer_cases)
def layer_normalization(
    input: Array, scale: Array | None, bias: Array | None, axes: Sequence[int] | None, epsilon: float
) -> Scaled:
    over = tuple(range(1, input.ndim)) if axes is None else tuple(axes)
    mean, variance = _moments(input, over) if over else (input, np.zeros_like(input))
    scale, bias = (None if operand is None else _align(operand, over, input.ndim) for operand in (scale, bias))
    return _apply(input, mean, variance, scale, bias, epsilon)


def _mean_variance_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    for shape in shapes():
        rank = len(shape)
        for axes in ([], [0], list(range(rank))[::-1]) if rank else ([],):
            yield Case({"input": numbers(data_type, rng, shape)}, {"axes": axes})
        yield Case({"input": numbers(data_type, rng, shape), **_parameters(data_type, rng, shape[-1:], "scale", "bias")})
    given = (("mean", "variance", "scale", "bias"), ("mean",), ("variance",), ("mean", "scale"), ("variance", "bias"))
    for index, kept in enumerate(((2, 1, 1), (2, 3, 4), (1, 3, 1), (4,), ())):
        for names in given:
            axes = ([1, 2], [2, 0], [])[index % 3]
            operands = {"input": numbers(data_type, rng, (2, 3, 4)), **_parameters(data_type, rng, kept, *names)}
            yield Case(operands, {"axes": axes, "epsilon": 0.125})
    for axes in ([1, 2], [2, 0], []):
        operands = {"input": numbers(data_type, rng, (2, 3, 4)), **_parameters(data_type, rng, (2, 1, 1), "mean")}
        yield Case(operands, {"axes": axes})
    yield Case({"input": numbers(data_type, rng, (4, 600), 900, 1000)}, {"axes": [1]}, note="the mean is large")


@reference("mean_variance_normalization", _mean_variance_cases)
def mean_variance_normalization(
    input: Array,
    mean: Array | None,
    variance: Array | None,
    scale: Array | None,
    bias: Array | None,
    epsilon: float,
    axes: Sequence[int] | None,
) -> Scaled:
    over = tuple(range(input.ndim)) if axes is None else tuple(axes)
    if mean is None:
        mean = input.mean(over, keepdims=True) if over else input
    if variance is None:
        squares = (input - mean) ** 2
        variance = np.asarray(squares.mean(over, keepdims=True)) if over else squares
    return _apply(input, np.asarray(mean), variance, scale, bias, epsilon)
