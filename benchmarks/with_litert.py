"""The vocabulary for LiteRT: a ``.tflite`` file written op by op with the schema that its wheel brings, without a converter.

As in the files that converters make, images are channels-last, also at the graph's inputs, batch normalization is folded
into the convolution before it, and biases and clamps are part of the op before them: LiteRT does none of this itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.vocabulary import Array, Network, Pair, Runnable, Tensor, Vocabulary, pair

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
SAME, VALID = 0, 1
RELU, RELU6 = 1, 3
EPSILON = np.float32(1e-5)
UNARY = {"relu": "RELU", "sigmoid": "LOGISTIC", "tanh": "TANH", "exp": "EXP", "sqrt": "SQRT", "gelu": "GELU"}
BINARY = {
    "add": ("ADD", "AddOptions"), "sub": ("SUB", "SubOptions"), "mul": ("MUL", "MulOptions"), "div": ("DIV", "DivOptions"),
}  # fmt: skip


@dataclass
class Item:
    """A tensor. ``shape`` is the one that the network sees, NCHW; it is stored channels-last if ``last``."""

    shape: tuple[int, ...]
    last: bool = False
    data: Array | None = None
    index: int | None = None
    producer: Any = None
    """The op that makes it, as long as nothing reads it: what follows may become part of that op."""
    is_input: bool = False
    forms: dict[tuple[int, ...], Item] = field(default_factory=dict)

    @property
    def stored(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in NHWC) if self.last else self.shape


class LiteRT(Vocabulary):
    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        from ai_edge_litert import schema_py_generated as schema

        self.s: Any = schema
        self.tensors: list[Any] = []
        self.buffers: list[Any] = [schema.BufferT()]
        self.operators: list[Any] = []
        self.codes: dict[str, int] = {}
        self.inputs: dict[str, Item] = {}

    # Tensors

    def _declare(self, shape: Sequence[int], dtype: Any = np.float32, buffer: int = 0) -> int:
        types = self.s.TensorType
        tensor = self.s.TensorT()
        tensor.shape, tensor.buffer, tensor.name = list(shape), buffer, f"t{len(self.tensors)}"
        tensor.type = {"float32": types.FLOAT32, "int32": types.INT32}[np.dtype(dtype).name]
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def _const(self, data: Array) -> int:
        buffer = self.s.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        self.buffers.append(buffer)
        return self._declare(data.shape, data.dtype, len(self.buffers) - 1)

    def _at(self, x: Item) -> int:
        """Where ``x`` is among the tensors; it counts as read."""
        if x.index is None:
            assert x.data is not None
            x.index = self._const(x.data)
        x.producer = None
        return x.index

    def _op(
        self, name: str, inputs: Sequence[int], shape: Sequence[int], options: str = "", last: bool = False, **fields: Any
    ) -> Item:
        out = Item(tuple(shape), last)
        out.index = self._declare(out.stored)
        out.producer = self._add(name, inputs, [out.index], options, **fields)
        return out

    def _add(self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: str, **fields: Any) -> Any:
        operator = self.s.OperatorT()
        operator.opcodeIndex = self.codes.setdefault(name, len(self.codes))
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        if options:
            operator.builtinOptionsType = getattr(self.s.BuiltinOptions, options)
            operator.builtinOptions = getattr(self.s, options + "T")()
            for key, value in fields.items():
                assert hasattr(operator.builtinOptions, key), key
                setattr(operator.builtinOptions, key, value)
        self.operators.append(operator)
        return operator

    def _last(self, x: Item) -> Item:
        """``x`` channels-last. An input that nothing has read yet is given so by the caller."""
        if x.last:
            return x
        if x.data is not None:
            return x.forms.setdefault(NHWC, Item(x.shape, True, np.ascontiguousarray(np.transpose(x.data, NHWC))))
        if x.is_input and not any(x.index in operator.inputs for operator in self.operators):
            x.last = True
            assert x.index is not None
            self.tensors[x.index].shape = list(x.stored)
            return x
        if NHWC not in x.forms:
            x.forms[NHWC] = self._op(
                "TRANSPOSE", [self._at(x), self._const(np.asarray(NHWC, np.int32))], x.shape, "TransposeOptions", True
            )
        return x.forms[NHWC]

    def _first(self, x: Item) -> Item:
        """``x`` as the network sees it."""
        if not x.last:
            return x
        if NCHW not in x.forms:
            order = self._const(np.asarray(NCHW, np.int32))
            x.forms[NCHW] = self._op("TRANSPOSE", [self._at(x), order], x.shape, "TransposeOptions")
        return x.forms[NCHW]

    # Vocabulary

    def input(self, name: str, shape: Sequence[int], data_type: str = "float32") -> Tensor:
        self.inputs[name] = Item(tuple(shape), index=self._declare(shape, data_type), is_input=True)
        return self.inputs[name]

    def constant(self, data: Array) -> Tensor:
        return Item(data.shape, data=data)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return x.shape  # type: ignore[no-any-return]

    def _padded(self, x: Item, size: Pair, stride: Pair, pad: Pair, fill: float = 0.0) -> tuple[Item, int]:
        """LiteRT pads at the end first, so only strides of one have the padding that networks ask for."""
        (top, left), sizes, (height, width) = pair(pad), pair(size), x.shape[2:]
        if pair(stride) == (1, 1) and all(p == k // 2 and k % 2 for p, k in zip((top, left), sizes, strict=True)):
            return x, SAME
        if not top and not left:
            return x, VALID
        shape = (*x.shape[:2], height + 2 * top, width + 2 * left)
        amounts = self._const(np.asarray([[0, 0], [top, top], [left, left], [0, 0]], np.int32))
        if fill:
            return self._op(
                "PADV2", [self._at(x), amounts, self._const(np.asarray(fill, np.float32))], shape, "PadV2Options", True
            ), VALID
        return self._op("PAD", [self._at(x), amounts], shape, "PadOptions", True), VALID

    def conv(
        self, x: Tensor, w: Tensor, b: Tensor | None = None, *, stride: Pair = 1, pad: Pair = 0, groups: int = 1
    ) -> Tensor:
        x, (high, wide) = self._last(x), pair(stride)
        out, size = w.shape[0], (w.shape[2], w.shape[3])
        shape = (x.shape[0], out, *((x.shape[2 + i] + 2 * pair(pad)[i] - size[i]) // pair(stride)[i] + 1 for i in (0, 1)))
        x, padding = self._padded(x, size, stride, pad)
        depthwise = groups == x.shape[1] and groups > 1
        filters = np.transpose(w.data, (1, 2, 3, 0) if depthwise else (0, 2, 3, 1))
        bias = np.zeros(out, np.float32) if b is None else b.data
        inputs = [self._at(x), self._const(filters), self._const(bias)]
        fields: dict[str, Any] = {"padding": padding, "strideH": high, "strideW": wide}
        if depthwise:
            fields["depthMultiplier"] = out // groups
        name, options = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
        return self._op(name, inputs, shape, options, True, **fields)

    def conv_transpose(self, x: Tensor, w: Tensor, *, stride: int, pad: int = 0) -> Tensor:
        x, size = self._last(x), w.shape[2]
        if pad and size - stride != 2 * pad:
            raise NotImplementedError("padding that is neither none nor SAME")
        shape = (x.shape[0], w.shape[1], *((n - 1) * stride + size - 2 * pad for n in x.shape[2:]))
        stored = self._const(np.asarray([shape[axis] for axis in NHWC], np.int32))
        inputs = [
            stored,
            self._const(np.transpose(w.data, (1, 2, 3, 0))),
            self._at(x),
            self._const(np.zeros(w.shape[1], np.float32)),
        ]
        padding = SAME if pad else VALID
        return self._op(
            "TRANSPOSE_CONV", inputs, shape, "TransposeConvOptions", True, padding=padding, strideH=stride, strideW=stride
        )

    def batch_norm(self, x: Tensor, mean: Tensor, variance: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        factor = scale.data / np.sqrt(variance.data + EPSILON)
        offset = bias.data - mean.data * factor
        operator = x.producer
        if operator is not None and operator.builtinOptionsType in (
            self.s.BuiltinOptions.Conv2DOptions, self.s.BuiltinOptions.DepthwiseConv2DOptions,
        ):  # fmt: skip
            depthwise = operator.builtinOptionsType == self.s.BuiltinOptions.DepthwiseConv2DOptions
            filters, old = (self.tensors[index] for index in operator.inputs[1:3])
            for tensor, change in (
                (filters, lambda w: w * (factor if depthwise else factor[:, None, None, None])),
                (old, lambda b: b * factor + offset),
            ):
                buffer = self.buffers[tensor.buffer]
                values = np.frombuffer(buffer.data.tobytes(), np.float32).reshape(tensor.shape)
                buffer.data = np.frombuffer(change(values).astype(np.float32).tobytes(), np.uint8)
            return x
        x = self._last(x)
        y = self._op("MUL", [self._at(x), self._const(factor)], x.shape, "MulOptions", True)
        return self._op("ADD", [self._at(y), self._const(offset)], x.shape, "AddOptions", True)

    def _activated(self, x: Item, activation: int, name: str) -> Item:
        options = x.producer.builtinOptions if x.producer is not None else None
        if getattr(options, "fusedActivationFunction", None) == 0:
            options.fusedActivationFunction = activation
            return x
        return self._op(name, [self._at(x)], x.shape, last=x.last)

    def unary(self, op: str, x: Tensor) -> Tensor:
        if op not in UNARY:
            raise NotImplementedError(f"LiteRT has no {op}")
        if op == "relu":
            return self._activated(x, RELU, "RELU")
        options = {"exp": "ExpOptions", "gelu": "GeluOptions"}.get(op, "")
        return self._op(UNARY[op], [self._at(x)], x.shape, options, last=x.last)

    def relu6(self, x: Tensor) -> Tensor:
        return self._activated(x, RELU6, "RELU6")

    def binary(self, op: str, a: Tensor, b: Tensor) -> Tensor:
        shape = tuple(np.broadcast_shapes(a.shape, b.shape))
        last = a.last or b.last
        if last:
            a, b = (self._last(item) if len(item.shape) == 4 else item for item in (a, b))
            assert all(len(item.shape) in (0, 4) for item in (a, b))
        if op == "add" and b.data is not None and len(b.shape) == 1 and a.producer is not None:
            product = a.producer
            if product.builtinOptionsType == self.s.BuiltinOptions.FullyConnectedOptions and product.inputs[2] == -1:
                product.inputs[2] = self._at(b)
                return a
        name, options = BINARY[op]
        return self._op(name, [self._at(a), self._at(b)], shape, options, last)

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        shape = (*a.shape[:-1], b.shape[-1])
        if b.data is not None and len(b.shape) == 2:
            inputs = [self._at(a), self._const(b.data.T), -1]
            return self._op("FULLY_CONNECTED", inputs, shape, "FullyConnectedOptions", keepNumDims=True)
        return self._op("BATCH_MATMUL", [self._at(a), self._at(b)], shape, "BatchMatMulOptions")

    def _pool(self, name: str, x: Item, size: int, stride: int, pad: int, fill: float) -> Item:
        x = self._last(x)
        shape = (*x.shape[:2], *((n + 2 * pad - size) // stride + 1 for n in x.shape[2:]))
        x, padding = self._padded(x, size, stride, pad, fill)
        fields = {"padding": padding, "strideW": stride, "strideH": stride, "filterWidth": size, "filterHeight": size}
        return self._op(name, [self._at(x)], shape, "Pool2DOptions", True, **fields)

    def max_pool(self, x: Tensor, *, size: int, stride: int, pad: int = 0) -> Tensor:
        return self._pool("MAX_POOL_2D", x, size, stride, pad, float(np.finfo(np.float32).min))

    def average_pool(self, x: Tensor, *, size: int, stride: int, pad: int = 0) -> Tensor:
        assert not pad
        return self._pool("AVERAGE_POOL_2D", x, size, stride, pad, 0)

    def global_average_pool(self, x: Tensor) -> Tensor:
        x = self._last(x)
        axes = self._const(np.asarray([1, 2], np.int32))
        return self._op("MEAN", [self._at(x), axes], (*x.shape[:2], 1, 1), "ReducerOptions", True, keepDims=True)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        # One pixel is stored the same way in both layouts.
        x = x if x.last and x.shape[2:] == (1, 1) else self._first(x)
        sizes = self._const(np.asarray(shape, np.int32))
        return self._op("RESHAPE", [self._at(x), sizes], shape, "ReshapeOptions", newShape=list(shape))

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        x = self._first(x)
        inputs = [self._at(x), self._const(np.asarray(order, np.int32))]
        return self._op("TRANSPOSE", inputs, [x.shape[axis] for axis in order], "TransposeOptions")

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        last = any(x.last for x in tensors)
        if last:
            tensors = [self._last(x) for x in tensors]
        shape = list(tensors[0].shape)
        shape[axis] = sum(x.shape[axis] for x in tensors)
        stored = NHWC.index(axis) if last else axis
        return self._op("CONCATENATION", [self._at(x) for x in tensors], shape, "ConcatenationOptions", last, axis=stored)

    def split(self, x: Tensor, parts: int, axis: int) -> list[Tensor]:
        shape = list(x.shape)
        shape[axis] //= parts
        items = [Item(tuple(shape), x.last) for _ in range(parts)]
        for item in items:
            item.index = self._declare(item.stored)
        where = self._const(np.asarray(NHWC.index(axis) if x.last else axis, np.int32))
        self._add(
            "SPLIT",
            [where, self._at(x)],
            [item.index for item in items if item.index is not None],
            "SplitOptions",
            numSplits=parts,
        )
        return items

    def softmax(self, x: Tensor, axis: int) -> Tensor:
        x = self._first(x)
        assert axis % len(x.shape) == len(x.shape) - 1
        return self._op("SOFTMAX", [self._at(x)], x.shape, "SoftmaxOptions", beta=1.0)

    def _mean(self, x: Item, axis: int, *, keep: bool) -> Item:
        shape = [size for index, size in enumerate(x.shape) if keep or index != axis]
        shape = [1 if keep and index == axis else size for index, size in enumerate(shape)]
        axes = self._const(np.asarray([axis], np.int32))
        return self._op("MEAN", [self._at(x), axes], shape, "ReducerOptions", keepDims=keep)

    def layer_norm(self, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        x = self._first(x)
        axis = len(x.shape) - 1
        mean = self._mean(x, axis, keep=True)
        squares = self._op("SQUARED_DIFFERENCE", [self._at(x), self._at(mean)], x.shape, "SquaredDifferenceOptions")
        variance = self._mean(squares, axis, keep=True)
        factor = self._op("RSQRT", [self._at(self.binary("add", variance, self.constant(EPSILON.reshape(()))))], mean.shape)
        normal = self.binary("mul", self.binary("sub", x, mean), factor)
        return self.binary("add", self.binary("mul", normal, scale), bias)

    def gather(self, x: Tensor, indices: Tensor) -> Tensor:
        shape = (*indices.shape, *x.shape[1:])
        return self._op("GATHER", [self._at(x), self._at(indices)], shape, "GatherOptions", axis=0)

    def resize(self, x: Tensor, scale: int, mode: str) -> Tensor:
        x = self._last(x)
        shape = (*x.shape[:2], x.shape[2] * scale, x.shape[3] * scale)
        name, options = {
            "linear": ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
            "nearest-neighbor": ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
        }[mode]
        sizes = self._const(np.asarray(shape[2:], np.int32))
        return self._op(name, [self._at(x), sizes], shape, options, True, halfPixelCenters=True)

    def reduce_mean(self, x: Tensor, axis: int) -> Tensor:
        return self._mean(self._first(x), axis, keep=False)

    def cumulative_sum(self, x: Tensor, axis: int) -> Tensor:
        x = self._first(x)
        return self._op("CUMSUM", [self._at(x), self._const(np.asarray(axis, np.int32))], x.shape, "CumsumOptions")

    def lstm(self, x: Tensor, w: Tensor, r: Tensor, b: Tensor, hidden: int) -> Tensor:
        raise NotImplementedError(
            "not written here: LiteRT's LSTM keeps its state from call to call, and lists its weights by gate"
        )

    # The file

    def model(self, outputs: Sequence[Item]) -> bytes:
        import flatbuffers

        graph, model = self.s.SubGraphT(), self.s.ModelT()
        graph.tensors, graph.operators = self.tensors, self.operators
        graph.inputs = [item.index for item in self.inputs.values()]
        graph.outputs = [self._at(item) for item in outputs]
        model.version, model.subgraphs, model.buffers, model.operatorCodes = 3, [graph], self.buffers, []
        for name in self.codes:
            code = self.s.OperatorCodeT()
            code.builtinCode = getattr(self.s.BuiltinOperator, name)
            code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
            model.operatorCodes.append(code)
        size = sum(len(buffer.data) for buffer in self.buffers if buffer.data is not None)
        builder = flatbuffers.Builder(size + 2**20)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def make_model(network: Network) -> tuple[bytes, list[bool], list[bool]]:
    """The file, and which inputs and outputs are channels-last."""
    vocabulary = LiteRT()
    outputs = list(network.make(vocabulary))
    return vocabulary.model(outputs), [item.last for item in vocabulary.inputs.values()], [item.last for item in outputs]


def prepare(network: Network, threads: int, model: bytes | Path, last: Sequence[bool] = ()) -> Runnable:
    """``model``: a file or its bytes. ``last``: which outputs are channels-last; ``run`` turns them.

    ``run_bound`` runs on inputs that are in place already, and leaves the outputs there.
    """
    from ai_edge_litert.interpreter import Interpreter

    given = {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
    started = measure.clock()
    interpreter = Interpreter(num_threads=threads, **given)
    interpreter.allocate_tensors()
    built = measure.clock()
    places = interpreter.get_input_details()
    results = interpreter.get_output_details()

    def run() -> list[Array]:
        for place, array in zip(places, network.inputs.values(), strict=True):
            turned = tuple(place["shape"]) != array.shape
            interpreter.set_tensor(place["index"], np.ascontiguousarray(np.transpose(array, NHWC)) if turned else array)
        interpreter.invoke()
        arrays = [interpreter.get_tensor(place["index"]) for place in results]
        return [np.transpose(a, NCHW) if turned else a for a, turned in zip(arrays, last or [False] * len(arrays), strict=True)]

    run()
    return Runnable("LiteRT", run, built - started, measure.clock() - built, interpreter.invoke, {"interpreter": interpreter})
