"""The op table as plain data, for the command line, the README and the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from webnn_xla.builder_ops import SPEC_URL
from webnn_xla.dtypes import MAX_RANK, MLOperandDataType
from webnn_xla.limits import allowed_ranks, allowed_types, op_limits
from webnn_xla.lowering import OPS
from webnn_xla.lowering.op import ANY, FLOATS, Limits, Op, Option, Param
from webnn_xla.naming import to_camel

HEADINGS = ("op", "data types", "ranks", "StableHLO", "TOSA")


def describe(op: type[Op]) -> dict[str, Any]:
    """Everything that the table says of an op, ready for JSON."""
    tensors: dict[str, Limits] = {**op.operands(), **op.outputs}
    return {
        "name": op.name,
        "webnnName": to_camel(op.name),
        "summary": summary(op),
        "extension": op.extension,
        "tensors": op_limits(op, extensions=True),
        "required": {
            to_camel(name): {
                "dataTypes": list(map(str, tensor.required)),
                "rankRange": dict(zip(("min", "max"), tensor.required_ranks, strict=True)),
            }
            for name, tensor in tensors.items()
        },
        "parameters": {
            to_camel(name): {"allowed": argument.kind.allowed} | _default(argument)
            for name, argument in op.arguments.items()
            if isinstance(argument, (Param, Option))
        },
        "toleranceUlp": {
            "float32": op.tolerance.float32,
            "float16": op.tolerance.float16,
            "ofLargestTerm": op.tolerance.reduction,
        },
        "stablehlo": op.stablehlo.split(),
        "tosa": op.tosa.split(),
        "tosaNote": op.tosa_note,
        "specification": "" if op.extension else SPEC_URL + op.section,
    }


def _default(argument: Param | Option) -> dict[str, Any]:
    if not isinstance(argument, Option):
        return {}
    return {"default": list(argument.default) if isinstance(argument.default, tuple) else argument.default}


def summary(op: type[Op]) -> str:
    """First paragraph of the op's documentation, in one line."""
    return " ".join(op.doc.split("\n\n")[0].split())


def row(op: type[Op]) -> tuple[str, str, str, str, str]:
    """One line of the table, under ``HEADINGS``. Types and ranks are those of the first operand (or output)."""
    tensor = next(iter({**op.operands(), **op.outputs}.values()))
    low, high = allowed_ranks(op, tensor)
    ranks = str(low) if low == high else f"{low} to {'N' if high == MAX_RANK else high}"
    name = op.name + (" (extension)" if op.extension else "")
    return name, short_types(allowed_types(op, tensor, extensions=True)), ranks, op.stablehlo, op.tosa


def short_types(types: Iterable[MLOperandDataType]) -> str:
    """Names of data types; ``all`` for the specification's eight, ``floats`` for float32 and float16."""
    names = list(types)
    for group, name in ((ANY, "all"), (FLOATS, "floats")):
        if set(group) <= set(names):
            return " ".join([name, *(str(extra) for extra in names if extra not in group)])
    return " ".join(map(str, names))


def rows() -> list[tuple[str, str, str, str, str]]:
    """The whole table, by name, extensions last."""
    return [row(op) for op in sorted(OPS.values(), key=lambda op: (op.extension, op.name))]


def markdown() -> str:
    """The table in Markdown."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|-" * len(HEADINGS) + "|"]
    for name, types, ranks, stablehlo, tosa in rows():
        lines.append(
            f"| {' | '.join((f'`{name}`'.replace(' (extension)`', '` (extension)'), types, ranks, stablehlo, tosa))} |"
        )
    return "\n".join(lines) + "\n"
