"""What the canonical lowering of an op emits: the StableHLO operators of its reference's cases, as recorded.

The ``stablehlo`` line of every declaration is compared with this, so that the published mapping is never stale.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from webnn_xla import devices, tosa
from webnn_xla.compile import lower
from webnn_xla.conformance.reference import REFERENCES, Case
from webnn_xla.conformance.table import build_cases, principal_types
from webnn_xla.context import ML
from webnn_xla.lowering.op import Op, Target
from webnn_xla.lowering.tosa import MAX_RANK

NOT_COUNTED = frozenset({"constant", "return"})


def emitted(op: type[Op]) -> tuple[str, ...]:
    """Operators of StableHLO (and ``chlo.…``), sorted, over all cases in float32, or the op's first type if it has no float32.

    Constants are left out. Every operand is an argument of the program, so nothing is folded.
    """
    types = principal_types(op)
    data_type = next((candidate for candidate in types if candidate == "float32"), types[0])
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    with ML().create_context(device_type="cpu") as context:
        built = build_cases(context, op, data_type, list(REFERENCES[op.name].cases(data_type, rng)))
        graph = built.builder._graph(built.outputs)
        with devices.x64():
            module = lower(graph, Target(), context.device).stage.compiler_ir("stablehlo")
    names = {name for operation in module.body.operations for name in _names(operation)}
    return tuple(sorted(names - NOT_COUNTED))


def emitted_tosa(op: type[Op]) -> tuple[str, ...]:
    """Operators of TOSA 1.1 that the op's rule emits, in order of first use, over its cases in the same type as ``emitted``.

    Constants are left out, and cases of more dimensions than TOSA has: what makes three of them is not the op.
    """
    types = principal_types(op)
    data_type = next((candidate for candidate in types if candidate == "float32"), types[0])
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    cases = [case for case in REFERENCES[op.name].cases(data_type, rng) if _rank(case) <= MAX_RANK]
    with ML().create_context(device_type="cpu") as context:
        built = build_cases(context, op, data_type, cases)
        return tosa.export(built.builder._graph(built.outputs), "1.1", allow_partial=True).operators or ("CONST",)


def _rank(case: Case) -> int:
    values = (item for value in case.operands.values() for item in (value if isinstance(value, list) else [value]))
    sizes = (value for value in case.attributes.values() if isinstance(value, (list, tuple)))
    return max([0, *map(np.ndim, values), *map(len, sizes)])


def _names(operation: Any) -> Iterator[str]:
    dialect, _, name = str(operation.operation.name).partition(".")
    if dialect == "stablehlo":
        yield name
    elif dialect not in ("func", "sdy"):
        yield f"{dialect}.{name}"
    for region in operation.operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _names(inner)
