"""StableHLO of a graph for others: text, bytecode, versioned portable artifacts, and ``jax.export``.

What leaves this package is the canonical lowering, not the one that a target runs: the same module for everyone.
Programs take the graph's parameters (large or named constants) first and then its inputs, in the graph's order.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Sequence
from typing import Final

import jax
import numpy as np
from jax import Array
from jax import export as jax_export
from jax.interpreters import mlir
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

from webnn_xla import devices
from webnn_xla.compile import as_function, struct
from webnn_xla.errors import ArgumentError
from webnn_xla.graph import Graph, Value
from webnn_xla.lowering.op import Target

FORMATS: Final = ("text", "bytecode", "portable")
PLATFORMS: Final = ("cpu", "cuda", "rocm", "tpu")

stablehlo.register_stablehlo_passes()


def canonical_text(graph: Graph) -> tuple[str, tuple[Value, ...]]:
    """The canonical module as text, and the constants that are its first arguments."""
    parameters, function = as_function(graph, Target())

    def main(arguments: list[Array], inputs: list[Array]) -> list[Array]:
        return function(arguments, inputs)

    with devices.x64():
        stage = jax.jit(main, keep_unused=True).lower(
            [struct(value.descriptor) for value in parameters], [struct(value.descriptor) for value in graph.inputs.values()]
        )
        return str(stage.as_text()), parameters


def bytecode(graph: Graph) -> bytes:
    """The canonical module as MLIR bytecode of the jaxlib that is installed."""
    with _module(graph) as module:
        stream = io.BytesIO()
        module.operation.write_bytecode(stream)
        return stream.getvalue()


def portable(graph: Graph, version: str | None = None) -> bytes:
    """A portable artifact for StableHLO ``version`` (by default the one installed): later versions read it too.

    Errors: ArgumentError for a version that is too new, too old, or not a version.
    """
    newest, oldest = stablehlo.get_current_version(), stablehlo.get_minimum_version()
    version = newest if version is None else version
    try:
        number = _version(version)
    except ValueError:
        number = None
    if number is None or not _version(oldest) <= number <= _version(newest):
        raise ArgumentError(f"got {version!r}; allowed: {oldest} to {newest}", operator="stablehlo", operand="version")
    with _module(graph) as module:
        return bytes(stablehlo.serialize_portable_artifact(module, version))


def read_portable(artifact: bytes) -> str:
    """The text of a portable artifact, upgraded to the StableHLO installed. ArgumentError if it is not one."""
    with mlir.make_ir_context() as context, _quiet():
        try:
            return str(stablehlo.deserialize_portable_artifact(context, artifact))
        except (ValueError, RuntimeError) as error:
            raise ArgumentError(f"not a StableHLO artifact: {error}", operator="stablehlo", operand="artifact") from None


def exported(graph: Graph, platforms: Sequence[str] = PLATFORMS) -> jax_export.Exported:
    """The graph as a ``jax.export`` artifact for several platforms at once: inputs by name → outputs by name.

    The graph's constants, which all have data, become literals, so that the artifact is complete.
    """
    parameters, function = as_function(graph, Target())
    weights = [np.asarray(graph.constants[value].data) for value in parameters]

    def webnn_graph(inputs: dict[str, Array]) -> dict[str, Array]:
        results = function([jax.device_put(array) for array in weights], [inputs[name] for name in graph.inputs])
        return dict(zip(graph.outputs, results, strict=True))

    with devices.x64():
        return jax_export.export(jax.jit(webnn_graph), platforms=tuple(platforms))(
            {name: struct(value.descriptor) for name, value in graph.inputs.items()}
        )


class _module:  # noqa: N801  (used as a function: a context manager)
    """The canonical module, CHLO already turned into StableHLO, within an MLIR context."""

    def __init__(self, graph: Graph) -> None:
        self.text, _ = canonical_text(graph)
        self.context = mlir.make_ir_context()

    def __enter__(self) -> ir.Module:
        self.context.__enter__()
        module = ir.Module.parse(self.text)
        passmanager.PassManager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(module.operation)
        return module

    def __exit__(self, *error: object) -> None:
        self.context.__exit__(*error)


class _quiet:  # noqa: N801
    """Keeps MLIR's own diagnostics, written to file descriptor 2, off the terminal: the exception says it."""

    def __enter__(self) -> None:
        self.saved = os.dup(2)
        self.sink = tempfile.TemporaryFile()
        os.dup2(self.sink.fileno(), 2)

    def __exit__(self, *error: object) -> None:
        os.dup2(self.saved, 2)
        os.close(self.saved)
        self.sink.close()


def _version(text: str) -> tuple[int, int, int]:
    major, minor, patch = text.split(".")
    return int(major), int(minor), int(patch)
