"""W3C WebNN in Python: graphs lower to explicit ``jax.lax`` primitives and run as XLA executables.

import webnn_xla as webnn

context = webnn.ML().create_context()
builder = webnn.MLGraphBuilder(context)
x = builder.input("x", [2, 3], "float32")
graph = builder.build({"y": builder.softmax(x, 1)})
graph.compute({"x": array})["y"]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webnn_xla.builder import MLGraphBuilder, MLOperand
    from webnn_xla.context import ML, MLContext, MLContextLostInfo, ml
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
    from webnn_xla.importers.onnx import Session, check_onnx, from_onnx
    from webnn_xla.mlgraph import Cost, MLGraph
    from webnn_xla.serialization import load, save
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
    "Session",
    "WebNNError",
    "check_onnx",
    "from_onnx",
    "load",
    "ml",
    "save",
]

# Where public names are defined. They are imported on first use: importing JAX takes a second, which the command line's
# --help should not.
_MODULES = {
    "builder": ("MLGraphBuilder", "MLOperand"),
    "context": ("ML", "MLContext", "MLContextLostInfo", "ml"),
    "dtypes": ("MLOperandDataType", "MLOperandDescriptor"),
    "importers.onnx": ("Session", "check_onnx", "from_onnx"),
    "mlgraph": ("Cost", "MLGraph"),
    "serialization": ("load", "save"),
    "tensor": ("MLTensor",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
