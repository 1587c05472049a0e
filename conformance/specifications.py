"""Every op and data type through XLA, StableHLO's reference interpreter and TOSA's reference model, beside float64.

    webnn-xla conformance spec [--op NAME] [--json FILE] [--html FILE]

The cases are those of the references, the small ones. All cases of an op and type travel in one module; where that fails
(an oracle crashes, a module is refused), each travels alone, so that a failure is always of one case. What differs beyond
the tolerance needs its sentence in ``differences``; what an oracle cannot say is counted as refused, with the reason.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Final

import numpy as np

from webnn_xla.builder import MLGraphBuilder
from webnn_xla.conformance import interpreter, tosa_reference
from webnn_xla.conformance.compare import ulp_distances
from webnn_xla.conformance.differences import Difference, known
from webnn_xla.conformance.oracle import Oracle
from webnn_xla.conformance.reference import REFERENCES, Array, Case, Scaled
from webnn_xla.conformance.table import Outcome, principal_types, typed, wanted
from webnn_xla.context import MLContext
from webnn_xla.dtypes import Descriptor, MLOperandDataType
from webnn_xla.errors import ArgumentError
from webnn_xla.graph import Graph
from webnn_xla.lowering import OPS
from webnn_xla.lowering.op import Op

ORACLES: Final = ("xla", "stablehlo", "tosa")
"""What is compared with float64, in the order of the columns."""

TITLES: Final = {"xla": "XLA", "stablehlo": "StableHLO interpreter", "tosa": "TOSA reference model"}

MAX_ELEMENTS: Final = 4096
"""Of a case's operands together: the interpreter visits elements one by one."""
BATCH: Final = 48
"""Cases in one module."""
BATCH_SECONDS: Final = 60.0
CASE_SECONDS: Final = 15.0

FACTOR: Final = {"xla": 1.0, "stablehlo": 4.0, "tosa": 4.0}
EXTRA: Final = {"xla": 0.0, "stablehlo": 4.0, "tosa": 16.0}
EXTRA_16: Final = {"xla": 0.0, "stablehlo": 1.0, "tosa": 1.0}
"""Tolerance of an oracle: the op's own times a factor, plus ulp. The interpreter accumulates one by one in the element
type; TOSA's model composes most functions of others, and its TANH and EXP are less exact. float16 and bfloat16 are computed
in float32 by all three, and round once."""

NOT_INSTALLED: Final = "not installed"
Results = list[Array] | str
"""Of one case: arrays, or the reason why there are none."""


@dataclass
class Cell:
    """What one oracle says about one op and type. Numbers of cases, but for ``special``, which counts elements."""

    agree: int = 0
    explained: int = 0
    """Cases that differ as ``differences`` says."""
    unexplained: int = 0
    refused: int = 0
    failed: int = 0
    """Crashed, took too long, or rejected the module."""
    missing: int = 0
    """Not run, since the oracle is not installed."""
    ulp: float = 0.0
    """The largest finite error; for integers the largest difference."""
    special: int = 0
    """Elements that are NaN or infinite in the reference."""
    special_agree: int = 0
    sentences: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Of refusals, failures and unexplained differences: each once."""

    @property
    def state(self) -> str:
        """The worst that happened, in a word."""
        if self.missing:
            return NOT_INSTALLED
        if self.unexplained:
            return "differs"
        if self.failed:
            return "failed"
        if self.explained:
            return "differs as known"
        if self.agree:
            return "agrees"
        return "refused" if self.refused else "nothing run"

    @property
    def bad(self) -> bool:
        return bool(self.unexplained or self.failed)

    def note(self, reason: str, *, sentence: bool = False) -> None:
        notes = self.sentences if sentence else self.reasons
        if reason not in notes and (sentence or len(notes) < 6):
            notes.append(reason)


@dataclass
class Row:
    """One op and data type."""

    op: str
    data_type: str
    cases: int = 0
    skipped: int = 0
    """Cases that are too large for the interpreter."""
    cells: dict[str, Cell] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        cells = {
            name: {**{k: v for k, v in vars(cell).items() if k != "ulp"}, "ulp": _number(cell.ulp), "state": cell.state}
            for name, cell in self.cells.items()
        }
        return {"op": self.op, "dataType": self.data_type, "cases": self.cases, "skipped": self.skipped, "oracles": cells}


@dataclass
class SpecificationReport:
    """All rows, in the order of the op table."""

    rows: list[Row] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Differences and failures that no sentence covers."""
        return [
            f"{row.op} {row.data_type}, {TITLES[name]}: {reason}"
            for row in self.rows
            for name, cell in row.cells.items()
            if cell.bad
            for reason in cell.reasons
            if not reason.startswith("refused: ")
        ]

    @property
    def missing(self) -> list[str]:
        """Oracles that are not installed."""
        return [name for name in ORACLES if any(row.cells[name].missing for row in self.rows)]

    def counts(self) -> dict[str, dict[str, int]]:
        """By oracle: cases that agree, differ as known, differ, are refused, failed; and rows by state."""
        names = ("agree", "explained", "unexplained", "refused", "failed", "missing")
        return {
            oracle: {name: sum(getattr(row.cells[oracle], name) for row in self.rows) for name in names} for oracle in ORACLES
        }

    def states(self) -> dict[str, dict[str, int]]:
        """By oracle: rows in each state."""
        made: dict[str, dict[str, int]] = {oracle: {} for oracle in ORACLES}
        for row in self.rows:
            for oracle, cell in row.cells.items():
                made[oracle][cell.state] = made[oracle].get(cell.state, 0) + 1
        return made

    def to_json(self) -> dict[str, Any]:
        return {
            "format": "webnn-xla-specification-report/1",
            "versions": versions(),
            "cases": self.counts(),
            "rows_by_state": self.states(),
            "problems": self.problems,
            "rows": [row.to_json() for row in self.rows],
        }

    def __str__(self) -> str:
        lines = [f"{len({row.op for row in self.rows})} ops, {len(self.rows)} pairs of op and data type"]
        for oracle, counts in self.counts().items():
            text = ", ".join(f"{count} {_WORDS[name]}" for name, count in counts.items() if count)
            lines.append(f"{TITLES[oracle]}: {text or 'nothing was run'} (cases)")
        return "\n".join(lines)


_WORDS = {
    "agree": "agree",
    "explained": "differ as known",
    "unexplained": "differ",
    "refused": "cannot be said",
    "failed": "failed",
    "missing": NOT_INSTALLED,
}


def versions() -> dict[str, str]:
    """The packages whose words are compared; empty for what is not installed."""
    found = {}
    for name in ("webnn-xla", "jax", "jaxlib", "tosa-tools", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    return found


def run(
    ops: Sequence[str] | None = None,
    *,
    context: MLContext,
    data_types: Sequence[str] | None = None,
    max_cases: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> SpecificationReport:
    """Compares ops (snake_case names; by default all) on their data types (by default all, extensions too).

    ``max_cases``: at most so many of each op and type, spread over all. Errors: ArgumentError for an unknown op.
    """
    unknown = [name for name in ops or () if name not in OPS]
    if unknown:
        raise ArgumentError(f"got {', '.join(unknown)}; allowed: names of `webnn-xla ops`", operator="spec", operand="op")
    pairs = [
        (OPS[name], kind)
        for name in ops or OPS
        for kind in principal_types(OPS[name], extensions=True)
        if data_types is None or kind in data_types
    ]
    report = SpecificationReport()
    with Oracle(interpreter.WORKER) as stablehlo, Oracle(tosa_reference.WORKER) as model:
        for index, (op, kind) in enumerate(pairs):
            if progress:
                progress(f"{op.name} {kind}", index, len(pairs))
            report.rows.append(compare(op, kind, context, stablehlo, model, max_cases))
    return report


def compare(
    op: type[Op], data_type: MLOperandDataType, context: MLContext, stablehlo: Oracle, model: Oracle, limit: int | None = None
) -> Row:
    """One op and type through all oracles."""
    rng = np.random.default_rng(zlib.crc32(f"{op.name} {data_type}".encode()))
    everything = list(REFERENCES[op.name].cases(data_type, rng))
    small = [case for case in everything if _elements(case) <= MAX_ELEMENTS]
    row = Row(op.name, str(data_type), len(small), len(everything) - len(small))
    if limit is not None and len(small) > limit:
        small = [small[int(i)] for i in np.linspace(0, len(small) - 1, limit)]
        row.cases = limit
    truths = [wanted(op, case, data_type) for case in small]
    runs: dict[str, Callable[[Recorded, float], dict[int, Results]]] = {
        "xla": lambda recorded, _: _run_xla(recorded, context),
        "stablehlo": lambda recorded, seconds: _run_stablehlo(recorded, stablehlo, seconds),
        "tosa": lambda recorded, seconds: _run_tosa(recorded, model, seconds),
    }
    for name, execute in runs.items():
        cell = row.cells[name] = Cell()
        differences = known(op.name, data_type, name)
        for start in range(0, len(small), BATCH):
            indices = range(start, min(start + BATCH, len(small)))
            results = _run(execute, context, op, data_type, small, indices)
            for index in indices:
                outcome = Outcome(op.name, data_type, small[index], [], [])
                _judge(cell, name, op, results[index], truths[index], differences, str(outcome))
    return row


def _elements(case: Case) -> int:
    operands = [item for value in case.operands.values() for item in (value if isinstance(value, list) else [value])]
    return sum(np.asarray(operand).size for operand in operands)


# Running


@dataclass(frozen=True)
class Recorded:
    """Cases in one graph; each operand an input, each result an output ``<case>.<result>``, each node labelled ``<case>``."""

    graph: Graph
    inputs: Mapping[str, Array]
    counts: Mapping[int, int]


def record(
    context: MLContext, op: type[Op], data_type: MLOperandDataType, cases: Sequence[Case], indices: Sequence[int]
) -> Recorded:
    """Records the cases at ``indices``."""
    builder = MLGraphBuilder(context)
    inputs: dict[str, Array] = {}
    outputs: dict[str, Any] = {}
    counts: dict[int, int] = {}

    def feed(name: str, array: Array) -> Any:
        inputs[name] = array
        return builder.input(name, Descriptor(array.dtype, array.shape))

    for index in indices:
        operands = {
            name: [feed(f"{index}.{name}.{i}", item) for i, item in enumerate(value)]
            if isinstance(value, list)
            else feed(f"{index}.{name}", value)
            for name, value in typed(cases[index], data_type).items()
        }
        made = getattr(builder, op.name)(**operands, **cases[index].attributes, label=str(index))
        results = made if isinstance(made, list) else [made]
        counts[index] = len(results)
        outputs.update({f"{index}.{i}": operand for i, operand in enumerate(results)})
    return Recorded(builder._graph(outputs), inputs, counts)


def _run(
    execute: Callable[[Recorded, float], dict[int, Results]],
    context: MLContext,
    op: type[Op],
    data_type: MLOperandDataType,
    cases: Sequence[Case],
    indices: Sequence[int],
) -> dict[int, Results]:
    """All cases at once; each alone if that fails."""
    try:
        return execute(record(context, op, data_type, cases, indices), BATCH_SECONDS)
    except Exception as error:  # an oracle may give back whatever it likes: it is a failure of the case
        if len(indices) == 1 or NOT_INSTALLED in str(error):
            return dict.fromkeys(indices, f"failed: {error}")
    made: dict[int, Results] = {}
    for index in indices:
        try:
            made |= execute(record(context, op, data_type, cases, [index]), CASE_SECONDS)
        except Exception as error:
            made[index] = f"failed: {error}"
    return made


def _gather(recorded: Recorded, results: Mapping[str, Array]) -> dict[int, Results]:
    return {index: [results[f"{index}.{i}"] for i in range(count)] for index, count in recorded.counts.items()}


def _run_xla(recorded: Recorded, context: MLContext) -> dict[int, Results]:
    from webnn_xla.mlgraph import MLGraph

    graph = MLGraph._build(context, recorded.graph)
    try:
        return _gather(recorded, graph.compute({name: recorded.inputs[name] for name in graph.input_descriptors}))
    finally:
        graph.destroy()


def _run_stablehlo(recorded: Recorded, oracle: Oracle, seconds: float) -> dict[int, Results]:
    return _gather(recorded, interpreter.interpret_graph(recorded.graph, recorded.inputs, oracle=oracle, timeout=seconds))


def _run_tosa(recorded: Recorded, oracle: Oracle, seconds: float) -> dict[int, Results]:
    results, module = tosa_reference.run_tosa(
        recorded.graph, recorded.inputs, allow_partial=True, oracle=oracle, timeout=seconds
    )
    refused = {int(refusal.label): f"refused: {refusal.reason}" for refusal in module.refusals}
    kept = {index: count for index, count in recorded.counts.items() if index not in refused}
    return {**refused, **_gather(Recorded(recorded.graph, recorded.inputs, kept), results)}


# Judging


def tolerance(op: type[Op], data_type: MLOperandDataType, oracle: str) -> float:
    """How far an oracle's result of ``data_type`` may be from float64, in ulp; integers are exact."""
    if data_type.is_integer:
        return 0.0
    if data_type == "float32":
        return op.tolerance.float32 * FACTOR[oracle] + (EXTRA[oracle] if op.tolerance.float32 else 0.0)
    return op.tolerance.float16 + (EXTRA_16[oracle] if op.tolerance.float16 or op.tolerance.float32 else 0.0)


def _judge(
    cell: Cell,
    oracle: str,
    op: type[Op],
    results: Results,
    truths: Sequence[Any],
    differences: Sequence[Difference],
    described: str,
) -> None:
    if isinstance(results, str):
        if NOT_INSTALLED in results:
            cell.missing += 1
        elif results.startswith("refused: "):
            cell.refused += 1
        elif sentence := next((d.sentence for d in differences if d.failure and d.failure in results), ""):
            cell.explained += 1
            cell.note(sentence, sentence=True)
            return
        else:
            cell.failed += 1
            results = f"{results} ({described})"
        cell.note(results)
        return
    sentences: list[str] = []
    for got, truth in zip(results, truths, strict=True):
        problem = _compare_output(cell, oracle, op, got, truth, differences, sentences)
        if problem:
            cell.unexplained += 1
            cell.note(f"{problem} ({described})")
            return
    for sentence in sentences:
        cell.note(sentence, sentence=True)
    if sentences:
        cell.explained += 1
    else:
        cell.agree += 1


def _compare_output(
    cell: Cell, oracle: str, op: type[Op], got: Array, truth: Any, differences: Sequence[Difference], sentences: list[str]
) -> str:
    """What no sentence covers, in words; empty if there is nothing. Adds the sentences that were needed."""
    value, scale = (truth.value, truth.scale) if isinstance(truth, Scaled) else (np.asarray(truth), None)
    if got.shape != value.shape:
        return f"got the shape {list(got.shape)}, wanted {list(value.shape)}"
    kind = MLOperandDataType.of(got.dtype)
    distances = np.asarray(ulp_distances(got, value, kind, scale)).reshape(-1)
    flat, want = got.reshape(-1), np.asarray(value).reshape(-1)
    if kind.is_float:
        wide, exact = flat.astype(np.float64), want.astype(np.float64)
        special = ~np.isfinite(exact)
        unusual = special | ~np.isfinite(wide)
    else:
        special = unusual = np.zeros(flat.shape, np.bool_)
    cell.special += int(special.sum())
    cell.special_agree += int((special & (distances == 0)).sum())
    usual = distances[~unusual]
    if usual.size:
        cell.ulp = max(cell.ulp, float(usual.max()))
    off = distances > tolerance(op, kind, oracle)
    for difference in differences:
        covered = off & (distances <= difference.ulp) & (unusual | (not difference.special))
        if not difference.failure and covered.any():
            off &= ~covered
            if difference.sentence not in sentences:
                sentences.append(difference.sentence)
    if not off.any():
        return ""
    index = int(np.where(off, distances, -1).argmax())
    return f"element {index}: got {flat[index]!r}, float64 says {want[index]!r}, {distances[index]:g} ulp"


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
