"""A graph in the TOSA reference model: what TOSA's specification says the exported graph computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from webnn_xla import buffers, tosa
from webnn_xla.conformance.oracle import Oracle
from webnn_xla.errors import ArgumentError
from webnn_xla.graph import Graph

WORKER: Final = "webnn_xla.conformance.tosa_model"


def run_tosa(
    graph: Graph,
    inputs: Mapping[str, Any],
    *,
    version: str = "1.1",
    allow_partial: bool = False,
    precise: bool = False,
    timeout: float = 60.0,
    oracle: Oracle | None = None,
) -> tuple[dict[str, np.ndarray[Any, Any]], tosa.TosaModule]:
    """Exports ``graph``, runs it in the reference model, and returns the results by name and the module.

    ``precise``: floats are computed in float64. With ``allow_partial`` there are no results of what TOSA cannot say; the
    module's ``refusals`` tell. Runs in a subprocess, since the model ends it on what TOSA calls unpredictable; an
    ``oracle`` made before saves its start. Errors: OracleError; NotSupportedError and OperationError of the export.
    """
    module = tosa.export(graph, version, allow_partial=allow_partial)
    missing = [name for name in graph.inputs if name not in inputs]
    if missing:
        raise ArgumentError(f"got no {missing[0]}; allowed: all inputs of the graph", operator="tosa", operand="inputs")
    arguments = [np.asarray(buffers.view(inputs[name], value.descriptor, name)) for name, value in graph.inputs.items()]
    kinds = [graph.outputs[name].descriptor for name in module.outputs]
    if not kinds:
        return {}, module
    request = (module.flatbuffer(), arguments, [kind.data_type.numpy.name for kind in kinds], precise)
    if oracle is not None:
        results = oracle.ask(request, timeout=timeout)
    else:
        with Oracle(WORKER, timeout=timeout) as own:
            results = own.ask(request)
    return {
        name: result.reshape(tuple(kind.shape)) for name, kind, result in zip(module.outputs, kinds, results, strict=True)
    }, module
