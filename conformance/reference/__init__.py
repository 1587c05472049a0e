"""The independent truth: every op once more, in float64 NumPy and SciPy, with cases that exercise it.

A reference shares nothing with the lowering. It gets floats as float64 (the exact values of the operands, which were
rounded to the data type before) and integers as NumPy arrays of their own type, and returns what the op means without
rounding; the comparison rounds. Options come under their names, defaults filled in.

    def softmax_cases(data_type, rng):
        for shape in shapes(1, 8):
            yield Case({"input": normal(rng, shape)}, {"axis": len(shape) - 1})

    @reference("softmax", softmax_cases)
    def softmax(input, axis): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from webnn_xla.dtypes import MAX_RANK, MLOperandDataType

Array = np.ndarray[Any, Any]
Rng = np.random.Generator


class Scaled(NamedTuple):
    """A result of summing, with the magnitude of what was summed: the ulp of the comparison is taken there."""

    value: Array
    scale: Array


@dataclass(frozen=True)
class Case:
    """One call: operands by name (arrays, or lists of arrays for ``inputs``), and options by snake_case name.

    Operands of the op's principal type may be float64 or int64 arrays: they are rounded to the data type under test.
    ``types`` names the data type of operands that differ from it (``indices``, ``condition``, …).
    """

    operands: dict[str, Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    note: str = ""


Cases = Callable[[MLOperandDataType, Rng], Iterator[Case]]


@dataclass(frozen=True)
class Reference:
    """A reference function and its cases."""

    compute: Callable[..., Any]
    cases: Cases


REFERENCES: dict[str, Reference] = {}
"""By snake_case name of the op."""


def reference(name: str, cases: Cases) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the reference of an op."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in REFERENCES:
            raise ValueError(f"{name} has two references")
        REFERENCES[name] = Reference(function, cases)
        return function

    return register


def shapes(low: int = 0, high: int = MAX_RANK) -> Iterator[tuple[int, ...]]:
    """One small shape for every rank from ``low`` to ``high``; dimensions differ where the size allows."""
    dimensions = (3, 2, 4, 1, 2, 1, 2, 2)
    for rank in range(low, high + 1):
        yield dimensions[:rank]


def broadcast_pairs() -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pairs of shapes that broadcast: equal, scalar, missing leading dimensions, ones on either side, up to rank 8."""
    yield from ((shape, shape) for shape in shapes())
    yield from [((2, 3), ()), ((), (2, 3)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((4, 1, 3), (2, 3))]
    yield ((2, 1, 3, 1, 2, 1, 2, 1), (3, 1, 2, 2, 1, 2))


def numbers(data_type: MLOperandDataType, rng: Rng, shape: tuple[int, ...], low: float = -8, high: float = 8) -> Array:
    """Random numbers that ``data_type`` holds: floats in [low, high), integers in the same range, clipped to the type."""
    if data_type.is_float:
        return rng.uniform(low, high, shape)
    smallest, largest = data_type.integer_range
    return rng.integers(max(int(low), smallest), min(int(high), largest), shape, dtype=np.int64, endpoint=True)


def special(data_type: MLOperandDataType) -> Array:
    """The corner values of a type: zeros of both signs, infinities, NaN, the extremes; for integers the extremes."""
    if data_type.is_float:
        return np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-3, -2.5, 1e4, -1e4])
    smallest, largest = data_type.integer_range
    values = [smallest, smallest + 1, 0, 1, largest - 1, largest] + ([-1] if smallest < 0 else [])
    return np.array(values, dtype=data_type.numpy)


from webnn_xla.conformance.reference import (  # noqa: E402  (importing a family registers its references)
    activation,
    convolution,
    elementwise,
    indexing,
    matmul,
    movement,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    resampling,
)

__all__ = [
    "REFERENCES",
    "Case",
    "Reference",
    "Scaled",
    "activation",
    "broadcast_pairs",
    "convolution",
    "elementwise",
    "indexing",
    "matmul",
    "movement",
    "normalization",
    "numbers",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "reference",
    "resampling",
    "shapes",
    "special",
]
