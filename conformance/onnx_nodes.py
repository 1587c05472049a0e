"""ONNX's node tests: small models with inputs and expected outputs, as the ``onnx`` package makes them.

Values of inputs that shapes or branches depend on are fixed, as ``Session`` does: a user's model would have constants
there. Results are compared in value, type and shape, with the case's own tolerances.
``onnx_exclusions.txt`` lists the cases that are expected not to run, one cause a line; a case that it lists and that passes
is reported, so that the list stays true.
"""

from __future__ import annotations

import fnmatch
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from webnn_xla.builder import MLGraphBuilder, MLOperand
from webnn_xla.context import ML, MLContext
from webnn_xla.errors import WebNNError

EXCLUSIONS: Final = Path(__file__).with_name("onnx_exclusions.txt")

OUTSIDE: Final = ("training", "string", "sequence", "random")
"""Causes that are not counted against coverage."""

BATCH: Final = 40
"""Cases that are compiled together: compiling takes most of the time."""

QUICK: Final = {"xla_backend_optimization_level": 0}
"""Compiler options on the CPU for what runs once, where compiling takes the time: without LLVM's optimizations."""

TWO_ULP: Final = {"bfloat16": 2**-6, "float16": 2**-9}
"""Least tolerance of narrow types: two units in the last place, as ONNX's own runner has it for bfloat16."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Result:
    """One case. ``problem`` is empty if it passed; ``cause`` is that of an exclusion; ``fixed`` are inputs fixed by value."""

    name: str
    problem: str
    cause: str = ""
    fixed: tuple[str, ...] = ()
    folded: bool = False
    """Whether nothing was left to compute after import."""

    @property
    def passed(self) -> bool:
        return not self.problem and not self.cause


@dataclass
class Report:
    results: list[Result] = field(default_factory=list)

    @property
    def passed(self) -> list[Result]:
        return [result for result in self.results if result.passed]

    @property
    def failures(self) -> list[Result]:
        return [result for result in self.results if result.problem and not result.cause]

    @property
    def excluded(self) -> list[Result]:
        return [result for result in self.results if result.cause]

    @property
    def coverage(self) -> float:
        """Share of the cases that pass, of all but training, string, sequence and random ones."""
        counted = [result for result in self.results if result.cause.split(":")[0] not in OUTSIDE]
        return len(self.passed) / max(len(counted), 1)

    def to_json(self) -> dict[str, Any]:
        return {
            "passed": len(self.passed),
            "failed": len(self.failures),
            "excluded": dict(Counter(result.cause for result in self.excluded)),
            "coverage": round(self.coverage, 4),
            "with values fixed": sum(bool(result.fixed) for result in self.passed),
            "folded entirely": sum(result.folded for result in self.passed),
            "failures": {result.name: result.problem for result in self.failures},
        }

    def __str__(self) -> str:
        return (
            f"{len(self.passed)} passed, {len(self.failures)} failed, {len(self.excluded)} excluded; "
            f"{self.coverage:.1%} of all but {', '.join(OUTSIDE)}"
        )


def exclusions(path: Path = EXCLUSIONS) -> list[tuple[str, str]]:
    """Patterns of case names and their causes. The first that matches counts."""
    found = []
    for line in path.read_text().splitlines():
        text = line.partition("#")[0].strip()
        if text:
            pattern, _, cause = text.partition(" ")
            found.append((pattern, cause.strip()))
    return found


def cases(names: Iterable[str] | None = None) -> Iterator[Any]:
    """The node tests of the installed onnx package, in order; ``names`` are patterns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        patterns = list(names or ["*"])
        for case in collect_testcases():
            if any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns):
                yield case


def run(
    names: Iterable[str] | None = None,
    *,
    context: MLContext | None = None,
    progress: Progress | None = None,
    excluded: list[tuple[str, str]] | None = None,
    step: int = 1,
) -> Report:
    """Runs the node tests whose names match, every ``step``-th. ``excluded`` replaces the list of exclusions."""
    listed = exclusions() if excluded is None else excluded
    own = context or ML().create_context(accelerated=False, cache=False)
    found: dict[str, Result] = {}
    pending: list[Any] = []
    chosen = list(cases(names))[::step]
    try:
        for index, case in enumerate(chosen):
            cause = next((why for pattern, why in listed if fnmatch.fnmatch(case.name, pattern)), "")
            if cause:
                found[case.name] = Result(case.name, "excluded", cause)
            else:
                pending.append(case)
            if len(pending) == BATCH or index + 1 == len(chosen):
                found.update((result.name, result) for result in run_batch(pending, own))
                pending = []
                if progress is not None:
                    progress(case.name, index + 1, len(chosen))
    finally:
        if context is None:
            own.destroy()
    return Report([found[case.name] for case in chosen])


@dataclass
class _Part:
    """One case in a batch: where its inputs and outputs are in the common graph."""

    case: Any
    given: dict[str, Any]
    boundaries: dict[str, Any]
    fixed: tuple[str, ...] = ()
    inputs: dict[str, Any] = field(default_factory=dict)


def run_batch(batch: list[Any], context: MLContext) -> list[Result]:
    """Records many cases into one graph, compiles and runs it once; each alone if that fails."""
    builder = MLGraphBuilder(context)
    results: dict[str, Result] = {}
    parts: dict[str, _Part] = {}
    outputs: dict[str, MLOperand] = {}
    inputs: dict[str, Any] = {}
    weights: dict[str, Any] = {}
    for index, case in enumerate(batch):
        prefix = f"{index}."
        try:
            part, made, readers = _record(builder, case, prefix)
        except WebNNError as error:
            results[case.name] = Result(case.name, " ".join(str(error).split()))
        except Exception as error:
            results[case.name] = Result(case.name, f"crash: {type(error).__name__}: {error}")
        else:
            parts[prefix] = part
            outputs.update(made)
            inputs.update(part.inputs)
            weights.update(readers)
    try:
        computed = _compute(context, builder, outputs, inputs, weights) if outputs else {}
    except Exception as error:
        if len(batch) == 1:
            return [Result(batch[0].name, f"{type(error).__name__}: {' '.join(str(error).split())}")]
        half = len(batch) // 2
        return run_batch(batch[:half], context) + run_batch(batch[half:], context)
    for prefix, part in parts.items():
        case = part.case
        problem = ""
        for (name, boundary), want in zip(part.boundaries.items(), case.data_sets[0][1], strict=True):
            got = computed.get(prefix + name, boundary.value)
            problem = problem or compare(got.astype(boundary.dtype), want, case.rtol, case.atol)
            problem = f"output {name}: {problem}" if problem and not problem.startswith("output") else problem
        folded = not any(name.startswith(prefix) for name in outputs)
        results[case.name] = Result(case.name, problem, "", part.fixed, folded)
    return [results[case.name] for case in batch]


def _record(builder: MLGraphBuilder, case: Any, prefix: str) -> tuple[_Part, dict[str, MLOperand], dict[str, Any]]:
    """Imports a case, fixing the values of inputs that the import asks for."""
    from webnn_xla.importers.onnx import UnsupportedModelError
    from webnn_xla.importers.onnx.importer import Importer
    from webnn_xla.importers.onnx.loader import Boundary
    from webnn_xla.importers.onnx.model import read_model
    from webnn_xla.importers.onnx.types import to_storage

    model = read_model(case.model)
    given = {port.name: _array(value) for port, value in zip(model.inputs, case.data_sets[0][0], strict=False)}
    fixed: dict[str, Any] = {}
    for attempt in range(8):
        shapes = {port.name: given[port.name].shape for port in model.inputs if port.name in given}
        importer = Importer(model, builder, shapes, fixed, prefix=f"{prefix}{attempt}." if attempt else prefix)
        try:
            results = importer.run()
            break
        except UnsupportedModelError as error:
            wanted = {name for problem in error.problems for name in problem.inputs} - fixed.keys()
            if not wanted:
                raise
            fixed.update({name: given[name] for name in wanted})
    used = importer.prefix
    part = _Part(case, given, {}, tuple(sorted(fixed)))
    outputs: dict[str, MLOperand] = {}
    for name, tensor in results.items():
        part.boundaries[name] = Boundary(tensor.dtype, tensor.shape, tensor.data)
        if tensor.data is None:
            outputs[prefix + name] = builder.identity(importer.operand(tensor, ""))
    part.inputs = {
        used + name: to_storage(array) for name, array in given.items() if name not in fixed and array.dtype != object
    }
    return part, outputs, dict(importer.weights)


def _array(value: Any) -> Any:
    """A tensor of a case, which may be a protobuf message; lists (sequences) become arrays of objects."""
    import onnx

    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value, dtype=object) if isinstance(value, list) or value is None else np.asarray(value)


def _compute(
    context: MLContext, builder: MLGraphBuilder, outputs: dict[str, MLOperand], inputs: dict[str, Any], weights: dict[str, Any]
) -> dict[str, Any]:
    from webnn_xla.importers.onnx.types import to_storage

    graph = builder.build(outputs, compiler_options=QUICK if context.device.platform == "cpu" else None)
    # Not every weight is read by what was recorded: some were folded.
    graph.load_weights({name: to_storage(read()) for name, read in weights.items()}, strict=False)
    return graph.compute({name: inputs[name] for name in graph.get_input_names()})


def compare(got: Any, want: Any, rtol: float, atol: float) -> str:
    """Why two arrays differ in type, shape or value; empty if they agree."""
    want = _array(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"got {got.dtype}{list(got.shape)}, wanted {want.dtype}{list(want.shape)}"
    if want.dtype.kind in "iub" or "int" in want.dtype.name:
        wrong = np.asarray(got.astype(np.int64) != want.astype(np.int64)) if want.dtype != np.uint64 else got != want
    else:
        with np.errstate(all="ignore"):
            a, b = got.astype(np.float64), want.astype(np.float64)
            rtol = max(rtol, TWO_ULP.get(want.dtype.name, 0.0))
            wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if not np.any(wrong):
        return ""
    place = int(np.argmax(wrong.reshape(-1)))
    first = f"got {got.reshape(-1)[place]}, wanted {want.reshape(-1)[place]}"
    return f"element {place} of {want.size}: {first}; {int(wrong.sum())} differ"
