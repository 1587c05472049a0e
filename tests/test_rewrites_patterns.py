"""Patterns recognised as one op: where, where not, and that results stay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Comparison, assert_not_fired, positive, random

import webnn_xla as webnn
from webnn_xla.rewrites import NAMES

Make = Callable[[Any, Any], Any]
GELU: dict[str, Make] = {
    "x half gate": lambda b, x: x * 0.5 * (b.erf(x / math.sqrt(2)) + 1.0),
    "half (x gate)": lambda b, x: 0.5 * (x * (1.0 + b.erf(x * math.sqrt(0.5)))),
    "x (gate half)": lambda b, x: x * ((b.erf(x / math.sqrt(2)) + 1.0) * 0.5),
    "over two": lambda b, x: (b.erf(x / math.sqrt(2)) + 1.0) * x / 2.0,
}
GELU_TANH: dict[str, Make] = {
    "pow": lambda b, x: 0.5 * x * (1.0 + b.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3.0))),
    "products": lambda b, x: x * (0.5 * (b.tanh((x + x * x * x * 0.044715) * 0.7978845) + 1.0)),
}
SWISH: dict[str, tuple[str, Make]] = {
    "silu": ("silu", lambda b, x: x * b.sigmoid(x)),
    "silu turned": ("silu", lambda b, x: b.sigmoid(x) * x),
    "clamp over six": ("hard_swish", lambda b, x: x * b.clamp(x + 3.0, min_value=0, max_value=6) / 6.0),
    "clamp times sixth": ("hard_swish", lambda b, x: x * (b.clamp(3.0 + x, min_value=0, max_value=6) * (1 / 6))),
    "hard sigmoid": ("hard_swish", lambda b, x: x * b.hard_sigmoid(x, alpha=1 / 6)),
}


def of(make: Make, shape: tuple[int, ...] = (3, 8), data_type: str = "float32") -> Callable[[Any], dict[str, Any]]:
    return lambda b: {"y": make(b, b.input("x", shape, data_type))}


@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize("case", [*GELU, *GELU_TANH])
def test_gelu(context: webnn.MLContext, case: str, data_type: str) -> None:
    c = Comparison(context, of(GELU.get(case) or GELU_TANH[case], data_type=data_type), "recognise_gelu")
    assert c.ops == ["gelu" if case in GELU else "gelu_tanh"]
    c.check(ulps=8)


@pytest.mark.parametrize(
    "make",
    [
        lambda b, x: 0.6 * x * (b.erf(x / math.sqrt(2)) + 1.0),
        lambda b, x: 0.5 * x * (b.erf(x) + 1.0),
        lambda b, x: 0.5 * x * (b.erf(x / math.sqrt(2)) + 2.0),
        lambda b, x: 0.5 * b.exp(x) * (b.erf(x / math.sqrt(2)) + 1.0),
        lambda b, x: 0.5 * x * (b.tanh(0.8 * (x + 0.05 * x**3.0)) + 1.0),
        lambda b, x: 0.5 * x * (b.tanh(0.79788456 * (x + 0.044715 * x**2.0)) + 1.0),
    ],
)
def test_not_gelu(context: webnn.MLContext, make: Make) -> None:
    assert_not_fired(context, of(make), "recognise_gelu")


def test_gelu_whose_parts_are_read_elsewhere_stays(context: webnn.MLContext) -> None:
    def make(b: Any) -> Any:
        x = b.input("x", [3, 8], "float32")
        gate = b.erf(x / math.sqrt(2)) + 1.0
        return {"y": 0.5 * x * gate, "gate": gate}

    assert_not_fired(context, make, "recognise_gelu")


@pytest.mark.parametrize("case", SWISH)
def test_swish(context: webnn.MLContext, case: str) -> None:
    name, make = SWISH[case]
    c = Comparison(context, of(make), "recognise_swish")
    assert c.ops == [name]
    c.check(ulps=8)


@pytest.mark.parametrize(
    "make",
    [
        lambda b, x: x * b.sigmoid(b.neg(x)),
        lambda b, x: 2.0 * x * b.sigmoid(x),
        lambda b, x: x * b.clamp(x + 3.0, min_value=0, max_value=5) / 6.0,
        lambda b, x: x * b.hard_sigmoid(x),
    ],
)
def test_not_swish(context: webnn.MLContext, make: Make) -> None:
    assert_not_fired(context, of(make), "recognise_swish")


def layer_norm(b: Any, x: Any, *, affine: int = 2, power: bool = False, reciprocal: bool = False, axis: int = 1) -> Any:
    centred = x - b.reduce_mean(x, axes=[axis], keep_dimensions=True)
    square = centred**2.0 if power else centred * centred
    deviation = b.sqrt(b.reduce_mean(square, axes=[axis], keep_dimensions=True) + 1e-5)
    y = centred * b.reciprocal(deviation) if reciprocal else centred / deviation
    if affine:
        y = y * b.constant(positive(x.shape[1]))
    return y + b.constant(random(x.shape[1])) if affine == 2 else y


def rms_norm(b: Any, x: Any, *, affine: bool = True) -> Any:
    y = x / b.sqrt(b.reduce_mean(x * x, axes=[1], keep_dimensions=True) + 1e-6)
    return b.constant(positive(x.shape[1])) * y if affine else y


@pytest.mark.parametrize("affine", [0, 1, 2])
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("reciprocal", [False, True])
def test_layer_norm(context: webnn.MLContext, affine: int, power: bool, reciprocal: bool) -> None:
    c = Comparison(
        context, of(lambda b, x: layer_norm(b, x, affine=affine, power=power, reciprocal=reciprocal)), "recognise_normalization"
    )
    assert c.ops == ["layer_normalization"]
    c.check()


@pytest.mark.parametrize("affine", [False, True])
def test_rms_norm(context: webnn.MLContext, affine: bool) -> None:
    c = Comparison(context, of(lambda b, x: rms_norm(b, x, affine=affine)), "recognise_normalization")
    assert c.ops == ["rms_normalization"]
    c.check()


def test_not_normalization(context: webnn.MLContext) -> None:
    assert_not_fired(context, of(lambda b, x: layer_norm(b, x, affine=0, axis=0)), "recognise_normalization")
    assert_not_fired(
        context,
        of(lambda b, x: x / b.sqrt(b.reduce_mean(b.abs(x), axes=[1], keep_dimensions=True) + 1e-5)),
        "recognise_normalization",
    )

    def shared(b: Any) -> Any:
        x = b.input("x", [3, 8], "float32")
        mean = b.reduce_mean(x * x, axes=[1], keep_dimensions=True)
        return {"y": x / b.sqrt(mean + 1e-6), "mean": mean}

    assert_not_fired(context, shared, "recognise_normalization")


def attention(
    b: Any, *, mask: str = "add", scale: str = "mul", batch: tuple[int, ...] = (2, 3), axis: int | None = None
) -> Any:
    q, k, v = (b.input(n, [*batch, *s], "float32") for n, s in (("q", (5, 4)), ("k", (4, 6)), ("v", (6, 7))))
    scores = b.matmul(q, k)
    scores = {"mul": lambda: scores * 0.5, "div": lambda: scores / 2.0, "left": lambda: 0.5 * scores, "": lambda: scores}[
        scale
    ]()
    if mask:
        m = b.input("m", [2, 1, 1, 6], "float32")
        scores = scores + m if mask == "add" else m + scores
    return b.matmul(b.softmax(scores, 3 if axis is None else axis), v)


@pytest.mark.parametrize("mask", ["add", "turned", ""])
@pytest.mark.parametrize("scale", ["mul", "div", "left", ""])
def test_attention(context: webnn.MLContext, mask: str, scale: str) -> None:
    c = Comparison(context, lambda b: {"y": attention(b, mask=mask, scale=scale)}, "recognise_attention")
    assert c.ops == ["attention"]
    c.check()


def test_not_attention(context: webnn.MLContext) -> None:
    assert_not_fired(context, lambda b: {"y": attention(b, axis=2)}, "recognise_attention")

    def shared(b: Any) -> Any:
        weights = b.softmax(b.matmul(b.input("q", [5, 4], "float32"), b.input("k", [4, 6], "float32")), 1)
        return {"y": b.matmul(weights, b.input("v", [6, 7], "float32")), "weights": weights}

    assert_not_fired(context, shared, "recognise_attention")


@pytest.mark.parametrize("data_type", ["int8", "uint8", "int4", "uint4"])
@pytest.mark.parametrize("columns", [1, 12])
def test_quantized_matmul(context: webnn.MLContext, data_type: str, columns: int) -> None:
    def make(b: Any) -> Any:
        kind = webnn.MLOperandDataType.of(data_type)
        low, high = kind.integer_range
        rng = np.random.default_rng(0)
        whole = (
            rng.integers(low, high + 1, (16, 12))
            .astype(np.int16)
            .astype(np.int8 if kind.is_signed else np.uint8)
            .astype(kind.numpy)
        )
        zero = rng.integers(0, 5, (1, columns)).astype(np.int8 if kind.is_signed else np.uint8).astype(kind.numpy)
        w = b.dequantize_linear(b.constant(whole), b.constant(positive(1, columns)), b.constant(zero))
        return {"y": b.matmul(b.input("x", [2, 3, 16], "float32"), w)}

    c = Comparison(context, make, "dequantize_in_matmul")
    assert c.ops == ["quantized_matmul"]
    c.check()


def test_blocks_of_rows_are_dequantized(context: webnn.MLContext) -> None:
    def make(b: Any) -> Any:
        w = b.dequantize_linear(
            b.constant(np.ones((16, 12), np.int8)), b.constant(positive(4, 12)), b.constant(np.zeros((4, 12), np.int8))
        )
        return {"y": b.matmul(b.input("x", [3, 16], "float32"), w)}

    assert_not_fired(context, make, "dequantize_in_matmul")


@pytest.mark.parametrize("index", [0, 3, -1, 100, -100])
def test_scatter_of_one_row(context: webnn.MLContext, index: int) -> None:
    def make(b: Any) -> Any:
        return {
            "y": b.scatter_nd(
                b.input("x", [5, 2, 3], "float32"), b.input("i", [1, 1], "int32"), b.input("u", [1, 2, 3], "float32")
            )
        }

    c = Comparison(context, make, "scatter_as_update")
    assert c.ops == ["update_row"]
    c.check({"i": np.array([[index]], np.int32)}, ulps=0)


def test_scatter_of_several_rows_stays(context: webnn.MLContext) -> None:
    def make(b: Any) -> Any:
        at = b.constant(np.array([[0], [2]], np.int32))
        return {"y": b.scatter_nd(b.input("x", [5, 3], "float32"), at, b.input("u", [2, 3], "float32"))}

    assert_not_fired(context, make, "scatter_as_update")


def test_no_ops_go(context: webnn.MLContext) -> None:
    def make(b: Any) -> Any:
        x = b.input("x", [2, 3, 4], "float32")
        y = b.transpose(b.transpose(b.identity(b.cast(x, "float32")), permutation=[1, 0, 2]), permutation=[1, 0, 2])
        return {"y": b.relu(b.reshape(b.reshape(y, [6, 4]), [2, 3, 4])), "z": b.identity(x)}

    c = Comparison(context, make, "remove_no_ops")
    assert sorted(c.ops) == ["identity", "relu"]
    c.check()


def test_equal_nodes_merge(context: webnn.MLContext) -> None:
    def make(b: Any) -> Any:
        x = b.input("x", [3], "float32")
        return {"y": b.exp(x) + b.exp(x), "z": b.exp(x), "w": b.elu(x, alpha=1.0) + b.elu(x, alpha=2.0)}

    c = Comparison(context, make, "merge_equal_nodes")
    assert sorted(c.ops) == ["add", "add", "elu", "elu", "exp"]
    c.check()


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([*GELU.values(), *GELU_TANH.values(), *(make for _, make in SWISH.values()), layer_norm, rms_norm]),
       st.sampled_from(["float32", "float16"]), st.integers(2, 40), st.integers(0, 2**32 - 1))  # fmt: skip
def test_results_stay(make: Make, data_type: str, size: int, seed: int) -> None:
    if make in (layer_norm, rms_norm):
        data_type = "float32"
    with webnn.ML().create_context(device_type="cpu") as context:
        Comparison(context, of(make, (3, size), data_type), *NAMES).check(seed=seed, ulps=64 if data_type == "float32" else 8)
