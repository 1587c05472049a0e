"""Writes what is derived from the op table and kept in files: ``python -m webnn_xla.codegen [--check]``.

- ``webnn_xla/builder_ops.pyi``: the builder's methods, for editors and type checkers;
- the op table of ``README.md``, between its markers, and ``docs/ops.md``;
- the ``stablehlo = …`` line of each op's declaration in ``lowering/``: what its lowering emits, as recorded.

``--check`` writes nothing: it lists the files that are stale, and exits with status 1 if there are any.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from webnn_xla import optable
from webnn_xla.builder_ops import SPEC_URL, docstring, signature
from webnn_xla.lowering import OPS
from webnn_xla.lowering.op import (
    Limits,
    Op,
    Operand,
    OperandList,
    Option,
    OptionalOperand,
    Output,
    OutputList,
    Param,
    Same,
    SameRank,
)
from webnn_xla.naming import to_camel

WIDTH = 128
BEGIN, END = "<!-- ops:begin -->", "<!-- ops:end -->"
NOTICE = "Written by `python -m webnn_xla.codegen` from the op table: change that, not this file."


def files(root: Path) -> dict[Path, str]:
    """The generated files under the root of the repository, with the text that they should have."""
    readme = root / "README.md"
    return {
        root / "webnn_xla" / "builder_ops.pyi": stub(),
        readme: with_table(readme.read_text("utf-8")),
        root / "docs" / "ops.md": documentation(),
    }


# The stub


def stub() -> str:
    """``builder_ops.pyi``."""
    head = f"""# {NOTICE}
import inspect
from collections.abc import Sequence
from typing import Any, Literal

from webnn_xla.builder import MLOperand
from webnn_xla.dtypes import DataTypeLike
from webnn_xla.lowering.op import Op

SPEC_URL: str

def {signature.__name__}(op: type[Op]) -> inspect.Signature: ...
def {docstring.__name__}(op: type[Op]) -> str: ...

class OpMethods:
    def _emit(self, op: type[Op], operands: dict[str, Any], attributes: dict[str, Any], label: Any) -> Any: ...
"""
    return head + "".join(_stub_method(op) for op in OPS.values())


def _stub_method(op: type[Op]) -> str:
    arguments = ["self"]
    star = False
    for name, argument in op.arguments.items():
        if isinstance(argument, (Option, OptionalOperand)) and not star:
            arguments.append("*")
            star = True
        arguments.append(f"{name}: {annotation(argument)}")
    arguments += ([] if star else ["*"]) + ['label: str = ""']
    single = list(op.outputs) == ["output"] and isinstance(op.outputs["output"], Output)
    result = "MLOperand" if single else "list[MLOperand]"
    line = f"    def {op.name}({', '.join(arguments)}) -> {result}:"
    if len(line) > WIDTH:
        line = f"    def {op.name}(\n" + "".join(f"        {argument},\n" for argument in arguments) + f"    ) -> {result}:"
    doc = "\n        ".join(op.doc.splitlines()).replace("\n        \n", "\n\n")
    multiline = "\n" in op.doc or len(op.doc) + 14 > WIDTH
    return f'{line}\n        """{doc}' + ("\n        " if multiline else "") + '"""\n'


def annotation(argument: Any) -> str:
    """The type of an argument of a method, with its default."""
    if isinstance(argument, Operand):
        return "MLOperand"
    if isinstance(argument, OperandList):
        return "Sequence[MLOperand]"
    if isinstance(argument, OptionalOperand):
        return "MLOperand | None = None"
    kind = argument.kind.annotation.replace("'", '"')
    if isinstance(argument, Param):
        return str(kind)
    if argument.default is None:
        return f"{kind} | None = None"
    return f"{kind} = {_literal(argument.default)}"


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


# README and documentation


def with_table(readme: str) -> str:
    """The README with the table as it should be between its markers."""
    before, rest = readme.split(BEGIN)
    after = rest.split(END)[1]
    legend = (
        "`all`: float32, float16, int32, uint32, int64, uint64, int8, uint8; `floats`: float32, float16. Types and ranks are\n"
        "the first operand's; N is any rank. StableHLO: what the lowering emits for float32 over all of its tests, constants\n"
        "left out. Details of each op: [docs/ops.md](docs/ops.md).\n"
    )
    return f"{before}{BEGIN}\n{legend}\n{optable.markdown()}{END}{after}"


def documentation() -> str:
    """``docs/ops.md``: a section an op, by family, extensions apart."""
    standard = [op for op in OPS.values() if not op.extension]
    extensions = [op for op in OPS.values() if op.extension]
    lines = ["# Ops", "", f"<!-- {NOTICE} -->", ""]
    lines += [
        f"{len(standard)} ops of the specification, and {len(extensions)} extensions at the end. An op's method of the builder",
        "has the name of its section; the specification's own name, which files and JavaScript use, stands beside where it",
        "differs. Positional arguments come first; options, which have a default, are given by name. Every method takes",
        "`label=`, which errors and StableHLO locations show. `N` is any rank. An ulp is the distance of neighbouring numbers",
        "of the data type. Types in brackets are extensions.",
        "",
    ]
    family = ""
    for op in standard:
        if (module := op.__module__.rsplit(".", 1)[-1]) != family:
            family = module
            lines += [f"## {family.capitalize()}", "", _module_doc(op), ""]
        lines += _section(op)
    lines += ["## Extensions", "", "Not in the specification.", ""]
    for op in extensions:
        lines += _section(op)
    return "\n".join(lines).rstrip("\n") + "\n"


def _module_doc(op: type[Op]) -> str:
    return inspect.cleandoc(sys.modules[op.__module__].__doc__ or "")


def _section(op: type[Op]) -> list[str]:
    camel = to_camel(op.name)
    lines = [f"### {op.name}" + (f" ({camel})" if camel != op.name else ""), "", op.doc, ""]
    tensors: dict[str, Limits] = {**op.operands(), **op.outputs}
    lines += ["| | data types | ranks | required of every implementation |", "|-|-|-|-|"]
    for name, tensor in tensors.items():
        role = (
            "list"
            if isinstance(tensor, (OperandList, OutputList))
            else "optional"
            if isinstance(tensor, OptionalOperand)
            else ""
        )
        shown = f"`{name}`" + (f" ({role})" if role else "") + (": result" if name in op.outputs else "")
        required = f"{', '.join(tensor.required)}; rank {_ranks(*tensor.required_ranks)}" if not op.extension else ""
        shown += f": {_cell(tensor.doc)}" if tensor.doc else ""
        lines.append(f"| {shown} | {_types(tensor)} | {_rank_rule(tensor)} | {required} |")
    parameters = {name: item for name, item in op.arguments.items() if isinstance(item, (Param, Option))}
    if parameters:
        lines += ["", "| argument | allowed | default | |", "|-|-|-|-|"]
        for name, item in parameters.items():
            default = "" if isinstance(item, Param) else "none" if item.default is None else f"`{_literal(item.default)}`"
            note = " Extension." if getattr(item, "extension", False) else ""
            lines.append(f"| `{name}` | {_cell(item.kind.allowed)} | {default} | {_cell(item.doc)}{note} |")
    lines += ["", f"- Tolerance: {_tolerance(op)}", f"- StableHLO: {_code(op.stablehlo) or 'nothing: the operand itself'}"]
    lines.append(f"- TOSA: {_code(op.tosa) or 'no counterpart'}" + (f" ({op.tosa_note})" if op.tosa_note else ""))
    if not op.extension:
        lines.append(f"- Specification: <{SPEC_URL}{op.section}>")
    return [*lines, ""]


def _types(tensor: Limits) -> str:
    if isinstance(tensor.types, Same):
        return f"that of `{tensor.types.operand}`"
    return ", ".join(tensor.types) + (f" [{', '.join(tensor.extensions)}]" if tensor.extensions else "")


def _rank_rule(tensor: Limits) -> str:
    return f"that of `{tensor.ranks.operand}`" if isinstance(tensor.ranks, SameRank) else _ranks(*tensor.ranks)


def _ranks(low: int, high: int | None) -> str:
    return str(low) if low == high else f"{low} to {'N' if high is None else high}"


def _tolerance(op: type[Op]) -> str:
    tolerance = op.tolerance
    if not tolerance.float32 and not tolerance.float16:
        return "exact."
    unit = "ulp of the largest term that is summed" if tolerance.reduction else "ulp"
    return f"float32 {tolerance.float32}, float16 {tolerance.float16} {unit}; integers are exact."


def _code(names: str) -> str:
    return " ".join(f"`{name}`" for name in names.split())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# What lowerings emit


def declarations() -> Iterator[tuple[Path, str, str]]:
    """Files of ``lowering/`` with the text that they have, and the one with every ``stablehlo`` line as recorded.

    The table in memory is brought up to date as well, for what is generated after.
    """
    from webnn_xla.conformance.emitted import emitted

    by_file: dict[Path, list[type[Op]]] = {}
    for op in OPS.values():
        by_file.setdefault(Path(inspect.getfile(op)).resolve(), []).append(op)
    for path, ops in by_file.items():
        text = path.read_text("utf-8")
        for op in ops:
            op.stablehlo = " ".join(emitted(op))
        yield path, text, with_stablehlo(text, {op.__name__: op.stablehlo for op in ops})


def with_stablehlo(source: str, wanted: dict[str, str]) -> str:
    """A family's source in which each class declares what it is wanted to (by the name of the class)."""
    lines = source.splitlines(keepends=True)
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name in wanted]
    for node in reversed(classes):
        declared = {
            target.id: item
            for item in node.body
            if isinstance(item, ast.Assign)
            for target in item.targets
            if isinstance(target, ast.Name)
        }
        text = _declaration(wanted[node.name])
        if "stablehlo" in declared:
            item = declared["stablehlo"]
            lines[item.lineno - 1 : item.end_lineno] = [text]
        else:
            # Behind the last line of data: before lower(), whichever way it is declared.
            behind: list[ast.stmt] = [item for name, item in declared.items() if name not in ("lower", "infer")]
            lines.insert(max(item.end_lineno or item.lineno for item in behind or node.body[:1]), text)
    return "".join(lines)


def _declaration(names: str) -> str:
    line = f'    stablehlo = "{names}"\n'
    if len(line) <= WIDTH + 1:
        return line
    parts: list[str] = [""]
    for name in names.split():
        if len(parts[-1]) + len(name) + 14 > WIDTH:
            parts.append("")
        parts[-1] += f"{name} "
    parts[-1] = parts[-1].rstrip()
    return "    stablehlo = (\n" + "".join(f'        "{part}"\n' for part in parts) + "    )\n"


def main(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit with status 1 if a file is stale.")] = False,
    emitted: Annotated[bool, typer.Option(help="Record what lowerings emit, and bring their declarations up to date.")] = True,
) -> None:
    """Generates the stub, the README's table and docs/ops.md, and the StableHLO lines of the op table."""
    root = Path(__file__).resolve().parent.parent
    changes = list(declarations()) if emitted else []
    changes += [(path, path.read_text("utf-8") if path.exists() else "", text) for path, text in files(root).items()]
    stale = [(path, text) for path, old, text in changes if old != text]
    for path, text in stale:
        typer.echo(f"{'stale' if check else 'written'}: {path.relative_to(root)}")
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
    if stale and check:
        typer.echo("run: python -m webnn_xla.codegen", err=True)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
