"""Reductions, arg-min/max and running sums: inputs that implementations got wrong, by value, type and shape."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
import pytest
from quick import QUICK

import webnn_xla as webnn
from webnn_xla.lowering import OPS, Target

Array = np.ndarray[Any, Any]

REDUCTIONS = [name for name in OPS if name.startswith("reduce_")]
ALL_TYPES = ["float32", "float16", "int32", "uint32", "int64", "uint64", "int8", "uint8"]
WIDE_TYPES = ALL_TYPES[:-2]
INF, NAN = math.inf, math.nan


def run(context: webnn.MLContext, op: str, input: Any, *arguments: Any, dtype: Any = np.float32, **options: Any) -> Array:
    array = np.asarray(input, dtype)
    builder = webnn.MLGraphBuilder(context)
    made = getattr(builder, op)(builder.input("x", array.shape, array.dtype), *arguments, **options)
    result: Array = builder.build({"y": made}, compiler_options=QUICK).compute({"x": array})["y"]
    assert made.shape == result.shape
    assert result.dtype == (options.get("output_data_type", "int32") if op.startswith("arg_") else array.dtype)
    return result


def same(got: Array, want: Any) -> bool:
    """Equal, NaN to NaN, in value and shape."""
    wanted = np.asarray(want)
    return got.shape == wanted.shape and bool(np.array_equal(got, wanted, equal_nan=got.dtype.kind == "f"))


# Reductions


@pytest.mark.parametrize(
    ("op", "one"),
    [
        ("reduce_l1", lambda x: abs(x)),
        ("reduce_l2", lambda x: abs(x)),
        ("reduce_log_sum", lambda x: math.log(x) if x > 0 else NAN),
        ("reduce_log_sum_exp", lambda x: x),
        ("reduce_max", lambda x: x),
        ("reduce_mean", lambda x: x),
        ("reduce_min", lambda x: x),
        ("reduce_product", lambda x: x),
        ("reduce_sum", lambda x: x),
        ("reduce_sum_square", lambda x: x * x),
    ],
)
def test_no_axes_still_applies_the_function(context: webnn.MLContext, op: str, one: Any) -> None:
    values = [-3.0, 2.0, 4.0, -0.5]
    wanted = np.float32([one(value) for value in values])
    for options in ({"axes": []}, {"axes": [], "keep_dimensions": True}, {"axes": [1]}):
        shape = (4, 1) if options["axes"] else (4,)
        got = run(context, op, np.float32(values).reshape(shape), **options)
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    for value, want in zip(values, wanted, strict=True):
        scalar = run(context, op, value)
        assert scalar.shape == ()
        np.testing.assert_allclose(scalar, want, rtol=1e-6)


def test_sum_square_of_twos_with_no_axes(context: webnn.MLContext) -> None:
    assert same(run(context, "reduce_sum_square", [2, 2, 2, 2], axes=[]), [4, 4, 4, 4])


@pytest.mark.parametrize("op", REDUCTIONS)
def test_shapes(context: webnn.MLContext, op: str) -> None:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [2, 3, 4], "float32")
    reduce = getattr(builder, op)
    assert reduce(x).shape == []
    assert reduce(x, keep_dimensions=True).shape == [1, 1, 1]
    assert reduce(x, axes=[2, 0]).shape == [3]
    assert reduce(x, axes=[2, 0], keep_dimensions=True).shape == [1, 3, 1]
    assert reduce(x, axes=[]).shape == [2, 3, 4]
    assert reduce(builder.input("s", [], "float32"), keep_dimensions=True).shape == []


@pytest.mark.parametrize("axes", [[3], [0, 0], [-1], [2, 1, 2], [2**32], 1, ["0"], [0.5], [True]])
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max"])
def test_wrong_axes(builder: webnn.MLGraphBuilder, op: str, axes: Any) -> None:
    with pytest.raises(webnn.ArgumentError, match=r"\[total\]: axes") as caught:
        getattr(builder, op)(builder.input("x", [2, 3, 4], "float32"), axes=axes, label="total")
    assert caught.value.operator == op


@pytest.mark.parametrize(("op", "kinds"), [("reduce_mean", WIDE_TYPES[2:]), ("reduce_sum", ["int8", "uint8"])])
def test_types_that_are_not_allowed(builder: webnn.MLGraphBuilder, op: str, kinds: list[str]) -> None:
    for kind in kinds:
        with pytest.raises(webnn.ArgumentError, match=kind):
            getattr(builder, op)(builder.input(kind, [2], kind))


def test_log_sum_exp_neither_overflows_nor_invents_nan(context: webnn.MLContext) -> None:
    rows = [
        ([1000, 1000], 1000.6931),
        ([-1000, -1000], -999.3069),
        ([-INF, -INF], -INF),
        ([-INF, 5], 5),
        ([INF, 1], INF),
        ([INF, -INF], INF),
        ([INF, INF], INF),
        ([NAN, 1], NAN),
        ([NAN, INF], NAN),
        ([3e38, 3e38], 3e38),
    ]
    got = run(context, "reduce_log_sum_exp", [row for row, _ in rows], axes=[1])
    np.testing.assert_allclose(got, np.float32([want for _, want in rows]), rtol=1e-6)
    half = run(context, "reduce_log_sum_exp", [[1000, 1000], [-INF, -INF]], axes=[1], dtype=np.float16)
    assert same(half, np.float16([1000.6931, -INF]))


def test_gradient_of_log_sum_exp_is_softmax(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    total = builder.reduce_log_sum_exp(builder.input("x", [3], "float32"))
    function = builder.build({"y": total}).as_function()
    gradient = jax.grad(lambda x: function(x=x)["y"])(np.float32([1000, 1001, -INF]))
    np.testing.assert_allclose(gradient, [0.26894142, 0.73105858, 0], rtol=1e-5)


@pytest.mark.parametrize(
    ("op", "values", "want"),
    [
        ("reduce_l2", [200] * 4, 400),
        ("reduce_sum", [60000, 60000, -60000], 60000),
        ("reduce_mean", [60000] * 4, 60000),
        ("reduce_product", [1000, 1000, 0.01], 10000),
        ("reduce_product", [1e-4, 1e-4, 1e4, 1e4], 1),
        ("reduce_sum", [1] * 5000, 5000),
        ("reduce_l1", [-1] * 5000, 5000),
        ("reduce_mean", [1] * 5000, 1),
        ("reduce_sum_square", [1] * 5000, 5000),
        ("reduce_log_sum", [60000, 60000], math.log(120000)),
    ],
)
def test_float16_is_accumulated_in_float32(context: webnn.MLContext, op: str, values: list[float], want: float) -> None:
    got = run(context, op, values, dtype=np.float16)
    assert abs(float(got) - want) <= abs(want) * 2**-11


def test_norm_of_one_number_is_its_magnitude(context: webnn.MLContext) -> None:
    """Its square would be out of range."""
    assert same(run(context, "reduce_l2", [1e30, -1e-30], axes=[]), np.float32([1e30, 1e-30]))
    assert same(run(context, "reduce_l2", [[-3e38]], axes=[1, 0]), np.float32(3e38))


@pytest.mark.parametrize("kind", WIDE_TYPES[2:])
def test_integers_wrap(context: webnn.MLContext, kind: str) -> None:
    low, high = webnn.MLOperandDataType.of(kind).integer_range
    assert same(run(context, "reduce_sum", [high, 1], dtype=kind), low)
    assert same(run(context, "reduce_sum_square", [high, 2], dtype=kind), 5)
    assert same(run(context, "reduce_product", [high, high], dtype=kind), 1)
    assert same(run(context, "reduce_l1", [low], dtype=kind), low)
    if low:
        assert same(run(context, "reduce_l1", [-5, 7], dtype=kind), 12)


@pytest.mark.parametrize("kind", ALL_TYPES[2:])
def test_extremes_of_integers_are_exact(context: webnn.MLContext, kind: str) -> None:
    low, high = webnn.MLOperandDataType.of(kind).integer_range
    values = [[high - 1, high, low + 1], [low + 1, low, high - 1]]
    assert same(run(context, "reduce_max", values, axes=[1], dtype=kind), [high, high - 1])
    assert same(run(context, "reduce_min", values, axes=[1], dtype=kind), [low + 1, low])
    assert same(run(context, "arg_max", values, 1, dtype=kind), [1, 2])
    assert same(run(context, "arg_min", values, 1, dtype=kind), [2, 1])


def test_integers_beyond_double_precision(context: webnn.MLContext) -> None:
    assert same(run(context, "reduce_sum", [2**53, 1], dtype=np.int64), 2**53 + 1)
    assert same(run(context, "reduce_max", [2**53, 2**53 + 1], dtype=np.int64), 2**53 + 1)
    assert same(run(context, "reduce_max", [2**64 - 2, 2**64 - 1], dtype=np.uint64), np.uint64(2**64 - 1))
    assert same(run(context, "cumulative_sum", [2**53, 1, 1], 0, dtype=np.int64), [2**53, 2**53 + 1, 2**53 + 2])


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_nan_stays(context: webnn.MLContext, op: str, kind: str) -> None:
    values = np.ones((3, 40))
    values[0, 0] = values[1, 39] = values[2, 17] = NAN
    assert np.isnan(run(context, op, values, axes=[1], dtype=kind)).all()
    assert np.isnan(run(context, op, values.T, axes=[0], dtype=kind)).all()


# Positions of extremes


def test_first_of_equal_values(context: webnn.MLContext) -> None:
    assert same(run(context, "arg_min", [0, 1, -5, 3, -5, 4], 0), 2)
    assert same(run(context, "arg_min", [0, 1, -5, 3, -5, 4], 0, select_last_index=True), 4)
    assert same(run(context, "arg_max", [[7, 7], [7, 9]], 0), [0, 1])
    assert same(run(context, "arg_max", [[7, 7], [7, 9]], 0, select_last_index=True), [1, 1])
    # Zeros of both signs are equal.
    assert same(run(context, "arg_max", [[-0.0, 0.0], [0.0, -0.0]], 1), [0, 0])
    assert same(run(context, "arg_min", [[0.0, -0.0], [-0.0, 0.0]], 1), [0, 0])
    assert same(run(context, "arg_max", [-INF, -INF], 0), 0)
    assert same(run(context, "arg_min", [INF, INF], 0, select_last_index=True), 1)


@pytest.mark.parametrize("op", ["arg_min", "arg_max"])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_nan_counts_as_the_extreme(context: webnn.MLContext, op: str, kind: str) -> None:
    values = [INF, 3, NAN, -INF, NAN, 4]
    assert same(run(context, op, values, 0, dtype=kind), 2)
    assert same(run(context, op, values, 0, dtype=kind, select_last_index=True), 4)


def test_position_shapes_and_types(context: webnn.MLContext) -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for kind in ("int32", "int64"):
        assert run(context, "arg_max", values, 1, output_data_type=kind).shape == (2, 4)
        assert run(context, "arg_max", values, 1, output_data_type=kind, keep_dimensions=True).shape == (2, 1, 4)
    assert run(context, "arg_max", [5], 0).shape == ()
    assert run(context, "arg_max", [5], 0, keep_dimensions=True).shape == (1,)


@pytest.mark.parametrize("op", ["arg_min", "arg_max"])
def test_wrong_arguments_of_positions(builder: webnn.MLGraphBuilder, op: str) -> None:
    call, x = getattr(builder, op), builder.input("x", [2, 3], "float32")
    for axis in (2, -1, 2**32, 0.5, None):
        with pytest.raises(webnn.ArgumentError, match="axis"):
            call(x, axis)
    for kind in ("float32", "uint32", "int8", "uint64", "bool", None):
        with pytest.raises(webnn.ArgumentError, match="output_data_type"):
            call(x, 0, output_data_type=kind)
    with pytest.raises(webnn.ArgumentError, match="rank"):
        call(builder.input("s", [], "float32"), 0)
    with pytest.raises(webnn.ArgumentError, match="select_last_index"):
        call(x, 0, select_last_index=1)


# Running sums


@pytest.mark.parametrize("kind", WIDE_TYPES)
def test_running_sums(context: webnn.MLContext, kind: str) -> None:
    def sums(**options: bool) -> Array:
        return run(context, "cumulative_sum", [1, 2, 3, 4], 0, dtype=kind, **options)

    assert same(sums(), [1, 3, 6, 10])
    assert same(sums(exclusive=True), [0, 1, 3, 6])
    assert same(sums(reversed=True), [10, 9, 7, 4])
    assert same(sums(exclusive=True, reversed=True), [9, 7, 4, 0])


def test_running_sums_of_infinities(context: webnn.MLContext) -> None:
    """A sum that leaves out the element does not subtract it."""
    assert same(run(context, "cumulative_sum", [1, INF, 2, -INF, 3], 0, exclusive=True), [0, 1, INF, INF, NAN])
    assert same(run(context, "cumulative_sum", [1, INF, 2], 0, exclusive=True, reversed=True), [INF, 2, 0])
    assert same(run(context, "cumulative_sum", [2.0**30, 1, 1], 0, exclusive=True), [0, 2.0**30, 2.0**30])


@pytest.mark.parametrize("size", [1024, 1025])
def test_long_running_sums(context: webnn.MLContext, size: int) -> None:
    ones = np.ones((2, size), np.float16)
    counts = np.arange(1, size + 1).astype(np.float16)
    assert same(run(context, "cumulative_sum", ones, 1, dtype=np.float16), np.stack([counts, counts]))
    values = np.random.default_rng(size).integers(-(2**62), 2**62, (size, 2))
    backward = np.cumsum(values[::-1], axis=0)[::-1]
    assert same(run(context, "cumulative_sum", values, 0, dtype=np.int64, reversed=True), backward)


def test_lowerings_of_running_sums_agree() -> None:
    """The canonical one, and on CPU the loop and the tree, are three ways to the same numbers."""
    values = [np.arange(size, dtype=np.int32).reshape(shape) % 7 for size, shape in ((42, (3, 7, 2)), (1030, (1, 1030, 1)))]
    options = [(exclusive, backward) for exclusive in (False, True) for backward in (False, True)]

    def sums(platform: str) -> list[jax.Array]:
        lower = OPS["cumulative_sum"].lowering
        return [
            lower(jax.lax.optimization_barrier(x), 1, *option, target=Target(platform)) for x in values for option in options
        ]

    portable, cpu = jax.jit(lambda: (sums("portable"), sums("cpu")))()
    for x, (one, other) in zip(np.repeat([0, 1], 4), zip(portable, cpu, strict=True), strict=True):
        assert one.shape == values[x].shape
        assert same(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("axis", [1, -1, 2**32, None])
def test_wrong_axis_of_running_sums(builder: webnn.MLGraphBuilder, axis: Any) -> None:
    with pytest.raises(webnn.ArgumentError, match=r"cumulative_sum \[sums\]: axis"):
        builder.cumulative_sum(builder.input("x", [3], "float32"), axis, label="sums")
