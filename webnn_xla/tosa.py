"""A graph as TOSA: MLIR text and the flatbuffer, from the ``to_tosa`` rule in each op's declaration.

Source: https://www.mlplatform.org/tosa/tosa_spec.html. The tools (validation, flatbuffer, reference model) are those of
the PyPI package ``tosa-tools``; the text needs nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from webnn_xla.errors import ArgumentError, NotSupportedError, OperationError, printable
from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.tosa import FOUR_BITS, Emitter, Tensor, TosaUnsupported, describe

VERSIONS: Final = {"1.0": "1.0", "1.1": "1.1.draft"}
PROFILES: Final = ("pro_int", "pro_fp")
_COMMON: Final = ("int4", "int16", "bf16", "dynamic", "doubleround", "inexactround")
EXTENSIONS: Final = {"1.0": _COMMON, "1.1": (*_COMMON, "int64")}
"""int64 is an extension of 1.1 only."""


@dataclass(frozen=True)
class Refusal:
    """An op that TOSA cannot say, and why."""

    op: str
    label: str
    reason: str

    def __str__(self) -> str:
        label = f" [{printable(self.label)}]" if self.label else ""
        return f"{self.op}{label}: {self.reason}"


@dataclass(frozen=True)
class TosaModule:
    """A graph in TOSA. ``refusals`` is empty unless ``allow_partial`` was given; then the text stops short of them."""

    text: str
    version: str
    profiles: tuple[str, ...]
    operators: tuple[str, ...]
    """What the rules emitted, in order of first use."""
    outputs: tuple[str, ...]
    """Names of the function's results, in order: those of the graph, but for what refusals leave out."""
    refusals: tuple[Refusal, ...] = ()

    def validate(self) -> None:
        """Runs ``tosa-opt`` with ``tosa-validate``. OperationError with its words if the module does not conform."""
        self._run()

    def flatbuffer(self) -> bytes:
        """The validated module, serialized: what ``tosa_reference_model`` and hardware toolchains read."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.tosa"
            self._run(f"tosa-serialize{{tosa-flatbuffer-filename={path}}}")
            return path.read_bytes()

    def _run(self, *passes: str) -> str:
        tool = find_tool("tosa-opt")
        target = " ".join(
            (
                f"specification_version={VERSIONS[self.version]}",
                f"profiles={','.join(self.profiles)}",
                f"extensions={','.join(EXTENSIONS[self.version])}",
                "level=none",
            )
        )
        pipeline = ["tosa-attach-target{" + target + "}", "tosa-validate", *passes]
        done = subprocess.run(
            [tool, "-", f"--pass-pipeline=builtin.module({','.join(pipeline)})"],
            input=self.text,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            message = "; ".join(line for line in done.stderr.splitlines() if "error:" in line)[:2000]
            raise OperationError(
                f"the module is not valid TOSA {self.version}: {message or done.stderr[:500]}", operator="tosa"
            )
        return done.stdout

    def __str__(self) -> str:
        return self.text


def find_tool(name: str) -> str:
    """Path of a tool of tosa-tools: the installed binary, else on the PATH. NotSupportedError if it is not there."""
    # The command beside Python is a script that starts this binary, and takes ten times as long.
    binary = Path(sysconfig.get_path("purelib")) / "bin" / name
    found = str(binary) if os.access(binary, os.X_OK) else shutil.which(name)
    if not found:
        raise NotSupportedError(f"{name} is not installed: pip install tosa-tools", operator="tosa")
    return found


def export(
    graph: Graph, version: str = "1.0", profile: Sequence[str] | str = PROFILES, *, allow_partial: bool = False
) -> TosaModule:
    """The graph as a TOSA function: its parameters are the inputs, its results the outputs, in the graph's order.

    Errors: ArgumentError for an unknown version or profile; NotSupportedError that names each op that TOSA cannot say
    and why, unless ``allow_partial``: then the report is in ``refusals`` and outputs that depend on them are left out.
    Tensors of rank 7 and more are parameters and results of one dimension, in row-major order: TOSA takes no more than 6.
    """
    profiles = (profile,) if isinstance(profile, str) else tuple(profile)
    if version not in VERSIONS:
        raise ArgumentError(f"got {version!r}; allowed: {', '.join(VERSIONS)}", operator="tosa", operand="version")
    if not profiles or not set(profiles) <= set(PROFILES):
        raise ArgumentError(f"got {profile!r}; allowed: {', '.join(PROFILES)}", operator="tosa", operand="profile")
    emitter = Emitter(version, profiles)
    tensors: dict[Value, Tensor] = {}
    arguments: list[str] = []
    refusals: list[Refusal] = []
    for index, (name, value) in enumerate(graph.inputs.items()):
        element, shape, unsigned = describe(value.descriptor)
        tensors[value] = Tensor(f"%arg{index}", element, shape, unsigned)
        arguments.append(f"%arg{index}: {tensors[value].type} {{tosa.tensor_name = {_quote(name)}}}")
    for value, constant in graph.constants.items():
        if constant.data is None:
            raise ArgumentError(f"the weights of {printable(constant.name)} are not loaded; call load_weights", operator="tosa")
        element, _, unsigned = describe(value.descriptor)
        data = np.asarray(constant.data)
        made = emitter.const(data.view(_signed(data.dtype)) if unsigned and data.dtype.kind == "u" else data, element)
        tensors[value] = Tensor(made.name, element, made.shape, unsigned, made.value)
    for node in graph.nodes:
        if all(value in tensors for value in node.inputs()):
            _emit(node, emitter, tensors, refusals)
    if refusals and not allow_partial:
        listed = "; ".join(map(str, refusals))
        raise NotSupportedError(f"TOSA cannot say {len(refusals)} of {len(graph.nodes)} ops: {listed}", operator="tosa")
    results = {name: tensors[value] for name, value in graph.outputs.items() if value in tensors}
    operators = tuple(emitter.operators)
    # A result has to be the result of an operator, and each only once.
    finals = [
        emitter.op("identity", (tensor,), tensor.element, tensor.shape, unsigned=tensor.unsigned) for tensor in results.values()
    ]
    signature = ", ".join(f"{tensor.type} {{tosa.tensor_name = {_quote(name)}}}" for name, tensor in results.items())
    body = "\n    ".join(_used(emitter.lines))
    values, types = ", ".join(t.name for t in finals), ", ".join(t.type for t in finals)
    text = (
        f"module {{\n  func.func @main({', '.join(arguments)}) -> ({signature}) {{\n    {body}\n"
        f"    return{' ' + values + ' : ' + types if finals else ''}\n  }}\n}}\n"
    )
    return TosaModule(text, version, profiles, operators, tuple(results), tuple(refusals))


def _used(lines: Sequence[str]) -> list[str]:
    """The lines without constants that nothing reads: they may be of types that the version has not."""
    read = {name for line in lines for name in re.findall(r"%v\d+", line.partition(" = ")[2])}
    return [line for line in lines if not line.split("(", 1)[0].endswith('const"') or line.split(" ", 1)[0] in read]


def _emit(node: Node, emitter: Emitter, tensors: dict[Value, Tensor], refusals: list[Refusal]) -> None:
    rule = getattr(node.op, "to_tosa", None)
    emitter.location = _quote(node.label or node.op.name)
    written, operators = len(emitter.lines), dict(emitter.operators)
    arguments: dict[str, Any] = dict.fromkeys(node.op.operands())
    for name, operand in node.operands.items():
        arguments[name] = [tensors[item] for item in operand] if isinstance(operand, tuple) else tensors[operand]
    try:
        if rule is None:
            raise TosaUnsupported("there is no rule for it")
        if any(value.descriptor.data_type.bits == 4 and tensors[value].value is None for value in node.inputs()):
            raise TosaUnsupported(FOUR_BITS)
        made = rule(emitter, **arguments, **node.attributes)
    except TosaUnsupported as reason:
        # Constants written so far stay: others may share them, and they harm nobody.
        emitter.lines[written:] = [line for line in emitter.lines[written:] if '"tosa.const"' in line]
        emitter.operators = operators
        refusals.append(Refusal(node.op.name, node.label, str(reason)))
        return
    for value, tensor in zip(node.outputs, made if isinstance(made, (list, tuple)) else [made], strict=True):
        element, shape, unsigned = describe(value.descriptor)
        if (tensor.element, tensor.shape) != (element, shape):
            raise OperationError(
                f"the rule gave {tensor.type} for {value.descriptor}; this is a bug in the op",
                operator=node.op.name,
                label=node.label,
            )
        tensors[value] = Tensor(tensor.name, element, shape, unsigned, tensor.value)


def _signed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"i{dtype.itemsize}")


def _quote(text: str) -> str:
    escaped = "".join(
        c if 32 <= ord(c) < 127 and c not in '"\\' else "".join(f"\\{byte:02X}" for byte in c.encode()) for c in text
    )
    return f'"{escaped}"'
