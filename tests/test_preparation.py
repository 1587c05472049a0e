"""What depends on constants only runs once: at build, or when its weights are loaded."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import webnn_xla as webnn
from webnn_xla.preparation import split


def _graph(context: webnn.MLContext, *, named: bool, size: int = 64) -> tuple[webnn.MLGraph, np.ndarray]:
    builder = webnn.MLGraphBuilder(context)
    weight = np.arange(size * size, dtype=np.float32).reshape(size, size) / size**2
    x = builder.input("x", [size], "float32")
    declared = {"data_type": "float32", "shape": [size, size]}
    w = builder.constant(declared, name="w") if named else builder.constant(weight)
    return builder.build({"y": builder.add(x, builder.exp(builder.neg(w)))}), weight


def test_unnamed_constants_are_computed_at_build(context: webnn.MLContext) -> None:
    graph, weight = _graph(context, named=False)
    assert [node.op.name for node in graph._program.main.nodes] == ["add"]
    assert graph.operation_count == 3
    np.testing.assert_allclose(graph.compute({"x": np.zeros(64, np.float32)})["y"], np.exp(-weight), rtol=1e-6)


def test_named_constants_are_prepared_when_loaded_and_again_when_replaced(context: webnn.MLContext) -> None:
    graph, weight = _graph(context, named=True)
    assert [node.op.name for node in graph._program.main.nodes] == ["add"]
    x = {"x": np.zeros(64, np.float32)}
    with pytest.raises(webnn.InvalidStateError, match="w"):
        graph.compute(x)
    for factor in (1, 2):
        graph.load_weights({"w": weight * factor})
        np.testing.assert_allclose(graph.compute(x)["y"], np.exp(-weight * factor), rtol=1e-6)
        np.testing.assert_array_equal(graph.weights["w"], weight * factor)


def test_small_results_become_literals(context: webnn.MLContext) -> None:
    graph, _ = _graph(context, named=False, size=4)
    assert graph._program.arguments.count == 0


def test_results_that_grow_stay_in_the_program(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [512, 512], "float32")
    grown = builder.expand(builder.constant(np.ones((1, 512), np.float32)), [512, 512])
    parts = split(builder.build({"y": builder.add(x, grown)}).graph)
    assert parts.fixed is None
    assert [node.op.name for node in parts.main.nodes] == ["expand", "add"]


def test_an_output_may_depend_on_constants_only(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    y = builder.exp(builder.constant(np.zeros((3, 2), np.float32)))
    np.testing.assert_array_equal(builder.build({"y": y}).compute({})["y"], np.ones((3, 2), np.float32))


def test_small_weights_travel_as_one_argument(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    y = builder.input("x", [8], "float32")
    data = {f"w{i}": np.full(8, i, np.float32) for i in range(20)}
    for name in data:
        y = builder.add(y, builder.constant({"data_type": "float32", "shape": [8]}, name=name))
    graph = builder.build({"y": y})
    graph.load_weights(data)
    assert graph._program.arguments.count == 1
    np.testing.assert_array_equal(graph.compute({"x": np.ones(8, np.float32)})["y"], np.full(8, 191, np.float32))
    weights = graph.weights
    np.testing.assert_array_equal(weights["w3"], data["w3"])
    gradient = jax.grad(lambda w: graph.as_function(weights=True)(w, {"x": np.ones(8, np.float32)})["y"].sum())(weights)
    np.testing.assert_array_equal(gradient["w3"], np.ones(8, np.float32))
