"""Runs the WPT vectors: every graph is built, run and compared, every builder call must succeed or throw as written.

    webnn-xla conformance wpt DIRECTORY [--op NAME] [--json FILE] [--show N]

All inputs are run-time inputs, written to tensors as bytes, unless a case says ``constant``. Outputs are compared in
type, shape and, with the case's own tolerance, in value. Cases of one op are built into one graph, since compiling
many small graphs takes long; if that fails, each is built alone, so that a failure is always of one case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from webnn_xla.builder import MLGraphBuilder, MLOperand
from webnn_xla.conformance.command import app
from webnn_xla.conformance.distance import mismatch
from webnn_xla.conformance.wpt_calls import CaseFailure, check_descriptor, invoke, record, to_bytes
from webnn_xla.conformance.wpt_vectors import (
    CONFORMANCE,
    CORRECTIONS,
    VALIDATION,
    ConformanceCase,
    OpVectors,
    Tensor,
    ValidationCase,
    load,
    op_names,
)
from webnn_xla.context import ML, MLContext
from webnn_xla.dtypes import MLOperandDescriptor
from webnn_xla.errors import (
    ArgumentError,
    DataError,
    InvalidStateError,
    NotSupportedError,
    OperationError,
    WebNNError,
    printable,
)

BATCH_CASES: Final = 64
BATCH_BYTES: Final = 2**20
"""Limits of one graph of several cases. A case that is larger has a graph of its own."""

THROWS: Final[dict[str, type[WebNNError]]] = {
    "TypeError": ArgumentError,
    "InvalidStateError": InvalidStateError,
    "NotSupportedError": NotSupportedError,
    "OperationError": OperationError,
    "DataError": DataError,
}


@dataclass(frozen=True)
class Result:
    """One case: passed if ``problem`` is empty, which else says what was got and wanted."""

    op: str
    kind: str
    id: str
    name: str
    problem: str = ""

    @property
    def passed(self) -> bool:
        return not self.problem

    def __str__(self) -> str:
        return f"{self.op} {self.kind} {self.id} {printable(self.name)!r}" + (f"\n    {self.problem}" if self.problem else "")


@dataclass
class Report:
    """All results, in the order of the files."""

    results: list[Result] = field(default_factory=list)

    @property
    def failures(self) -> list[Result]:
        return [result for result in self.results if not result.passed]

    @property
    def corrected(self) -> list[str]:
        """What was corrected in the vectors that ran, and why: values known to be wrong in the suite."""
        return [
            f"{result.op} {result.id}: {CORRECTIONS[result.id].reason}" for result in self.results if result.id in CORRECTIONS
        ]

    def counts(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Op → kind → (passed, failed)."""
        counts: dict[str, dict[str, tuple[int, int]]] = {}
        for result in self.results:
            passed, failed = counts.setdefault(result.op, {}).get(result.kind, (0, 0))
            counts[result.op][result.kind] = (passed + result.passed, failed + (not result.passed))
        return counts

    def __str__(self) -> str:
        failed = len(self.failures)
        return f"{len(self.results) - failed} passed, {failed} failed"

    def to_json(self) -> dict[str, Any]:
        """Totals, counts by op, and the failures, as plain values."""
        failed = len(self.failures)
        return {
            "format": "webnn-xla-wpt-report/1",
            "passed": len(self.results) - failed,
            "failed": failed,
            "corrected": self.corrected,
            "ops": {
                op: {kind: {"passed": passed, "failed": off} for kind, (passed, off) in kinds.items()}
                for op, kinds in self.counts().items()
            },
            "failures": [{k: getattr(r, k) for k in ("op", "kind", "id", "name", "problem")} for r in self.failures],
        }


def run(
    directory: Path | str,
    *,
    ops: Sequence[str] | None = None,
    context: MLContext | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Runs the vectors in ``directory``: of all ops there, or of those named in camelCase.

    Arguments:
        context: where graphs run; by default a new one on the best device.
        progress: called with the op, the number of cases done, and that of all.

    Errors: DataError for a missing folder, an op that has no vectors there, or a damaged file.
    """
    directory = Path(directory)
    known = op_names(directory)
    for op in ops or ():
        if op not in known:
            raise DataError(f"no vectors of {op!r} in {directory}; there are: {', '.join(known)}")
    # All files are read first: a damaged one is told before anything runs.
    vectors = [load(directory, op) for op in ops or known]
    total = sum(map(len, vectors))
    if not total:
        raise DataError(f"{directory}: the files have no cases")
    report = Report()
    own = context or ML().create_context()
    try:
        for of_op in vectors:
            for result in run_op(own, of_op):
                report.results.append(result)
                if progress:
                    progress(of_op.op, len(report.results), total)
    finally:
        if context is None:
            own.destroy()
    return report


def run_op(context: MLContext, vectors: OpVectors) -> Iterator[Result]:
    """Runs all cases of one op, conformance first."""
    for batch in _batches(vectors.conformance):
        for case, problem in zip(batch, run_batch(context, batch), strict=True):
            yield Result(vectors.op, CONFORMANCE, case.id, case.name, problem)
    for check in vectors.validation:
        yield Result(vectors.op, VALIDATION, check.id, check.name, run_validation(context, check))


def _batches(cases: Sequence[ConformanceCase]) -> Iterator[list[ConformanceCase]]:
    batch: list[ConformanceCase] = []
    size = 0
    for case in cases:
        if batch and (len(batch) == BATCH_CASES or size + case.byte_length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(case)
        size += case.byte_length
    if batch:
        yield batch


# Conformance


def run_batch(context: MLContext, cases: Sequence[ConformanceCase]) -> list[str]:
    """The problem of each case, empty if there is none. Builds all into one graph, and each alone if that fails."""
    builder = MLGraphBuilder(context)
    problems = [""] * len(cases)
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, MLOperand] = {}
    for index, case in enumerate(cases):
        try:
            made = record(builder, case, f"{index}.", inputs)
        except Exception as error:  # whatever it is, it is a failure of this case and not the end of the run
            problems[index] = _tell(error)
        else:
            outputs.update({f"{index}.{name}": operand for name, operand in made.items()})
    if not outputs:
        return problems
    try:
        results = _execute(context, builder, inputs, outputs)
    except Exception as error:
        if len(cases) > 1:
            return [problem or run_batch(context, [case])[0] for case, problem in zip(cases, problems, strict=True)]
        return [_tell(error)]
    for index, case in enumerate(cases):
        problems[index] = problems[index] or _compare(case, {name: results[f"{index}.{name}"] for name in case.outputs})
    return problems


def _execute(
    context: MLContext, builder: MLGraphBuilder, inputs: Mapping[str, Tensor], outputs: Mapping[str, MLOperand]
) -> dict[str, Any]:
    graph = builder.build(outputs)
    given = {name: context.create_tensor(tensor, writable=True) for name, tensor in graph.input_descriptors.items()}
    taken = {name: context.create_tensor(tensor, readable=True) for name, tensor in graph.output_descriptors.items()}
    try:
        for name, tensor in given.items():
            context.write_tensor(tensor, to_bytes(inputs[name].data, tensor.descriptor))
        context.dispatch(graph, given, taken)
        return {name: context.read_tensor(tensor) for name, tensor in taken.items()}
    finally:
        for tensor in (*given.values(), *taken.values()):
            tensor.destroy()
        graph.destroy()


def _compare(case: ConformanceCase, results: Mapping[str, Any]) -> str:
    for name, tensor in case.outputs.items():
        got, want = results[name], tensor.data
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"output {name}: got an array of {got.dtype}{list(got.shape)}, wanted {want.dtype}{list(want.shape)}"
        difference = mismatch(got, want, case.metric, case.tolerance, signed_zero=case.signed_zero)
        if difference:
            return f"output {name}: {difference}"
    return ""


# Validation


def run_validation(context: MLContext, case: ValidationCase) -> str:
    """The problem of a validation case, empty if there is none."""
    limit = case.max_tensor_byte_length
    if limit is not None:
        with MLContext(context.device, max_tensor_byte_length=limit) as limited:
            return _validate(limited, case)
    return _validate(context, case)


def _validate(context: MLContext, case: ValidationCase) -> str:
    try:
        builders = {"": MLGraphBuilder(context), "other": MLGraphBuilder(context)}
        operands: dict[str, MLOperand] = {}
        for name, described in case.operands.items():
            builder = builders[described.get("builder", "")]
            descriptor = MLOperandDescriptor(described["dataType"], described["shape"])
            if described["kind"] == "constant":
                operands[name] = builder.constant(descriptor, bytes(descriptor.byte_length))
            else:
                operands[name] = builder.input(name, descriptor)
        for step in case.prelude:
            operands[step["result"]] = invoke(builders[""], step["op"], step["args"], operands)
    except Exception as error:
        return f"before the call under test: {_tell(error)}"
    try:
        result = invoke(builders[""], case.method, case.args, operands)
    except CaseFailure as error:
        return str(error)
    except Exception as error:
        return _check_error(error, case.expect)
    if "throws" in case.expect:
        return f"got {result!r}, wanted {case.expect['throws']}"
    try:
        _check_results(result, case.expect)
    except CaseFailure as error:
        return str(error)
    return ""


def _check_error(error: Exception, expect: Mapping[str, Any]) -> str:
    wanted = expect.get("throws")
    if wanted is None:
        return f"got {_tell(error)}, wanted no error"
    if not isinstance(error, THROWS.get(wanted, ())):
        return f"got {_tell(error)}, wanted {wanted}"
    included = expect.get("messageIncludes", "")
    return "" if included in str(error) else f"got the message {str(error)!r}, wanted {included!r} in it"


def _check_results(result: Any, expect: Mapping[str, Any]) -> None:
    if expect.get("output") is not None:
        check_descriptor("the output", result, MLOperandDescriptor.of(expect["output"]))
    results = result if isinstance(result, list) else [result]
    wanted = expect.get("outputs")
    count = expect.get("outputCount", None if wanted is None else len(wanted))
    if count is not None and (not isinstance(result, list) or len(results) != count):
        raise CaseFailure(
            f"got {len(results) if isinstance(result, list) else 'one operand, not a list of'} outputs, wanted {count}"
        )
    for index, descriptor in enumerate(wanted or ()):
        check_descriptor(f"output {index}", results[index], MLOperandDescriptor.of(descriptor))


def _tell(error: BaseException) -> str:
    return str(error) if isinstance(error, CaseFailure) else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    app()
