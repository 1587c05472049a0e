"""Field cases of conversion, limiting and selection: what implementations got wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webnn_xla as webnn


def run(builder: webnn.MLGraphBuilder, made: webnn.MLOperand, **inputs: Any) -> np.ndarray[Any, Any]:
    return builder.build({"y": made}).compute(inputs)["y"]


def test_cast_to_unsigned_saturates(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", [5], "float32")
    values = np.array([-1.23, 300, np.nan, 255.9, -np.inf], np.float32)
    result = run(builder, builder.cast(x, "uint8"), x=values)
    assert result.dtype == np.uint8
    assert result.tolist() == [0, 255, 0, 255, 0]


@pytest.mark.parametrize(("data_type", "low", "high"), [("int64", -(2**63), 2**63 - 1), ("uint64", 0, 2**64 - 1)])
def test_cast_of_floats_out_of_range_of_64_bits(builder: webnn.MLGraphBuilder, data_type: str, low: int, high: int) -> None:
    x = builder.input("x", [4], "float32")
    result = run(builder, builder.cast(x, data_type), x=np.array([-np.inf, -1e30, 1e30, np.inf], np.float32))
    assert result.tolist() == [low, low, high, high]


def test_integer_division_does_not_trap(builder: webnn.MLGraphBuilder) -> None:
    a, b = builder.input("a", [4], "int32"), builder.input("b", [4], "int32")
    least = -(2**31)
    result = run(builder, builder.div(a, b), a=np.array([least, 5, -7, 7], np.int32), b=np.array([-1, 0, 2, -2], np.int32))
    assert result.tolist() == [least, -1, -3, -3]


def test_unsigned_division_by_zero(builder: webnn.MLGraphBuilder) -> None:
    a, b = builder.input("a", [2], "uint64"), builder.input("b", [2], "uint64")
    result = run(builder, builder.div(a, b), a=np.array([5, 9], np.uint64), b=np.array([0, 2], np.uint64))
    assert result.tolist() == [2**64 - 1, 4]


def test_clamp_of_uint64_is_exact(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", [3], "uint64")
    made = builder.clamp(x, min_value=2**53 + 1, max_value=2**64 - 2)
    result = run(builder, made, x=np.array([0, 2**60 + 1, 2**64 - 1], np.uint64))
    assert result.tolist() == [2**53 + 1, 2**60 + 1, 2**64 - 2]


@pytest.mark.parametrize("bound", ["min_value", "max_value"])
@pytest.mark.parametrize("data_type", ["float32", "int32"])
def test_clamp_rejects_a_bound_that_is_nan(builder: webnn.MLGraphBuilder, bound: str, data_type: str) -> None:
    x = builder.input("x", [3], data_type)
    with pytest.raises(webnn.ArgumentError, match=rf"clamp \[limit\]: {bound}: got nan") as caught:
        builder.clamp(x, label="limit", **{bound: float("nan")})
    assert (caught.value.operator, caught.value.operand, caught.value.label) == ("clamp", bound, "limit")


def test_clamp_takes_infinite_bounds(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", [2], "int8")
    result = run(builder, builder.clamp(x, min_value=-np.inf, max_value=np.inf), x=np.array([-128, 127], np.int8))
    assert result.tolist() == [-128, 127]


def test_any_value_but_zero_is_true(builder: webnn.MLGraphBuilder) -> None:
    condition = builder.input("c", [3], "uint8")
    yes, no = builder.constant("float32", 1), builder.constant("float32", -1)
    assert run(builder, builder.where(condition, yes, no), c=np.array([0, 1, 2], np.uint8)).tolist() == [-1, 1, 1]


def test_logical_and_of_two_and_one(builder: webnn.MLGraphBuilder) -> None:
    a, b = builder.input("a", [3], "uint8"), builder.input("b", [3], "uint8")
    result = run(builder, builder.logical_and(a, b), a=np.array([2, 2, 0], np.uint8), b=np.array([1, 0, 1], np.uint8))
    assert result.dtype == np.uint8
    assert result.tolist() == [1, 0, 0]


def test_int64_input_is_exact(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", [], "int64")
    result = run(builder, builder.add(x, builder.constant("int64", 1)), x=np.array(2**53, np.int64))
    assert result.shape == ()
    assert int(result) == 2**53 + 1
