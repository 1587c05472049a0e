"""Elementwise arithmetic, comparison, logic, selection and conversion.

Integers wrap on overflow. float16 results are those of float32, rounded once. Integer division truncates toward zero;
``x / 0`` is -1 for signed and the largest value for unsigned types, and ``MIN / -1`` is ``MIN``: no case traps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor, MLOperandDataType, cast_number
from webnn_xla.lowering.kinds import DATA_TYPE, NUMBER
from webnn_xla.lowering.op import (
    ANY,
    BOOLEAN,
    FLOATS,
    MOVED,
    SIGNED,
    Op,
    Operand,
    Option,
    Output,
    Param,
    Same,
    SameRank,
    T,
    Tolerance,
    reject,
)
from webnn_xla.lowering.primitives import (
    broadcast_all,
    common_shape,
    constant,
    data_type_of,
    float_to_integer,
    from_boolean,
    in_float32,
    to_boolean,
)

Lowering = Callable[..., Array]


# Binary arithmetic: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-binary


class Binary(Op, abstract=True):
    section = "#api-mlgraphbuilder-binary"
    a = Operand(ANY)
    b = Operand(Same("a"))
    output = Output(Same("a"))

    @staticmethod
    def infer(a: Descriptor, b: Descriptor) -> Descriptor:
        return a.with_shape(common_shape(a, b, "b"))


def _integer_div(a: Array, b: Array) -> Array:
    """Truncating division in which no operand reaches the divider that could trap."""
    zero = lax.eq(b, constant(0, b))
    by_zero = constant(np.iinfo(b.dtype).max if b.dtype.kind == "u" else -1, b)
    if b.dtype.kind == "u":
        return lax.select(zero, by_zero, lax.div(a, lax.select(zero, constant(1, b), b)))
    overflow = lax.bitwise_and(lax.eq(a, constant(np.iinfo(a.dtype).min, a)), lax.eq(b, constant(-1, b)))
    safe = lax.select(lax.bitwise_or(zero, overflow), constant(1, b), b)
    return lax.select(zero, by_zero, lax.div(a, safe))


def _integer_pow(a: Array, b: Array) -> Array:
    """``a ** b`` by squaring, wrapping like ``mul``. A negative exponent gives trunc(1 / a ** -b): 0, 1 or -1."""
    one, zero = constant(1, a), constant(0, a)
    signed = a.dtype.kind == "i"
    result, factor, exponent = one, a, b
    # Bits from the lowest; the sign bit is left out, negative exponents are selected away below.
    for _ in range(a.dtype.itemsize * 8 - signed):
        odd = lax.ne(lax.bitwise_and(exponent, one), zero)
        result = lax.select(odd, lax.mul(result, factor), result)
        factor = lax.mul(factor, factor)
        exponent = lax.shift_right_logical(exponent, one)
    if not signed:
        return result
    odd = lax.ne(lax.bitwise_and(b, one), zero)
    sign = lax.select(odd, a, one)
    unit = lax.eq(lax.abs(a), one)
    negative = lax.select(unit, sign, zero)
    # 0 to a negative power is division by zero, which is -1 here as in div.
    negative = lax.select(lax.eq(a, zero), constant(-1, a), negative)
    return lax.select(lax.lt(b, zero), negative, result)


def _binary(floats: Lowering, integers: Lowering | None = None) -> Any:
    narrow_floats = in_float32(floats)

    def lower(a: Array, b: Array) -> Array:
        a, b = broadcast_all(a, b)
        if data_type_of(a).is_integer:
            return (integers or floats)(a, b)
        return narrow_floats(a, b)

    return staticmethod(lower)


class Add(Binary):
    """Sum of two tensors. Integers wrap."""

    tolerance = Tolerance(1, 1)
    tosa = "ADD"
    lower = _binary(lax.add)


class Sub(Binary):
    """Difference of two tensors. Integers wrap."""

    tolerance = Tolerance(1, 1)
    tosa = "SUB"
    lower = _binary(lax.sub)


class Mul(Binary):
    """Product of two tensors. Integers wrap."""

    tolerance = Tolerance(1, 1)
    tosa = "MUL"
    lower = _binary(lax.mul)


class Div(Binary):
    """Quotient. Integers truncate toward zero; x / 0 is -1 (unsigned: the largest value), MIN / -1 is MIN."""

    tolerance = Tolerance(2, 2)
    tosa = "RECIPROCAL MUL"
    tosa_note = "float: two roundings; int32: INTDIV, where a zero divisor is unpredictable"
    lower = _binary(lax.div, _integer_div)


class Max(Binary):
    """Greater of two tensors. NaN in either gives NaN; max(-0, 0) is 0."""

    tosa = "MAXIMUM"
    lower = _binary(lax.max)


class Min(Binary):
    """Lesser of two tensors. NaN in either gives NaN; min(-0, 0) is -0."""

    tosa = "MINIMUM"
    lower = _binary(lax.min)


class Pow(Binary):
    """``a`` to the power ``b``. Integers wrap; to a negative power they are 0, 1 or -1."""

    tolerance = Tolerance(4, 2)
    tosa = "POW"
    tosa_note = "TOSA leaves negative bases undefined"
    lower = _binary(lax.pow, _integer_pow)


# Comparison and logic: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical


class Comparison(Op, abstract=True):
    section = "#api-mlgraphbuilder-logical"
    a = Operand(ANY)
    b = Operand(Same("a"))
    output = Output(BOOLEAN, required=BOOLEAN)

    @staticmethod
    def infer(a: Descriptor, b: Descriptor) -> Descriptor:
        return Descriptor(T.UINT8, common_shape(a, b, "b"))


def _compare(compare: Lowering) -> Any:
    return staticmethod(lambda a, b: from_boolean(compare(*broadcast_all(a, b))))


class Equal(Comparison):
    """1 where ``a == b``, else 0. NaN equals nothing."""

    tosa = "EQUAL CAST"
    lower = _compare(lax.eq)


class NotEqual(Comparison):
    """1 where ``a != b``, else 0. NaN differs from everything."""

    tosa = "EQUAL LOGICAL_NOT CAST"
    lower = _compare(lax.ne)


class Greater(Comparison):
    """1 where ``a > b``, else 0. Comparison with NaN is 0."""

    tosa = "GREATER CAST"
    lower = _compare(lax.gt)


class GreaterOrEqual(Comparison):
    """1 where ``a >= b``, else 0. Comparison with NaN is 0."""

    tosa = "GREATER_EQUAL CAST"
    lower = _compare(lax.ge)


class Lesser(Comparison):
    """1 where ``a < b``, else 0. Comparison with NaN is 0."""

    tosa = "GREATER CAST"
    lower = _compare(lax.lt)


class LesserOrEqual(Comparison):
    """1 where ``a <= b``, else 0. Comparison with NaN is 0."""

    tosa = "GREATER_EQUAL CAST"
    lower = _compare(lax.le)


class Logic(Op, abstract=True):
    section = "#api-mlgraphbuilder-logical"
    a = Operand(BOOLEAN, required=BOOLEAN)
    b = Operand(Same("a"), required=BOOLEAN)
    output = Output(BOOLEAN, required=BOOLEAN)
    infer = Comparison.infer


def _logic(combine: Lowering) -> Any:
    return staticmethod(lambda a, b: from_boolean(combine(*map(to_boolean, broadcast_all(a, b)))))


class LogicalAnd(Logic):
    """1 where both are not 0, else 0: any value but 0 is true."""

    tosa = "CAST LOGICAL_AND CAST"
    lower = _logic(lax.bitwise_and)


class LogicalOr(Logic):
    """1 where either is not 0, else 0: any value but 0 is true."""

    tosa = "CAST LOGICAL_OR CAST"
    lower = _logic(lax.bitwise_or)


class LogicalXor(Logic):
    """1 where exactly one is not 0, else 0: any value but 0 is true."""

    tosa = "CAST LOGICAL_XOR CAST"
    lower = _logic(lax.bitwise_xor)


class Predicate(Op, abstract=True):
    section = "#api-mlgraphbuilder-logical"
    a = Operand(ANY, required=FLOATS)
    output = Output(BOOLEAN, required=BOOLEAN)

    @staticmethod
    def infer(a: Descriptor) -> Descriptor:
        return a.with_type(T.UINT8)


class LogicalNot(Predicate):
    """1 where the value is 0, else 0."""

    a = Operand(BOOLEAN, required=BOOLEAN)
    tosa = "CAST LOGICAL_NOT CAST"

    @staticmethod
    def lower(a: Array) -> Array:
        return from_boolean(lax.eq(a, constant(0, a)))


class IsNaN(Predicate):
    """1 where the value is NaN, else 0. Integers, which the table of limits allows, never are."""

    name = "is_nan"
    tosa = "EQUAL LOGICAL_NOT CAST"

    @staticmethod
    def lower(a: Array) -> Array:
        return from_boolean(lax.ne(a, a))


class IsInfinite(Predicate):
    """1 where the value is an infinity of either sign, else 0. Integers, which the limits allow, never are."""

    tosa = "ABS EQUAL CAST"

    @staticmethod
    def lower(a: Array) -> Array:
        if data_type_of(a).is_integer:
            return from_boolean(lax.ne(a, a))
        return from_boolean(lax.eq(lax.abs(a), constant(np.inf, a)))


# Unary: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary


class Unary(Op, abstract=True):
    section = "#api-mlgraphbuilder-unary"
    input = Operand(FLOATS, required=FLOATS)
    output = Output(Same("input"), SameRank("input"), required=FLOATS)


class SignedUnary(Unary, abstract=True):
    input = Operand(SIGNED)
    output = Output(Same("input"), SameRank("input"))


def _unary(floats: Lowering, *, exact: bool = False) -> Any:
    """``exact`` functions need no wider type: the result is one of the operand's own numbers."""
    lower = floats if exact else in_float32(floats)
    return staticmethod(lambda input: lower(input))


class Abs(SignedUnary):
    """Absolute value. Of the smallest integer it is that integer."""

    tosa = "ABS"
    lower = _unary(lax.abs, exact=True)


class Neg(SignedUnary):
    """Negation. Of the smallest integer it is that integer."""

    tosa = "NEGATE"
    lower = _unary(lax.neg, exact=True)


class Sign(SignedUnary):
    """-1, 0 or 1. NaN stays NaN, and zeros keep their sign."""

    tosa = "GREATER GREATER SELECT SELECT"
    lower = _unary(lax.sign, exact=True)


class Ceil(Unary):
    """Smallest integer not below."""

    tosa = "CEIL"
    lower = _unary(lax.ceil, exact=True)


class Floor(Unary):
    """Largest integer not above."""

    tosa = "FLOOR"
    lower = _unary(lax.floor, exact=True)


class RoundEven(Unary):
    """Nearest integer, halves to the even one."""

    tosa = "FLOOR SUB GREATER SELECT"
    lower = _unary(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), exact=True)


class Cos(Unary):
    """Cosine of radians."""

    tolerance = Tolerance(4, 2)
    tosa = "COS"
    lower = _unary(lax.cos)


class Sin(Unary):
    """Sine of radians."""

    tolerance = Tolerance(4, 2)
    tosa = "SIN"
    lower = _unary(lax.sin)


class Tan(Unary):
    """Tangent of radians."""

    tolerance = Tolerance(4, 2)
    tosa = "SIN COS RECIPROCAL MUL"
    lower = _unary(lax.tan)


class Erf(Unary):
    """Gauss error function."""

    tolerance = Tolerance(10, 2)
    tosa = "ERF"
    lower = _unary(lax.erf)


class Exp(Unary):
    """e to the power of the value."""

    tolerance = Tolerance(4, 2)
    tosa = "EXP"
    lower = _unary(lax.exp)


class Log(Unary):
    """Natural logarithm. Of 0 it is -infinity, of negative numbers NaN."""

    tolerance = Tolerance(4, 2)
    tosa = "LOG"
    lower = _unary(lax.log)


class Reciprocal(Unary):
    """1 / x. Of zeros it is an infinity of the same sign."""

    tolerance = Tolerance(2, 2)
    tosa = "RECIPROCAL"
    lower = _unary(lambda x: lax.div(constant(1, x), x))


class Sqrt(Unary):
    """Square root. Of negative numbers it is NaN; of -0 it is -0."""

    tolerance = Tolerance(1, 1)
    tosa = "RSQRT RECIPROCAL"
    lower = _unary(lax.sqrt)


class Identity(Unary):
    """The input, unchanged. The only way to make an input or a constant an output."""

    input = Operand(ANY, extensions=MOVED)
    output = Output(Same("input"), SameRank("input"))
    tosa = "IDENTITY"

    @staticmethod
    def lower(input: Array) -> Array:
        return input


# Others that work on each element alone


class Cast(Op):
    """Converts to another data type.

    Float to integer truncates toward zero, saturates, and turns NaN into 0. Integer to integer wraps. To a narrower
    float it rounds to the nearest, ties to even. Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-cast, which
    leaves out-of-range conversions to implementations.
    """

    input = Operand(ANY, required=(T.FLOAT32, T.FLOAT16, T.INT32, T.INT8, T.UINT8), extensions=MOVED)
    data_type = Param(DATA_TYPE, "The data type of the output.")
    output = Output(ANY, SameRank("input"), required=(T.FLOAT32, T.FLOAT16, T.INT32, T.INT8, T.UINT8), extensions=MOVED)
    tosa = "CAST"
    tosa_note = "CAST rounds half to even: SELECT(x >= 0, FLOOR, CEIL) before it"

    @staticmethod
    def infer(input: Descriptor, data_type: MLOperandDataType) -> Descriptor:
        return input.with_type(data_type)

    @staticmethod
    def lower(input: Array, data_type: MLOperandDataType) -> Array:
        if data_type.is_integer and data_type_of(input).is_float:
            return float_to_integer(input, data_type)
        return lax.convert_element_type(input, data_type.numpy)


class Clamp(Op):
    """Limits values to ``min_value`` … ``max_value``. Bounds are cast to the input's type; NaN inputs stay NaN.

    A bound that is NaN makes every element NaN (for integers it is 0). Source:
    https://www.w3.org/TR/webnn/#api-mlgraphbuilder-clamp.
    """

    input = Operand(ANY, required=FLOATS)
    min_value = Option(NUMBER, None, "Lower bound. By default there is none.")
    max_value = Option(NUMBER, None, "Upper bound. By default there is none.")
    output = Output(Same("input"), SameRank("input"), required=FLOATS)
    tosa = "CLAMP"
    tosa_note = "CLAMP takes int8, int16 and floats; others: MAXIMUM MINIMUM"

    @staticmethod
    def infer(input: Descriptor, min_value: int | float | None, max_value: int | float | None) -> Descriptor:
        if min_value is not None and max_value is not None:
            low, high = cast_number(min_value, input.data_type), cast_number(max_value, input.data_type)
            if low > high:
                reject("min_value", str(min_value), f"at most max_value, {max_value}, in {input.data_type}")
        return input

    @staticmethod
    def lower(input: Array, min_value: int | float | None, max_value: int | float | None) -> Array:
        data_type = data_type_of(input)
        if min_value is not None:
            input = lax.max(input, constant(cast_number(min_value, data_type), input))
        if max_value is not None:
            input = lax.min(input, constant(cast_number(max_value, data_type), input))
        return input


class Where(Op):
    """``true_value`` where ``condition`` is not 0, else ``false_value``, all three broadcast.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-where.
    """

    condition = Operand(BOOLEAN, required=BOOLEAN)
    true_value = Operand(ANY, extensions=MOVED)
    false_value = Operand(Same("true_value"))
    output = Output(Same("true_value"))
    tosa = "CAST SELECT"

    @staticmethod
    def infer(condition: Descriptor, true_value: Descriptor, false_value: Descriptor) -> Descriptor:
        values = true_value.with_shape(common_shape(true_value, false_value, "false_value"))
        return values.with_shape(common_shape(values, condition, "condition"))

    @staticmethod
    def lower(condition: Array, true_value: Array, false_value: Array) -> Array:
        condition, true_value, false_value = broadcast_all(condition, true_value, false_value)
        return lax.select(to_boolean(condition), true_value, false_value)


class ElementwiseIf(Where):
    """The name that ``where`` had when it was proposed."""

    section = "#api-mlgraphbuilder-where"
    extension = True


