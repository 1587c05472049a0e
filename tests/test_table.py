"""Every op × data type × rank × broadcasting against float64 NumPy and SciPy, with arguments at run time.

The cases and references are in ``conformance/reference``. All cases of one op and type are built into one graph.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from quick import QUICK

import webnn_xla as webnn
from webnn_xla.conformance.compare import worst
from webnn_xla.conformance.reference import REFERENCES, Case, Scaled
from webnn_xla.conformance.table import principal_types, run_cases
from webnn_xla.lowering import OPS


def thinned(cases: list[Case], turn: int) -> list[Case]:
    """The first case of each rank, those with a note (corner values, …), and of the others every third, from ``turn`` on."""
    seen: set[int] = set()
    kept = []
    for index, case in enumerate(cases):
        operands = [item for value in case.operands.values() for item in (value if isinstance(value, list) else [value])]
        rank = max(map(np.ndim, operands), default=0)
        if rank not in seen or case.note or (index + turn) % 3 == 0:
            kept.append(case)
        seen.add(rank)
    return kept


def test_every_op_has_a_reference() -> None:
    assert set(REFERENCES) == set(OPS)


@pytest.mark.parametrize(
    ("op", "data_type"), [(op, data_type) for op in OPS for data_type in principal_types(OPS[op], extensions=True)]
)
def test_op_agrees_with_float64(op: str, data_type: Any, context: webnn.MLContext) -> None:
    if op not in REFERENCES:
        pytest.fail(f"{op} has no reference")
    rng = np.random.default_rng(zlib.crc32(f"{op} {data_type}".encode()))
    cases = list(REFERENCES[op].cases(data_type, rng))
    assert cases
    options: dict[str, Any] = {}
    turn = principal_types(OPS[op], extensions=True).index(data_type)
    if turn > 0:
        # Compiling takes the time: all cases with the first type, as for users; with the others what differs by rank or
        # value, and the rest in turns, without LLVM's optimizations.
        cases, options = thinned(cases, turn), QUICK
    compared = 0
    for outcome in run_cases(context, OPS[op], data_type, cases, compiler_options=options):
        wanted = outcome.wanted
        assert len(wanted) == len(outcome.got)
        for got, want in zip(outcome.got, wanted, strict=True):
            value, scale = want if isinstance(want, Scaled) else (np.asarray(want), None)
            assert got.shape == value.shape, outcome
            kind = webnn.MLOperandDataType.of(got.dtype)
            tolerance = OPS[op].tolerance
            allowed = 0 if kind.is_integer else tolerance.float32 if kind == "float32" else tolerance.float16
            difference = worst(got, value, kind, scale)
            assert difference is None or difference.distance <= allowed, f"{outcome}: {difference}; allowed: {allowed} ulp"
            compared += got.size
    assert compared
