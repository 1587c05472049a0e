"""Long short-term memory: ``lstm_cell`` is one step, ``lstm`` runs it over time.

Gates: input i, output o, forget f, cell g. Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-lstm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import Array, lax

from webnn_xla.dtypes import Descriptor
from webnn_xla.lowering import emulation, tosa_recurrent
from webnn_xla.lowering.emulation import Emulator, Handle
from webnn_xla.lowering.kinds import BOOL, UINT32, choice
from webnn_xla.lowering.matmul import product
from webnn_xla.lowering.op import FLOATS, Op, Operand, Option, Param, Target, Tolerance
from webnn_xla.lowering.primitives import broadcast_to, narrow, widen
from webnn_xla.lowering.recurrent import (
    ACTIVATIONS,
    BACKWARD,
    DIRECTION,
    FUNCTIONS,
    States,
    Step,
    check_operands,
    check_steps,
    gate,
    initial_state,
    one,
    optional_tensor,
    pick,
    project,
    run,
    stack,
    state,
    tensor,
)
from webnn_xla.lowering.tosa import Emitter, Tensor

LAYOUT = choice("iofg", "ifgo")
PEEPHOLES = "iof"
"""The gates that peepholes reach, in the order of their weights, whatever the layout."""
DEFAULT_ACTIVATIONS = ("sigmoid", "tanh", "tanh")


def _step(
    recurrent_weight: Array,
    peephole_weight: Array | None,
    layout: str,
    activations: Sequence[str] | None,
    target: Target,
) -> Step:
    """From the input's share of the gates and the states to the next states, all in float32.

    Peepholes see the cell state before the step, the output gate's too.
    """
    hidden_size = recurrent_weight.shape[1]
    gates, new, filtered = (FUNCTIONS[name] for name in activations or DEFAULT_ACTIVATIONS)
    weight = widen(recurrent_weight)

    def step(projected: Array, states: States) -> States:
        hidden, cell = states
        total = lax.add(projected, product(hidden, weight, (1, 1), target))

        def opened(name: str) -> Array:
            x = gate(total, layout, name, hidden_size)
            if peephole_weight is not None:
                peephole = gate(widen(peephole_weight), PEEPHOLES, name, hidden_size)
                x = lax.add(x, lax.mul(cell, broadcast_to(peephole, cell.shape)))
            return gates(x)

        candidate = new(gate(total, layout, "g", hidden_size))
        next_cell = lax.add(lax.mul(opened("f"), cell), lax.mul(opened("i"), candidate))
        return lax.mul(opened("o"), filtered(next_cell)), next_cell

    return step


class LstmCell(Op):
    """One step of long short-term memory: ``c = f * c + i * g`` and ``h = o * tanh(c)``. Returns h and c."""

    input = Operand(FLOATS, ranks=(2, 2), required=FLOATS, required_ranks=(2, 2), doc="[batch, input size]")
    weight = tensor(2, "[4 * hidden_size, input size]")
    recurrent_weight = tensor(2, "[4 * hidden_size, hidden_size]")
    hidden_state = tensor(2, "[batch, hidden_size]")
    cell_state = tensor(2, "[batch, hidden_size]")
    hidden_size = Param(UINT32, "Number of features of each state.")
    bias = optional_tensor(1, "[4 * hidden_size], by default 0.")
    recurrent_bias = optional_tensor(1, "[4 * hidden_size], by default 0.")
    peephole_weight = optional_tensor(1, "[3 * hidden_size]: of gates i, o, f, in any layout; by default 0.")
    layout = Option(LAYOUT, "iofg", "Order of the gates in weights and biases.")
    activations = Option(
        ACTIVATIONS,
        None,
        "Of gates i, o and f, of gate g, and of the cell state on its way to h: by default sigmoid, tanh, tanh.",
    )
    output0 = state(2, "[batch, hidden_size]: the hidden state.")
    output1 = state(2, "[batch, hidden_size]: the cell state.")
    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "TRANSPOSE RESHAPE MATMUL ADD SLICE TANH SIGMOID MUL MAXIMUM"
    stablehlo = "add broadcast_in_dim divide dot_general exponential maximum multiply negate slice tanh"

    @staticmethod
    def infer(
        input: Descriptor,
        weight: Descriptor,
        recurrent_weight: Descriptor,
        hidden_state: Descriptor,
        cell_state: Descriptor,
        hidden_size: int,
        bias: Descriptor | None,
        recurrent_bias: Descriptor | None,
        peephole_weight: Descriptor | None,
        layout: str,
        activations: Sequence[str] | None,
    ) -> list[Descriptor]:
        batch_size, input_size = input.shape
        check_operands(
            4,
            (),
            batch_size,
            input_size,
            hidden_size,
            activations,
            3,
            weight=weight,
            recurrent_weight=recurrent_weight,
            peephole_weight=peephole_weight,
            biases={"bias": bias, "recurrent_bias": recurrent_bias},
            states={"hidden_state": hidden_state, "cell_state": cell_state},
        )
        return [input.with_shape((batch_size, hidden_size))] * 2

    @staticmethod
    def lower(
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
        activations: Sequence[str] | None,
        target: Target,
    ) -> tuple[Array, ...]:
        projected = project(input, weight, (bias, recurrent_bias), target)
        step = _step(recurrent_weight, peephole_weight, layout, activations, target)
        return tuple(narrow(state, input) for state in step(projected, (widen(hidden_state), widen(cell_state))))

    @staticmethod
    def to_tosa(
        t: Emitter,
        input: Tensor,
        weight: Tensor,
        recurrent_weight: Tensor,
        hidden_state: Tensor,
        cell_state: Tensor,
        hidden_size: int,
        bias: Tensor | None,
        recurrent_bias: Tensor | None,
        peephole_weight: Tensor | None,
        layout: str,
        activations: Sequence[str] | None,
    ) -> list[Tensor]:
        projected = tosa_recurrent.project(t, input, weight, (bias, recurrent_bias))
        step = tosa_recurrent.lstm_step(t, recurrent_weight, peephole_weight, layout, activations)
        states = (tosa_recurrent.widen(t, hidden_state), tosa_recurrent.widen(t, cell_state))
        return [t.cast(state, input.element) for state in step(projected, states)]

    @staticmethod
    def emulate(
        b: Emulator,
        input: Handle,
        weight: Handle,
        recurrent_weight: Handle,
        hidden_state: Handle,
        cell_state: Handle,
        hidden_size: int,
        bias: Handle | None,
        recurrent_bias: Handle | None,
        peephole_weight: Handle | None,
        layout: str,
        activations: Sequence[str] | None,
    ) -> list[Any]:
        gates, new, filtered = (getattr(b, name) for name in activations or DEFAULT_ACTIVATIONS)

        def total(name: str) -> Any:
            start = layout.index(name) * hidden_size
            own = emulation.gate_sum(b, input, weight, bias, start, hidden_size)
            return b.add(own, emulation.gate_sum(b, hidden_state, recurrent_weight, recurrent_bias, start, hidden_size))

        def opened(name: str) -> Any:
            if peephole_weight is None:
                return gates(total(name))
            peephole = b.slice(peephole_weight, (PEEPHOLES.index(name) * hidden_size,), (hidden_size,))
            return gates(b.add(b.mul(cell_state, peephole), total(name)))

        next_cell = b.add(b.mul(opened("f"), cell_state), b.mul(opened("i"), new(total("g"))))
        return [b.mul(opened("o"), filtered(next_cell)), next_cell]


class Lstm(Op):
    """Long short-term memory over time.

    Returns the hidden and the cell state after the last step, and with ``return_sequence`` the hidden states after all
    steps, in the order of time also for a backward network, whose last step is the first in time.
    """

    input = Operand(FLOATS, ranks=(3, 3), required=FLOATS, required_ranks=(3, 3), doc="[steps, batch, input size]")
    weight = tensor(3, "[directions, 4 * hidden_size, input size]")
    recurrent_weight = tensor(3, "[directions, 4 * hidden_size, hidden_size]")
    steps = Param(UINT32, "Number of steps: the first dimension of the input.")
    hidden_size = Param(UINT32, "Number of features of each state.")
    bias = optional_tensor(2, "[directions, 4 * hidden_size], by default 0.")
    recurrent_bias = optional_tensor(2, "[directions, 4 * hidden_size], by default 0.")
    peephole_weight = optional_tensor(2, "[directions, 3 * hidden_size]: of gates i, o, f, in any layout; by default 0.")
    initial_hidden_state = optional_tensor(3, "[directions, batch, hidden_size], by default 0.")
    initial_cell_state = optional_tensor(3, "[directions, batch, hidden_size], by default 0.")
    return_sequence = Option(BOOL, False, "Whether the hidden states after all steps are returned too.")
    direction = Option(DIRECTION, "forward", "Order of the steps; with both there are two networks, forward first.")
    layout = Option(LAYOUT, "iofg", "Order of the gates in weights and biases.")
    activations = Option(
        ACTIVATIONS,
        None,
        "Of gates i, o and f, of gate g, and of the cell state on its way to h: by default sigmoid, tanh, tanh.",
    )
    output0 = state(3, "[directions, batch, hidden_size]: the hidden state after the last step.")
    output1 = state(3, "[directions, batch, hidden_size]: the cell state after the last step.")
    output2 = state(4, "[steps, directions, batch, hidden_size]: the hidden states after all steps, with return_sequence.")
    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "RESHAPE TRANSPOSE MATMUL ADD SLICE TANH SIGMOID MUL CONCAT MAXIMUM"
    tosa_note = "steps written out, at most 64"
    stablehlo = (
        "add broadcast_in_dim compare concatenate divide dot_general dynamic_slice dynamic_update_slice exponential maximum "
        "multiply negate reshape slice subtract tanh while"
    )

    @staticmethod
    def infer(
        input: Descriptor,
        weight: Descriptor,
        recurrent_weight: Descriptor,
        steps: int,
        hidden_size: int,
        bias: Descriptor | None,
        recurrent_bias: Descriptor | None,
        peephole_weight: Descriptor | None,
        initial_hidden_state: Descriptor | None,
        initial_cell_state: Descriptor | None,
        return_sequence: bool,
        direction: str,
        layout: str,
        activations: Sequence[str] | None,
    ) -> list[Descriptor]:
        check_steps(input, steps)
        _, batch_size, input_size = input.shape
        directions = len(BACKWARD[direction])
        check_operands(
            4,
            (directions,),
            batch_size,
            input_size,
            hidden_size,
            activations,
            3,
            weight=weight,
            recurrent_weight=recurrent_weight,
            peephole_weight=peephole_weight,
            biases={"bias": bias, "recurrent_bias": recurrent_bias},
            states={"initial_hidden_state": initial_hidden_state, "initial_cell_state": initial_cell_state},
        )
        last = input.with_shape((directions, batch_size, hidden_size))
        return [last, last, input.with_shape((steps, *last.shape))] if return_sequence else [last, last]

    @staticmethod
    def lower(
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
        activations: Sequence[str] | None,
        target: Target,
    ) -> tuple[Array, ...]:
        hidden, cell, sequences = [], [], []
        for index, backward in enumerate(BACKWARD[direction]):
            own_weight, own_recurrent_weight = one(weight, index), one(recurrent_weight, index)
            projected = project(input, own_weight, (pick(bias, index), pick(recurrent_bias, index)), target)
            step = _step(own_recurrent_weight, pick(peephole_weight, index), layout, activations, target)
            initial = tuple(
                initial_state(given, index, input.shape[1], hidden_size, projected)
                for given in (initial_hidden_state, initial_cell_state)
            )
            states, sequence = run(step, projected, initial, backward, return_sequence)
            hidden.append(states[0])
            cell.append(states[1])
            if sequence is not None:
                sequences.append(sequence)
        outputs = (stack(hidden, 0, input), stack(cell, 0, input))
        return (*outputs, stack(sequences, 1, input)) if return_sequence else outputs

    @staticmethod
    def to_tosa(
        t: Emitter,
        input: Tensor,
        weight: Tensor,
        recurrent_weight: Tensor,
        steps: int,
        hidden_size: int,
        bias: Tensor | None,
        recurrent_bias: Tensor | None,
        peephole_weight: Tensor | None,
        initial_hidden_state: Tensor | None,
        initial_cell_state: Tensor | None,
        return_sequence: bool,
        direction: str,
        layout: str,
        activations: Sequence[str] | None,
    ) -> list[Tensor]:
        hidden, cell, sequences = [], [], []
        _, batch_size, input_size = input.shape
        rows = t.reshape(input, (steps * batch_size, input_size))
        for index, backward in enumerate(BACKWARD[direction]):
            own_weight, own_recurrent_weight = (tosa_recurrent.one(t, x, index) for x in (weight, recurrent_weight))
            own_bias, own_recurrent_bias, own_peephole_weight = (
                tosa_recurrent.pick(t, x, index) for x in (bias, recurrent_bias, peephole_weight)
            )
            projected = tosa_recurrent.project(t, rows, own_weight, (own_bias, own_recurrent_bias))
            step = tosa_recurrent.lstm_step(t, own_recurrent_weight, own_peephole_weight, layout, activations)
            first = tuple(
                tosa_recurrent.initial(t, given, index, batch_size, hidden_size)
                for given in (initial_hidden_state, initial_cell_state)
            )
            states, sequence = tosa_recurrent.run(t, step, projected, first, steps, backward)
            hidden.append(states[0])
            cell.append(states[1])
            sequences.append(sequence)
        outputs = [tosa_recurrent.stack(t, hidden, input), tosa_recurrent.stack(t, cell, input)]
        return [*outputs, tosa_recurrent.stack_sequences(t, sequences, input)] if return_sequence else outputs

    @staticmethod
    def emulate(
        b: Emulator,
        input: Handle,
        weight: Handle,
        recurrent_weight: Handle,
        steps: int,
        hidden_size: int,
        bias: Handle | None,
        recurrent_bias: Handle | None,
        peephole_weight: Handle | None,
        initial_hidden_state: Handle | None,
        initial_cell_state: Handle | None,
        return_sequence: bool,
        direction: str,
        **options: Any,
    ) -> list[Any]:
        operands = (weight, recurrent_weight, bias, recurrent_bias, peephole_weight)
        parts = [[emulation.one_direction(b, operand, i) for operand in operands] for i in range(weight.descriptor.shape[0])]

        def cell(index: int, x: Any, states: list[Any]) -> list[Any]:
            first, second, *others = parts[index]
            return list(b.lstm_cell(x, first, second, *states, hidden_size, *others, **options))

        initial = [initial_hidden_state, initial_cell_state]
        return emulation.recurrent(b, input, BACKWARD[direction], initial, hidden_size, return_sequence, cell)
