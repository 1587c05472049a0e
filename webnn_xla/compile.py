"""From a graph to an XLA executable: which constants become arguments, tracing through the op table, compiling.

A traced program takes its parameters (large or named constants) first and then the inputs, both in the graph's order, and
returns the outputs in the graph's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np
from jax import Array

from webnn_xla import devices
from webnn_xla.dtypes import Descriptor
from webnn_xla.errors import OperationError, WebNNError, printable
from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target

INLINE_BYTES: Final = 4096
"""Unnamed constants up to this size are literals of the program; larger ones are arguments, on the device once."""

Function = Callable[[Sequence[Array], Sequence[Array]], list[Array]]


@dataclass(frozen=True)
class Lowered:
    """A graph as JAX sees it: the values that are parameters, and the stages of compilation."""

    graph: Graph
    parameters: tuple[Value, ...]
    stage: Any
    """``jax.stages.Lowered``: StableHLO, before XLA."""


def split_constants(graph: Graph) -> tuple[tuple[Value, ...], dict[Value, Any]]:
    """Parameters (arguments of the program) and literals (part of its text)."""
    parameters: list[Value] = []
    literals: dict[Value, Any] = {}
    for value, constant in graph.constants.items():
        if constant.data is None or constant.name or value.descriptor.byte_length > INLINE_BYTES:
            parameters.append(value)
        else:
            literals[value] = constant.data
    return tuple(parameters), literals


def as_function(graph: Graph, target: Target) -> tuple[tuple[Value, ...], Function]:
    """The parameters of ``graph``, and a pure function of (parameters, inputs) that computes its outputs."""
    parameters, literals = split_constants(graph)
    host_literals = {value: np.asarray(data) for value, data in literals.items()}

    def run(arguments: Sequence[Array], inputs: Sequence[Array]) -> list[Array]:
        environment: dict[Value, Array] = {}
        for value, array in zip((*parameters, *graph.inputs.values()), (*arguments, *inputs), strict=True):
            environment[value] = _convert(array, value.descriptor.data_type.numpy)
        for value, data in host_literals.items():
            environment[value] = jax.lax.full(data.shape, data, data.dtype) if data.ndim == 0 else jax.device_put(data)
        for node in graph.nodes:
            environment.update(zip(node.outputs, apply(node, environment, target), strict=True))
        return [_convert(environment[value], value.descriptor.data_type.carrier) for value in graph.outputs.values()]

    return parameters, run if graph.parts == 1 else _in_parts(graph, run)


def _in_parts(graph: Graph, run: Function) -> Function:
    """``run``, which computes one part of the batch, in a loop over all: ``graph.turns`` turns of ``graph.abreast`` parts."""
    turns, abreast = graph.turns, graph.abreast

    def split(array: Array) -> Array:
        return jax.lax.reshape(array, (turns, abreast, array.shape[0] // graph.parts, *array.shape[1:]))

    def join(array: Array) -> Array:
        return jax.lax.reshape(array, (turns * array.shape[1], *array.shape[2:]))

    def turn(arguments: Sequence[Array], inputs: Sequence[Array]) -> list[Array]:
        # Nothing connects the parts of a turn, so XLA runs them at the same time.
        results = [
            run(arguments, [jax.lax.index_in_dim(array, index, keepdims=False) for array in inputs]) for index in range(abreast)
        ]
        return [jax.lax.concatenate(parts, 0) for parts in zip(*results, strict=True)]

    def run_all(arguments: Sequence[Array], inputs: Sequence[Array]) -> list[Array]:
        return [join(array) for array in jax.lax.map(lambda part: turn(arguments, part), [split(array) for array in inputs])]

    return run_all


def apply(node: Node, environment: dict[Value, Array], target: Target) -> Sequence[Array]:
    """Lowers one node under a scope of its label, so that the label is the location of what it emits."""
    arguments: dict[str, Any] = dict.fromkeys(node.op.operands())
    for name, operand in node.operands.items():
        arguments[name] = [environment[item] for item in operand] if isinstance(operand, tuple) else environment[operand]
    if node.op.wants_target:
        arguments["target"] = target
    try:
        with jax.named_scope(printable(node.label) or node.op.name):
            result = node.op.lowering(**arguments, **node.attributes)
    except WebNNError:
        raise
    except Exception as error:
        given = ", ".join(f"{name} {_describe(operand)}" for name, operand in node.operands.items())
        raise OperationError(
            f"lowering failed for {given}: {error}",
            operator=node.op.name,
            operand=next(iter(node.operands), ""),
            label=node.label,
        ) from error
    results: Sequence[Array] = result if isinstance(result, (tuple, list)) else (result,)
    for value, array in zip(node.outputs, results, strict=True):
        if tuple(value.descriptor.shape) != array.shape or value.descriptor.data_type.numpy != array.dtype:
            raise OperationError(
                f"lowering gave {array.dtype}{list(array.shape)} for {value.descriptor}; this is a bug in the op",
                operator=node.op.name,
                label=node.label,
            )
    return results


def lower(graph: Graph, target: Target, device: jax.Device) -> Lowered:
    """Traces the graph to StableHLO for ``device``."""
    parameters, function = as_function(graph, target)

    def webnn_graph(arguments: list[Array], inputs: list[Array]) -> list[Array]:
        return function(arguments, inputs)

    with devices.x64():
        jitted = jax.jit(webnn_graph, keep_unused=True)
        stage = jitted.lower(
            [struct(value.descriptor, device) for value in parameters],
            [struct(value.descriptor, device) for value in graph.inputs.values()],
        )
    return Lowered(graph, parameters, stage)


def struct(descriptor: Descriptor, device: jax.Device | None = None) -> jax.ShapeDtypeStruct:
    """What a program is traced with for a tensor, on ``device`` if it is given."""
    sharding = None if device is None else jax.sharding.SingleDeviceSharding(device)
    return jax.ShapeDtypeStruct(tuple(descriptor.shape), descriptor.data_type.carrier, sharding=sharding)


def compile_stage(graph: Graph, stage: Any, options: dict[str, Any] | None = None) -> Any:
    """Compiles with XLA. OperationError with XLA's words, and the op whose location they name, if it fails."""
    try:
        with devices.x64():
            return stage.compile(compiler_options=options or None)
    except Exception as error:
        raise _blame(graph, error) from error


def _convert(array: Array, dtype: Any) -> Array:
    return array if array.dtype == dtype else jax.lax.convert_element_type(array, dtype)


def _blame(graph: Graph, error: Exception) -> OperationError:
    text = str(error)
    if "No such compile option" in text or "While setting option" in text:
        return OperationError(text, operator="build", operand="compiler_options")
    node = next((node for node in graph.nodes if node.label and node.label in text), None)
    if node is None and graph.nodes:
        node = max(graph.nodes, key=lambda node: sum(value.descriptor.byte_length for value in node.outputs))
        text += f" (the largest tensor is made by {node.op.name})"
    return OperationError(
        f"XLA could not compile the graph: {text}",
        operator=node.op.name if node else "build",
        operand=next(iter(node.operands), "") if node else "",
        label=node.label if node else "",
    )


def _describe(operand: Value | tuple[Value, ...]) -> str:
    if isinstance(operand, tuple):
        return "[" + ", ".join(str(value.descriptor) for value in operand) + "]"
    return str(operand.descriptor)
