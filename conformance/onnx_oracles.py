"""Worker: runs an ONNX model in onnxruntime or in ONNX's reference evaluator, with its inner values where they are asked for.

Both are others' code on a user's file, which may take any time or end the process, hence ``oracle``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

Request = tuple[str, str, dict[str, Array], list[str]]


def serve(request: Request) -> dict[str, Array]:
    """``(oracle, path of the model, inputs, names of inner values)`` → those values and the outputs, by name.

    Inputs are in the types of a graph and are brought into those of the model. What is no tensor is left out.
    """
    oracle, path, inputs, names = request
    results = (_onnxruntime if oracle == "onnxruntime" else _reference)(path, inputs, names)
    return {name: np.asarray(value) for name, value in results.items() if isinstance(value, np.ndarray | np.generic)}


def _onnxruntime(path: str, inputs: dict[str, Array], names: list[str]) -> dict[str, Any]:
    try:
        import onnxruntime
    except ImportError:
        raise RuntimeError("not installed: pip install onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    source: str | bytes = path
    if names:
        import onnx

        model = onnx.load_model(path, load_external_data=False)
        there = {output.name for output in model.graph.output}
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in there)
        source = model.SerializeToString()
        # The inner values are those of the model as it is written, not of what it is fused to.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        folder = str(Path(path).resolve().parent)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    types = {"tensor(bool)": "bool", "tensor(double)": "float64", "tensor(int16)": "int16", "tensor(uint16)": "uint16"}
    feed = {
        port.name: inputs[port.name].astype(types.get(port.type, inputs[port.name].dtype))
        for port in session.get_inputs()
        if port.name in inputs
    }
    wanted = [output.name for output in session.get_outputs()]
    return dict(zip(wanted, session.run(wanted, feed), strict=True))


def _reference(path: str, inputs: dict[str, Array], names: list[str]) -> dict[str, Any]:
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        raise RuntimeError("not installed: pip install onnx") from None
    model = onnx.load_model(path, load_external_data=False)
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    evaluator = ReferenceEvaluator(path, new_ops=[_batch_normalization()] if opset < 14 else None)
    feed = {}
    for port in model.graph.input:
        if port.name in inputs:
            feed[port.name] = inputs[port.name].astype(onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type))
    results = evaluator.run(None, feed, intermediate=True)
    return {name: results[name] for name in [*names, *evaluator.output_names] if name in results}


def _batch_normalization() -> type:
    """For opsets before 14, in which ONNX's evaluator computes the mean of the batch, as in training."""
    from onnx.reference.op_run import OpRun

    class BatchNormalization(OpRun):
        op_domain = ""

        def _run(self, x: Array, scale: Array, bias: Array, mean: Array, var: Array, **attributes: Any) -> tuple[Array]:
            each = (-1,) + (1,) * (x.ndim - 2)
            factor = scale.reshape(each) / np.sqrt(var.reshape(each) + np.float32(attributes.get("epsilon") or 1e-5))
            return (((x - mean.reshape(each)) * factor + bias.reshape(each)).astype(x.dtype),)

    return BatchNormalization
