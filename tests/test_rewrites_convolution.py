"""Convolutions as matrix products and multiply-adds: where it happens, where it must not, and that results stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Comparison, assert_not_fired, random

import webnn_xla as webnn

LAYOUTS = ["oihw", "hwio", "ohwi", "ihwo"]


def convolution(
    b: Any,
    *,
    batch: int = 2,
    channels: int = 4,
    out: int = 6,
    size: tuple[int, int] = (3, 3),
    groups: int = 1,
    layout: str = "nhwc",
    filter_layout: str = "oihw",
    data_type: str = "float32",
    bias: bool = True,
    filter_input: bool = False,
    **options: Any,
) -> dict[str, Any]:
    by_letter = {"n": batch, "c": channels, "h": 7, "w": 8, "o": out, "i": channels // groups}
    x = b.input("x", [by_letter[letter] for letter in layout], data_type)
    by_letter |= {"h": size[0], "w": size[1]}
    shape = [by_letter[letter] for letter in filter_layout]
    w = b.input("w", shape, data_type) if filter_input else b.constant(random(*shape, data_type=data_type))
    return {
        "y": b.conv2d(
            x, w, bias=b.constant(random(out, data_type=data_type)) if bias else None,
            groups=groups, input_layout=layout, filter_layout=filter_layout, **options,
        )
    }  # fmt: skip


@pytest.mark.parametrize("filter_layout", LAYOUTS)
@pytest.mark.parametrize("strides", [[1, 1], [2, 3]])
@pytest.mark.parametrize("bias", [False, True])
def test_pointwise(context: webnn.MLContext, filter_layout: str, strides: list[int], bias: bool) -> None:
    c = Comparison(
        context,
        lambda b: convolution(b, size=(1, 1), filter_layout=filter_layout, strides=strides, bias=bias),
        "pointwise_as_matmul",
    )
    assert c.ops == ["slice"] * (strides != [1, 1]) + ["matmul"] + ["add"] * bias
    c.check()


@pytest.mark.parametrize("strides", [[1, 1], [2, 3]])
@pytest.mark.parametrize("bias", [False, True])
def test_pointwise_with_channels_first(context: webnn.MLContext, strides: list[int], bias: bool) -> None:
    c = Comparison(
        context,
        lambda b: convolution(b, batch=1, size=(1, 1), layout="nchw", strides=strides, bias=bias),
        "pointwise_as_matmul", "channels_last",
    )  # fmt: skip
    assert "transpose" not in c.ops
    assert "matmul" in c.ops
    c.check()


def test_first_layer(context: webnn.MLContext) -> None:
    c = Comparison(context, lambda b: convolution(b, channels=3, strides=[2, 2]), "small_groups_as_multiply_add")
    assert c.ops == ["grouped_conv2d"]
    c.check()
    assert_not_fired(context, lambda b: convolution(b, channels=3, layout="nchw"), "small_groups_as_multiply_add")
    assert_not_fired(context, lambda b: convolution(b, channels=3, size=(5, 5)), "small_groups_as_multiply_add")


@pytest.mark.parametrize(
    "options",
    [
        {"size": (1, 3)}, {"padding": [0, 1, 0, 0], "size": (1, 1)}, {"groups": 2, "size": (1, 1)},
        {"layout": "nchw", "size": (1, 1)},
        {"data_type": "float16", "size": (1, 1)}, {"filter_input": True, "size": (1, 1)},
    ],
)  # fmt: skip
def test_not_pointwise(context: webnn.MLContext, options: dict[str, Any]) -> None:
    assert_not_fired(context, lambda b: convolution(b, **options), "pointwise_as_matmul")


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize("filter_input", [False, True])
def test_depthwise(context: webnn.MLContext, layout: str, data_type: str, filter_input: bool) -> None:
    c = Comparison(
        context,
        lambda b: convolution(
            b, channels=6, out=6, groups=6, layout=layout, data_type=data_type, filter_input=filter_input,
            padding=[1, 2, 0, 1], strides=[2, 1], dilations=[1, 2],
        ),
        "depthwise_as_multiply_add",
    )  # fmt: skip
    assert c.ops == ["depthwise_conv2d"]
    c.check(ulps=4 if data_type == "float16" else 64)


@pytest.mark.parametrize("options", [{}, {"groups": 2}, {"channels": 2, "out": 4, "groups": 2}, {"channels": 1, "out": 1}])
def test_not_depthwise(context: webnn.MLContext, options: dict[str, Any]) -> None:
    assert_not_fired(context, lambda b: convolution(b, **options), "depthwise_as_multiply_add")


@pytest.mark.parametrize(
    ("channels", "groups", "out"), [(20, 4, 8), (20, 2, 6), (24, 12, 24), (24, 12, 36), (9, 3, 3), (8, 4, 4)]
)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("filter_layout", ["oihw", "hwio"])
def test_groups(context: webnn.MLContext, channels: int, groups: int, out: int, layout: str, filter_layout: str) -> None:
    c = Comparison(
        context,
        lambda b: convolution(
            b, channels=channels, groups=groups, out=out, layout=layout, filter_layout=filter_layout, padding=[1, 1, 1, 1],
            strides=[1, 2],
        ),
        "split_groups", "small_groups_as_multiply_add",
    )  # fmt: skip
    assert c.ops == (["grouped_conv2d"] if channels // groups <= 4 else ["split", *["conv2d"] * groups, "concat"])
    c.check()


def test_many_large_groups_stay(context: webnn.MLContext) -> None:
    assert_not_fired(
        context, lambda b: convolution(b, channels=80, out=16, groups=16), "split_groups", "small_groups_as_multiply_add"
    )


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([(1, 4), (4, 4), (2, 4), (12, 12)]),
    st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(1, 2), st.integers(1, 2),
    st.sampled_from(["nchw", "nhwc"]), st.sampled_from(LAYOUTS),
)  # fmt: skip
def test_all_together_keep_results(
    groups: tuple[int, int], height: int, width: int, pad: int, stride: int, dilation: int, layout: str, filter_layout: str
) -> None:
    with webnn.ML().create_context(device_type="cpu") as context:
        c = Comparison(
            context,
            lambda b: convolution(
                b, channels=groups[1], out=12, groups=groups[0], size=(height, width), layout=layout,
                filter_layout=filter_layout, padding=[pad, 0, 1, pad], strides=[stride, 1], dilations=[1, dilation],
            ),
            *webnn_rewrites(),
        )  # fmt: skip
        c.check()


def webnn_rewrites() -> tuple[str, ...]:
    from webnn_xla.rewrites import NAMES

    return NAMES


def test_unknown_names_are_errors(context: webnn.MLContext) -> None:
    with pytest.raises(webnn.ArgumentError, match="pointwise_as_matmul"):
        webnn.ML().create_context(device_type="cpu", optimize={"pointwise"})
    builder = webnn.MLGraphBuilder(context)
    with pytest.raises(webnn.ArgumentError, match="optimize"):
        builder.build(convolution(builder), optimize=["nothing"])
