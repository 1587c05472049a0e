"""References of recurrent networks: one gate, one step and one direction at a time, in float64.

The scale of a result is the largest magnitude that a gate of its feature summed, in any step so far, and at least 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from webnn_xla.conformance.reference import Array, Case, Rng, Scaled, reference
from webnn_xla.dtypes import MLOperandDataType

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


class _Gates:
    """Weights and biases of one direction, by gate; sums that remember the magnitude of their terms."""

    def __init__(self, layout: str, weight: Array, recurrent: Array, bias: Array | None, recurrent_bias: Array | None) -> None:
        size = recurrent.shape[1]
        self.scale = np.ones((1, size))
        zeros = np.zeros(len(layout) * size)
        self.weight: dict[str, Array] = {}
        self.recurrent: dict[str, Array] = {}
        self.bias: dict[str, Array] = {}
        self.recurrent_bias: dict[str, Array] = {}
        for index, name in enumerate(layout):
            rows = slice(index * size, (index + 1) * size)
            self.weight[name] = weight[rows]
            self.recurrent[name] = recurrent[rows]
            self.bias[name] = (zeros if bias is None else bias)[rows]
            self.recurrent_bias[name] = (zeros if recurrent_bias is None else recurrent_bias)[rows]

    def input(self, name: str, x: Array) -> Array:
        self._measure(np.abs(x) @ np.abs(self.weight[name]).T + np.abs(self.bias[name]))
        return x @ self.weight[name].T + self.bias[name]

    def state(self, name: str, h: Array) -> Array:
        self._measure(np.abs(h) @ np.abs(self.recurrent[name]).T + np.abs(self.recurrent_bias[name]))
        return h @ self.recurrent[name].T + self.recurrent_bias[name]

    def _measure(self, magnitude: Array) -> None:
        self.scale = np.maximum(self.scale, magnitude)


def _gru_step(gates: _Gates, x: Array, h: Array, reset_after: bool, activations: Any) -> Array:
    f, g = (FUNCTIONS[name] for name in activations or ("sigmoid", "tanh"))
    z = f(gates.input("z", x) + gates.state("z", h))
    r = f(gates.input("r", x) + gates.state("r", h))
    n = g(gates.input("n", x) + (r * gates.state("n", h) if reset_after else gates.state("n", r * h)))
    gates._measure(np.abs(z * h) + np.abs(n) + np.abs(z * n))
    return np.asarray(z * h + (1 - z) * n)


def _lstm_step(gates: _Gates, x: Array, h: Array, c: Array, peephole: Array | None, activations: Any) -> tuple[Array, Array]:
    f, g, filtered = (FUNCTIONS[name] for name in activations or ("sigmoid", "tanh", "tanh"))
    size = h.shape[1]
    peep = np.zeros(3 * size) if peephole is None else peephole
    seen = {name: c * peep[index * size : (index + 1) * size] for index, name in enumerate("iof")}
    opened = {name: f(gates.input(name, x) + gates.state(name, h) + seen[name]) for name in "iof"}
    candidate = g(gates.input("g", x) + gates.state("g", h))
    gates._measure(np.abs(opened["f"] * c) + np.abs(opened["i"] * candidate))
    c = opened["f"] * c + opened["i"] * candidate
    return opened["o"] * filtered(c), c


def _order(direction: str, steps: int) -> list[list[int]]:
    """The steps of each direction, in the order in which they are taken."""
    forward = list(range(steps))
    return {"forward": [forward], "backward": [forward[::-1]], "both": [forward, forward[::-1]]}[direction]


def _of(operand: Array | None, index: int) -> Array | None:
    return None if operand is None else operand[index]


# Cases


def _weights(rng: Rng, gates: int, directions: tuple[int, ...], inputs: int, size: int, *present: str) -> dict[str, Array]:
    """Weights and the optional operands that are asked for; a batch size of 2 where one is needed."""
    sizes = {
        "weight": (gates * size, inputs),
        "recurrent_weight": (gates * size, size),
        "bias": (gates * size,),
        "recurrent_bias": (gates * size,),
        "peephole_weight": (3 * size,),
    }
    states = ("hidden_state", "cell_state", "initial_hidden_state", "initial_cell_state")
    sizes |= dict.fromkeys(states, (2, size))
    return {name: rng.uniform(-1, 1, (*directions, *sizes[name])) for name in ("weight", "recurrent_weight", *present)}


def _subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for chosen in product((False, True), repeat=len(names)):
        yield tuple(name for name, present in zip(names, chosen, strict=True) if present)


def _gru_cell_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    for present in _subsets(("bias", "recurrent_bias")):
        for reset_after, layout in product((True, False), ("zrn", "rzn")):
            operands = {"input": rng.uniform(-1, 1, (2, 3)), **_weights(rng, 3, (), 3, 4, "hidden_state", *present)}
            yield Case(operands, {"hidden_size": 4, "reset_after": reset_after, "layout": layout})
    operands = {"input": rng.uniform(-1, 1, (2, 3)), **_weights(rng, 3, (), 3, 4, "hidden_state", "bias", "recurrent_bias")}
    yield Case(operands, {"hidden_size": 4}, note="default options")
    for activations in product(FUNCTIONS, repeat=2):
        yield Case(operands, {"hidden_size": 4, "activations": list(activations)})
    one = {"input": rng.uniform(-1, 1, (2, 1)), **_weights(rng, 3, (), 1, 1, "hidden_state")}
    yield Case(one, {"hidden_size": 1, "reset_after": False}, note="size 1")
    wide = {"input": rng.uniform(-1, 1, (2, 300)), **_weights(rng, 3, (), 300, 50, "hidden_state")}
    yield Case(wide, {"hidden_size": 50}, note="many")


def _runs() -> Iterator[tuple[int, int, str, int]]:
    """A counter, steps on either side of where loops begin, directions and their number: two runs of each."""
    for index, (steps, direction, _) in enumerate(product((1, 4, 5), ("forward", "backward", "both"), range(2))):
        yield index, steps, direction, 2 if direction == "both" else 1


def _gru_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    subsets = list(_subsets(("bias", "recurrent_bias", "initial_hidden_state")))
    choices = list(product((True, False), (False, True), ("zrn", "rzn")))
    for index, steps, direction, directions in _runs():
        present = subsets[(5 * index + 1) % len(subsets)]
        operands = {"input": rng.uniform(-1, 1, (steps, 2, 3)), **_weights(rng, 3, (directions,), 3, 4, *present)}
        reset_after, return_sequence, layout = choices[index % len(choices)]
        options = {
            "steps": steps,
            "hidden_size": 4,
            "direction": direction,
            "reset_after": reset_after,
            "return_sequence": return_sequence,
            "layout": layout,
        }
        yield Case(operands, options)
    operands = {"input": rng.uniform(-1, 1, (6, 2, 3)), **_weights(rng, 3, (1,), 3, 4, "bias", "recurrent_bias")}
    yield Case(operands, {"steps": 6, "hidden_size": 4}, note="default options")
    # Small, so that states do not grow where the functions have no bounds, and rounding errors with them.
    operands = {name: value * 0.3 for name, value in operands.items()}
    for activations in (["tanh", "sigmoid"], ["sigmoid", "relu"], ["relu", "tanh"]):
        yield Case(operands, {"steps": 6, "hidden_size": 4, "activations": activations, "return_sequence": True})
    long = {"input": rng.uniform(-1, 1, (60, 2, 5)), **_weights(rng, 3, (2,), 5, 16, "bias", "recurrent_bias")}
    yield Case(long, {"steps": 60, "hidden_size": 16, "direction": "both", "return_sequence": True}, note="many")


def _lstm_cell_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    states = ("hidden_state", "cell_state")
    optional = ("bias", "recurrent_bias", "peephole_weight")
    for present in _subsets(optional):
        for layout in ("iofg", "ifgo"):
            operands = {"input": rng.uniform(-1, 1, (2, 3)), **_weights(rng, 4, (), 3, 4, *states, *present)}
            yield Case(operands, {"hidden_size": 4, "layout": layout})
    operands = {"input": rng.uniform(-1, 1, (2, 3)), **_weights(rng, 4, (), 3, 4, *states, *optional)}
    yield Case(operands, {"hidden_size": 4}, note="default options")
    for activations in list(product(FUNCTIONS, repeat=3))[::2]:
        yield Case(operands, {"hidden_size": 4, "activations": list(activations)})
    yield Case({"input": rng.uniform(-1, 1, (2, 1)), **_weights(rng, 4, (), 1, 1, *states)}, {"hidden_size": 1}, note="size 1")
    yield Case(
        {"input": rng.uniform(-1, 1, (2, 300)), **_weights(rng, 4, (), 300, 50, *states)}, {"hidden_size": 50}, note="many"
    )


def _lstm_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    optional = ("bias", "recurrent_bias", "peephole_weight", "initial_hidden_state", "initial_cell_state")
    subsets: list[tuple[str, ...]] = [(), *((name,) for name in optional), optional[:3], optional[3:], optional]
    choices = list(product((False, True), ("iofg", "ifgo")))
    for index, steps, direction, directions in _runs():
        present = subsets[index % len(subsets)]
        operands = {"input": rng.uniform(-1, 1, (steps, 2, 3)), **_weights(rng, 4, (directions,), 3, 4, *present)}
        return_sequence, layout = choices[index % len(choices)]
        options = {
            "steps": steps,
            "hidden_size": 4,
            "direction": direction,
            "return_sequence": return_sequence,
            "layout": layout,
        }
        yield Case(operands, options)
    operands = {"input": rng.uniform(-1, 1, (6, 2, 3)), **_weights(rng, 4, (1,), 3, 4, *optional)}
    yield Case(operands, {"steps": 6, "hidden_size": 4}, note="default options")
    # Small, so that states do not grow where the functions have no bounds, and rounding errors with them.
    operands = {name: value * 0.3 for name, value in operands.items()}
    for activations in (["tanh", "sigmoid", "relu"], ["sigmoid", "relu", "sigmoid"], ["relu", "tanh", "tanh"]):
        yield Case(operands, {"steps": 6, "hidden_size": 4, "activations": activations, "return_sequence": True})
    long = {"input": rng.uniform(-1, 1, (60, 2, 5)), **_weights(rng, 4, (2,), 5, 16, "bias", "recurrent_bias")}
    yield Case(long, {"steps": 60, "hidden_size": 16, "direction": "both", "return_sequence": True}, note="many")


# References


@reference("gru_cell", _gru_cell_cases)
def gru_cell(
    input: Array,
    weight: Array,
    recurrent_weight: Array,
    hidden_state: Array,
    hidden_size: int,
    bias: Array | None,
    recurrent_bias: Array | None,
    reset_after: bool,
    layout: str,
    activations: Any,
) -> Scaled:
    """One step."""
    gates = _Gates(layout, weight, recurrent_weight, bias, recurrent_bias)
    h = _gru_step(gates, input, hidden_state, reset_after, activations)
    return Scaled(h, np.broadcast_to(gates.scale, h.shape))


@reference("gru", _gru_cases)
def gru(
    input: Array,
    weight: Array,
    recurrent_weight: Array,
    steps: int,
    hidden_size: int,
    bias: Array | None,
    recurrent_bias: Array | None,
    initial_hidden_state: Array | None,
    reset_after: bool,
    return_sequence: bool,
    direction: str,
    layout: str,
    activations: Any,
) -> list[Scaled]:
    """Step after step; the sequence is written at the place of its step."""
    orders = _order(direction, steps)
    last = np.zeros((len(orders), input.shape[1], hidden_size))
    sequence = np.zeros((steps, *last.shape))
    scales, sequence_scales = np.ones_like(last), np.ones_like(sequence)
    for index, order in enumerate(orders):
        gates = _Gates(layout, weight[index], recurrent_weight[index], _of(bias, index), _of(recurrent_bias, index))
        h = last[index] if initial_hidden_state is None else initial_hidden_state[index]
        for step in order:
            h = _gru_step(gates, input[step], h, reset_after, activations)
            sequence[step, index], sequence_scales[step, index] = h, gates.scale
        last[index], scales[index] = h, gates.scale
    return [Scaled(last, scales)] + ([Scaled(sequence, sequence_scales)] if return_sequence else [])


@reference("lstm_cell", _lstm_cell_cases)
def lstm_cell(
    input: Array,
    weight: Array,
    recurrent_weight: Array,
    hidden_state: Array,
    cell_state: Array,
    hidden_size: int,
    bias: Array | None,
    recurrent_bias: Array | None,
    peephole_weight: Array | None,
    layout: str,
    activations: Any,
) -> list[Scaled]:
    """One step."""
    gates = _Gates(layout, weight, recurrent_weight, bias, recurrent_bias)
    h, c = _lstm_step(gates, input, hidden_state, cell_state, peephole_weight, activations)
    scale = np.broadcast_to(gates.scale, h.shape)
    return [Scaled(h, scale), Scaled(c, scale)]


@reference("lstm", _lstm_cases)
def lstm(
    input: Array,
    weight: Array,
    recurrent_weight: Array,
    steps: int,
    hidden_size: int,
    bias: Array | None,
    recurrent_bias: Array | None,
    peephole_weight: Array | None,
    initial_hidden_state: Array | None,
    initial_cell_state: Array | None,
    return_sequence: bool,
    direction: str,
    layout: str,
    activations: Any,
) -> list[Scaled]:
    """Step after step; the sequence is written at the place of its step."""
    orders = _order(direction, steps)
    hidden = np.zeros((len(orders), input.shape[1], hidden_size))
    cell = np.zeros_like(hidden)
    sequence = np.zeros((steps, *hidden.shape))
    scales, sequence_scales = np.ones_like(hidden), np.ones_like(sequence)
    for index, order in enumerate(orders):
        gates = _Gates(layout, weight[index], recurrent_weight[index], _of(bias, index), _of(recurrent_bias, index))
        h = hidden[index] if initial_hidden_state is None else initial_hidden_state[index]
        c = cell[index] if initial_cell_state is None else initial_cell_state[index]
        for step in order:
            h, c = _lstm_step(gates, input[step], h, c, _of(peephole_weight, index), activations)
            sequence[step, index], sequence_scales[step, index] = h, gates.scale
        hidden[index], cell[index], scales[index] = h, c, gates.scale
    return [Scaled(hidden, scales), Scaled(cell, scales)] + ([Scaled(sequence, sequence_scales)] if return_sequence else [])
