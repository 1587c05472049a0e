"""conv2d and conv_transpose2d: inputs that implementations got wrong, by value, type and shape."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webnn_xla as webnn
from webnn_xla.lowering.window import Window

NHWC = (0, 2, 3, 1)


def run(context: webnn.MLContext, op: str, input: Any, filter: Any, bias: Any = None, **options: Any) -> np.ndarray:
    builder = webnn.MLGraphBuilder(context)
    given = {"input": np.asarray(input), "filter": np.asarray(filter)}
    if bias is not None:
        given["bias"] = np.asarray(bias)
    operands = {name: builder.input(name, array.shape, array.dtype) for name, array in given.items()}
    made = getattr(builder, op)(operands.pop("input"), operands.pop("filter"), **operands, **options)
    result = builder.build({"y": made}).compute(given)["y"]
    assert result.dtype == given["input"].dtype
    assert made.shape == result.shape
    return result


def ramp(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (np.arange(np.prod(shape)) % 11 - 5).reshape(shape).astype(dtype)


def test_filter_is_not_flipped(context: webnn.MLContext) -> None:
    result = run(context, "conv2d", ramp(1, 1, 1, 4), np.float32([[[[1, 10]]]]))
    assert result.tolist() == [[[[-45, -34, -23]]]]


def test_padding_order_is_height_then_width(context: webnn.MLContext) -> None:
    result = run(context, "conv2d", np.ones((1, 1, 2, 3), np.float32), np.ones((1, 1, 1, 1), np.float32), padding=[1, 0, 0, 2])
    assert result.tolist() == [[[[0, 0, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 0, 0]]]]


def test_float16_is_accumulated_in_float32(context: webnn.MLContext) -> None:
    ones = np.ones((1, 4096, 1, 1), np.float16)
    result = run(context, "conv2d", ones, ones, np.float16([1]))
    assert result.tolist() == [[[[4096]]]]  # 2048 if summed in float16
    # The bias is added before the rounding: 2049 + 1 is 2050, but 2049 rounds to 2048 in float16.
    result = run(context, "conv2d", ones[:, :2049], ones[:, :2049], np.float16([1]))
    assert result.tolist() == [[[[2050]]]]
    result = run(context, "conv_transpose2d", ones, ones.transpose(1, 0, 2, 3))
    assert result.tolist() == [[[[4096]]]]


@pytest.mark.parametrize("layout", ["iohw", "hwoi", "ohwi"])
@pytest.mark.parametrize(
    "options",
    [
        {"strides": [3, 2], "output_padding": [1, 1]},
        {"strides": [3, 2], "output_sizes": [10, 8]},
        {"strides": [3, 2], "output_sizes": [10, 8], "output_padding": [3, 3]},
        {"strides": [2, 3], "padding": [0, 1, 2, 0], "output_padding": [1, 2], "dilations": [2, 1]},
        {"strides": [2, 2], "padding": [1, 0, 0, 1], "groups": 2, "output_padding": [0, 1]},
    ],
    ids=str,
)
def test_nhwc_transposed_convolution_is_nchw_transposed(context: webnn.MLContext, layout: str, options: dict[str, Any]) -> None:
    image, filter = ramp(2, 2, 3, 3), ramp(2, 3, 3, 3)
    bias = ramp(3 * options.get("groups", 1))
    arranged = filter.transpose(["iohw".index(letter) for letter in layout])
    nchw = run(context, "conv_transpose2d", image, filter, bias, **options)
    nhwc = run(
        context, "conv_transpose2d", image.transpose(NHWC), arranged, bias, input_layout="nhwc", filter_layout=layout, **options
    )
    assert np.array_equal(nhwc, nchw.transpose(NHWC))
    if "output_sizes" in options:
        assert list(nchw.shape[2:]) == options["output_sizes"]


def test_output_padding_uncrops_what_padding_cropped(context: webnn.MLContext) -> None:
    image, filter = ramp(1, 1, 3, 3), ramp(1, 1, 3, 3)
    full = run(context, "conv_transpose2d", image, filter, strides=[2, 2])
    cropped = run(context, "conv_transpose2d", image, filter, strides=[2, 2], padding=[0, 2, 0, 1], output_padding=[1, 1])
    assert np.array_equal(cropped, full[:, :, :6, :7])
    padded = run(context, "conv_transpose2d", image, filter, strides=[2, 2], output_padding=[1, 1])
    assert np.array_equal(padded[:, :, :7, :7], full)
    assert not padded[:, :, 7].any()
    assert not padded[:, :, :, 7].any()


def test_transposed_convolution_is_the_transpose_of_convolution(context: webnn.MLContext) -> None:
    """<conv(x), y> equals <x, conv_transpose(y)> with the same filter, groups included. Small integers: no rounding."""
    options: dict[str, Any] = {"strides": [2, 3], "dilations": [2, 1], "padding": [1, 2, 0, 1], "groups": 2}
    x, filter = ramp(1, 4, 7, 9), ramp(6, 2, 2, 3)
    y = ramp(*run(context, "conv2d", x, filter, **options).shape)
    forward = run(context, "conv2d", x, filter, **options)
    # The layout oihw of a convolution is iohw of its transpose: what was output is input.
    back = run(context, "conv_transpose2d", y, filter, output_sizes=[7, 9], **options)
    assert (forward * y).sum() == (x * back).sum()


@pytest.mark.parametrize(("layout", "filter_layout"), list(product(["nchw", "nhwc"], ["oihw", "hwio", "ohwi", "ihwo"])))
def test_all_layouts_of_a_grouped_convolution_agree(context: webnn.MLContext, layout: str, filter_layout: str) -> None:
    options: dict[str, Any] = {"strides": [2, 1], "padding": [1, 0, 2, 1], "groups": 2}
    image, filter, bias = ramp(2, 4, 5, 6), ramp(6, 2, 3, 2), ramp(6)
    wanted = run(context, "conv2d", image, filter, bias, **options)
    got = run(
        context,
        "conv2d",
        image.transpose(["nchw".index(letter) for letter in layout]),
        filter.transpose(["oihw".index(letter) for letter in filter_layout]),
        bias,
        input_layout=layout,
        filter_layout=filter_layout,
        **options,
    )
    assert np.array_equal(got.transpose([layout.index(letter) for letter in "nchw"]), wanted)


def test_highest_precision_by_default() -> None:
    with webnn.ML().create_context(device_type="cpu", optimize=False) as context:
        builder = webnn.MLGraphBuilder(context)
        made = builder.conv2d(builder.input("x", [1, 2, 4, 4], "float32"), builder.input("f", [3, 2, 2, 2], "float32"))
        text = builder.build({"y": made}).stablehlo()
    assert "precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]" in text


def test_groups_that_do_not_divide_the_input_channels_fail_in_build(builder: webnn.MLGraphBuilder) -> None:
    """The checks of the specification, and the platform tests, let this pass; it has no meaning."""
    image, filter = builder.input("x", [1, 1, 5, 5], "float32"), builder.input("f", [1, 1, 3, 3], "float32")
    made = builder.conv_transpose2d(image, filter, padding=[1, 1, 1, 1], groups=3, label="up")
    assert made.shape == [1, 3, 5, 5]
    with pytest.raises(webnn.OperationError, match=r"conv_transpose2d \[up\].*divisor of the input's 1 channels"):
        builder.build({"y": made})


BAD_BOTH = [
    ({"padding": [1, 1]}, "padding"),
    ({"strides": [1]}, "strides"),
    ({"strides": [0, 1]}, "strides"),
    ({"dilations": [1, 1, 1]}, "dilations"),
    ({"dilations": [1, 0]}, "dilations"),
    ({"padding": [2**32, 0, 0, 0]}, "padding"),
    ({"padding": [-1, 0, 0, 0]}, "padding"),
    ({"groups": 0}, "groups"),
    ({"input_layout": "chwn"}, "input_layout"),
    ({"filter_layout": "hiow"}, "filter_layout"),
    ({"input_layout": "nhwc"}, "filter"),
]
BAD_CONV2D = [
    ({"groups": 3}, "groups"),
    ({"groups": 2}, "filter"),
    ({"filter_layout": "hwio"}, "filter"),
    ({"dilations": [5, 1]}, "filter"),
    ({"dilations": [2**32 - 1, 1]}, "filter"),
    ({"padding": [2**32 - 1, 2**32 - 1, 0, 0]}, "filter"),
]
BAD_TRANSPOSED = [
    ({"output_padding": [1]}, "output_padding"),
    ({"strides": [2, 3], "output_padding": [2, 0]}, "output_padding"),
    ({"strides": [2, 3], "output_padding": [0, 3]}, "output_padding"),
    ({"output_sizes": [6]}, "output_sizes"),
    ({"strides": [2, 3], "output_sizes": [9, 15]}, "output_sizes"),
    ({"strides": [2, 3], "output_sizes": [12, 15]}, "output_sizes"),
    ({"strides": [2, 3], "output_sizes": [11, 17]}, "output_sizes"),
    ({"padding": [4, 4, 0, 0]}, "padding"),
    ({"dilations": [2**32 - 1, 1]}, "padding"),
    ({"groups": 2**31 - 1}, "groups"),
]


@pytest.mark.parametrize(
    ("op", "options", "operand"),
    [("conv2d", *bad) for bad in BAD_BOTH + BAD_CONV2D] + [("conv_transpose2d", *bad) for bad in BAD_BOTH + BAD_TRANSPOSED],
)
def test_mistakes_are_named(builder: webnn.MLGraphBuilder, op: str, options: dict[str, Any], operand: str) -> None:
    image, filter = builder.input("x", [1, 4, 5, 5], "float32"), builder.input("f", [4, 4, 2, 2], "float32")
    with pytest.raises(webnn.ArgumentError) as caught:
        getattr(builder, op)(image, filter, label="first", **options)
    assert isinstance(caught.value, TypeError)
    assert (caught.value.operator, caught.value.label) == (op, "first")
    assert caught.value.operand.split("[")[0] == operand
    assert "allowed:" in str(caught.value)


@pytest.mark.parametrize("op", ["conv2d", "conv_transpose2d"])
@pytest.mark.parametrize(("shape", "data_type"), [([3], "float32"), ([1, 4], "float32"), ([4], "float16"), ([], "float32")])
def test_bias_must_match(builder: webnn.MLGraphBuilder, op: str, shape: list[int], data_type: str) -> None:
    image, filter = builder.input("x", [1, 4, 5, 5], "float32"), builder.input("f", [4, 4, 2, 2], "float32")
    with pytest.raises(webnn.ArgumentError) as caught:
        getattr(builder, op)(image, filter, bias=builder.input("b", shape, data_type))
    assert caught.value.operand == "bias"


@settings(max_examples=300, deadline=None)
@given(*[st.integers(1, 6)] * 2, *[st.integers(1, 4)] * 2, *[st.integers(0, 8)] * 2)
def test_window_geometry(input: int, size: int, stride: int, dilation: int, before: int, after: int) -> None:
    window = Window(input, size, stride, dilation, before, after)
    for positions in {window.positions, window.positions_ceil}:
        if positions < 1:
            continue
        trimmed = window.trimmed(positions)
        assert reads(trimmed, positions) == reads(window, positions)
        for some in (window, trimmed):
            assert some.counts(positions).tolist() == list(map(len, reads(window, positions)))
            low, high = some.padding(positions)
            assert (input + low + high - some.extent) // stride + 1 == positions


def reads(window: Window, positions: int) -> list[list[int]]:
    taps = range(0, window.size * window.dilation, window.dilation)
    starts = range(-window.before, positions * window.stride - window.before, window.stride)
    return [[start + tap for tap in taps if 0 <= start + tap < window.input] for start in starts]


def test_a_transposed_convolution_that_xla_takes_for_a_grouped_one(context: webnn.MLContext) -> None:
    """Two taps at a stride of 2 that are cropped by 1 at both ends, beside an axis with more taps than pixels: XLA aborts."""
    image, taps = ramp(2, 3, 3, 4), ramp(3, 3, 4, 2)
    result = run(context, "conv_transpose2d", image, taps, strides=[4, 2], padding=[4, 4, 1, 1])
    whole = run(context, "conv_transpose2d", image, taps, strides=[4, 2])
    assert whole.shape == (2, 3, 12, 8)
    assert np.array_equal(result, whole[:, :, 4:-4, 1:-1])
