"""References of matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from webnn_xla.conformance.reference import Array, Case, Rng, Scaled, numbers, reference, special
from webnn_xla.dtypes import MLOperandDataType

BATCHES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()),
    ((2,), (2,)),
    ((2,), ()),
    ((), (2,)),
    ((2,), (1,)),
    ((1,), (2,)),
    ((1,), (1,)),
    ((2, 3), (3,)),
    ((2, 3), (1, 1)),
    ((2, 1), (1, 3)),
    ((3,), (2, 3)),
    ((2, 1, 3), (2, 2, 1)),
    ((1, 1), (1, 1, 1, 1)),
    ((2, 1, 2, 3), (2, 1)),
    ((2, 1, 3, 1, 2), (2, 1, 3, 1, 2)),
    ((2, 1, 2, 1, 2, 1), (1, 2, 1, 2, 1, 2)),
    ((2, 1, 2, 1, 2, 1), ()),
    ((), (2, 1, 2, 1, 2, 1)),
]
"""Leading dimensions of a and b, up to rank 8."""


def _matmul_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    sizes = [(3, 4, 5), (1, 4, 2), (3, 1, 2), (2, 3, 1), (1, 1, 1)]
    for index, (batch_a, batch_b) in enumerate(BATCHES):
        rows, inner, columns = sizes[index % len(sizes)]
        yield Case(
            {
                "a": numbers(data_type, rng, (*batch_a, rows, inner)),
                "b": numbers(data_type, rng, (*batch_b, inner, columns)),
            }
        )
    for rows, inner, columns in [(7, 300, 5), (1, 2000, 3), (64, 64, 64)]:
        operands = {"a": numbers(data_type, rng, (rows, inner)), "b": numbers(data_type, rng, (inner, columns))}
        yield Case(operands, note="many")
    corner = special(data_type)
    yield Case({"a": corner[:, None], "b": corner[None, :]}, note="corner values")


@reference("matmul", _matmul_cases)
def matmul(a: Array, b: Array) -> Scaled:
    """NumPy's, in float64."""
    return Scaled(np.matmul(a, b), np.matmul(np.abs(a), np.abs(b)))


def _gemm_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    def case(c: tuple[int, ...] | None, size: tuple[int, int, int] = (3, 4, 5), **options: Any) -> Case:
        rows, inner, columns = size
        a = numbers(data_type, rng, (inner, rows) if options.get("a_transpose") else (rows, inner))
        b = numbers(data_type, rng, (columns, inner) if options.get("b_transpose") else (inner, columns))
        extra = {} if c is None else {"c": numbers(data_type, rng, c)}
        return Case({"a": a, "b": b, **extra}, options)

    for a_transpose in (False, True):
        for b_transpose in (False, True):
            for c in (None, (3, 5)):
                yield case(c, a_transpose=a_transpose, b_transpose=b_transpose)
    for shape in ((), (1,), (5,), (1, 5), (3, 1), (1, 1), (3, 5)):
        yield case(shape, alpha=0.5, beta=-1.5)
        yield case(shape)
    for alpha in (0.0, 1.0, -2.0):
        for beta in (0.0, 1.0, 0.25):
            yield case((5,), alpha=alpha, beta=beta)
    yield case(None, alpha=0.25, beta=3.0)
    yield case((1, 4), (2, 1, 4))
    yield case((), (1, 1, 1), a_transpose=True, b_transpose=True)
    yield case((7,), (6, 500, 7), alpha=0.125, b_transpose=True)


@reference("gemm", _gemm_cases)
def gemm(a: Array, b: Array, c: Array | None, alpha: float, beta: float, a_transpose: bool, b_transpose: bool) -> Scaled:
    """``alpha`` and ``beta`` of the cases are numbers that float16 holds."""
    a = np.swapaxes(a, 0, 1) if a_transpose else a
    b = np.swapaxes(b, 0, 1) if b_transpose else b
    addend = np.zeros(()) if c is None else np.asarray(c)
    value = alpha * np.einsum("mk,kn->mn", a, b) + beta * addend
    scale = abs(alpha) * np.einsum("mk,kn->mn", np.abs(a), np.abs(b)) + abs(beta) * np.abs(addend)
    return Scaled(value, scale)
