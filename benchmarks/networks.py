"""The networks: real topologies, random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.vocabulary import Array, Network, Tensor, Vocabulary

SEED = 7


def _image(batch: int, size: int) -> dict[str, Array]:
    return {"x": np.random.default_rng(SEED).standard_normal((batch, 3, size, size), np.float32)}


def conv_bn(
    v: Vocabulary, x: Tensor, out: int, size: int, *, stride: int = 1, groups: int = 1, activation: str = "relu"
) -> Tensor:
    """Convolution, batch normalization and activation, nothing fused."""
    channels = v.shape(x)[1]
    y = v.conv(x, v.weight(out, channels // groups, size, size), stride=stride, pad=size // 2, groups=groups)
    y = v.batch_norm(y, v.weight(out, scale=0.1), v.positive(out), v.positive(out), v.weight(out, scale=0.1))
    if activation == "relu6":
        return v.relu6(y)
    if activation == "silu":
        return v.binary("mul", y, v.unary("sigmoid", y))
    return v.unary(activation, y) if activation else y


def dense(v: Vocabulary, x: Tensor, inputs: int, outputs: int) -> Tensor:
    return v.binary(
        "add",
        v.matmul(x, v.constant(v.rng.standard_normal((inputs, outputs), np.float32) / np.sqrt(np.float32(inputs)))),
        v.weight(outputs),
    )


def mobilenet_v2(v: Vocabulary, batch: int) -> Sequence[Tensor]:
    """https://arxiv.org/abs/1801.04381, table 2."""
    x = conv_bn(v, v.input("x", [batch, 3, 224, 224]), 32, 3, stride=2, activation="relu6")
    for expansion, out, repeats, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for index in range(repeats):
            y, channels = x, v.shape(x)[1]
            hidden = channels * expansion
            if expansion > 1:
                y = conv_bn(v, y, hidden, 1, activation="relu6")
            y = conv_bn(v, y, hidden, 3, stride=stride if index == 0 else 1, groups=hidden, activation="relu6")
            y = conv_bn(v, y, out, 1, activation="")
            x = v.binary("add", x, y) if v.shape(x) == v.shape(y) else y
    x = v.global_average_pool(conv_bn(v, x, 1280, 1, activation="relu6"))
    return [dense(v, v.reshape(x, [batch, 1280]), 1280, 1000)]


def resnet_50(v: Vocabulary, batch: int) -> Sequence[Tensor]:
    """https://arxiv.org/abs/1512.03385, with the stride in the 3×3 convolutions."""
    x = conv_bn(v, v.input("x", [batch, 3, 224, 224]), 64, 7, stride=2)
    x = v.max_pool(x, size=3, stride=2, pad=1)
    for width, repeats, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(repeats):
            first = index == 0
            y = conv_bn(v, x, width, 1)
            y = conv_bn(v, y, width, 3, stride=stride if first else 1)
            y = conv_bn(v, y, width * 4, 1, activation="")
            short = conv_bn(v, x, width * 4, 1, stride=stride, activation="") if first else x
            x = v.unary("relu", v.binary("add", y, short))
    x = v.global_average_pool(x)
    return [dense(v, v.reshape(x, [batch, 2048]), 2048, 1000)]


def attention(v: Vocabulary, x: Tensor, mask: Tensor | None, heads: int) -> Tensor:
    batch, length, hidden = v.shape(x)
    size = hidden // heads

    def project(order: Sequence[int]) -> Tensor:
        return v.transpose(v.reshape(dense(v, x, hidden, hidden), [batch, length, heads, size]), order)

    query, key, value = project([0, 2, 1, 3]), project([0, 2, 3, 1]), project([0, 2, 1, 3])
    scores = v.binary("mul", v.matmul(query, key), v.constant(np.asarray(size**-0.5, np.float32)))
    if mask is not None:
        scores = v.binary("add", scores, mask)
    context = v.matmul(v.softmax(scores, 3), value)
    return dense(v, v.reshape(v.transpose(context, [0, 2, 1, 3]), [batch, length, hidden]), hidden, hidden)


def _norm(v: Vocabulary, x: Tensor) -> Tensor:
    size = v.shape(x)[-1]
    return v.layer_norm(x, v.positive(size), v.weight(size))


def minilm(v: Vocabulary, batch: int, length: int = 128) -> Sequence[Tensor]:
    """all-MiniLM-L6: six layers of post-norm encoder, hidden size 384."""
    tokens = v.input("tokens", [batch, length], "int32")
    mask = v.input("mask", [batch, 1, 1, length])
    x = v.binary("add", v.gather(v.weight(30522, 384), tokens), v.weight(length, 384))
    x = _norm(v, x)
    for _ in range(6):
        x = _norm(v, v.binary("add", x, attention(v, x, mask, 12)))
        inner = v.unary("gelu", dense(v, x, 384, 1536))
        x = _norm(v, v.binary("add", x, dense(v, inner, 1536, 384)))
    return [v.reduce_mean(x, 1)]


def whisper_encoder(v: Vocabulary, batch: int, frames: int = 600) -> Sequence[Tensor]:
    """Like the encoder of Whisper tiny, on 6 seconds: two convolutions, four pre-norm layers, hidden size 384."""
    x = v.unary("gelu", v.conv(v.input("x", [batch, 80, 1, frames]), v.weight(384, 80, 1, 3), v.weight(384), pad=(0, 1)))
    x = v.unary("gelu", v.conv(x, v.weight(384, 384, 1, 3), v.weight(384), stride=(1, 2), pad=(0, 1)))
    x = v.transpose(v.reshape(x, [batch, 384, frames // 2]), [0, 2, 1])
    x = v.binary("add", x, v.weight(frames // 2, 384))
    for _ in range(4):
        x = v.binary("add", x, attention(v, _norm(v, x), None, 6))
        x = v.binary("add", x, dense(v, v.unary("gelu", dense(v, _norm(v, x), 384, 1536)), 1536, 384))
    return [_norm(v, x)]


def yolo(v: Vocabulary, batch: int, size: int = 320) -> Sequence[Tensor]:
    """Like YOLOv8 nano's backbone and neck, at half the usual image size: SiLU, split and concat, nearest resize."""

    def block(x: Tensor, out: int, repeats: int, *, shortcut: bool) -> Tensor:
        parts = v.split(conv_bn(v, x, out, 1, activation="silu"), 2, 1)
        for _ in range(repeats):
            y = conv_bn(v, parts[-1], out // 2, 3, activation="silu")
            y = conv_bn(v, y, out // 2, 3, activation="silu")
            parts.append(v.binary("add", parts[-1], y) if shortcut else y)
        return conv_bn(v, v.concat(parts, 1), out, 1, activation="silu")

    def down(x: Tensor, out: int) -> Tensor:
        return conv_bn(v, x, out, 3, stride=2, activation="silu")

    x = block(down(down(v.input("x", [batch, 3, size, size]), 16), 32), 32, 1, shortcut=True)
    small = block(down(x, 64), 64, 2, shortcut=True)
    middle = block(down(small, 128), 128, 2, shortcut=True)
    x = conv_bn(v, block(down(middle, 256), 256, 1, shortcut=True), 128, 1, activation="silu")
    pools = [x]
    for _ in range(3):
        pools.append(v.max_pool(pools[-1], size=5, stride=1, pad=2))
    large = conv_bn(v, v.concat(pools, 1), 256, 1, activation="silu")
    middle = block(v.concat([v.resize(large, 2, "nearest-neighbor"), middle], 1), 128, 1, shortcut=False)
    small = block(v.concat([v.resize(middle, 2, "nearest-neighbor"), small], 1), 64, 1, shortcut=False)
    middle = block(v.concat([down(small, 64), middle], 1), 128, 1, shortcut=False)
    return [conv_bn(v, x, 144, 1, activation="sigmoid") for x in (small, middle, large)]


def networks(batches: Sequence[int] = (1, 8)) -> list[Network]:
    """All networks at these batch sizes."""
    rng = np.random.default_rng(SEED)
    found = []
    for batch in batches:

        def add(name: str, make: Any, inputs: dict[str, Array], batch: int = batch) -> None:
            found.append(Network(name, lambda v: make(v, batch), inputs, "network", batch))

        tokens = rng.integers(0, 30522, (batch, 128)).astype(np.int32)
        add("MiniLM-L6, 128 tokens", minilm, {"tokens": tokens, "mask": np.zeros((batch, 1, 1, 128), np.float32)})
        add("MobileNetV2", mobilenet_v2, _image(batch, 224))
        add("ResNet-50", resnet_50, _image(batch, 224))
        add("YOLO-like, 320 px", yolo, _image(batch, 320))
        add("Whisper-like encoder, 6 s", whisper_encoder, {"x": rng.standard_normal((batch, 80, 1, 600), np.float32)})
    return found
