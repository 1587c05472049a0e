"""ONNX models as WebNN graphs.

    graph = webnn_xla.from_onnx("model.onnx", dims={"batch": 1, "seq": 128})
    graph.compute({"input_ids": ids, "attention_mask": mask})

One table (``table.py``) declares which function imports which operator in which opsets; ``families`` has the functions.
Operators that ONNX defines by a function of others need no declaration. ``importer.py`` walks the graph, ``node.py`` is
what a handler sees, ``fold.py`` evaluates what is known on import, ``weights.py`` reads tensors. Needs the ``onnx`` package.
"""

from __future__ import annotations

try:
    import onnx as _onnx
except ImportError as error:
    raise ImportError("reading ONNX models needs the onnx package: pip install 'webnn-xla[onnx]'") from error

from webnn_xla.importers.onnx import families as _families
from webnn_xla.importers.onnx.errors import InvalidModelError, Problem, UnsupportedModelError
from webnn_xla.importers.onnx.loader import OnnxGraph, from_onnx
from webnn_xla.importers.onnx.report import Report, check_onnx
from webnn_xla.importers.onnx.session import Session

del _families, _onnx

__all__ = ["InvalidModelError", "OnnxGraph", "Problem", "Report", "Session", "UnsupportedModelError", "check_onnx", "from_onnx"]
