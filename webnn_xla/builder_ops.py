"""The builder's methods for ops, generated from the op table: signature, docstring and checks.

``builder_ops.pyi`` is their static form, written by ``python -m webnn_xla.codegen``; a test fails if it is stale.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from webnn_xla.errors import ArgumentError
from webnn_xla.lowering import OPS
from webnn_xla.lowering.op import Op, OperandList, Option, OptionalOperand, Param
from webnn_xla.lowering.op import Operand as OperandDecl

SPEC_URL = "https://www.w3.org/TR/webnn/"


class OpMethods:
    """Mixin of MLGraphBuilder: one method an op."""

    def _emit(self, op: type[Op], operands: dict[str, Any], attributes: dict[str, Any], label: Any) -> Any:
        raise NotImplementedError


def signature(op: type[Op]) -> inspect.Signature:
    """Signature of the op's method: operands and parameters by position, options by keyword, then the label."""
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name, argument in op.arguments.items():
        keyword = isinstance(argument, (Option, OptionalOperand))
        kind = inspect.Parameter.KEYWORD_ONLY if keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = argument.default if isinstance(argument, Option) else None if keyword else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, kind, default=default))
    parameters.append(inspect.Parameter("label", inspect.Parameter.KEYWORD_ONLY, default=""))
    return inspect.Signature(parameters)


def docstring(op: type[Op]) -> str:
    """What the op does, its operands, parameters and options, and where the specification defines it."""
    lines = [op.doc, "", "Arguments:"]
    for name, argument in op.arguments.items():
        if isinstance(argument, (Param, Option)):
            default = f" Default: {argument.default!r}." if isinstance(argument, Option) else ""
            lines.append(f"    {name}: {argument.kind.allowed}. {argument.doc}{default}".rstrip())
        else:
            lines.append(f"    {name}: {_limits(argument)} {argument.doc}".rstrip())
    lines += ["    label: shown in errors and as the location in StableHLO.", "", "Returns:"]
    lines += [f"    {name}: {_limits(output)} {output.doc}".rstrip() for name, output in op.outputs.items()]
    source = "an extension" if op.extension else SPEC_URL + op.section
    lines += [
        "",
        "Errors: ArgumentError, naming op, label and operand, where an argument is not as above.",
        f"Source: {source}",
    ]
    return "\n".join(lines)


def _limits(tensor: Any) -> str:
    types = (
        f"data type of {tensor.types.operand}"
        if hasattr(tensor.types, "operand")
        else ", ".join(tensor.types + tensor.extensions)
    )
    if hasattr(tensor.ranks, "operand"):
        return f"{types}; rank of {tensor.ranks.operand}."
    low, high = tensor.ranks
    return f"{types}; rank {low}." if low == high else f"{types}; rank {low} to {'N' if high is None else high}."


def _method(op: type[Op]) -> Callable[..., Any]:
    declared = signature(op)
    positional = [name for name, argument in op.arguments.items() if not isinstance(argument, (Option, OptionalOperand))]
    operand_names = frozenset(
        name for name, argument in op.arguments.items() if isinstance(argument, (OperandDecl, OperandList, OptionalOperand))
    )
    options = {name: argument.default for name, argument in op.arguments.items() if isinstance(argument, Option)}
    required = frozenset(positional)

    def method(self: OpMethods, *args: Any, **kwargs: Any) -> Any:
        label = kwargs.pop("label", "")
        if len(args) > len(positional):
            raise _misuse(op, f"got {len(args)} positional arguments", declared, label)
        given = dict(zip(positional, args, strict=False))
        for name, value in kwargs.items():
            if name not in op.arguments:
                raise _misuse(op, f"got an unknown argument {name!r}", declared, label)
            if name in given:
                raise _misuse(op, f"got {name!r} twice", declared, label)
            given[name] = value
        if not required <= given.keys():
            missing = ", ".join(name for name in positional if name not in given)
            raise _misuse(op, f"got no {missing}", declared, label)
        operands = {name: value for name, value in given.items() if name in operand_names}
        attributes = options | {name: value for name, value in given.items() if name not in operand_names}
        return self._emit(op, operands, attributes, label)

    method.__name__ = op.name
    method.__qualname__ = f"MLGraphBuilder.{op.name}"
    method.__doc__ = docstring(op)
    method.__signature__ = declared  # type: ignore[attr-defined]
    return method


def _misuse(op: type[Op], got: str, declared: inspect.Signature, label: Any) -> ArgumentError:
    shown = str(declared).replace("(self, ", "(").replace("(self)", "()")
    return ArgumentError(f"{got}; allowed: {op.name}{shown}", operator=op.name, label=label if isinstance(label, str) else "")


for _op in OPS.values():
    setattr(OpMethods, _op.name, _method(_op))
