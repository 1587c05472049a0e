"""Behaviour of dispatches: their order, what they leave alone, and tensors under the same names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from imperative import add_graph, build, new_context, read, tensor

import webnn_xla as webnn

COUNT = 4
LEFT_OUT = object()


@pytest.fixture
def own() -> Iterator[webnn.MLContext]:
    with new_context() as made:
        yield made


def scale_graph(context: webnn.MLContext, factor: float) -> webnn.MLGraph:
    """``out`` = ``x`` * factor, of one number."""
    return build(context, lambda b, x: b.mul(x, b.constant("float32", factor)), "x", shape=[1])


def one(context: webnn.MLContext, value: float = 0) -> webnn.MLTensor:
    return tensor(context, [value])


def results(pending: list[Any]) -> list[float]:
    return [future.result(timeout=60).item() for future in pending]


# Inputs are not modified


def test_inputs_are_not_modified_by_a_chain_of_unary_ops(context: webnn.MLContext) -> None:
    graph = build(context, lambda b, x: b.identity(b.hard_swish(x)), "x", shape=[4])
    x, out = tensor(context, [-4, -1, 1, 4]), tensor(context, shape=[4])
    context.dispatch(graph, {"x": x}, {"out": out})
    assert read(x) == [-4, -1, 1, 4]
    np.testing.assert_allclose(read(out), [0, -1 / 3, 2 / 3, 4], rtol=1e-6)


def test_inputs_are_not_modified_by_arithmetic(context: webnn.MLContext) -> None:
    graph = build(
        context, lambda b, x: b.add(b.mul(x, b.constant(np.float32([10] * 4))), b.constant("float32", 1)), "x", shape=[4]
    )
    x, out = tensor(context, [1, 2, 3, 4]), tensor(context, shape=[4])
    context.dispatch(graph, {"x": x}, {"out": out})
    assert (read(x), read(out)) == ([1, 2, 3, 4], [11, 21, 31, 41])


def test_an_output_that_is_its_input_is_a_copy_to_whoever_reads(context: webnn.MLContext) -> None:
    graph = build(context, lambda b, x: b.identity(x), "x")
    x, out = tensor(context, [1, 2]), tensor(context, shape=[2])
    context.dispatch(graph, {"x": x}, {"out": out})
    context.write_tensor(x, [3, 4])
    assert (read(x), read(out)) == ([3, 4], [1, 2])
    data = np.array([1, 2], np.float32)
    result = graph.compute({"x": data})["out"]
    data[0] = 9
    assert result.tolist() == [1, 2]
    array = graph(x=data)["out"]
    data[1] = 9
    assert array.tolist() == [9, 2]


# Dispatches run in order, whenever they are read


def test_write_dispatch_read_rounds_on_one_graph(context: webnn.MLContext) -> None:
    graph, x, out = scale_graph(context, 3), one(context), one(context)
    pending = []
    for value in range(1, COUNT + 1):
        context.write_tensor(x, [value])
        context.dispatch(graph, {"x": x}, {"out": out})
        pending.append(context.read_tensor_async(out))
    assert results(pending) == [3, 6, 9, 12]


def test_writes_first_then_dispatch_and_read_in_turn(context: webnn.MLContext) -> None:
    graph, out = scale_graph(context, 10), one(context)
    pending = []
    for x in [one(context, value) for value in range(1, COUNT + 1)]:
        context.dispatch(graph, {"x": x}, {"out": out})
        pending.append(context.read_tensor_async(out))
    assert results(pending) == [10, 20, 30, 40]


def test_all_dispatches_before_all_reads(context: webnn.MLContext) -> None:
    graph = scale_graph(context, 9)
    pairs = [(one(context, value), one(context)) for value in range(1, COUNT + 1)]
    for x, out in pairs:
        context.dispatch(graph, {"x": x}, {"out": out})
    assert results([context.read_tensor_async(out) for _, out in pairs]) == [9, 18, 27, 36]


def test_a_chain_on_one_graph(context: webnn.MLContext) -> None:
    graph = scale_graph(context, 2)
    chain = [one(context, 1), *(one(context) for _ in range(COUNT))]
    for x, out in pairwise(chain):
        context.dispatch(graph, {"x": x}, {"out": out})
    assert results([context.read_tensor_async(link) for link in chain]) == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("in_turn", [True, False])
def test_different_graphs(in_turn: bool, context: webnn.MLContext) -> None:
    graphs = [scale_graph(context, factor) for factor in range(1, COUNT + 1)]
    pairs = [(one(context, value), one(context)) for value in range(1, COUNT + 1)]
    pending = []
    for graph, (x, out) in zip(graphs, pairs, strict=True):
        context.dispatch(graph, {"x": x}, {"out": out})
        if in_turn:
            pending.append(context.read_tensor_async(out))
    assert results(pending or [context.read_tensor_async(out) for _, out in pairs]) == [1, 4, 9, 16]


def test_a_chain_of_different_graphs(context: webnn.MLContext) -> None:
    chain = [one(context, 1), *(one(context) for _ in range(COUNT))]
    for factor, x, out in zip((3, 2, 3, 2), chain, chain[1:], strict=False):
        context.dispatch(scale_graph(context, factor), {"x": x}, {"out": out})
    assert results([context.read_tensor_async(link) for link in chain]) == [1, 3, 6, 18, 36]


def test_different_graphs_on_the_same_tensors(context: webnn.MLContext) -> None:
    add, multiply = scale_graph(context, 3), build(context, lambda b, x, y: b.mul(x, y), "x", "y", shape=[1])
    a, b, c = one(context, 2), one(context, 6), one(context)
    context.dispatch(multiply, {"x": a, "y": b}, {"out": c})  # 12
    context.dispatch(add, {"x": c}, {"out": a})  # 36
    context.dispatch(multiply, {"x": a, "y": b}, {"out": c})  # 216
    first = context.read_tensor_async(c)
    context.dispatch(scale_graph(context, 12), {"x": b}, {"out": c})  # 72
    assert results([first, context.read_tensor_async(c)]) == [216, 72]


# Scalars


@pytest.mark.parametrize("data_type", ["float32", "int32"])
def test_scalar_input_constant_and_output(data_type: str, context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [], data_type)
    for constant in (
        builder.constant(data_type, 3),
        builder.constant({"data_type": data_type, "shape": []}, np.array(3, data_type)),
    ):
        sum_ = builder.add(x, constant)
        assert sum_.shape == []
    graph = builder.build({"sum": sum_})
    result = graph.compute({"x": np.array(4, data_type)})["sum"]
    assert (result.shape, result.dtype, result.item()) == ((), np.dtype(data_type), 7)


def test_scalar_input_broadcasts(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [], "int32")
    graph = builder.build({"sum": builder.add(x, builder.constant({"data_type": "int32", "shape": [4]}, [3, 2, 1, 7]))})
    assert graph.compute({"x": 4})["sum"].tolist() == [7, 6, 5, 11]


# Tensors and names: of additions and subtractions of [2]


def test_same_inputs_into_different_outputs(context: webnn.MLContext) -> None:
    graph, inputs = add_graph(context), {"lhs": tensor(context, [1, 1]), "rhs": tensor(context, [1, 1])}
    outs = [tensor(context, shape=[2]) for _ in range(2)]
    for out in outs:
        context.dispatch(graph, inputs, {"out": out})
    assert [read(out) for out in outs] == [[2, 2]] * 2


def test_different_inputs_into_the_same_output(context: webnn.MLContext) -> None:
    graph, out = add_graph(context), tensor(context, shape=[2])
    for value in (1, 2):
        context.dispatch(graph, {name: tensor(context, [value] * 2) for name in ("lhs", "rhs")}, {"out": out})
    assert read(out) == [4, 4]


def test_the_same_dispatch_twice(context: webnn.MLContext) -> None:
    graph, inputs = add_graph(context), {"lhs": tensor(context, [1, 1]), "rhs": tensor(context, [1, 1])}
    out = tensor(context, shape=[2])
    for _ in range(2):
        context.dispatch(graph, inputs, {"out": out})
    assert read(out) == [2, 2]


def test_outputs_as_inputs(context: webnn.MLContext) -> None:
    graph = build(context, lambda b, x, y: {"sum": b.add(x, y), "again": b.add(y, x)}, "x", "y")
    sides = [[tensor(context, [1, 1]) for _ in range(2)], [tensor(context, shape=[2]) for _ in range(2)]]
    seen = []
    for _ in range(3):
        context.dispatch(
            graph, dict(zip(("x", "y"), sides[0], strict=True)), dict(zip(("sum", "again"), sides[1], strict=True))
        )
        seen.append(read(sides[1][0])[0])
        sides.reverse()
    assert seen == [2, 4, 8]


def test_tensors_swapped_under_their_names(context: webnn.MLContext) -> None:
    graph = build(context, lambda b, x, y: b.sub(x, y), "x", "y")
    a, b, out = tensor(context, [5, 5]), tensor(context, [3, 3]), tensor(context, shape=[2])
    context.dispatch(graph, {"x": a, "y": b}, {"out": out})
    assert read(out) == [2, 2]
    context.dispatch(graph, {"x": b, "y": a}, {"out": out})
    assert read(out) == [-2, -2]


def test_another_tensor_under_an_output_name_leaves_the_first(context: webnn.MLContext) -> None:
    graph = build(context, lambda b, x: {"p": b.add(x, x), "q": b.mul(x, x)}, "x")
    x = tensor(context, [3, 3])
    p, q, other = (tensor(context, shape=[2]) for _ in range(3))
    context.dispatch(graph, {"x": x}, {"p": p, "q": q})
    context.write_tensor(x, [4, 4])
    context.dispatch(graph, {"x": x}, {"p": other, "q": q})
    assert (read(p), read(other), read(q)) == ([6, 6], [8, 8], [16, 16])


def test_inputs_destroyed_and_replaced(context: webnn.MLContext) -> None:
    graph, out = add_graph(context), tensor(context, shape=[2])
    for left, total in ((1, 3), (2, 4)):
        inputs = {"lhs": tensor(context, [left] * 2), "rhs": tensor(context, [2, 2])}
        context.dispatch(graph, inputs, {"out": out})
        for made in inputs.values():
            made.destroy()
        assert read(out) == [total, total]


def test_an_output_destroyed_and_replaced(context: webnn.MLContext) -> None:
    graph, inputs = add_graph(context), {"lhs": tensor(context, [1, 1]), "rhs": tensor(context, [2, 2])}
    first, second = tensor(context, shape=[2]), tensor(context, shape=[2])
    context.dispatch(graph, inputs, {"out": first})
    first.destroy()
    context.dispatch(graph, inputs, {"out": second})
    assert read(second) == [3, 3]


def test_a_failing_computation_is_told_by_the_read(context: webnn.MLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("out of memory")

    made = tensor(context, [1, 2])
    monkeypatch.setattr(context, "_to_host", fail)
    with pytest.raises(webnn.OperationError, match=r"read_tensor: .*out of memory"):
        context.read_tensor(made)
    assert isinstance(context.read_tensor_async(made).exception(timeout=60), webnn.OperationError)


# Wrong dispatches


def test_wrong_tensors_of_a_dispatch(own: webnn.MLContext, context: webnn.MLContext) -> None:
    graph = build(context, lambda b, x, y: {"sum": b.add(x, y), "product": b.mul(x, y)}, "x", "y")
    good = {name: tensor(context, [1, 2]) for name in ("x", "y", "sum", "product")}

    def dispatch(**changes: Any) -> None:
        tensors = {name: given for name, given in {**good, **changes}.items() if given is not LEFT_OUT}
        outputs = {name: tensors.pop(name) for name in ("sum", "product", "extra_out") if name in tensors}
        context.dispatch(graph, tensors, outputs)

    dispatch()
    foreign, destroyed = tensor(own, [1, 2]), tensor(context, [1, 2])
    destroyed.destroy()
    for changes, message in (
        ({"x": foreign}, r"inputs\['x'\]: got a tensor of another context"),
        ({"sum": foreign}, r"outputs\['sum'\]: got a tensor of another context"),
        ({"x": tensor(context, [1, 2, 3])}, r"float32\[3\]"),
        ({"sum": tensor(context, shape=[])}, r"float32\[\]"),
        ({"x": tensor(context, [1, 2], "int32")}, "int32"),
        ({"sum": tensor(context, [1, 2], "float16")}, "float16"),
        ({"x": LEFT_OUT}, "missing x"),
        ({"product": LEFT_OUT}, "missing product"),
        ({"z": good["x"]}, "unknown z"),
        ({"extra_out": tensor(context, [1, 2])}, "unknown extra_out"),
        ({"x": None}, "NoneType"),
        ({"x": np.zeros(2, np.float32)}, "ndarray"),
        ({"product": good["sum"]}, "a second time"),
        ({"sum": good["x"]}, "a second time"),
        ({"x": destroyed}, "destroyed"),
        ({"sum": destroyed}, "destroyed"),
    ):
        with pytest.raises(TypeError, match=message) as caught:
            dispatch(**changes)
        assert isinstance(caught.value, webnn.ArgumentError)
        assert caught.value.operator == "dispatch"
    with pytest.raises(TypeError, match="mapping"):
        context.dispatch(graph, None, {})  # type: ignore[arg-type]


def test_one_tensor_for_two_inputs_is_refused(context: webnn.MLContext) -> None:
    both, out = tensor(context, [1, 2]), tensor(context, [7, 7])
    with pytest.raises(TypeError, match="a second time"):
        context.dispatch(add_graph(context), {"lhs": both, "rhs": both}, {"out": out})
    assert read(out) == [7, 7]


# The short way of a dispatch, which starts with a graph's second one


@pytest.mark.parametrize("name", ["quotes'\"", "line\nbreak", "\\", "{}", "None", "\udc80", "é", "0"])
def test_names_of_any_kind(name: str, own: webnn.MLContext) -> None:
    builder: Any = webnn.MLGraphBuilder(own)
    graph = builder.build({name: builder.neg(builder.input(name, [1], "float32"))})
    x, out = one(own, 3), one(own)
    for _ in range(3):
        own.dispatch(graph, {name: x}, {name: out})
        assert read(out) == [-3]
        x, out = out, x
        own.dispatch(graph, {name: x}, {name: out})
        assert read(out) == [3]
        x, out = out, x


@pytest.mark.parametrize("count", [2, 3, 150, 300])
def test_many_tensors(count: int, own: webnn.MLContext) -> None:
    builder: Any = webnn.MLGraphBuilder(own)
    inputs = {f"x{index}": builder.input(f"x{index}", [1], "float32") for index in range(count)}
    every = builder.concat(list(inputs.values()), 0)
    graph = builder.build({"sum": builder.reduce_sum(every), "last": builder.slice(every, [count - 1], [1])})
    tensors = {name: one(own, index) for index, name in enumerate(inputs)}
    total, last = tensor(own, shape=[]), one(own)
    for _ in range(3):
        own.dispatch(graph, dict(reversed(tensors.items())), {"last": last, "sum": total})
        assert (read(total), read(last)) == (count * (count - 1) / 2, [count - 1])
    twice = tensors | {"x0": tensors["x1"]}
    for wrong, outputs in ((twice, {"last": last, "sum": total}), (tensors, {"last": tensors["x0"], "sum": total})):
        with pytest.raises(webnn.ArgumentError, match="a second time"):
            own.dispatch(graph, wrong, outputs)
    for wrong, outputs in ((tensors | {"other": one(own)}, {"sum": total, "last": last}), (tensors, {"sum": total})):
        with pytest.raises(webnn.ArgumentError, match=r"other|last"):
            own.dispatch(graph, wrong, outputs)


def test_weights_that_come_later_are_seen(own: webnn.MLContext) -> None:
    builder: Any = webnn.MLGraphBuilder(own)
    w = builder.constant({"data_type": "float32", "shape": [5000]}, name="w")
    graph = builder.build({"out": builder.mul(builder.input("x", [5000], "float32"), w)})
    x, out = tensor(own, [2.0] * 5000), tensor(own, shape=[5000])
    for factor in (1, 3):
        graph.load_weights({"w": np.full(5000, factor, np.float32)})
        for _ in range(2):
            own.dispatch(graph, {"x": x}, {"out": out})
            assert read(out) == [2.0 * factor] * 5000
    graph.destroy()
    with pytest.raises(webnn.InvalidStateError):
        own.dispatch(graph, {"x": x}, {"out": out})


def test_a_failed_dispatch_leaves_tensors_that_work(own: webnn.MLContext) -> None:
    graph, x, out = scale_graph(own, 2), one(own, 3), one(own)
    for _ in range(2):
        own.dispatch(graph, {"x": x}, {"out": out})
    assert read(out) == [6]
    x.array.delete()
    with pytest.raises(webnn.OperationError, match="running the graph failed"):
        own.dispatch(graph, {"x": x}, {"out": out})
    assert read(out) == [0]
    own.write_tensor(x, [4])
    own.dispatch(graph, {"x": x}, {"out": out})
    assert read(out) == [8]
