"""Generated files are what the op table says, and what it says of StableHLO is what lowerings emit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from webnn_xla import codegen, optable
from webnn_xla.conformance.emitted import emitted
from webnn_xla.lowering import OPS

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("file", ["webnn_xla/builder_ops.pyi", "README.md", "docs/ops.md"])
def test_generated_files_are_fresh(file: str) -> None:
    assert codegen.files(ROOT)[ROOT / file] == (ROOT / file).read_text("utf-8"), "run: python -m webnn_xla.codegen"


@pytest.mark.parametrize("op", list(OPS))
def test_declared_stablehlo_is_what_is_emitted(op: str) -> None:
    assert OPS[op].stablehlo.split() == list(emitted(OPS[op])), "run: python -m webnn_xla.codegen"


def test_stub_has_every_method_in_the_formatters_own_style() -> None:
    text = codegen.stub()
    for op in OPS:
        assert f"    def {op}(" in text
    command = [sys.executable, "-m", "ruff", "format", "--check", "--no-cache", "webnn_xla/builder_ops.pyi"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


SOURCE = '''class Base(Op, abstract=True):
    input = Operand(ANY)


class Relu(Base):
    """Relu."""

    tolerance = Tolerance(1)
    tosa = "CLAMP"

    @staticmethod
    def lower(input):
        return input


class Stale(Base):
    """Stale."""

    stablehlo = "old"
    lower = staticmethod(thing)


class Bare(Relu):
    """Bare."""
'''


def test_declarations_are_written_where_they_belong() -> None:
    wanted = {"Relu": "maximum", "Stale": "new", "Bare": " ".join(f"operator_{i}" for i in range(12))}
    result = codegen.with_stablehlo(SOURCE, wanted)
    assert '    tosa = "CLAMP"\n    stablehlo = "maximum"\n\n    @staticmethod' in result
    assert '    stablehlo = "new"\n    lower = staticmethod(thing)\n' in result
    assert '"""Bare."""\n    stablehlo = (\n        "operator_0 ' in result
    assert codegen.with_stablehlo(result, wanted) == result
    namespace: dict[str, object] = {}
    exec(result[result.index("    stablehlo = (") :].replace("    ", "", 1), namespace)
    assert namespace["stablehlo"] == wanted["Bare"]


def test_types_in_short() -> None:
    types = OPS["cast"].arguments["input"].types
    assert optable.short_types(types) == "all"
    assert optable.short_types(types[:2]) == "floats"
    assert optable.short_types(types[2:4]) == "int32 uint32"
    assert [row[0] for row in optable.rows()][-1].endswith("(extension)")
