"""An ONNX model and its graph, with the names of the model's tensors, so that others' values of them can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from webnn_xla.builder import MLOperand
from webnn_xla.context import MLContext
from webnn_xla.dtypes import Descriptor
from webnn_xla.errors import NotSupportedError
from webnn_xla.graph import Graph, Value


@dataclass(frozen=True)
class OnnxModel:
    """A model in a file, imported and not compiled; its weights are in the graph."""

    path: Path
    graph: Graph
    tensors: Mapping[str, Value]
    """What the graph computes, by the name of the model's tensor, in the model's order."""
    inputs: Mapping[str, Descriptor]
    """Of the model, but for what is fixed. The graph lacks those that nothing depends on."""
    fixed: Mapping[str, np.ndarray[Any, Any]]


def read(
    path: Path, context: MLContext, dims: Mapping[str, Any] | None = None, values: Mapping[str, Any] | None = None
) -> OnnxModel:
    """Imports the model at ``path`` for sizes and values as ``from_onnx`` takes them. Errors: those of ``from_onnx``."""
    try:
        from webnn_xla.importers.onnx.loader import record
        from webnn_xla.importers.onnx.model import read_model
        from webnn_xla.importers.onnx.types import storage_of, to_storage
        from webnn_xla.importers.onnx.values import Tensor
    except ImportError as error:
        raise NotSupportedError(str(error)) from None
    builder, importer, ports, results = record(read_model(path), context, dims, values)
    outputs: dict[str, MLOperand] = {}
    for name, tensor in results.items():
        if tensor.size:
            operand = importer.operand(tensor, "")
            made = operand._value in builder._producers and operand not in outputs.values()
            outputs[name] = operand if made else builder.identity(operand, label=f"output {name}")
    if not outputs:
        raise NotSupportedError("no output of the model has elements", operator="compare")
    graph = builder._graph(outputs)
    weights = {value: to_storage(importer.weights[held.name]()) for value, held in graph.constants.items() if held.name}
    graph = graph.replace_constants(weights)
    tensors = {
        name: tensor.operand._value
        for name, tensor in importer.values.items()
        if isinstance(tensor, Tensor) and tensor.operand is not None and tensor.operand._value in graph.producers
    }
    return OnnxModel(
        path,
        graph,
        {**tensors, **graph.outputs},
        {name: Descriptor(storage_of(port.dtype), port.shape) for name, port in ports.items() if port.value is None},
        {name: port.value for name, port in ports.items() if port.value is not None},
    )
