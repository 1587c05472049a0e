"""GRU and LSTM: inputs that implementations got wrong, by value, type and shape."""

from __future__ import annotations

import math
import re
from typing import Any

import jax
import numpy as np
import pytest
from quick import QUICK

import webnn_xla as webnn
from webnn_xla.lowering.recurrent import UNROLLED_STEPS

Array = np.ndarray[Any, Any]

GATES = {"gru": 3, "gru_cell": 3, "lstm": 4, "lstm_cell": 4}
STEPS, BATCH, INPUTS, SIZE = 5, 2, 3, 4


def build(context: webnn.MLContext, op: str, operands: dict[str, Array], **options: Any) -> webnn.MLGraph:
    """The graph of one op on run-time inputs; outputs are named by their number."""
    builder = webnn.MLGraphBuilder(context)
    inputs = {name: builder.input(name, array.shape, array.dtype) for name, array in operands.items()}
    if not op.endswith("_cell"):
        options = {"steps": operands["input"].shape[0], **options}
    made = getattr(builder, op)(**inputs, hidden_size=operands["recurrent_weight"].shape[-1], **options)
    made = made if isinstance(made, list) else [made]
    return builder.build({str(index): operand for index, operand in enumerate(made)}, compiler_options=QUICK)


def run(context: webnn.MLContext, op: str, operands: dict[str, Array], **options: Any) -> list[Array]:
    results = build(context, op, operands, **options).compute(operands)
    outputs = [results[str(index)] for index in range(len(results))]
    assert all(output.dtype == operands["input"].dtype for output in outputs)
    return outputs


def make(op: str, *optional: str, steps: int = STEPS, directions: int = 1) -> dict[str, Array]:
    """Random operands: the required ones, and the optional ones asked for."""
    rng = np.random.default_rng(7)
    rows = GATES[op] * SIZE
    sizes = {
        "weight": (rows, INPUTS),
        "recurrent_weight": (rows, SIZE),
        "bias": (rows,),
        "recurrent_bias": (rows,),
        "peephole_weight": (3 * SIZE,),
    }
    states = ("hidden_state", "cell_state", "initial_hidden_state", "initial_cell_state")
    sizes |= dict.fromkeys(states, (BATCH, SIZE))
    required = ["weight", "recurrent_weight"]
    if op.endswith("_cell"):
        required += states[: 1 if op == "gru_cell" else 2]
        shape, leading = (BATCH, INPUTS), ()
    else:
        shape, leading = (steps, BATCH, INPUTS), (directions,)
    operands = {name: rng.uniform(-1, 1, (*leading, *sizes[name])) for name in (*required, *optional)}
    return {name: array.astype(np.float32) for name, array in {"input": rng.uniform(-1, 1, shape), **operands}.items()}


def permuted(operands: dict[str, Array], order: list[int]) -> dict[str, Array]:
    """The same network with its gates in another order."""

    def permute(array: Array, axis: int) -> Array:
        parts = np.split(array, len(order), axis)
        return np.concatenate([parts[index] for index in order], axis)

    leading = operands["weight"].ndim - 2
    gated = ("weight", "recurrent_weight", "bias", "recurrent_bias")
    return {name: permute(array, leading) if name in gated else array for name, array in operands.items()}


def close(got: list[Array], want: list[Array]) -> None:
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


# Values


def test_gru_cell_by_hand(context: webnn.MLContext) -> None:
    """z = sigmoid(0) = 0.5, r = sigmoid(ln 3) = 0.75; the reset gate applies after the product with its bias, or before."""
    operands = {
        "input": [[1]],
        "weight": [[0], [math.log(3)], [0.25]],
        "recurrent_weight": [[0], [0], [2]],
        "hidden_state": [[0.5]],
        "bias": [0, 0, 0.125],
        "recurrent_bias": [0, 0, 1],
    }
    arrays = {name: np.float32(value) for name, value in operands.items()}
    after = 0.5 * 0.5 + 0.5 * math.tanh(0.25 + 0.125 + 0.75 * (2 * 0.5 + 1))
    before = 0.5 * 0.5 + 0.5 * math.tanh(0.25 + 0.125 + 2 * (0.75 * 0.5) + 1)
    np.testing.assert_allclose(run(context, "gru_cell", arrays)[0], [[after]], rtol=1e-6)
    np.testing.assert_allclose(run(context, "gru_cell", arrays, reset_after=False)[0], [[before]], rtol=1e-6)


def test_lstm_cell_by_hand(context: webnn.MLContext) -> None:
    """Peepholes see the cell state before the step, the output gate's too."""
    operands = {
        "input": [[1]],
        "weight": [[0.1], [0.2], [0.3], [0.4]],
        "recurrent_weight": [[1], [2], [3], [4]],
        "hidden_state": [[0.5]],
        "cell_state": [[-2]],
        "bias": [0.01, 0.02, 0.03, 0.04],
        "recurrent_bias": [0.1, 0.1, 0.1, 0.1],
        "peephole_weight": [0.5, 0.25, 0.125],
    }
    arrays = {name: np.float32(value) for name, value in operands.items()}

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    i = sigmoid(0.1 + 0.5 + 0.01 + 0.1 - 2 * 0.5)
    o = sigmoid(0.2 + 1.0 + 0.02 + 0.1 - 2 * 0.25)
    f = sigmoid(0.3 + 1.5 + 0.03 + 0.1 - 2 * 0.125)
    g = math.tanh(0.4 + 2.0 + 0.04 + 0.1)
    c = f * -2 + i * g
    got = run(context, "lstm_cell", arrays)
    np.testing.assert_allclose(got, [[[o * math.tanh(c)]], [[c]]], rtol=1e-6)
    relu = run(context, "lstm_cell", arrays, activations=["sigmoid", "tanh", "relu"])
    assert relu[0].tolist() == [[0]]
    np.testing.assert_allclose(relu[1], [[c]], rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "layout", "order"),
    [
        ("gru", "rzn", [1, 0, 2]),
        ("gru_cell", "rzn", [1, 0, 2]),
        ("lstm", "ifgo", [0, 2, 3, 1]),
        ("lstm_cell", "ifgo", [0, 2, 3, 1]),
    ],
)
def test_layouts_order_the_gates_only(context: webnn.MLContext, op: str, layout: str, order: list[int]) -> None:
    """Peephole weights stay in the order input, output, forget."""
    optional = ["bias", "recurrent_bias"] + (["peephole_weight"] if op.startswith("lstm") else [])
    operands = make(op, *optional)
    for options in ({"reset_after": False}, {}) if op.startswith("gru") else ({},):
        default = run(context, op, operands, **options)
        close(run(context, op, permuted(operands, order), layout=layout, **options), default)


@pytest.mark.parametrize("steps", [1, UNROLLED_STEPS, UNROLLED_STEPS + 1])
@pytest.mark.parametrize("op", ["gru", "lstm"])
def test_directions_are_in_the_order_of_time(context: webnn.MLContext, op: str, steps: int) -> None:
    operands = make(op, "bias", "initial_hidden_state", steps=steps, directions=2)

    def of(index: int, flip: bool) -> dict[str, Array]:
        own = {name: array if name == "input" else array[index : index + 1] for name, array in operands.items()}
        return own | {"input": own["input"][::-1].copy()} if flip else own

    both = run(context, op, operands, direction="both", return_sequence=True)
    forward = run(context, op, of(0, False), return_sequence=True)
    backward = run(context, op, of(1, False), direction="backward", return_sequence=True)
    flipped = run(context, op, of(1, True), return_sequence=True)
    # Backward is forward on reversed time, its sequence reversed again; its last state is at the first step.
    close(backward, [*flipped[:-1], flipped[-1][::-1]])
    close([backward[0], forward[0]], [backward[-1][0], forward[-1][steps - 1]])
    last = [np.concatenate(pair) for pair in zip(forward[:-1], backward[:-1], strict=True)]
    close(both, [*last, np.concatenate([forward[-1], backward[-1]], 1)])
    assert both[-1].shape == (steps, 2, BATCH, SIZE)


@pytest.mark.parametrize("op", ["gru", "lstm"])
def test_cell_after_cell_is_the_network(context: webnn.MLContext, op: str) -> None:
    states = ["initial_hidden_state"] + (["initial_cell_state"] if op == "lstm" else [])
    operands = make(op, "bias", "recurrent_bias", *states)
    hidden, *rest = run(context, op, operands, return_sequence=True)
    sequence = rest.pop()
    cell = {name: array[0] for name, array in operands.items() if name != "input" and name not in states}
    cell["input"] = operands["input"][0]
    cell |= dict(zip(("hidden_state", "cell_state"), (operands[name][0] for name in states), strict=False))
    graph = build(context, f"{op}_cell", cell)
    for step in range(STEPS):
        results = graph.compute(cell | {"input": operands["input"][step]})
        now = [results[str(index)] for index in range(len(results))]
        cell |= dict(zip(("hidden_state", "cell_state"), now, strict=False))
        close([sequence[step, 0]], now[:1])
    close([hidden[0], *(state[0] for state in rest)], now)


@pytest.mark.parametrize("op", ["gru", "lstm"])
def test_states_start_at_zero(context: webnn.MLContext, op: str) -> None:
    operands = make(op)
    names = ["initial_hidden_state"] + (["initial_cell_state"] if op == "lstm" else [])
    zeros = {name: np.zeros((1, BATCH, SIZE), np.float32) for name in names}
    close(run(context, op, operands), run(context, op, operands | zeros))


def test_float16_states_stay_in_float32_between_steps(context: webnn.MLContext) -> None:
    """The cell state counts the steps: in float16 it would stay at 2048."""
    steps = 3000
    operands = {
        "input": np.zeros((steps, 1, 1), np.float16),
        "weight": np.zeros((1, 4, 1), np.float16),
        "recurrent_weight": np.zeros((1, 4, 1), np.float16),
        "bias": np.float16([[20, 20, 20, 1]]),
    }
    hidden, cell, sequence = run(context, "lstm", operands, activations=["sigmoid", "relu", "relu"], return_sequence=True)
    assert hidden.tolist() == [[[steps]]]
    assert cell.tolist() == [[[steps]]]
    assert np.array_equal(sequence.reshape(-1), np.arange(1, steps + 1).astype(np.float16))


@pytest.mark.parametrize("op", ["gru", "lstm"])
def test_products_of_float16_are_summed_in_float32(context: webnn.MLContext, op: str) -> None:
    gates = GATES[op]
    operands = {
        "input": np.ones((1, 1, 5000), np.float16),
        "weight": np.ones((1, gates, 5000), np.float16),
        "recurrent_weight": np.zeros((1, gates, 1), np.float16),
        "bias": np.full((1, gates), -5000, np.float16),
    }
    # Every gate sums to 0, or to -2952 if summed in float16.
    got = run(context, op, operands, activations=["sigmoid"] * (gates - 1))[0]
    wanted = {"gru": 0.25, "lstm": 0.5 / (1 + math.exp(-0.25))}[op]
    assert abs(float(got[0, 0, 0]) - wanted) < 2**-11


# Programs


@pytest.mark.parametrize("op", ["gru", "lstm"])
def test_many_steps_are_a_loop_with_the_input_product_outside(context: webnn.MLContext, op: str) -> None:
    def text(steps: int) -> str:
        shown: str = build(
            context, op, make(op, "bias", steps=steps, directions=2), direction="both", return_sequence=True
        ).stablehlo()
        return shown

    short, medium, long = text(UNROLLED_STEPS), text(50), text(500)
    assert "while" not in short
    assert long.count("stablehlo.while") == 2
    # For each direction: the product of the input for all steps, and that of the state for one.
    assert long.count("stablehlo.dot_general") == 4
    assert abs(len(long) - len(medium)) < 100


def test_gradients_pass_through_the_loop(context: webnn.MLContext) -> None:
    operands = make("gru", "bias", steps=UNROLLED_STEPS + 2)
    function = build(context, "gru", operands).as_function()

    def loss(bias: Any) -> Any:
        return function(**{**operands, "bias": bias})["0"].sum()

    both = jax.jit(jax.value_and_grad(loss))
    step = np.zeros_like(operands["bias"])
    step[0, 5] = 1e-2
    difference = (both(operands["bias"] + step)[0] - both(operands["bias"] - step)[0]) / 2e-2
    np.testing.assert_allclose(both(operands["bias"])[1][0, 5], difference, rtol=2e-2)


# Wrong arguments


def attempt(builder: webnn.MLGraphBuilder, op: str, changed: dict[str, Any], **options: Any) -> Any:
    """The op with all operands, some of them of other shapes (or data types)."""
    optional = ["bias", "recurrent_bias"] + (["peephole_weight"] if op.startswith("lstm") else [])
    if not op.endswith("_cell"):
        optional += ["initial_hidden_state"] + (["initial_cell_state"] if op == "lstm" else [])
        options = {"steps": STEPS, **options}
    operands: dict[str, Any] = {}
    for name, array in make(op, *optional).items():
        given = changed.get(name, list(array.shape))
        shape, kind = (array.shape, given) if isinstance(given, str) else (given, "float32")
        operands[name] = builder.input(name, shape, kind)
    return getattr(builder, op)(**operands, **{"hidden_size": SIZE, "label": "net", **options})


@pytest.mark.parametrize("op", GATES)
def test_all_operands_fit(builder: webnn.MLGraphBuilder, op: str) -> None:
    made = attempt(builder, op, {})
    shape = [BATCH, SIZE] if op.endswith("_cell") else [1, BATCH, SIZE]
    assert [each.shape for each in (made if isinstance(made, list) else [made])] == [shape] * (2 if "lstm" in op else 1)
    assert isinstance(made, list) == (op != "gru_cell")


@pytest.mark.parametrize("op", GATES)
def test_wrong_shapes(context: webnn.MLContext, op: str) -> None:
    optional = ["bias", "recurrent_bias"] + (["peephole_weight"] if op.startswith("lstm") else [])
    if not op.endswith("_cell"):
        optional += ["initial_hidden_state"] + (["initial_cell_state"] if op == "lstm" else [])
    for name, array in make(op, *optional).items():
        wrong = [[*array.shape, 1], list(array.shape[1:]), "float16", "int32"]
        if name != "input":
            wrong += [[*array.shape[:axis], array.shape[axis] + 1, *array.shape[axis + 1 :]] for axis in range(array.ndim)]
        for given in wrong:
            builder = webnn.MLGraphBuilder(context)
            with pytest.raises(webnn.ArgumentError) as caught:
                attempt(builder, op, {name: given})
            assert caught.value.operator == op
            assert caught.value.label == "net"
            if name != "input":
                assert caught.value.operand == name


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"hidden_size": 0}, "weight: got shape"),
        ({"hidden_size": SIZE + 1}, "weight: got shape"),
        ({"hidden_size": 2**32}, "hidden_size"),
        ({"layout": "nrz"}, "layout: got 'nrz'"),
        ({"activations": ["tanh"]}, "activations: got ['tanh']"),
        ({"activations": ["tanh"] * 4}, "activations"),
        ({"activations": []}, "activations: got []"),
        ({"activations": ["tanh", "gelu", "tanh"]}, "activations[1]: got 'gelu'"),
        ({"activations": "tanh"}, "activations: got 'tanh'"),
    ],
)
def test_wrong_options(builder: webnn.MLGraphBuilder, op: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(webnn.ArgumentError, match=rf"^{op} \[net\]: {re.escape(text)}"):
        attempt(builder, op, {}, **options)


@pytest.mark.parametrize("op", ["gru", "lstm"])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"steps": 0}, "steps: got 0; allowed: 1 or more"),
        ({"steps": STEPS + 1}, "steps: got 6; allowed: 5"),
        ({"direction": "both"}, "weight: got shape"),
        ({"direction": "sideways"}, "direction: got 'sideways'"),
        ({"return_sequence": 1}, "return_sequence: got 1"),
    ],
)
def test_wrong_options_over_time(builder: webnn.MLGraphBuilder, op: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(webnn.ArgumentError, match=re.escape(text)):
        attempt(builder, op, {}, **options)


@pytest.mark.parametrize(("op", "largest"), [("gru_cell", (2**31 - 1) // 6), ("lstm_cell", (2**31 - 1) // 8)])
def test_biases_in_one_tensor_must_be_a_dimension(op: str, largest: int) -> None:
    """No operand could be that large: the rule is checked alone."""
    from webnn_xla.dtypes import MLOperandDescriptor
    from webnn_xla.errors import Rejected
    from webnn_xla.lowering.recurrent import check_operands

    gates = GATES[op]

    def check(size: int) -> None:
        weight = MLOperandDescriptor("float32", [gates * size, 1])
        recurrent = MLOperandDescriptor("float32", [gates * size, size])
        check_operands(gates, (), 1, 1, size, None, 2, weight=weight, recurrent_weight=recurrent, biases={}, states={})

    check(largest)
    for size in (largest + 1, 0):
        with pytest.raises(Rejected, match=f"1 to {largest}"):
            check(size)
