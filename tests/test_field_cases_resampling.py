"""resample2d: inputs that implementations got wrong, by value, type and shape."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import webnn_xla as webnn
from webnn_xla.lowering.resampling import make_samples


def run(context: webnn.MLContext, input: Any, **options: Any) -> np.ndarray:
    array = np.asarray(input)
    builder = webnn.MLGraphBuilder(context)
    made = builder.resample2d(builder.input("x", array.shape, array.dtype), **options)
    result = builder.build({"y": made}).compute({"x": array})["y"]
    assert result.dtype == array.dtype
    assert made.shape == result.shape
    return result


def image(values: Any, dtype: Any = np.float32) -> np.ndarray:
    return np.array(values, dtype)[None, None]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int8])
def test_nearest_takes_the_first_of_two_that_are_equally_near(context: webnn.MLContext, dtype: Any) -> None:
    values = image(np.arange(24).reshape(4, 6), dtype)
    result = run(context, values, sizes=[2, 3])
    assert np.array_equal(result, values[:, :, [0, 2]][:, :, :, [0, 2, 4]])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int8])
def test_linear_does_not_antialias(context: webnn.MLContext, dtype: Any) -> None:
    result = run(context, image([[0, 10, 20, 30]], dtype), sizes=[1, 2], mode="linear")
    assert result.tolist() == [[[[5, 25]]]]


def test_linear_example_of_the_specification(context: webnn.MLContext) -> None:
    values = image([[0, 1, 2, 3], [0, 1, 2, 3], [12, 13, 14, 15], [12, 13, 14, 15]])
    row = np.array([0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3])
    column = np.array([0, 0, 0, 3, 9, 12, 12, 12])
    assert np.array_equal(run(context, values, scales=[2, 2], mode="linear")[0, 0], column[:, None] + row)


def test_sizes_win_over_scales(context: webnn.MLContext) -> None:
    values = image([[1, 2, 3], [4, 5, 6]])
    result = run(context, values, sizes=[4, 6], scales=[0.5, 0.5])
    assert np.array_equal(result, values.repeat(2, 2).repeat(2, 3))


def test_axes_in_any_order(context: webnn.MLContext) -> None:
    values = np.arange(6, dtype=np.float32).reshape(3, 2, 1, 1)
    result = run(context, values, sizes=[4, 6], axes=[1, 0])
    assert np.array_equal(result, values.repeat(2, 0).repeat(2, 1))
    result = run(context, values, scales=[2, 1], axes=[0, 3])
    assert result.shape == (6, 2, 1, 1)


def test_a_scale_is_a_float32_number(builder: webnn.MLGraphBuilder) -> None:
    """float32(0.7) is less than 0.7 and float32(0.8) is more: floor(10 * 0.7) is 6 as in browsers, floor(5 * 0.8) is 4."""
    made = builder.resample2d(builder.input("x", [1, 1, 10, 5], "float32"), scales=[0.7, 0.8])
    assert made.shape == [1, 1, 6, 4]


def test_integers_round_half_to_even(context: webnn.MLContext) -> None:
    ends = image([[0, 1], [2, 3]], np.uint8)
    assert run(context, ends, sizes=[1, 1], mode="linear").tolist() == [[[[2]]]]  # 1.5
    pairs = [(0, 1, 0), (1, 2, 2), (2, 3, 2), (-1, 0, 0), (-2, -1, -2), (-128, -127, -128), (126, 127, 126), (-128, 127, 0)]
    values = image([[a for pair in pairs for a in pair[:2]]], np.int8)
    assert run(context, values, sizes=[1, len(pairs)], mode="linear").tolist() == [[[[pair[2] for pair in pairs]]]]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_integers_are_exact_where_weights_need_64_bits(context: webnn.MLContext, dtype: Any) -> None:
    height, width = 1499, 1511
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = np.resize(np.array([low, high, 0, 1, low + 1, high - 1, 7], dtype), (1, 1, 5, 6))
    result = run(context, values, sizes=[height, width], mode="linear")
    rows, columns = make_samples(5, height), make_samples(6, width)
    whole = rows.whole * columns.whole
    assert whole > 2**23
    wide = values.astype(np.int64)
    wide = wide[:, :, rows.below] * (rows.whole - rows.part)[:, None] + wide[:, :, rows.above] * rows.part[:, None]
    wide = wide[..., columns.below] * (columns.whole - columns.part) + wide[..., columns.above] * columns.part
    quotient, rest = wide // whole, wide % whole
    assert np.array_equal(result, quotient + ((2 * rest > whole) | ((2 * rest == whole) & (quotient % 2 == 1))))


def test_an_axis_of_the_same_size_is_not_touched(context: webnn.MLContext) -> None:
    values = image([[np.inf, -np.inf], [np.nan, 1]])
    for mode in ("nearest-neighbor", "linear"):
        assert np.array_equal(run(context, values, mode=mode), values, equal_nan=True)


@given(st.integers(1, 50), st.integers(1, 50))
def test_coordinates_are_exact(input: int, output: int) -> None:
    samples = make_samples(input, output)
    for at in range(output):
        wanted = min(max((at + Fraction(1, 2)) * input / output - Fraction(1, 2), Fraction(0)), Fraction(input - 1))
        assert samples.below[at] + Fraction(int(samples.part[at]), samples.whole) == wanted
        assert samples.nearest[at] == -((Fraction(1, 2) - wanted) // 1)
        assert 0 <= samples.nearest[at] < input
        assert 0 <= samples.above[at] < input


@pytest.mark.parametrize(
    ("options", "operand"),
    [
        ({"scales": [1]}, "scales"),
        ({"scales": [1, 0]}, "scales"),
        ({"scales": [1, -2]}, "scales"),
        ({"scales": [1, 1e-50]}, "scales"),
        ({"scales": [1, 1e39]}, "scales"),
        ({"scales": [1, float("nan")]}, "scales"),
        ({"scales": [0.02, 0.8]}, "scales"),
        ({"scales": [2**32 - 1, 1]}, "scales"),
        ({"scales": [0, 1], "sizes": [2, 2]}, "scales"),
        ({"sizes": [2]}, "sizes"),
        ({"sizes": [0, 1]}, "sizes"),
        ({"sizes": [2**31, 1]}, "sizes"),
        ({"sizes": [2**32, 1]}, "sizes"),
        ({"axes": [0, 1, 2]}, "axes"),
        ({"axes": [3, 4]}, "axes"),
        ({"axes": [0, 0]}, "axes"),
        ({"mode": "cubic"}, "mode"),
    ],
    ids=str,
)
def test_mistakes_are_named(builder: webnn.MLGraphBuilder, options: dict[str, Any], operand: str) -> None:
    with pytest.raises(webnn.ArgumentError) as caught:
        builder.resample2d(builder.input("x", [1, 1, 2, 4], "float32"), label="resize", **options)
    assert isinstance(caught.value, TypeError)
    assert (caught.value.operator, caught.value.label) == ("resample2d", "resize")
    assert caught.value.operand.split("[")[0] == operand
    assert "allowed:" in str(caught.value)
