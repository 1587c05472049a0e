"""The vocabulary of ``emulate``: what the specification says an op is in terms of simpler ops.

    @staticmethod
    def emulate(b, input):                   # b: Emulator; operands are Handles, arguments as in ``lower``
        return b.max(b.scalar(0, input), input)

It is a second opinion on the lowering, not a way to run: it follows the specification's text, so that a float16 result
is rounded at every step, and large numbers overflow where the text lets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from webnn_xla.dtypes import Descriptor


class Handle(Protocol):
    """A tensor under construction."""

    @property
    def descriptor(self) -> Descriptor: ...


class Emulator(Protocol):
    """A builder whose operands are values: a method an op, with its arguments in declared order."""

    def scalar(self, number: int | float, like: Handle) -> Any:
        """A constant of the data type of ``like``."""

    def __getattr__(self, name: str) -> Callable[..., Any]: ...


def spread(b: Emulator, operand: Handle, shape: Sequence[int], axes: Sequence[int]) -> Any:
    """``operand``, whose dimension i belongs to ``axes[i]`` in any order, so that it broadcasts to ``shape``."""
    order = sorted(range(len(axes)), key=lambda index: axes[index])
    if order != list(range(len(axes))):
        operand = b.transpose(operand, permutation=tuple(order))
    return b.reshape(operand, tuple(size if axis in axes else 1 for axis, size in enumerate(shape)))


def normalize(b: Emulator, input: Handle, axes: Sequence[int], epsilon: float) -> Any:
    """``(input - mean) / sqrt(variance + epsilon)``, with mean and variance over ``axes``."""
    centered = b.sub(input, b.reduce_mean(input, axes=tuple(axes), keep_dimensions=True))
    variance = b.reduce_mean(b.pow(centered, b.scalar(2, input)), axes=tuple(axes), keep_dimensions=True)
    return b.div(centered, b.sqrt(b.add(variance, b.scalar(epsilon, input))))


def affine(b: Emulator, x: Handle, scale: Handle | None, bias: Handle | None, axes: Sequence[int]) -> Any:
    """``scale * x + bias``, each along ``axes`` or left out."""
    if scale is not None:
        x = b.mul(spread(b, scale, x.descriptor.shape, axes), x)
    return x if bias is None else b.add(x, spread(b, bias, x.descriptor.shape, axes))


def expand_blocks(b: Emulator, part: Handle, shape: Sequence[int]) -> Any:
    """Every element repeated along each dimension until ``part`` has ``shape``."""
    for axis, size in enumerate(shape):
        old = part.descriptor.shape
        if old[axis] != size:
            before, after, repeats = old[: axis + 1], old[axis + 1 :], size // old[axis]
            inserted = b.reshape(part, (*before, 1, *after))
            part = b.reshape(b.expand(inserted, (*before, repeats, *after)), (*old[:axis], size, *after))
    return part


def gate_sum(b: Emulator, x: Handle, weight: Handle, bias: Handle | None, start: int, size: int) -> Any:
    """One gate's share: ``x`` times rows ``start`` … ``start + size`` of ``weight``, transposed, and that part of the bias."""
    rows = b.slice(weight, (start, 0), (size, weight.descriptor.shape[1]))
    product = b.matmul(x, b.transpose(rows))
    return product if bias is None else b.add(product, b.slice(bias, (start,), (size,)))


def one_direction(b: Emulator, operand: Handle | None, index: int) -> Any:
    """One direction's part of an operand of a recurrent network, without the first dimension."""
    if operand is None:
        return None
    shape = operand.descriptor.shape
    part = b.slice(operand, (index, *[0] * (len(shape) - 1)), (1, *shape[1:]))
    return b.reshape(part, tuple(shape[1:]))


def recurrent(
    b: Emulator,
    input: Handle,
    directions: Sequence[bool],
    initial: Sequence[Handle | None],
    hidden_size: int,
    sequence: bool,
    cell: Callable[[int, Any, list[Any]], Sequence[Any]],
) -> list[Any]:
    """A recurrent network, step by step. ``directions``: of each network, whether it runs from the last step.

    ``cell(direction, input of the step, states)`` gives the next states. Returns the last states of all directions, and with
    ``sequence`` the first state after each step.
    """
    steps, batch, size = input.descriptor.shape
    lasts: list[list[Any]] = [[] for _ in initial]
    sequences = []
    for index, backward in enumerate(directions):
        states = [
            b.expand(b.scalar(0, input), (batch, hidden_size)) if state is None else one_direction(b, state, index)
            for state in initial
        ]
        after: list[Any] = [None] * steps
        for step in reversed(range(steps)) if backward else range(steps):
            x = b.reshape(b.slice(input, (step, 0, 0), (1, batch, size)), (batch, size))
            states = list(cell(index, x, states))
            after[step] = b.reshape(states[0], (1, 1, batch, hidden_size))
        for last, state in zip(lasts, states, strict=True):
            last.append(b.reshape(state, (1, batch, hidden_size)))
        if sequence:
            sequences.append(b.concat(tuple(after), 0))
    results = [b.concat(tuple(last), 0) for last in lasts]
    return [*results, b.concat(tuple(sequences), 1)] if sequence else results
