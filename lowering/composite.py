"""Ops that stand for a recognised pattern of ops. Made by rewrites, never by users.

Each computes what its pattern does, with fewer roundings or fewer passes over memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor
from webnn_xla.lowering.activation import Activation, Softmax
from webnn_xla.lowering.kinds import DOUBLE, UINT32, UINT32S
from webnn_xla.lowering.matmul import Matmul
from webnn_xla.lowering.op import (
    ANY,
    FLOATS,
    INDICES,
    Op,
    Operand,
    Option,
    OptionalOperand,
    Output,
    Param,
    Same,
    Target,
    Tolerance,
)
from webnn_xla.lowering.primitives import broadcast_along, broadcast_to, constant, narrow, widen


class GeluTanh(Activation):
    """``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))``, as ``x * sigmoid`` of twice the argument."""

    internal = True
    tolerance = Tolerance(16, 2)

    @staticmethod
    def lower(input: Array) -> Array:
        x = widen(input)
        inner = lax.add(x, lax.mul(constant(0.044715, x), lax.mul(x, lax.mul(x, x))))
        # 0.5 * (1 + tanh(z)) = 1 / (1 + exp(-2 z)).
        return narrow(lax.mul(x, lax.logistic(lax.mul(constant(2 * math.sqrt(2 / math.pi), x), inner))), input)


class Silu(Activation):
    """``x * sigmoid(x)``."""

    internal = True
    tolerance = Tolerance(8, 1)

    @staticmethod
    def lower(input: Array) -> Array:
        x = widen(input)
        return narrow(lax.mul(x, lax.logistic(x)), input)


class RmsNormalization(Op):
    """``input / sqrt(mean(input ** 2) + epsilon) * scale``, over the last dimension, in which ``scale`` lies."""

    internal = True
    input = Operand(FLOATS, (1, None))
    scale = OptionalOperand(Same("input"), (1, 1))
    epsilon = Option(DOUBLE, 1e-5)
    output = Output(Same("input"))
    tolerance = Tolerance(8, 2)

    @staticmethod
    def infer(input: Descriptor, scale: Descriptor | None, epsilon: float) -> Descriptor:
        return input

    @staticmethod
    def lower(input: Array, scale: Array | None, epsilon: float, target: Target) -> Array:
        x, last, size = widen(input), input.ndim - 1, input.shape[-1]
        squares = lax.mul(x, x)
        if target.platform == "cpu":
            weights = lax.full((size,), np.asarray(1 / size, x.dtype), x.dtype)
            mean = lax.dot_general(squares, weights, (((last,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)
        else:
            mean = lax.mul(lax.reduce(squares, np.asarray(0, x.dtype), lax.add, [last]), constant(1 / size, x, x.shape[:-1]))
        factor = lax.rsqrt(lax.add(mean, constant(epsilon, mean)))
        result = lax.mul(x, broadcast_along(factor, x.shape, range(last)))
        if scale is not None:
            result = lax.mul(result, broadcast_along(widen(scale), x.shape, (last,)))
        return narrow(result, input)


class Attention(Op):
    """``softmax(query @ key * factor + mask) @ value`` over the last two dimensions, key [..., size, keys]."""

    internal = True
    query = Operand(FLOATS, (2, None))
    key = Operand(Same("query"), (2, None))
    value = Operand(Same("query"), (2, None))
    mask = OptionalOperand(Same("query"))
    factor = Option(DOUBLE, 1.0)
    output = Output(Same("query"))
    tolerance = Tolerance(16, 2, reduction=True)

    @staticmethod
    def infer(query: Descriptor, key: Descriptor, value: Descriptor, mask: Descriptor | None, factor: float) -> Descriptor:
        weights = Matmul.infer(query, key)
        return Matmul.infer(weights, value)

    @staticmethod
    def lower(query: Array, key: Array, value: Array, mask: Array | None, factor: float, target: Target) -> Array:
        q, k, v = widen(query), widen(key), widen(value)
        if factor != 1:
            # The queries are fewer than the scores.
            q = lax.mul(q, constant(factor, q))
        scores = Matmul.lower(q, k, target)
        if mask is not None:
            scores = lax.add(scores, broadcast_to(widen(mask), scores.shape))
        return narrow(Matmul.lower(Softmax.lower(scores, scores.ndim - 1, target), v, target), query)


class QuantizedMatmul(Op):
    """``a @ dequantize_linear(b, scale, zero_point)``, one scale for each column of b or for all: applied to the product."""

    internal = True
    a = Operand(FLOATS, (2, None))
    b = Operand(ANY, (2, 2))
    scale = Operand(Same("a"), (2, 2), doc="[1, columns] or [1, 1]")
    zero_point = Operand(Same("b"), (2, 2))
    output = Output(Same("a"))
    tolerance = Tolerance(8, 2, reduction=True)

    @staticmethod
    def infer(a: Descriptor, b: Descriptor, scale: Descriptor, zero_point: Descriptor) -> Descriptor:
        return a.with_shape((*a.shape[:-1], b.shape[1]))

    @staticmethod
    def lower(a: Array, b: Array, scale: Array, zero_point: Array, target: Target) -> Array:
        x, last = widen(a), a.ndim - 1
        # Differences of 8-bit integers are exact in float32.
        wide = lax.sub(
            lax.convert_element_type(b, x.dtype), broadcast_to(lax.convert_element_type(zero_point, x.dtype), b.shape)
        )
        product = lax.dot_general(x, wide, (((last,), (0,)), ((), ())), precision=target.precision)
        return narrow(lax.mul(product, broadcast_to(widen(scale), product.shape)), a)


class UpdateRow(Op):
    """``input`` with its slice at ``index`` along ``axis`` replaced. Negative indices count from the end, then clamp."""

    internal = True
    input = Operand(ANY, (1, None))
    index = Operand(INDICES, doc="One element.")
    update = Operand(Same("input"), doc="Size 1 along axis.")
    axis = Param(UINT32)
    shape = Param(UINT32S, "That of update, as a slice of input.")
    output = Output(Same("input"))

    @staticmethod
    def infer(input: Descriptor, index: Descriptor, update: Descriptor, axis: int, shape: Sequence[int]) -> Descriptor:
        return input

    @staticmethod
    def lower(input: Array, index: Array, update: Array, axis: int, shape: Sequence[int]) -> Array:
        size = input.shape[axis]
        start = lax.reshape(index, ())
        if start.dtype.kind == "i":
            start = lax.select(lax.lt(start, constant(0, start)), lax.add(start, constant(size, start)), start)
        start = lax.clamp(constant(0, start), start, constant(size - 1, start))
        starts = [start if dimension == axis else constant(0, start) for dimension in range(input.ndim)]
        return lax.dynamic_update_slice(input, lax.reshape(update, shape), starts)
