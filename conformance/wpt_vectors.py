"""Reads the WPT vectors: JSON in, checked cases out. Nothing here builds or runs a graph.

The format is described beside the data (``README.md``): ``conformance/<op>.json`` has graphs with inputs and expected
outputs, ``validation/<op>.json`` has builder calls that must succeed or throw. Names are the specification's camelCase.
Every number is exact: floats are doubles that round once to their data type, integers have any size.

Errors: DataError, naming the file and the case, for whatever does not have this form.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from webnn_xla.dtypes import MAX_DIMENSION, MLOperandDataType, MLOperandDescriptor
from webnn_xla.errors import DataError

Array = np.ndarray[Any, Any]

CONFORMANCE: Final = "conformance"
VALIDATION: Final = "validation"
METRICS: Final = ("ULP", "ATOL")


@dataclass(frozen=True)
class Tensor:
    """An input or expected output. ``data`` has the descriptor's type and shape (a fill is a view of one number)."""

    descriptor: MLOperandDescriptor
    data: Array
    constant: bool = False


@dataclass(frozen=True)
class Call:
    """One builder call: positional arguments with their names in the IDL, the options, and the names of the results."""

    op: str
    arguments: Sequence[tuple[str, Any]]
    options: Mapping[str, Any]
    outputs: Sequence[str]
    returns_list: bool


@dataclass(frozen=True)
class ConformanceCase:
    """A graph, its inputs, and what its outputs must be. ``signed_zero``: +0 and -0 differ."""

    id: str
    name: str
    inputs: Mapping[str, Tensor]
    calls: Sequence[Call]
    outputs: Mapping[str, Tensor]
    metric: str
    tolerance: float
    signed_zero: bool

    @property
    def byte_length(self) -> int:
        """Bytes of all inputs and outputs."""
        return sum(tensor.descriptor.byte_length for tensor in (*self.inputs.values(), *self.outputs.values()))


@dataclass(frozen=True)
class ValidationCase:
    """A builder call, what comes before it, and what must come of it. Values are as in JSON."""

    id: str
    name: str
    method: str
    operands: Mapping[str, Mapping[str, Any]]
    prelude: Sequence[Mapping[str, Any]]
    args: Sequence[Any]
    expect: Mapping[str, Any]
    max_tensor_byte_length: int | None


@dataclass(frozen=True)
class OpVectors:
    """All cases of one op."""

    op: str
    conformance: Sequence[ConformanceCase] = ()
    validation: Sequence[ValidationCase] = ()

    def __len__(self) -> int:
        return len(self.conformance) + len(self.validation)


def op_names(directory: Path) -> list[str]:
    """The ops that ``directory`` has vectors of, by name. DataError if it has none, or is not there."""
    if not directory.is_dir():
        raise DataError(f"{directory}: no such folder")
    names = {path.stem for kind in (CONFORMANCE, VALIDATION) for path in (directory / kind).glob("*.json")}
    if not names:
        raise DataError(f"{directory}: no vectors here; wanted {CONFORMANCE}/<op>.json or {VALIDATION}/<op>.json")
    return sorted(names)


def load(directory: Path, op: str) -> OpVectors:
    """The cases of one op, from both folders."""
    cases: dict[str, list[Any]] = {CONFORMANCE: [], VALIDATION: []}
    for kind, parse in ((CONFORMANCE, _conformance), (VALIDATION, _validation)):
        path = directory / kind / f"{op}.json"
        if not path.exists():
            continue
        content = _read(path, f"webnn-wpt-{kind}/1")
        for index, case in enumerate(content["cases"]):
            where = case.get("id", index) if isinstance(case, dict) else index
            try:
                cases[kind].append(parse(case))
            except KeyError as error:
                raise DataError(f"{path}: case {where}: no {error}") from None
            except (TypeError, ValueError, AttributeError, OverflowError) as error:
                raise DataError(f"{path}: case {where}: {error}") from None
    return OpVectors(op, **cases)


def _read(path: Path, form: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != form:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise DataError(f"{path}: got the format {found!r}; allowed: {form!r}")
    if not isinstance(content.get("cases"), list):
        raise DataError(f"{path}: no list of cases")
    return content


@dataclass(frozen=True)
class Correction:
    """Expected values that are known to be wrong in the suite: the elements, what to make of them, and why."""

    elements: tuple[int, ...]
    correct: Callable[[Array], Array]
    reason: str


CORRECTIONS: Final[dict[str, Correction]] = {
    "8f254e0857db": Correction(
        (2, 8, 11, 17),
        np.sqrt,
        "l2Pool2d, windows of two elements: the sum of squares without its root "
        "(https://github.com/webmachinelearning/webnn-baseline/pull/125)",
    ),
}
"""By the case's id. A corrected case is compared like any other, and reports tell of it."""


def _conformance(case: dict[str, Any]) -> ConformanceCase:
    graph, tolerance = case["graph"], case["tolerance"]
    metric, value = tolerance["metricType"], tolerance["value"]
    if metric not in METRICS or not isinstance(value, (int, float)) or not value >= 0:
        raise ValueError(f"got the tolerance {tolerance}; allowed: {' or '.join(METRICS)} with a value of 0 or more")
    if not graph["operators"] or not graph["expectedOutputs"]:
        raise ValueError("got a graph without operators or without outputs")
    expected = {name: _tensor(name, value) for name, value in graph["expectedOutputs"].items()}
    correction = CORRECTIONS.get(case["id"])
    if correction:
        name, tensor = next(iter(expected.items()))
        data = tensor.data.copy()
        elements = list(correction.elements)
        data.reshape(-1)[elements] = correction.correct(data.reshape(-1)[elements])
        expected[name] = replace(tensor, data=data)
    return ConformanceCase(
        str(case["id"]),
        str(case["name"]),
        {name: _tensor(name, value) for name, value in graph["inputs"].items()},
        [_call(call) for call in graph["operators"]],
        expected,
        metric,
        value,
        case.get("compare") == "bitwise",
    )


def _call(call: dict[str, Any]) -> Call:
    arguments: list[tuple[str, Any]] = []
    options: dict[str, Any] = {}
    for argument in call["arguments"]:
        ((name, value),) = argument.items()
        if name == "options":
            options = dict(value)
        else:
            arguments.append((name, value))
    outputs = call["outputs"]
    returns_list = not isinstance(outputs, str)
    return Call(call["name"], arguments, options, list(outputs) if returns_list else [outputs], returns_list)


def _tensor(name: str, value: dict[str, Any]) -> Tensor:
    descriptor = MLOperandDescriptor.of(value["descriptor"])
    if descriptor.element_count > MAX_DIMENSION or any(dimension < 1 for dimension in descriptor.shape):
        raise ValueError(f"{name}: got {descriptor}; allowed: dimensions from 1, and {MAX_DIMENSION} elements")
    data = value["data"]
    numbers = to_array(data if isinstance(data, list) else [data], descriptor.data_type)
    if not isinstance(data, list):
        return Tensor(descriptor, np.broadcast_to(numbers.reshape(()), descriptor.shape), bool(value.get("constant")))
    if numbers.size != descriptor.element_count:
        raise ValueError(f"{name}: got {numbers.size} numbers for {descriptor}")
    return Tensor(descriptor, numbers.reshape(descriptor.shape), bool(value.get("constant")))


def to_array(numbers: Sequence[Any], data_type: MLOperandDataType) -> Array:
    """JSON numbers in a data type, rounded to nearest even; ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` are numbers.

    float16 rounds by way of float32, as the suite does. ValueError or OverflowError for an integer that does not fit.
    """
    if data_type.is_integer:
        low, high = data_type.integer_range
        exact = [int(number) for number in numbers]
        for given, number in zip(numbers, exact, strict=True):
            if isinstance(given, (str, bool)) or given != number or not low <= number <= high:
                raise ValueError(f"got {given!r} as {data_type}")
        plain = np.array(exact, np.int8 if data_type.bits == 4 else data_type.numpy)
        return plain.astype(data_type.numpy)
    with np.errstate(over="ignore"):
        return np.array([to_float(number) for number in numbers], np.float64).astype(np.float32).astype(data_type.numpy)


def to_float(number: Any) -> float:
    """A JSON number, or one of the three strings, as a double."""
    if isinstance(number, str) and number not in ("NaN", "Infinity", "-Infinity"):
        raise ValueError(f"got {number!r} as a number")
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)


def _validation(case: dict[str, Any]) -> ValidationCase:
    expect, limit = case["expect"], case.get("maxTensorByteLength")
    if not isinstance(expect, dict) or not expect.keys() & {"throws", "output", "outputs", "outputCount", "ok"}:
        raise ValueError(f"got the expectation {expect}; allowed: throws, output, outputs, outputCount or ok")
    if not isinstance(case["args"], list) or not isinstance(case["operands"], dict):
        raise ValueError("args must be a list, and operands an object")
    return ValidationCase(
        str(case["id"]),
        str(case["name"]),
        str(case["op"]),
        case["operands"],
        list(case.get("prelude", ())),
        case["args"],
        expect,
        None if limit is None else int(limit),
    )
