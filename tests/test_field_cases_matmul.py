"""Matrix products: inputs that implementations got wrong, by value, type and shape."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webnn_xla as webnn

Array = np.ndarray[Any, Any]


def made(context: webnn.MLContext, op: str, **arguments: Any) -> tuple[Any, dict[str, Array]]:
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    builder = webnn.MLGraphBuilder(context)
    operands = {name: builder.input(name, array.shape, array.dtype) for name, array in arrays.items()}
    return builder.build({"y": getattr(builder, op)(**{**arguments, **operands})}), arrays


def run(context: webnn.MLContext, op: str, **arguments: Any) -> Array:
    graph, arrays = made(context, op, **arguments)
    result: Array = graph.compute(arrays)["y"]
    assert result.dtype == arrays["a"].dtype
    return result


def f32(*values: Any) -> Array:
    return np.array(values, np.float32)


def f16(*values: Any) -> Array:
    return np.array(values, np.float16)


# matmul


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_leading_dimensions_broadcast_like_numpy(context: webnn.MLContext, data: st.DataObject) -> None:
    batch = data.draw(st.lists(st.integers(1, 3), max_size=6))
    sides = []
    for _ in range(2):
        own = [1 if data.draw(st.booleans()) else size for size in batch]
        sides.append(own[data.draw(st.integers(0, len(own))) :])
    rows, inner, columns = (data.draw(st.integers(1, 4)) for _ in range(3))
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, (*sides[0], rows, inner)).astype(np.float32)
    b = rng.integers(-9, 9, (*sides[1], inner, columns)).astype(np.float32)
    got = run(context, "matmul", a=a, b=b)
    wanted = np.matmul(a, b)
    assert got.shape == wanted.shape
    assert np.array_equal(got, wanted)


def test_float16_products_are_summed_in_float32(context: webnn.MLContext) -> None:
    assert run(context, "matmul", a=np.ones((1, 5000), np.float16), b=np.ones((5000, 1), np.float16)).tolist() == [[5000]]
    assert run(context, "matmul", a=f16([300, 300]), b=f16([300], [-300])).tolist() == [[0]]
    # Rounded once: 2049 + 1 is 2050, but 2049 alone rounds to 2048 in float16.
    assert run(context, "gemm", a=f16([2048, 1]), b=f16([1], [1]), c=f16(1)).tolist() == [[2050]]


def test_float32_is_not_multiplied_in_less(context: webnn.MLContext) -> None:
    """A tf32 or bfloat16 unit would drop the low bits."""
    assert run(context, "matmul", a=f32([1 + 2**-20, 1]), b=f32([1], [-1])).tolist() == [[2**-20]]
    graph, _ = made(context, "matmul", a=f32([1]), b=f32([1]))
    assert "precision = [HIGHEST, HIGHEST]" in graph.stablehlo()


def test_relaxed_precision_is_asked_for() -> None:
    with webnn.ML().create_context(device_type="cpu", precision="default") as relaxed:
        for op in ("matmul", "gemm"):
            assert "HIGHEST" not in made(relaxed, op, a=f32([1]), b=f32([1]))[0].stablehlo()


def test_nan_and_infinities(context: webnn.MLContext) -> None:
    got = run(context, "matmul", a=f32([math.inf, 1], [math.nan, 1], [0, 1]), b=f32([1, 0], [1, 1]))
    assert np.array_equal(got, f32([math.inf, math.nan], [math.nan, math.nan], [1, 1]), equal_nan=True)


def test_one_matrix_for_many_is_not_repeated(context: webnn.MLContext) -> None:
    for b in ((4, 5), (1, 4, 5), (1, 1, 4, 5)):
        graph, _ = made(context, "matmul", a=np.ones((2, 3, 4), np.float32), b=np.ones(b, np.float32))
        assert "broadcast" not in graph.stablehlo()


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ([2, 3], [2, 3], "got 2 rows in shape [2, 3]; allowed: 3, the columns of a"),
        ([2, 2, 3], [3, 3, 4], "leading dimensions that broadcast with [2]"),
        ([3], [3, 4], "rank 2 or more"),
        ([3, 4], [4], "rank 2 or more"),
        ([], [4, 4], "rank 2 or more"),
    ],
)
def test_shapes_that_do_not_fit(builder: webnn.MLGraphBuilder, a: list[int], b: list[int], text: str) -> None:
    with pytest.raises(webnn.ArgumentError, match=re.escape(text)) as caught:
        builder.matmul(builder.input("a", a, "float32"), builder.input("b", b, "float32"), label="here")
    assert caught.value.operator == "matmul"
    assert caught.value.label == "here"


@pytest.mark.parametrize(("a", "b"), [("int32", "int32"), ("float32", "float16"), ("int8", "int8"), ("float16", "float32")])
def test_types_that_are_not_allowed(builder: webnn.MLGraphBuilder, a: str, b: str) -> None:
    for op in (builder.matmul, builder.gemm):
        with pytest.raises(webnn.ArgumentError, match="allowed"):
            op(builder.input(f"a{op.__name__}", [2, 2], a), builder.input(f"b{op.__name__}", [2, 2], b))


# gemm


def test_transposes(context: webnn.MLContext) -> None:
    a, b = f32([1, 2, 3], [4, 5, 6]), f32([1, 0], [0, 2], [3, 0])
    wanted = a @ b
    assert np.array_equal(run(context, "gemm", a=a, b=b), wanted)
    assert np.array_equal(run(context, "gemm", a=a.T.copy(), b=b, a_transpose=True), wanted)
    assert np.array_equal(run(context, "gemm", a=a, b=b.T.copy(), b_transpose=True), wanted)
    assert np.array_equal(run(context, "gemm", a=a.T.copy(), b=b.T.copy(), a_transpose=True, b_transpose=True), wanted)


def test_addend_broadcasts(context: webnn.MLContext) -> None:
    a, b = f32([1], [2]), f32([1, 10])
    for c in (f32(1, 2).sum(), f32(3), f32(1, 2), f32([1], [2]), f32([1, 2]), f32([1, 2], [3, 4])):
        c = np.asarray(c)
        assert np.array_equal(run(context, "gemm", a=a, b=b, c=c, alpha=2.0, beta=-3.0), 2 * (a @ b) - 3 * c)


def test_factors_are_cast_to_the_data_type(context: webnn.MLContext) -> None:
    """0.1 is 0.0999755859375 in float16."""
    assert run(context, "gemm", a=f16([60000]), b=f16([1]), c=f16(-6000), alpha=0.1).tolist() == [[-1.46484375]]
    assert run(context, "gemm", a=f16([0]), b=f16([1]), c=f16(8), beta=1e-9).tolist() == [[0]]
    assert run(context, "gemm", a=f16([1]), b=f16([1]), alpha=1e6).tolist() == [[math.inf]]
    assert run(context, "gemm", a=f32([1]), b=f32([1]), alpha=1e300).tolist() == [[math.inf]]
    # The product is scaled before it is rounded.
    assert run(context, "gemm", a=f16([300]), b=f16([300]), alpha=0.5).tolist() == f16([45000]).tolist()


def test_factor_of_zero_multiplies(context: webnn.MLContext) -> None:
    nan = run(context, "gemm", a=f32([1]), b=f32([1]), c=f32(math.inf), beta=0.0)
    assert np.isnan(nan).all()
    assert run(context, "gemm", a=f32([1]), b=f32([1]), c=f32(5), alpha=0.0).tolist() == [[5]]


@pytest.mark.parametrize("factor", [math.nan, math.inf, "1", None, 10**400])
def test_factors_are_finite(builder: webnn.MLGraphBuilder, factor: Any) -> None:
    a = builder.input("a", [2, 2], "float32")
    for name in ("alpha", "beta"):
        with pytest.raises(webnn.ArgumentError, match=name):
            builder.gemm(a, a, **{name: factor})


@pytest.mark.parametrize(
    ("a", "b", "c", "options", "text"),
    [
        ([2, 3], [4, 5], None, {}, "got 4 rows in shape [4, 5]; allowed: 3, the columns of a"),
        ([2, 3], [3, 5], None, {"a_transpose": True}, "allowed: 2, the rows of a"),
        ([2, 3], [3, 5], None, {"b_transpose": True}, "got 5 columns in shape [3, 5]"),
        ([2, 3], [3, 5], [2], {}, "a shape that broadcasts to [2, 5]"),
        ([2, 3], [3, 5], [3, 5], {}, "a shape that broadcasts to [2, 5]"),
        ([1, 3], [3, 1], [2, 2], {}, "a shape that broadcasts to [1, 1]"),
        ([2, 3], [3, 5], [1, 2, 5], {}, "rank 0 to 2"),
        ([2, 3, 1], [3, 5], None, {}, "rank 2"),
        ([2, 3], [3], None, {}, "rank 2"),
    ],
)
def test_operands_that_do_not_fit(
    builder: webnn.MLGraphBuilder, a: list[int], b: list[int], c: list[int] | None, options: dict[str, Any], text: str
) -> None:
    extra = {} if c is None else {"c": builder.input("c", c, "float32")}
    with pytest.raises(webnn.ArgumentError, match=re.escape(text)):
        builder.gemm(builder.input("a", a, "float32"), builder.input("b", b, "float32"), **extra, **options)
