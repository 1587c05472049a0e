"""Quantization: QDQ with WebNN's own ops, and operators on integers, which are exact."""

from __future__ import annotations

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.families.convolution import exact_conv
from webnn_xla.importers.onnx.families.matmul import centred, small_integer_matmul
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import MICROSOFT, onnx_op
from webnn_xla.importers.onnx.types import FLOAT16, FLOAT32, UINT8, DType, from_enum, integer_range, is_float, is_small_float
from webnn_xla.importers.onnx.values import Tensor


def aligned(n: Node, parameter: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """A scale or zero point in the rank of ``x``: per tensor, per element of an axis, or per block of it."""
    if parameter.size == 1:
        return n.to(parameter, [1] * x.rank)
    if block:
        if parameter.rank != x.rank:
            raise Malformed(f"{parameter} does not fit blocks of {block} of {x}")
        return parameter
    if parameter.rank != 1 or parameter.size != x.shape[axis]:
        raise Malformed(f"{parameter} does not fit axis {axis} of {x}")
    return n.to(parameter, [parameter.size if k == axis else 1 for k in range(x.rank)])


def _blocked(n: Node, x: Tensor, parameter: Tensor, axis: int, block: int) -> Tensor:
    """Repeats blocks' parameters to the size of ``x``, where it is not a multiple of the block."""
    if not block or parameter.shape == x.shape or parameter.size == 1:
        return parameter
    spread = n.unsqueezed(parameter, [axis + 1])
    shape = list(spread.shape)
    shape[axis + 1] = block
    merged = list(parameter.shape)
    merged[axis] *= block
    return n.cut(n.to(n.broadcast(spread, shape), merged), axis, 0, x.shape[axis])


def _zeros(n: Node, zero: Tensor | None, scale: Tensor, x: Tensor, axis: int, block: int, dtype: DType) -> Tensor:
    """Zero points in the shape of the scales."""
    if zero is None:
        return n.const(np.zeros(scale.shape), dtype)
    return n.broadcast(aligned(n, zero, x, axis, block), scale.shape) if scale.size > 1 else aligned(n, zero, x, axis, block)


def _setup(n: Node, x: Tensor) -> tuple[int, int]:
    block = n.attr("block_size", 0)
    return (n.axis(n.attr("axis", 1), x.rank) if x.rank > 1 or n[1].size > 1 else 0), block


def quantize(n: Node, x: Tensor, scale: Tensor, zero: Tensor | None, dtype: DType, axis: int = 0, block: int = 0) -> Tensor:
    """round(x / scale) + zero point, saturated to ``dtype``."""
    s = aligned(n, scale, x, axis, block)
    if dtype.name in ("int8", "uint8", "int4", "uint4"):
        z = _zeros(n, zero, s, x, axis, block, dtype)
        if x.dtype != s.dtype:
            s = n.cast_to(s, x.dtype)
        if block and x.shape[axis] % block:
            s, z = _blocked(n, x, s, axis, block), _blocked(n, x, z, axis, block)
        return n.quantize_linear(x, s, z)
    s = _blocked(n, x, n.floats(s), axis, block)
    ratio = n.div(n.floats(x), s)
    if is_small_float(dtype):
        return n.cast_to(ratio, dtype)
    rounded = n.round_even(ratio)
    if zero is not None:
        rounded = n.add(rounded, n.floats(_blocked(n, x, aligned(n, zero, x, axis, block), axis, block)))
    low, high = integer_range(dtype)
    return n.cast_to(n.clamp(rounded, min_value=low, max_value=high), dtype)


@onnx_op("QuantizeLinear", since=10)
@onnx_op("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(n: Node) -> Tensor:
    x, scale, zero = n[0], n[1], n.get(2)
    if not is_float(x.dtype):
        x = n.cast_to(x, scale.dtype)
    code = n.attr("output_dtype", 0)
    dtype = zero.dtype if zero is not None else from_enum(code, "the result") if code else UINT8
    axis, block = _setup(n, x)
    return quantize(n, x, scale, zero, dtype, axis, block)


def dequantize(n: Node, x: Tensor, scale: Tensor, zero: Tensor | None, axis: int = 0, block: int = 0) -> Tensor:
    """(x - zero point) * scale, in the type of the scale."""
    s = aligned(n, scale, x, axis, block)
    if x.dtype.name in ("int8", "uint8", "int4", "uint4", "int32") and s.dtype in (FLOAT32, FLOAT16):
        z = _zeros(n, zero, s, x, axis, block, x.dtype)
        if block and x.shape[axis] % block:
            s, z = _blocked(n, x, s, axis, block), _blocked(n, x, z, axis, block)
        return n.dequantize_linear(x, s, z)
    wide = n.cast_to(x, FLOAT32)
    if zero is not None:
        wide = n.sub(wide, n.cast_to(_blocked(n, x, aligned(n, zero, x, axis, block), axis, block), FLOAT32))
    return n.cast_to(n.mul(wide, _blocked(n, x, n.floats(s), axis, block)), scale.dtype)


@onnx_op("DequantizeLinear", since=10)
@onnx_op("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(n: Node) -> Tensor:
    x = n[0]
    axis, block = _setup(n, x)
    y = dequantize(n, x, n[1], n.get(2), axis, block)
    code = n.attr("output_dtype", 0)
    return n.cast_to(y, from_enum(code, "the result")) if code else y


@onnx_op("DynamicQuantizeLinear", since=11)
def dynamic_quantize(n: Node) -> list[Tensor]:
    x = n[0]
    low = n.min(n.reduce_min(x), 0.0)
    high = n.max(n.reduce_max(x), 0.0)
    # A divisor that XLA sees is constant becomes a multiplication, which rounds in another way.
    scale = n.div(n.sub(high, low), n.max(n.min(high, 255.0), 255.0))
    # All zeros: any scale will do, but not zero.
    safe = n.where(n.equal(scale, 0.0), n.const(1, scale), scale)
    zero = n.cast_to(n.clamp(n.round_even(n.div(n.neg(low), safe)), min_value=0, max_value=255), UINT8)
    return [quantize(n, x, safe, zero, UINT8), scale, zero]


def requantize(n: Node, total: Tensor, factor: Tensor, zero: Tensor | None, dtype: DType) -> Tensor:
    """An int32 sum times a real factor, rounded and saturated."""
    scaled = n.round_even(n.mul(n.cast_to(total, FLOAT32), factor))
    if zero is not None:
        scaled = n.add(scaled, n.cast_to(n.to(zero, []) if zero.size == 1 else zero, FLOAT32))
    low, high = integer_range(dtype)
    return n.cast_to(n.clamp(scaled, min_value=low, max_value=high), dtype)


def _scalar(n: Node, x: Tensor) -> Tensor:
    return n.floats(n.to(x, []) if x.size == 1 else x)


@onnx_op("QLinearMatMul", since=10)
def qlinear_matmul(n: Node) -> Tensor:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (n[k] for k in range(8))
    if is_small_float(a.dtype):
        raise Unsupported(f"products of {a.dtype.name}")
    total = small_integer_matmul(n, centred(n, a, a_zero, rows=True), centred(n, b, b_zero, rows=False))
    left = n.unsqueezed(a_scale, [1]) if a_scale.rank == 1 and a_scale.size > 1 else _scalar(n, a_scale)
    factor = n.div(n.mul(n.floats(left), _scalar(n, b_scale)), _scalar(n, y_scale))
    return requantize(n, total, factor, y_zero, y_zero.dtype)


@onnx_op("QLinearConv", since=10)
def qlinear_conv(n: Node) -> Tensor:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (n[k] for k in range(8))
    bias = n.get(8)
    total = exact_conv(n, x, w, x_zero, w_zero)
    trailing = [1] * (x.rank - 2)
    if bias is not None:
        total = n.add(total, n.to(bias, [bias.size, *trailing]))
    weights = n.to(w_scale, [w_scale.size, *trailing]) if w_scale.size > 1 else _scalar(n, w_scale)
    factor = n.div(n.mul(_scalar(n, x_scale), weights), _scalar(n, y_scale))
    return requantize(n, total, factor, y_zero, y_zero.dtype)


@onnx_op("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def qlinear_binary(n: Node) -> Tensor:
    a = dequantize(n, n[0], n[1], n.get(2))
    b = dequantize(n, n[3], n[4], n.get(5))
    y = n.call("add" if n.op == "QLinearAdd" else "mul", a, b)
    return quantize(n, y, n[6], n.get(7), n[0].dtype)


@onnx_op("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_unary(n: Node) -> Tensor:
    x = dequantize(n, n[0], n[1], n.get(2))
    y = n.sigmoid(x) if n.op == "QLinearSigmoid" else n.leaky_relu(x, alpha=n.attr("alpha", 0.01))
    return quantize(n, y, n[3], n.get(4), n[0].dtype)


@onnx_op("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_pool(n: Node) -> Tensor:
    x = dequantize(n, n[0], n[1], n.get(2))
    axes = list(range(1, x.rank - 1)) if n.attr("channels_last", 0) else list(range(2, x.rank))
    return quantize(n, n.reduce_mean(x, axes=axes, keep_dimensions=True), n[3], n.get(4), n[0].dtype)


@onnx_op("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(n: Node) -> Tensor:
    parts = [dequantize(n, n[k], n[k + 1], n.get(k + 2)) for k in range(2, len(n.inputs), 3)]
    return quantize(n, n.joined(parts, n.axis(n.need("axis", int), parts[0].rank)), n[0], n.get(1), n[2].dtype)


@onnx_op("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(n: Node) -> Tensor:
    a, b = centred(n, n[0], n.get(4), rows=True), centred(n, n[1], n.get(5), rows=False)
    y = n.mul(n.cast_to(small_integer_matmul(n, a, b), FLOAT32), n.mul(_scalar(n, n[2]), _scalar(n, n[3])))
    bias = n.get(6)
    return y if bias is None else n.add(y, bias)


@onnx_op("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(n: Node) -> Tensor:
    quantized, scale, zero = dynamic_quantize(n)
    b = centred(n, n[1], n.get(3), rows=False)
    total = small_integer_matmul(n, centred(n, quantized, zero, rows=True), b)
    y = n.mul(n.cast_to(total, FLOAT32), n.mul(scale, _scalar(n, n[2])))
    bias = n.get(4)
    return y if bias is None else n.add(y, bias)
