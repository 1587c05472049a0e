"""The vocabulary for ONNX: one model for onnxruntime and OpenVINO, with the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks import measure
from benchmarks.vocabulary import Array, Network, Pair, Runnable, Tensor, Vocabulary, pair

UNARY = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "sqrt": "Sqrt", "erf": "Erf", "gelu": "Gelu"}
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}
TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64}
OPSET = 20


class Onnx(Vocabulary):
    """Tensors are names; shapes come from a run of the shape inference on the node that makes them."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.initializers: list[Any] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.types: dict[str, int] = {}
        self.count = 0

    def _node(self, op: str, inputs: Sequence[str], *, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [self._name() for _ in range(outputs)]
        node = helper.make_node(op, list(inputs), names, **attributes)
        self.nodes.append(node)
        small = {item.name: item for item in self.initializers if item.name in inputs and np.prod(item.dims) < 100}
        graph = helper.make_graph(
            [node],
            "one",
            [
                helper.make_tensor_value_info(n, self.types[n], self.shapes[n])
                for n in dict.fromkeys(inputs)
                if n and n not in small
            ],
            [helper.make_empty_tensor_value_info(name) for name in names],
            list(small.values()),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        for output in inferred.graph.output:
            self.shapes[output.name] = tuple(item.dim_value for item in output.type.tensor_type.shape.dim)
            self.types[output.name] = output.type.tensor_type.elem_type
        return names

    def _name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def model(self, outputs: Sequence[str]) -> Any:
        made = [helper.make_tensor_value_info(name, self.types[name], self.shapes[name]) for name in outputs]
        graph = helper.make_graph(self.nodes, "network", self.inputs, made, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)

    def input(self, name: str, shape: Sequence[int], data_type: str = "float32") -> Tensor:
        self.shapes[name], self.types[name] = tuple(shape), TYPES[data_type]
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[data_type], shape))
        return name

    def constant(self, data: Array) -> Tensor:
        name = self._name()
        self.initializers.append(numpy_helper.from_array(data, name))
        self.shapes[name], self.types[name] = data.shape, helper.np_dtype_to_tensor_dtype(data.dtype)
        return name

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return self.shapes[x]

    def conv(
        self, x: Tensor, w: Tensor, b: Tensor | None = None, *, stride: Pair = 1, pad: Pair = 0, groups: int = 1
    ) -> Tensor:
        inputs = [x, w] if b is None else [x, w, b]
        return self._node("Conv", inputs, strides=pair(stride), pads=pair(pad) * 2, group=groups)[0]

    def conv_transpose(self, x: Tensor, w: Tensor, *, stride: int, pad: int = 0) -> Tensor:
        return self._node("ConvTranspose", [x, w], strides=[stride] * 2, pads=[pad] * 4)[0]

    def batch_norm(self, x: Tensor, mean: Tensor, variance: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        return self._node("BatchNormalization", [x, scale, bias, mean, variance], epsilon=1e-5)[0]

    def unary(self, op: str, x: Tensor) -> Tensor:
        return self._node(UNARY[op], [x])[0]

    def relu6(self, x: Tensor) -> Tensor:
        return self._node("Clip", [x, self.constant(np.asarray(0, np.float32)), self.constant(np.asarray(6, np.float32))])[0]

    def binary(self, op: str, a: Tensor, b: Tensor) -> Tensor:
        return self._node(BINARY[op], [a, b])[0]

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        return self._node("MatMul", [a, b])[0]

    def max_pool(self, x: Tensor, *, size: int, stride: int, pad: int = 0) -> Tensor:
        return self._node("MaxPool", [x], kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)[0]

    def average_pool(self, x: Tensor, *, size: int, stride: int, pad: int = 0) -> Tensor:
        return self._node("AveragePool", [x], kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)[0]

    def global_average_pool(self, x: Tensor) -> Tensor:
        return self._node("GlobalAveragePool", [x])[0]

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return self._node("Reshape", [x, self.constant(np.asarray(shape, np.int64))])[0]

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        return self._node("Transpose", [x], perm=order)[0]

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return self._node("Concat", tensors, axis=axis)[0]

    def split(self, x: Tensor, parts: int, axis: int) -> list[Tensor]:
        return self._node("Split", [x], outputs=parts, axis=axis, num_outputs=parts)

    def softmax(self, x: Tensor, axis: int) -> Tensor:
        return self._node("Softmax", [x], axis=axis)[0]

    def layer_norm(self, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        return self._node("LayerNormalization", [x, scale, bias], axis=-1, epsilon=1e-5)[0]

    def gather(self, x: Tensor, indices: Tensor) -> Tensor:
        return self._node("Gather", [x, indices], axis=0)[0]

    def resize(self, x: Tensor, scale: int, mode: str) -> Tensor:
        scales = self.constant(np.asarray([1, 1, scale, scale], np.float32))
        kind = {"nearest-neighbor": "nearest", "linear": "linear"}[mode]
        return self._node("Resize", [x, "", scales], mode=kind, coordinate_transformation_mode="half_pixel")[0]

    def reduce_mean(self, x: Tensor, axis: int) -> Tensor:
        return self._node("ReduceMean", [x, self.constant(np.asarray([axis], np.int64))], keepdims=0)[0]

    def cumulative_sum(self, x: Tensor, axis: int) -> Tensor:
        return self._node("CumSum", [x, self.constant(np.asarray(axis, np.int64))])[0]

    def lstm(self, x: Tensor, w: Tensor, r: Tensor, b: Tensor, hidden: int) -> Tensor:
        both = self._node("Concat", [b, self.constant(np.zeros(self.shapes[b], np.float32))], axis=1)[0]
        return self._node("LSTM", [x, w, r, both], outputs=2, hidden_size=hidden)[1]


def make_model(network: Network) -> bytes:
    """The bytes of an ONNX file."""
    vocabulary = Onnx()
    return vocabulary.model(list(network.make(vocabulary))).SerializeToString()  # type: ignore[no-any-return]


def prepare_onnxruntime(network: Network, threads: int, model: bytes | Path) -> Runnable:
    """``model``: a file or its bytes. ``run_bound`` runs with buffers of its own bound to inputs and outputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Its threads wait for the next call in a loop that takes a core for a tenth of a second and more; within a call they may.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if network.path is not None:
        for name, size in free_dimensions(network).items():
            options.add_free_dimension_override_by_name(name, size)
    started = measure.clock()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    built = measure.clock()
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in network.inputs.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    results = session.run(None, network.inputs)
    first = measure.clock()
    held = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in results]
    for output, value in zip(session.get_outputs(), held, strict=True):
        binding.bind_ortvalue_output(output.name, value)
    return Runnable(
        "onnxruntime", lambda: session.run(None, network.inputs), built - started, first - built,
        lambda: session.run_with_iobinding(binding), {"held": (values, held)},
    )  # fmt: skip


def free_dimensions(network: Network) -> dict[str, int]:
    """Sizes of the named dimensions in the file of ``network``, from its inputs."""
    found = {}
    for value in onnx.load(network.path, load_external_data=False).graph.input:
        dimensions = value.type.tensor_type.shape.dim
        for dimension, size in zip(dimensions, network.inputs[value.name].shape, strict=True):
            if dimension.dim_param:
                found[dimension.dim_param] = size
    return found


def prepare_openvino(network: Network, threads: int, model: bytes | Path) -> Runnable:
    """``model``: a file or its bytes."""
    import openvino

    started = measure.clock()
    core = openvino.Core()
    read = core.read_model(model)
    if network.path is not None:
        read.reshape({name: list(array.shape) for name, array in network.inputs.items()})
    compiled = core.compile_model(
        read, "CPU",
        {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"},
    )  # fmt: skip
    built = measure.clock()
    request = compiled.create_infer_request()
    outputs = list(compiled.outputs)

    def run() -> list[Array]:
        found = request.infer(network.inputs, share_inputs=True)
        return [found[output] for output in outputs]

    run()
    first = measure.clock()
    bound = compiled.create_infer_request()
    for name, array in network.inputs.items():
        bound.set_tensor(name, openvino.Tensor(array, shared_memory=True))

    def run_bound() -> None:
        bound.start_async()
        bound.wait()

    return Runnable("OpenVINO", run, built - started, first - built, run_bound)
