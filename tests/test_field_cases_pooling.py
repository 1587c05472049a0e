"""Pooling: inputs that implementations got wrong, by value, type and shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webnn_xla as webnn

OPS = ["average_pool2d", "l2_pool2d", "max_pool2d"]


def run(context: webnn.MLContext, op: str, input: Any, **options: Any) -> np.ndarray:
    array = np.asarray(input)
    builder = webnn.MLGraphBuilder(context)
    made = getattr(builder, op)(builder.input("x", array.shape, array.dtype), **options)
    result = builder.build({"y": made}).compute({"x": array})["y"]
    assert result.dtype == array.dtype
    assert made.shape == result.shape
    return result


def image(values: Any, dtype: Any = np.float32) -> np.ndarray:
    return np.array(values, dtype)[None, None]


@pytest.mark.parametrize(
    "options",
    [
        {"padding": [1, 0, 0, 1]},
        {"window_dimensions": [3, 3], "padding": [2, 2, 2, 2]},
        {"window_dimensions": [3, 2], "padding": [2, 1, 0, 1], "strides": [2, 2]},
        {"window_dimensions": [3, 3], "padding": [1, 0, 0, 1], "strides": [2, 2], "output_shape_rounding": "ceil"},
        {"window_dimensions": [2, 2], "padding": [3, 3, 3, 3], "dilations": [4, 4]},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_average_of_ones_is_one_whatever_the_padding(context: webnn.MLContext, options: dict[str, Any], dtype: Any) -> None:
    result = run(context, "average_pool2d", np.ones((2, 3, 5, 5), dtype), **options)
    assert result.size
    assert (result == 1).all()


def test_l2_of_float16_squares_in_float32(context: webnn.MLContext) -> None:
    result = run(context, "l2_pool2d", image([[200, 200], [200, 200]], np.float16))
    assert result.tolist() == [[[[400]]]]


def test_float16_average_is_accumulated_in_float32(context: webnn.MLContext) -> None:
    assert run(context, "average_pool2d", np.full((1, 1, 64, 64), 1.0, np.float16)).tolist() == [[[[1]]]]
    assert run(context, "average_pool2d", np.full((1, 1, 2, 2), 60000, np.float16)).tolist() == [[[[60000]]]]


def test_maximum_never_is_padding(context: webnn.MLContext) -> None:
    negative = image([[-3, -2], [-5, -4]])
    result = run(context, "max_pool2d", negative, window_dimensions=[2, 2], padding=[1, 1, 1, 1])
    assert result.tolist() == [[[[-3, -2, -2], [-3, -2, -2], [-5, -4, -4]]]]
    smallest = image([[-128, -127]], np.int8)
    result = run(context, "max_pool2d", smallest, window_dimensions=[1, 1], padding=[0, 0, 1, 0])
    assert result.tolist() == [[[[-128, -128, -127]]]]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_integer_maximum_is_exact(context: webnn.MLContext, dtype: Any) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    result = run(context, "max_pool2d", image([[low, high - 1, high], [low, low, high - 1]], dtype), window_dimensions=[2, 1])
    assert result.tolist() == [[[[low, high - 1, high]]]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nan_in_a_window_gives_nan(context: webnn.MLContext, dtype: Any) -> None:
    values = np.zeros((1, 3, 12, 40), dtype)
    values[0, :, 5, 17] = np.nan
    for op in OPS:
        result = run(context, op, values, window_dimensions=[3, 3], padding=[1, 1, 1, 1])
        assert np.isnan(result[:, :, 4:7, 16:19]).all(), op
        assert np.isnan(result).sum() == 3 * 9, op


@pytest.mark.parametrize(("op", "wanted"), [("average_pool2d", 0.0), ("l2_pool2d", 0.0), ("max_pool2d", -np.inf)])
def test_windows_wholly_in_padding(context: webnn.MLContext, op: str, wanted: float) -> None:
    options: dict[str, Any] = {"window_dimensions": [3, 3], "strides": [3, 3], "padding": [1, 1, 1, 1]}
    result = run(context, op, np.ones((1, 2, 5, 5), np.float32), output_shape_rounding="ceil", **options)
    assert result.shape == (1, 2, 3, 3)
    assert (result[:, :, 2] == wanted).all()
    assert (result[:, :, :, 2] == wanted).all()
    assert (result[:, :, :2, :2] > 0).all()


@pytest.mark.parametrize(("op", "wanted"), [("average_pool2d", 3.5), ("l2_pool2d", 5.0), ("max_pool2d", 4.0)])
def test_rounding_up_keeps_what_is_in_the_last_windows(context: webnn.MLContext, op: str, wanted: float) -> None:
    """The last column's window holds two elements: the L2 norm of two is a square root as well."""
    values = image([[1, 2, 3], [9, 9, 4]])
    result = run(context, op, values, window_dimensions=[2, 2], strides=[2, 2], output_shape_rounding="ceil")
    assert result.shape == (1, 1, 1, 2)
    assert result[0, 0, 0, 1] == wanted


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("sizes", "rounding"), [([2, 2], "ceil"), ([3, 3], "floor")])
def test_output_sizes_override_the_rounding_and_keep_the_padding(
    context: webnn.MLContext, op: str, sizes: list[int], rounding: str
) -> None:
    values = np.arange(1, 51, dtype=np.float32).reshape(1, 2, 5, 5)
    options: dict[str, Any] = {"window_dimensions": [3, 3], "padding": [1, 0, 0, 1], "strides": [2, 2]}
    got = run(context, op, values, output_sizes=sizes, output_shape_rounding=rounding, **options)
    other = "floor" if rounding == "ceil" else "ceil"
    assert np.array_equal(got, run(context, op, values, output_shape_rounding=other, **options))
    assert list(got.shape[2:]) == sizes


@pytest.mark.parametrize("op", OPS)
def test_nhwc_is_nchw_transposed(context: webnn.MLContext, op: str) -> None:
    values = np.arange(2 * 3 * 6 * 7, dtype=np.float32).reshape(2, 3, 6, 7)
    options: dict[str, Any] = {"window_dimensions": [2, 3], "padding": [1, 0, 2, 1], "strides": [2, 1], "dilations": [2, 2]}
    nchw = run(context, op, values, **options)
    nhwc = run(context, op, values.transpose(0, 2, 3, 1), layout="nhwc", **options)
    assert np.array_equal(nhwc, nchw.transpose(0, 2, 3, 1))


def test_windows_of_billions_of_padding(context: webnn.MLContext) -> None:
    many = 2**32 - 1
    ones = np.ones((1, 1, 4, 4), np.float32)
    padding = [0, 0, 2**31, 2**31]
    assert (run(context, "average_pool2d", ones, window_dimensions=[1, many], padding=padding) == 1).all()
    assert (run(context, "l2_pool2d", ones, window_dimensions=[1, many], padding=padding) == 2).all()
    assert run(
        context, "max_pool2d", ones, window_dimensions=[1, 1], strides=[many, many], dilations=[many, many]
    ).tolist() == [[[[1]]]]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("options", "operand"),
    [
        ({"window_dimensions": [2]}, "window_dimensions"),
        ({"window_dimensions": [0, 2]}, "window_dimensions"),
        ({"window_dimensions": [6, 2]}, "window_dimensions"),
        ({"window_dimensions": [3, 3], "dilations": [1, 3]}, "window_dimensions"),
        ({"padding": [2, 2]}, "padding"),
        ({"padding": [2**32 - 1, 2**32 - 1, 0, 0]}, "window_dimensions"),
        ({"strides": [1, 0]}, "strides"),
        ({"strides": [2]}, "strides"),
        ({"dilations": [0, 1]}, "dilations"),
        ({"dilations": [1, 1, 1]}, "dilations"),
        ({"layout": "hwcn"}, "layout"),
        ({"output_shape_rounding": "even"}, "output_shape_rounding"),
        ({"output_sizes": [1]}, "output_sizes"),
        ({"output_sizes": [0, 1]}, "output_sizes"),
        ({"window_dimensions": [2, 2], "padding": [2, 2, 2, 2], "strides": [2, 2], "output_sizes": [3, 3]}, "output_sizes"),
        # One rounded down and one up: not both of a kind.
        ({"window_dimensions": [2, 2], "strides": [2, 2], "output_sizes": [2, 3]}, "output_sizes"),
    ],
    ids=str,
)
def test_mistakes_are_named(builder: webnn.MLGraphBuilder, op: str, options: dict[str, Any], operand: str) -> None:
    with pytest.raises(webnn.ArgumentError) as caught:
        getattr(builder, op)(builder.input("x", [1, 2, 5, 5], "float32"), label="pool", **options)
    assert isinstance(caught.value, TypeError)
    assert (caught.value.operator, caught.value.label, caught.value.operand) == (op, "pool", operand)
    assert "allowed:" in str(caught.value)
