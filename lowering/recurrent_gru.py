"""Gated recurrent units: ``gru_cell`` is one step, ``gru`` runs it over time.

Gates: update z, reset r, new n. Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gru.
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
from webnn_xla.lowering.primitives import broadcast_to, constant, narrow, widen
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

LAYOUT = choice("zrn", "rzn")
DEFAULT_ACTIVATIONS = ("sigmoid", "tanh")


def _step(
    recurrent_weight: Array,
    recurrent_bias: Array | None,
    reset_after: bool,
    layout: str,
    activations: Sequence[str] | None,
    target: Target,
) -> Step:
    """From the input's share of the gates and the state to the next state, all in float32.

    With ``reset_after`` the reset gate scales what the new gate gets from the state, its bias included; otherwise it
    scales the state before the product, and the recurrent bias is part of the input's share.
    """
    hidden_size = recurrent_weight.shape[1]
    gates, new = (FUNCTIONS[name] for name in activations or DEFAULT_ACTIVATIONS)
    weight = widen(recurrent_weight)
    # The new gate is the last one in every layout.
    update_reset_weight, new_weight = weight, weight
    if not reset_after:
        update_reset_weight = lax.slice_in_dim(weight, 0, 2 * hidden_size)
        new_weight = lax.slice_in_dim(weight, 2 * hidden_size, 3 * hidden_size)

    def step(projected: Array, states: States) -> States:
        (hidden,) = states
        recurrent = product(hidden, update_reset_weight, (1, 1), target)
        if reset_after and recurrent_bias is not None:
            recurrent = lax.add(recurrent, broadcast_to(widen(recurrent_bias), recurrent.shape))

        def total(name: str) -> Array:
            return lax.add(gate(projected, layout, name, hidden_size), gate(recurrent, layout, name, hidden_size))

        update, reset = gates(total("z")), gates(total("r"))
        if reset_after:
            share = lax.mul(reset, gate(recurrent, layout, "n", hidden_size))
        else:
            share = product(lax.mul(reset, hidden), new_weight, (1, 1), target)
        candidate = new(lax.add(gate(projected, layout, "n", hidden_size), share))
        kept = lax.mul(update, hidden)
        return (lax.add(kept, lax.mul(lax.sub(constant(1, update), update), candidate)),)

    return step


class GruCell(Op):
    """One step of a gated recurrent unit: ``z * h + (1 - z) * n``."""

    input = Operand(FLOATS, ranks=(2, 2), required=FLOATS, required_ranks=(2, 2), doc="[batch, input size]")
    weight = tensor(2, "[3 * hidden_size, input size]")
    recurrent_weight = tensor(2, "[3 * hidden_size, hidden_size]")
    hidden_state = tensor(2, "[batch, hidden_size]")
    hidden_size = Param(UINT32, "Number of features of the state.")
    bias = optional_tensor(1, "[3 * hidden_size], by default 0.")
    recurrent_bias = optional_tensor(1, "[3 * hidden_size], by default 0.")
    reset_after = Option(BOOL, True, "Whether the reset gate applies after the product with the recurrent weight, or before.")
    layout = Option(LAYOUT, "zrn", "Order of the gates in weights and biases.")
    activations = Option(ACTIVATIONS, None, "Of the update and reset gates, and of the new gate: by default sigmoid, tanh.")
    output = state(2, "[batch, hidden_size]")
    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "TRANSPOSE RESHAPE MATMUL SLICE ADD SIGMOID MUL TANH SUB MAXIMUM"
    stablehlo = "add broadcast_in_dim divide dot_general exponential maximum multiply negate slice subtract tanh"

    @staticmethod
    def infer(
        input: Descriptor,
        weight: Descriptor,
        recurrent_weight: Descriptor,
        hidden_state: Descriptor,
        hidden_size: int,
        bias: Descriptor | None,
        recurrent_bias: Descriptor | None,
        reset_after: bool,
        layout: str,
        activations: Sequence[str] | None,
    ) -> Descriptor:
        batch_size, input_size = input.shape
        check_operands(
            3,
            (),
            batch_size,
            input_size,
            hidden_size,
            activations,
            2,
            weight=weight,
            recurrent_weight=recurrent_weight,
            biases={"bias": bias, "recurrent_bias": recurrent_bias},
            states={"hidden_state": hidden_state},
        )
        return input.with_shape((batch_size, hidden_size))

    @staticmethod
    def lower(
        input: Array,
        weight: Array,
        recurrent_weight: Array,
        hidden_state: Array,
        hidden_size: int,
        bias: Array | None,
        recurrent_bias: Array | None,
        reset_after: bool,
        layout: str,
        activations: Sequence[str] | None,
        target: Target,
    ) -> Array:
        projected = project(input, weight, (bias, None if reset_after else recurrent_bias), target)
        step = _step(recurrent_weight, recurrent_bias, reset_after, layout, activations, target)
        return narrow(step(projected, (widen(hidden_state),))[0], input)

    @staticmethod
    def to_tosa(
        t: Emitter,
        input: Tensor,
        weight: Tensor,
        recurrent_weight: Tensor,
        hidden_state: Tensor,
        hidden_size: int,
        bias: Tensor | None,
        recurrent_bias: Tensor | None,
        reset_after: bool,
        layout: str,
        activations: Sequence[str] | None,
    ) -> Tensor:
        projected = tosa_recurrent.project(t, input, weight, (bias, None if reset_after else recurrent_bias))
        step = tosa_recurrent.gru_step(t, recurrent_weight, recurrent_bias, reset_after, layout, activations)
        return t.cast(step(projected, (tosa_recurrent.widen(t, hidden_state),))[0], input.element)

    @staticmethod
    def emulate(
        b: Emulator,
        input: Handle,
        weight: Handle,
        recurrent_weight: Handle,
        hidden_state: Handle,
        hidden_size: int,
        bias: Handle | None,
        recurrent_bias: Handle | None,
        reset_after: bool,
        layout: str,
        activations: Sequence[str] | None,
    ) -> Any:
        gates, new = (getattr(b, name) for name in activations or DEFAULT_ACTIVATIONS)

        def share(x: Handle, matrix: Handle, offset: Handle | None, name: str) -> Any:
            return emulation.gate_sum(b, x, matrix, offset, layout.index(name) * hidden_size, hidden_size)

        def total(name: str) -> Any:
            return b.add(share(input, weight, bias, name), share(hidden_state, recurrent_weight, recurrent_bias, name))

        update, reset = gates(total("z")), gates(total("r"))
        if reset_after:
            recurrent = b.mul(reset, share(hidden_state, recurrent_weight, recurrent_bias, "n"))
        else:
            recurrent = share(b.mul(reset, hidden_state), recurrent_weight, recurrent_bias, "n")
        candidate = new(b.add(share(input, weight, bias, "n"), recurrent))
        return b.add(b.mul(update, hidden_state), b.mul(b.sub(b.scalar(1, input), update), candidate))


class Gru(Op):
    """Gated recurrent units over time.

    Returns the state after the last step, and with ``return_sequence`` the states after all steps, in the order of time
    also for a backward network, whose last step is the first in time.
    """

    input = Operand(FLOATS, ranks=(3, 3), required=FLOATS, required_ranks=(3, 3), doc="[steps, batch, input size]")
    weight = tensor(3, "[directions, 3 * hidden_size, input size]")
    recurrent_weight = tensor(3, "[directions, 3 * hidden_size, hidden_size]")
    steps = Param(UINT32, "Number of steps: the first dimension of the input.")
    hidden_size = Param(UINT32, "Number of features of the state.")
    bias = optional_tensor(2, "[directions, 3 * hidden_size], by default 0.")
    recurrent_bias = optional_tensor(2, "[directions, 3 * hidden_size], by default 0.")
    initial_hidden_state = optional_tensor(3, "[directions, batch, hidden_size], by default 0.")
    reset_after = Option(BOOL, True, "Whether the reset gate applies after the product with the recurrent weight, or before.")
    return_sequence = Option(BOOL, False, "Whether the states after all steps are returned too.")
    direction = Option(DIRECTION, "forward", "Order of the steps; with both there are two networks, forward first.")
    layout = Option(LAYOUT, "zrn", "Order of the gates in weights and biases.")
    activations = Option(ACTIVATIONS, None, "Of the update and reset gates, and of the new gate: by default sigmoid, tanh.")
    output0 = state(3, "[directions, batch, hidden_size]: the state after the last step.")
    output1 = state(4, "[steps, directions, batch, hidden_size]: the states after all steps, with return_sequence.")
    tolerance = Tolerance(3, 1, reduction=True)
    tosa = "RESHAPE TRANSPOSE MATMUL SLICE ADD SIGMOID MUL TANH SUB CONCAT MAXIMUM"
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
        initial_hidden_state: Descriptor | None,
        reset_after: bool,
        return_sequence: bool,
        direction: str,
        layout: str,
        activations: Sequence[str] | None,
    ) -> list[Descriptor]:
        check_steps(input, steps)
        _, batch_size, input_size = input.shape
        directions = len(BACKWARD[direction])
        check_operands(
            3,
            (directions,),
            batch_size,
            input_size,
            hidden_size,
            activations,
            2,
            weight=weight,
            recurrent_weight=recurrent_weight,
            biases={"bias": bias, "recurrent_bias": recurrent_bias},
            states={"initial_hidden_state": initial_hidden_state},
        )
        last = input.with_shape((directions, batch_size, hidden_size))
        return [last, input.with_shape((steps, *last.shape))] if return_sequence else [last]

    @staticmethod
    def lower(
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
        activations: Sequence[str] | None,
        target: Target,
    ) -> tuple[Array, ...]:
        last, sequences = [], []
        for index, backward in enumerate(BACKWARD[direction]):
            own_bias, own_recurrent_bias = pick(bias, index), pick(recurrent_bias, index)
            own_weight, own_recurrent_weight = one(weight, index), one(recurrent_weight, index)
            projected = project(input, own_weight, (own_bias, None if reset_after else own_recurrent_bias), target)
            step = _step(own_recurrent_weight, own_recurrent_bias, reset_after, layout, activations, target)
            initial = initial_state(initial_hidden_state, index, input.shape[1], hidden_size, projected)
            (hidden,), sequence = run(step, projected, (initial,), backward, return_sequence)
            last.append(hidden)
            if sequence is not None:
                sequences.append(sequence)
        outputs = (stack(last, 0, input),)
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
        initial_hidden_state: Tensor | None,
        reset_after: bool,
        return_sequence: bool,
        direction: str,
        layout: str,
        activations: Sequence[str] | None,
    ) -> list[Tensor]:
        last, sequences = [], []
        _, batch_size, input_size = input.shape
        rows = t.reshape(input, (steps * batch_size, input_size))
        for index, backward in enumerate(BACKWARD[direction]):
            own_weight, own_recurrent_weight = (tosa_recurrent.one(t, x, index) for x in (weight, recurrent_weight))
            own_bias, own_recurrent_bias = (tosa_recurrent.pick(t, x, index) for x in (bias, recurrent_bias))
            projected = tosa_recurrent.project(t, rows, own_weight, (own_bias, None if reset_after else own_recurrent_bias))
            step = tosa_recurrent.gru_step(t, own_recurrent_weight, own_recurrent_bias, reset_after, layout, activations)
            first = tosa_recurrent.initial(t, initial_hidden_state, index, batch_size, hidden_size)
            states, sequence = tosa_recurrent.run(t, step, projected, (first,), steps, backward)
            last.append(states[0])
            sequences.append(sequence)
        outputs = [tosa_recurrent.stack(t, last, input)]
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
        initial_hidden_state: Handle | None,
        direction: str,
        return_sequence: bool,
        **options: Any,
    ) -> list[Any]:
        operands = (weight, recurrent_weight, bias, recurrent_bias)
        parts = [[emulation.one_direction(b, operand, i) for operand in operands] for i in range(weight.descriptor.shape[0])]

        def cell(index: int, x: Any, states: list[Any]) -> list[Any]:
            first, second, *biases = parts[index]
            return [b.gru_cell(x, first, second, *states, hidden_size, *biases, **options)]

        initial = [initial_hidden_state]
        return emulation.recurrent(b, input, BACKWARD[direction], initial, hidden_size, return_sequence, cell)
