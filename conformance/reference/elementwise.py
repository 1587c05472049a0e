"""References of elementwise arithmetic, comparison, logic, selection and conversion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import special as scipy_special

from webnn_xla.conformance.reference import Array, Case, Cases, Rng, broadcast_pairs, numbers, reference, shapes, special
from webnn_xla.dtypes import MLOperandDataType

# Binary


def _pairs(low: float = -8, high: float = 8, b_low: float | None = None, b_high: float | None = None) -> Cases:
    def cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
        for a, b in broadcast_pairs():
            second = numbers(data_type, rng, b, low if b_low is None else b_low, high if b_high is None else b_high)
            yield Case({"a": numbers(data_type, rng, a, low, high), "b": second})
        corner = special(data_type)
        yield Case({"a": corner[:, None], "b": corner[None, :]}, note="corner values")

    return cases


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.divide(a, b)
    low, high = np.iinfo(a.dtype).min, np.iinfo(a.dtype).max
    a, b = np.broadcast_arrays(a, b)
    quotients = []
    for x, y in zip(a.flat, b.flat, strict=True):
        x, y = int(x), int(y)
        by_zero = -1 if low < 0 else high
        quotient = by_zero if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        quotients.append(low if quotient > high else quotient)
    return np.array(quotients, a.dtype).reshape(a.shape)


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.power(a, b)
    bits, low = a.dtype.itemsize * 8, np.iinfo(a.dtype).min
    a, b = np.broadcast_arrays(a, b)
    powers = []
    for x, y in zip(a.flat, b.flat, strict=True):
        x, y = int(x), int(y)
        if y >= 0:
            power = pow(x, y, 2**bits)
            power -= 2**bits if low < 0 and power >= 2 ** (bits - 1) else 0
        else:
            power = {0: -1, 1: 1, -1: -1 if y % 2 else 1}.get(x, 0)
        powers.append(power)
    return np.array(powers, a.dtype).reshape(a.shape)


def _extreme(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda a, b: function(a, b)


_function: Callable[..., Any]
for _name, _function, _cases in (
    ("add", np.add, _pairs()),
    ("sub", np.subtract, _pairs()),
    ("mul", np.multiply, _pairs()),
    ("div", _divide, _pairs()),
    ("max", np.maximum, _pairs()),
    ("min", np.minimum, _pairs()),
    ("pow", _power, _pairs(0.5, 4, -2, 3)),
):
    reference(_name, _cases)(lambda a, b, f=_function: f(a, b))

for _name, _function in (
    ("equal", np.equal),
    ("not_equal", np.not_equal),
    ("greater", np.greater),
    ("greater_or_equal", np.greater_equal),
    ("lesser", np.less),
    ("lesser_or_equal", np.less_equal),
):
    reference(_name, _pairs(-2, 2))(lambda a, b, f=_function: f(a, b).astype(np.uint8))

for _name, _function in (("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)):
    reference(_name, _pairs(0, 2))(lambda a, b, f=_function: f(a, b).astype(np.uint8))


# Unary


def _single(operand: str, low: float = -8, high: float = 8) -> Cases:
    def cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
        for shape in shapes():
            yield Case({operand: numbers(data_type, rng, shape, low, high)})
        yield Case({operand: numbers(data_type, rng, (1000,), low, high)}, note="many")
        yield Case({operand: special(data_type)}, note="corner values")

    return cases


def _wrapping(function: Callable[[Array], Any]) -> Callable[[Array], Array]:
    def compute(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(x)).astype(x.dtype)

    return compute


for _name, _unary, _low, _high in (
    ("abs", np.abs, -8, 8),
    ("neg", np.negative, -8, 8),
    ("sign", np.sign, -8, 8),
    ("ceil", np.ceil, -8, 8),
    ("floor", np.floor, -8, 8),
    ("round_even", np.rint, -8, 8),
    ("cos", np.cos, -8, 8),
    ("sin", np.sin, -8, 8),
    ("tan", np.tan, -8, 8),
    ("erf", scipy_special.erf, -4, 4),
    ("exp", np.exp, -10, 10),
    ("log", np.log, 0.01, 100),
    ("reciprocal", lambda x: 1 / x, 0.1, 8),
    ("sqrt", np.sqrt, 0, 100),
    ("identity", lambda x: x, -8, 8),
):
    reference(_name, _single("input", _low, _high))(lambda input, f=_unary: _wrapping(f)(input))

reference("logical_not", _single("a", 0, 2))(lambda a: (a == 0).astype(np.uint8))
reference("is_nan", _single("a"))(lambda a: np.isnan(a).astype(np.uint8))
reference("is_infinite", _single("a"))(lambda a: np.isinf(a).astype(np.uint8))


# Others


def _cast_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    for target in MLOperandDataType:
        values = np.concatenate([special(data_type).astype(object), numbers(data_type, rng, (20,), -300, 300).astype(object)])
        if data_type.is_float and target.is_integer:
            low, high = target.integer_range
            edges = [float(low), float(low) - 1, float(high), float(high) + 1, 0.5, -0.5, 1.5, -1.5, 2.9, -2.9]
            values = np.concatenate([values, np.array(edges, object)])
        plain = values.astype(np.float64) if data_type.is_float else values.astype(data_type.numpy)
        yield Case({"input": plain}, {"data_type": target}, note=f"to {target}")
        yield Case({"input": plain[0]}, {"data_type": target}, note=f"scalar to {target}")


@reference("cast", _cast_cases)
def cast(input: Array, data_type: MLOperandDataType) -> Array:
    """Truncates and saturates from floats, wraps from integers."""
    if data_type.is_float:
        return (
            input.astype(np.float64)
            if input.dtype.kind == "f"
            else np.array([float(int(x)) for x in input.flat]).reshape(input.shape)
        )
    low, high = data_type.integer_range
    results = []
    for x in input.flat:
        if input.dtype.kind == "f":
            number = 0 if np.isnan(x) else (high if x > 0 else low) if np.isinf(x) else min(max(int(x), low), high)
        else:
            number = (int(x) - low) % (high - low + 1) + low
        results.append(number)
    return np.array(results, object).reshape(input.shape)


def _clamp_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    bounds: list[dict[str, Any]] = [
        {},
        {"min_value": -1},
        {"max_value": 2},
        {"min_value": -1, "max_value": 2},
        {"min_value": 1, "max_value": 1},
        {"min_value": -np.inf, "max_value": np.inf},
    ]
    for index, shape in enumerate(shapes()):
        yield Case({"input": numbers(data_type, rng, shape)}, bounds[index % len(bounds)])
    for options in bounds:
        yield Case({"input": special(data_type)}, options, note="corner values")
    if data_type.is_integer:
        low, high = data_type.integer_range
        yield Case({"input": special(data_type)}, {"min_value": low + 1, "max_value": high - 1}, note="exact bounds")


@reference("clamp", _clamp_cases)
def clamp(input: Array, min_value: Any, max_value: Any) -> Array:
    """Bounds are clamped to the range of integers first, as the specification's cast does."""

    def bound(value: Any) -> Any:
        if input.dtype.kind == "f":
            return value
        low, high = np.iinfo(input.dtype).min, np.iinfo(input.dtype).max
        return low if value <= low else high if value >= high else int(value)

    if min_value is not None:
        input = np.where(input < bound(min_value), bound(min_value), input).astype(input.dtype)
    if max_value is not None:
        input = np.where(input > bound(max_value), bound(max_value), input).astype(input.dtype)
    return input


def _where_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    for a, b in broadcast_pairs():
        shape = np.broadcast_shapes(a, b)
        for condition_shape in {shape, shape[-1:]}:
            condition = rng.integers(0, 3, condition_shape).astype(np.uint8)
            operands = {
                "condition": condition,
                "true_value": numbers(data_type, rng, a),
                "false_value": numbers(data_type, rng, b),
            }
            yield Case(operands, types={"condition": "uint8"})
    values = special(data_type)
    condition = np.arange(len(values)).astype(np.uint8) % 3
    yield Case({"condition": condition, "true_value": values, "false_value": values[::-1]}, types={"condition": "uint8"})


for _name in ("where", "elementwise_if"):
    reference(_name, _where_cases)(lambda condition, true_value, false_value: np.where(condition != 0, true_value, false_value))
