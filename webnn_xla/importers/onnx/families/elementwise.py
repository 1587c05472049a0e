"""Arithmetic, comparison, logic, selection and conversion."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op, simple
from webnn_xla.importers.onnx.types import BOOL, from_enum, is_float, is_signed, is_small_float
from webnn_xla.importers.onnx.values import Tensor, Value

simple(
    {
        "Ceil": "ceil",
        "Floor": "floor",
        "Round": "round_even",
        "Sqrt": "sqrt",
        "Exp": "exp",
        "Log": "log",
        "Sin": "sin",
        "Cos": "cos",
        "Tan": "tan",
        "Erf": "erf",
        "Reciprocal": "reciprocal",
        "Neg": "neg",
        "Not": "logical_not",
        "Add": "add",
        "Sub": "sub",
        "Mul": "mul",
        "Div": "div",
        "And": "logical_and",
        "Or": "logical_or",
        "Xor": "logical_xor",
        "Equal": "equal",
        "Greater": "greater",
        "GreaterOrEqual": "greater_or_equal",
        "Less": "lesser",
        "LessOrEqual": "lesser_or_equal",
        "IsNaN": "is_nan",
        "Where": "where",
    }
)


@onnx_op("Identity")
def identity(n: Node) -> Value:
    return n.value(0)


@onnx_op("Abs")
def absolute(n: Node) -> Tensor:
    return n.abs(n[0]) if is_signed(n[0].dtype) else n[0]


@onnx_op("Sign")
def sign(n: Node) -> Tensor:
    x = n[0]
    return n.sign(x) if is_signed(x.dtype) else n.cast_to(n.not_equal(x, 0), x.dtype)


@onnx_op("Max", "Min")
def extreme(n: Node) -> Tensor:
    method = n.op.lower()
    return reduce(lambda a, b: n.call(method, a, b), n.tensors())


@onnx_op("Sum")
def total(n: Node) -> Tensor:
    return reduce(lambda a, b: n.add(a, b), n.tensors())


@onnx_op("Mean")
def mean(n: Node) -> Tensor:
    return n.mul(total(n), 1 / len(n.inputs))


@onnx_op("Pow")
def power(n: Node) -> Tensor:
    base, exponent = n[0], n[1]
    if is_float(exponent.dtype) and not is_float(base.dtype):
        return n.cast_to(n.pow(n.cast_to(base, exponent.dtype), exponent), base.dtype)
    if (
        exponent.data is not None
        and exponent.size == 1
        and float(exponent.data.reshape(-1)[0]) == 2
        and exponent.rank <= base.rank
    ):
        return n.mul(base, base)
    return n.pow(base, n.cast_to(exponent, base.dtype))


def truncated(n: Node, x: Tensor) -> Tensor:
    """A float rounded toward zero."""
    return n.where(n.lesser(x, 0), n.ceil(x), n.floor(x))


@onnx_op("Mod", since=10)
def mod(n: Node) -> Tensor:
    a, b = n[0], n[1]
    if is_float(a.dtype):
        rest = n.sub(a, n.mul(truncated(n, n.div(a, b)), b))
        # Nothing is taken from a finite number by an infinite one.
        rest = n.where(n.logical_and(n.is_infinite(b), n.logical_not(n.is_infinite(a))), a, rest)
        if n.attr("fmod", 0):
            return rest
        opposite = n.logical_xor(n.lesser(rest, 0), n.lesser(b, 0))
        return n.where(n.logical_and(opposite, n.not_equal(rest, 0)), n.add(rest, b), rest)
    quotient = n.div(a, b) if n.attr("fmod", 0) or not is_signed(a.dtype) else n.floor_div(a, b)
    return n.sub(a, n.mul(quotient, b))


@onnx_op("IsInf", since=10)
def is_infinite(n: Node) -> Tensor:
    x = n[0]
    positive, negative = n.attr("detect_positive", 1), n.attr("detect_negative", 1)
    if positive and negative:
        return n.is_infinite(x)
    if not positive and not negative:
        return n.broadcast(n.const(False), x.shape)
    return n.equal(x, math.inf if positive else -math.inf)


@onnx_op("Cast", "CastLike")
def cast(n: Node) -> Tensor:
    wanted = n[1].dtype if n.op == "CastLike" else from_enum(n.need("to", int), "the type to cast to")
    x = n[0]
    if is_small_float(wanted):
        from webnn_xla.importers.onnx.families.small_floats import round_to

        return round_to(n, n.floats(x), wanted, saturate=bool(n.attr("saturate", 1)), mode=n.attr("round_mode", ""))
    return n.cast_to(x, wanted)


@onnx_op("Clip", since=1, until=10)
def clip_attributes(n: Node) -> Tensor:
    low, high = n.attr("min", -math.inf), n.attr("max", math.inf)
    return n.clamp(n[0], min_value=low, max_value=high)


@onnx_op("Clip", since=11)
def clip(n: Node) -> Tensor:
    x, low, high = n[0], n.get(1), n.get(2)
    if low is not None and high is not None and low.data is not None and high.data is not None and not x.known:
        least, most = low.data.reshape(-1)[0], high.data.reshape(-1)[0]
        if least <= most and x.dtype.name != "bfloat16":
            number = float if is_float(x.dtype) else int
            return n.clamp(x, min_value=number(least), max_value=number(most))
    if low is not None:
        x = n.max(x, low)
    return n.min(x, high) if high is not None else x


# Functions that WebNN lacks, from those it has


@onnx_op("Sinh", "Cosh")
def hyperbolic(n: Node) -> Tensor:
    x = n.floats(n[0])
    grown, shrunk = n.exp(x), n.exp(n.neg(x))
    if n.op == "Cosh":
        return n.cast_to(n.mul(n.add(grown, shrunk), 0.5), n[0].dtype)
    # Near zero the difference cancels; tanh does not.
    near = n.div(n.tanh(x), n.sqrt(n.max(n.sub(1.0, n.mul(n.tanh(x), n.tanh(x))), 1e-30)))
    far = n.mul(n.sub(grown, shrunk), 0.5)
    return n.cast_to(n.where(n.lesser(n.abs(x), 0.5), near, far), n[0].dtype)


@onnx_op("Asinh")
def asinh(n: Node) -> Tensor:
    x = n.floats(n[0])
    size = n.abs(x)
    square = n.mul(x, x)
    # log1p(u) through atanh: log((1 + v) / (1 - v)) loses no digits near zero.
    u = n.add(size, n.div(square, n.add(1.0, n.sqrt(n.add(square, 1.0)))))
    return n.cast_to(n.mul(n.sign(x), log1p(n, u)), n[0].dtype)


def log1p(n: Node, u: Tensor) -> Tensor:
    """log(1 + u) for u > -1, exact near zero: u * log(w) / (w - 1) with w = 1 + u as rounded."""
    w = n.add(u, 1.0)
    d = n.sub(w, 1.0)
    small = n.equal(d, 0.0)
    return n.where(small, u, n.div(n.mul(u, n.log(w)), n.where(small, 1.0, d)))


@onnx_op("Acosh")
def acosh(n: Node) -> Tensor:
    x = n.floats(n[0])
    t = n.sub(x, 1.0)
    return n.cast_to(log1p(n, n.add(t, n.sqrt(n.add(n.mul(t, 2.0), n.mul(t, t))))), n[0].dtype)


@onnx_op("Atanh")
def atanh(n: Node) -> Tensor:
    x = n.floats(n[0])
    return n.cast_to(n.mul(log1p(n, n.div(n.mul(x, 2.0), n.sub(1.0, x))), 0.5), n[0].dtype)


def arc_tangent(n: Node, x: Tensor) -> Tensor:
    """atan in float32: |x| > 1 through 1 / x, then two half-angle steps, then the series."""
    size = n.abs(x)
    inverted = n.greater(size, 1.0)
    t = n.where(inverted, n.reciprocal(n.where(inverted, size, 1.0)), size)
    for _ in range(2):
        t = n.div(t, n.add(1.0, n.sqrt(n.add(1.0, n.mul(t, t)))))
    square = n.mul(t, t)
    series = n.const(1 / 13, x)
    for k in (11, 9, 7, 5, 3, 1):
        series = n.sub(n.const(1 / k, x), n.mul(square, series))
    angle = n.mul(n.mul(t, series), 4.0)
    return n.mul(n.sign(x), n.where(inverted, n.sub(math.pi / 2, angle), angle))


@onnx_op("Atan")
def atan(n: Node) -> Tensor:
    return n.cast_to(arc_tangent(n, n.floats(n[0])), n[0].dtype)


@onnx_op("Asin")
def asin(n: Node) -> Tensor:
    x = n.floats(n[0])
    root = n.sqrt(n.mul(n.sub(1.0, x), n.add(1.0, x)))
    return n.cast_to(n.mul(arc_tangent(n, n.div(x, n.add(1.0, root))), 2.0), n[0].dtype)


@onnx_op("Acos")
def acos(n: Node) -> Tensor:
    x = n.floats(n[0])
    # At -1 the quotient is infinite, whose arc tangent is right.
    return n.cast_to(n.mul(arc_tangent(n, n.sqrt(n.div(n.sub(1.0, x), n.add(1.0, x)))), 2.0), n[0].dtype)


@onnx_op("Dropout")
def dropout(n: Node) -> list[Tensor | None]:
    x = n[0]
    training = n.get(2)
    if training is not None and bool(np.any(n.known(training, "training_mode (input 2)"))):
        ratio = n.get(1)
        if ratio is None or float(n.known(ratio, "ratio (input 1)").reshape(-1)[0]) != 0:
            raise Unsupported("dropout in training mode is random")
    mask = n.broadcast(n.const(True), x.shape) if n.wants(1) else None
    if mask is not None and n.opset < 10:
        mask = n.cast_to(mask, x.dtype)
    return [x, mask]


@onnx_op("BitCast", since=26)
def bit_cast(n: Node) -> Tensor:
    x = n[0]
    wanted = from_enum(n.need("to", int), "the type to cast to")
    if x.data is not None:
        return n.const(x.data.view(wanted))
    if wanted == x.dtype:
        return x
    if wanted.itemsize != x.dtype.itemsize:
        raise Malformed(f"bits of {x.dtype.name} cannot be {wanted.name}: another size")
    if wanted.kind in "iu" and x.dtype.kind in "iu":
        return n.cast_to(x, wanted)
    if BOOL in (wanted, x.dtype) and not is_float(x.dtype) and not is_float(wanted):
        return n.cast_to(n.cast_to(x, np.uint8), wanted)
    raise Unsupported(f"bits of {x.dtype.name} as {wanted.name}: WebNN cannot reinterpret")
