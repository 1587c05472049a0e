"""What the imperative tests share: small graphs, tensors that hold a value, and how to read one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import webnn_xla as webnn

FLOATS = webnn.MLOperandDescriptor("float32", [2])


def new_context() -> webnn.MLContext:
    return webnn.ML().create_context(device_type="cpu")


def build(
    context: webnn.MLContext, function: Callable[..., Any], *names: str, shape: Any = (2,), **kwargs: Any
) -> webnn.MLGraph:
    """A graph of float32 inputs with these names; ``function(builder, *operands)`` gives its output "out"."""
    builder = webnn.MLGraphBuilder(context)
    operands = [builder.input(name, {"data_type": "float32", "shape": shape, **kwargs}) for name in names]
    made = function(builder, *operands)
    return builder.build(made if isinstance(made, dict) else {"out": made})


def add_graph(context: webnn.MLContext, shape: Any = (2,)) -> webnn.MLGraph:
    return build(context, lambda builder, lhs, rhs: builder.add(lhs, rhs), "lhs", "rhs", shape=shape)


def tensor(context: webnn.MLContext, value: Any = None, data_type: str = "float32", shape: Any = None) -> webnn.MLTensor:
    """A tensor that may be read and written, with ``value`` written to it."""
    shape = np.shape(value) if shape is None else shape
    made = context.create_tensor({"data_type": data_type, "shape": shape}, readable=True, writable=True)
    if value is not None:
        context.write_tensor(made, np.asarray(value, data_type))
    return made


def read(made: webnn.MLTensor) -> Any:
    """The tensor's data as (nested) lists of numbers."""
    data = made.context.read_tensor(made)
    assert data is not None
    assert data.shape == tuple(made.shape)
    return data.tolist()
