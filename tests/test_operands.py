"""Operands: Python's operators, how they are described, misused methods; and the names of ops both ways."""

from __future__ import annotations

import numpy as np
import pytest
from imperative import FLOATS

import webnn_xla as webnn
from webnn_xla.lowering import OPS
from webnn_xla.naming import to_camel, to_snake

# Operators of Python


def test_operators(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    a, b = builder.input("a", [2, 2], "float32"), builder.input("b", [2, 2], "float32")
    made = {
        "add": a + b, "sub": a - b, "mul": a * b, "div": a / b, "pow": a**b, "matmul": a @ b, "neg": -a,
        "add1": a + 1, "radd": 1 + a, "sub1": a - 1.5, "rsub": 1.5 - a, "mul2": a * np.float32(2), "rmul": np.float64(2) * a,
        "div2": a / 2, "rdiv": np.int64(2) / a, "pow2": a**2, "rpow": 2**a,
    }  # fmt: skip
    x, y = np.float32([[1, 2], [3, 4]]), np.float32([[2, 0.5], [1, 3]])
    wanted = {
        "add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "pow": x**y, "matmul": x @ y, "neg": -x,
        "add1": x + 1, "radd": 1 + x, "sub1": x - 1.5, "rsub": 1.5 - x, "mul2": x * 2, "rmul": 2 * x,
        "div2": x / 2, "rdiv": 2 / x, "pow2": x**2, "rpow": 2**x,
    }  # fmt: skip
    results = builder.build(made).compute({"a": x, "b": y})
    for name, want in wanted.items():
        np.testing.assert_allclose(results[name], want, rtol=1e-6, err_msg=name)
        assert results[name].dtype == np.float32


def test_operators_of_integers_are_exact(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [1], "int64")
    assert builder.build({"y": x + (2**53 + 1)}).compute({"x": [0]})["y"].tolist() == [2**53 + 1]


def test_operators_refuse_what_does_not_fit(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", [2], "int32")
    for attempt in (lambda: x * 1.5, lambda: x + 2**31, lambda: 0.5 - x, lambda: x + float("nan")):
        with pytest.raises(webnn.ArgumentError, match="int32"):
            attempt()
    assert (x * 2.0).data_type == "int32"
    for attempt in (
        lambda: x + "1",
        lambda: np.ones(2) * x,
        lambda: {} - x,
        lambda: x @ 2,
        lambda: x + None,
        lambda: x * True,
    ):
        with pytest.raises(TypeError):
            attempt()


def test_operands_are_described(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", [2, 3], "float32")
    assert (x.data_type, x.shape, x.rank, x.name) == (webnn.MLOperandDataType.FLOAT32, [2, 3], 2, "x")
    assert repr(x) == "<MLOperand float32[2, 3] of input 'x'>"
    assert repr(builder.exp(x, label="e")) == "<MLOperand float32[2, 3] of exp [e]>"
    assert repr(builder.constant("int8", 1)) == "<MLOperand int8[] of constant>"
    assert repr(builder) == "<MLGraphBuilder open, 1 inputs, 1 ops>"
    with pytest.raises(AttributeError):
        x.shape = [1]  # type: ignore[misc, assignment]


def test_misused_methods_show_the_signature(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", FLOATS)
    for attempt, got in (
        (lambda: builder.softmax(x), "got no axis"),
        (lambda: builder.softmax(x, 0, 1), "got 3 positional arguments"),
        (lambda: builder.softmax(x, 0, axes=[1]), "got an unknown argument 'axes'"),
        (lambda: builder.softmax(x, 0, axis=0), "got 'axis' twice"),
    ):
        with pytest.raises(webnn.ArgumentError, match=got) as caught:
            attempt()
        assert "allowed: softmax(input, axis, *, label='')" in str(caught.value)


# Names


def test_names_convert_both_ways() -> None:
    names = {name for op in OPS.values() for name in (op.name, *op.arguments, *op.outputs)}
    assert len(names) > 100
    for name in names:
        assert to_snake(to_camel(name)) == name
    camel = [to_camel(name) for name in names]
    assert len(set(camel)) == len(names)
    for name in camel:
        assert to_camel(to_snake(name)) == name
        assert "_" not in name
        assert name[0].islower()


@pytest.mark.parametrize(
    ("snake", "camel"),
    [
        ("gather_nd", "gatherND"), ("scatter_nd", "scatterND"), ("is_nan", "isNaN"), ("reduce_l1", "reduceL1"),
        ("l2_pool2d", "l2Pool2d"), ("conv_transpose2d", "convTranspose2d"), ("average_pool2d", "averagePool2d"),
        ("reduce_log_sum_exp", "reduceLogSumExp"), ("a_transpose", "aTranspose"), ("data_type", "dataType"), ("add", "add"),
        ("op_support_limits", "opSupportLimits"), ("output0", "output0"),
    ],
)  # fmt: skip
def test_names(snake: str, camel: str) -> None:
    assert (to_camel(snake), to_snake(camel)) == (camel, snake)
