"""What the API has beyond the specification: JAX functions, weights that come later, one-call runs, device choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from imperative import FLOATS, new_context, tensor

import webnn_xla as webnn
from webnn_xla.lowering import OPS

Array = np.ndarray[Any, Any]


@pytest.fixture
def own() -> Iterator[webnn.MLContext]:
    with new_context() as made:
        yield made


def two_outputs(context: webnn.MLContext, optimize: Any = None) -> webnn.MLGraph:
    """sum = x + y, product = tanh(x @ w) with a weight named "w"."""
    builder = webnn.MLGraphBuilder(context)
    x, y = builder.input("x", [2, 3], "float32"), builder.input("y", [3], "float32")
    w = builder.constant({"data_type": "float32", "shape": [3, 2]}, WEIGHT, name="w")
    options = {} if optimize is None else {"optimize": optimize}
    return builder.build({"sum": x + y, "product": builder.tanh(x @ w, label="squash")}, **options)


WEIGHT = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
X = np.arange(6, dtype=np.float32).reshape(2, 3) / 7
Y = np.array([1, -2, 0.5], np.float32)


def product(x: Array = X, w: Array = WEIGHT) -> Array:
    return np.tanh(x.astype(np.float64) @ w)


# One call


def test_compute(context: webnn.MLContext) -> None:
    graph = two_outputs(context)
    for given in ({"x": X, "y": Y}, {"y": Y.tolist(), "x": X.tobytes()}, {"x": jax.device_put(X), "y": Y}):
        results = graph.compute(given)
        assert list(results) == ["sum", "product"]
        assert all(type(result) is np.ndarray and result.flags.writeable for result in results.values())
        np.testing.assert_array_equal(results["sum"], X + Y)
        np.testing.assert_allclose(results["product"], product(), atol=1e-6)
    np.testing.assert_array_equal(context.compute(graph, {"x": X, "y": Y})["sum"], X + Y)


def test_compute_gives_the_outputs_asked_for(context: webnn.MLContext) -> None:
    graph = two_outputs(context)
    inputs = {"x": X, "y": Y}
    assert list(graph.compute(inputs, ["product"])) == ["product"]
    assert list(graph.compute(inputs, "sum")) == ["sum"]
    assert list(context.compute(graph, inputs, ["product", "sum"])) == ["product", "sum"]
    assert graph.compute(inputs, []) == {}
    with pytest.raises(webnn.ArgumentError, match=r"compute: output_names: got 'total'; allowed: sum, product"):
        graph.compute(inputs, ["total"])


@pytest.mark.parametrize(
    ("inputs", "operand", "message"),
    [
        ({"x": X}, "inputs", "missing y"),
        ({"x": X, "y": Y, "z": Y}, "inputs", "unknown z"),
        (None, "inputs", "NoneType"),
        ({"x": X.T, "y": Y}, "x", r"\[3, 2\]"),
        ({"x": X.astype(np.float64), "y": Y}, "x", "float64"),
        ({"x": X, "y": [1, 2]}, "y", r"\[2\]"),
        ({"x": X, "y": "abc"}, "y", "str"),
        ({"x": jax.device_put(X.T), "y": Y}, "x", r"JAX array of float32\[3, 2\]"),
        ({"x": jax.device_put(X.astype(np.int32)), "y": Y}, "x", "int32"),
    ],
)
def test_wrong_inputs(inputs: Any, operand: str, message: str, context: webnn.MLContext) -> None:
    graph = two_outputs(context)
    with pytest.raises(TypeError, match=message) as caught:
        graph.compute(inputs)
    assert isinstance(caught.value, webnn.ArgumentError)
    assert (caught.value.operator, caught.value.operand) == ("compute", operand)
    if isinstance(inputs, dict):
        with pytest.raises(webnn.ArgumentError, match=message) as caught:
            graph(**inputs)
        assert caught.value.operand == operand


def test_compute_of_the_wrong_graph(own: webnn.MLContext, context: webnn.MLContext) -> None:
    with pytest.raises(webnn.ArgumentError, match="compute: graph"):
        own.compute(two_outputs(context), {"x": X, "y": Y})


def test_inputs_that_no_output_needs_are_dropped(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    x, y = builder.input("x", FLOATS), builder.input("y", FLOATS)
    builder.exp(y)
    graph = builder.build({"out": builder.neg(x)})
    assert graph.get_input_names() == ["x"]
    assert graph.get_output_names() == ["out"]
    assert graph.operation_count == 1
    assert graph.compute({"x": [1, 2]})["out"].tolist() == [-1, -2]


def test_call_on_jax_arrays(context: webnn.MLContext) -> None:
    graph = two_outputs(context)
    results = graph(x=jax.device_put(X), y=Y)
    assert all(isinstance(result, jax.Array) and result.devices() == {context.device} for result in results.values())
    np.testing.assert_array_equal(np.asarray(results["sum"]), X + Y)
    again = graph(x=results["sum"], y=Y)["sum"]
    np.testing.assert_array_equal(np.asarray(again), X + Y + Y)


def test_call_inside_of_jit_says_what_to_use(context: webnn.MLContext) -> None:
    graph = two_outputs(context)
    with pytest.raises(webnn.ArgumentError, match="as_function"):
        jax.jit(lambda x: graph(x=x, y=Y))(X)


# As a function of JAX


@pytest.mark.parametrize("optimize", [True, False])
def test_as_function_under_jit(optimize: bool, context: webnn.MLContext) -> None:
    function = two_outputs(context, optimize).as_function()
    for results in (
        function({"x": X, "y": Y}),
        function(x=X, y=Y),
        jax.jit(function)({"x": X, "y": Y}),
        jax.jit(function)(x=X, y=Y),
    ):
        assert list(results) in (["sum", "product"], ["product", "sum"])  # jit sorts
        np.testing.assert_array_equal(results["sum"], X + Y)
        np.testing.assert_allclose(results["product"], product(), atol=1e-6)


def test_as_function_under_vmap(context: webnn.MLContext) -> None:
    function = two_outputs(context).as_function()
    batch = np.stack([X, X + 1, X * 2])
    results = jax.vmap(lambda x: function(x=x, y=Y))(batch)
    assert results["sum"].shape == (3, 2, 3)
    for index in range(3):
        np.testing.assert_allclose(results["product"][index], product(batch[index]), atol=1e-6)


def test_as_function_under_grad(context: webnn.MLContext) -> None:
    function = two_outputs(context).as_function()
    gradient = jax.grad(lambda x: function(x=x, y=Y)["product"].sum())(jax.device_put(X))
    np.testing.assert_allclose(gradient, (1 - product() ** 2) @ WEIGHT.T, atol=1e-6)
    step = jax.jit(jax.value_and_grad(lambda x: function(x=x, y=Y)["sum"].sum()))
    value, ones = step(X)
    assert value == pytest.approx((X + Y).sum())
    assert (ones == 1).all()


def test_gradient_of_weights(context: webnn.MLContext) -> None:
    graph = two_outputs(context)
    function = graph.as_function(weights=True)
    weights = graph.weights
    assert list(weights) == ["w"]
    gradient = jax.grad(lambda w: function(w, {"x": X, "y": Y})["product"].sum())(weights)
    np.testing.assert_allclose(gradient["w"], X.T @ (1 - product() ** 2), atol=1e-6)
    other = {"w": np.ones((3, 2), np.float32)}
    np.testing.assert_allclose(function(other, {"x": X, "y": Y})["product"], product(w=other["w"]), atol=1e-6)
    np.testing.assert_allclose(function({}, {"x": X, "y": Y})["product"], product(), atol=1e-6)


def test_as_function_checks_its_arguments(context: webnn.MLContext) -> None:
    graph = two_outputs(context)
    function, with_weights = graph.as_function(), graph.as_function(weights=True)
    for attempt, operand, message in (
        (lambda: function(x=X), "inputs", "missing y"),
        (lambda: function(x=X, y=Y, z=Y), "inputs", "unknown z"),
        (lambda: function(x=X.T, y=Y), "x", r"float32\[3, 2\]"),
        (lambda: jax.jit(function)(x=X.T, y=Y), "x", r"float32\[3, 2\]"),
        (lambda: function(x=X.astype(np.float16), y=Y), "x", "float16"),
        (lambda: function(x=1, y=Y), "x", "int"),
        (lambda: with_weights({"v": WEIGHT}, {"x": X, "y": Y}), "weights", "unknown v"),
        (lambda: with_weights({"w": WEIGHT.T}, {"x": X, "y": Y}), "w", r"float32\[2, 3\]"),
    ):
        with pytest.raises(webnn.ArgumentError, match=message) as caught:
            attempt()
        assert (caught.value.operator, caught.value.operand) == ("as_function", operand)


def test_as_function_of_every_carried_type(context: webnn.MLContext) -> None:
    for data_type in webnn.MLOperandDataType:
        builder = webnn.MLGraphBuilder(context)
        function = builder.build({"y": builder.identity(builder.input("x", [2], data_type))}).as_function()
        value = np.array([1, 2], np.int8).astype(data_type.numpy)
        result = function(x=value)["y"]
        assert (str(result.dtype), np.asarray(result).astype(int).tolist()) == (str(data_type.carrier), [1, 2])


# Weights that come later


def later(context: webnn.MLContext, data_type: str = "float32") -> webnn.MLGraph:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [2], data_type)
    w = builder.constant({"data_type": data_type, "shape": [2]}, name="w")
    b = builder.constant({"data_type": data_type, "shape": []}, name="b")
    return builder.build({"y": x * w + b})


def test_weights_are_loaded_after_the_build(context: webnn.MLContext) -> None:
    graph = later(context)
    for attempt in (lambda: graph.compute({"x": [1, 2]}), lambda: graph(x=np.ones(2, np.float32)), lambda: graph.as_function()):
        with pytest.raises(webnn.InvalidStateError, match="2 weights are not loaded: b, w"):
            attempt()
    assert "without weights: 2" in repr(graph)
    graph.stablehlo()
    graph.load_weights({"w": [10, 100]})
    with pytest.raises(webnn.InvalidStateError, match="1 weights are not loaded: b"):
        graph.compute({"x": [1, 2]})
    graph.load_weights({"b": 5})
    assert graph.compute({"x": [1, 2]})["y"].tolist() == [15, 205]
    graph.load_weights({"w": np.array([1, 1], np.float32), "b": np.float32(0)})
    assert graph.compute({"x": [1, 2]})["y"].tolist() == [1, 2]


def test_loaded_weights_are_copied(context: webnn.MLContext) -> None:
    graph, w = later(context), np.array([1, 1], np.float32)
    graph.load_weights({"w": w, "b": 0})
    w[:] = 9
    assert graph.compute({"x": [1, 2]})["y"].tolist() == [1, 2]


def test_loaded_weights_of_64_bits_are_exact(context: webnn.MLContext) -> None:
    graph = later(context, "int64")
    graph.load_weights({"w": [1, 1], "b": 2**53})
    assert graph.compute({"x": [1, 3]})["y"].tolist() == [2**53 + 1, 2**53 + 3]
    assert np.asarray(graph.weights["b"]).item() == 2**53


@pytest.mark.parametrize(
    ("weights", "operand", "message"),
    [
        ({"w": [1, 2], "v": [1]}, "weights", "unknown names v"),
        ({"w": [1, 2, 3]}, "w", r"\[3\]"),
        ({"b": 0, "w": np.zeros(2)}, "w", "float64"),
        ([1], "weights", "list"),
    ],
)
def test_wrong_weights_load_nothing(weights: Any, operand: str, message: str, context: webnn.MLContext) -> None:
    graph = later(context)
    graph.load_weights({"w": [1, 1], "b": 7})
    with pytest.raises(webnn.ArgumentError, match=message) as caught:
        graph.load_weights(weights)
    assert (caught.value.operator, caught.value.operand) == ("load_weights", operand)
    assert graph.compute({"x": [1, 2]})["y"].tolist() == [8, 9]
    graph.load_weights({"b": 0, "unused": 1}, strict=False)
    assert graph.compute({"x": [1, 2]})["y"].tolist() == [1, 2]


def test_gradient_of_weights_that_were_never_loaded(context: webnn.MLContext) -> None:
    function = later(context).as_function(weights=True)
    weights = {"w": np.float32([2, 3]), "b": np.float32(1)}
    np.testing.assert_array_equal(function(weights, {"x": np.float32([1, 2])})["y"], [3, 7])
    with pytest.raises(webnn.ArgumentError, match="got no b"):
        function({"w": weights["w"]}, {"x": np.float32([1, 2])})


def test_a_failing_build_names_op_label_and_operand(context: webnn.MLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(a: Any, b: Any) -> Any:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(OPS["mul"], "lowering", staticmethod(broken))
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", FLOATS)
    with pytest.raises(webnn.OperationError, match="no such thing") as caught:
        builder.build({"y": builder.mul(x, x, label="square")})
    assert (caught.value.operator, caught.value.operand, caught.value.label) == ("mul", "a", "square")


def test_stablehlo_and_cost(context: webnn.MLContext) -> None:
    graph = two_outputs(context)
    text = graph.stablehlo()
    assert "stablehlo.dot_general" in text
    assert "squash" in text
    assert "squash" not in graph.stablehlo(locations=False)
    cost = graph.cost()
    assert cost.flops >= 2 * 2 * 3 * 2
    assert cost.bytes_accessed > 0
    assert cost.parameters == WEIGHT.nbytes
    assert cost.arguments >= X.nbytes + Y.nbytes + WEIGHT.nbytes
    assert cost.outputs >= X.nbytes + 16


def test_a_graph_is_described(context: webnn.MLContext) -> None:
    wanted = "<MLGraph (x: float32[2, 3], y: float32[3]) -> (sum: float32[2, 3], product: float32[2, 2]), 3 ops>"
    assert repr(two_outputs(context)) == wanted
    assert repr(tensor(context, [1, 2])) == "<MLTensor float32[2] readable writable>"


# Devices


def test_devices() -> None:
    with webnn.ML().create_context(device_type="cpu") as made:
        assert made.device.platform == "cpu"
        assert made.accelerated is False
        assert repr(made).startswith("<MLContext on cpu:0")
    with webnn.ML().create_context(accelerated=False) as made:
        assert made.accelerated is False
    with webnn.ml.create_context(device=jax.devices()[0]) as made:
        assert made.device is jax.devices()[0]
        assert made.accelerated == (jax.devices()[0].platform != "cpu")


def test_a_device_that_is_not_there_lists_those_that_are() -> None:
    there = {device.platform for device in jax.devices()}
    for absent in {"gpu", "tpu"} - there:
        with pytest.raises(
            webnn.NotSupportedError, match=f"no {absent} here; there is: .*{jax.devices()[0].platform}"
        ) as caught:
            webnn.ML().create_context(device_type=absent)
        assert (caught.value.operator, caught.value.operand) == ("create_context", "device_type")


# DLPack


def test_dlpack_gives_jax_the_same_memory(context: webnn.MLContext) -> None:
    made = tensor(context, np.arange(1024, dtype=np.float32))
    array = jax.dlpack.from_dlpack(made)
    assert array.unsafe_buffer_pointer() == made.array.unsafe_buffer_pointer()
    assert made.__dlpack_device__()[1] == context.device.id
    view = np.from_dlpack(made)
    assert view.ctypes.data == made.array.unsafe_buffer_pointer()
    context.write_tensor(made, np.zeros(1024, np.float32))
    assert array[5] == view[5] == 5  # a write binds new memory


def test_a_view_outlives_tensor_and_context(own: webnn.MLContext) -> None:
    made = tensor(own, [1, 2])
    view, array = np.from_dlpack(made), made.array
    own.destroy()
    assert view.tolist() == array.tolist() == [1, 2]


def test_compiler_options(context: webnn.MLContext) -> None:
    def build(options: dict[Any, Any], **arguments: Any) -> webnn.MLGraph:
        builder = webnn.MLGraphBuilder(context)
        x = builder.input("x", [2], "float32")
        return builder.build({"y": builder.tanh(x, label="squash")}, compiler_options=options, **arguments)

    for arguments in ({}, {"autotune": True}):
        graph = build({"xla_backend_optimization_level": 0}, **arguments)
        np.testing.assert_allclose(graph.compute({"x": np.float32([0, 1])})["y"], np.tanh([0, 1]), rtol=1e-6)
        assert graph._program.options["xla_backend_optimization_level"] == 0
    for options in ({"xla_no_such": 1}, {"xla_backend_optimization_level": "high"}):
        with pytest.raises(webnn.OperationError, match=rf"^build: compiler_options: .*{next(iter(options))}"):
            build(options)
    for options in ({1: 2}, {"xla_backend_optimization_level": [0]}):
        with pytest.raises(webnn.ArgumentError, match=r"^build: compiler_options: got .*; allowed: XLA's names"):
            build(options)
