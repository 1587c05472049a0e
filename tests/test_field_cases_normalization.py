"""Normalization on inputs that implementations got wrong: value, type and shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webnn_xla as webnn
from webnn_xla import normalizations


def run(context: webnn.MLContext, op: Any, input: Any, **arguments: Any) -> Any:
    """An op by name, or a function of ``normalizations``, on arrays, which are inputs."""
    builder = webnn.MLGraphBuilder(context)
    arrays = {"input": np.asarray(input)} | {key: value for key, value in arguments.items() if isinstance(value, np.ndarray)}
    operands = {key: builder.input(key, array.shape, array.dtype) for key, array in arrays.items()}
    options = {key: value for key, value in arguments.items() if key not in arrays}
    made = getattr(builder, op)(**operands, **options) if isinstance(op, str) else op(builder, **operands, **options)
    result = builder.build({"y": made}).compute(arrays)["y"]
    assert result.dtype == arrays["input"].dtype
    assert result.shape == arrays["input"].shape
    return result


def normalized(x: Any, axes: tuple[int, ...], epsilon: float = 1e-5) -> Any:
    wide = np.asarray(x, np.float64)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + epsilon)


def ramp(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(len(shape)).uniform(-4, 4, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(), (5,)])
def test_layer_normalization_over_no_axes_by_default(context: webnn.MLContext, dtype: str, shape: tuple[int, ...]) -> None:
    x = np.full(shape, 3, dtype)
    assert run(context, "layer_normalization", x).tolist() == np.zeros(shape).tolist()
    bias = np.array(2, dtype)
    assert run(context, "layer_normalization", x, bias=bias).tolist() == np.full(shape, 2).tolist()
    assert run(context, "layer_normalization", x, bias=bias, scale=bias, epsilon=0.0).tolist() == np.full(shape, 2).tolist()


def test_layer_normalization_over_no_axes_given(context: webnn.MLContext) -> None:
    x = np.array([[1, np.inf], [1e38, -5]], np.float32)
    assert run(context, "layer_normalization", x, axes=[]).tolist() == [[0, 0], [0, 0]]
    assert run(context, "layer_normalization", x, axes=[], bias=np.float32([7])[0:1].reshape(())).tolist() == [[7, 7], [7, 7]]


@pytest.mark.parametrize("axes", [[1, 2], [2, 1], [0, 2], [2, 0, 1], [1]])
def test_order_of_axes_is_that_of_scale_and_bias(context: webnn.MLContext, axes: list[int]) -> None:
    x = ramp(2, 3, 4)
    shape = [x.shape[axis] for axis in axes]
    scale, bias = ramp(*shape), ramp(*shape) + 1
    result = run(context, "layer_normalization", x, scale=scale, bias=bias, axes=axes)
    letters = "".join("abc"[axis] for axis in axes)
    wanted = np.einsum(f"abc,{letters}->abc", normalized(x, tuple(axes)), scale)
    wanted += np.einsum(f"abc,{letters}->abc", np.ones(x.shape), bias)
    np.testing.assert_allclose(result, wanted, atol=2e-6)


def test_square_shapes_do_not_hide_the_order_of_axes(context: webnn.MLContext) -> None:
    x, scale = ramp(2, 3, 3), ramp(3, 3)
    result = run(context, "layer_normalization", x, scale=scale, axes=[2, 1])
    np.testing.assert_allclose(result, normalized(x, (1, 2)) * scale.T, atol=2e-6)


@pytest.mark.parametrize("axes", [[1], [0], [0, 1]])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_equal_elements_give_0(context: webnn.MLContext, axes: list[int], dtype: str) -> None:
    x = np.full((7, 300), 1001.5, dtype)
    np.testing.assert_allclose(run(context, "layer_normalization", x, axes=axes), 0, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 3), (4, 384), (4, 5000)])
def test_a_large_mean_costs_no_digits(context: webnn.MLContext, shape: tuple[int, int]) -> None:
    x = ramp(*shape) + np.float32(10000)
    np.testing.assert_allclose(run(context, "layer_normalization", x), normalized(x, (1,)), atol=2e-6)
    np.testing.assert_allclose(run(context, "layer_normalization", x, axes=[0]), normalized(x, (0,)), atol=2e-6)


def test_float16_sums_do_not_overflow(context: webnn.MLContext) -> None:
    x = np.array([[40000, -40000] * 500], np.float16)
    assert run(context, "layer_normalization", x).tolist() == [[1, -1] * 500]
    image = x.reshape(1, 1, 20, 50)
    assert run(context, "instance_normalization", image).reshape(-1).tolist() == [1, -1] * 500


def test_epsilon_is_cast_to_the_data_type(context: webnn.MLContext) -> None:
    # 1e-8 is 0 in float16, and the deviation is 2**-12.
    x = np.array([[2.0**-12, -(2.0**-12)]], np.float16)
    assert run(context, "layer_normalization", x, epsilon=1e-8).tolist() == [[1, -1]]


def test_batch_normalization_of_a_vector(context: webnn.MLContext) -> None:
    x, mean, variance = np.arange(6, dtype=np.float32), np.ones(6, np.float32), np.full(6, 4, np.float32)
    result = run(context, "batch_normalization", x, mean=mean, variance=variance, axis=0, epsilon=0.0)
    assert result.tolist() == [-0.5, 0, 0.5, 1, 1.5, 2]


def test_batch_normalization_axis_default_needs_rank_2(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", [6], "float32")
    with pytest.raises(TypeError, match="batch_normalization: axis: got 1; allowed: 0 to 0"):
        builder.batch_normalization(x, x, x)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_batch_normalization_along_each_axis(context: webnn.MLContext, axis: int) -> None:
    x = ramp(3, 3, 3)
    mean, variance, scale, bias = (np.float32([a, a + 1, a + 3]) for a in (0, 1, 2, 3))
    result = run(context, "batch_normalization", x, mean=mean, variance=variance, scale=scale, bias=bias, axis=axis)
    moved = np.moveaxis(x.astype(np.float64), axis, -1)
    wanted = np.moveaxis((moved - mean) / np.sqrt(variance + 1e-5) * scale + bias, -1, axis)
    np.testing.assert_allclose(result, wanted, atol=2e-6)


def test_instance_normalization_layouts_agree(context: webnn.MLContext) -> None:
    x, scale, bias = ramp(2, 3, 4, 5), ramp(3), ramp(3) + 1
    first = run(context, "instance_normalization", x, scale=scale, bias=bias)
    last = run(context, "instance_normalization", x.transpose(0, 2, 3, 1), scale=scale, bias=bias, layout="nhwc")
    np.testing.assert_allclose(last.transpose(0, 3, 1, 2), first, atol=1e-6)
    wanted = normalized(x, (2, 3)) * scale[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(first, wanted, atol=2e-6)


@pytest.mark.parametrize(
    ("op", "arguments", "operand"),
    [
        ("layer_normalization", {"axes": [1, 1]}, "axes"),
        ("layer_normalization", {"axes": [4]}, "axes"),
        ("layer_normalization", {"axes": [3, 1], "scale": (3, 5)}, "scale"),
        ("layer_normalization", {"scale": (4, 5)}, "scale"),
        ("layer_normalization", {"bias": (1, 4, 5)}, "bias"),
        ("instance_normalization", {"scale": (2,)}, "scale"),
        ("instance_normalization", {"bias": (3,), "layout": "nhwc"}, "bias"),
        ("instance_normalization", {"layout": "chwn"}, "layout"),
        ("batch_normalization", {"mean": (3,), "variance": (2,)}, "variance"),
        ("batch_normalization", {"mean": (5,), "variance": (5,), "axis": 4}, "axis"),
        ("batch_normalization", {"mean": (3,), "variance": (3,), "bias": (1,)}, "bias"),
        ("mean_variance_normalization", {"mean": (2, 1)}, "mean"),
        ("mean_variance_normalization", {"axes": [0, 4]}, "axes"),
    ],
)
def test_rejected(builder: webnn.MLGraphBuilder, op: str, arguments: dict[str, Any], operand: str) -> None:
    given = {
        name: builder.input(name, value, "float32") if isinstance(value, tuple) else value for name, value in arguments.items()
    }
    with pytest.raises(webnn.ArgumentError) as caught:
        getattr(builder, op)(builder.input("x", [2, 3, 4, 5], "float32"), **given, label="here")
    assert (caught.value.operator, caught.value.operand, caught.value.label) == (op, operand, "here")


# mean_variance_normalization and what it stands for


def test_mean_variance_normalization_by_default_over_all(context: webnn.MLContext) -> None:
    x = ramp(2, 3, 4)
    np.testing.assert_allclose(run(context, "mean_variance_normalization", x), normalized(x, (0, 1, 2)), atol=2e-6)


def test_variance_is_around_the_given_mean(context: webnn.MLContext) -> None:
    x, mean = np.array([[1, 3]], np.float32), np.zeros((1, 1), np.float32)
    result = run(context, "mean_variance_normalization", x, mean=mean, axes=[1], epsilon=0.0)
    np.testing.assert_allclose(result, x / np.sqrt(5), rtol=1e-6)


def test_they_are_all_mean_variance_normalization(context: webnn.MLContext) -> None:
    x, vector, features = ramp(2, 4, 3, 5), ramp(4), ramp(4, 3, 5)
    layer = {"scale": features, "bias": features + 1}
    np.testing.assert_allclose(
        run(context, normalizations.layer_normalization, x, **layer), run(context, "layer_normalization", x, **layer), atol=1e-6
    )
    channel = {"scale": vector, "bias": vector + 1}
    np.testing.assert_allclose(
        run(context, normalizations.instance_normalization, x, **channel),
        run(context, "instance_normalization", x, **channel),
        atol=1e-6,
    )
    moments = {"mean": vector, "variance": vector**2}
    np.testing.assert_allclose(
        run(context, normalizations.batch_normalization, x, **moments, **channel),
        run(context, "batch_normalization", x, **moments, **channel),
        atol=2e-5,
    )
    own = run(context, normalizations.batch_normalization, x)
    np.testing.assert_allclose(own, normalized(x, (0, 2, 3)), atol=2e-6)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_normalization(context: webnn.MLContext, groups: int) -> None:
    x, scale, bias = ramp(2, 4, 3, 5), ramp(4), ramp(groups)
    result = run(context, normalizations.group_normalization, x, scale=scale, bias=bias, groups=groups)
    grouped = normalized(x.reshape(2, groups, -1), (2,)).reshape(x.shape)
    wanted = grouped * scale[:, None, None] + np.repeat(bias, 4 // groups)[:, None, None]
    np.testing.assert_allclose(result, wanted, atol=2e-6)


def test_wrong_groups_and_shapes(builder: webnn.MLGraphBuilder) -> None:
    x, scale = builder.input("x", [2, 4, 3], "float32"), builder.input("scale", [3], "float32")
    with pytest.raises(webnn.ArgumentError, match=r"group_normalization: groups: got 3"):
        normalizations.group_normalization(builder, x, groups=3)
    for function in (normalizations.instance_normalization, normalizations.layer_normalization):
        with pytest.raises(webnn.ArgumentError, match=r"scale: got shape \[3\]"):
            function(builder, x, scale)
    with pytest.raises(webnn.ArgumentError, match="axis: got 3"):
        normalizations.batch_normalization(builder, x, feature_axis=3)
