"""A batch in turns: where it is split, where it must not be, and that results stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quick import QUICK
from rewriting import positive, random

import webnn_xla as webnn
from webnn_xla.graph import Graph
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites import NAMES, turns
from webnn_xla.rewrites.turns import images_in_turn

ONE, TWO = Target("cpu"), Target("cpu", cores=2)


@pytest.fixture(autouse=True)
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One image a turn, however small."""
    monkeypatch.setattr(turns, "TURN_BYTES", 0)


def record(context: webnn.MLContext, make: Callable[[Any], Mapping[str, Any]]) -> Graph:
    builder = webnn.MLGraphBuilder(context)
    return builder.build(make(builder), optimize=False, compiler_options=QUICK)._graph


def conv(b: Any, x: Any, out: int = 4, **options: Any) -> Any:
    groups = options.get("groups", 1)
    return b.conv2d(x, b.constant(random(out, x.shape[1] // groups, 3, 3)), padding=[1] * 4, **options)


def split(context: webnn.MLContext, tail: Callable[[Any, Any], Any], target: Target = TWO, batch: int = 4) -> Graph | None:
    """A depthwise convolution, and ``tail`` after it: the graph in turns, or None."""
    graph = record(context, lambda b: {"y": tail(b, conv(b, b.input("x", [batch, 4, 6, 6], "float32"), groups=4))})
    after = images_in_turn(graph, target)
    return None if after is graph else after


def check(make: Callable[[Any], Mapping[str, Any]], cores: int) -> tuple[webnn.MLGraph, webnn.MLGraph]:
    """The whole compiler with and without turns: the two give the same."""
    context = webnn.ML().create_context(device=jax.devices("cpu")[0], cache=False)
    context.target = replace(context.target, cores=cores)
    builders = [webnn.MLGraphBuilder(context) for _ in range(2)]
    in_turn, whole = (
        builder.build(make(builder), optimize=names, compiler_options=QUICK)
        for builder, names in zip(builders, (set(NAMES), set(NAMES) - {"images_in_turn"}), strict=True)
    )
    inputs = {name: random(*item.shape) for name, item in whole.input_descriptors.items()}
    want = whole.compute(inputs)
    for got in (in_turn.compute(inputs), jax.jit(in_turn.as_function())(inputs)):
        for name, wanted in want.items():
            assert got[name].dtype == wanted.dtype
            np.testing.assert_allclose(got[name], wanted, rtol=1e-3, atol=1e-3 * float(np.abs(wanted).max()))
    return in_turn, whole


def network(b: Any, batch: int = 6) -> dict[str, Any]:
    """Every op that a network of images has, some of them along other dimensions than the batch."""
    x, mask = b.input("x", [batch, 4, 8, 8], "float32"), b.input("mask", [batch, 1, 1, 8], "float32")
    y = conv(b, x, groups=4)
    y = b.batch_normalization(y, b.constant(random(4)), b.constant(positive(4)), axis=1)
    y = b.relu(b.add(y, mask))
    left, right = b.split(y, 2, axis=1)
    y = b.concat([b.mul(left, b.constant(random(1, 2, 8, 8))), b.sigmoid(right)], 1)
    y = b.add(b.max_pool2d(y, window_dimensions=[2, 2], strides=[2, 2]), b.average_pool2d(y, window_dimensions=[5, 5]))
    y = b.resample2d(b.conv_transpose2d(y, b.constant(random(4, 3, 2, 2))), scales=[2, 2], mode="linear")
    y = b.pad(b.slice(y, [0, 1, 2, 0], [batch, 2, 6, 10], strides=[1, 1, 2, 3]), [0, 0, 1, 1], [0, 0, 0, 1], mode="edge")
    y = b.instance_normalization(b.softmax(b.transpose(y, permutation=[0, 2, 3, 1]), 3), layout="nhwc")
    y = b.reverse(b.gather(y, b.constant(np.array([2, 0, 1], np.int32)), axis=2), axes=[1, 2])
    y = b.tile(
        b.expand(b.reshape(y, [batch, *y.shape[1:3], 1, y.shape[3]]), [batch, *y.shape[1:3], 2, y.shape[3]]), [1, 1, 2, 1, 1]
    )
    y = b.squeeze(b.unsqueeze(b.reduce_mean(y, axes=[3]), [3]), axes=[3])
    y = b.squeeze(b.unsqueeze(y, [3]))
    y = b.cumulative_sum(b.reduce_max(y, axes=[3], keep_dimensions=False), 2)
    y = b.layer_normalization(b.matmul(y, b.transpose(y, permutation=[0, 2, 1])))
    y = b.matmul(b.constant(random(1, 3, y.shape[1])), b.matmul(y, b.constant(random(y.shape[2], 5))))
    flat = b.reshape(y, [batch, 15])
    z = b.gemm(flat, b.constant(random(7, 15)), c=b.constant(random(7)), b_transpose=True)
    return {
        "y": b.prelu(z, b.constant(random(7))),
        "z": b.gemm(flat, b.constant(random(15, 7)), c=z),
        "mask": b.neg(mask),
        "best": b.arg_max(z, 1),
    }


@pytest.mark.parametrize(("cores", "turns_of"), [(1, (6, 1)), (2, (3, 2)), (3, (2, 3)), (4, (2, 3))])
def test_a_network_in_turns(cores: int, turns_of: tuple[int, int]) -> None:
    graph, whole = check(network, cores)
    main = graph._program.main
    assert (main.turns, main.abreast) == turns_of
    assert f"in {turns_of[0]} turns, of {turns_of[1]} × 1 of 6" in graph.fired_rewrites[0]
    assert [value.descriptor.shape[0] for value in main.inputs.values()] == [1, 1]
    assert 0.5 < graph.cost().flops / whole.cost().flops < 2
    assert [item.shape for item in graph.output_descriptors.values()] == [(6, 7), (6, 7), (6, 1, 1, 8), (6,)]


def test_turns_grow_to_a_size(context: webnn.MLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    # One image of the depthwise convolution's result takes 4 * 6 * 6 * 4 = 576 bytes.
    for size, parts in ((575, 8), (2 * 576, 4), (7 * 576, 2)):
        monkeypatch.setattr(turns, "TURN_BYTES", size)
        after = split(context, lambda b, x: b.relu(x), ONE, batch=8)
        assert after is not None
        assert (after.parts, after.turns) == (parts, parts)
    monkeypatch.setattr(turns, "TURN_BYTES", 8 * 576)
    assert split(context, lambda b, x: b.relu(x), ONE, batch=8) is None


def test_named_weights_and_their_preparation(context: webnn.MLContext) -> None:
    def make(b: Any) -> dict[str, Any]:
        w = b.constant({"data_type": "float32", "shape": [4, 1, 3, 3]}, name="w")
        y = b.conv2d(b.input("x", [4, 4, 6, 6], "float32"), w, groups=4, padding=[1] * 4)
        return {"y": b.batch_normalization(y, b.constant(random(4)), b.constant(positive(4)))}

    graphs = []
    for names in (set(NAMES), set()):
        builder = webnn.MLGraphBuilder(context)
        graphs.append(builder.build(make(builder), optimize=names, compiler_options=QUICK))
    for seed in (1, 2):
        for graph in graphs:
            graph.load_weights({"w": random(4, 1, 3, 3, seed=seed)})
        x = {"x": random(4, 4, 6, 6)}
        np.testing.assert_allclose(graphs[0].compute(x)["y"], graphs[1].compute(x)["y"], rtol=1e-4, atol=1e-5)
    w = {"w": random(4, 1, 3, 3, seed=2)}
    np.testing.assert_allclose(
        graphs[0].as_function(weights=True)(w, x)["y"], graphs[1].as_function(weights=True)(w, x)["y"], rtol=1e-4, atol=1e-5
    )


DEPENDENT: dict[str, Callable[[Any, Any], Any]] = {
    "softmax over the batch": lambda b, x: b.softmax(x, 0),
    "mean of the batch": lambda b, x: b.reduce_mean(x, axes=[0], keep_dimensions=True),
    "mean of all": lambda b, x: b.reduce_mean(x),
    "twice the batch": lambda b, x: b.concat([x, x], 0),
    "halves of the batch": lambda b, x: b.split(x, 2, axis=0)[0],
    "running sum": lambda b, x: b.cumulative_sum(x, 0),
    "batch normalization by image": lambda b, x: b.batch_normalization(
        x, b.constant(random(4)), b.constant(positive(4)), axis=0
    ),
    "layer normalization across images": lambda b, x: b.layer_normalization(x, axes=[0, 1]),
    "batch last": lambda b, x: b.transpose(x),
    "batch and channels swapped": lambda b, x: b.transpose(x, permutation=[1, 0, 2, 3]),
    "batch within rows": lambda b, x: b.reshape(x, [2, 288]),
    "a number for each image": lambda b, x: b.add(x, b.constant(random(4, 1, 1, 1))),
    "a row as long as the batch": lambda b, x: b.add(b.reshape(x, [4, 144]), b.constant(random(4, 144))),
    "resampled batch": lambda b, x: b.resample2d(x, axes=[0, 1], sizes=[4, 8]),
    "some images": lambda b, x: b.slice(x, [1, 0, 0, 0], [3, 4, 6, 6]),
    "every other image": lambda b, x: b.slice(x, [0, 0, 0, 0], [4, 4, 6, 6], strides=[2, 1, 1, 1]),
    "images reversed": lambda b, x: b.reverse(x, axes=[0]),
    "another image": lambda b, x: b.pad(x, [1, 0, 0, 0], [0, 0, 0, 0]),
    "images twice": lambda b, x: b.tile(x, [2, 1, 1, 1]),
    "images as a new dimension": lambda b, x: b.expand(x, [4, 4, 4, 6, 6]),
    "a dimension before the images": lambda b, x: b.unsqueeze(x, [0]),
    "images by number": lambda b, x: b.gather(x, b.constant(np.array([3, 0, 1, 2], np.int32))),
    "images times images": lambda b, x: b.matmul(b.reshape(x, [4, 144]), b.transpose(b.reshape(x, [4, 144]))),
    "images as columns": lambda b, x: b.gemm(b.constant(random(4, 4)), b.reshape(x, [4, 144])),
    "images transposed": lambda b, x: b.gemm(b.reshape(x, [4, 144]), b.constant(random(4, 4)), a_transpose=True),
    "rows added by image": lambda b, x: b.gemm(
        b.reshape(x, [4, 144]), b.constant(random(144, 5)), c=b.constant(random(4, 5))
    ),
    "images as filter": lambda b, x: b.conv2d(x, x),
    "a matrix for each image": lambda b, x: b.matmul(x, b.constant(random(4, 4, 6, 6))),
}  # fmt: skip


@pytest.mark.parametrize("name", DEPENDENT)
def test_not_where_images_depend_on_each_other(context: webnn.MLContext, name: str) -> None:
    assert split(context, DEPENDENT[name]) is None


def test_not_elsewhere(context: webnn.MLContext) -> None:
    tail = lambda b, x: b.relu(x)  # noqa: E731
    assert split(context, tail) is not None
    assert split(context, tail, Target("gpu", cores=2)) is None
    assert split(context, tail, Target()) is None
    assert split(context, tail, Target("cpu", cores=turns.MAX_CORES + 1)) is None
    assert split(context, tail, batch=1) is None
    without = record(context, lambda b: {"y": b.relu(b.input("x", [4, 4, 6, 6], "float32"))})
    assert images_in_turn(without, TWO) is without
    dense = record(context, lambda b: {"y": conv(b, b.input("x", [4, 64, 4, 4], "float32"), out=64)})
    assert images_in_turn(dense, ONE) is dense


def test_not_where_the_batch_is_not_what_all_begin_with(context: webnn.MLContext) -> None:
    def two_batches(b: Any) -> dict[str, Any]:
        x = conv(b, b.input("x", [4, 4, 6, 6], "float32"), groups=4)
        return {"y": b.add(x, b.input("other", [1, 4, 6, 6], "float32"))}

    def scalar_input(b: Any) -> dict[str, Any]:
        return {"y": b.mul(conv(b, b.input("x", [4, 4, 6, 6], "float32"), groups=4), b.input("factor", [], "float32"))}

    def constant_output(b: Any) -> dict[str, Any]:
        return {"y": conv(b, b.input("x", [4, 4, 6, 6], "float32"), groups=4), "c": b.neg(b.constant(random(4, 2)))}

    for make in (two_batches, scalar_input, constant_output):
        graph = record(context, make)
        assert images_in_turn(graph, TWO) is graph


def test_not_where_an_output_is_written_over_an_input(context: webnn.MLContext) -> None:
    builder: Any = webnn.MLGraphBuilder(context)
    x = builder.input("x", [4, 4, 6, 6], "float32")
    graph = builder.build({"y": conv(builder, x, groups=4)}, alias={"y": "x"}, compiler_options=QUICK)
    assert graph._program.main.parts == 1


def test_programs_of_other_batches_are_other_entries_of_the_cache(context: webnn.MLContext, tmp_path: Any) -> None:
    with webnn.ML().create_context(device_type="cpu", cache=tmp_path) as own:
        own.cache.worth_seconds = 0.0  # type: ignore[union-attr]
        for batch, hit in ((1, False), (2, False), (4, False), (4, True), (2, True)):
            builder: Any = webnn.MLGraphBuilder(own)
            graph = builder.build({"y": conv(builder, builder.input("x", [batch, 4, 6, 6], "float32"), groups=4)})
            assert graph.cache_hit is hit
            assert graph.compute({"x": random(batch, 4, 6, 6)})["y"].shape == (batch, 4, 6, 6)


@settings(max_examples=8, deadline=None)
@given(
    batch=st.integers(2, 9),
    cores=st.integers(1, 4),
    channels=st.integers(1, 5),
    stride=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_results_stay(batch: int, cores: int, channels: int, stride: int, seed: int) -> None:
    def make(b: Any) -> dict[str, Any]:
        x = b.input("x", [batch, channels, 7, 6], "float32")
        y = b.conv2d(x, b.constant(random(channels, 1, 3, 3, seed=seed)), groups=channels, strides=[stride, 1])
        return {"y": b.clamp(b.conv2d(y, b.constant(random(3, channels, 1, 1))), min_value=-1, max_value=1)}

    check(make, cores)
