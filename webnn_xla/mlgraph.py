"""MLGraph: a compiled graph, and the ways to run it. Source: https://www.w3.org/TR/webnn/#api-mlgraph."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from webnn_xla import buffers, devices
from webnn_xla.compile import Lowered, as_function, compile_lowered, lower
from webnn_xla.dtypes import MLOperandDescriptor
from webnn_xla.errors import ArgumentError, InvalidStateError, OperationError, printable
from webnn_xla.graph import Graph
from webnn_xla.tensor import MLTensor

if TYPE_CHECKING:
    from webnn_xla.context import MLContext

WORKERS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="webnn-read")
"""Threads for asynchronous reads; they start on first use."""


@dataclass(frozen=True)
class Cost:
    """What XLA says a graph costs. ``flops`` a run; the others in bytes."""

    flops: float
    bytes_accessed: float
    parameters: int
    arguments: int
    outputs: int
    temporaries: int
    code: int


class MLGraph:
    """A compiled graph on one context. Made by ``MLGraphBuilder.build`` and ``webnn_xla.load`` only."""

    def __init__(self, context: MLContext, graph: Graph, lowered: Lowered, executable: Any) -> None:
        self._context = context
        self._lowered = lowered
        self._executable = executable
        self._destroyed = False
        self.input_descriptors: dict[str, MLOperandDescriptor] = {n: v.descriptor for n, v in graph.inputs.items()}
        self.output_descriptors: dict[str, MLOperandDescriptor] = {n: v.descriptor for n, v in graph.outputs.items()}
        self._names = {graph.constants[value].name: index for index, value in enumerate(lowered.parameters) if graph.constants[value].name}
        on_device = {
            value: context._to_device(graph.constants[value].data)
            for value in lowered.parameters
            if graph.constants[value].data is not None
        }
        # From here on the device's copy is the only one; save() reads it back.
        self._graph = graph.replace_constants(on_device)
        self._parameters: list[Any] = [on_device.get(value) for value in lowered.parameters]
        self._missing = {name for name, index in self._names.items() if self._parameters[index] is None}
        self.build_seconds: dict[str, float] = {}

    @classmethod
    def _build(cls, context: MLContext, graph: Graph) -> MLGraph:
        started = time.perf_counter()
        lowered = lower(graph, context.target, context.device)
        traced = time.perf_counter()
        executable = compile_lowered(lowered)
        built = cls(context, graph, lowered, executable)
        built.build_seconds = {"lower": traced - started, "compile": time.perf_counter() - traced}
        return built

    # What it is

    @property
    def context(self) -> MLContext:
        return self._context

    @property
    def graph(self) -> Graph:
        """The immutable record of ops that this was compiled from."""
        return self._graph

    @property
    def operation_count(self) -> int:
        return len(self._graph.nodes)

    def get_input_names(self) -> list[str]:
        return list(self.input_descriptors)

    def get_output_names(self) -> list[str]:
        return list(self.output_descriptors)

    def stablehlo(self, *, locations: bool = True) -> str:
        """The StableHLO module that XLA compiled, as text; with ``locations``, each op carries its label."""
        return str(self._lowered.stage.as_text(debug_info=locations))

    def cost(self) -> Cost:
        """Flops, bytes accessed and memory, as XLA estimates them for this executable."""
        analysis = self._executable.cost_analysis() or {}
        if isinstance(analysis, list):
            analysis = analysis[0]
        memory = self._executable.memory_analysis()
        return Cost(
            flops=float(analysis.get("flops", 0.0)),
            bytes_accessed=float(analysis.get("bytes accessed", 0.0)),
            parameters=sum(value.descriptor.byte_length for value in self._lowered.parameters),
            arguments=int(getattr(memory, "argument_size_in_bytes", 0)),
            outputs=int(getattr(memory, "output_size_in_bytes", 0)),
            temporaries=int(getattr(memory, "temp_size_in_bytes", 0)),
            code=int(getattr(memory, "generated_code_size_in_bytes", 0)),
        )

    def __repr__(self) -> str:
        def side(descriptors: Mapping[str, MLOperandDescriptor]) -> str:
            return ", ".join(f"{printable(name)}: {descriptor}" for name, descriptor in descriptors.items())

        state = " destroyed" if self._destroyed else f" without weights: {len(self._missing)}" if self._missing else ""
        return f"<MLGraph ({side(self.input_descriptors)}) -> ({side(self.output_descriptors)}), {self.operation_count} ops{state}>"

    def _repr_svg_(self) -> str | None:
        from webnn_xla.render import svg

        return svg(self._graph)

    # Weights

    def load_weights(self, weights: Mapping[str, Any] | str | os.PathLike[str], *, strict: bool = True) -> None:
        """Brings the data of named constants: arrays by name, or the path of a safetensors file (memory-mapped).

        Every name that is given must exist in the graph, unless ``strict`` is False. Nothing is loaded if anything is
        wrong. Errors: ArgumentError, naming the weight, for an unknown name, type or shape; DataError for a bad file.
        """
        self._check_alive("load_weights", weights_needed=False)
        if isinstance(weights, (str, os.PathLike)):
            from webnn_xla.serialization import open_weights

            weights = open_weights(Path(weights))
        unknown = [name for name in weights if name not in self._names]
        if unknown and strict:
            shown = ", ".join(printable(name) for name in unknown[:10])
            known = ", ".join(printable(name) for name in list(self._names)[:10]) or "none: no constant has a name"
            raise ArgumentError(f"got unknown names {shown}; allowed: {known}", operator="load_weights", operand="weights")
        loaded: dict[int, Any] = {}
        for name, data in weights.items():
            if name not in self._names:
                continue
            index = self._names[name]
            descriptor = self._lowered.parameters[index].descriptor
            try:
                loaded[index] = self._context._to_device(buffers.copy_in(data, descriptor, printable(name)))
            except ArgumentError as error:
                raise ArgumentError(str(error).removeprefix(f"{error.operand}: "), operator="load_weights", operand=error.operand) from None
        for index, array in loaded.items():
            self._parameters[index] = array
        self._graph = self._graph.replace_constants({self._lowered.parameters[index]: array for index, array in loaded.items()})
        self._missing -= set(weights)

    # Running

    def compute(self, inputs: Mapping[str, Any], output_names: Iterable[str] | None = None) -> dict[str, np.ndarray[Any, Any]]:
        """Runs on NumPy arrays and returns NumPy arrays: all outputs, or only those named.

        Errors: ArgumentError, naming the input, for missing or unknown names, types and shapes.
        """
        self._check_alive("compute")
        wanted = self._wanted(output_names)
        self._match("compute", "inputs", inputs, self.input_descriptors)
        arrays = []
        for name, descriptor in self.input_descriptors.items():
            given = inputs[name]
            if isinstance(given, jax.Array):
                arrays.append(self._accept(given, descriptor, name, "compute"))
                continue
            try:
                host = buffers.view(given, descriptor, printable(name))
            except ArgumentError as error:
                raise ArgumentError(str(error).removeprefix(f"{error.operand}: "), operator="compute", operand=error.operand) from None
            arrays.append(self._context._to_device(host))
        results = dict(zip(self.output_descriptors, self._call(arrays), strict=True))
        try:
            return {name: self._context._to_host(results[name], self.output_descriptors[name]) for name in wanted}
        except Exception as error:
            raise OperationError(f"running the graph failed: {error}", operator="compute") from error

    def __call__(self, **inputs: Any) -> dict[str, jax.Array]:
        """Runs on JAX arrays (or NumPy ones) given by name, and returns JAX arrays by name, without waiting."""
        self._check_alive("graph")
        self._match("graph", "inputs", inputs, self.input_descriptors)
        arrays = []
        for name, descriptor in self.input_descriptors.items():
            given = inputs[name]
            if not isinstance(given, jax.Array):
                given = self._context._to_device(buffers.copy_in(given, descriptor, printable(name)))
            arrays.append(self._accept(given, descriptor, name, "graph"))
        return dict(zip(self.output_descriptors, self._call(arrays), strict=True))

    def as_function(self, *, weights: bool = False) -> Callable[..., dict[str, jax.Array]]:
        """A pure function ``f(inputs)`` or ``f(**inputs)`` → outputs by name, for jax.jit, jax.vmap and jax.grad.

        With ``weights=True`` it is ``f(weights, inputs)``, where ``weights`` are the named constants, by name:
        ``jax.grad`` with respect to them trains the graph.
        """
        self._check_alive("as_function", weights_needed=not weights)
        _, function = as_function(self._graph, self._context.target)
        names, defaults = dict(self._names), list(self._parameters)

        def run(given: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, jax.Array]:
            self._match("as_function", "inputs", inputs, self.input_descriptors)
            parameters = list(defaults)
            for name, array in given.items():
                parameters[names[name]] = array
            with devices.x64():
                results = function(parameters, [inputs[name] for name in self.input_descriptors])
            return dict(zip(self.output_descriptors, results, strict=True))

        if weights:
            return run

        def pure(inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, jax.Array]:
            return run({}, {**(inputs or {}), **named})

        return pure

    @property
    def weights(self) -> dict[str, jax.Array]:
        """The named constants, by name, on the device."""
        return {name: self._parameters[index] for name, index in self._names.items()}

    def destroy(self) -> None:
        """Releases the executable and the weights. Results of earlier dispatches stay. May be called twice."""
        self._destroyed = True
        self._executable = None
        self._parameters = []

    # Helpers

    def _dispatch(self, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]) -> None:
        self._check_alive("dispatch")
        self._match("dispatch", "inputs", inputs, self.input_descriptors)
        self._match("dispatch", "outputs", outputs, self.output_descriptors)
        seen: set[int] = set()
        for side, tensors, descriptors in (
            ("inputs", inputs, self.input_descriptors),
            ("outputs", outputs, self.output_descriptors),
        ):
            for name, tensor in tensors.items():
                if type(tensor) is not MLTensor:
                    raise self._bad_tensor(side, name, f"got {type(tensor).__name__}; allowed: an MLTensor")
                tensor._check(self._context, "dispatch", f"{side}[{name!r}]")
                if id(tensor) in seen:
                    raise self._bad_tensor(side, name, "got a tensor a second time; allowed: each tensor once in a dispatch")
                seen.add(id(tensor))
                if tensor.constant:
                    raise self._bad_tensor(side, name, "got a constant tensor; allowed: one of create_tensor")
                if tensor.descriptor != descriptors[name]:
                    raise self._bad_tensor(side, name, f"got {tensor.descriptor}; allowed: {descriptors[name]}")
        results = self._call([inputs[name]._array for name in self.input_descriptors])
        for name, array in zip(self.output_descriptors, results, strict=True):
            outputs[name]._value = array

    def _call(self, arrays: list[Any]) -> list[jax.Array]:
        try:
            return self._executable(self._parameters, arrays)  # type: ignore[no-any-return]
        except Exception as error:
            raise OperationError(f"running the graph failed: {error}", operator="dispatch") from error

    def _accept(self, array: jax.Array, descriptor: MLOperandDescriptor, name: str, operator: str) -> jax.Array:
        if array.dtype == descriptor.data_type.numpy != descriptor.data_type.carrier:
            array = jax.lax.convert_element_type(array, descriptor.data_type.carrier)
        if array.dtype != descriptor.data_type.carrier or array.shape != tuple(descriptor.shape):
            raise ArgumentError(
                f"got a JAX array of {array.dtype}{list(array.shape)}; allowed: {descriptor}", operator=operator, operand=printable(name)
            )
        if array.devices() != {self._context.device}:
            return self._context._to_device(array)
        return array

    def _wanted(self, names: Iterable[str] | None) -> list[str]:
        if names is None:
            return list(self.output_descriptors)
        wanted = [names] if isinstance(names, str) else list(names)
        for name in wanted:
            if name not in self.output_descriptors:
                raise ArgumentError(
                    f"got {name!r}; allowed: {', '.join(map(printable, self.output_descriptors))}", operator="compute", operand="output_names"
                )
        return wanted

    @staticmethod
    def _match(operator: str, side: str, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        if isinstance(given, Mapping) and given.keys() == wanted.keys():
            return
        if not isinstance(given, Mapping):
            raise ArgumentError(f"got {type(given).__name__}; allowed: a mapping by name", operator=operator, operand=side)
        missing = [printable(name) for name in wanted if name not in given]
        unknown = [printable(str(name)) for name in given if name not in wanted]
        got = "; ".join(
            part for part in (f"missing {', '.join(missing)}" if missing else "", f"unknown {', '.join(unknown)}" if unknown else "") if part
        )
        raise ArgumentError(f"got {got}; allowed: {', '.join(map(printable, wanted)) or 'none'}", operator=operator, operand=side)

    @staticmethod
    def _bad_tensor(side: str, name: str, message: str) -> ArgumentError:
        return ArgumentError(message, operator="dispatch", operand=f"{side}[{printable(name)!r}]")

    def _check_alive(self, operator: str, *, weights_needed: bool = True) -> None:
        self._context._check_alive(operator)
        if self._destroyed:
            raise InvalidStateError("the graph is destroyed", operator=operator, operand="graph")
        if weights_needed and self._missing:
            shown = ", ".join(printable(name) for name in sorted(self._missing)[:10])
            raise InvalidStateError(f"{len(self._missing)} weights are not loaded: {shown}; call load_weights", operator=operator)


