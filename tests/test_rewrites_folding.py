"""Batch normalization and scales folded into weights: where it happens, where it must not, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Comparison, assert_not_fired, positive, random

import webnn_xla as webnn


def conv_then_norm(
    b: Any,
    *,
    axis: int = 1,
    layout: str = "nchw",
    bias: bool = True,
    affine: bool = True,
    data_type: str = "float32",
    filter: Any = None,
) -> Any:
    shape = [2, 5, 6, 6] if layout == "nchw" else [2, 6, 6, 5]
    cast = lambda array: b.constant(array.astype(data_type))  # noqa: E731
    x = b.input("x", shape, data_type)
    w = cast(random(8, 5, 3, 3)) if filter is None else filter
    y = b.conv2d(x, w, bias=cast(random(8)) if bias else None, input_layout=layout)
    size = y.shape[axis]
    extra = {"scale": cast(positive(size)), "bias": cast(random(size))} if affine else {}
    return y, b.batch_normalization(y, cast(random(size)), cast(positive(size)), axis=axis, **extra)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_batch_norm_folds(context: webnn.MLContext, layout: str, bias: bool, affine: bool) -> None:
    axis = layout.index("c")
    c = Comparison(
        context, lambda b: {"y": conv_then_norm(b, axis=axis, layout=layout, bias=bias, affine=affine)[1]}, "fold_batch_norm"
    )
    assert c.ops == ["conv2d"]
    assert c.fired == ["fold_batch_norm"]
    assert "batch_normalization → " in str(c.rewritten._program.fired[0])
    c.check()


def test_batch_norm_folds_into_named_weights(context: webnn.MLContext) -> None:
    def make(b: Any) -> Any:
        return {"y": conv_then_norm(b, filter=b.constant({"data_type": "float32", "shape": [8, 5, 3, 3]}, name="w"))[1]}

    c = Comparison(context, make, "fold_batch_norm")
    assert c.ops == ["conv2d"]
    for seed in (1, 2):
        for graph in (c.rewritten, c.written):
            graph.load_weights({"w": random(8, 5, 3, 3, seed=seed)})
        c.check()


def test_batch_norm_stays_where_the_convolution_is_read_twice(context: webnn.MLContext) -> None:
    assert_not_fired(context, lambda b: dict(zip("ab", conv_then_norm(b), strict=True)), "fold_batch_norm")

    def shared(b: Any) -> Any:
        conv, norm = conv_then_norm(b)
        return {"y": b.add(conv, norm)}

    assert_not_fired(context, shared, "fold_batch_norm")


def test_batch_norm_stays_on_another_axis_type_or_filter(context: webnn.MLContext) -> None:
    assert_not_fired(context, lambda b: {"y": conv_then_norm(b, axis=2)[1]}, "fold_batch_norm")
    assert_not_fired(context, lambda b: {"y": conv_then_norm(b, data_type="float16")[1]}, "fold_batch_norm")
    assert_not_fired(
        context, lambda b: {"y": conv_then_norm(b, filter=b.input("w", [8, 5, 3, 3], "float32"))[1]}, "fold_batch_norm"
    )


@pytest.mark.parametrize("op", ["mul", "div", "add", "sub"])
@pytest.mark.parametrize("shape", [(), (1,), (8, 1, 1), (1, 8, 1, 1)])
@pytest.mark.parametrize("bias", [False, True])
def test_scales_fold_into_convolution(context: webnn.MLContext, op: str, shape: tuple[int, ...], bias: bool) -> None:
    def make(b: Any) -> Any:
        y = b.conv2d(
            b.input("x", [1, 5, 6, 6], "float32"), b.constant(random(8, 5, 3, 3)), bias=b.constant(random(8)) if bias else None
        )
        return {"y": getattr(b, op)(y, b.constant(positive(*shape)))}

    c = Comparison(context, make, "fold_scale")
    assert c.ops == ["conv2d"]
    c.check()


def test_a_chain_of_scales_folds(context: webnn.MLContext) -> None:
    def make(b: Any) -> Any:
        y = b.conv2d(b.input("x", [1, 5, 6, 6], "float32"), b.constant(random(8, 5, 3, 3)), filter_layout="oihw")
        return {"y": (3.0 * y + 1.5) * 0.5 - 2.0}

    c = Comparison(context, make, "fold_scale")
    assert c.ops == ["conv2d"]
    c.check()


def test_scales_fold_into_constant_matmul_weights_only(context: webnn.MLContext) -> None:
    def make(b: Any, weights: Any = None, factor: Any = None) -> Any:
        w = b.constant(random(6, 8)) if weights is None else weights
        return {"y": b.mul(b.matmul(b.input("x", [3, 6], "float32"), w), factor or b.constant(positive(8)))}

    c = Comparison(context, make, "fold_scale")
    assert c.ops == ["matmul"]
    c.check()
    assert_not_fired(context, lambda b: make(b, weights=b.input("w", [6, 8], "float32")), "fold_scale")
    assert_not_fired(context, lambda b: make(b, factor=b.input("c", [8], "float32")), "fold_scale")
    assert_not_fired(context, lambda b: make(b, factor=b.constant(positive(3, 1))), "fold_scale")


def test_scales_stay_where_they_differ_within_a_channel_or_reverse(context: webnn.MLContext) -> None:
    def make(b: Any, op: str, shape: tuple[int, ...], *, swap: bool = False) -> Any:
        y = b.conv2d(b.input("x", [1, 5, 6, 6], "float32"), b.constant(random(4, 5, 3, 3)))
        pair = (y, b.constant(positive(*shape)))
        return {"y": getattr(b, op)(*(reversed(pair) if swap else pair))}

    assert_not_fired(context, lambda b: make(b, "mul", (4,)), "fold_scale")
    assert_not_fired(context, lambda b: make(b, "add", (1, 4, 4, 1)), "fold_scale")
    assert_not_fired(context, lambda b: make(b, "sub", (4, 1, 1), swap=True), "fold_scale")
    assert_not_fired(context, lambda b: make(b, "div", (4, 1, 1), swap=True), "fold_scale")


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.sampled_from(["oihw", "hwio", "ohwi", "ihwo"]), st.integers(0, 2**32 - 1))
def test_folding_keeps_results(groups: int, width: int, layout: str, seed: int) -> None:
    with webnn.ML().create_context(device_type="cpu") as context:

        def make(b: Any) -> Any:
            sizes = {"o": 2 * groups, "i": width, "h": 2, "w": 3}
            w = b.constant(random(*(sizes[letter] for letter in layout), seed=seed % 1000))
            y = b.conv2d(b.input("x", [1, groups * width, 5, 4], "float32"), w, groups=groups, filter_layout=layout)
            norm = b.batch_normalization(y, b.constant(random(2 * groups)), b.constant(positive(2 * groups)))
            return {"y": norm * 2.0}

        c = Comparison(context, make, "fold_batch_norm", "fold_scale")
        assert c.ops == ["conv2d"]
        c.check(seed=seed)
    np.testing.assert_equal(len(c.fired), 2)
