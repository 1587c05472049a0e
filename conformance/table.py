"""Runs the cases of an op's reference through the compiler, and the reference beside it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webnn_xla.builder import MLGraphBuilder
from webnn_xla.conformance.reference import REFERENCES, Array, Case
from webnn_xla.context import MLContext
from webnn_xla.dtypes import Descriptor, MLOperandDataType
from webnn_xla.limits import allowed_types
from webnn_xla.lowering.op import Op, Operand, OperandList, Option, Types


@dataclass(frozen=True)
class Outcome:
    """One case: what the compiled graph gave, and what the reference says."""

    op: str
    data_type: MLOperandDataType
    case: Case
    got: Sequence[Array]
    wanted: Sequence[Any]

    def __str__(self) -> str:
        shown = {
            name: np.shape(value) if not isinstance(value, list) else [v.shape for v in value]
            for name, value in self.case.operands.items()
        }
        return f"{self.op} {self.data_type} {shown} {self.case.attributes} {self.case.note}".rstrip()


def principal_types(op: type[Op], *, extensions: bool = False) -> Types:
    """The data types to test an op at: those of its first operand that has a list of several (else of the first)."""
    tensors = [argument for argument in op.arguments.values() if isinstance(argument, (Operand, OperandList))]
    if not tensors:
        return allowed_types(op, next(iter(op.outputs.values())), extensions=extensions)
    lists = [allowed_types(op, tensor, extensions=extensions) for tensor in tensors if not hasattr(tensor.types, "operand")]
    return next((types for types in lists if len(types) > 1), lists[0])


def typed(case: Case, data_type: MLOperandDataType) -> dict[str, Any]:
    """Operands rounded to the data type under test, or to the one that the case names for them."""

    def convert(name: str, value: Any) -> Array:
        kind = MLOperandDataType.of(case.types[name]) if name in case.types else data_type
        array = np.asarray(value)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind.bits == 4:
                low, high = kind.integer_range
                array = np.clip(array.astype(np.float64), low, high).astype(np.int8)
            return array.astype(kind.numpy)

    return {
        name: [convert(name, item) for item in value] if isinstance(value, list) else convert(name, value)
        for name, value in case.operands.items()
    }


@dataclass(frozen=True)
class Built:
    """Cases as one graph under construction: every operand is an input, every result an output."""

    builder: MLGraphBuilder
    inputs: dict[str, Array]
    outputs: dict[str, Any]
    counts: list[int]
    """Results of each case."""


def build_cases(context: MLContext, op: type[Op], data_type: MLOperandDataType, cases: Sequence[Case]) -> Built:
    """Records all cases with one builder, operands typed. Outputs are named ``<case>.<result>``."""
    return build_mixed(context, [(op, data_type, case) for case in cases])


def build_mixed(context: MLContext, cases: Sequence[tuple[type[Op], MLOperandDataType, Case]]) -> Built:
    """``build_cases`` of several ops and data types in one graph."""
    built = Built(MLGraphBuilder(context), {}, {}, [])

    def feed(name: str, array: Array) -> Any:
        built.inputs[name] = array
        return built.builder.input(name, Descriptor(array.dtype, array.shape))

    for index, (op, data_type, case) in enumerate(cases):
        operands = {
            name: [feed(f"{index}.{name}.{i}", item) for i, item in enumerate(value)]
            if isinstance(value, list)
            else feed(f"{index}.{name}", value)
            for name, value in typed(case, data_type).items()
        }
        made = getattr(built.builder, op.name)(**operands, **case.attributes)
        made = made if isinstance(made, list) else [made]
        built.counts.append(len(made))
        built.outputs.update({f"{index}.{i}": operand for i, operand in enumerate(made)})
    return built


def run_cases(
    context: MLContext, op: type[Op], data_type: MLOperandDataType, cases: Sequence[Case], **build: Any
) -> Iterator[Outcome]:
    """Builds all cases into one graph, runs it once, and computes the references."""
    built = build_cases(context, op, data_type, cases)
    results = built.builder.build(built.outputs, **build).compute(built.inputs)
    for index, case in enumerate(cases):
        got = [results[f"{index}.{i}"] for i in range(built.counts[index])]
        yield Outcome(op.name, data_type, case, got, wanted(op, case, data_type))


def wanted(op: type[Op], case: Case, data_type: MLOperandDataType) -> Sequence[Any]:
    """What the reference says for a case: a list, one item an output."""

    def widen(array: Array) -> Array:
        if array.dtype.kind in "iu":
            return array
        kind = MLOperandDataType.of(array.dtype)
        return array.astype(np.float64) if kind.is_float else array.astype(np.int8 if kind.is_signed else np.uint8)

    operands = {
        name: [widen(item) for item in value] if isinstance(value, list) else widen(value)
        for name, value in typed(case, data_type).items()
    }
    optional = {name: None for name in op.operands() if name not in operands}
    defaults = {name: argument.default for name, argument in op.arguments.items() if isinstance(argument, Option)}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = REFERENCES[op.name].compute(**optional, **operands, **{**defaults, **case.attributes})
    return result if isinstance(result, list) else [result]
