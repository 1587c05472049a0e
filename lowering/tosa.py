"""The vocabulary of TOSA rules: ``to_tosa`` of an op's declaration writes with it what the op is in TOSA.

    @staticmethod
    def to_tosa(t, input, axis):                       # t: Emitter; operands are Tensors, arguments as in ``lower``
        exponent = t.unary("exp", t.binary("sub", input, t.reduce("reduce_max", input, axis)))
        return t.mul(exponent, t.unary("reciprocal", t.reduce("reduce_sum", exponent, axis)))

TOSA has no unsigned integers but the names in quantised operators: unsigned data travels as its bits in the signed type of
the same width, and a rule whose meaning depends on the sign refuses it or orders by other means. Elementwise operators want
equal ranks; ``binary`` and the others reshape for it. Tensors of rank 7 and more travel flat, in row-major order, through a
graph and at its ends: helpers work on three dimensions at a time (before the axis, the axis, after it).
Source: https://www.mlplatform.org/tosa/tosa_spec.html (1.0 and 1.1 draft).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from webnn_xla.dtypes import Descriptor
from webnn_xla.lowering.tosa_writer import (
    FOUR_BITS,
    MAX_RANK,
    NUMPY,
    Tensor,
    TosaUnsupported,
    Writer,
    data_type_of_element,
    element_type,
    fail,
    number,
    number_bits,
    physical,
    signed_only,
)

__all__ = [
    "FOUR_BITS",
    "MAX_RANK",
    "Emitter",
    "Tensor",
    "TosaUnsupported",
    "data_type_of_element",
    "describe",
    "element_type",
    "fail",
    "number",
    "number_bits",
    "physical",
    "signed_only",
]


class Emitter(Writer):
    """Everything that rules use: what ``Writer`` has, and the operators that compute."""

    def take(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """The slices at ``indices`` (i32, of any rank, in bounds) along ``axis``, whose place their shape takes."""
        before, count, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
        if math.prod(before) > 1:
            # One row of indices reads from one batch: the axis comes first, all others are what is read.
            x = self.transpose(x, (axis, *range(axis), *range(axis + 1, x.rank)))
        rows = self.gather(self.reshape(x, (1, count, x.size // count)), self.reshape(indices, (1, indices.size)))
        if math.prod(before) == 1:
            return self.reshape(rows, (*before, *indices.shape, *after))
        rows = self.reshape(rows, (indices.size, math.prod(before), math.prod(after)))
        return self.reshape(self.transpose(rows, (1, 0, 2)), (*before, *indices.shape, *after))

    def gather(self, values: Tensor, indices: Tensor) -> Tensor:
        """[N, K, C] and i32 [N, W], in bounds, to [N, W, C]."""
        shape = (values.shape[0], indices.shape[1], values.shape[2])
        return self.op("gather", (values, self._index(values, indices)), values.element, shape, unsigned=values.unsigned)

    def scatter(self, values: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        """[N, K, C] with rows replaced by [N, W, C], at i32 [N, W], in bounds and distinct in each batch."""
        operands = (values, self._index(values, indices), updates)
        return self.op("scatter", operands, values.element, values.shape, unsigned=values.unsigned)

    def _index(self, values: Tensor, indices: Tensor) -> Tensor:
        """Indices of 64 bits are those that 64-bit values want."""
        return self.cast(indices, "i64") if values.element == "i64" else indices

    # Elementwise

    def scalar(self, value: Any, like: Tensor) -> Tensor:
        """``value`` in the type of ``like``, with its rank and dimensions of 1."""
        return self.const(np.full((1,) * like.rank, value, NUMPY[like.element]), like.element)

    def elementwise(
        self, name: str, operands: Sequence[Tensor], element: str, attributes: str = "", extra: Sequence[Tensor] = ()
    ) -> Tensor:
        """An operator on tensors that broadcast, and ``extra`` operands that do not."""
        aligned, shape = self.align(*operands)
        if len(shape) > MAX_RANK:
            aligned = tuple(
                replace(x, shape=(x.size,)) for x in (x if x.size == 1 else self.broadcast_to(x, shape) for x in aligned)
            )
        unsigned = operands[-1].unsigned
        made = self.op(name, (*aligned, *extra), element, physical(shape), attributes, unsigned=unsigned)
        return made if made.shape == shape else replace(made, shape=shape)

    def unary(self, name: str, x: Tensor) -> Tensor:
        zero = (self.const([0], x.element),) * 2 if name == "negate" else ()
        return self.elementwise(name, (x,), x.element, extra=zero)

    def binary(self, name: str, a: Tensor, b: Any, element: str = "", attributes: str = "") -> Tensor:
        """An elementwise operator on two tensors (or a tensor and a number), broadcast."""
        second = b if isinstance(b, Tensor) else self.scalar(b, a)
        made = self.elementwise(name, (a, second), element or a.element, attributes)
        return replace(made, unsigned=a.unsigned)

    def add(self, a: Tensor, b: Any) -> Tensor:
        return self.binary("add", a, b)

    def sub(self, a: Tensor, b: Any) -> Tensor:
        return self.binary("sub", a, b)

    def mul(self, a: Tensor, b: Any) -> Tensor:
        second = b if isinstance(b, Tensor) else self.scalar(b, a)
        return replace(self.elementwise("mul", (a, second), a.element, extra=(self.const([0], "i8"),)), unsigned=a.unsigned)

    def maximum(self, a: Tensor, b: Any) -> Tensor:
        return self.binary("maximum", a, b)

    def minimum(self, a: Tensor, b: Any) -> Tensor:
        return self.binary("minimum", a, b)

    def clamp(self, x: Tensor, low: float | None, high: float | None) -> Tensor:
        """CLAMP, which takes floats and int8; MAXIMUM and MINIMUM for others. Bounds are in the type of ``x``."""
        if x.is_float:
            values = [float("-inf") if low is None else low, float("inf") if high is None else high]
            bounds = (
                f"0x{np.asarray(value, NUMPY[x.element]).tobytes()[::-1].hex().upper()} : {x.element}" for value in values
            )
            return self.elementwise("clamp", (x,), x.element, "min_val = {}, max_val = {}".format(*bounds))

        def limit(x: Tensor) -> Tensor:
            x = x if low is None else self.maximum(x, low)
            return x if high is None else self.minimum(x, high)

        return self.on_wide(limit, x)

    def truncate(self, x: Tensor) -> Tensor:
        """Floats without their fraction."""
        return self.select(self.compare("greater_equal", x, 0), self.unary("floor", x), self.unary("ceil", x))

    def round_even(self, x: Tensor) -> Tensor:
        """float32 to the nearest whole number, halves to the even one. From 2**23 on all floats are whole."""
        rounded = self.cast(self.cast(x, "i32"), "f32")
        return self.select(self.compare("greater", self.scalar(2.0**23, x), self.unary("abs", x)), rounded, x)

    def divide(self, a: Tensor, b: Tensor) -> Tensor:
        """Quotient of float32 as IEEE 754 rounds it, where the product with the reciprocal may be off in the last digit.

        The remainder is exact: each factor of the product is split into halves of its digits.
        """
        inverse = self.unary("reciprocal", b)
        quotient = self.mul(a, inverse)

        def halves(x: Tensor) -> tuple[Tensor, Tensor]:
            scaled = self.mul(x, 4097)
            high = self.sub(scaled, self.sub(scaled, x))
            return high, self.sub(x, high)

        (qh, ql), (bh, bl) = halves(quotient), halves(b)
        product = self.mul(quotient, b)
        error = self.add(self.sub(self.mul(qh, bh), product), self.mul(qh, bl))
        error = self.add(self.add(error, self.mul(ql, bh)), self.mul(ql, bl))
        remainder = self.sub(self.sub(a, product), error)
        better = self.add(quotient, self.mul(remainder, inverse))
        return self.select(
            self.compare("greater", self.scalar(float("inf"), better), self.unary("abs", better)), better, quotient
        )

    def compare(self, name: str, a: Tensor, b: Any) -> Tensor:
        """``equal``, ``greater`` or ``greater_equal``; the result is of i1."""
        return replace(self.binary(name, a, b, "i1"), unsigned=False)

    def select(self, condition: Tensor, on_true: Any, on_false: Any) -> Tensor:
        like = on_true if isinstance(on_true, Tensor) else on_false
        first = on_true if isinstance(on_true, Tensor) else self.scalar(on_true, like)
        second = on_false if isinstance(on_false, Tensor) else self.scalar(on_false, like)
        return replace(self.elementwise("select", (condition, first, second), like.element), unsigned=like.unsigned)

    def cast(self, x: Tensor, element: str, *, unsigned: bool = False) -> Tensor:
        """TOSA's CAST: float to integer rounds half to even and saturates."""
        if x.element == element:
            return replace(x, unsigned=unsigned)
        if {x.element, element} == {"bf16", "f16"}:
            x = self.cast(x, "f32")
        if element == "i64" and x.is_float:
            return replace(self._to_int64(self.cast(x, "f32")), unsigned=unsigned)
        if x.element == "i64" and element in ("f32", "f16", "bf16"):
            return self.cast(self._from_int64(x), element)
        if x.value is not None and x.element in ("i4", "i64") and element in ("i32", "i64"):
            return replace(self.const(x.value.astype(NUMPY[element]), element), unsigned=unsigned)
        return replace(self.elementwise("cast", (x,), element), unsigned=unsigned)

    def _to_int64(self, x: Tensor) -> Tensor:
        """Whole float32 numbers, saturated, in three parts: CAST goes to 32 bits only."""
        limit = 2.0**63
        x = self.clamp(x, -limit, limit)
        total = None
        for bits in (32, 16, 0):
            # Toward zero, so that what remains has the same sign and loses nothing.
            part = self.truncate(self.mul(x, 2.0**-bits))
            x = self.sub(x, self.mul(part, 2.0**bits))
            wide = self.cast(self.cast(part, "i32"), "i64")
            wide = self.mul(wide, 2**bits) if bits else wide
            total = wide if total is None else self.add(total, wide)
            if bits == 32:
                over = self.compare("greater_equal", part, 2.0**31)
        assert total is not None
        return self.select(over, 2**63 - 1, total)

    def _from_int64(self, x: Tensor) -> Tensor:
        """The nearest float32, in three parts of at most 24 bits; what is below its last digit only decides the rounding."""
        negative = self.compare("greater", self.scalar(0, x), x)
        if not x.unsigned:
            x = self.unary("abs", self.maximum(x, -(2**63) + 1))
        unsigned, x = x.unsigned, replace(x, unsigned=False)

        def part(shift: int, mask: int) -> Tensor:
            shifted = self.binary("logical_right_shift", x, shift) if shift else x
            return self.cast(self.binary("bitwise_and", shifted, mask), "i32")

        high, middle, low = part(40, 2**24 - 1), part(16, 2**24 - 1), part(0, 2**16 - 1)
        large, rest = self.compare("greater", high, 0), self.compare("greater", low, 0)
        odd = self.binary("bitwise_or", middle, 1)
        middle = self.select(self.binary("logical_and", large, rest), odd, middle)
        low = self.select(large, 0, low)
        below = self.add(self.mul(self.cast(middle, "f32"), 2.0**16), self.cast(low, "f32"))
        total = self.add(self.mul(self.cast(high, "f32"), 2.0**40), below)
        return total if unsigned else self.select(negative, self.unary("negate", total), total)

    def to_boolean(self, x: Tensor) -> Tensor:
        """i1: true where not zero."""
        return self.cast(x, "i1")

    def from_boolean(self, x: Tensor) -> Tensor:
        """WebNN's uint8 of 0 and 1."""
        return self.cast(x, "i8", unsigned=True)

    def widen_integer(self, x: Tensor) -> Tensor:
        """int8 as int32: most elementwise operators take only the latter. Unsigned numbers keep their value."""
        if x.element not in ("i8", "i4"):
            return x
        wide = self.cast(x, "i32")
        if x.unsigned:
            bits = 8 if x.element == "i8" else 4
            wide = self.binary("bitwise_and", wide, (1 << bits) - 1)
        return wide

    def narrow_integer(self, x: Tensor, like: Tensor) -> Tensor:
        """The low bits of ``x``, in the type of ``like``: the inverse of ``widen_integer``."""
        return self.cast(x, like.element, unsigned=like.unsigned)

    def ordered(self, x: Tensor) -> Tensor:
        """Integers whose signed order is the order of ``x``: unsigned ones with their highest bit flipped, small ones wide."""
        wide = self.widen_integer(x)
        if not wide.unsigned:
            return wide
        lowest = -(2 ** (int(wide.element[1:]) - 1))
        return replace(self.binary("bitwise_xor", wide, lowest), unsigned=False)

    def on_ordered(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Applies a function that picks among its operands' values (a maximum, …) to integers of any sign and size."""
        like = tensors[0]
        if like.is_float:
            return function(*tensors)
        picked = function(*map(self.ordered, tensors))
        if like.unsigned and like.element in ("i32", "i64"):
            picked = self.binary("bitwise_xor", picked, -(2 ** (int(like.element[1:]) - 1)))
        return self.narrow_integer(picked, like)

    def on_wide(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Applies integer arithmetic to small integers as int32, and keeps the low bits; others as they are."""
        like = tensors[0]
        return self.narrow_integer(function(*map(self.widen_integer, tensors)), like)

    def in_float32(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Runs ``function`` on float32 copies of narrow floats, and rounds its result once."""
        element = tensors[0].element
        if element not in ("f16", "bf16"):
            return function(*tensors)
        return self.cast(function(*(self.cast(tensor, "f32") for tensor in tensors)), element)

    # Reductions and products

    def reduce(self, name: str, x: Tensor, axis: int) -> Tensor:
        """One axis, kept with size 1."""
        if x.shape[axis] == 1 and name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_product"):
            return x

        def whole(x: Tensor, axis: int) -> Tensor:
            shape = [1 if a == axis else size for a, size in enumerate(x.shape)]
            return self.op(name, (x,), x.element, shape, f"axis = {axis} : i32", unsigned=x.unsigned)

        return self.on_axis(whole, x, axis)

    def reduce_all(self, name: str, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Several axes, kept with size 1; neighbours together."""
        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        while axes:
            *axes, last = sorted(axes)
            first = last
            while axes and axes[-1] == first - 1:
                first = axes.pop()
            merged = (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :])
            if first != last:
                x = self.reshape(x, merged)
            x = self.reduce(name, x, first)
        return self.reshape(x, shape)

    def sqrt(self, x: Tensor) -> Tensor:
        return self.unary("reciprocal", self.unary("rsqrt", x))

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """[N, H, C] × [N, C, W] → [N, H, W], accumulated in float32."""
        zeros = [self.const([0], tensor.element) for tensor in (a, b)]
        accumulate = "f32" if a.is_float else "i32"
        product = self.op("matmul", (a, b, *zeros), accumulate, (a.shape[0], a.shape[1], b.shape[2]))
        return self.cast(product, a.element) if a.is_float else product


def describe(descriptor: Descriptor) -> tuple[str, tuple[int, ...], bool]:
    """Element type, shape and unsignedness of an operand."""
    return element_type(descriptor.data_type), tuple(descriptor.shape), not descriptor.data_type.is_signed
