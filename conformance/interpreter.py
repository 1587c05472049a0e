"""A graph in StableHLO's reference interpreter: what its specification says the graph computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from webnn_xla import buffers
from webnn_xla.conformance.oracle import Oracle, OracleError
from webnn_xla.dtypes import Descriptor, carried
from webnn_xla.errors import ArgumentError
from webnn_xla.export import canonical_text
from webnn_xla.graph import Graph
from webnn_xla.mlgraph import MLGraph

SECONDS_PER_FLOP: Final = 1.2e-6
"""Measured: a 64 × 64 × 64 matmul takes 0.3 s. The interpreter visits elements one by one."""

SECONDS_PER_BYTE: Final = 6e-8
"""Of arguments, which travel as text."""

WORKER: Final = "webnn_xla.conformance.stablehlo_interpreter"


def interpret(
    graph: MLGraph, inputs: Mapping[str, Any], *, timeout: float = 60.0, oracle: Oracle | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """Runs the canonical module of ``graph`` in the interpreter; NumPy arrays in and out, as ``graph.compute``.

    Runs in a subprocess, since the interpreter aborts on some inputs (integer division by zero among them). An ``oracle``
    made before saves its start. Errors: OracleError, which says whether it crashed, overran ``timeout`` (seconds), or
    the graph is too large for it; ArgumentError for inputs that do not fit.
    """
    check_size(graph, timeout)
    return interpret_graph(graph.graph, inputs, timeout=timeout, oracle=oracle)


def check_size(graph: MLGraph, timeout: float) -> None:
    """OracleError if the interpreter would take longer than ``timeout`` (seconds), by what XLA says that ``graph`` costs."""
    cost = graph.cost()
    estimate = cost.flops * SECONDS_PER_FLOP + cost.arguments * SECONDS_PER_BYTE
    if estimate > timeout:
        raise OracleError(
            f"the graph is too large: about {estimate:.0f} s for {cost.flops:.2g} flops; allowed: {timeout:g} s",
            operator="interpret",
        )


def interpret_graph(
    graph: Graph, inputs: Mapping[str, Any], *, timeout: float = 60.0, oracle: Oracle | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """``interpret`` of a graph that was not compiled. How large it is is not checked before."""
    arrays = {name: carried(_view(inputs, name, value.descriptor)) for name, value in graph.inputs.items()}
    text, values = canonical_text(graph)
    data = [graph.constants[value].data for value in values]
    if any(array is None for array in data):
        raise ArgumentError("the graph has weights that are not loaded; call load_weights", operator="interpret")
    arguments = [carried(np.asarray(array)) for array in data]
    request = (text, [*arguments, *arrays.values()])
    if oracle is not None:
        results = oracle.ask(request, timeout=timeout)
    else:
        with Oracle(WORKER, timeout=timeout) as own:
            results = own.ask(request)
    return from_carriers(graph, results)


def _view(inputs: Mapping[str, Any], name: str, descriptor: Descriptor) -> np.ndarray[Any, Any]:
    if name not in inputs:
        raise ArgumentError(f"got no {name}; allowed: all inputs of the graph", operator="interpret", operand="inputs")
    return buffers.view(inputs[name], descriptor, name)


def from_carriers(graph: Graph, results: list[np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Results in the types of the graph's outputs, by name."""
    return {
        name: result if result.dtype == value.descriptor.data_type.numpy else result.astype(value.descriptor.data_type.numpy)
        for (name, value), result in zip(graph.outputs.items(), results, strict=True)
    }
