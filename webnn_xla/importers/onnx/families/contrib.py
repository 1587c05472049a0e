"""Other operators of ``com.microsoft``: quantized weights and fusions that exporters and optimizers write."""

from __future__ import annotations

import math

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.families.convolution import conv
from webnn_xla.importers.onnx.families.matmul import matmul
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import MICROSOFT, onnx_op
from webnn_xla.importers.onnx.types import UINT8, Array, is_float
from webnn_xla.importers.onnx.values import Tensor


def _elements(raw: Array, bits: int) -> Array:
    """Unsigned numbers of 2, 4 or 8 bits from bytes, the first in the low bits; along the last axis."""
    if bits == 8:
        return raw
    per = 8 // bits
    parts = np.stack([(raw >> (bits * k)) & (2**bits - 1) for k in range(per)], axis=-1)
    return parts.reshape(*raw.shape[:-1], raw.shape[-1] * per)


def _narrow(bits: int) -> np.dtype[np.generic]:
    import ml_dtypes

    return np.dtype(ml_dtypes.uint4) if bits == 4 else np.dtype(np.uint8)


@onnx_op("MatMulNBits", domain=MICROSOFT, partial="without g_idx")
def matmul_nbits(n: Node) -> Tensor:
    a, b, scales, zero, order, bias = n[0], n[1], n[2], n.get(3), n.get(4), n.get(5)
    k, outputs = n.need("K", int), n.need("N", int)
    bits, block = n.attr("bits", 4), n.need("block_size", int)
    if order is not None:
        raise Unsupported("g_idx")
    if bits not in (2, 4, 8) or block < 16 or k < 1 or outputs < 1 or a.shape[-1] != k:
        raise Malformed(f"{bits} bits in blocks of {block} for {k} × {outputs} do not fit {a}")
    blocks = -(-k // block)
    if b.size != outputs * blocks * block * bits // 8 or scales.size != outputs * blocks:
        raise Malformed(f"weights {b} and scales {scales} are not {outputs} × {blocks} blocks of {block}")
    weights = _shaped(n, b, bits, [outputs, blocks, block])
    scale = n.to(scales, [outputs, blocks, 1])
    dtype = weights.dtype
    if zero is None:
        offset = n.const(np.full((outputs, blocks, 1), 2 ** (bits - 1)), dtype)
    elif is_float(zero.dtype):
        wide = n.sub(n.cast_to(weights, scale.dtype), n.to(n.cast_to(zero, scale.dtype), [outputs, blocks, 1]))
        return _product(n, a, n.mul(wide, scale), outputs, blocks * block, k, bias)
    else:
        per_row = -(-blocks * bits // 8)
        packed = n.to(zero, [outputs, per_row]) if zero.data is not None else zero
        offset = _zeros(n, packed, bits, outputs, blocks)
    return _product(n, a, n.dequantize_linear(weights, scale, offset), outputs, blocks * block, k, bias)


def _shaped(n: Node, x: Tensor, bits: int, shape: list[int]) -> Tensor:
    dtype = _narrow(bits)

    def make(raw: Array) -> Array:
        rows = raw.astype(np.uint8).reshape(*shape[:-1], shape[-1] * bits // 8)
        return _elements(rows, bits).astype(dtype)

    return n.derived(x, "unpacked", dtype, shape, make)


def _zeros(n: Node, x: Tensor, bits: int, outputs: int, blocks: int) -> Tensor:
    dtype = _narrow(bits)

    def make(raw: Array) -> Array:
        rows = raw.astype(np.uint8).reshape(outputs, -1)
        return _elements(rows, bits)[:, :blocks].reshape(outputs, blocks, 1).astype(dtype)

    return n.derived(x, "zero_points", dtype, [outputs, blocks, 1], make)


def _product(n: Node, a: Tensor, w: Tensor, outputs: int, padded: int, k: int, bias: Tensor | None) -> Tensor:
    matrix = n.cut(n.to(w, [outputs, padded]), 1, 0, k)
    matrix = n.cast_to(matrix, a.dtype)
    y = matmul(n, a, n.permuted(matrix, [1, 0]))
    return y if bias is None else n.add(y, bias)


@onnx_op("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(n: Node) -> Tensor:
    data, indices, scales, zero = n[0], n[1], n[2], n.get(3)
    bits, block = n.attr("bits", 4), n.attr("block_size", 128)
    axis = n.axis(n.attr("gather_axis", 0), data.rank)
    along = n.axis(n.attr("quantize_axis", 1), data.rank)
    packed = data.dtype == UINT8 and bits < 8
    if packed:
        if along != data.rank - 1:
            raise Unsupported("packed weights that are quantized along another axis than the last")
        shape = [*data.shape[:-1], data.shape[-1] * 8 // bits]
        data = _shaped(n, data, bits, shape)
    if axis == along:
        raise Unsupported("a gather along the quantized axis")
    rows, scale = n.gather(data, indices, axis=axis), n.gather(scales, indices, axis=axis)
    if zero is None:
        default = 0 if not packed and bits == 4 else 2 ** (bits - 1)
        offset = n.const(np.full(scale.shape, default), rows.dtype)
    else:
        if zero.dtype == UINT8 and bits < 8:
            count = scales.shape[-1]
            shape = [*zero.shape[:-1], count]

            def make(raw: Array) -> Array:
                return np.ascontiguousarray(_elements(raw, bits)[..., :count]).astype(_narrow(bits))

            zero = n.derived(zero, "zero_points", _narrow(bits), shape, make)
        offset = n.gather(zero, indices, axis=axis)
    place = along if along < axis else along + indices.rank - 1
    size, count = rows.shape[place], scale.shape[place]
    if size == count * block:
        return n.dequantize_linear(rows, scale, offset)
    index = n.const(np.arange(size) // block, np.int32)
    wide = n.sub(n.cast_to(rows, scale.dtype), n.cast_to(n.gather(offset, index, axis=place), scale.dtype))
    return n.mul(wide, n.gather(scale, index, axis=place))


@onnx_op("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(n: Node) -> Tensor:
    a, b = n[0], n[1]

    def flipped(x: Tensor, flip: int, batch: int) -> Tensor:
        if batch and x.rank > 2:
            x = n.permuted(x, [*range(1, x.rank - 1), 0, x.rank - 1])
        return n.permuted(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2]) if flip and x.rank > 1 else x

    y = matmul(
        n,
        flipped(a, n.attr("transA", 0), n.attr("transBatchA", 0)),
        flipped(b, n.attr("transB", 0), n.attr("transBatchB", 0)),
    )
    alpha = n.attr("alpha", 1.0)
    return y if alpha == 1 else n.mul(y, alpha)


def _activated(n: Node, x: Tensor, name: str) -> Tensor:
    parameters = n.attributes.get("activation_params") or []
    if name == "Relu":
        return n.relu(x)
    if name in ("Sigmoid", "Tanh"):
        return n.call(name.lower(), x)
    if name == "LeakyRelu":
        return n.leaky_relu(x, alpha=float(parameters[0]) if parameters else 0.01)
    if name == "Clip":
        low, high = (float(parameters[0]), float(parameters[1])) if len(parameters) > 1 else (-math.inf, math.inf)
        return n.clamp(x, min_value=low, max_value=high)
    if name == "HardSigmoid":
        return n.hard_sigmoid(x, alpha=float(parameters[0]), beta=float(parameters[1]))
    raise Unsupported(f"activation {name!r}")


@onnx_op("FusedConv", domain=MICROSOFT)
def fused_conv(n: Node) -> Tensor:
    y = conv(n)
    if n.get(3) is not None:
        y = n.add(y, n[3])
    name = n.attr("activation", "")
    return _activated(n, y, name) if name else y


@onnx_op("BiasAdd", domain=MICROSOFT)
def bias_add(n: Node) -> Tensor:
    return n.add(n.add(n[0], n[1]), n[2])


@onnx_op("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(n: Node) -> Tensor:
    x = n.add(n[0], n[1])
    half = x.shape[-1] // 2
    return n.mul(n.cut(x, x.rank - 1, 0, half), n.gelu(n.cut(x, x.rank - 1, half, half)))


@onnx_op("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(n: Node) -> list[Tensor | None]:
    ids, segments = n[0], n.get(1)
    words, positions, segment_table = n[2], n[3], n.get(4)
    gamma, beta, mask, given = n[5], n[6], n.get(7), n.get(8)
    b, s = ids.shape
    total = n.gather(words, ids, axis=0)
    places = n.to(n.iota(s), [1, s]) if given is None else given
    total = n.add(total, n.gather(positions, places, axis=0))
    if segments is not None and segment_table is not None:
        total = n.add(total, n.gather(segment_table, segments, axis=0))
    y = n.layer_normalization(total, scale=gamma, bias=beta, axes=[2], epsilon=n.attr("epsilon", 1e-12))
    lengths = n.const(np.zeros(b), np.int32) if mask is None else n.cast_to(n.reduce_sum(mask, axes=[1]), np.int32)
    return [y, lengths, total]


@onnx_op("Trilu", domain=MICROSOFT)
def trilu(n: Node) -> Tensor:
    diagonal = 0 if n.get(1) is None else n.known_int(1, "the diagonal")
    return n.triangular(n[0], upper=bool(n.attr("upper", 1)), diagonal=diagonal)
