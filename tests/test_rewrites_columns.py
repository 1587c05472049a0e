"""Weights with more columns: where it happens, where it must not, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rewriting import Comparison, assert_not_fired, random

import webnn_xla as webnn
from webnn_xla.export import read_portable

RULE = "widen_columns"


def product(
    b: Any, *, rows: tuple[int, ...] = (16,), columns: int = 512, data_type: str = "float32", name: str = "", depth: int = 3
) -> dict[str, Any]:
    weights = b.constant(random(depth, columns, data_type=data_type), **({"name": name} if name else {}))
    return {"y": b.matmul(b.input("x", [*rows, depth], data_type), weights)}


@pytest.mark.parametrize("rows", [(16,), (2, 8), (1, 4, 5)])
@pytest.mark.parametrize("columns", [512, 1536])
def test_products(context: webnn.MLContext, rows: tuple[int, ...], columns: int) -> None:
    c = Comparison(context, lambda b: product(b, rows=rows, columns=columns), RULE)
    assert c.ops == ["matmul", "slice"]
    c.check()


def test_named_weights(context: webnn.MLContext) -> None:
    c = Comparison(context, lambda b: product(b, name="w"), RULE)
    assert c.ops == ["matmul", "slice"]
    c.check()


def test_infinite_inputs(context: webnn.MLContext) -> None:
    """The columns of zeros make NaN of them, and are cut off."""
    x = random(16, 3)
    x[0, 0], x[1, 1] = np.inf, np.nan
    Comparison(context, product, RULE).check({"x": x})


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": (15,)},
        {"rows": (3, 5)},
        {"columns": 500},
        {"columns": 256},
        {"data_type": "float16"},
        {"depth": 8192},
    ],
)
def test_other_products_stay(context: webnn.MLContext, changed: dict[str, Any]) -> None:
    assert_not_fired(context, lambda b: product(b, **changed), RULE)


def test_weights_that_are_inputs_or_transposed_stay(context: webnn.MLContext) -> None:
    def given(b: Any) -> dict[str, Any]:
        return {"y": b.matmul(b.input("x", [16, 3], "float32"), b.input("w", [3, 512], "float32"))}

    def transposed(b: Any) -> dict[str, Any]:
        return {"y": b.matmul(b.input("x", [16, 3], "float32"), b.transpose(b.constant(random(512, 3))))}

    def batched(b: Any) -> dict[str, Any]:
        return {"y": b.matmul(b.input("x", [2, 16, 3], "float32"), b.constant(random(2, 3, 512)))}

    for make in (given, transposed, batched):
        assert_not_fired(context, make, RULE)


def test_not_for_portable_graphs(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    graph = builder.build(product(builder))
    assert "528" in graph.stablehlo()
    assert "528" not in read_portable(graph.stablehlo("portable"))


def convolution(
    b: Any, *, out: int = 512, layout: str = "nhwc", filter_layout: str = "hwio", groups: int = 1, bias: bool = True
) -> dict[str, Any]:
    sizes = {"h": 3, "w": 3, "i": 6 // groups, "o": out, "n": 1, "c": 6}
    image = {**sizes, "h": 6, "w": 7}
    return {
        "y": b.conv2d(
            b.input("x", [image[letter] for letter in layout], "float32"),
            b.constant(random(*(sizes[letter] for letter in filter_layout))),
            bias=b.constant(random(out)) if bias else None,
            groups=groups, input_layout=layout, filter_layout=filter_layout,
        )
    }  # fmt: skip


@pytest.mark.parametrize("bias", [False, True])
def test_convolutions(context: webnn.MLContext, bias: bool) -> None:
    c = Comparison(context, lambda b: convolution(b, bias=bias), RULE)
    assert c.ops == ["conv2d", "slice", *(["add"] if bias else [])]
    c.check()


@pytest.mark.parametrize("changed", [{"out": 256}, {"layout": "nchw"}, {"filter_layout": "ohwi"}, {"groups": 2}])
def test_other_convolutions_stay(context: webnn.MLContext, changed: dict[str, Any]) -> None:
    assert_not_fired(context, lambda b: convolution(b, **changed), RULE)


def test_after_the_layout(context: webnn.MLContext) -> None:
    c = Comparison(context, lambda b: convolution(b, layout="nchw", filter_layout="oihw"), "channels_last", RULE)
    assert c.fired.count(RULE) == 1
    c.check()
