"""Behaviour of programs: contexts, graphs, builders and names. See test_imperative_tensors for tensors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from imperative import FLOATS, add_graph, build, new_context, read, tensor

import webnn_xla as webnn
from webnn_xla import program

SHAPED = [("float32", [2])]


@pytest.fixture
def own() -> Iterator[webnn.MLContext]:
    """A context that the test may destroy."""
    with new_context() as made:
        yield made


# A builder builds once


def test_second_build_fails(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", FLOATS)
    y = builder.add(x, x)
    builder.build({"y": y})
    with pytest.raises(webnn.InvalidStateError, match="build"):
        builder.build({"y": y})


def test_second_build_fails_while_the_first_runs(context: webnn.MLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", FLOATS)
    y = builder.add(x, x)
    compile_stage = program.compile_stage
    errors: list[Exception] = []

    def compile_and_build_again(*arguments: Any) -> Any:
        try:
            builder.build({"y": y})
        except webnn.InvalidStateError as error:
            errors.append(error)
        return compile_stage(*arguments)

    monkeypatch.setattr(program, "compile_stage", compile_and_build_again)
    graph = builder.build({"y": y})
    assert len(errors) == 1
    assert graph.compute({"x": [1, 2]})["y"].tolist() == [2, 4]


def test_a_built_builder_makes_no_operands(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", FLOATS)
    builder.build({"y": builder.add(x, x)})
    with pytest.raises(webnn.InvalidStateError, match="sub"):
        builder.sub(x, x)
    with pytest.raises(webnn.InvalidStateError, match="sub"):
        x - x
    with pytest.raises(webnn.InvalidStateError, match="input"):
        builder.input("z", FLOATS)
    with pytest.raises(webnn.InvalidStateError, match="constant"):
        builder.constant(FLOATS, np.zeros(2, np.float32))
    with pytest.raises(webnn.InvalidStateError, match="constant"):
        builder.constant("float32", 1)


@pytest.mark.parametrize("outputs", ["input", "constant", "empty", "no name", "no operand", "no mapping", "foreign"])
def test_a_build_with_wrong_arguments_leaves_the_builder_usable(outputs: str, context: webnn.MLContext) -> None:
    builder, other = webnn.MLGraphBuilder(context), webnn.MLGraphBuilder(context)
    x = builder.input("x", FLOATS)
    one = builder.constant("float32", 1)
    y = builder.add(x, one)
    z = other.input("x", FLOATS)
    wrong: Any = {
        "input": {"y": x},
        "constant": {"y": one},
        "empty": {},
        "no name": {"": y},
        "no operand": {"y": None},
        "no mapping": [y],
        "foreign": {"y": other.add(z, z)},
    }
    with pytest.raises(TypeError, match="build") as caught:
        builder.build(wrong[outputs])
    assert isinstance(caught.value, webnn.ArgumentError)
    assert caught.value.operator == "build"
    graph = builder.build({"y": builder.mul(y, y)})
    assert graph.compute({"x": [1, 2]})["y"].tolist() == [4, 9]
    with pytest.raises(webnn.InvalidStateError):
        builder.build({"y": y})


def test_two_builders_of_one_context(context: webnn.MLContext) -> None:
    for _ in range(2):
        assert add_graph(context).compute({"lhs": [1, 2], "rhs": [3, 4]})["out"].tolist() == [4, 6]


def test_one_operand_as_two_outputs(context: webnn.MLContext) -> None:
    graph = build(context, lambda b, x: dict.fromkeys(("first", "second"), b.add(x, x)), "x")
    first, second = tensor(context, shape=[2]), tensor(context, shape=[2])
    context.dispatch(graph, {"x": tensor(context, [1, 2])}, {"first": first, "second": second})
    assert read(first) == read(second) == [2, 4]


def test_an_operand_of_another_builder_is_refused(context: webnn.MLContext) -> None:
    one, two = webnn.MLGraphBuilder(context), webnn.MLGraphBuilder(context)
    x, y = one.input("x", FLOATS), two.input("y", FLOATS)
    with pytest.raises(webnn.ArgumentError, match="another builder") as caught:
        one.add(x, y, label="sum")
    assert (caught.value.operator, caught.value.operand, caught.value.label) == ("add", "b", "sum")


# Constants keep the data that they were given


@pytest.mark.parametrize("kind", ["array", "bytearray", "view"])
def test_a_constant_does_not_follow_its_buffer(kind: str, context: webnn.MLContext) -> None:
    array = np.array([2, 3], np.float32)
    raw = bytearray(array.tobytes())
    buffer: Any = {"array": array, "bytearray": raw, "view": memoryview(raw)}[kind]
    builder = webnn.MLGraphBuilder(context)
    sum_ = builder.add(builder.constant(FLOATS, buffer), builder.input("b", FLOATS))
    array[:] = [10, 20]
    raw[:] = array.tobytes()
    graph = builder.build({"sum": sum_})
    assert graph.compute({"b": [5, 7]})["sum"].tolist() == [7, 10]


def test_a_constant_outlives_its_buffer(context: webnn.MLContext) -> None:
    buffer = memoryview(bytearray(np.array([2, 3], np.float32).tobytes()))
    builder = webnn.MLGraphBuilder(context)
    sum_ = builder.add(builder.constant(FLOATS, buffer), builder.input("b", FLOATS))
    buffer.release()
    assert builder.build({"sum": sum_}).compute({"b": [5, 7]})["sum"].tolist() == [7, 10]
    with pytest.raises(webnn.ArgumentError, match="released"):
        webnn.MLGraphBuilder(context).constant(FLOATS, buffer)


def test_constants_from_shared_memory(context: webnn.MLContext) -> None:
    # A bytearray seen through views stands for memory that others share.
    shared = bytearray(np.array([2, 3], np.float32).tobytes())
    for buffer in (shared, memoryview(shared), np.frombuffer(shared, np.float32)):
        builder = webnn.MLGraphBuilder(context)
        sum_ = builder.add(builder.constant(FLOATS, buffer), builder.input("b", FLOATS))
        assert builder.build({"sum": sum_}).compute({"b": [5, 7]})["sum"].tolist() == [7, 10]


# Making contexts


@pytest.mark.parametrize("preference", ["default", "high-performance", "low-power"])
def test_power_preferences(preference: str) -> None:
    with webnn.ML().create_context(power_preference=preference, device_type="cpu") as made:
        assert made.power_preference == preference


def test_default_context() -> None:
    with webnn.ML().create_context() as made:
        assert made.device == jax.devices()[0]


@pytest.mark.parametrize(
    "options",
    [
        {"power_preference": "auto"},
        {"power_preference": None},
        {"device_type": "npu"},
        {"precision": "low"},
        {"precision": []},
        {"max_tensor_byte_length": 0},
        {"max_tensor_byte_length": "1"},
        {"device": "cpu"},
    ],
)
def test_wrong_options_of_a_context(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as caught:
        webnn.ML().create_context(**options)
    assert isinstance(caught.value, webnn.ArgumentError)
    assert (caught.value.operator, caught.value.operand) == ("create_context", next(iter(options)))


# Destroying contexts


def test_destroy_loses_the_context(own: webnn.MLContext) -> None:
    assert not own.lost.done()
    own.destroy()
    assert isinstance(own.lost.result(timeout=0), webnn.MLContextLostInfo)
    assert own.lost.result().message
    own.destroy()


def test_lost_can_be_awaited(own: webnn.MLContext) -> None:
    async def wait() -> webnn.MLContextLostInfo:
        threading.Timer(0.01, own.destroy).start()
        return await asyncio.wrap_future(own.lost)

    assert asyncio.run(wait()).message


def test_with_destroys_the_context() -> None:
    with new_context() as made:
        pass
    assert made.lost.done()
    assert "destroyed" in repr(made)


def test_a_destroyed_context_does_nothing(own: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(own)
    x = builder.input("x", FLOATS)
    y = builder.add(x, x)
    graph = add_graph(own)
    lhs, rhs, out = (tensor(own, [1, 2]) for _ in range(3))
    own.destroy()
    attempts = [
        lambda: builder.input("z", FLOATS),
        lambda: builder.constant("float32", 1),
        lambda: builder.add(x, x),
        lambda: builder.build({"y": y}),
        lambda: webnn.MLGraphBuilder(own),
        lambda: own.dispatch(graph, {"lhs": lhs, "rhs": rhs}, {"out": out}),
        lambda: graph.compute({"lhs": [1, 2], "rhs": [1, 2]}),
        lambda: graph(lhs=lhs, rhs=rhs),
        lambda: own.create_tensor(FLOATS),
        lambda: own.create_constant_tensor(FLOATS, [1, 2]),
        lambda: own.read_tensor(out),
        lambda: own.read_tensor_async(out),
        lambda: own.write_tensor(out, [1, 2]),
        lambda: out.array,
        lambda: graph.stablehlo(),
    ]
    for attempt in attempts:
        with pytest.raises(webnn.InvalidStateError, match="destroyed"):
            attempt()
    lhs.destroy()
    graph.destroy()


def test_dispatch_before_destroy(own: webnn.MLContext) -> None:
    out = tensor(own, shape=[2])
    own.dispatch(add_graph(own), {"lhs": tensor(own, [1, 2]), "rhs": tensor(own, [3, 4])}, {"out": out})
    own.destroy()


def test_destroying_one_context_leaves_others(own: webnn.MLContext) -> None:
    with new_context() as other:
        made = tensor(own, [1, 2])
        other.destroy()
        own.write_tensor(made, np.array([3, 4], np.float32))
        assert read(made) == [3, 4]


def test_destroy_releases_device_memory(own: webnn.MLContext) -> None:
    made = tensor(own, [1, 2])
    array = made.array
    own.destroy()
    assert made._value is None
    assert array.tolist() == [1, 2]  # who holds the data keeps it


# Destroying graphs


def test_a_destroyed_graph(own: webnn.MLContext) -> None:
    graph = add_graph(own)
    lhs, rhs, out = (tensor(own, [1, 2]) for _ in range(3))
    graph.destroy()
    graph.destroy()
    for attempt in (
        lambda: own.dispatch(graph, {"lhs": lhs, "rhs": rhs}, {"out": out}),
        lambda: graph.compute({"lhs": [1, 2], "rhs": [1, 2]}),
        lambda: graph.as_function(),
        lambda: graph.cost(),
        lambda: graph.weights,
    ):
        with pytest.raises(webnn.InvalidStateError, match="the graph is destroyed"):
            attempt()
    assert "destroyed" in repr(graph)


def test_a_graph_destroyed_between_dispatch_and_read(own: webnn.MLContext) -> None:
    graph = build(own, lambda b, x: b.mul(x, b.constant("float32", 2)), "x", shape=[1])
    out = tensor(own, shape=[1])
    own.dispatch(graph, {"x": tensor(own, [2])}, {"out": out})
    graph.destroy()
    assert read(out) == [4]


def test_a_graph_of_another_context(own: webnn.MLContext, context: webnn.MLContext) -> None:
    graph = add_graph(context)
    with pytest.raises(TypeError, match="dispatch: graph"):
        own.dispatch(graph, {"lhs": tensor(own, [1, 2]), "rhs": tensor(own, [1, 2])}, {"out": tensor(own, [0, 0])})
    with pytest.raises(TypeError, match="dispatch: graph"):
        own.dispatch(None, {}, {})  # type: ignore[arg-type]


# Names


@pytest.mark.parametrize("name", ["a\0tensor", "a\u202etensor", "\n", "名", "self", "graph", " "])
def test_any_name_works(name: str, context: webnn.MLContext) -> None:
    output = f"out {name}"
    graph = build(context, lambda b, x: {output: b.mul(x, b.constant("float32", 2))}, name, shape=[1])
    out = tensor(context, shape=[1])
    context.dispatch(graph, {name: tensor(context, [1])}, {output: out})
    assert read(out) == [2]
    assert graph(**{name: np.ones(1, np.float32)})[output].tolist() == [2]
    assert graph.as_function()(**{name: np.ones(1, np.float32)})[output].tolist() == [2]


def test_names_and_labels_are_escaped_in_messages(context: webnn.MLContext) -> None:
    name = "a\0\u202eb"
    builder = webnn.MLGraphBuilder(context)
    x = builder.input(name, FLOATS)
    with pytest.raises(webnn.ArgumentError) as caught:
        builder.input(name, FLOATS)
    assert name not in str(caught.value)
    assert "a\\x00\\u202eb" in str(caught.value)
    with pytest.raises(webnn.ArgumentError) as caught:
        builder.softmax(x, 5, label=name)
    assert "softmax [a\\x00\\u202eb]: axis" in str(caught.value)
    assert caught.value.label == name
    graph = builder.build({"out": builder.add(x, x)})
    with pytest.raises(webnn.ArgumentError) as caught:
        context.dispatch(graph, {name: 1}, {"out": tensor(context, [1, 2])})  # type: ignore[dict-item]
    assert name not in str(caught.value)
    assert name not in repr(graph)


def test_labels_of_any_characters_build(context: webnn.MLContext) -> None:
    for label in ("a\0b", "\u202e", 'quote"', "a/b", "%", "\ud800"):
        graph = build(context, lambda b, x, label=label: b.add(x, x, label=label), "x")
        assert graph.compute({"x": [1, 2]})["out"].tolist() == [2, 4]


# Global pooling and reduction that keep dimensions, as in ResNet-50 V2


@pytest.mark.parametrize("head", ["average_pool2d", "reduce_mean"])
def test_head_of_resnet(head: str, context: webnn.MLContext) -> None:
    rng = np.random.default_rng(7)
    image = rng.standard_normal((1, 7, 7, 2048), np.float32)
    weight = rng.standard_normal((1001, 1, 1, 2048), np.float32)
    bias = rng.standard_normal(1001, np.float32)
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", image.shape, "float32")
    mean = (
        builder.average_pool2d(x, layout="nhwc")
        if head == "average_pool2d"
        else builder.reduce_mean(x, axes=[1, 2], keep_dimensions=True)
    )
    assert mean.shape == [1, 1, 1, 2048]
    projected = builder.conv2d(
        mean, builder.constant(weight), input_layout="nhwc", filter_layout="ohwi", bias=builder.constant(bias)
    )
    graph = builder.build({"y": builder.reshape(projected, [1, 1001])})
    y = graph.compute({"x": image})["y"]
    wanted = image.astype(np.float64).mean((1, 2)) @ weight.reshape(1001, 2048).T.astype(np.float64) + bias
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-3)
