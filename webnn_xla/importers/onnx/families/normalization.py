"""Normalizations."""

from __future__ import annotations

import math

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import MICROSOFT, onnx_op
from webnn_xla.importers.onnx.types import FLOAT32
from webnn_xla.importers.onnx.values import Tensor


@onnx_op("BatchNormalization", since=7)
def batch_normalization(n: Node) -> Tensor | list[Tensor]:
    x, scale, bias, mean, variance = (n[k] for k in range(5))
    if n.attr("training_mode", 0) and n.opset >= 14:
        return _training(n)
    if any(n.wants(k) for k in range(1, 5)):
        raise Unsupported("training mode")
    if x.rank < 2 and x.size:
        return n.batch_normalization(x, mean, variance, scale=scale, bias=bias, axis=0, epsilon=n.attr("epsilon", 1e-5))
    mixed = {scale.dtype, bias.dtype, mean.dtype, variance.dtype} - {x.dtype}
    if mixed:
        wide = [n.cast_to(t, FLOAT32) for t in (x, mean, variance, scale, bias)]
        y = n.batch_normalization(*wide[:3], scale=wide[3], bias=wide[4], axis=1, epsilon=n.attr("epsilon", 1e-5))
        return n.cast_to(y, x.dtype)
    return n.batch_normalization(x, mean, variance, scale=scale, bias=bias, axis=1, epsilon=n.attr("epsilon", 1e-5))


def _training(n: Node) -> list[Tensor]:
    """Normalized by the batch's own moments, which also move the running ones."""
    x, scale, bias, mean, variance = (n[k] for k in range(5))
    axes = [axis for axis in range(x.rank) if axis != 1]
    wide = n.floats(x)
    now, spread = (n.to(t, [x.shape[1]]) for t in moments(n, wide, axes))
    given = {"scale": n.floats(scale), "bias": n.floats(bias), "axis": 1, "epsilon": n.attr("epsilon", 1e-5)}
    y = n.cast_to(n.batch_normalization(wide, now, spread, **given), x.dtype)
    kept = n.attr("momentum", 0.9)
    moved = [
        n.add(n.mul(old, kept), n.mul(n.cast_to(new, old.dtype), 1 - kept)) for old, new in ((mean, now), (variance, spread))
    ]
    return [y, *moved]


@onnx_op("InstanceNormalization", since=6)
def instance_normalization(n: Node) -> Tensor:
    x, scale, bias = n[0], n[1], n[2]
    if x.rank < 3:
        raise Malformed(f"instance normalization of {x}")
    flat = x if x.rank == 4 else n.to(x, [*x.shape[:2], 1, math.prod(x.shape[2:])])
    return n.to(n.instance_normalization(flat, scale=scale, bias=bias, epsilon=n.attr("epsilon", 1e-5)), x.shape)


def moments(n: Node, x: Tensor, axes: list[int]) -> tuple[Tensor, Tensor]:
    """Mean and variance along ``axes``, kept."""
    mean = n.reduce_mean(x, axes=axes, keep_dimensions=True)
    centred = n.sub(x, mean)
    return mean, n.reduce_mean(n.mul(centred, centred), axes=axes, keep_dimensions=True)


@onnx_op("LayerNormalization")
def layer_normalization(n: Node) -> list[Tensor | None]:
    x, scale, bias = n[0], n[1], n.get(2)
    axis = n.axis(n.attr("axis", -1), x.rank)
    epsilon = n.attr("epsilon", 1e-5)
    axes = list(range(axis, x.rank))
    inner = x.shape[axis:]

    y: Tensor
    if n.wants(1) or n.wants(2) or scale.shape != inner or (bias is not None and bias.shape != inner):
        wide = n.floats(x)
        mean, variance = moments(n, wide, axes)
        inverse = n.reciprocal(n.sqrt(n.add(variance, epsilon)))
        y = n.cast_to(n.mul(n.sub(wide, mean), inverse), x.dtype)
        y = n.mul(y, scale)
        return [y if bias is None else n.add(y, bias), mean, inverse]
    y = n.layer_normalization(x, scale=scale, bias=bias, axes=axes, epsilon=epsilon)
    return [y, None, None]


def rms(n: Node, x: Tensor, axes: list[int], epsilon: float) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean(x²) + ε) and the factor, in float32."""
    wide = n.floats(x)
    mean = n.reduce_mean(n.mul(wide, wide), axes=axes, keep_dimensions=True)
    inverse = n.reciprocal(n.sqrt(n.add(mean, epsilon)))
    return n.mul(wide, inverse), inverse


@onnx_op("RMSNormalization", since=23)
@onnx_op("SimplifiedLayerNormalization")
@onnx_op("SimplifiedLayerNormalization", domain=MICROSOFT)
def rms_normalization(n: Node) -> list[Tensor]:
    x, scale = n[0], n[1]
    axes = list(range(n.axis(n.attr("axis", -1), x.rank), x.rank))
    y, inverse = rms(n, x, axes, n.attr("epsilon", 1e-5))
    return [n.mul(n.cast_to(y, scale.dtype), scale), inverse]


@onnx_op("SkipSimplifiedLayerNormalization", "SkipLayerNormalization", domain=MICROSOFT)
def skip_normalization(n: Node) -> list[Tensor | None]:
    x, skip, gamma = n[0], n[1], n[2]
    plain = n.op == "SkipSimplifiedLayerNormalization"
    beta, bias = (None, n.get(3)) if plain else (n.get(3), n.get(4))
    total = n.add(x, skip)
    if bias is not None:
        total = n.add(total, bias)
    axes = [total.rank - 1]
    epsilon = n.attr("epsilon", 1e-5 if plain else 1e-12)
    if plain:
        y, _ = rms(n, total, axes, epsilon)
        return [n.mul(n.cast_to(y, gamma.dtype), gamma), None, None, total]
    return [n.layer_normalization(total, scale=gamma, bias=beta, axes=axes, epsilon=epsilon), None, None, total]


@onnx_op("GroupNormalization", since=18)
def group_normalization(n: Node) -> Tensor:
    x, scale, bias = n[0], n[1], n[2]
    groups = n.need("num_groups", int)
    y = _grouped(n, x, groups, n.attr("epsilon", 1e-5))
    if n.opset < 21 or scale.size == groups != x.shape[1]:
        each = x.shape[1] // groups
        scale, bias = (n.to(n.broadcast(n.to(t, [groups, 1]), [groups, each]), [x.shape[1]]) for t in (scale, bias))
    trailing = [x.shape[1]] + [1] * (x.rank - 2)
    y = n.cast_to(y, x.dtype)
    return n.add(n.mul(y, n.to(scale, trailing)), n.to(bias, trailing))


def _grouped(n: Node, x: Tensor, groups: int, epsilon: float) -> Tensor:
    """Normalized over each group of channels (axis 1), in float32."""
    if groups < 1 or x.shape[1] % groups:
        raise Malformed(f"{groups} groups do not fit the channels of {x}")
    flat = n.floats(n.to(x, [x.shape[0] * groups, math.prod(x.shape[1:]) // groups]))
    return n.to(n.layer_normalization(flat, axes=[1], epsilon=epsilon), x.shape)


@onnx_op("GroupNorm", "SkipGroupNorm", domain=MICROSOFT)
def group_norm_contrib(n: Node) -> list[Tensor | None]:
    x, gamma, beta = n[0], n[1], n[2]
    total = x
    last = bool(n.attr("channels_last", 1))
    spatial = [1] * (x.rank - 2)
    if n.op == "SkipGroupNorm":
        skip, bias = n[3], n.get(4)
        if skip.rank == 2:  # one number for each channel
            skip = n.to(skip, [skip.shape[0], *spatial, skip.shape[1]] if last else [*skip.shape, *spatial])
        total = n.add(x, skip)
        total = total if bias is None else n.add(total, bias if last else n.to(bias, [bias.size, *spatial]))
    moved = n.permuted(total, [0, x.rank - 1, *range(1, x.rank - 1)]) if last else total
    trailing = [gamma.size, *spatial]
    y = _grouped(n, moved, n.need("groups", int), n.attr("epsilon", 1e-5))
    y = n.add(n.mul(y, n.to(n.floats(gamma), trailing)), n.to(n.floats(beta), trailing))
    if n.attr("activation", 0):
        y = n.mul(y, n.sigmoid(y))
    y = n.cast_to(n.permuted(y, [0, *range(2, x.rank), 1]) if last else y, x.dtype)
    return [y, total]


@onnx_op("LpNormalization")
def lp_normalization(n: Node) -> Tensor:
    x, p = n[0], n.attr("p", 2)
    axis = n.axis(n.attr("axis", -1), x.rank)
    if p not in (1, 2):
        raise Malformed(f"p {p}; ONNX has 1 and 2")
    norm = n.call(f"reduce_l{p}", x, axes=[axis], keep_dimensions=True)
    zero = n.equal(norm, 0.0)
    return n.div(x, n.where(zero, n.const(1, x), norm))


@onnx_op("MeanVarianceNormalization", since=9)
def mean_variance_normalization(n: Node) -> Tensor:
    x = n[0]
    axes = n.axes(n.ints("axes", [0, 2, 3]) or [], x.rank)
    wide = n.floats(x)
    mean, variance = moments(n, wide, axes)
    return n.cast_to(n.div(n.sub(wide, mean), n.add(n.sqrt(variance), 1e-9)), x.dtype)


@onnx_op("LRN")
def local_response(n: Node) -> Tensor:
    x = n[0]
    size, alpha, beta, bias = n.need("size", int), n.attr("alpha", 1e-4), n.attr("beta", 0.75), n.attr("bias", 1.0)
    if size < 1 or x.rank < 3:
        raise Malformed(f"size {size} does not fit {x}")
    channels = x.shape[1]
    square = n.mul(x, x)
    flat = n.to(square, [x.shape[0], 1, channels, math.prod(x.shape[2:])])
    low = (size - 1) // 2
    if size <= 2 * channels:
        edges = n.pad(flat, [0, 0, low, 0], [0, 0, size - 1 - low, 0])
        mean = n.average_pool2d(edges, window_dimensions=[size, 1])
    else:
        band = np.abs(np.subtract.outer(np.arange(channels), np.arange(channels)))
        mean = n.matmul(n.const((band < size) / size, x), flat)
    return n.div(x, n.pow(n.add(n.mul(n.to(mean, x.shape), alpha), bias), beta))
