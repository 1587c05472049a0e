"""Activations and softmax."""

from __future__ import annotations

import math

from webnn_xla.importers.onnx.errors import Malformed
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import MICROSOFT, onnx_op, simple
from webnn_xla.importers.onnx.types import is_float, is_signed
from webnn_xla.importers.onnx.values import Tensor

simple({"Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "Softsign": "softsign", "HardSwish": "hard_swish"})


@onnx_op("Relu")
def relu(n: Node) -> Tensor:
    return n.relu(n[0]) if is_signed(n[0].dtype) else n[0]


@onnx_op("Elu")
def elu(n: Node) -> Tensor:
    return n.elu(n[0], alpha=n.attr("alpha", 1.0))


@onnx_op("Celu", since=12)
def celu(n: Node) -> Tensor:
    x, alpha = n[0], n.attr("alpha", 1.0)
    return n.mul(n.elu(n.div(x, alpha)), alpha)


@onnx_op("Selu")
def selu(n: Node) -> Tensor:
    alpha, gamma = n.attr("alpha", 1.67326319217681884765625), n.attr("gamma", 1.05070102214813232421875)
    return n.mul(n.elu(n[0], alpha=alpha), gamma)


@onnx_op("LeakyRelu")
def leaky_relu(n: Node) -> Tensor:
    return n.leaky_relu(n[0], alpha=n.attr("alpha", 0.01))


@onnx_op("PRelu")
def prelu(n: Node) -> Tensor:
    x, slope = n[0], n[1]
    if not is_signed(x.dtype):
        return x
    if slope.rank == 1 and x.rank > 1 and slope.shape[0] not in (1, x.shape[-1]) and slope.shape[0] == x.shape[1]:
        slope = n.to(slope, [slope.shape[0]] + [1] * (x.rank - 2))
    return n.prelu(x, slope)


@onnx_op("HardSigmoid")
def hard_sigmoid(n: Node) -> Tensor:
    return n.hard_sigmoid(n[0], alpha=n.attr("alpha", 0.2), beta=n.attr("beta", 0.5))


@onnx_op("ThresholdedRelu", since=10)
def thresholded_relu(n: Node) -> Tensor:
    x = n[0]
    return n.where(n.greater(x, n.attr("alpha", 1.0)), x, n.const(0, x))


@onnx_op("Shrink", since=9)
def shrink(n: Node) -> Tensor:
    x, bias, edge = n[0], n.attr("bias", 0.0), n.attr("lambd", 0.5)
    zero = n.const(0, x)
    if not is_float(x.dtype):
        wide = n.floats(x)
        inner = n.where(n.greater(wide, edge), n.sub(wide, bias), n.const(0, wide))
        return n.cast_to(n.where(n.lesser(wide, -edge), n.add(wide, bias), inner), x.dtype)
    above = n.where(n.greater(x, edge), n.sub(x, bias), zero)
    return n.where(n.lesser(x, -edge), n.add(x, bias), above)


@onnx_op("Mish", since=18)
def mish(n: Node) -> Tensor:
    return n.mul(n[0], n.tanh(n.softplus(n[0])))


@onnx_op("Swish", since=24)
def swish(n: Node) -> Tensor:
    x, alpha = n[0], n.attr("alpha", 1.0)
    return n.mul(x, n.sigmoid(x if alpha == 1 else n.mul(x, alpha)))


def gelu(n: Node, x: Tensor, *, tanh: bool) -> Tensor:
    """Exact, or with the tanh approximation."""
    if not tanh:
        return n.gelu(x)
    inner = n.mul(math.sqrt(2 / math.pi), n.add(x, n.mul(0.044715, n.mul(x, n.mul(x, x)))))
    return n.mul(n.mul(x, 0.5), n.add(n.tanh(inner), 1.0))


@onnx_op("Gelu", since=20)
def gelu_op(n: Node) -> Tensor:
    approximate = n.attr("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise Malformed(f"attribute approximate is {approximate!r}; ONNX has none and tanh")
    return gelu(n, n[0], tanh=approximate == "tanh")


@onnx_op("Gelu", "FastGelu", "BiasGelu", "QuickGelu", domain=MICROSOFT)
def gelu_contrib(n: Node) -> Tensor:
    x = n[0]
    if n.op == "QuickGelu":
        return n.mul(x, n.sigmoid(n.mul(x, n.attr("alpha", 1.702))))
    bias = n.get(1)
    return gelu(n, x if bias is None else n.add(x, bias), tanh=n.op == "FastGelu")


def _flattened(n: Node, x: Tensor, default: int) -> tuple[Tensor, int]:
    """Before opset 13 these take all axes from ``axis`` on as one."""
    axis = n.axis(n.attr("axis", default), x.rank)
    if n.opset >= 13:
        return x, axis
    return n.to(x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])]), 1


@onnx_op("Softmax", "LogSoftmax", "Hardmax")
def softmax(n: Node) -> Tensor:
    x, axis = _flattened(n, n[0], -1 if n.opset >= 13 else 1)
    if n.op == "Softmax":
        y = n.softmax(x, axis) if x.size else x
    elif n.op == "LogSoftmax":
        y = n.sub(x, n.reduce_log_sum_exp(x, axes=[axis], keep_dimensions=True))
    else:
        first = n.arg_max(x, axis, keep_dimensions=True, output_data_type="int64")
        places = n.to(n.iota(x.shape[axis]), [x.shape[axis] if k == axis else 1 for k in range(x.rank)])
        y = n.cast_to(n.equal(places, first), x.dtype)
    return n.to(y, n[0].shape)
