"""References of activation functions and softmax."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import special as scipy_special

from webnn_xla.conformance.reference import (
    Array,
    Case,
    Cases,
    Rng,
    Scaled,
    broadcast_pairs,
    numbers,
    reference,
    shapes,
    special,
)
from webnn_xla.dtypes import MLOperandDataType


def _cases(*options: dict[str, Any], low: float = -8, high: float = 8) -> Cases:
    """Every rank, many numbers, large ones and corner values, under each of ``options``.

    Options are numbers that float16 holds, since the op casts them to the input's data type.
    """

    def cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
        every = options or ({},)
        for index, shape in enumerate(shapes()):
            yield Case({"input": numbers(data_type, rng, shape, low, high)}, every[index % len(every)])
        for option in every:
            yield Case({"input": numbers(data_type, rng, (1000,), low, high)}, option, note="many")
            yield Case({"input": numbers(data_type, rng, (100,), -1e-3, 1e-3)}, option, note="near 0")
            yield Case({"input": np.concatenate([special(data_type), [-100, 100, 1000]])}, option, note="corner values")

    return cases


@reference("elu", _cases({}, {"alpha": 2}, {"alpha": -0.5}, {"alpha": 0}))
def elu(input: Array, alpha: float) -> Array:
    return np.where(input > 0, input, alpha * np.expm1(np.minimum(input, 0)))


@reference("gelu", _cases())
def gelu(input: Array) -> Scaled:
    return Scaled(np.asarray(0.5 * input * scipy_special.erfc(-input / np.sqrt(2))), np.abs(input))


@reference("hard_sigmoid", _cases({}, {"alpha": 0.25, "beta": 0.5}, {"alpha": -2, "beta": 3}))
def hard_sigmoid(input: Array, alpha: float, beta: float) -> Scaled:
    line = linear(input, alpha, beta)
    return Scaled(np.maximum(np.minimum(line.value, 1), 0), line.scale)


@reference("hard_swish", _cases(low=-4, high=4))
def hard_swish(input: Array) -> Array:
    return np.asarray(input * np.maximum(np.minimum(input + 3, 6), 0) / 6)


@reference("leaky_relu", _cases({}, {"alpha": 0.25}, {"alpha": -2}, {"alpha": 0}))
def leaky_relu(input: Array, alpha: float) -> Array:
    return np.where(input >= 0, input, alpha * input)


@reference("linear", _cases({}, {"alpha": 0.25, "beta": -3}, {"alpha": -2}, {"beta": 0.5}))
def linear(input: Array, alpha: float, beta: float) -> Scaled:
    return Scaled(alpha * input + beta, np.abs(alpha * input) + abs(beta))


def _prelu_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    for input, slope in broadcast_pairs():
        yield Case({"input": numbers(data_type, rng, input), "slope": numbers(data_type, rng, slope)})
    corner = special(data_type)
    yield Case({"input": corner[:, None], "slope": corner[None, :]}, note="corner values")


@reference("prelu", _prelu_cases)
def prelu(input: Array, slope: Array) -> Array:
    x, factor = np.broadcast_arrays(input, slope)
    if x.dtype.kind == "f":
        return np.where(x >= 0, x, x * factor)
    bits = x.dtype.itemsize * 8
    half = 2 ** (bits - 1)
    pairs = zip(x.ravel().tolist(), factor.ravel().tolist(), strict=True)
    wrapped = [a if a >= 0 else (a * b + half) % 2**bits - half for a, b in pairs]
    return np.array(wrapped, x.dtype).reshape(x.shape)


@reference("relu", _cases())
def relu(input: Array) -> Array:
    return np.where(input <= 0, np.zeros_like(input), input)


@reference("sigmoid", _cases())
def sigmoid(input: Array) -> Array:
    return np.asarray(scipy_special.expit(input))


@reference("softplus", _cases())
def softplus(input: Array) -> Array:
    return np.where(np.isinf(input), np.maximum(input, 0), np.logaddexp(0, input))


_plain: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("softsign", lambda x: x / (1 + np.abs(x))),
    ("tanh", np.tanh),
)
for _name, _function in _plain:
    reference(_name, _cases())(lambda input, f=_function: f(input))


def _softmax_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    for shape in shapes(1):
        for axis in {0, len(shape) // 2, len(shape) - 1}:
            yield Case({"input": numbers(data_type, rng, shape)}, {"axis": axis})
    yield Case({"input": numbers(data_type, rng, (2, 5000), -10, 10)}, {"axis": 1}, note="long")
    yield Case({"input": numbers(data_type, rng, (3000, 2), -1, 1)}, {"axis": 0}, note="long, not last")
    corner = np.stack([special(data_type), np.full_like(special(data_type), -np.inf)])
    for axis in (0, 1):
        yield Case({"input": corner}, {"axis": axis}, note="corner values")
    yield Case({"input": np.array([[1e4, 1e4 + 8, -np.inf], [-1e4, -1e4 - 8, -np.inf]])}, {"axis": 1}, note="large")


@reference("softmax", _softmax_cases)
def softmax(input: Array, axis: int) -> Array:
    exponentials = np.exp(input - np.max(input, axis, keepdims=True))
    return np.asarray(exponentials / np.sum(exponentials, axis, keepdims=True))
