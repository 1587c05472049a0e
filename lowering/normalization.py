"""Normalization by mean and variance.

Sums are taken in float32 at least, and rounded once. ``epsilon`` is cast to the input's data type first, as the specification
says. The mean is subtracted in two steps, the second of which removes the rounding of the first: a mean much larger than
the deviation costs no digits, and equal elements give the bias.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor, cast_number
from webnn_xla.lowering import emulation
from webnn_xla.lowering.emulation import Emulator, Handle
from webnn_xla.lowering.fast_reduction import reduce_axes
from webnn_xla.lowering.kinds import DOUBLE, UINT32, UINT32S, choice
from webnn_xla.lowering.op import (
    FLOATS,
    Op,
    Operand,
    Option,
    OptionalOperand,
    Output,
    Same,
    SameRank,
    Target,
    Tolerance,
    require,
)
from webnn_xla.lowering.primitives import (
    broadcast_along,
    broadcast_to,
    constant,
    data_type_of,
    narrow,
    require_axes,
    require_axis,
    require_broadcastable,
    widen,
)
from webnn_xla.lowering.tosa import Emitter, Tensor, number

DOT_ELEMENTS: Final = 4096
"""Longest mean that a CPU takes as a matrix product, which rounds more often than the sum of a folded row."""


def _mean(x: Array, axes: Sequence[int], target: Target) -> Array:
    """Mean over ``axes`` (sorted), which are removed."""
    count = math.prod(x.shape[axis] for axis in axes)
    # Divided before it is added up: a quotient that follows the sum may be contracted with the subtraction of the mean into one
    # operation in one place and not in another, and the two steps of _center would not subtract the same mean.
    mean = reduce_axes(lax.mul(x, constant(1 / count, x)), axes, lax.reduce_sum, lax.add, target)
    return _kept(mean, target)


def _first_mean(x: Array, axes: Sequence[int], target: Target) -> Array:
    """``_mean``. As a matrix product on CPU, where XLA has to put ``x`` in memory for it.

    Otherwise it fuses what computes ``x`` into all that reads it, and with that the normalization before, and so on.
    """
    count = math.prod(x.shape[axis] for axis in axes)
    first = x.ndim - len(axes)
    if target.platform != "cpu" or axes[0] != first or not 1 < count <= DOT_ELEMENTS:
        return _mean(x, axes, target)
    rows = lax.reshape(x, (*x.shape[:first], count))
    return lax.dot_general(
        rows, constant(1 / count, x, (count,)), (((first,), (0,)), ((), ())), precision=lax.Precision.HIGHEST
    )


def _kept(x: Array, target: Target) -> Array:
    """``x``; on CPU behind a barrier, so that nothing of what is computed after it is moved before."""
    result: Array = lax.optimization_barrier(x) if target.platform == "cpu" else x
    return result


def _center(x: Array, axes: Sequence[int], target: Target) -> Array:
    """``x`` less its mean over ``axes`` (sorted). Over no axes every element is its own mean."""
    if not axes:
        return constant(0, x)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    for mean in (_first_mean, _mean):
        x = lax.sub(x, broadcast_along(mean(x, axes, target), x.shape, kept))
    return x


def _variance(centered: Array, axes: Sequence[int], target: Target) -> Array:
    """Mean of squares over ``axes`` (sorted), which are removed."""
    squares = lax.mul(centered, centered)
    return _mean(squares, axes, target) if axes else squares


def _reciprocal_deviation(variance: Array, epsilon: float, like: Array) -> Array:
    """``1 / sqrt(variance + epsilon)``, epsilon cast to the type of ``like``."""
    added = constant(cast_number(epsilon, data_type_of(like)), variance)
    return lax.div(constant(1, variance), lax.sqrt(lax.add(variance, added)))


def _normalize(input: Array, axes: Sequence[int], epsilon: float, target: Target) -> Array:
    """``input`` (widened) less its mean, over its deviation, both over ``axes``. Over no axes it is 0."""
    axes = sorted(axes)
    wide = widen(input)
    if not axes:
        return constant(0, wide)
    kept = [axis for axis in range(input.ndim) if axis not in axes]

    def spread(x: Array) -> Array:
        return broadcast_along(x, input.shape, kept)

    if target.platform == "portable":
        centered = _center(wide, axes, target)
        variance = _variance(centered, axes, target)
    else:
        # What is left of the mean after its first subtraction is small, so the mean of squares needs not wait for it: their
        # difference loses no digits but where all elements are equal, and there it may be a little less than 0.
        nearly = lax.sub(wide, spread(_first_mean(wide, axes, target)))
        rest, squares = _mean(nearly, axes, target), _variance(nearly, axes, target)
        centered = lax.sub(nearly, spread(rest))
        variance = lax.max(lax.sub(squares, lax.mul(rest, rest)), constant(0, rest))
    factor = _kept(_reciprocal_deviation(variance, epsilon, input), target)
    return lax.mul(centered, spread(factor))


def _along(operand: Array, shape: Sequence[int], axes: Sequence[int]) -> Array:
    """``operand`` (widened), whose dimension i belongs to ``axes[i]`` in any order, broadcast to ``shape``."""
    order = sorted(range(len(axes)), key=lambda index: axes[index])
    return broadcast_along(lax.transpose(widen(operand), order), shape, sorted(axes))


def _affine(x: Array, scale: Array | None, bias: Array | None) -> Array:
    """``x * scale + bias``, each of the shape of ``x`` or left out."""
    if scale is not None:
        x = lax.mul(x, scale)
    return x if bias is None else lax.add(x, bias)


def _tosa_mean(t: Emitter, x: Tensor, axes: Sequence[int]) -> Tensor:
    count = math.prod(x.shape[axis] for axis in axes)
    return t.reduce_all("reduce_sum", t.mul(x, 1 / count) if count > 1 else x, axes)


def _tosa_center(t: Emitter, x: Tensor, axes: Sequence[int]) -> Tensor:
    if not axes:
        return t.const(np.zeros(x.shape), x.element)
    for _ in range(2):
        x = t.sub(x, _tosa_mean(t, x, axes))
    return x


def _tosa_normalize(t: Emitter, input: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """``_normalize``, in float32."""
    centered = _tosa_center(t, t.cast(input, "f32"), sorted(axes))
    if not axes:
        return centered
    variance = _tosa_mean(t, t.mul(centered, centered), sorted(axes))
    return t.mul(centered, t.unary("rsqrt", t.add(variance, number(epsilon, input))))


def _tosa_along(t: Emitter, operand: Tensor | None, rank: int, axes: Sequence[int]) -> Tensor | None:
    """``_along``, in float32, with dimensions of 1 where there is nothing."""
    if operand is None:
        return None
    order = sorted(range(len(axes)), key=lambda index: axes[index])
    sizes = dict(zip(axes, operand.shape, strict=True))
    return t.reshape(t.transpose(t.cast(operand, "f32"), order), [sizes.get(axis, 1) for axis in range(rank)])


def _tosa_affine(t: Emitter, x: Tensor, factors: Iterable[Tensor | None], like: Tensor) -> Tensor:
    """``_affine`` with scale and bias, in the type of ``like``."""
    scale, bias = factors
    x = x if scale is None else t.mul(x, scale)
    return t.cast(x if bias is None else t.add(x, bias), like.element)


def _require_shape(operand: Descriptor | None, shape: list[int], name: str, why: str) -> None:
    if operand is not None:
        require(operand.shape == shape, name, f"shape {list(operand.shape)}", f"shape {shape}, {why}")


class BatchNormalization(Op):
    """``(input - mean) / sqrt(variance + epsilon) * scale + bias``, with one number of each for every index along ``axis``.

    The shape of ``mean``, ``variance``, ``scale`` and ``bias`` is [input.shape[axis]].
    """

    section = "#api-mlgraphbuilder-batchnorm"
    input = Operand(FLOATS, (1, None), required=FLOATS, required_ranks=(3, 5))
    mean = Operand(Same("input"), (1, 1), required=FLOATS, required_ranks=(1, 1))
    variance = Operand(Same("input"), (1, 1), required=FLOATS, required_ranks=(1, 1))
    scale = OptionalOperand(Same("input"), (1, 1), required=FLOATS, required_ranks=(1, 1), doc="By default 1.")
    bias = OptionalOperand(Same("input"), (1, 1), required=FLOATS, required_ranks=(1, 1), doc="By default 0.")
    axis = Option(UINT32, 1, "The dimension of features (channels).")
    epsilon = Option(DOUBLE, 1e-5, "Added to the variance.")
    output = Output(Same("input"), SameRank("input"), required=FLOATS, required_ranks=(3, 5))
    tolerance = Tolerance(3, 1, reduction=True)
    tosa = "ADD RSQRT SUB MUL RESHAPE"
    stablehlo = "add broadcast_in_dim divide multiply sqrt subtract"

    @staticmethod
    def infer(
        input: Descriptor,
        mean: Descriptor,
        variance: Descriptor,
        scale: Descriptor | None,
        bias: Descriptor | None,
        axis: int,
        epsilon: float,
    ) -> Descriptor:
        require_axis(axis, input.rank)
        wanted, why = [input.shape[axis]], f"that of dimension {axis} of the input"
        for name, operand in (("mean", mean), ("variance", variance), ("scale", scale), ("bias", bias)):
            _require_shape(operand, wanted, name, why)
        return input

    @staticmethod
    def lower(
        input: Array, mean: Array, variance: Array, scale: Array | None, bias: Array | None, axis: int, epsilon: float
    ) -> Array:
        def spread(operand: Array) -> Array:
            return broadcast_along(widen(operand), input.shape, [axis])

        factor = _reciprocal_deviation(widen(variance), epsilon, input)
        if scale is not None:
            # One number a feature is cheaper to multiply than one an element.
            factor = lax.mul(widen(scale), factor)
        scaled = lax.mul(lax.sub(widen(input), spread(mean)), spread(factor))
        return narrow(_affine(scaled, None, None if bias is None else spread(bias)), input)

    @staticmethod
    def emulate(
        b: Emulator,
        input: Handle,
        mean: Handle,
        variance: Handle,
        scale: Handle | None,
        bias: Handle | None,
        axis: int,
        epsilon: float,
    ) -> Any:
        shape = input.descriptor.shape
        deviation = b.sqrt(b.add(emulation.spread(b, variance, shape, [axis]), b.scalar(epsilon, input)))
        normalized = b.div(b.sub(input, emulation.spread(b, mean, shape, [axis])), deviation)
        return emulation.affine(b, normalized, scale, bias, [axis])

    @staticmethod
    def to_tosa(
        t: Emitter,
        input: Tensor,
        mean: Tensor,
        variance: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        axis: int,
        epsilon: float,
    ) -> Tensor:
        def spread(operand: Tensor) -> Tensor:
            return t.along(t.cast(operand, "f32"), input.rank, axis)

        factor = t.unary("rsqrt", t.add(spread(variance), number(epsilon, input)))
        if scale is not None:
            factor = t.mul(factor, spread(scale))
        scaled = t.mul(t.sub(t.cast(input, "f32"), spread(mean)), factor)
        return _tosa_affine(t, scaled, (None, None if bias is None else spread(bias)), input)


class InstanceNormalization(Op):
    """Normalizes every channel of every image over its height and width, then multiplies by ``scale`` and adds ``bias``.

    The shape of ``scale`` and ``bias`` is [channels].
    """

    section = "#api-mlgraphbuilder-instancenorm"
    input = Operand(FLOATS, (4, 4), required=FLOATS, required_ranks=(4, 4))
    scale = OptionalOperand(Same("input"), (1, 1), required=FLOATS, required_ranks=(1, 1), doc="By default 1.")
    bias = OptionalOperand(Same("input"), (1, 1), required=FLOATS, required_ranks=(1, 1), doc="By default 0.")
    epsilon = Option(DOUBLE, 1e-5, "Added to the variance.")
    layout = Option(choice("nchw", "nhwc"), "nchw", "Order of the input's dimensions.")
    output = Output(Same("input"), (4, 4), required=FLOATS, required_ranks=(4, 4))
    tolerance = Tolerance(3, 1, reduction=True)
    tosa = "MUL RESHAPE REDUCE_SUM SUB ADD RSQRT"
    stablehlo = "add broadcast_in_dim divide multiply reduce sqrt subtract"

    @staticmethod
    def infer(input: Descriptor, scale: Descriptor | None, bias: Descriptor | None, epsilon: float, layout: str) -> Descriptor:
        channels = [input.shape[layout.index("c")]]
        for name, operand in (("scale", scale), ("bias", bias)):
            _require_shape(operand, channels, name, f"the channels of the input in layout {layout}")
        return input

    @staticmethod
    def lower(input: Array, scale: Array | None, bias: Array | None, epsilon: float, layout: str, target: Target) -> Array:
        channel = [layout.index("c")]
        normalized = _normalize(input, [layout.index("h"), layout.index("w")], epsilon, target)
        factors = (None if operand is None else _along(operand, input.shape, channel) for operand in (scale, bias))
        return narrow(_affine(normalized, *factors), input)

    @staticmethod
    def emulate(b: Emulator, input: Handle, scale: Handle | None, bias: Handle | None, epsilon: float, layout: str) -> Any:
        normalized = emulation.normalize(b, input, [layout.index("h"), layout.index("w")], epsilon)
        return emulation.affine(b, normalized, scale, bias, [layout.index("c")])

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, scale: Tensor | None, bias: Tensor | None, epsilon: float, layout: str) -> Tensor:
        channel = [layout.index("c")]
        normalized = _tosa_normalize(t, input, [layout.index("h"), layout.index("w")], epsilon)
        factors = (_tosa_along(t, operand, input.rank, channel) for operand in (scale, bias))
        return _tosa_affine(t, normalized, factors, input)


class LayerNormalization(Op):
    """Normalizes over ``axes``, then multiplies by ``scale`` and adds ``bias``, whose dimension i belongs to ``axes[i]``.

    Over no axes, which is the default for scalars and vectors, every element is its own mean: the result is the bias, or 0.
    """

    section = "#api-mlgraphbuilder-layernorm"
    input = Operand(FLOATS, required=FLOATS)
    scale = OptionalOperand(Same("input"), required=FLOATS, doc="By default 1.")
    bias = OptionalOperand(Same("input"), required=FLOATS, doc="By default 0.")
    axes = Option(UINT32S, None, "Dimensions to normalize over. By default all but the first.")
    epsilon = Option(DOUBLE, 1e-5, "Added to the variance.")
    output = Output(Same("input"), SameRank("input"), required=FLOATS)
    tolerance = Tolerance(3, 1, reduction=True)
    tosa = "MUL ADD RESHAPE REDUCE_SUM SUB RSQRT TRANSPOSE"
    stablehlo = "add broadcast_in_dim divide multiply reduce sqrt subtract transpose"

    @staticmethod
    def infer(
        input: Descriptor,
        scale: Descriptor | None,
        bias: Descriptor | None,
        axes: tuple[int, ...] | None,
        epsilon: float,
    ) -> Descriptor:
        if axes is None:
            axes = tuple(range(1, input.rank))
        require_axes(axes, input.rank)
        wanted = [input.shape[axis] for axis in axes]
        for name, operand in (("scale", scale), ("bias", bias)):
            _require_shape(operand, wanted, name, f"that of dimensions {list(axes)} of the input")
        return input

    @staticmethod
    def lower(
        input: Array,
        scale: Array | None,
        bias: Array | None,
        axes: tuple[int, ...] | None,
        epsilon: float,
        target: Target,
    ) -> Array:
        over = tuple(range(1, input.ndim)) if axes is None else axes
        normalized = _normalize(input, over, epsilon, target)
        factors = (None if operand is None else _along(operand, input.shape, over) for operand in (scale, bias))
        return narrow(_affine(normalized, *factors), input)

    @staticmethod
    def emulate(
        b: Emulator, input: Handle, scale: Handle | None, bias: Handle | None, axes: tuple[int, ...] | None, epsilon: float
    ) -> Any:
        over = tuple(range(1, input.descriptor.rank)) if axes is None else axes
        return emulation.affine(b, emulation.normalize(b, input, over, epsilon), scale, bias, over)

    @staticmethod
    def to_tosa(
        t: Emitter,
        input: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        axes: tuple[int, ...] | None,
        epsilon: float,
    ) -> Tensor:
        over = tuple(range(1, input.rank)) if axes is None else axes
        normalized = _tosa_normalize(t, input, over, epsilon)
        factors = (_tosa_along(t, operand, input.rank, over) for operand in (scale, bias))
        return _tosa_affine(t, normalized, factors, input)


class MeanVarianceNormalization(Op):
    """``(input - mean) / sqrt(variance + epsilon) * scale + bias``, what all other normalizations are made of.

    A mean or variance that is left out is taken over ``axes`` of the input; the variance is that of the input less the mean,
    given or not. Operands broadcast to the input's shape, dimensions aligned at the last. Over no axes every element is
    its own mean. ``webnn_xla.normalizations`` has layer, instance, batch and group normalization in terms of it.
    """

    extension = True
    input = Operand(FLOATS, required=FLOATS)
    mean = OptionalOperand(Same("input"), required=FLOATS, doc="By default that of the input over ``axes``.")
    variance = OptionalOperand(Same("input"), required=FLOATS, doc="By default that of the input over ``axes``.")
    scale = OptionalOperand(Same("input"), required=FLOATS, doc="By default 1.")
    bias = OptionalOperand(Same("input"), required=FLOATS, doc="By default 0.")
    epsilon = Option(DOUBLE, 1e-5, "Added to the variance.")
    axes = Option(UINT32S, None, "Dimensions to take mean and variance over. By default all.")
    output = Output(Same("input"), SameRank("input"), required=FLOATS)
    tolerance = Tolerance(3, 1, reduction=True)
    tosa = "MUL ADD REDUCE_SUM SUB RSQRT RESHAPE"
    stablehlo = "add broadcast_in_dim divide multiply reduce sqrt subtract"

    @staticmethod
    def infer(
        input: Descriptor,
        mean: Descriptor | None,
        variance: Descriptor | None,
        scale: Descriptor | None,
        bias: Descriptor | None,
        epsilon: float,
        axes: tuple[int, ...] | None,
    ) -> Descriptor:
        require_axes(axes or (), input.rank)
        for name, operand in (("mean", mean), ("variance", variance), ("scale", scale), ("bias", bias)):
            if operand is not None:
                require_broadcastable(operand, input.shape, name)
        return input

    @staticmethod
    def lower(
        input: Array,
        mean: Array | None,
        variance: Array | None,
        scale: Array | None,
        bias: Array | None,
        epsilon: float,
        axes: tuple[int, ...] | None,
        target: Target,
    ) -> Array:
        def spread(operand: Array | None) -> Array | None:
            return None if operand is None else broadcast_to(widen(operand), input.shape)

        over = list(range(input.ndim)) if axes is None else sorted(axes)
        given = spread(mean)
        centered = _center(widen(input), over, target) if given is None else lax.sub(widen(input), given)
        if mean is None and variance is None and not over:
            return narrow(_affine(centered, spread(scale), spread(bias)), input)
        if variance is None:
            kept = [axis for axis in range(input.ndim) if axis not in over]
            factor = _reciprocal_deviation(_variance(centered, over, target), epsilon, input)
            factor = broadcast_along(factor, input.shape, kept)
        else:
            factor = broadcast_to(_reciprocal_deviation(widen(variance), epsilon, input), input.shape)
        return narrow(_affine(lax.mul(centered, factor), spread(scale), spread(bias)), input)

    @staticmethod
    def to_tosa(
        t: Emitter,
        input: Tensor,
        mean: Tensor | None,
        variance: Tensor | None,
        scale: Tensor | None,
        bias: Tensor | None,
        epsilon: float,
        axes: tuple[int, ...] | None,
    ) -> Tensor:
        over = list(range(input.rank)) if axes is None else sorted(axes)
        x = t.cast(input, "f32")
        if mean is None and variance is None:
            normalized = _tosa_normalize(t, input, over, epsilon)
        else:
            centered = _tosa_center(t, x, over) if mean is None else t.sub(x, t.cast(mean, "f32"))
            spread = _tosa_mean(t, t.mul(centered, centered), over) if variance is None else t.cast(variance, "f32")
            normalized = t.mul(centered, t.unary("rsqrt", t.add(spread, number(epsilon, input))))
        factors = (None if operand is None else t.cast(operand, "f32") for operand in (scale, bias))
        return _tosa_affine(t, normalized, factors, input)
