"""The WPT vectors through StableHLO's reference interpreter or the TOSA reference model, in place of XLA.

    webnn-xla conformance wpt DIRECTORY --through stablehlo|tosa

Only conformance cases, and of them the small ones. The case's own tolerance holds, widened as for the comparison of
specifications, whose known differences hold here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from webnn_xla.builder import MLGraphBuilder
from webnn_xla.conformance import interpreter, tosa_reference
from webnn_xla.conformance.differences import known
from webnn_xla.conformance.distance import mismatch
from webnn_xla.conformance.oracle import Oracle
from webnn_xla.conformance.specifications import CASE_SECONDS, EXTRA, EXTRA_16, FACTOR, MAX_ELEMENTS, NOT_INSTALLED
from webnn_xla.conformance.wpt_calls import record
from webnn_xla.conformance.wpt_vectors import ConformanceCase, Tensor, load, op_names
from webnn_xla.context import MLContext
from webnn_xla.dtypes import MLOperandDataType
from webnn_xla.errors import DataError, WebNNError
from webnn_xla.graph import Graph, Node
from webnn_xla.naming import to_snake

BATCH: Final = 32
STATES: Final = ("passed", "differs as known", "refused", "differs", "failed", "too large", NOT_INSTALLED)
Verdict = tuple[str, str]
"""A state, and the reason."""


@dataclass
class ThroughReport:
    """What came of each case: (op, case's name, state, reason)."""

    oracle: str
    results: list[tuple[str, str, str, str]] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return {state: count for state in STATES if (count := sum(result[2] == state for result in self.results))}

    @property
    def failures(self) -> list[tuple[str, str, str, str]]:
        return [result for result in self.results if result[2] in ("differs", "failed")]

    def to_json(self) -> dict[str, Any]:
        keys = ("op", "name", "state", "reason")
        return {
            "format": "webnn-xla-wpt-oracle-report/1",
            "oracle": self.oracle,
            "counts": self.counts(),
            "results": [dict(zip(keys, result, strict=True)) for result in self.results],
        }

    def __str__(self) -> str:
        return f"{self.oracle}: " + ", ".join(f"{count} {state}" for state, count in self.counts().items())


def run_through(
    directory: Path | str,
    oracle: str,
    *,
    context: MLContext,
    ops: Sequence[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> ThroughReport:
    """Runs the conformance vectors (of ``ops``, in camelCase) through ``oracle``. DataError for what cannot be read."""
    directory = Path(directory)
    names = op_names(directory)
    unknown = [op for op in ops or () if op not in names]
    if unknown:
        raise DataError(f"no vectors of {unknown[0]!r} in {directory}; there are: {', '.join(names)}")
    vectors = [load(directory, op) for op in ops or names]
    total, done = sum(len(of_op.conformance) for of_op in vectors), 0
    report = ThroughReport(oracle)
    with Oracle(interpreter.WORKER if oracle == "stablehlo" else tosa_reference.WORKER) as worker:
        for of_op in vectors:
            cases = list(of_op.conformance)
            small = [index for index, case in enumerate(cases) if _elements(case) <= MAX_ELEMENTS]
            verdicts: dict[int, Verdict] = {}
            for start in range(0, len(small), BATCH):
                verdicts |= _run(cases, small[start : start + BATCH], oracle, worker, context)
                if progress:
                    progress(of_op.op, done + start, total)
            done += len(cases)
            for index, case in enumerate(cases):
                report.results.append((of_op.op, case.name, *verdicts.get(index, ("too large", "for the interpreter"))))
    return report


def _elements(case: ConformanceCase) -> int:
    return sum(tensor.data.size for tensor in (*case.inputs.values(), *case.outputs.values()))


def _run(
    cases: Sequence[ConformanceCase], indices: Sequence[int], oracle: str, worker: Oracle, context: MLContext
) -> dict[int, Verdict]:
    """All at once; each alone if that fails."""
    try:
        return _run_batch(cases, indices, oracle, worker, context)
    except WebNNError as error:
        if len(indices) > 1 and NOT_INSTALLED not in str(error):
            verdicts: dict[int, Verdict] = {}
            for index in indices:
                verdicts |= _run(cases, [index], oracle, worker, context)
            return verdicts
        reason = str(error)
        state = "failed"
        if NOT_INSTALLED in reason:
            state = NOT_INSTALLED
        elif any(_known_failure(cases[index], oracle, reason) for index in indices):
            state = "differs as known"
        return dict.fromkeys(indices, (state, reason))


def _run_batch(
    cases: Sequence[ConformanceCase], indices: Sequence[int], oracle: str, worker: Oracle, context: MLContext
) -> dict[int, Verdict]:
    builder = MLGraphBuilder(context)
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Any] = {}
    owner: dict[Node, int] = {}
    for index in indices:
        before = len(builder._nodes)
        made = record(builder, cases[index], f"{index}.", inputs)
        outputs.update({f"{index}.{name}": operand for name, operand in made.items()})
        owner.update(dict.fromkeys(builder._nodes[before:], index))
    graph = builder._graph(outputs)
    # The label of a node tells the case, for what is refused.
    nodes = tuple(Node(n.op, n.operands, n.attributes, n.outputs, str(owner[n])) for n in graph.nodes)
    graph = Graph(graph.inputs, graph.constants, nodes, graph.outputs)
    data = {name: inputs[name].data for name in graph.inputs}
    seconds = CASE_SECONDS * 4
    refused: dict[int, Verdict] = {}
    if oracle == "stablehlo":
        results: Mapping[str, Any] = interpreter.interpret_graph(graph, data, oracle=worker, timeout=seconds)
    else:
        results, module = tosa_reference.run_tosa(graph, data, allow_partial=True, oracle=worker, timeout=seconds)
        refused = {int(refusal.label): ("refused", refusal.reason) for refusal in module.refusals}
    return {index: refused.get(index) or _judge(cases[index], f"{index}.", results, oracle) for index in indices}


def _judge(case: ConformanceCase, prefix: str, results: Mapping[str, Any], oracle: str) -> Verdict:
    for name, tensor in case.outputs.items():
        got, kind = results[prefix + name], tensor.descriptor.data_type
        allowed = case.tolerance
        if case.metric == "ULP" and kind.is_float:
            extra = EXTRA[oracle] if kind == "float32" else EXTRA_16[oracle]
            allowed = allowed * (FACTOR[oracle] if kind == "float32" else 1) + extra
        difference = mismatch(got, tensor.data, case.metric, allowed, signed_zero=False)
        if difference:
            sentence = next(
                (
                    entry.sentence
                    for call in case.calls
                    for entry in known(to_snake(call.op), _type(case), oracle)
                    if not entry.failure and difference.distance <= entry.ulp
                ),
                "",
            )
            return ("differs as known", sentence) if sentence else ("differs", f"{name}: {difference}")
    return "passed", ""


def _type(case: ConformanceCase) -> MLOperandDataType:
    tensors = list(case.inputs.values()) or list(case.outputs.values())
    return tensors[0].descriptor.data_type


def _known_failure(case: ConformanceCase, oracle: str, reason: str) -> bool:
    entries = [entry for call in case.calls for entry in known(to_snake(call.op), _type(case), oracle)]
    return any(entry.failure and entry.failure in reason for entry in entries)
