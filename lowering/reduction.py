"""Reductions, positions of extremes, and running sums.

Sums of float16 are taken in float32 and rounded once; integer sums and products wrap. NaN among the values makes the
result NaN, whatever the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor, MLOperandDataType
from webnn_xla.lowering import tosa_reduction
from webnn_xla.lowering.emulation import Emulator, Handle
from webnn_xla.lowering.fast_reduction import reduce_axes
from webnn_xla.lowering.kinds import BOOL, DATA_TYPE, UINT32, UINT32S
from webnn_xla.lowering.op import (
    ANY,
    COMMON,
    FLOATS,
    WIDE,
    Op,
    Operand,
    Option,
    Output,
    Param,
    Same,
    SameRank,
    T,
    Target,
    Tolerance,
    require,
)
from webnn_xla.lowering.primitives import (
    broadcast_along,
    constant,
    data_type_of,
    narrow,
    require_axes,
    require_axis,
    widen,
)
from webnn_xla.lowering.tosa import Emitter, Tensor

Axes = tuple[int, ...]
Reduce = Callable[[Array, Axes, Target], Array]


# Reductions: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reduce


def _reduced_shape(shape: Sequence[int], axes: Sequence[int], keep_dimensions: bool) -> list[int]:
    """The specification's "calculate reduction output sizes", for axes that are in range and distinct."""
    if keep_dimensions:
        return [1 if axis in axes else size for axis, size in enumerate(shape)]
    return [size for axis, size in enumerate(shape) if axis not in axes]


class Reduction(Op, abstract=True):
    section = "#api-mlgraphbuilder-reduce"
    input = Operand(FLOATS, required=FLOATS)
    axes = Option(
        UINT32S,
        None,
        "The dimensions to reduce; by default all. An empty list reduces none: the function applies to each element alone.",
    )
    keep_dimensions = Option(BOOL, False, "Whether reduced dimensions stay, with size 1.")
    output = Output(Same("input"), required=FLOATS)

    @staticmethod
    def infer(input: Descriptor, axes: Axes | None, keep_dimensions: bool) -> Descriptor:
        if axes is None:
            axes = tuple(range(input.rank))
        require_axes(axes, input.rank)
        return input.with_shape(_reduced_shape(input.shape, axes, keep_dimensions))


class WideReduction(Reduction, abstract=True):
    input = Operand(WIDE)
    output = Output(Same("input"))


class AnyReduction(Reduction, abstract=True):
    input = Operand(ANY)
    output = Output(Same("input"))


def _reduction(reduce: Reduce, *, exact: bool = False) -> Any:
    """``exact`` functions need no wider type: the result is one of the operand's own numbers."""

    def lower(input: Array, axes: Axes | None, keep_dimensions: bool, target: Target) -> Array:
        axes = tuple(range(input.ndim)) if axes is None else tuple(sorted(axes))
        result = reduce(input, axes, target) if exact else narrow(reduce(widen(input), axes, target), input)
        return lax.expand_dims(result, axes) if keep_dimensions else result

    return staticmethod(lower)


def _reducer(reduce: Any, combine: Any) -> Reduce:
    """Over no axes it is the array itself."""
    return lambda x, axes, target: reduce_axes(x, axes, reduce, combine, target) if axes else x


_sum = _reducer(lax.reduce_sum, lax.add)
_maximum = _reducer(lax.reduce_max, lax.max)
_minimum = _reducer(lax.reduce_min, lax.min)


def _product(x: Array, axes: Axes, target: Target) -> Array:
    return lax.reduce_prod(x, axes) if axes else x


def _magnitude(x: Array) -> Array:
    return lax.abs(x) if data_type_of(x).is_signed else x


def _l2(x: Array, axes: Axes, target: Target) -> Array:
    # The norm of one number is its magnitude, also where its square is out of range.
    if all(x.shape[axis] == 1 for axis in axes):
        return _sum(lax.abs(x), axes, target)
    return lax.sqrt(_sum(lax.mul(x, x), axes, target))


def _mean(x: Array, axes: Axes, target: Target) -> Array:
    total = _sum(x, axes, target)
    count = np.prod([x.shape[axis] for axis in axes], dtype=np.float64)
    return lax.div(total, constant(count, total)) if count > 1 else total


def _log_sum_exp(x: Array, axes: Axes, target: Target) -> Array:
    """log(sum(exp(x - max))) + max, which overflows only where the result does.

    Where the maximum is infinite or NaN it is left out: -infinity - -infinity would be NaN, and exp alone is right.
    Gradients pass through the sum only, which is all of them.
    """
    peak = lax.stop_gradient(_maximum(x, axes, target))
    peak = lax.select(lax.is_finite(peak), peak, constant(0, peak))
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    total = _sum(lax.exp(lax.sub(x, broadcast_along(peak, x.shape, kept))), axes, target)
    return lax.add(lax.log(total), peak)


def _tosa_reduction(write: Callable[[Emitter, Tensor, Axes], Tensor], *, exact: bool = False) -> Any:
    """``write`` keeps reduced axes, with size 1."""

    def to_tosa(t: Emitter, input: Tensor, axes: Axes | None, keep_dimensions: bool) -> Tensor:
        over = tuple(range(input.rank)) if axes is None else tuple(sorted(axes))
        result = write(t, input, over) if exact else t.in_float32(lambda x: write(t, x, over), input)
        return t.reshape(result, _reduced_shape(input.shape, over, keep_dimensions))

    return staticmethod(to_tosa)


class ReduceL1(WideReduction):
    """Sum of the magnitudes."""

    tolerance = Tolerance(6, 1)
    tosa = "ABS REDUCE_SUM RESHAPE"
    lower = _reduction(lambda x, axes, target: _sum(_magnitude(x), axes, target))
    to_tosa = _tosa_reduction(lambda t, x, axes: t.reduce_all("reduce_sum", x if x.unsigned else t.unary("abs", x), axes))
    stablehlo = "abs add broadcast_in_dim reduce"


class ReduceL2(Reduction):
    """Square root of the sum of squares. The squares of float16 values are float32: [200] * 4 gives 400."""

    tolerance = Tolerance(3, 1)
    tosa = "ABS MUL REDUCE_SUM RSQRT RECIPROCAL RESHAPE"
    lower = _reduction(_l2)
    to_tosa = _tosa_reduction(tosa_reduction.l2)
    stablehlo = "abs add broadcast_in_dim multiply reduce sqrt"


class ReduceLogSum(Reduction):
    """Natural logarithm of the sum. Of a sum of 0 it is -infinity, of a negative one NaN."""

    tolerance = Tolerance(2, 1, reduction=True)
    tosa = "LOG REDUCE_SUM RESHAPE"
    lower = _reduction(lambda x, axes, target: lax.log(_sum(x, axes, target)))
    to_tosa = _tosa_reduction(lambda t, x, axes: t.unary("log", t.reduce_all("reduce_sum", x, axes)))
    stablehlo = "add broadcast_in_dim log reduce"

    @staticmethod
    def emulate(b: Emulator, input: Handle, axes: Axes | None, keep_dimensions: bool) -> Any:
        return b.log(b.reduce_sum(input, axes, keep_dimensions))


class ReduceLogSumExp(Reduction):
    """Natural logarithm of the sum of exponentials, exact in range: of [1000, 1000] it is 1000.6931.

    Where all values are -infinity it is -infinity.
    """

    tolerance = Tolerance(2, 1, reduction=True)
    tosa = "ABS GREATER SELECT SUB EXP LOG ADD REDUCE_MAX REDUCE_SUM RESHAPE"
    lower = _reduction(_log_sum_exp)
    to_tosa = _tosa_reduction(tosa_reduction.log_sum_exp)
    stablehlo = "add broadcast_in_dim exponential is_finite log maximum reduce select subtract"

    @staticmethod
    def emulate(b: Emulator, input: Handle, axes: Axes | None, keep_dimensions: bool) -> Any:
        return b.log(b.reduce_sum(b.exp(input), axes, keep_dimensions))


class ReduceMax(AnyReduction):
    """Greatest value."""

    tosa = "REDUCE_MAX RESHAPE"
    lower = _reduction(_maximum, exact=True)
    to_tosa = _tosa_reduction(tosa_reduction.extreme("reduce_max"), exact=True)
    stablehlo = "broadcast_in_dim maximum reduce"


class ReduceMean(Reduction):
    """Average."""

    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "REDUCE_SUM MUL RESHAPE"
    lower = _reduction(_mean)
    to_tosa = _tosa_reduction(tosa_reduction.mean)
    stablehlo = "add broadcast_in_dim divide reduce"


class ReduceMin(AnyReduction):
    """Least value."""

    tosa = "REDUCE_MIN RESHAPE"
    lower = _reduction(_minimum, exact=True)
    to_tosa = _tosa_reduction(tosa_reduction.extreme("reduce_min"), exact=True)
    stablehlo = "broadcast_in_dim minimum reduce"


class ReduceProduct(WideReduction):
    """Product of all values. Integers wrap."""

    input = Operand(WIDE, required=FLOATS)
    output = Output(Same("input"), required=FLOATS)
    tolerance = Tolerance(2, 1, reduction=True)
    tosa = "REDUCE_PRODUCT RESHAPE"
    tosa_note = "REDUCE_PRODUCT takes floats only; integers: MUL of halves"
    lower = _reduction(_product)
    to_tosa = _tosa_reduction(tosa_reduction.product)
    stablehlo = "broadcast_in_dim multiply reduce"


class ReduceSum(WideReduction):
    """Sum. Integers wrap."""

    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "REDUCE_SUM RESHAPE"
    lower = _reduction(_sum)
    to_tosa = _tosa_reduction(lambda t, x, axes: t.reduce_all("reduce_sum", x, axes))
    stablehlo = "add broadcast_in_dim reduce"


class ReduceSumSquare(WideReduction):
    """Sum of squares. Integers wrap."""

    tolerance = Tolerance(6, 1)
    tosa = "MUL REDUCE_SUM RESHAPE"
    lower = _reduction(lambda x, axes, target: _sum(lax.mul(x, x), axes, target))
    to_tosa = _tosa_reduction(lambda t, x, axes: t.reduce_all("reduce_sum", t.mul(x, x), axes))
    stablehlo = "add broadcast_in_dim multiply reduce"

    @staticmethod
    def emulate(b: Emulator, input: Handle, axes: Axes | None, keep_dimensions: bool) -> Any:
        return b.reduce_sum(b.pow(input, b.scalar(2, input)), axes, keep_dimensions)


# Positions of extremes: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-argminmax


class ArgExtreme(Op, abstract=True):
    section = "#api-mlgraphbuilder-argminmax"
    input = Operand(ANY, ranks=(1, None), required_ranks=(1, 5))
    axis = Param(UINT32, "The dimension to search.")
    keep_dimensions = Option(BOOL, False, "Whether the searched dimension stays, with size 1.")
    output_data_type = Option(DATA_TYPE, T.INT32, "int32 or int64; every position must fit.")
    select_last_index = Option(
        BOOL, False, "Which of equal values counts: the last, or (by default) the first.", extension=True
    )
    output = Output((T.INT32, T.INT64), required=(T.INT32,))

    @staticmethod
    def infer(
        input: Descriptor, axis: int, keep_dimensions: bool, output_data_type: MLOperandDataType, select_last_index: bool
    ) -> Descriptor:
        require_axis(axis, input.rank)
        require(output_data_type in (T.INT32, T.INT64), "output_data_type", output_data_type, "int32 or int64")
        largest = output_data_type.integer_range[1]
        size = input.shape[axis]
        require(
            size <= largest,
            "input",
            f"dimension {axis} of size {size}",
            f"at most {largest}, so that {output_data_type} holds it",
        )
        return Descriptor(output_data_type, _reduced_shape(input.shape, (axis,), keep_dimensions))


def _position(reduce: Reduce) -> Any:
    """The extreme first, then the least or greatest position that holds it.

    Two plain reductions do not depend on the order in which a backend reduces, and on CPU are up to twice as fast as one
    over pairs of value and position.
    """

    def lower(
        input: Array,
        axis: int,
        keep_dimensions: bool,
        output_data_type: MLOperandDataType,
        select_last_index: bool,
        target: Target,
    ) -> Array:
        kept = [dimension for dimension in range(input.ndim) if dimension != axis]
        found = lax.eq(input, broadcast_along(reduce(input, (axis,), target), input.shape, kept))
        if data_type_of(input).is_float:
            # The extreme is NaN where any value is, and then equals nothing.
            found = lax.bitwise_or(found, lax.ne(input, input))
        positions = lax.broadcasted_iota(np.int32, input.shape, axis)
        if select_last_index:
            position = _maximum(lax.select(found, positions, constant(-1, positions)), (axis,), target)
        else:
            position = _minimum(lax.select(found, positions, constant(np.iinfo(np.int32).max, positions)), (axis,), target)
        position = lax.convert_element_type(position, output_data_type.numpy)
        return lax.expand_dims(position, (axis,)) if keep_dimensions else position

    return staticmethod(lower)


def _tosa_position(*, least: bool) -> Any:
    def to_tosa(
        t: Emitter,
        input: Tensor,
        axis: int,
        keep_dimensions: bool,
        output_data_type: MLOperandDataType,
        select_last_index: bool,
    ) -> Tensor:
        def search(x: Tensor, axis: int) -> Tensor:
            return tosa_reduction.position(t, x, axis, least=least, last=select_last_index)

        position = t.cast(t.on_axis(search, input, axis), "i64" if output_data_type is T.INT64 else "i32")
        return t.reshape(position, _reduced_shape(input.shape, (axis,), keep_dimensions))

    return staticmethod(to_tosa)


class ArgMin(ArgExtreme):
    """Position of the least value along ``axis``: of equal ones the first. NaN counts as the least."""

    tosa = "NEGATE ARGMAX RESHAPE CAST REVERSE SUB"
    tosa_note = "integers: the first position that holds the extreme; select_last_index: REVERSE before, SUB after"
    lower = _position(_minimum)
    to_tosa = _tosa_position(least=True)
    stablehlo = "broadcast_in_dim compare convert iota maximum minimum or reduce select"


class ArgMax(ArgExtreme):
    """Position of the greatest value along ``axis``: of equal ones the first. NaN counts as the greatest."""

    tosa = "ARGMAX RESHAPE CAST REVERSE SUB"
    tosa_note = "integers: the first position that holds the extreme; select_last_index: REVERSE before, SUB after"
    lower = _position(_maximum)
    to_tosa = _tosa_position(least=False)
    stablehlo = "broadcast_in_dim compare convert iota maximum minimum or reduce select"


# Running sums: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-cumulativesum


SHORT_SUM: Final = 1024
"""Sums along up to this many elements are a loop on CPU, longer ones a tree of slices.

Up to here both run equally fast, and the loop compiles in a fifth of the time. ``lax.cumsum``, the right choice
elsewhere, becomes a windowed sum on CPU, which takes 2 to 7 times as long.
"""


def _one_by_one(x: Array, axis: int, backward: bool) -> Array:
    """Running sums by a loop over ``axis``, all other elements side by side."""
    order = (axis, *(dimension for dimension in range(x.ndim) if dimension != axis))
    rows = lax.transpose(x, order)

    def advance(total: Array, row: Array) -> tuple[Array, Array]:
        total = lax.add(total, row)
        return total, total

    _, sums = lax.scan(advance, constant(0, rows, rows.shape[1:]), rows, reverse=backward)
    return lax.transpose(sums, tuple(order.index(dimension) for dimension in range(x.ndim)))


class CumulativeSum(Op):
    """Sum of all elements along ``axis`` up to each one. Integers wrap.

    Of [1, 2, 3, 4] it is [1, 3, 6, 10]; exclusive [0, 1, 3, 6]; reversed [10, 9, 7, 4]; both [9, 7, 4, 0].
    """

    input = Operand(WIDE, ranks=(1, None), required_ranks=(1, 5))
    axis = Param(UINT32, "The dimension to sum along.")
    exclusive = Option(BOOL, False, "Whether the element itself is left out of its sum.")
    reversed = Option(BOOL, False, "Whether sums start at the last element.")
    output = Output(Same("input"), SameRank("input"), required=COMMON, required_ranks=(1, 5))
    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "SLICE PAD ADD"
    tosa_note = "by doubling: the element before is added, then what is 2 before, 4 before, …"
    stablehlo = "add broadcast_in_dim pad reduce_window"

    @staticmethod
    def infer(input: Descriptor, axis: int, exclusive: bool, reversed: bool) -> Descriptor:
        require_axis(axis, input.rank)
        return input

    @staticmethod
    def lower(input: Array, axis: int, exclusive: bool, reversed: bool, target: Target) -> Array:
        x = widen(input)
        if exclusive:
            # Shifted before the sum and not subtracted after it, which would lose digits, and infinities.
            shift = [(0, 0, 0)] * x.ndim
            shift[axis] = (-1, 1, 0) if reversed else (1, -1, 0)
            x = lax.pad(x, np.zeros((), x.dtype), shift)
        if target.platform != "cpu":
            total = lax.cumsum(x, axis, reverse=reversed)
        elif x.shape[axis] <= SHORT_SUM:
            total = _one_by_one(x, axis, reversed)
        else:
            total = lax.associative_scan(lax.add, x, reverse=reversed, axis=axis)
        return narrow(total, input)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, axis: int, exclusive: bool, reversed: bool) -> Tensor:
        return t.in_float32(lambda x: tosa_reduction.sums(t, x, axis, exclusive, reversed), input)
