"""Quantization between floats and integers: per tensor, per channel or per block.

``scale`` and ``zero_point`` have the rank of the input, and each of their dimensions divides that of the input: an element of
theirs belongs to a block of the input's. Types are wide enough that nothing is lost before the one rounding: not to large zero
points, not to float16 scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor
from webnn_xla.lowering import emulation
from webnn_xla.lowering.emulation import Emulator, Handle
from webnn_xla.lowering.op import FLOATS, INTEGERS_8, Op, Operand, Output, Same, SameRank, T, Tolerance, Types, require
from webnn_xla.lowering.primitives import broadcast_along, constant, data_type_of, narrow, widen
from webnn_xla.lowering.tosa import Emitter, Tensor, data_type_of_element

QUANTIZED: Final[Types] = (T.UINT8, T.INT8, T.UINT32, T.INT32)
QUANTIZED_4: Final[Types] = (T.INT4, T.UINT4)
SCALES: Final[Types] = (T.BFLOAT16,)


def _require_blocks(input: Descriptor, scale: Descriptor, zero_point: Descriptor) -> None:
    """The specification's "blockwise broadcastable", and equal shapes. Ranks are equal already."""
    divides = all(whole % parts == 0 for parts, whole in zip(scale.shape, input.shape, strict=True))
    require(divides, "scale", f"shape {list(scale.shape)}", f"dimensions that divide those of the input, {list(input.shape)}")
    same = f"{list(scale.shape)}, the shape of scale"
    require(zero_point.shape == scale.shape, "zero_point", f"shape {list(zero_point.shape)}", same)


class _Blocks:
    """The input's dimensions split into (blocks, elements of a block) where the scale has several blocks.

    Both ways of reshaping the input are free, unlike repeating the scale's elements.
    """

    def __init__(self, whole: Sequence[int], parts: Sequence[int]) -> None:
        self.whole = tuple(whole)
        shape: list[int] = []
        self.axes: list[int] = []
        for size, count in zip(whole, parts, strict=True):
            self.axes.append(len(shape))
            shape += [size] if count in (1, size) else [count, size // count]
        self.shape = tuple(shape)

    def split(self, x: Array) -> Array:
        return x if self.shape == self.whole else lax.reshape(x, self.shape)

    def spread(self, part: Array) -> Array:
        return broadcast_along(part, self.shape, self.axes)

    def join(self, x: Array) -> Array:
        return x if self.shape == self.whole else lax.reshape(x, self.whole)


def _quotient(x: Array, scale: Array, blocks: _Blocks) -> Array:
    """``x / scale``, rounded as IEEE 754 says: a half between two integers must come out as one."""
    # XLA would multiply by the reciprocal of a number that is a constant or repeated, and 45.5 * (1 / 7) is not 6.5 in float32.
    return lax.div(blocks.split(widen(x)), lax.optimization_barrier(blocks.spread(widen(scale))))


def _exact(x: Array) -> Array:
    """Integers in a type that sums and differences of two of them cannot overflow."""
    return lax.convert_element_type(x, np.int32 if data_type_of(x).bits <= 8 else np.int64)


def _tosa_spread(t: Emitter, part: Tensor, blocks: _Blocks) -> Tensor:
    sizes = dict(zip(blocks.axes, part.shape, strict=True))
    return t.reshape(part, [sizes.get(axis, 1) for axis in range(len(blocks.shape))])


def _tosa_exact(t: Emitter, x: Tensor) -> Tensor:
    """``_exact``: int32 for small integers, int64 for others, the value that the bits stand for."""
    wide = t.widen_integer(x)
    if wide is not x:
        return wide
    extended = t.cast(x, "i64")
    return t.binary("bitwise_and", extended, 2**32 - 1) if x.unsigned else extended


class QuantizeLinear(Op):
    """``clamp(round_even(input / scale) + zero_point)`` to the range of the zero point's type, in which the result is.

    The quotient is that of float32. Halves round to the even number, before the zero point is added. Infinities saturate; NaN
    gives 0, as in cast.
    """

    section = "#api-mlgraphbuilder-quantizelinear"
    input = Operand(FLOATS, required=FLOATS, extensions=SCALES)
    scale = Operand(Same("input"), SameRank("input"), required=FLOATS, doc="Positive. A zero divides as IEEE 754 says.")
    zero_point = Operand(
        QUANTIZED, SameRank("input"), required=INTEGERS_8, extensions=QUANTIZED_4, doc="What 0 becomes. The shape of ``scale``."
    )
    output = Output(Same("zero_point"), SameRank("input"), required=INTEGERS_8)
    tosa = (
        "RECIPROCAL MUL SUB ADD ABS GREATER SELECT EQUAL LOGICAL_NOT "
        "CLAMP CAST BITWISE_AND MAXIMUM MINIMUM GREATER_EQUAL FLOOR CEIL RESHAPE"
    )
    tosa_note = "the quotient is corrected to what IEEE 754 says; CAST rounds half to even; 32-bit results need TOSA 1.1"
    stablehlo = (
        "add broadcast_in_dim clamp compare convert divide negate optimization_barrier reshape round_nearest_even select"
    )

    @staticmethod
    def infer(input: Descriptor, scale: Descriptor, zero_point: Descriptor) -> Descriptor:
        _require_blocks(input, scale, zero_point)
        return input.with_type(zero_point.data_type)

    @staticmethod
    def lower(input: Array, scale: Array, zero_point: Array) -> Array:
        blocks = _Blocks(input.shape, scale.shape)
        kind = data_type_of(zero_point)
        offset = blocks.spread(_exact(zero_point))
        rounded = lax.round(_quotient(input, scale, blocks), lax.RoundingMethod.TO_NEAREST_EVEN)
        low, high = kind.integer_range
        # Beyond twice the range the sum saturates whatever the zero point, so that far is far enough to convert exactly.
        bound = constant(float(2 ** (kind.bits + 1)), rounded)
        is_nan = lax.ne(rounded, rounded)
        finite = lax.select(is_nan, constant(0, rounded), lax.clamp(lax.neg(bound), rounded, bound))
        total = lax.add(lax.convert_element_type(finite, offset.dtype), offset)
        result = lax.clamp(constant(low, total), total, constant(high, total))
        result = lax.select(is_nan, constant(0, result), result)
        return blocks.join(lax.convert_element_type(result, zero_point.dtype))

    @staticmethod
    def emulate(b: Emulator, input: Handle, scale: Handle, zero_point: Handle) -> Any:
        kind, shape = zero_point.descriptor.data_type, input.descriptor.shape
        offset = emulation.expand_blocks(b, b.cast(zero_point, input.descriptor.data_type), shape)
        rounded = b.round_even(b.div(input, emulation.expand_blocks(b, scale, shape)))
        low, high = kind.integer_range
        return b.cast(b.clamp(b.add(rounded, offset), min_value=low, max_value=high), kind)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
        blocks = _Blocks(input.shape, scale.shape)
        x = t.reshape(t.cast(input, "f32"), blocks.shape)
        quotient = t.divide(x, _tosa_spread(t, t.cast(scale, "f32"), blocks))
        low, high = data_type_of_element(zero_point).integer_range
        is_nan = t.unary("logical_not", t.compare("equal", quotient, quotient))
        # Beyond twice the range the sum saturates whatever the zero point.
        finite = t.clamp(t.select(is_nan, 0, quotient), -2.0 * (high - low + 1), 2.0 * (high - low + 1))
        offset = _tosa_spread(t, _tosa_exact(t, zero_point), blocks)
        rounded = t.cast(finite, "i32") if offset.element == "i32" else t.cast(t.round_even(finite), "i64")
        total = t.minimum(t.maximum(t.add(rounded, offset), low), high)
        result = t.select(is_nan, 0, total)
        return t.reshape(t.cast(result, zero_point.element, unsigned=zero_point.unsigned), input.shape)


class DequantizeLinear(Op):
    """``(input - zero_point) * scale``, in the type of ``scale``."""

    section = "#api-mlgraphbuilder-dequantizelinear"
    input = Operand(QUANTIZED, required=INTEGERS_8, extensions=QUANTIZED_4)
    scale = Operand(FLOATS, SameRank("input"), required=FLOATS, extensions=SCALES)
    zero_point = Operand(
        Same("input"), SameRank("input"), required=(T.UINT8, T.INT8, T.INT32), doc="What becomes 0. The shape of ``scale``."
    )
    output = Output(Same("scale"), SameRank("input"), required=FLOATS)
    tolerance = Tolerance(2, 1)
    tosa = "CAST BITWISE_AND SUB MUL RESHAPE"
    tosa_note = "32-bit inputs need TOSA 1.1; 4-bit ones have to be constants"
    stablehlo = "broadcast_in_dim convert multiply reshape subtract"

    @staticmethod
    def infer(input: Descriptor, scale: Descriptor, zero_point: Descriptor) -> Descriptor:
        _require_blocks(input, scale, zero_point)
        return input.with_type(scale.data_type)

    @staticmethod
    def lower(input: Array, scale: Array, zero_point: Array) -> Array:
        blocks = _Blocks(input.shape, scale.shape)
        factor = widen(scale)
        difference = lax.sub(blocks.split(_exact(input)), blocks.spread(_exact(zero_point)))
        product = lax.mul(lax.convert_element_type(difference, factor.dtype), blocks.spread(factor))
        return blocks.join(narrow(product, scale))

    @staticmethod
    def emulate(b: Emulator, input: Handle, scale: Handle, zero_point: Handle) -> Any:
        kind, shape = scale.descriptor.data_type, input.descriptor.shape
        offset = emulation.expand_blocks(b, b.cast(zero_point, kind), shape)
        return b.mul(b.sub(b.cast(input, kind), offset), emulation.expand_blocks(b, scale, shape))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
        blocks = _Blocks(input.shape, scale.shape)
        is_zero = zero_point.value is not None and not zero_point.value.any() and not input.unsigned
        if is_zero:
            difference = t.reshape(t.widen_integer(input), blocks.shape)
        else:
            x = t.reshape(_tosa_exact(t, input), blocks.shape)
            difference = t.sub(x, _tosa_spread(t, _tosa_exact(t, zero_point), blocks))
        product = t.mul(t.cast(difference, "f32"), _tosa_spread(t, t.cast(scale, "f32"), blocks))
        return t.cast(t.reshape(product, input.shape), scale.element)
