"""Activations and softmax on inputs that implementations got wrong: value, type and shape."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import webnn_xla as webnn


def run(context: webnn.MLContext, op: str, *operands: Any, **options: Any) -> Any:
    """One op on arrays, which are inputs."""
    builder = webnn.MLGraphBuilder(context)
    inputs = [builder.input(str(index), array.shape, array.dtype) for index, array in enumerate(operands)]
    graph = builder.build({"y": getattr(builder, op)(*inputs, **options)})
    return graph.compute({str(index): array for index, array in enumerate(operands)})["y"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_softmax_of_large_numbers_and_minus_infinity(context: webnn.MLContext, dtype: str) -> None:
    result = run(context, "softmax", np.array([1000, 1001, -np.inf], dtype), axis=0)
    assert result.dtype == dtype
    assert result.shape == (3,)
    np.testing.assert_allclose(
        result.astype(np.float64), [0.26894142, 0.73105858, 0], rtol=1e-3 if dtype == "float16" else 1e-6
    )


def test_softmax_of_many_float16_ones_adds_up_in_float32(context: webnn.MLContext) -> None:
    result = run(context, "softmax", np.ones((1, 5000), np.float16), axis=1)
    assert np.all(result == np.float16(1 / 5000))


@pytest.mark.parametrize(("axis", "rank"), [(1, 1), (2, 2), (4294967295, 3)])
def test_softmax_axis_out_of_range(builder: webnn.MLGraphBuilder, axis: int, rank: int) -> None:
    with pytest.raises(TypeError, match=rf"softmax \[here\]: axis: got {axis}; allowed: 0 to {rank - 1}"):
        builder.softmax(builder.input("x", [2] * rank, "float32"), axis, label="here")


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_relu_of_extreme_integers(context: webnn.MLContext, dtype: str) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    result = run(context, "relu", np.array([low, -1, 0, high - 1, high], dtype))
    assert result.dtype == dtype
    assert result.tolist() == [0, 0, 0, high - 1, high]


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_prelu_of_integers(context: webnn.MLContext, dtype: str) -> None:
    high = np.iinfo(dtype).max
    result = run(context, "prelu", np.array([[-3, high], [2, -1]], dtype), np.array([2, -5], dtype))
    assert result.dtype == dtype
    assert result.tolist() == [[-6, high], [2, 5]]


def test_prelu_broadcasts_both_ways(context: webnn.MLContext) -> None:
    result = run(context, "prelu", np.array([-1, 2, -3], np.float32), np.array([[2], [10]], np.float32))
    assert result.tolist() == [[-2, 2, -6], [-10, 2, -30]]


def test_prelu_rejects_shapes_that_do_not_broadcast(builder: webnn.MLGraphBuilder) -> None:
    x, slope = builder.input("x", [2, 3], "float32"), builder.input("slope", [2], "float32")
    with pytest.raises(TypeError, match=r"prelu: slope: got shape \[2\]"):
        builder.prelu(x, slope)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_slope_that_is_not_used_does_no_harm(context: webnn.MLContext, dtype: str) -> None:
    x = np.array([0, 2, np.inf], dtype)
    for slope in (np.inf, np.nan):
        assert run(context, "prelu", x, np.array([slope], dtype)).tolist() == [0, 2, np.inf]
    assert run(context, "leaky_relu", x, alpha=1e6).tolist() == [0, 2, np.inf]


@pytest.mark.parametrize(
    ("op", "x", "y"),
    [
        (
            "softplus",
            [-100, -20, 0, 100, 3e38, np.inf, -np.inf],
            [3.8e-44, 2.0611537e-9, 0.6931472, 100, 3e38, np.inf, 0],
        ),
        ("elu", [-np.inf, -1e30, -100, -1e-10, 3e38, np.inf], [-1, -1, -1, -1e-10, 3e38, np.inf]),
        ("gelu", [-20, -1, 1e-30, 20, 3e38, np.inf], [0, -0.15865525, 5e-31, 20, 3e38, np.inf]),
        ("sigmoid", [-np.inf, -100, -20, 100, np.inf], [0, 3.783506e-44, 2.0611537e-09, 1, 1]),
        ("tanh", [-np.inf, -1e30, 1e-10, 1e30, np.inf], [-1, -1, 1e-10, 1, 1]),
        ("hard_swish", [-1e38, -3, 3, 3e38, np.inf], [0, 0, 3, 3e38, np.inf]),
        ("softsign", [-3e38, 1e-10, 3e38], [-1, 1e-10, 1]),
    ],
)
def test_large_and_small_numbers(context: webnn.MLContext, op: str, x: list[float], y: list[float]) -> None:
    with np.errstate(over="ignore"):
        result = run(context, op, np.array(x, np.float32))
    np.testing.assert_allclose(result, np.array(y, np.float32), rtol=1e-5, atol=1.2e-38)


def test_gelu_of_negative_numbers_is_within_an_ulp_of_its_operand(context: webnn.MLContext) -> None:
    # The expression has 1 + erf, which cancels where erf is close to -1.
    result = run(context, "gelu", np.array([-3, -5], np.float32))
    assert (np.abs(result - [-0.0040496940, -1.4332579e-06]) < np.spacing(np.float32([3, 5]))).all()


@pytest.mark.parametrize("op", ["elu", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "linear", "relu", "sigmoid"])
def test_nan_stays_nan(context: webnn.MLContext, op: str) -> None:
    assert np.isnan(run(context, op, np.array(np.nan, np.float32)))


@pytest.mark.parametrize("op", ["softplus", "elu", "gelu", "sigmoid", "tanh", "softsign"])
def test_float16_is_rounded_once(context: webnn.MLContext, op: str) -> None:
    x = np.linspace(-12, 12, 2001).astype(np.float16)
    exact = run(context, op, x.astype(np.float32))
    assert np.array_equal(run(context, op, x), exact.astype(np.float16))


def test_linear_in_double_options(context: webnn.MLContext) -> None:
    x = np.array([[1, -2]], np.float32)
    np.testing.assert_allclose(run(context, "linear", x, alpha=0.1, beta=-1e-3), [[0.099, -0.201]], rtol=1e-6)
    assert run(context, "linear", x).tolist() == x.tolist()
    # An option beyond the type's range is cast to it.
    assert run(context, "linear", x.astype(np.float16), alpha=1e6).tolist() == [[np.inf, -np.inf]]


@pytest.mark.parametrize("value", [np.nan, np.inf, "1", None])
def test_options_are_finite_numbers(builder: webnn.MLGraphBuilder, value: Any) -> None:
    with pytest.raises(TypeError, match="linear: alpha"):
        builder.linear(builder.input("x", [1], "float32"), alpha=value)


@pytest.mark.parametrize("op", ["elu", "gelu", "softplus", "softmax"])
def test_gradients_are_finite(context: webnn.MLContext, op: str) -> None:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [4], "float32")
    made = builder.softmax(x, 0) if op == "softmax" else getattr(builder, op)(x)
    function = builder.build({"y": made}).as_function()
    gradient = jax.grad(lambda value: function(x=value)["y"][0])(np.array([200, -200, 0, 1], np.float32))
    assert np.isfinite(gradient).all()
