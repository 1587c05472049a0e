"""The vocabulary for this package: a graph built through the WebNN API, as a web page would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import webnn_xla as webnn
from benchmarks import measure
from benchmarks.vocabulary import Array, Network, Pair, Runnable, Tensor, Vocabulary, pair


class WebNN(Vocabulary):
    def __init__(self, builder: webnn.MLGraphBuilder, seed: int = 0) -> None:
        super().__init__(seed)
        self.b: Any = builder

    def input(self, name: str, shape: Sequence[int], data_type: str = "float32") -> Tensor:
        return self.b.input(name, shape, data_type)

    def constant(self, data: Array) -> Tensor:
        return self.b.constant(data)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.shape)

    def conv(
        self, x: Tensor, w: Tensor, b: Tensor | None = None, *, stride: Pair = 1, pad: Pair = 0, groups: int = 1
    ) -> Tensor:
        (top, left), strides = pair(pad), pair(stride)
        return self.b.conv2d(x, w, bias=b, padding=[top, top, left, left], strides=strides, groups=groups)

    def conv_transpose(self, x: Tensor, w: Tensor, *, stride: int, pad: int = 0) -> Tensor:
        return self.b.conv_transpose2d(x, w, padding=[pad] * 4, strides=[stride, stride])

    def batch_norm(self, x: Tensor, mean: Tensor, variance: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        return self.b.batch_normalization(x, mean, variance, scale=scale, bias=bias)

    def unary(self, op: str, x: Tensor) -> Tensor:
        return getattr(self.b, op)(x)

    def relu6(self, x: Tensor) -> Tensor:
        return self.b.clamp(x, min_value=0, max_value=6)

    def binary(self, op: str, a: Tensor, b: Tensor) -> Tensor:
        return getattr(self.b, op)(a, b)

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        return self.b.matmul(a, b)

    def max_pool(self, x: Tensor, *, size: int, stride: int, pad: int = 0) -> Tensor:
        return self.b.max_pool2d(x, window_dimensions=[size, size], strides=[stride, stride], padding=[pad] * 4)

    def average_pool(self, x: Tensor, *, size: int, stride: int, pad: int = 0) -> Tensor:
        return self.b.average_pool2d(x, window_dimensions=[size, size], strides=[stride, stride], padding=[pad] * 4)

    def global_average_pool(self, x: Tensor) -> Tensor:
        return self.b.average_pool2d(x)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return self.b.reshape(x, shape)

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        return self.b.transpose(x, permutation=order)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return self.b.concat(tensors, axis)

    def split(self, x: Tensor, parts: int, axis: int) -> list[Tensor]:
        return list(self.b.split(x, parts, axis=axis))

    def softmax(self, x: Tensor, axis: int) -> Tensor:
        return self.b.softmax(x, axis)

    def layer_norm(self, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        return self.b.layer_normalization(x, scale=scale, bias=bias, axes=[len(x.shape) - 1])

    def gather(self, x: Tensor, indices: Tensor) -> Tensor:
        return self.b.gather(x, indices)

    def resize(self, x: Tensor, scale: int, mode: str) -> Tensor:
        return self.b.resample2d(x, mode=mode, scales=[scale, scale])

    def reduce_mean(self, x: Tensor, axis: int) -> Tensor:
        return self.b.reduce_mean(x, axes=[axis])

    def cumulative_sum(self, x: Tensor, axis: int) -> Tensor:
        return self.b.cumulative_sum(x, axis)

    def lstm(self, x: Tensor, w: Tensor, r: Tensor, b: Tensor, hidden: int) -> Tensor:
        steps = x.shape[0]
        return self.b.lstm(x, w, r, steps, hidden, bias=b, layout="iofg")[0]


def prepare(network: Network, context: webnn.MLContext, **build: Any) -> Runnable:
    """Builds the network; ``run`` is ``graph.compute``, ``run_bound`` a dispatch on resident tensors, waited for."""
    started = measure.clock()
    if network.path is not None:
        shapes = {name: array.shape for name, array in network.inputs.items()}
        graph: Any = webnn.from_onnx(network.path, shapes, context=context, **build)
    else:
        builder = webnn.MLGraphBuilder(context)
        outputs = network.make(WebNN(builder))
        graph = builder.build({f"y{index}": output for index, output in enumerate(outputs)}, **build)
    return runnable(graph, network.inputs, measure.clock() - started)


def runnable(graph: webnn.MLGraph, given: Mapping[str, Array], build_seconds: float) -> Runnable:
    """``graph`` on these inputs, with tensors of its own."""
    context, names = graph.context, list(graph.output_descriptors)

    def run() -> list[Array]:
        results = graph.compute(given)
        return [results[name] for name in names]

    inputs = {name: context.create_tensor(item, writable=True) for name, item in graph.input_descriptors.items()}
    tensors = {name: context.create_tensor(item, readable=True) for name, item in graph.output_descriptors.items()}
    for name, tensor in inputs.items():
        context.write_tensor(tensor, given[name])

    def bound() -> None:
        context.dispatch(graph, inputs, tensors)
        for tensor in tensors.values():
            tensor.array.block_until_ready()

    first = measure.clock()
    run()
    return Runnable(
        "webnn-xla", run, build_seconds, measure.clock() - first, bound,
        {"compile": graph.build_seconds, "graph": graph},
    )  # fmt: skip
