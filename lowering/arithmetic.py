"""Elementwise arithmetic: two operands, broadcast, and one.

Integers wrap on overflow. float16 results are those of float32, rounded once. Integer division truncates toward zero;
``x / 0`` is -1 for signed and the largest value for unsigned types, and ``MIN / -1`` is ``MIN``: no case traps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor
from webnn_xla.lowering.emulation import Emulator, Handle
from webnn_xla.lowering.op import (
    ANY,
    FLOATS,
    MOVED,
    SIGNED,
    Op,
    Operand,
    Output,
    Same,
    SameRank,
    Tolerance,
)
from webnn_xla.lowering.primitives import (
    broadcast_all,
    common_shape,
    constant,
    data_type_of,
    in_float32,
)
from webnn_xla.lowering.tosa import Emitter, Tensor, fail, signed_only

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
    power = lax.max(b, zero)  # negative exponents are selected away below

    # A loop, for the bits that are there: unrolled, those of int64 take XLA a second to compile.
    def more(state: tuple[Array, Array, Array]) -> Array:
        return lax.ne(lax.reduce_max(state[2], tuple(range(b.ndim))), constant(0, b, ()))

    def square(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        result, factor, exponent = state
        odd = lax.ne(lax.bitwise_and(exponent, one), zero)
        return (
            lax.select(odd, lax.mul(result, factor), result),
            lax.mul(factor, factor),
            lax.shift_right_logical(exponent, one),
        )

    result, _, _ = lax.while_loop(more, square, (one, a, power))
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


def _tosa_wrapping(write: Callable[[Emitter, Tensor, Tensor], Tensor]) -> Any:
    """TOSA leaves overflow of 32 and 64 bits unpredictable; smaller integers wrap as here."""

    def to_tosa(t: Emitter, a: Tensor, b: Tensor) -> Tensor:
        return t.on_wide(lambda a, b: write(t, a, b), a, b)

    return staticmethod(to_tosa)


def _tosa_picking(write: Callable[[Emitter, Tensor, Tensor], Tensor]) -> Any:
    return staticmethod(lambda t, a, b: t.on_ordered(lambda a, b: write(t, a, b), a, b))


class Add(Binary):
    """Sum of two tensors. Integers wrap."""

    tolerance = Tolerance(1, 1)
    tosa = "ADD"
    tosa_note = "overflow of 32 and 64 bits is unpredictable"
    lower = _binary(lax.add)
    to_tosa = _tosa_wrapping(Emitter.add)
    stablehlo = "add broadcast_in_dim"


class Sub(Binary):
    """Difference of two tensors. Integers wrap."""

    tolerance = Tolerance(1, 1)
    tosa = "SUB"
    tosa_note = "overflow of 32 and 64 bits is unpredictable"
    lower = _binary(lax.sub)
    to_tosa = _tosa_wrapping(Emitter.sub)
    stablehlo = "broadcast_in_dim subtract"


class Mul(Binary):
    """Product of two tensors. Integers wrap."""

    tolerance = Tolerance(1, 1)
    tosa = "MUL"
    tosa_note = "overflow of 32 and 64 bits is unpredictable"
    lower = _binary(lax.mul)
    to_tosa = _tosa_wrapping(Emitter.mul)
    stablehlo = "broadcast_in_dim multiply"


class Div(Binary):
    """Quotient. Integers truncate toward zero; x / 0 is -1 (unsigned: the largest value), MIN / -1 is MIN."""

    tolerance = Tolerance(2, 2)
    tosa = "RECIPROCAL MUL"
    tosa_note = "float: two roundings; integers: INTDIV, of what it leaves unpredictable nothing reaches it; no uint64"
    stablehlo = "broadcast_in_dim divide"
    lower = _binary(lax.div, _integer_div)

    @staticmethod
    def to_tosa(t: Emitter, a: Tensor, b: Tensor) -> Tensor:
        if a.is_float:
            return t.in_float32(lambda a, b: t.mul(a, t.unary("reciprocal", b)), a, b)
        # No operand that INTDIV leaves unpredictable reaches it.
        wide_a, wide_b = t.widen_integer(a), t.widen_integer(b)
        if wide_a.unsigned and wide_a.element == "i32":
            wide_a, wide_b = (t.binary("bitwise_and", t.cast(x, "i64"), 2**32 - 1) for x in (wide_a, wide_b))
        signed_only(wide_a)
        zero = t.compare("equal", wide_b, 0)
        overflow = t.compare("equal", wide_a, -(2 ** (int(wide_a.element[1:]) - 1)))
        overflow = t.binary("logical_and", overflow, t.compare("equal", wide_b, -1))
        safe = t.select(t.binary("logical_or", zero, overflow), 1, wide_b)
        quotient = t.select(zero, -1, t.binary("intdiv", wide_a, safe))
        return t.narrow_integer(t.cast(quotient, "i32") if a.element == "i8" else quotient, a)


class Max(Binary):
    """Greater of two tensors. NaN in either gives NaN; max(-0, 0) is 0."""

    tosa = "MAXIMUM"
    lower = _binary(lax.max)
    to_tosa = _tosa_picking(Emitter.maximum)
    stablehlo = "broadcast_in_dim maximum"


class Min(Binary):
    """Lesser of two tensors. NaN in either gives NaN; min(-0, 0) is -0."""

    tosa = "MINIMUM"
    lower = _binary(lax.min)
    to_tosa = _tosa_picking(Emitter.minimum)
    stablehlo = "broadcast_in_dim minimum"


class Pow(Binary):
    """``a`` to the power ``b``. Integers wrap; to a negative power they are 0, 1 or -1."""

    tolerance = Tolerance(4, 2)
    tosa = "EQUAL ABS SELECT POW MUL FLOOR NEGATE GREATER_EQUAL LOGICAL_NOT LOGICAL_AND RECIPROCAL GREATER TILE"
    tosa_note = "TOSA leaves negative bases undefined: magnitudes only; no integers"
    stablehlo = "broadcast_in_dim power"
    lower = _binary(lax.pow, _integer_pow)

    @staticmethod
    def to_tosa(t: Emitter, a: Tensor, b: Tensor) -> Tensor:
        if not a.is_float:
            fail("TOSA has POW for floats only")
        return t.in_float32(lambda a, b: _tosa_pow(t, a, b), a, b)


def _tosa_pow(t: Emitter, a: Tensor, b: Tensor) -> Tensor:
    """POW of magnitudes, never of 0: TOSA leaves other bases unpredictable."""
    (a, b), shape = t.align(a, b)
    a, b = t.broadcast_to(a, shape), t.broadcast_to(b, shape)
    zero = t.compare("equal", a, 0)
    magnitude = t.binary("pow", t.select(zero, 1, t.unary("abs", a)), b)
    half = t.mul(b, 0.5)
    whole = t.compare("equal", t.unary("floor", b), b)
    even = t.compare("equal", t.unary("floor", half), half)
    broken = t.select(t.compare("equal", t.unary("abs", a), float("inf")), magnitude, float("nan"))
    negative = t.select(whole, t.select(even, magnitude, t.unary("negate", magnitude)), broken)
    result = t.select(t.compare("greater_equal", a, 0), magnitude, negative)
    # Of a negative odd power of zero the sign is that of the zero; a NaN power stays.
    odd = t.binary("logical_and", whole, t.unary("logical_not", even))
    below = t.select(odd, t.unary("reciprocal", a), float("inf"))
    below = t.select(t.compare("greater", t.scalar(0, b), b), below, b)
    of_zero = t.select(t.compare("greater", b, 0), 0, t.select(t.compare("equal", b, 0), t.scalar(1, b), below))
    return t.select(zero, of_zero, result)


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


def _tosa_unary(name: str) -> Any:
    """An operator that takes small integers as int32."""
    return staticmethod(lambda t, input: t.on_wide(lambda x: t.unary(name, x), input))


class Abs(SignedUnary):
    """Absolute value. Of the smallest integer it is that integer."""

    tosa = "ABS"
    lower = _unary(lax.abs, exact=True)
    to_tosa = _tosa_unary("abs")
    stablehlo = "abs"


class Neg(SignedUnary):
    """Negation. Of the smallest integer it is that integer."""

    tosa = "NEGATE"
    lower = _unary(lax.neg, exact=True)
    to_tosa = _tosa_unary("negate")
    stablehlo = "negate"


class Sign(SignedUnary):
    """-1, 0 or 1. NaN stays NaN, and zeros keep their sign."""

    tosa = "GREATER SELECT"
    stablehlo = "sign"
    lower = _unary(lax.sign, exact=True)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor) -> Tensor:
        wide = t.widen_integer(input)
        negative = t.select(t.compare("greater", t.scalar(0, wide), wide), -1, wide)
        return t.narrow_integer(t.select(t.compare("greater", wide, 0), 1, negative), input)

    @staticmethod
    def emulate(b: Emulator, input: Handle) -> Any:
        zero, one, minus_one = (b.scalar(number, input) for number in (0, 1, -1))
        return b.where(b.greater(input, zero), one, b.where(b.lesser(input, zero), minus_one, zero))


class Ceil(Unary):
    """Smallest integer not below."""

    tosa = "CEIL"
    lower = _unary(lax.ceil, exact=True)
    to_tosa = _tosa_unary("ceil")
    stablehlo = "ceil"


class Floor(Unary):
    """Largest integer not above."""

    tosa = "FLOOR"
    lower = _unary(lax.floor, exact=True)
    to_tosa = _tosa_unary("floor")
    stablehlo = "floor"


class RoundEven(Unary):
    """Nearest integer, halves to the even one."""

    tosa = "CAST EQUAL MUL SELECT ABS GREATER"
    stablehlo = "round_nearest_even"
    lower = _unary(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), exact=True)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor) -> Tensor:
        return t.in_float32(lambda x: _tosa_round(t, x), input)


def _tosa_round(t: Emitter, x: Tensor) -> Tensor:
    """CAST to integers rounds half to even. From 2**23 on all floats are whole; a zero keeps the sign of ``x``."""
    rounded = t.cast(t.cast(x, "i32"), "f32")
    rounded = t.select(t.compare("equal", rounded, 0), t.mul(x, 0), rounded)
    return t.select(t.compare("greater", t.scalar(2.0**23, x), t.unary("abs", x)), rounded, x)


class Cos(Unary):
    """Cosine of radians."""

    tolerance = Tolerance(4, 2)
    tosa = "COS"
    lower = _unary(lax.cos)
    to_tosa = _tosa_unary("cos")
    stablehlo = "cosine"


class Sin(Unary):
    """Sine of radians."""

    tolerance = Tolerance(4, 2)
    tosa = "SIN"
    lower = _unary(lax.sin)
    to_tosa = _tosa_unary("sin")
    stablehlo = "sine"


class Tan(Unary):
    """Tangent of radians."""

    tolerance = Tolerance(4, 2)
    tosa = "SIN COS RECIPROCAL MUL"
    stablehlo = "tan"
    lower = _unary(lax.tan)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor) -> Tensor:
        return t.in_float32(lambda x: t.mul(t.unary("sin", x), t.unary("reciprocal", t.unary("cos", x))), input)


class Erf(Unary):
    """Gauss error function."""

    tolerance = Tolerance(10, 2)
    tosa = "ERF"
    lower = _unary(lax.erf)
    to_tosa = _tosa_unary("erf")
    stablehlo = "chlo.erf"


class Exp(Unary):
    """e to the power of the value."""

    tolerance = Tolerance(4, 2)
    tosa = "EXP"
    lower = _unary(lax.exp)
    to_tosa = _tosa_unary("exp")
    stablehlo = "exponential"


class Log(Unary):
    """Natural logarithm. Of 0 it is -infinity, of negative numbers NaN."""

    tolerance = Tolerance(4, 2)
    tosa = "LOG"
    lower = _unary(lax.log)
    to_tosa = _tosa_unary("log")
    stablehlo = "log"


class Reciprocal(Unary):
    """1 / x. Of zeros it is an infinity of the same sign."""

    tolerance = Tolerance(2, 2)
    tosa = "RECIPROCAL"
    lower = _unary(lambda x: lax.div(constant(1, x), x))
    to_tosa = _tosa_unary("reciprocal")
    stablehlo = "broadcast_in_dim divide"


class Sqrt(Unary):
    """Square root. Of negative numbers it is NaN; of -0 it is -0."""

    tolerance = Tolerance(1, 1)
    tosa = "RSQRT RECIPROCAL"
    stablehlo = "sqrt"
    lower = _unary(lax.sqrt)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor) -> Tensor:
        return t.in_float32(lambda x: t.unary("reciprocal", t.unary("rsqrt", x)), input)


class Identity(Unary):
    """The input, unchanged. The only way to make an input or a constant an output."""

    input = Operand(ANY, extensions=MOVED)
    output = Output(Same("input"), SameRank("input"))
    tosa = "IDENTITY"
    stablehlo = ""

    @staticmethod
    def lower(input: Array) -> Array:
        return input

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor) -> Tensor:
        return t.unary("identity", input)
