"""W3C WebNN in Python: graphs lower to explicit ``jax.lax`` primitives and run as XLA executables.

    import webnn_xla as webnn

    context = webnn.ML().create_context()
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [2, 3], "float32")
    graph = builder.build({"y": builder.softmax(x, 1)})
    graph.compute({"x": array})["y"]
"""

from webnn_xla.builder import MLGraphBuilder, MLOperand
from webnn_xla.context import ML, MLContext, MLContextLostInfo
from webnn_xla.dtypes import MLOperandDataType, MLOperandDescriptor
from webnn_xla.errors import (
    ArgumentError,
    DataError,
    DestroyedObjectError,
    InvalidStateError,
    NotSupportedError,
    OperationError,
    WebNNError,
)
from webnn_xla.mlgraph import Cost, MLGraph
from webnn_xla.tensor import MLTensor

__version__ = "0.1.0"

__all__ = [
    "ML",
    "ArgumentError",
    "Cost",
    "DataError",
    "DestroyedObjectError",
    "InvalidStateError",
    "MLContext",
    "MLContextLostInfo",
    "MLGraph",
    "MLGraphBuilder",
    "MLOperand",
    "MLOperandDataType",
    "MLOperandDescriptor",
    "MLTensor",
    "NotSupportedError",
    "OperationError",
    "WebNNError",
]
