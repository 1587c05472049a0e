"""``build(alias=…)``: an output written over an input. And ``build(autotune=True)``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import webnn_xla as webnn
from webnn_xla.cache import Cache

ROWS = 64


def cache_graph(context: webnn.MLContext, **options: Any) -> webnn.MLGraph:
    """Two caches of the same type, whose outputs stand in the other order; one row is written each."""
    builder = webnn.MLGraphBuilder(context)
    keys, values = (builder.input(name, [ROWS, 8], "float32") for name in ("keys", "values"))
    row = builder.input("row", [1, 8], "float32")
    at = builder.input("at", [1, 1], "int32")
    new_keys = builder.scatter_nd(keys, at, row)
    new_values = builder.scatter_nd(values, at, builder.neg(row))
    total = builder.reduce_sum(builder.sub(new_keys, new_values))
    return builder.build({"total": total, "new_values": new_values, "new_keys": new_keys}, **options)


ALIAS = {"new_keys": "keys", "new_values": "values"}


def tensors(context: webnn.MLContext, graph: webnn.MLGraph) -> dict[str, webnn.MLTensor]:
    every = {**graph.input_descriptors, **graph.output_descriptors}
    return {name: context.create_tensor(item, readable=True, writable=True) for name, item in every.items()}


def write(context: webnn.MLContext, made: dict[str, webnn.MLTensor], index: int) -> None:
    context.write_tensor(made["row"], np.full((1, 8), index + 1, np.float32))
    context.write_tensor(made["at"], np.array([[index]], np.int32))


def test_one_tensor_as_input_and_output(context: webnn.MLContext) -> None:
    graph = cache_graph(context, alias=ALIAS)
    made = tensors(context, graph)
    inputs = {name: made[name] for name in graph.input_descriptors}
    outputs = {"total": made["total"], "new_keys": made["keys"], "new_values": made["values"]}
    pointers = set()
    for index in range(5):
        write(context, made, index)
        context.dispatch(graph, inputs, outputs)
        pointers.add(made["keys"].array.unsafe_buffer_pointer())
    keys, values = context.read_tensor(made["keys"]), context.read_tensor(made["values"])
    assert keys is not None
    assert values is not None
    np.testing.assert_array_equal(keys[:6, 0], [1, 2, 3, 4, 5, 0])
    np.testing.assert_array_equal(values, -keys)
    assert len(pointers) == 1, "the cache stays where it is"


def test_two_tensors_leave_the_input_alone(context: webnn.MLContext) -> None:
    graph = cache_graph(context, alias=ALIAS)
    made = tensors(context, graph)
    write(context, made, 3)
    context.dispatch(graph, {n: made[n] for n in graph.input_descriptors}, {n: made[n] for n in graph.output_descriptors})
    before, after = context.read_tensor(made["keys"]), context.read_tensor(made["new_keys"])
    assert before is not None
    assert after is not None
    assert before.sum() == 0
    assert after[3, 0] == 4


def test_compute_and_calls_leave_the_callers_arrays_alone(context: webnn.MLContext) -> None:
    graph, plain = cache_graph(context, alias=ALIAS), cache_graph(context)
    given: dict[str, Any] = {
        "keys": np.ones((ROWS, 8), np.float32),
        "values": np.zeros((ROWS, 8), np.float32),
        "row": np.full((1, 8), 7, np.float32),
        "at": np.array([[2]], np.int32),
    }
    wanted = plain.compute(given)
    for result in (graph.compute(given), graph(**{name: jax.numpy.asarray(array) for name, array in given.items()})):
        for name, array in wanted.items():
            np.testing.assert_array_equal(np.asarray(result[name]), array)
    resident = {name: jax.device_put(array) for name, array in given.items()}
    graph(**resident)
    np.testing.assert_array_equal(np.asarray(resident["keys"]), given["keys"])
    np.testing.assert_array_equal(given["keys"], np.ones((ROWS, 8), np.float32))


def test_without_alias_a_tensor_may_not_be_both(context: webnn.MLContext) -> None:
    graph = cache_graph(context)
    made = tensors(context, graph)
    inputs = {name: made[name] for name in graph.input_descriptors}
    with pytest.raises(webnn.ArgumentError, match="second time"):
        context.dispatch(graph, inputs, {"total": made["total"], "new_keys": made["keys"], "new_values": made["new_values"]})
    crossed = cache_graph(context, alias=ALIAS)
    with pytest.raises(webnn.ArgumentError, match="second time"):
        context.dispatch(crossed, inputs, {"total": made["total"], "new_keys": made["values"], "new_values": made["keys"]})


@pytest.mark.parametrize(
    "alias", [{"nothing": "keys"}, {"new_keys": "nothing"}, {"total": "keys"}, {"new_keys": "keys", "new_values": "keys"}]
)
def test_wrong_aliases(context: webnn.MLContext, alias: dict[str, str]) -> None:
    with pytest.raises(webnn.ArgumentError, match="alias"):
        cache_graph(context, alias=alias)


def test_autotune_keeps_its_choice_in_the_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def build() -> webnn.MLGraph:
        context = webnn.ML().create_context(device_type="cpu")
        context.cache = Cache(tmp_path / "cache", worth_seconds=0)
        builder = webnn.MLGraphBuilder(context)
        y = builder.matmul(builder.input("x", [16, 32], "float32"), builder.constant(np.ones((32, 48), np.float32)))
        return builder.build({"y": y}, autotune=True)

    with caplog.at_level(logging.INFO, "webnn_xla"):
        first, second = build(), build()
    assert caplog.text.count("autotune:") == 1
    assert first._program.options == second._program.options
    x = np.ones((16, 32), np.float32)
    for graph in (first, second):
        np.testing.assert_array_equal(graph.compute({"x": x})["y"], np.full((16, 48), 32, np.float32))
