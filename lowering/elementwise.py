"""Elementwise conversion, limiting and selection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor, MLOperandDataType, cast_number
from webnn_xla.lowering.emulation import Emulator, Handle
from webnn_xla.lowering.kinds import DATA_TYPE, NUMBER
from webnn_xla.lowering.op import (
    ANY,
    BOOLEAN,
    FLOATS,
    MOVED,
    Op,
    Operand,
    Option,
    Output,
    Param,
    Same,
    SameRank,
    T,
    reject,
    require,
)
from webnn_xla.lowering.primitives import (
    broadcast_all,
    common_shape,
    constant,
    data_type_of,
    float_to_integer,
    to_boolean,
)
from webnn_xla.lowering.tosa import FOUR_BITS, Emitter, Tensor, data_type_of_element, element_type, fail, number

Lowering = Callable[..., Array]


class Cast(Op):
    """Converts to another data type.

    Float to integer truncates toward zero, saturates, and turns NaN into 0. Integer to integer wraps. To a narrower
    float it rounds to the nearest, ties to even. Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-cast, which
    leaves out-of-range conversions to implementations.
    """

    input = Operand(ANY, required=(T.FLOAT32, T.FLOAT16, T.INT32, T.INT8, T.UINT8), extensions=MOVED)
    data_type = Param(DATA_TYPE, "The data type of the output.")
    output = Output(ANY, SameRank("input"), required=(T.FLOAT32, T.FLOAT16, T.INT32, T.INT8, T.UINT8), extensions=MOVED)
    tosa = "CAST GREATER_EQUAL FLOOR CEIL SELECT EQUAL MAXIMUM MINIMUM SUB CLAMP MUL ADD"
    tosa_note = "CAST rounds half to even: fractions are cut off before; 64-bit integers and floats in parts"
    stablehlo = "and broadcast_in_dim compare convert select"

    @staticmethod
    def infer(input: Descriptor, data_type: MLOperandDataType) -> Descriptor:
        return input.with_type(data_type)

    @staticmethod
    def lower(input: Array, data_type: MLOperandDataType) -> Array:
        if data_type.is_integer and data_type_of(input).is_float:
            return float_to_integer(input, data_type)
        return lax.convert_element_type(input, data_type.numpy)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, data_type: MLOperandDataType) -> Tensor:
        target, unsigned = element_type(data_type), not data_type.is_signed
        if target == "i4":
            fail(FOUR_BITS)
        if input.is_float and data_type.is_float:
            return t.cast(input, target)
        if input.is_float:
            return _tosa_truncate(t, t.cast(input, "f32"), target, unsigned)
        if data_type.is_float:
            return t.cast(_tosa_to_float(t, input), target)
        wide = t.widen_integer(input)
        if input.element == target:
            return replace(input, unsigned=unsigned)
        if target == "i64":
            extended = t.cast(wide, "i64")
            return replace(t.binary("bitwise_and", extended, 2**32 - 1) if wide.unsigned else extended, unsigned=unsigned)
        if wide.element == "i64":
            wide = t.cast(wide, "i32")
        return t.cast(wide, target, unsigned=unsigned)


def _tosa_truncate(t: Emitter, x: Tensor, target: str, unsigned: bool) -> Tensor:
    """CAST rounds half to even and saturates, so the fraction is cut off before; NaN becomes 0."""
    x = t.truncate(x)
    x = t.select(t.compare("equal", x, x), x, 0)
    if not unsigned:
        return t.cast(x, target)
    bits = int(target[1:])
    x = t.maximum(x, 0)
    if bits == 8:
        return t.cast(t.cast(t.minimum(x, 255), "i32"), "i8", unsigned=True)
    # The upper half of the range is negative as bits.
    half, full = float(2 ** (bits - 1)), float(2**bits)
    upper = t.compare("greater_equal", x, half)
    low = t.cast(t.select(upper, t.sub(t.minimum(x, full), full), x), target)
    return replace(t.select(t.compare("greater_equal", x, full), -1, low), unsigned=True)


def _tosa_to_float(t: Emitter, x: Tensor) -> Tensor:
    wide = t.widen_integer(x)
    signed = t.cast(wide, "f32")
    if not wide.unsigned or wide.element == "i64":
        return signed
    # The upper half of the range is negative as bits; its float is taken from halves, rounded once.
    bits = int(wide.element[1:])
    return t.select(t.compare("greater", t.scalar(0, wide), wide), t.add(signed, float(2**bits)), signed)


class Clamp(Op):
    """Limits values to ``min_value`` … ``max_value``. Bounds are cast to the input's type; NaN inputs stay NaN.

    Bounds may be infinite. One that is NaN is rejected: the specification lets it pass, with no meaning that backends
    share. Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-clamp.
    """

    input = Operand(ANY, required=FLOATS)
    min_value = Option(NUMBER, None, "Lower bound. By default there is none.")
    max_value = Option(NUMBER, None, "Upper bound. By default there is none.")
    output = Output(Same("input"), SameRank("input"), required=FLOATS)
    tosa = "CLAMP"
    tosa_note = "CLAMP takes int8, int16 and floats; others: MAXIMUM MINIMUM"
    stablehlo = "broadcast_in_dim maximum minimum"

    @staticmethod
    def infer(input: Descriptor, min_value: int | float | None, max_value: int | float | None) -> Descriptor:
        for name, bound in (("min_value", min_value), ("max_value", max_value)):
            require(bound is None or bound == bound, name, bound, "a number that is not NaN")
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

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, min_value: int | float | None, max_value: int | float | None) -> Tensor:
        data_type = data_type_of_element(input)

        def bound(value: int | float) -> Tensor:
            number = np.asarray(cast_number(value, data_type), data_type.numpy)
            signed = number if input.is_float else number.view(f"i{number.itemsize}")
            return replace(t.scalar(signed, input), unsigned=input.unsigned)

        bounds = [None if value is None else number(value, input) for value in (min_value, max_value) if input.is_float]
        if bounds and not any(value != value for value in bounds):
            return t.clamp(input, *bounds)
        if min_value is not None:
            input = t.on_ordered(t.maximum, input, bound(min_value))
        if max_value is not None:
            input = t.on_ordered(t.minimum, input, bound(max_value))
        return t.unary("identity", input) if min_value is None and max_value is None else input

    @staticmethod
    def emulate(b: Emulator, input: Handle, min_value: int | float | None, max_value: int | float | None) -> Any:
        bounded = input if min_value is None else b.max(input, b.scalar(min_value, input))
        return bounded if max_value is None else b.min(bounded, b.scalar(max_value, input))


class Where(Op):
    """``true_value`` where ``condition`` is not 0, else ``false_value``, all three broadcast.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-where.
    """

    condition = Operand(BOOLEAN, required=BOOLEAN)
    true_value = Operand(ANY, extensions=MOVED)
    false_value = Operand(Same("true_value"))
    output = Output(Same("true_value"))
    tosa = "CAST SELECT"
    stablehlo = "broadcast_in_dim compare select"

    @staticmethod
    def infer(condition: Descriptor, true_value: Descriptor, false_value: Descriptor) -> Descriptor:
        values = true_value.with_shape(common_shape(true_value, false_value, "false_value"))
        return values.with_shape(common_shape(values, condition, "condition"))

    @staticmethod
    def lower(condition: Array, true_value: Array, false_value: Array) -> Array:
        condition, true_value, false_value = broadcast_all(condition, true_value, false_value)
        return lax.select(to_boolean(condition), true_value, false_value)

    @staticmethod
    def to_tosa(t: Emitter, condition: Tensor, true_value: Tensor, false_value: Tensor) -> Tensor:
        return t.select(t.to_boolean(condition), true_value, false_value)

    @staticmethod
    def emulate(b: Emulator, condition: Handle, true_value: Handle, false_value: Handle) -> Any:
        # An infinity on the side that is not taken becomes NaN: 0 * inf.
        data_type = true_value.descriptor.data_type
        chosen = b.clamp(condition, min_value=0, max_value=1)
        taken, other = b.cast(chosen, data_type), b.cast(b.logical_not(chosen), data_type)
        return b.add(b.mul(true_value, taken), b.mul(false_value, other))


class ElementwiseIf(Where):
    """The name that ``where`` had when it was proposed."""

    section = "#api-mlgraphbuilder-where"
    extension = True
    stablehlo = "broadcast_in_dim compare select"
