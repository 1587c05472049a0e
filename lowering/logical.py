"""Elementwise comparison and logic: the results are uint8, 0 or 1; any value but 0 is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor
from webnn_xla.lowering.op import (
    ANY,
    BOOLEAN,
    FLOATS,
    Op,
    Operand,
    Output,
    Same,
    T,
)
from webnn_xla.lowering.primitives import (
    broadcast_all,
    common_shape,
    constant,
    data_type_of,
    from_boolean,
    to_boolean,
)
from webnn_xla.lowering.tosa import Emitter, Tensor

Lowering = Callable[..., Array]


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


def _tosa_compare(name: str, *, swap: bool = False, invert: bool = False) -> Any:
    def to_tosa(t: Emitter, a: Tensor, b: Tensor) -> Tensor:
        first, second = (b, a) if swap else (a, b)
        if not first.is_float:
            first, second = t.ordered(first), t.ordered(second)
        result = t.compare(name, first, second)
        return t.from_boolean(t.unary("logical_not", result) if invert else result)

    return staticmethod(to_tosa)


class Equal(Comparison):
    """1 where ``a == b``, else 0. NaN equals nothing."""

    tosa = "EQUAL CAST"
    lower = _compare(lax.eq)
    to_tosa = _tosa_compare("equal")
    stablehlo = "broadcast_in_dim compare convert"


class NotEqual(Comparison):
    """1 where ``a != b``, else 0. NaN differs from everything."""

    tosa = "EQUAL LOGICAL_NOT CAST"
    lower = _compare(lax.ne)
    to_tosa = _tosa_compare("equal", invert=True)
    stablehlo = "broadcast_in_dim compare convert"


class Greater(Comparison):
    """1 where ``a > b``, else 0. Comparison with NaN is 0."""

    tosa = "GREATER CAST"
    lower = _compare(lax.gt)
    to_tosa = _tosa_compare("greater")
    stablehlo = "broadcast_in_dim compare convert"


class GreaterOrEqual(Comparison):
    """1 where ``a >= b``, else 0. Comparison with NaN is 0."""

    tosa = "GREATER_EQUAL CAST"
    lower = _compare(lax.ge)
    to_tosa = _tosa_compare("greater_equal")
    stablehlo = "broadcast_in_dim compare convert"


class Lesser(Comparison):
    """1 where ``a < b``, else 0. Comparison with NaN is 0."""

    tosa = "GREATER CAST"
    lower = _compare(lax.lt)
    to_tosa = _tosa_compare("greater", swap=True)
    stablehlo = "broadcast_in_dim compare convert"


class LesserOrEqual(Comparison):
    """1 where ``a <= b``, else 0. Comparison with NaN is 0."""

    tosa = "GREATER_EQUAL CAST"
    lower = _compare(lax.le)
    to_tosa = _tosa_compare("greater_equal", swap=True)
    stablehlo = "broadcast_in_dim compare convert"


class Logic(Op, abstract=True):
    section = "#api-mlgraphbuilder-logical"
    a = Operand(BOOLEAN, required=BOOLEAN)
    b = Operand(Same("a"), required=BOOLEAN)
    output = Output(BOOLEAN, required=BOOLEAN)
    infer = Comparison.infer


def _logic(combine: Lowering) -> Any:
    return staticmethod(lambda a, b: from_boolean(combine(*map(to_boolean, broadcast_all(a, b)))))


def _tosa_logic(name: str) -> Any:
    return staticmethod(lambda t, a, b: t.from_boolean(t.binary(name, t.to_boolean(a), t.to_boolean(b))))


class LogicalAnd(Logic):
    """1 where both are not 0, else 0: any value but 0 is true."""

    tosa = "CAST LOGICAL_AND"
    lower = _logic(lax.bitwise_and)
    to_tosa = _tosa_logic("logical_and")
    stablehlo = "and broadcast_in_dim compare convert"


class LogicalOr(Logic):
    """1 where either is not 0, else 0: any value but 0 is true."""

    tosa = "CAST LOGICAL_OR"
    lower = _logic(lax.bitwise_or)
    to_tosa = _tosa_logic("logical_or")
    stablehlo = "broadcast_in_dim compare convert or"


class LogicalXor(Logic):
    """1 where exactly one is not 0, else 0: any value but 0 is true."""

    tosa = "CAST LOGICAL_XOR"
    lower = _logic(lax.bitwise_xor)
    to_tosa = _tosa_logic("logical_xor")
    stablehlo = "broadcast_in_dim compare convert xor"


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
    tosa = "CAST LOGICAL_NOT"
    stablehlo = "broadcast_in_dim compare convert"

    @staticmethod
    def lower(a: Array) -> Array:
        return from_boolean(lax.eq(a, constant(0, a)))

    @staticmethod
    def to_tosa(t: Emitter, a: Tensor) -> Tensor:
        return t.from_boolean(t.unary("logical_not", t.to_boolean(a)))


class IsNaN(Predicate):
    """1 where the value is NaN, else 0. Integers, which the table of limits allows, never are."""

    name = "is_nan"
    tosa = "EQUAL LOGICAL_NOT CAST"
    stablehlo = "compare convert"

    @staticmethod
    def lower(a: Array) -> Array:
        return from_boolean(lax.ne(a, a))

    @staticmethod
    def to_tosa(t: Emitter, a: Tensor) -> Tensor:
        same = t.widen_integer(a)
        return t.from_boolean(t.unary("logical_not", t.compare("equal", same, same)))


class IsInfinite(Predicate):
    """1 where the value is an infinity of either sign, else 0. Integers, which the limits allow, never are."""

    tosa = "ABS EQUAL CAST"
    stablehlo = "abs broadcast_in_dim compare convert"

    @staticmethod
    def lower(a: Array) -> Array:
        if data_type_of(a).is_integer:
            return from_boolean(lax.ne(a, a))
        return from_boolean(lax.eq(lax.abs(a), constant(np.inf, a)))

    @staticmethod
    def to_tosa(t: Emitter, a: Tensor) -> Tensor:
        if not a.is_float:
            return IsNaN.to_tosa(t, a)
        return t.from_boolean(t.compare("equal", t.unary("abs", a), float("inf")))
