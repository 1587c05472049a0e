"""What depends on constants only runs once: at build, or when its weights are loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import webnn_xla as webnn
from webnn_xla import host
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


ON_THE_HOST: dict[str, Callable[[Any, Any], Any]] = {
    "reshape": lambda b, x: b.reshape(x, [3, 4]),
    "expand": lambda b, x: b.expand(b.reshape(x, [1, 2, 6]), [3, 2, 6]),
    "transpose": lambda b, x: b.transpose(x, permutation=[1, 0]),
    "squeeze": lambda b, x: b.squeeze(b.unsqueeze(x, [0])),
    "concat": lambda b, x: b.concat([x, x], 1),
    "split": lambda b, x: b.split(x, [1, 5], axis=1)[1],
    "reverse": lambda b, x: b.reverse(x),
    "reverse an axis": lambda b, x: b.reverse(x, axes=[1]),
    "reverse none": lambda b, x: b.reverse(x, axes=[]),
    "pad": lambda b, x: b.pad(x, [1, 0], [2, 3]),
    "add": lambda b, x: b.add(x, x),
    "sub": lambda b, x: b.sub(x, b.reverse(x)),
    "mul": lambda b, x: b.mul(x, b.reverse(x)),
    "div": lambda b, x: b.div(x, b.reverse(x)),
    "neg": lambda b, x: b.neg(x),
    "sqrt": lambda b, x: b.sqrt(x),
}


@pytest.mark.parametrize("name", ON_THE_HOST)
def test_the_host_gives_the_bits_of_the_device(context: webnn.MLContext, name: str) -> None:
    data = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
    data[0, :4] = np.inf, -0.0, np.nan, 1e-30
    at_build, at_run = webnn.MLGraphBuilder(context), webnn.MLGraphBuilder(context)
    constants = at_build.build({"y": ON_THE_HOST[name](at_build, at_build.constant(data))}, optimize=False)
    fixed = split(constants._graph).fixed
    assert fixed is not None
    assert host.can_run(fixed)
    run = at_run.build({"y": ON_THE_HOST[name](at_run, at_run.input("x", [2, 6], "float32"))}, optimize=False)
    want = run.compute({"x": data})["y"]
    (got,) = host.run(fixed, {value: constant.data for value, constant in fixed.constants.items()}).values()
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    finite = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), ~finite)
    assert got[finite].tobytes() == want[finite].tobytes()


@pytest.mark.parametrize("options", [{"value": 1}, {"value": -0.0}, {"mode": "edge"}, {"mode": "reflection"}])
def test_other_padding_is_not_for_the_host(context: webnn.MLContext, options: dict[str, Any]) -> None:
    builder: Any = webnn.MLGraphBuilder(context)
    padded = builder.pad(builder.constant(np.ones((2, 6), np.float32)), [1, 0], [0, 0], **options)
    fixed = split(builder.build({"y": padded})._graph).fixed
    assert fixed is not None
    assert not host.can_run(fixed)
