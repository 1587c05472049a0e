"""Convolutions of few channels as products with patches: where it happens, where it must not, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rewriting import Comparison, assert_not_fired, random

import webnn_xla as webnn

RULE = "few_channels_as_patches"


def convolution(
    b: Any,
    *,
    batch: int = 1,
    channels: int = 3,
    size: tuple[int, int] = (3, 3),
    layout: str = "nchw",
    filter_layout: str = "oihw",
    data_type: str = "float32",
    groups: int = 1,
    bias: bool = True,
    constant: bool = True,
    **options: Any,
) -> dict[str, Any]:
    image = {"n": batch, "c": channels, "h": 9, "w": 8}
    taps = {"o": 6, "i": channels // groups, "h": size[0], "w": size[1]}
    shape = [taps[letter] for letter in filter_layout]
    return {
        "y": b.conv2d(
            b.input("x", [image[letter] for letter in layout], data_type),
            b.constant(random(*shape, data_type=data_type)) if constant else b.input("w", shape, data_type),
            bias=b.constant(random(6, data_type=data_type)) if bias else None,
            groups=groups, input_layout=layout, filter_layout=filter_layout, **options,
        )
    }  # fmt: skip


@pytest.mark.parametrize("filter_layout", ["oihw", "hwio", "ohwi", "ihwo"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strides": [2, 2], "padding": [1, 1, 1, 1]},
        {"strides": [2, 3], "padding": [0, 2, 1, 0], "dilations": [2, 1]},
        {"size": (2, 4), "channels": 4},
        {"size": (1, 5), "channels": 1},
    ],
)
def test_patches(context: webnn.MLContext, filter_layout: str, bias: bool, options: dict[str, Any]) -> None:
    c = Comparison(context, lambda b: convolution(b, filter_layout=filter_layout, bias=bias, **options), RULE)
    assert c.fired == [RULE]
    assert "matmul" in c.ops
    assert "conv2d" not in c.ops
    c.check()


def test_infinite_inputs(context: webnn.MLContext) -> None:
    x = random(1, 3, 9, 8)
    x[0, 1, 4, 4] = np.inf
    c = Comparison(context, lambda b: convolution(b, padding=[1, 1, 1, 1]), RULE)
    got, want = (graph.compute({"x": x})["y"] for graph in (c.rewritten, c.written))
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


@pytest.mark.parametrize(
    "options",
    [
        {"batch": 2},
        {"channels": 5},
        {"channels": 4, "size": (3, 3)},
        {"size": (1, 1)},
        {"layout": "nhwc"},
        {"groups": 3},
        {"data_type": "float16"},
        {"constant": False},
    ],
)
def test_others_stay(context: webnn.MLContext, options: dict[str, Any]) -> None:
    assert_not_fired(context, lambda b: convolution(b, **options), RULE)
