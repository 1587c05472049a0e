"""Single ops, in the shapes that networks have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.vocabulary import Array, Network, Tensor, Vocabulary

Make = Callable[..., Tensor]


def _matmul_constant(v: Vocabulary, x: Tensor, inner: int, columns: int) -> Tensor:
    return v.matmul(x, v.weight(inner, columns, scale=0.05))


def _conv(v: Vocabulary, x: Tensor, out: int, size: int, stride: int = 1, groups: int = 1) -> Tensor:
    inputs = v.shape(x)[1] // groups
    return v.conv(x, v.weight(out, inputs, size, size), v.weight(out), stride=stride, pad=size // 2, groups=groups)


def ops() -> list[Network]:
    """About 30 cases of one op each; names say the shape."""
    rng = np.random.default_rng(11)
    cases: list[Network] = []

    def add(name: str, shapes: Sequence[Sequence[int]], make: Callable[..., Any], *, positive: bool = False) -> None:
        arrays: dict[str, Array] = {}
        for letter, shape in zip("xyz", shapes, strict=False):
            array = rng.standard_normal(shape, np.float32)
            arrays[letter] = np.abs(array) + np.float32(0.1) if positive else array

        def build(v: Vocabulary) -> Sequence[Tensor]:
            made = make(v, *(v.input(letter, array.shape, str(array.dtype)) for letter, array in arrays.items()))
            return made if isinstance(made, list) else [made]

        cases.append(Network(name, build, arrays))

    image, deep = (1, 64, 56, 56), (1, 144, 56, 56)
    add("add, one number", [(8,)], lambda v, x: v.binary("add", x, v.constant(np.asarray(1, np.float32))))
    add("add 1M + 1M", [(1024, 1024)] * 2, lambda v, x, y: v.binary("add", x, y))
    add("mul broadcast row", [(1024, 1024), (1024,)], lambda v, x, y: v.binary("mul", x, y))
    add("matmul 512³, constant", [(512, 512)], lambda v, x: _matmul_constant(v, x, 512, 512))
    add("matmul 128×384×1536, constant", [(128, 384)], lambda v, x: _matmul_constant(v, x, 384, 1536))
    add("gemv 1024²", [(1, 1024)], lambda v, x: _matmul_constant(v, x, 1024, 1024))
    add("attention scores 12×128×32", [(1, 12, 128, 32), (1, 12, 32, 128)], lambda v, x, y: v.matmul(x, y))
    add("conv 3×3 64→64 @56", [image], lambda v, x: _conv(v, x, 64, 3))
    add("conv 3×3 stride 2 3→32 @224", [(1, 3, 224, 224)], lambda v, x: _conv(v, x, 32, 3, 2))
    add("conv 7×7 stride 2 3→64 @224", [(1, 3, 224, 224)], lambda v, x: _conv(v, x, 64, 7, 2))
    add("conv 1×1 64→256 @56", [image], lambda v, x: _conv(v, x, 256, 1))
    add("depthwise 3×3 144 @56", [deep], lambda v, x: _conv(v, x, 144, 3, 1, 144))
    add("depthwise 5×5 stride 2 144 @56", [deep], lambda v, x: _conv(v, x, 144, 5, 2, 144))
    add("grouped conv 3×3 g=4 64→64 @56", [image], lambda v, x: _conv(v, x, 64, 3, 1, 4))
    add("grouped conv 3×3 g=32 64→64 @56", [image], lambda v, x: _conv(v, x, 64, 3, 1, 32))
    add("transposed conv k2 s2 64→32 @56", [image], lambda v, x: v.conv_transpose(x, v.weight(64, 32, 2, 2), stride=2))
    add("transposed conv k4 s2 64→32 @56", [image], lambda v, x: v.conv_transpose(x, v.weight(64, 32, 4, 4), stride=2, pad=1))
    add("max pool 3×3 s2 64 @112", [(1, 64, 112, 112)], lambda v, x: v.max_pool(x, size=3, stride=2, pad=1))
    add("average pool 3×3 64 @56", [image], lambda v, x: v.average_pool(x, size=3, stride=1))
    add("global average pool 1280 @7", [(1, 1280, 7, 7)], lambda v, x: v.global_average_pool(x))
    add("softmax 12×128×128", [(1, 12, 128, 128)], lambda v, x: v.softmax(x, 3))
    add("layer norm 128×384", [(1, 128, 384)], lambda v, x: v.layer_norm(x, v.positive(384), v.weight(384)))
    add("batch norm 64 @56", [image], lambda v, x: v.batch_norm(x, v.weight(64), v.positive(64), v.positive(64), v.weight(64)))
    add("gelu 128×1536", [(1, 128, 1536)], lambda v, x: v.unary("gelu", x))
    add("sigmoid 1M", [(1024, 1024)], lambda v, x: v.unary("sigmoid", x))
    add("exp 1M", [(1024, 1024)], lambda v, x: v.unary("exp", x))
    add("resize 2× linear 64 @56", [image], lambda v, x: v.resize(x, 2, "linear"))
    add("resize 2× nearest 64 @56", [image], lambda v, x: v.resize(x, 2, "nearest-neighbor"))
    add("transpose 12×128×32", [(1, 128, 12, 32)], lambda v, x: v.transpose(x, [0, 2, 1, 3]))
    add("concat 2 × 64 @56", [image, image], lambda v, x, y: v.concat([x, y], 1))
    add("mean over rows 1024²", [(1024, 1024)], lambda v, x: v.reduce_mean(x, 1))
    add("cumulative sum 1024²", [(1024, 1024)], lambda v, x: v.cumulative_sum(x, 1))
    rows = rng.integers(0, 30522, (1, 128)).astype(np.int32)
    table = Network(
        "gather 128 of 30522×384", lambda v: [v.gather(v.weight(30522, 384), v.input("x", (1, 128), "int32"))], {"x": rows}
    )
    cases.append(table)
    add(
        "LSTM 64 steps × 256",
        [(64, 1, 256)],
        lambda v, x: v.lstm(x, v.weight(1, 1024, 256, scale=0.06), v.weight(1, 1024, 256, scale=0.06), v.weight(1, 1024), 256),
    )
    return cases
