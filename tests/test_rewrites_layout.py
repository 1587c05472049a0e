"""Channels last inside: transposes at the edges only, and the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rewriting import Comparison, assert_not_fired, positive, random

import webnn_xla as webnn
from webnn_xla.lowering.op import Target
from webnn_xla.options import CONVOLUTIONS, YNNPACK, compiler_options
from webnn_xla.rewrites.layout import channels_last

SHAPE = (2, 5, 6, 5)
CONV = (2, 4, 6, 5)


def image(b: Any, shape: tuple[int, ...] = SHAPE, name: str = "x") -> Any:
    return b.input(name, shape, "float32")


def conv(b: Any, x: Any, out: int = 4) -> Any:
    return b.conv2d(x, b.constant(random(out, x.shape[1], 3, 3)), padding=[1, 1, 1, 1])


AFTER: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda b, y: b.relu(y),
    "clamp": lambda b, y: b.clamp(y, min_value=0, max_value=1),
    "scalar": lambda b, y: y * 3.0,
    "per channel": lambda b, y: b.add(y, b.constant(random(4, 1, 1))),
    "row": lambda b, y: b.add(y, b.constant(random(5))),
    "full constant": lambda b, y: b.mul(y, b.constant(random(*CONV))),
    "broadcast input": lambda b, y: b.add(b.input("z", [6, 5], "float32"), y),
    "full input": lambda b, y: b.sub(y, b.input("z", CONV, "float32")),
    "prelu": lambda b, y: b.prelu(y, b.constant(random(4, 1, 1))),
    "where": lambda b, y: b.where(b.greater(y, b.constant("float32", 0.1)), y, b.neg(y)),
    "max pool": lambda b, y: b.max_pool2d(y, window_dimensions=[3, 2], strides=[2, 1]),
    "average pool": lambda b, y: b.average_pool2d(y, window_dimensions=[2, 2], padding=[1, 0, 0, 1]),
    "l2 pool": lambda b, y: b.l2_pool2d(y, window_dimensions=[2, 2]),
    "instance norm": lambda b, y: b.instance_normalization(y, scale=b.constant(positive(4))),
    "batch norm": lambda b, y: b.batch_normalization(y, b.constant(random(4)), b.constant(positive(4))),
    "batch norm of height": lambda b, y: b.batch_normalization(y, b.constant(random(6)), b.constant(positive(6)), axis=2),
    "concat": lambda b, y: b.concat([y, image(b, (2, 1, 6, 5), "z"), b.constant(random(2, 2, 6, 5))], 1),
    "concat of rows": lambda b, y: b.concat([y, b.relu(y)], 2),
    "split": lambda b, y: b.mul(*b.split(y, 2, axis=1)),
    "softmax": lambda b, y: b.softmax(y, 1),
    "cumulative sum": lambda b, y: b.cumulative_sum(y, 3),
    "resample": lambda b, y: b.resample2d(y, sizes=[9, 4], mode="linear"),
    "resample of other axes": lambda b, y: b.resample2d(y, sizes=[7, 8], axes=[1, 2]),
    "pad": lambda b, y: b.pad(y, [0, 1, 2, 3], [1, 0, 0, 1], mode="edge"),
    "slice": lambda b, y: b.slice(y, [0, 1, 2, 0], [2, 2, 3, 5], strides=[1, 1, 2, 3]),
    "tile": lambda b, y: b.tile(y, [1, 2, 3, 1]),
    "spatial mean": lambda b, y: b.reduce_mean(y, axes=[2, 3]),
    "kept mean": lambda b, y: b.reduce_mean(y, axes=[1], keep_dimensions=True),
    "sum of width": lambda b, y: b.reduce_sum(y, axes=[3]),
    "sum of all": lambda b, y: b.reduce_sum(y),
    "max of channels": lambda b, y: b.reduce_max(y, axes=[1]),
    "arg max": lambda b, y: b.cast(b.arg_max(y, 1), "float32"),
    "transpose": lambda b, y: b.transpose(y, permutation=[0, 2, 3, 1]),
    "other transpose": lambda b, y: b.transpose(y, permutation=[3, 1, 0, 2]),
    "reshape": lambda b, y: b.reshape(y, [2, 120]),
    "reshape of pooled": lambda b, y: b.reshape(b.average_pool2d(y), [2, 4]),
    "layer norm": lambda b, y: b.layer_normalization(y),
    "transposed convolution": lambda b, y: b.conv_transpose2d(y, b.constant(random(4, 3, 2, 2)), strides=[2, 2]),
    "grouped convolution": lambda b, y: b.conv2d(y, b.constant(random(4, 2, 3, 3)), groups=2),
    "nhwc convolution": lambda b, y: b.conv2d(y, b.constant(random(2, 5, 1, 1)), input_layout="nhwc"),
    "higher rank": lambda b, y: b.add(y, b.input("z", [3, 1, 1, 1, 1], "float32")),
    "cast": lambda b, y: b.cast(b.cast(y, "int32"), "float32"),
    "quantize": lambda b, y: b.cast(
        b.quantize_linear(y, b.constant(positive(1, 4, 1, 1)), b.constant(np.full((1, 4, 1, 1), 3, np.uint8))), "float32"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", AFTER)
def test_results_stay(context: webnn.MLContext, case: str) -> None:
    comparison = Comparison(context, lambda b: {"y": AFTER[case](b, conv(b, image(b)))}, "channels_last")
    convolutions = [node for node in comparison.rewritten._program.main.nodes if node.op.name == "conv2d"]
    assert convolutions
    assert all(node.attributes["input_layout"] == "nhwc" for node in convolutions)
    comparison.check()


@pytest.mark.parametrize(
    "case", ["relu", "per channel", "max pool", "concat of rows", "split", "resample", "pad", "slice", "full constant"]
)
def test_transposes_cancel_between_convolutions(context: webnn.MLContext, case: str) -> None:
    comparison = Comparison(context, lambda b: {"y": conv(b, AFTER[case](b, conv(b, image(b))))}, "channels_last")
    assert comparison.ops.count("transpose") == 2
    assert comparison.ops[0] == comparison.ops[-1] == "transpose"
    comparison.check()


def test_a_transpose_of_the_user_cancels(context: webnn.MLContext) -> None:
    def make(b: Any) -> Any:
        x = b.transpose(b.input("x", [2, 6, 5, 5], "float32"), permutation=[0, 3, 1, 2])
        return {"y": b.transpose(conv(b, x), permutation=[0, 2, 3, 1])}

    comparison = Comparison(context, make, "channels_last", "remove_no_ops")
    assert comparison.ops == ["conv2d"]
    comparison.check()


def test_pooled_channels_need_no_transpose(context: webnn.MLContext) -> None:
    comparison = Comparison(context, lambda b: {"y": b.reshape(b.average_pool2d(conv(b, image(b))), [2, 4])}, "channels_last")
    assert comparison.ops == ["transpose", "conv2d", "average_pool2d", "reshape"]


def test_results_in_the_middle_are_outputs_too(context: webnn.MLContext) -> None:
    def make(b: Any) -> Any:
        first = conv(b, image(b))
        return {"a": first, "b": conv(b, b.relu(first)), "c": b.reshape(first, [240])}

    comparison = Comparison(context, make, "channels_last")
    assert comparison.ops.count("transpose") == 3
    comparison.check()


def test_filters_that_are_inputs_keep_their_layout(context: webnn.MLContext) -> None:
    Comparison(context, lambda b: {"y": b.conv2d(image(b), b.input("w", [2, 5, 3, 3], "float32"))}, "channels_last").check()


def test_graphs_without_nchw_convolution_stay(context: webnn.MLContext) -> None:
    assert_not_fired(context, lambda b: {"y": b.relu(b.max_pool2d(image(b), window_dimensions=[2, 2]))}, "channels_last")
    assert_not_fired(
        context,
        lambda b: {"y": b.conv2d(b.input("x", [1, 6, 5, 3], "float32"), b.constant(random(4, 3, 3, 3)), input_layout="nhwc")},
        "channels_last",
    )
    depthwise = lambda b: {"y": b.conv2d(image(b), b.constant(random(5, 1, 3, 3)), groups=5)}  # noqa: E731
    assert_not_fired(context, depthwise, "channels_last")


def test_other_targets_stay(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    graph = builder._graph({"y": conv(builder, image(builder))})
    assert channels_last(graph, Target()) is graph
    assert channels_last(graph, Target("tpu")) is graph
    assert channels_last(graph, Target("cpu")) is not graph


def test_the_only_convolution_of_few_channels_stays(context: webnn.MLContext) -> None:
    def make(b: Any, count: int = 1) -> Any:
        y = image(b, (1, 3, 6, 5))
        for _ in range(count):
            y = conv(b, y)
        return {"y": b.relu(y)}

    assert_not_fired(context, make, "channels_last", ops=["conv2d", "relu"])
    assert Comparison(context, lambda b: make(b, 2), "channels_last").fired


@pytest.mark.parametrize(
    ("channels", "groups", "chosen"), [((3,), 1, True), ((4,), 1, True), ((5,), 1, False), ((4,), 2, False), ((3, 8), 1, False)]
)
def test_convolutions_of_few_channels_are_of_ynnpack(
    context: webnn.MLContext, channels: tuple[int, ...], groups: int, chosen: bool
) -> None:
    builder = webnn.MLGraphBuilder(context)
    made = {}
    for index, count in enumerate(channels):
        x = image(builder, (1, count, 6, 5), f"x{index}")
        weights = builder.constant(random(4, count // groups, 3, 3))
        made[f"y{index}"] = builder.conv2d(x, weights, groups=groups)
    graph = builder._graph(made)
    assert (CONVOLUTIONS in compiler_options(graph, Target("cpu"))[YNNPACK]) == chosen
    assert compiler_options(graph, Target("tpu")) == {}
