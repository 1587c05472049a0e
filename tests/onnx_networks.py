"""Networks that people run in browsers, at reduced size with random weights, written as their exporters write them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
F, INT = TensorProto.FLOAT, TensorProto.INT64


class Net:
    """A graph under construction: ``net.Add(a, b)`` adds a node and gives its output's name."""

    def __init__(self, seed: int = 0, opset: int = 17, dtype: type = np.float32) -> None:
        self.random = np.random.default_rng(seed)
        self.opset, self.dtype = opset, dtype
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.prefix = ""

    def __getattr__(self, op: str) -> Any:
        return lambda *inputs, **attributes: self.node(op, *inputs, **attributes)

    def node(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        name = f"{self.prefix}{op}_{len(self.nodes)}"
        made = [f"{name}.{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, name=name, domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def weight(self, *shape: int, scale: float | None = None) -> str:
        scale = 1 / math.sqrt(shape[0]) if scale is None else scale
        return self.const(self.random.standard_normal(shape).astype(self.dtype) * self.dtype(scale), "w")

    def const(self, value: Any, name: str = "c", dtype: Any = None) -> str:
        array = np.asarray(value, dtype) if dtype is not None or isinstance(value, np.ndarray) else np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(self.dtype)
        full = f"{name}_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), full))
        return full

    def ints(self, *values: int) -> str:
        return self.const(np.array(values, np.int64))

    def input(self, name: str, shape: list[int | str], kind: int = F) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name: str, value: str, shape: list[int | str] | None = None, kind: int = F) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"out_{name}"))
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "net", self.inputs, self.outputs, self.initializers)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    # Pieces

    def linear(self, x: str, size_in: int, size_out: int, bias: bool = True) -> str:
        y = self.MatMul(x, self.weight(size_in, size_out))
        return self.Add(self.weight(size_out, scale=0.1), y) if bias else y

    def dim(self, x: str, axis: int) -> str:
        return self.Gather(self.Shape(x), self.const(np.array(axis)), axis=0)

    def layer_norm(self, x: str, size: int) -> str:
        return self.LayerNormalization(
            x, self.const(1 + 0.1 * self.random.standard_normal(size)), self.weight(size, scale=0.1), axis=-1
        )

    def old_layer_norm(self, x: str, size: int) -> str:
        """Written out, as exporters did before opset 17."""
        centred = self.Sub(x, self.ReduceMean(x, axes=[-1]))
        variance = self.ReduceMean(self.Pow(centred, self.const(2.0)), axes=[-1])
        y = self.Div(centred, self.Sqrt(self.Add(variance, self.const(1e-5))))
        return self.Add(self.Mul(y, self.const(1 + 0.1 * self.random.standard_normal(size))), self.weight(size, scale=0.1))

    def rms_norm(self, x: str, size: int) -> str:
        mean = self.ReduceMean(self.Pow(x, self.const(2.0)), axes=[-1])
        y = self.Mul(x, self.Div(self.const(1.0), self.Sqrt(self.Add(mean, self.const(1e-6)))))
        return self.Mul(self.const(1 + 0.1 * self.random.standard_normal(size)), y)

    def gelu(self, x: str) -> str:
        return self.Mul(
            self.Mul(x, self.Add(self.Erf(self.Div(x, self.const(math.sqrt(2)))), self.const(1.0))), self.const(0.5)
        )

    def gelu_tanh(self, x: str) -> str:
        cube = self.Pow(x, self.const(3.0))
        inner = self.Mul(self.Add(x, self.Mul(cube, self.const(0.044715))), self.const(math.sqrt(2 / math.pi)))
        return self.Mul(self.Mul(x, self.const(0.5)), self.Add(self.Tanh(inner), self.const(1.0)))

    def silu(self, x: str) -> str:
        return self.Mul(x, self.Sigmoid(x))

    def heads(self, x: str, heads: int, size: int) -> str:
        """[B, S, D] → [B, N, S, H], the shape computed from the input's."""
        shape = self.Concat(
            self.Unsqueeze(self.dim(x, 0), self.ints(0)),
            self.Unsqueeze(self.dim(x, 1), self.ints(0)),
            self.ints(heads),
            self.ints(size // heads),
            axis=0,
        )
        return self.Transpose(self.Reshape(x, shape), perm=[0, 2, 1, 3])

    def attend(self, q: str, k: str, v: str, heads: int, size: int, mask: str | None = None, scaled: bool = True) -> str:
        """Scaled dot-product attention on split heads, merged again."""
        scores = self.MatMul(q, self.Transpose(k, perm=[0, 1, 3, 2]))
        if scaled:
            scores = self.Div(scores, self.const(math.sqrt(size // heads)))
        if mask is not None:
            scores = self.Add(scores, mask)
        y = self.Transpose(self.MatMul(self.Softmax(scores, axis=-1), v), perm=[0, 2, 1, 3])
        return self.Reshape(y, self.ints(0, 0, size))

    def attention(self, x: str, memory: str, heads: int, size: int, mask: str | None = None) -> str:
        q, k, v = (self.heads(self.linear(t, size, size), heads, size) for t in (x, memory, memory))
        return self.linear(self.attend(q, k, v, heads, size, mask), size, size)

    def causal(self, queries: str, keys: str) -> str:
        """0 where a query may see a key, the lowest number elsewhere; sizes computed in the graph."""
        rows = self.Unsqueeze(self.Range(self.Sub(keys, queries), keys, self.const(np.array(1))), self.ints(1))
        columns = self.Unsqueeze(self.Range(self.const(np.array(0)), keys, self.const(np.array(1))), self.ints(0))
        return self.Where(self.LessOrEqual(columns, rows), self.const(0.0), self.const(float(np.finfo(self.dtype).min)))

    def cached(self, name: str, new: str, heads: int, size: int) -> str:
        """A key or value with what came before it; the whole is an output."""
        shape: list[int | str] = ["batch", heads, "past", size // heads]
        whole = self.Concat(self.input(f"past.{name}", shape), new, axis=2)
        self.output(f"present.{name}", whole)
        return whole


def gpt2(layers: int = 2, size: int = 32, heads: int = 4, words: int = 50) -> onnx.ModelProto:
    """A decoder with a KV cache; layer norms written out, opset 13."""
    net = Net(1, opset=13)
    ids = net.input("input_ids", ["batch", "seq"], INT)
    first = net.input("past.0.key", ["batch", heads, "past", size // heads])
    net.inputs.pop()
    past = net.dim(first, 2)
    length = net.dim(ids, 1)
    total = net.Add(past, length)
    places = net.Unsqueeze(net.Range(past, total, net.const(np.array(1))), net.ints(0))
    x = net.Add(net.Gather(net.weight(words, size, scale=0.5), ids), net.Gather(net.weight(64, size, scale=0.1), places))
    mask = net.causal(length, total)
    for layer in range(layers):
        h = net.old_layer_norm(x, size)
        q, k, v = net.node("Split", net.linear(h, size, 3 * size), net.ints(size, size, size), outputs=3, axis=2)
        q, k, v = (net.heads(t, heads, size) for t in (q, k, v))
        k, v = net.cached(f"{layer}.key", k, heads, size), net.cached(f"{layer}.value", v, heads, size)
        x = net.Add(x, net.linear(net.attend(q, k, v, heads, size, mask), size, size))
        h = net.linear(net.gelu_tanh(net.linear(net.old_layer_norm(x, size), size, 4 * size)), 4 * size, size)
        x = net.Add(x, h)
    net.output("logits", net.MatMul(net.old_layer_norm(x, size), net.weight(size, words)))
    return net.model()


def llama(layers: int = 2, size: int = 64, heads: int = 4, groups: int = 2, words: int = 50, bits: int = 4) -> onnx.ModelProto:
    """Grouped-query attention with rotary embedding and a cache, 4-bit weights, fused norms."""
    net = Net(2)
    h = size // heads
    ids = net.input("input_ids", ["batch", "seq"], INT)
    mask = net.input("attention_mask", ["batch", "total"], INT)
    lengths = net.Cast(net.Sub(net.ReduceSum(mask, net.ints(1), keepdims=0), net.const(np.array(1))), to=TensorProto.INT32)
    total = net.Cast(net.Squeeze(net.Slice(net.Shape(mask), net.ints(1), net.ints(2)), net.ints(0)), to=TensorProto.INT32)
    angle = np.outer(np.arange(64), 10000.0 ** (-np.arange(h // 2) / (h // 2)))
    cosine, sine = net.const(np.cos(angle)), net.const(np.sin(angle))

    def quantized(x: str, size_in: int, size_out: int) -> str:
        blocks = size_in // 32
        packed = net.random.integers(0, 256, (size_out, blocks, 32 * bits // 8)).astype(np.uint8)
        scales = net.const(net.random.uniform(0.005, 0.02, size_out * blocks))
        zeros = net.const(net.random.integers(0, 256, size_out * -(-blocks * bits // 8)).astype(np.uint8) | 0x77)
        inputs = (x, net.const(packed), scales, zeros)
        return net.node("MatMulNBits", *inputs, domain=MICROSOFT, K=size_in, N=size_out, bits=bits, block_size=32)

    x = net.Gather(net.weight(words, size, scale=0.5), ids)
    y = net.node("SimplifiedLayerNormalization", x, net.weight(size, scale=1.0), axis=-1, epsilon=1e-5)
    for layer in range(layers):
        shape: list[int | str] = ["batch", groups, "past", h]
        past = [net.input(f"past.{layer}.{part}", shape) for part in ("key", "value")]
        q, k, v = quantized(y, size, size), quantized(y, size, groups * h), quantized(y, size, groups * h)
        inputs = (q, k, v, *past, lengths, total, cosine, sine)
        attributes = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": 1}
        o, key, value = net.node("GroupQueryAttention", *inputs, outputs=3, domain=MICROSOFT, **attributes)
        net.output(f"present.{layer}.key", key)
        net.output(f"present.{layer}.value", value)
        inputs = (x, quantized(o, size, size), net.weight(size, scale=1.0))
        y, _, _, x = net.node("SkipSimplifiedLayerNormalization", *inputs, outputs=4, domain=MICROSOFT, epsilon=1e-5)
        inner = net.Mul(net.silu(quantized(y, size, 2 * size)), quantized(y, size, 2 * size))
        inputs = (x, quantized(inner, 2 * size, size), net.weight(size, scale=1.0))
        y, _, _, x = net.node("SkipSimplifiedLayerNormalization", *inputs, outputs=4, domain=MICROSOFT, epsilon=1e-5)
    net.output("logits", quantized(y, size, words))
    return net.model()


def rotary_decoder(size: int = 64, heads: int = 4) -> onnx.ModelProto:
    """Rotary embedding and multi-head attention as operators of their own, with a bias on the scores."""
    net = Net(3)
    h = size // heads
    x, bias = net.input("x", ["batch", "seq", size]), net.input("bias", [1, heads, "seq", "seq"])
    places = net.input("position_ids", ["batch", "seq"], INT)
    angle = np.outer(np.arange(64), 10000.0 ** (-np.arange(h // 2) / (h // 2)))
    tables = net.const(np.cos(angle)), net.const(np.sin(angle))
    q, k, v = (net.linear(x, size, size) for _ in range(3))
    q = net.node("RotaryEmbedding", q, places, *tables, domain=MICROSOFT, interleaved=0)
    k = net.node("RotaryEmbedding", k, places, *tables, domain=MICROSOFT, interleaved=0)
    y = net.node("MultiHeadAttention", q, k, v, "", "", bias, domain=MICROSOFT, num_heads=heads)
    net.output("y", net.linear(y, size, size))
    return net.model()


def whisper_encoder(size: int = 32, heads: int = 4, mels: int = 20, layers: int = 2, positions: int = 100) -> onnx.ModelProto:
    """Two convolutions over time, then encoder layers."""
    net = Net(4)
    x = net.input("input_features", ["batch", mels, "frames"])
    x = net.gelu(net.Conv(x, net.weight(size, mels, 3, scale=0.2), net.weight(size, scale=0.1), pads=[1, 1], kernel_shape=[3]))
    inputs = (x, net.weight(size, size, 3, scale=0.2), net.weight(size, scale=0.1))
    x = net.gelu(net.Conv(*inputs, pads=[1, 1], strides=[2], kernel_shape=[3]))
    x = net.Transpose(x, perm=[0, 2, 1])
    count = net.Unsqueeze(net.dim(x, 1), net.ints(0))
    x = net.Add(x, net.Slice(net.weight(positions, size, scale=0.1), net.ints(0), count, net.ints(0)))
    for _ in range(layers):
        h = net.layer_norm(x, size)
        x = net.Add(x, net.attention(h, h, heads, size))
        x = net.Add(x, net.linear(net.gelu(net.linear(net.layer_norm(x, size), size, 4 * size)), 4 * size, size))
    net.output("last_hidden_state", net.layer_norm(x, size))
    return net.model()


def whisper_decoder(size: int = 32, heads: int = 4, words: int = 50) -> onnx.ModelProto:
    """Self-attention with a cache, attention to the encoder's states."""
    net = Net(5)
    ids, memory = net.input("input_ids", ["batch", "seq"], INT), net.input("encoder_hidden_states", ["batch", "source", size])
    past = net.dim("past.0.key", 2)
    length = net.dim(ids, 1)
    total = net.Add(past, length)
    embedding = net.weight(words, size, scale=0.5)
    places = net.Range(past, total, net.const(np.array(1)))
    x = net.Add(net.Gather(embedding, ids), net.Gather(net.weight(64, size, scale=0.1), places))
    mask = net.causal(length, total)
    for layer in range(2):
        h = net.layer_norm(x, size)
        q, k, v = (net.heads(net.linear(h, size, size), heads, size) for _ in range(3))
        k, v = net.cached(f"{layer}.key", k, heads, size), net.cached(f"{layer}.value", v, heads, size)
        x = net.Add(x, net.linear(net.attend(q, k, v, heads, size, mask), size, size))
        x = net.Add(x, net.attention(net.layer_norm(x, size), memory, heads, size))
        x = net.Add(x, net.linear(net.gelu(net.linear(net.layer_norm(x, size), size, 4 * size)), 4 * size, size))
    net.output("logits", net.MatMul(net.layer_norm(x, size), net.Transpose(embedding, perm=[1, 0])))
    return net.model()


def whisper_first_decoder(size: int = 16, heads: int = 2, words: int = 300) -> onnx.ModelProto:
    """A layer as in ``decoder_model.onnx``: no cache comes in, the keys and values of the text and of the sound go out."""
    net = Net(13, opset=14)
    ids = net.input("input_ids", ["batch_size", "decoder_sequence_length"], INT)
    memory = net.input("encoder_hidden_states", ["batch_size", "encoder_sequence_length / 2", size])
    length = net.dim(ids, 1)
    places = net.Slice(net.weight(448, size, scale=0.7), net.ints(0), net.Unsqueeze(length, net.ints(0)), net.ints(0))
    x = net.Add(net.Gather(net.weight(words, size, scale=0.7), ids), places)
    present = {}
    for side, mask in (("decoder", net.causal(length, length)), ("encoder", None)):
        h = net.old_layer_norm(x, size)
        source = h if mask else memory
        q, k, v = (net.heads(net.linear(t, size, size), heads, size) for t in (h, source, source))
        present |= {f"present.0.{side}.key": k, f"present.0.{side}.value": v}
        x = net.Add(x, net.linear(net.attend(q, k, v, heads, size, mask), size, size))
    inner = net.gelu(net.linear(net.old_layer_norm(x, size), size, 4 * size))
    x = net.old_layer_norm(net.Add(x, net.linear(inner, 4 * size, size)), size)
    net.output("logits", net.MatMul(x, net.weight(size, words)), ["batch_size", "decoder_sequence_length", words])
    for name, value in present.items():
        net.output(name, value)
    return net.model()


def t5(size: int = 32, heads: int = 4, words: int = 50, buckets: int = 8) -> onnx.ModelProto:
    """Encoder and decoder with relative position buckets, computed in the graph; no scale, no biases."""
    net = Net(6)
    ids, mask = net.input("input_ids", ["batch", "seq"], INT), net.input("attention_mask", ["batch", "seq"], INT)
    target = net.input("decoder_input_ids", ["batch", "target"], INT)
    embedding = net.weight(words, size, scale=0.5)
    zero, one = net.const(np.array(0)), net.const(np.array(1))
    lowest = net.const(-1e9)

    def bias(length: str, both: bool) -> str:
        places = net.Range(zero, length, one)
        relative = net.Sub(net.Unsqueeze(places, net.ints(0)), net.Unsqueeze(places, net.ints(1)))
        half = buckets // 2 if both else buckets
        if both:
            base = net.Mul(net.Cast(net.Greater(relative, zero), to=INT), net.const(np.array(half)))
            distance = net.Abs(relative)
        else:
            base, distance = net.Mul(relative, zero), net.Neg(net.Min(relative, net.Mul(relative, zero)))
        exact = half // 2
        ratio = net.Div(net.Cast(distance, to=F), net.const(float(exact)))
        far = net.Mul(net.Div(net.Log(ratio), net.const(math.log(16 / exact))), net.const(float(half - exact)))
        # log 0 is -inf, whose cast nobody defines: the branch is not taken, so it is kept in range.
        far = net.Add(net.Cast(net.Max(far, net.const(0.0)), to=INT), net.const(np.array(exact)))
        far = net.Min(far, net.const(np.array(half - 1)))
        bucket = net.Add(base, net.Where(net.Less(distance, net.const(np.array(exact))), distance, far))
        table = net.Gather(net.weight(buckets, heads, scale=0.5), bucket)
        return net.Unsqueeze(net.Transpose(table, perm=[2, 0, 1]), net.ints(0))

    def attention(x: str, memory: str, extra: str | None) -> str:
        q = net.heads(net.linear(x, size, size, bias=False), heads, size)
        k, v = (net.heads(net.linear(memory, size, size, bias=False), heads, size) for _ in range(2))
        return net.linear(net.attend(q, k, v, heads, size, extra, scaled=False), size, size, bias=False)

    def feed_forward(x: str) -> str:
        h = net.rms_norm(x, size)
        gated = net.Mul(net.gelu_tanh(net.linear(h, size, 2 * size, bias=False)), net.linear(h, size, 2 * size, bias=False))
        return net.Add(x, net.linear(gated, 2 * size, size, bias=False))

    padding = net.Unsqueeze(net.Mul(net.Sub(net.const(1.0), net.Cast(mask, to=F)), lowest), net.ints(1, 2))
    x = net.Gather(embedding, ids)
    extra = net.Add(bias(net.dim(ids, 1), True), padding)
    for _ in range(2):
        h = net.rms_norm(x, size)
        x = feed_forward(net.Add(x, attention(h, h, extra)))
    memory = net.rms_norm(x, size)
    y = net.Gather(embedding, target)
    length = net.dim(target, 1)
    extra = net.Add(bias(length, False), net.causal(length, length))
    for _ in range(2):
        h = net.rms_norm(y, size)
        y = net.Add(y, attention(h, h, extra))
        y = feed_forward(net.Add(y, attention(net.rms_norm(y, size), memory, padding)))
    scaled = net.Mul(net.rms_norm(y, size), net.const(size**-0.5))
    net.output("logits", net.MatMul(scaled, net.Transpose(embedding, perm=[1, 0])))
    net.output("encoder_last_hidden_state", memory)
    return net.model()


def clip_text(size: int = 32, heads: int = 4, words: int = 50, dtype: type = np.float32) -> onnx.ModelProto:
    """Causal layers with quick GELU; the embedding is the state at the last token, found by its number."""
    net = Net(7, opset=14, dtype=dtype)
    kind = F if dtype is np.float32 else TensorProto.FLOAT16
    ids = net.input("input_ids", ["batch", "seq"], INT)
    length = net.dim(ids, 1)
    places = net.Slice(net.const(np.arange(32)[None]), net.ints(0), net.Unsqueeze(length, net.ints(0)), net.ints(1))
    x = net.Add(net.Gather(net.weight(words, size, scale=0.5), ids), net.Gather(net.weight(32, size, scale=0.1), places))
    square = net.Concat(net.Unsqueeze(length, net.ints(0)), net.Unsqueeze(length, net.ints(0)), axis=0)
    lowest = net.ConstantOfShape(square, value=numpy_helper.from_array(np.array([-1e4], dtype)))
    mask = net.Unsqueeze(net.Trilu(lowest, net.const(np.array(1)), upper=1), net.ints(0, 1))
    for _ in range(2):
        h = net.old_layer_norm(x, size)
        x = net.Add(x, net.attention(h, h, heads, size, mask))
        h = net.linear(net.old_layer_norm(x, size), size, 4 * size)
        x = net.Add(x, net.linear(net.Mul(h, net.Sigmoid(net.Mul(h, net.const(1.702)))), 4 * size, size))
    x = net.old_layer_norm(x, size)
    net.output("last_hidden_state", x, kind=kind)
    end = net.ArgMax(ids, axis=-1, keepdims=0)
    rows = net.Range(net.const(np.array(0)), net.dim(ids, 0), net.const(np.array(1)))
    index = net.Concat(net.Unsqueeze(rows, net.ints(1)), net.Unsqueeze(end, net.ints(1)), axis=1)
    y = net.MatMul(net.GatherND(x, index), net.weight(size, 16))
    net.output("text_embeds", net.Div(y, net.ReduceL2(y, axes=[-1], keepdims=1)), kind=kind)
    return net.model()


def diffusion_text_encoder(size: int = 32, heads: int = 4, words: int = 50, positions: int = 16) -> onnx.ModelProto:
    """As diffusion pipelines export it: heads folded into the batch, a mask of the lowest number made by comparison."""
    net = Net(12, opset=14)
    ids = net.input("input_ids", ["batch", "sequence"], TensorProto.INT32)
    batch, length = net.dim(ids, 0), net.dim(ids, 1)
    rows, columns = (net.Unsqueeze(n, net.ints(0)) for n in (batch, length))
    flat = net.Reshape(ids, net.Concat(net.ints(-1), columns, axis=0))
    places = net.Slice(net.const(np.arange(positions)[None]), net.ints(0), columns, net.ints(1))
    x = net.Gather(net.weight(words, size, scale=0.5), flat)
    x = net.Add(x, net.Gather(net.weight(positions, size, scale=0.1), places))
    line = net.Range(net.const(np.array(0)), length, net.const(np.array(1)))
    seen = net.Less(line, net.Reshape(net.Add(line, net.const(np.array(1))), net.Concat(columns, net.ints(1), axis=0)))
    square = net.Concat(columns, columns, axis=0)
    lowest = net.Expand(net.const(float(np.finfo(np.float32).min)), square)
    mask = net.Unsqueeze(net.Where(seen, net.const(0.0), lowest), net.ints(0, 1))
    mask = net.Expand(mask, net.Concat(rows, net.ints(1), square, axis=0))
    whole = net.Concat(rows, net.ints(heads), square, axis=0)
    each = net.Concat(net.Unsqueeze(net.Mul(batch, net.const(np.array(heads))), net.ints(0)), columns, net.ints(-1), axis=0)
    for _ in range(2):
        h = net.old_layer_norm(x, size)
        q, k, v = (net.linear(h, size, size) for _ in range(3))
        q = net.Mul(q, net.const((size // heads) ** -0.5))
        q, k, v = (net.Reshape(net.heads(t, heads, size), each) for t in (q, k, v))
        scores = net.Add(net.Reshape(net.MatMul(q, net.Transpose(k, perm=[0, 2, 1])), whole), mask)
        weights = net.Softmax(net.Reshape(scores, each), axis=-1)
        shape = net.Concat(rows, net.ints(heads), columns, net.ints(size // heads), axis=0)
        y = net.Transpose(net.Reshape(net.MatMul(weights, v), shape), perm=[0, 2, 1, 3])
        y = net.Reshape(y, net.Concat(rows, columns, net.ints(size), axis=0))
        x = net.Add(x, net.linear(y, size, size))
        h = net.linear(net.old_layer_norm(x, size), size, 4 * size)
        x = net.Add(x, net.linear(net.Mul(h, net.Sigmoid(net.Mul(h, net.const(1.702)))), 4 * size, size))
    net.output("last_hidden_state", net.old_layer_norm(x, size))
    return net.model()


def clip_image(size: int = 32, heads: int = 4, patch: int = 8) -> onnx.ModelProto:
    """Patches by convolution, a class token, layers, a projection."""
    net = Net(8)
    pixels = net.input("pixel_values", ["batch", 3, 32, 32])
    x = net.Conv(pixels, net.weight(size, 3, patch, patch, scale=0.1), kernel_shape=[patch, patch], strides=[patch, patch])
    x = net.Transpose(net.Flatten(net.Unsqueeze(x, net.ints(0)), axis=3), perm=[0, 1])
    shape = net.Concat(net.Unsqueeze(net.dim(pixels, 0), net.ints(0)), net.ints(size, -1), axis=0)
    x = net.Transpose(net.Reshape(x, shape), perm=[0, 2, 1])
    token = net.Expand(net.weight(1, 1, size), net.Concat(net.Unsqueeze(net.dim(x, 0), net.ints(0)), net.ints(1, size), axis=0))
    x = net.Add(net.Concat(token, x, axis=1), net.Gather(net.weight(17, size, scale=0.1), net.const(np.arange(17)[None])))
    x = net.layer_norm(x, size)
    for _ in range(2):
        h = net.layer_norm(x, size)
        x = net.Add(x, net.attention(h, h, heads, size))
        x = net.Add(x, net.linear(net.gelu(net.linear(net.layer_norm(x, size), size, 4 * size)), 4 * size, size))
    pooled = net.layer_norm(net.Gather(x, net.const(np.array(0)), axis=1), size)
    net.output("image_embeds", net.Gemm(pooled, net.weight(16, size), transB=1))
    return net.model()


def _group_norm(net: Net, x: str, channels: int, groups: int = 4) -> str:
    """As exporters write it: an instance normalization of the groups."""
    flat = net.Reshape(x, net.ints(0, groups, -1))
    y = net.InstanceNormalization(flat, net.const(np.ones(groups)), net.const(np.zeros(groups)), epsilon=1e-5)
    y = net.Reshape(y, net.Shape(x))
    return net.Add(net.Mul(y, net.weight(channels, 1, 1, scale=1.0)), net.weight(channels, 1, 1, scale=0.1))


def _conv(net: Net, x: str, size_in: int, size_out: int, kernel: int = 3) -> str:
    weight = net.weight(size_out, size_in, kernel, kernel, scale=1 / math.sqrt(size_in * kernel * kernel))
    half = kernel // 2
    return net.Conv(x, weight, net.weight(size_out, scale=0.1), pads=[half] * 4, kernel_shape=[kernel, kernel])


def _residual(net: Net, x: str, size_in: int, size_out: int, time: str | None = None) -> str:
    h = _conv(net, net.silu(_group_norm(net, x, size_in)), size_in, size_out)
    if time is not None:
        h = net.Add(h, net.Unsqueeze(net.linear(net.silu(time), 32, size_out), net.ints(2, 3)))
    h = _conv(net, net.silu(_group_norm(net, h, size_out)), size_out, size_out)
    return net.Add(h, x if size_in == size_out else _conv(net, x, size_in, size_out, 1))


def _spatial_attention(net: Net, x: str, channels: int, heads: int, context: str | None) -> str:
    """Attention between pixels, and to a text if there is one."""
    h = net.Transpose(net.Reshape(_group_norm(net, x, channels), net.ints(0, channels, -1)), perm=[0, 2, 1])
    y = net.Add(h, net.attention(net.layer_norm(h, channels), net.layer_norm(h, channels), heads, channels))
    if context is not None:
        y = net.Add(y, net.attention(net.layer_norm(y, channels), context, heads, channels))
        gate, value = net.node("Split", net.linear(net.layer_norm(y, channels), channels, 4 * channels), outputs=2, axis=2)
        y = net.Add(y, net.linear(net.Mul(value, net.gelu(gate)), 2 * channels, channels))
    return net.Add(x, net.Reshape(net.Transpose(y, perm=[0, 2, 1]), net.Shape(x)))


def unet(channels: int = 16, heads: int = 2) -> onnx.ModelProto:
    """A block down, a block in the middle, a block up with a skip connection; time and text as conditions."""
    net = Net(9, opset=17)
    sample, time = net.input("sample", ["batch", 4, "height", "width"]), net.input("timestep", [1], INT)
    context = net.input("encoder_hidden_states", ["batch", "seq", channels])
    frequencies = net.const(np.exp(-math.log(10000) * np.arange(16) / 16)[None])
    angle = net.Mul(net.Unsqueeze(net.Cast(time, to=F), net.ints(1)), frequencies)
    embedding = net.Concat(net.Cos(angle), net.Sin(angle), axis=-1)
    embedding = net.linear(net.silu(net.linear(embedding, 32, 32)), 32, 32)
    first = _conv(net, sample, 4, channels)
    down = _spatial_attention(net, _residual(net, first, channels, channels, embedding), channels, heads, context)
    weight = net.weight(channels, channels, 3, 3, scale=0.1)
    small = net.Conv(down, weight, pads=[1, 1, 1, 1], strides=[2, 2], kernel_shape=[3, 3])
    middle = _spatial_attention(net, _residual(net, small, channels, channels, embedding), channels, heads, context)
    scales = net.const(np.array([1, 1, 2, 2], np.float32))
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    large = _conv(net, net.Resize(middle, "", scales, **attributes), channels, channels)
    up = _residual(net, net.Concat(large, down, axis=1), 2 * channels, channels, embedding)
    net.output("out_sample", _conv(net, net.silu(_group_norm(net, up, channels)), channels, 4))
    return net.model()


def vae_decoder(channels: int = 16) -> onnx.ModelProto:
    """Latents to an image: attention in the middle, two doublings."""
    net = Net(10, opset=14)
    net.layer_norm = net.old_layer_norm  # type: ignore[method-assign]
    x = _conv(net, net.Div(net.input("latent_sample", ["batch", 4, 8, 8]), net.const(0.18215)), 4, channels)
    x = _residual(net, _spatial_attention(net, _residual(net, x, channels, channels), channels, 1, None), channels, channels)
    for _ in range(2):
        scales = net.const(np.array([1, 1, 2, 2], np.float32))
        x = net.Resize(x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        x = _residual(net, _conv(net, x, channels, channels), channels, channels)
    net.output("sample", _conv(net, net.silu(_group_norm(net, x, channels)), channels, 3))
    return net.model()


def sam_mask_decoder(size: int = 32, heads: int = 4, grid: int = 8) -> onnx.ModelProto:
    """Prompts as points, attention both ways, masks by transposed convolutions and small networks of each token's state."""
    net = Net(11)
    image = net.input("image_embeddings", [1, size, grid, grid])
    points, labels = net.input("point_coords", [1, "points", 2]), net.input("point_labels", [1, "points"])
    base = net.weight(2, size // 2, scale=1.0)

    def encoded(places: str) -> str:
        turns = net.Mul(net.MatMul(net.Sub(net.Mul(places, net.const(2.0)), net.const(1.0)), base), net.const(2 * math.pi))
        return net.Concat(net.Sin(turns), net.Cos(turns), axis=-1)

    prompts = encoded(net.Div(net.Add(points, net.const(0.5)), net.const(64.0)))
    kinds = net.Unsqueeze(labels, net.ints(2))
    for k in (-1, 0, 1):
        chosen = net.Cast(net.Equal(kinds, net.const(float(k))), to=F)
        prompts = net.Mul(prompts, net.Sub(net.const(1.0), chosen)) if k == -1 else prompts
        prompts = net.Add(prompts, net.Mul(chosen, net.weight(size, scale=0.5)))
    tokens = net.Concat(net.weight(1, 3, size, scale=0.5), prompts, axis=1)
    line = (np.arange(grid) + 0.5) / grid
    places = np.stack(np.meshgrid(line, line), axis=-1).reshape(1, -1, 2)
    position = encoded(net.const(places))
    keys = net.Transpose(net.Reshape(image, net.ints(1, size, -1)), perm=[0, 2, 1])
    queries = tokens
    for _ in range(2):
        queries = net.layer_norm(net.Add(queries, net.attention(queries, queries, heads, size)), size)
        seen = net.attention(net.Add(queries, tokens), net.Add(keys, position), heads, size)
        queries = net.layer_norm(net.Add(queries, seen), size)
        inner = net.Relu(net.linear(queries, size, 2 * size))
        queries = net.layer_norm(net.Add(queries, net.linear(inner, 2 * size, size)), size)
        keys = net.layer_norm(
            net.Add(keys, net.attention(net.Add(keys, position), net.Add(queries, tokens), heads, size)), size
        )
    pixels = net.Reshape(net.Transpose(keys, perm=[0, 2, 1]), net.ints(1, size, grid, grid))
    for size_in, size_out in ((size, 16), (16, 8)):
        weight = net.weight(size_in, size_out, 2, 2, scale=0.2)
        pixels = net.gelu(
            net.ConvTranspose(pixels, weight, net.weight(size_out, scale=0.1), strides=[2, 2], kernel_shape=[2, 2])
        )
    small = []
    for k in range(2):
        token = net.Squeeze(net.Slice(queries, net.ints(k + 1), net.ints(k + 2), net.ints(1)), net.ints(1))
        small.append(net.Unsqueeze(net.linear(net.Relu(net.linear(token, size, size)), size, 8), net.ints(1)))
    masks = net.MatMul(net.Concat(*small, axis=1), net.Reshape(pixels, net.ints(1, 8, -1)))
    masks = net.Reshape(masks, net.ints(1, 2, 4 * grid, 4 * grid))
    sizes = net.ints(1, 2, 50, 70)
    large = net.Resize(masks, "", "", sizes, mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    net.output("masks", large)
    score = net.Slice(queries, net.ints(0), net.ints(1), net.ints(1))
    net.output("iou_predictions", net.Squeeze(net.linear(net.Relu(net.linear(score, size, size)), size, 2), net.ints(1)))
    return net.model()
