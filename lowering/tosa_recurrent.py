"""Recurrent networks in TOSA: compositions, every step written out. All is computed in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from webnn_xla.lowering.tosa import Emitter, Tensor, fail

MAX_STEPS: Final = 64
"""Longest sequence that is written out. WHILE_LOOP, an extension that few targets have, would make longer ones."""

States = tuple[Tensor, ...]
Step = Callable[[Tensor, States], States]


def widen(t: Emitter, x: Tensor) -> Tensor:
    return t.cast(x, "f32")


def activate(t: Emitter, name: str, x: Tensor) -> Tensor:
    return t.maximum(x, 0) if name == "relu" else t.unary(name, x)


def project(t: Emitter, x: Tensor, weight: Tensor, biases: Sequence[Tensor | None] = ()) -> Tensor:
    """[rows, size] and [gates, size] to [rows, gates], biases included."""
    transposed = t.transpose(widen(t, weight), (1, 0))
    product = t.matmul(t.reshape(widen(t, x), (1, *x.shape)), t.reshape(transposed, (1, *transposed.shape)))
    result = t.reshape(product, product.shape[1:])
    for bias in biases:
        result = result if bias is None else t.add(result, widen(t, bias))
    return result


def gate(t: Emitter, x: Tensor, layout: str, name: str, hidden_size: int) -> Tensor:
    return t.slice_axis(x, x.rank - 1, layout.index(name) * hidden_size, hidden_size)


def gru_step(
    t: Emitter,
    weight: Tensor,
    bias: Tensor | None,
    reset_after: bool,
    layout: str,
    activations: Sequence[str] | None,
) -> Step:
    size = weight.shape[1]
    gates, new = activations or ("sigmoid", "tanh")

    def step(projected: Tensor, states: States) -> States:
        (hidden,) = states
        if reset_after:
            recurrent = project(t, hidden, weight, (bias,))
        else:
            recurrent = project(t, hidden, t.slice_axis(weight, 0, 0, 2 * size))
        update, reset = (
            activate(t, gates, t.add(gate(t, projected, layout, name, size), gate(t, recurrent, layout, name, size)))
            for name in "zr"
        )
        if reset_after:
            share = t.mul(reset, gate(t, recurrent, layout, "n", size))
        else:
            share = project(t, t.mul(reset, hidden), t.slice_axis(weight, 0, 2 * size, size))
        candidate = activate(t, new, t.add(gate(t, projected, layout, "n", size), share))
        return (t.add(t.mul(update, hidden), t.mul(t.sub(t.scalar(1, update), update), candidate)),)

    return step


def lstm_step(
    t: Emitter, weight: Tensor, peephole_weight: Tensor | None, layout: str, activations: Sequence[str] | None
) -> Step:
    size = weight.shape[1]
    gates, new, filtered = activations or ("sigmoid", "tanh", "tanh")

    def step(projected: Tensor, states: States) -> States:
        hidden, cell = states
        total = t.add(projected, project(t, hidden, weight))

        def opened(name: str) -> Tensor:
            x = gate(t, total, layout, name, size)
            if peephole_weight is not None:
                x = t.add(x, t.mul(cell, gate(t, widen(t, peephole_weight), "iof", name, size)))
            return activate(t, gates, x)

        candidate = activate(t, new, gate(t, total, layout, "g", size))
        next_cell = t.add(t.mul(opened("f"), cell), t.mul(opened("i"), candidate))
        return t.mul(opened("o"), activate(t, filtered, next_cell)), next_cell

    return step


def run(t: Emitter, step: Step, projected: Tensor, states: States, steps: int, backward: bool) -> tuple[States, list[Tensor]]:
    """Steps over the rows of ``projected``, [steps * batch, gates]. Returns the last states, and the first of each step."""
    if steps > MAX_STEPS:
        fail(f"{steps} steps; at most {MAX_STEPS} are written out, and loops are an extension of TOSA")
    batch, sequence = projected.shape[0] // steps, []
    for index in reversed(range(steps)) if backward else range(steps):
        states = step(t.slice_axis(projected, 0, index * batch, batch), states)
        sequence.append(states[0])
    return states, sequence[::-1] if backward else sequence


def one(t: Emitter, x: Tensor, index: int) -> Tensor:
    """One direction's part of an operand."""
    return t.reshape(t.slice_axis(x, 0, index, 1), x.shape[1:])


def pick(t: Emitter, x: Tensor | None, index: int) -> Tensor | None:
    """``one`` of an operand that may be left out."""
    return None if x is None else one(t, x, index)


def initial(t: Emitter, given: Tensor | None, index: int, batch_size: int, hidden_size: int) -> Tensor:
    """One direction's first state, by default zeros."""
    own = pick(t, given, index)
    return t.const([[0.0] * hidden_size] * batch_size, "f32") if own is None else widen(t, own)


def stack(t: Emitter, parts: Sequence[Tensor], like: Tensor) -> Tensor:
    """Equal parts along a new first dimension, in the type of ``like``."""
    return t.cast(t.concat([t.reshape(part, (1, *part.shape)) for part in parts], 0), like.element)


def stack_sequences(t: Emitter, sequences: Sequence[Sequence[Tensor]], like: Tensor) -> Tensor:
    """[directions][steps] of [batch, hidden_size] as [steps, directions, batch, hidden_size]."""
    return stack(t, [stack(t, parts, parts[0]) for parts in zip(*sequences, strict=True)], like)
