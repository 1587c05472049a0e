"""Activation functions, and softmax.

All are computed in float32 at least, and rounded once. Numbers among the options are cast to the input's data type first, as
the specification says. Each is written in a form that neither overflows nor cancels where the function itself does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jax import Array, lax

from webnn_xla.dtypes import Descriptor, cast_number
from webnn_xla.lowering.emulation import Emulator, Handle
from webnn_xla.lowering.fast_reduction import reduce_axes
from webnn_xla.lowering.kinds import DOUBLE, UINT32
from webnn_xla.lowering.op import (
    FLOATS,
    SIGNED,
    Op,
    Operand,
    Option,
    Output,
    Param,
    Same,
    SameRank,
    Target,
    Tolerance,
)
from webnn_xla.lowering.primitives import (
    broadcast_all,
    broadcast_along,
    common_shape,
    constant,
    data_type_of,
    in_float32,
    narrow,
    require_axis,
    widen,
)
from webnn_xla.lowering.tosa import Emitter, Tensor, number


class Activation(Op, abstract=True):
    input = Operand(FLOATS, required=FLOATS)
    output = Output(Same("input"), SameRank("input"), required=FLOATS)


def _activation(function: Callable[[Array], Array]) -> Any:
    lower = in_float32(function)
    return staticmethod(lambda input: lower(input))


def _option(value: float, input: Array, like: Array) -> Array:
    """A number among the options: cast to the type of ``input``, then filling the shape of ``like`` in its type."""
    return constant(cast_number(value, data_type_of(input)), like)


def _zero(x: Array) -> Array:
    return constant(0, x)


def _tosa_activation(write: Callable[[Emitter, Tensor], Tensor]) -> Any:
    return staticmethod(lambda t, input: t.in_float32(lambda x: write(t, x), input))


def _tosa_softplus(t: Emitter, x: Tensor) -> Tensor:
    tail = t.unary("log", t.add(t.unary("exp", t.unary("negate", t.unary("abs", x))), 1))
    return t.add(t.maximum(x, 0), tail)


class Elu(Activation):
    """Exponential linear unit: ``max(0, x) + alpha * (exp(min(0, x)) - 1)``."""

    alpha = Option(DOUBLE, 1.0, "Multiplier of the negative part.")
    tolerance = Tolerance(6, 1)
    tosa = "MINIMUM EXP SUB MUL GREATER SELECT"
    tosa_note = "TOSA has no exp(x) - 1: results near 0 lose their digits"
    stablehlo = "broadcast_in_dim compare exponential_minus_one minimum multiply select"

    @staticmethod
    def lower(input: Array, alpha: float) -> Array:
        x = widen(input)
        zero = _zero(x)
        # The minimum keeps the branch that is not taken finite, for gradients as well.
        negative = lax.mul(_option(alpha, input, x), lax.expm1(lax.min(x, zero)))
        return narrow(lax.select(lax.gt(x, zero), x, negative), input)

    @staticmethod
    def emulate(b: Emulator, input: Handle, alpha: float) -> Any:
        zero = b.scalar(0, input)
        below = b.sub(b.exp(b.min(zero, input)), b.scalar(1, input))
        return b.add(b.max(zero, input), b.mul(b.scalar(alpha, input), below))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, alpha: float) -> Tensor:
        def in_float32(x: Tensor) -> Tensor:
            negative = t.mul(t.sub(t.unary("exp", t.minimum(x, 0)), 1), number(alpha, input))
            return t.select(t.compare("greater", x, 0), x, negative)

        return t.in_float32(in_float32, input)


def _gelu(x: Array) -> Array:
    # As the expression has it, with erf and not erfc: browsers and the suite's tolerances take its rounding for granted.
    gate = lax.add(constant(1, x), lax.erf(lax.mul(x, constant(math.sqrt(0.5), x))))
    return lax.mul(lax.mul(constant(0.5, x), x), gate)


class Gelu(Activation):
    """Gaussian error linear unit: ``0.5 * x * (1 + erf(x / sqrt(2)))``.

    The error is a few ulp of ``x``; for numbers below -1 that is more than a few ulp of the result. Of -infinity it is
    NaN, as the expression says.
    """

    section = "#api-mlgraphbuilder-gelu-method"
    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "MUL ERF ADD"
    lower = _activation(_gelu)

    @staticmethod
    def emulate(b: Emulator, input: Handle) -> Any:
        error = b.erf(b.div(input, b.sqrt(b.scalar(2, input))))
        return b.mul(b.mul(input, b.scalar(0.5, input)), b.add(b.scalar(1, input), error))

    to_tosa = _tosa_activation(lambda t, x: t.mul(t.mul(x, 0.5), t.add(t.unary("erf", t.mul(x, math.sqrt(0.5))), 1)))
    stablehlo = "add broadcast_in_dim chlo.erf multiply"


class HardSigmoid(Activation):
    """``max(0, min(1, alpha * x + beta))``."""

    section = "#api-mlgraphbuilder-hard-sigmoid"
    alpha = Option(DOUBLE, 0.2, "Multiplier.")
    beta = Option(DOUBLE, 0.5, "Number added.")
    tolerance = Tolerance(1, 1, reduction=True)
    tosa = "MUL ADD CLAMP"
    stablehlo = "add broadcast_in_dim maximum minimum multiply"

    @staticmethod
    def lower(input: Array, alpha: float, beta: float) -> Array:
        x = widen(input)
        line = lax.add(lax.mul(_option(alpha, input, x), x), _option(beta, input, x))
        return narrow(lax.max(lax.min(line, constant(1, x)), _zero(x)), input)

    @staticmethod
    def emulate(b: Emulator, input: Handle, alpha: float, beta: float) -> Any:
        line = b.add(b.mul(b.scalar(alpha, input), input), b.scalar(beta, input))
        return b.max(b.min(line, b.scalar(1, input)), b.scalar(0, input))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, alpha: float, beta: float) -> Tensor:
        factor, added = number(alpha, input), number(beta, input)
        return t.in_float32(lambda x: t.clamp(t.add(t.mul(x, factor), added), 0, 1), input)


def _hard_swish(x: Array) -> Array:
    gate = lax.max(lax.min(lax.add(x, constant(3, x)), constant(6, x)), _zero(x))
    # Divided before it is multiplied: x * 6 may overflow where the result does not.
    return lax.mul(x, lax.div(gate, constant(6, x)))


class HardSwish(Activation):
    """``x * max(0, min(6, x + 3)) / 6``. Of -infinity it is NaN, as the expression says."""

    section = "#api-mlgraphbuilder-hard-swish"
    tolerance = Tolerance(3, 1)
    tosa = "ADD CLAMP MUL"
    lower = _activation(_hard_swish)

    @staticmethod
    def emulate(b: Emulator, input: Handle) -> Any:
        six = b.scalar(6, input)
        return b.div(b.mul(input, b.max(b.scalar(0, input), b.min(six, b.add(input, b.scalar(3, input))))), six)

    to_tosa = _tosa_activation(lambda t, x: t.mul(x, t.mul(t.clamp(t.add(x, 3), 0, 6), 1 / 6)))
    stablehlo = "add broadcast_in_dim divide maximum minimum multiply"


class LeakyRelu(Activation):
    """``x`` where it is not negative, else ``alpha * x``."""

    alpha = Option(DOUBLE, 0.01, "Multiplier of the negative part.")
    tolerance = Tolerance(1, 1)
    tosa = "GREATER_EQUAL MUL SELECT"
    stablehlo = "broadcast_in_dim compare multiply select"

    @staticmethod
    def lower(input: Array, alpha: float) -> Array:
        x = widen(input)
        return narrow(lax.select(lax.ge(x, _zero(x)), x, lax.mul(_option(alpha, input, x), x)), input)

    @staticmethod
    def emulate(b: Emulator, input: Handle, alpha: float) -> Any:
        zero = b.scalar(0, input)
        return b.add(b.max(zero, input), b.mul(b.scalar(alpha, input), b.min(zero, input)))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, alpha: float) -> Tensor:
        factor = number(alpha, input)
        return t.in_float32(lambda x: t.select(t.compare("greater_equal", x, 0), x, t.mul(x, factor)), input)


class Linear(Activation):
    """``alpha * x + beta``."""

    alpha = Option(DOUBLE, 1.0, "Multiplier.")
    beta = Option(DOUBLE, 0.0, "Number added.")
    tolerance = Tolerance(1, 1, reduction=True)
    tosa = "MUL ADD"
    stablehlo = "add broadcast_in_dim multiply"

    @staticmethod
    def lower(input: Array, alpha: float, beta: float) -> Array:
        x = widen(input)
        return narrow(lax.add(lax.mul(_option(alpha, input, x), x), _option(beta, input, x)), input)

    @staticmethod
    def emulate(b: Emulator, input: Handle, alpha: float, beta: float) -> Any:
        return b.add(b.mul(input, b.scalar(alpha, input)), b.scalar(beta, input))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, alpha: float, beta: float) -> Tensor:
        factor, added = number(alpha, input), number(beta, input)
        return t.in_float32(lambda x: t.add(t.mul(x, factor), added), input)


class Prelu(Op):
    """``x`` where it is not negative, else ``slope * x``, the two broadcast. Integers wrap."""

    input = Operand(SIGNED, required=FLOATS)
    slope = Operand(Same("input"), required=FLOATS, doc="Multipliers of the negative part.")
    output = Output(Same("input"), required=FLOATS)
    tolerance = Tolerance(1, 1)
    tosa = "GREATER_EQUAL MUL SELECT"
    stablehlo = "broadcast_in_dim compare multiply select"

    @staticmethod
    def infer(input: Descriptor, slope: Descriptor) -> Descriptor:
        return input.with_shape(common_shape(input, slope, "slope"))

    @staticmethod
    def lower(input: Array, slope: Array) -> Array:
        x, factor = broadcast_all(widen(input), widen(slope))
        return narrow(lax.select(lax.ge(x, _zero(x)), x, lax.mul(x, factor)), input)

    @staticmethod
    def emulate(b: Emulator, input: Handle, slope: Handle) -> Any:
        zero = b.scalar(0, input)
        return b.add(b.max(zero, input), b.mul(slope, b.min(zero, input)))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, slope: Tensor) -> Tensor:
        def choose(x: Tensor, slope: Tensor) -> Tensor:
            return t.select(t.compare("greater_equal", x, 0), x, t.mul(x, slope))

        return t.in_float32(choose, input, slope) if input.is_float else t.on_wide(choose, input, slope)


class Relu(Op):
    """``max(0, x)``. NaN stays NaN."""

    section = "#api-mlgraphbuilder-relu-method"
    input = Operand(SIGNED, required=FLOATS)
    output = Output(Same("input"), SameRank("input"), required=FLOATS)
    tosa = "CLAMP"
    tosa_note = "CLAMP takes int8, int16 and floats; others: MAXIMUM"
    stablehlo = "broadcast_in_dim maximum"

    @staticmethod
    def lower(input: Array) -> Array:
        return lax.max(input, _zero(input))

    @staticmethod
    def emulate(b: Emulator, input: Handle) -> Any:
        return b.max(b.scalar(0, input), input)

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor) -> Tensor:
        return t.clamp(input, 0, None)


class Sigmoid(Activation):
    """Logistic function, ``1 / (exp(-x) + 1)``."""

    section = "#api-mlgraphbuilder-sigmoid-method"
    tolerance = Tolerance(3, 1)
    tosa = "SIGMOID"
    lower = _activation(lax.logistic)

    @staticmethod
    def emulate(b: Emulator, input: Handle) -> Any:
        one = b.scalar(1, input)
        return b.div(one, b.add(b.exp(b.neg(input)), one))

    to_tosa = _tosa_activation(lambda t, x: t.unary("sigmoid", x))
    stablehlo = "add broadcast_in_dim divide exponential negate"


def _softplus(x: Array) -> Array:
    # log(1 + exp(x)) with the larger exponential taken out, so that none overflows.
    return lax.add(lax.max(x, _zero(x)), lax.log1p(lax.exp(lax.neg(lax.abs(x)))))


class Softplus(Activation):
    """``log(1 + exp(x))``. For large x it is x, not infinity."""

    section = "#api-mlgraphbuilder-softplus-method"
    tolerance = Tolerance(4, 1)
    tosa = "ABS NEGATE EXP ADD LOG MAXIMUM"
    tosa_note = "TOSA has no log(1 + x): results below 1e-7 lose their digits"
    lower = _activation(_softplus)

    @staticmethod
    def emulate(b: Emulator, input: Handle) -> Any:
        return b.log(b.add(b.exp(input), b.scalar(1, input)))

    to_tosa = _tosa_activation(_tosa_softplus)
    stablehlo = "abs add broadcast_in_dim exponential log_plus_one maximum negate"


class Softsign(Activation):
    """``x / (1 + abs(x))``. Of infinities it is NaN, as the expression says."""

    section = "#api-mlgraphbuilder-softsign-method"
    tolerance = Tolerance(2, 1)
    tosa = "ABS ADD RECIPROCAL MUL"
    lower = _activation(lambda x: lax.div(x, lax.add(constant(1, x), lax.abs(x))))

    @staticmethod
    def emulate(b: Emulator, input: Handle) -> Any:
        return b.div(input, b.add(b.scalar(1, input), b.abs(input)))

    to_tosa = _tosa_activation(lambda t, x: t.mul(x, t.unary("reciprocal", t.add(t.unary("abs", x), 1))))
    stablehlo = "abs add broadcast_in_dim divide"


class Tanh(Activation):
    """Hyperbolic tangent."""

    section = "#api-mlgraphbuilder-tanh-method"
    tolerance = Tolerance(6, 1)
    tosa = "TANH"
    lower = _activation(lax.tanh)

    @staticmethod
    def emulate(b: Emulator, input: Handle) -> Any:
        one, power = b.scalar(1, input), b.exp(b.mul(b.scalar(2, input), input))
        return b.div(b.sub(power, one), b.add(power, one))

    to_tosa = _tosa_activation(lambda t, x: t.unary("tanh", x))
    stablehlo = "tanh"


class Softmax(Op):
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``. All -infinity, any +infinity and any NaN give NaN there."""

    section = "#api-mlgraphbuilder-softmax-method"
    input = Operand(FLOATS, (1, None), required=FLOATS, required_ranks=(1, 5))
    axis = Param(UINT32, "The dimension along which results add up to 1.")
    output = Output(Same("input"), SameRank("input"), required=FLOATS, required_ranks=(1, 5))
    tolerance = Tolerance(20, 1)
    tosa = "REDUCE_MAX SUB EXP REDUCE_SUM RECIPROCAL MUL"
    stablehlo = "add broadcast_in_dim divide exponential maximum reduce subtract"

    @staticmethod
    def infer(input: Descriptor, axis: int) -> Descriptor:
        require_axis(axis, input.rank)
        return input

    @staticmethod
    def lower(input: Array, axis: int, target: Target) -> Array:
        x = widen(input)
        kept = [dimension for dimension in range(x.ndim) if dimension != axis]

        largest = reduce_axes(x, (axis,), lax.reduce_max, lax.max, target)
        exponentials = lax.exp(lax.sub(x, broadcast_along(largest, x.shape, kept)))
        if target.platform == "cpu":
            # Otherwise XLA fuses the exponentials into both of their uses, and computes them twice.
            exponentials = lax.optimization_barrier(exponentials)
        total = reduce_axes(exponentials, (axis,), lax.reduce_sum, lax.add, target)
        return narrow(lax.div(exponentials, broadcast_along(total, x.shape, kept)), input)

    @staticmethod
    def emulate(b: Emulator, input: Handle, axis: int) -> Any:
        power = b.exp(b.sub(input, b.reduce_max(input, axes=(axis,), keep_dimensions=True)))
        return b.div(power, b.reduce_sum(power, axes=(axis,), keep_dimensions=True))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, axis: int) -> Tensor:
        def in_float32(x: Tensor) -> Tensor:
            exponentials = t.unary("exp", t.sub(x, t.reduce("reduce_max", x, axis)))
            return t.mul(exponentials, t.unary("reciprocal", t.reduce("reduce_sum", exponentials, axis)))

        return t.in_float32(in_float32, input)
