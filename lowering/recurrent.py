"""What recurrent networks share: rules, the input's projection, and the loop over time.

States stay in float32 from the first step to the last, also for float16, whose results are rounded once. The input's
share of all gates is one matrix product for all steps; only the state's share is inside the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jax import Array, lax

from webnn_xla.dtypes import MAX_DIMENSION, Descriptor
from webnn_xla.lowering.kinds import choice, list_of
from webnn_xla.lowering.matmul import product
from webnn_xla.lowering.op import (
    FLOATS,
    Operand,
    OptionalOperand,
    Output,
    Same,
    Target,
    require,
)
from webnn_xla.lowering.primitives import broadcast_to, constant, narrow, widen

UNROLLED_STEPS: Final = 4
"""Sequences up to this long are straight-line code; longer ones are a loop, whose program does not grow with them."""

ACTIVATIONS = list_of(choice("relu", "sigmoid", "tanh"))
DIRECTION = choice("forward", "backward", "both")

FUNCTIONS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "relu": lambda x: lax.max(x, constant(0, x)),
    "sigmoid": lax.logistic,
    "tanh": lax.tanh,
}

BACKWARD: Final[Mapping[str, tuple[bool, ...]]] = {"forward": (False,), "backward": (True,), "both": (False, True)}
"""Of each direction's networks, in the order of the operands' first dimension, whether they run from the last step."""

States = tuple[Array, ...]
Step = Callable[[Array, States], States]


# Rules


def check_operands(
    gates: int,
    leading: tuple[int, ...],
    batch_size: int,
    input_size: int,
    hidden_size: int,
    activations: Sequence[str] | None,
    activation_count: int,
    *,
    weight: Descriptor,
    recurrent_weight: Descriptor,
    peephole_weight: Descriptor | None = None,
    biases: Mapping[str, Descriptor | None],
    states: Mapping[str, Descriptor | None],
) -> None:
    """Checks that the four ops share: shapes, the hidden size, the number of activations.

    ``leading`` is the number of directions, or empty for a single step.
    """
    first = "directions, " if leading else ""

    def check(name: str, operand: Descriptor | None, shape: tuple[int, ...], meaning: str) -> None:
        if operand is not None:
            wanted = [*leading, *shape]
            require(operand.shape == wanted, name, f"shape {list(operand.shape)}", f"{wanted}: {first}{meaning}")

    gate_size = gates * hidden_size
    check("weight", weight, (gate_size, input_size), f"{gates} * hidden_size, size of the input")
    check("recurrent_weight", recurrent_weight, (gate_size, hidden_size), f"{gates} * hidden_size, hidden_size")
    for name, operand in states.items():
        check(name, operand, (batch_size, hidden_size), "batch of the input, hidden_size")
    # Platforms may hold both biases in one tensor.
    largest = MAX_DIMENSION // (2 * gates)
    require(0 < hidden_size <= largest, "hidden_size", hidden_size, f"1 to {largest}")
    for name, operand in biases.items():
        check(name, operand, (gate_size,), f"{gates} * hidden_size")
    check("peephole_weight", peephole_weight, (3 * hidden_size,), "3 * hidden_size")
    if activations is not None:
        require(len(activations) == activation_count, "activations", list(activations), f"{activation_count} functions")


def check_steps(input: Descriptor, steps: int) -> None:
    """Rejects a number of steps that is 0 or not the first dimension of the input."""
    require(steps > 0, "steps", steps, "1 or more")
    require(steps == input.shape[0], "steps", steps, f"{input.shape[0]}, the first dimension of input {list(input.shape)}")


# Lowering


def project(input: Array, weight: Array, biases: Sequence[Array | None], target: Target) -> Array:
    """The input's share of all gates, biases included: [..., size] and [gates, size] to [..., gates] in float32."""
    result = product(input, weight, (input.ndim - 1, 1), target)
    for bias in biases:
        if bias is not None:
            result = lax.add(result, broadcast_to(widen(bias), result.shape))
    return result


def gate(x: Array, layout: str, name: str, hidden_size: int) -> Array:
    """One gate's columns of ``x``, by the letter that it has in the layout."""
    start = layout.index(name) * hidden_size
    return lax.slice_in_dim(x, start, start + hidden_size, axis=x.ndim - 1)


def run(step: Step, projected: Array, initial: States, backward: bool, sequence: bool) -> tuple[States, Array | None]:
    """Steps over the first dimension of ``projected``.

    Returns the states after the last step taken, and with ``sequence`` the first state after each, in the order of time.
    """

    def advance(states: States, x: Array) -> tuple[States, Array | None]:
        states = step(x, states)
        return states, states[0] if sequence else None

    steps = projected.shape[0]
    unroll = steps if steps <= UNROLLED_STEPS else 1
    return lax.scan(advance, initial, projected, reverse=backward, unroll=unroll)


def one(operand: Array, index: int) -> Array:
    """One direction's part of an operand."""
    return lax.index_in_dim(operand, index, keepdims=False)


def pick(operand: Array | None, index: int) -> Array | None:
    """``one`` of an operand that may be left out."""
    return None if operand is None else one(operand, index)


def stack(parts: Sequence[Array], axis: int, like: Array) -> Array:
    """The directions' results along a new dimension, in the type of ``like``."""
    parts = [lax.expand_dims(narrow(part, like), (axis,)) for part in parts]
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, axis)


def initial_state(given: Array | None, index: int, batch_size: int, hidden_size: int, projected: Array) -> Array:
    """One direction's first state, by default zeros."""
    if given is None:
        return constant(0, projected, (batch_size, hidden_size))
    return widen(one(given, index))


# Declarations: every tensor of these ops is of one rank, and of the input's data type


def tensor(rank: int, doc: str) -> Operand:
    return Operand(Same("input"), ranks=(rank, rank), required=FLOATS, required_ranks=(rank, rank), doc=doc)


def optional_tensor(rank: int, doc: str) -> OptionalOperand:
    return OptionalOperand(Same("input"), ranks=(rank, rank), required=FLOATS, required_ranks=(rank, rank), doc=doc)


def state(rank: int, doc: str) -> Output:
    return Output(Same("input"), ranks=(rank, rank), required=FLOATS, required_ranks=(rank, rank), doc=doc)
