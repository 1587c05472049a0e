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

from webnn_xla import buffers, devices, rewrites
from webnn_xla.compile import as_function
from webnn_xla.dispatch import Short, closer, straight
from webnn_xla.dtypes import MLOperandDescriptor
from webnn_xla.errors import ArgumentError, InvalidStateError, OperationError, located, printable
from webnn_xla.graph import Graph, Value
from webnn_xla.program import Program
from webnn_xla.tensor import MLTensor

if TYPE_CHECKING:
    from webnn_xla.context import MLContext
    from webnn_xla.tosa import TosaModule

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

    def __init__(self, context: MLContext, graph: Graph, program: Program) -> None:
        self._context = context
        self._program = program
        self._destroyed = False
        self.input_descriptors: dict[str, MLOperandDescriptor] = {n: v.descriptor for n, v in graph.inputs.items()}
        self.output_descriptors: dict[str, MLOperandDescriptor] = {n: v.descriptor for n, v in graph.outputs.items()}
        self._names = graph.named_constants()
        self._arguments: list[Any] = []
        self._short: Short = closer
        self._graph = graph
        self._missing: set[str] = set()
        self._alias = dict(program.alias)
        self._overwritten = frozenset(self._alias.values())
        self._bind({value: constant.data for value, constant in graph.constants.items() if constant.data is not None})
        self.build_seconds: dict[str, float] = {}
        context._owned.add(self)

    @classmethod
    def _build(
        cls,
        context: MLContext,
        graph: Graph,
        *,
        optimize: rewrites.Optimize | None = None,
        alias: Mapping[str, str] | None = None,
        autotune: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> MLGraph:
        started = time.perf_counter()
        names = context.rewrites if optimize is None else rewrites.chosen(optimize, "build")
        target = context.target if names else context.portable_target
        pairs = cls._check_alias(graph, alias)
        program = Program(graph, target, context.device, names=names, options=options, cache=context.cache, alias=pairs)
        program.compile(autotune=autotune)
        ready = time.perf_counter()
        built = cls(context, graph, program)
        built.build_seconds = {"lower": ready - started - program.compile_seconds, "compile": program.compile_seconds}
        return built

    @staticmethod
    def _check_alias(graph: Graph, alias: Mapping[str, str] | None) -> dict[str, str]:
        """``alias`` as a dictionary of output to input names. ArgumentError for unknown, repeated or unlike ones."""
        pairs = dict(alias or {})
        for result, source in pairs.items():
            if result not in graph.outputs or source not in graph.inputs:
                known = (
                    f"outputs {', '.join(map(printable, graph.outputs))} to inputs {', '.join(map(printable, graph.inputs))}"
                )
                raise ArgumentError(f"got {result!r}: {source!r}; allowed: {known}", operator="build", operand="alias")
            if graph.outputs[result].descriptor != graph.inputs[source].descriptor:
                raise ArgumentError(
                    f"got {printable(result)!r} of {graph.outputs[result].descriptor} for {printable(source)!r}; allowed: "
                    f"{graph.inputs[source].descriptor}",
                    operator="build",
                    operand="alias",
                )
        if len(set(pairs.values())) != len(pairs):
            raise ArgumentError("got an input twice; allowed: each input for one output", operator="build", operand="alias")
        return pairs

    # What it is

    @property
    def context(self) -> MLContext:
        return self._context

    @property
    def graph(self) -> Graph:
        """The immutable record of ops that this was compiled from."""
        return self._graph

    @property
    def cache_hit(self) -> bool:
        """True if the executable came from the cache on disk (see ``webnn_xla.cache``)."""
        return self._program.cache_hit

    @property
    def fired_rewrites(self) -> tuple[str, ...]:
        """Which rewrites fired where: one line each, in order (see ``webnn_xla.rewrites``)."""
        return tuple(map(str, self._program.fired))

    @property
    def operation_count(self) -> int:
        return len(self._graph.nodes)

    def get_input_names(self) -> list[str]:
        return list(self.input_descriptors)

    def get_output_names(self) -> list[str]:
        return list(self.output_descriptors)

    def stablehlo(self, format: str = "text", version: str | None = None, *, locations: bool = True) -> str | bytes:
        """The graph as a StableHLO module.

        - ``"text"``: what XLA compiled for this context, as text; with ``locations``, each op carries its label;
        - ``"bytecode"``: the canonical lowering as MLIR bytecode, for tools of the same version as jaxlib;
        - ``"portable"``: the canonical lowering as a versioned artifact (``version="1.9.0"``; by default the newest),
          which later releases of StableHLO read too.

        The last two take the large and the named constants as their first arguments. Errors: ArgumentError for an
        unknown format, or a version that is too new or too old.
        """
        self._check_alive("stablehlo", weights_needed=False)
        if format == "text":
            return str(self._program.stage.as_text(debug_info=locations))
        from webnn_xla import export

        if format not in export.FORMATS:
            raise ArgumentError(f"got {format!r}; allowed: {', '.join(export.FORMATS)}", operator="stablehlo", operand="format")
        return export.bytecode(self._graph) if format == "bytecode" else export.portable(self._graph, version)

    def tosa(
        self, version: str = "1.0", *, profile: Iterable[str] | str = ("pro_int", "pro_fp"), allow_partial: bool = False
    ) -> TosaModule:
        """The graph as a TOSA function, from the ops as they were recorded.

        ``str(module)`` is MLIR text; ``module.validate()`` and ``module.flatbuffer()`` need ``tosa-tools``. ``version``
        is ``"1.0"`` or ``"1.1"`` (a draft, the first with 64-bit integers); ``profile`` one or both of ``"pro_int"`` and
        ``"pro_fp"``. Tensors of rank 7 and more are parameters and results of one dimension.
        Errors: NotSupportedError that names every op that TOSA cannot say, and why; with ``allow_partial`` they are in
        ``module.refusals`` instead, and outputs that depend on them are left out. ArgumentError for other arguments.
        """
        self._check_alive("tosa")
        from webnn_xla import tosa

        return tosa.export(
            self._graph, version, profile if isinstance(profile, str) else tuple(profile), allow_partial=allow_partial
        )

    def export(self, *, platforms: Iterable[str] = ("cpu", "cuda", "rocm", "tpu")) -> Any:
        """A ``jax.export.Exported`` of the canonical lowering, for several platforms at once, weights included.

        ``exported.call({"x": array})`` runs it, and ``exported.serialize()`` gives bytes that
        ``jax.export.deserialize`` reads in a process without this package.
        """
        self._check_alive("export")
        from webnn_xla import export

        return export.exported(self._graph, tuple(platforms))

    def cost(self) -> Cost:
        """Flops, bytes accessed and memory, as XLA estimates them for this executable."""
        self._check_alive("cost", weights_needed=False)
        analysis = self._program.executable.cost_analysis() or {}
        if isinstance(analysis, list):
            analysis = analysis[0]
        memory = self._program.executable.memory_analysis()
        # XLA counts what is in a loop once.
        turns = self._program.main.turns
        return Cost(
            flops=turns * float(analysis.get("flops", 0.0)),
            bytes_accessed=turns * float(analysis.get("bytes accessed", 0.0)),
            parameters=sum(value.descriptor.byte_length for value in self._program.parameters),
            arguments=int(getattr(memory, "argument_size_in_bytes", 0)),
            outputs=int(getattr(memory, "output_size_in_bytes", 0)),
            temporaries=int(getattr(memory, "temp_size_in_bytes", 0)),
            code=int(getattr(memory, "generated_code_size_in_bytes", 0)),
        )

    def __repr__(self) -> str:
        def side(descriptors: Mapping[str, MLOperandDescriptor]) -> str:
            return ", ".join(f"{printable(name)}: {descriptor}" for name, descriptor in descriptors.items())

        state = " destroyed" if self._destroyed else f" without weights: {len(self._missing)}" if self._missing else ""
        sides = f"({side(self.input_descriptors)}) -> ({side(self.output_descriptors)})"
        return f"<MLGraph {sides}, {self.operation_count} ops{state}>"

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
        if not isinstance(weights, Mapping):
            raise ArgumentError(
                f"got {type(weights).__name__}; allowed: a mapping by name, or a path",
                operator="load_weights",
                operand="weights",
            )
        unknown = [name for name in weights if name not in self._names]
        if unknown and strict:
            shown = ", ".join(printable(name) for name in unknown[:10])
            known = ", ".join(printable(name) for name in list(self._names)[:10]) or "none: no constant has a name"
            raise ArgumentError(f"got unknown names {shown}; allowed: {known}", operator="load_weights", operand="weights")
        loaded: dict[Value, Any] = {}
        for name, data in weights.items():
            if name not in self._names:
                continue
            value = self._names[name]
            try:
                loaded[value] = buffers.copy_in(data, value.descriptor, printable(name))
            except ArgumentError as error:
                raise located(error, "load_weights") from None
        self._bind(loaded)

    def _bind(self, data: Mapping[Value, Any]) -> None:
        """Takes the data of constants, and makes the program's arguments of all if none is missing."""
        put = self._context._to_device
        # What the program takes as it is lives on the device only, and save() reads it back from there. What is packed or
        # transformed stays on the host besides.
        data = {value: put(array) if value in self._program.resident else array for value, array in data.items()}
        graph = self._graph.replace_constants(data)
        missing = {name for name, value in self._names.items() if graph.constants[value].data is None}
        if not missing:
            self._arguments = self._program.bind({value: constant.data for value, constant in graph.constants.items()}, put)
        self._graph, self._missing = graph, missing
        self._short = closer

    def _straight(self) -> Short:
        """Made after the first run, when JAX's executable has a call without Python in between."""
        kind, order, executable = self._context._kind, self._program.output_order, self._program.executable
        return straight(
            getattr(executable, "_call", None) or executable,
            self._arguments,
            {name: kind(descriptor) for name, descriptor in self.input_descriptors.items()},
            {
                name: (kind(descriptor), index if order is None else order[index])
                for index, (name, descriptor) in enumerate(self.output_descriptors.items())
            },
            self._alias,
        )

    # Running

    def compute(self, inputs: Mapping[str, Any], output_names: Iterable[str] | None = None) -> dict[str, np.ndarray[Any, Any]]:
        """Runs on NumPy arrays and returns NumPy arrays: all outputs, or only those named.

        Errors: ArgumentError, naming the input, for missing or unknown names, types and shapes.
        """
        self._check_alive("compute")
        wanted = self._wanted(output_names)
        # Host memory is not copied: the results are here before this returns.
        arrays = self._arrays("compute", inputs, buffers.view)
        results = dict(zip(self.output_descriptors, self._call(arrays), strict=True))
        try:
            return {name: self._context._to_host(results[name], self.output_descriptors[name]) for name in wanted}
        except Exception as error:
            raise OperationError(f"running the graph failed: {error}", operator="compute") from error

    def __call__(self, /, **inputs: Any) -> dict[str, jax.Array]:
        """Runs on JAX arrays (or NumPy ones) given by name, and returns JAX arrays by name, without waiting."""
        self._check_alive("graph")
        arrays = self._arrays("graph", inputs, buffers.copy_in)
        return dict(zip(self.output_descriptors, self._call(arrays), strict=True))

    def as_function(self, *, weights: bool = False) -> Callable[..., dict[str, jax.Array]]:
        """A pure function ``f(inputs)`` or ``f(**inputs)`` → outputs by name, for jax.jit, jax.vmap and jax.grad.

        With ``weights=True`` it is ``f(weights, inputs)``, where ``weights`` are the named constants, by name:
        ``jax.grad`` with respect to them trains the graph. Without JAX's x64 mode, in which no array of 64-bit
        integers exists outside, it takes 32-bit ones for them.
        """
        self._check_alive("as_function", weights_needed=not weights)
        program, arguments = self._program, list(self._arguments)
        parameters, function = as_function(program.optimized, program.target)
        names, constants = dict(self._names), self._graph.constants

        def run(given: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, jax.Array]:
            self._match("as_function", "inputs", inputs, self.input_descriptors)
            with devices.x64():
                ordered = [_traced(inputs[name], descriptor, name) for name, descriptor in self.input_descriptors.items()]
                if weights:
                    unknown = [name for name in given if name not in names]
                    missing = [name for name in names if name not in given and constants[names[name]].data is None]
                    if unknown or missing:
                        shown, known_names = (", ".join(map(printable, some)) for some in (unknown or missing, names))
                        got = f"got {'unknown' if unknown else 'no'} {shown}; allowed: {known_names}"
                        raise ArgumentError(got, operator="as_function", operand="weights")
                    known = {names[name]: _traced(array, names[name].descriptor, name) for name, array in given.items()}
                    data = [known[value] if value in known else constants[value].data for value in parameters]
                    results = function(data, ordered)
                else:
                    results = list(program.flat(*arguments, *ordered))
            return dict(zip(self.output_descriptors, results, strict=True))

        if weights:
            return run

        def pure(inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, jax.Array]:
            return run({}, {**(inputs or {}), **named})

        return pure

    @property
    def weights(self) -> dict[str, jax.Array]:
        """The named constants, by name, on the device."""
        self._check_alive("weights", weights_needed=False)
        data = {name: self._graph.constants[value].data for name, value in self._names.items()}
        put = self._context._to_device
        loaded = {name: array for name, array in data.items() if array is not None}
        return {name: array if isinstance(array, jax.Array) else put(array) for name, array in loaded.items()}

    def destroy(self) -> None:
        """Releases the executable and the weights. Results of earlier dispatches stay. May be called twice."""
        self._destroyed = True
        self._program.executable, self._short = None, closer
        self._arguments = []
        self._graph = self._graph.replace_constants(dict.fromkeys(self._graph.constants))

    # Helpers

    def _dispatch(self, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]) -> None:
        self._check_tensors(inputs, outputs)
        arrays = [inputs[name]._array for name in self.input_descriptors]
        for result, source in self._alias.items():
            if inputs[source] is not outputs[result]:
                # The program writes over its argument, but this tensor keeps its data.
                index = list(self.input_descriptors).index(source)
                arrays[index] = arrays[index].copy()
        results = self._call(arrays)
        for index, name in enumerate(self.output_descriptors):
            outputs[name]._value = results[index]

    def _check_tensors(self, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]) -> None:
        self._check_alive("dispatch")
        self._match("dispatch", "inputs", inputs, self.input_descriptors)
        self._match("dispatch", "outputs", outputs, self.output_descriptors)
        seen: dict[int, str] = {}
        for side, tensors, descriptors in (
            ("inputs", inputs, self.input_descriptors),
            ("outputs", outputs, self.output_descriptors),
        ):
            for name, tensor in tensors.items():
                if type(tensor) is not MLTensor:
                    raise self._bad_tensor(side, name, f"got {type(tensor).__name__}; allowed: an MLTensor")
                tensor._check(self._context, "dispatch", f"{side}['{printable(name)}']")
                paired = side == "outputs" and name in self._alias and seen.get(id(tensor)) == self._alias[name]
                if id(tensor) in seen and not paired:
                    raise self._bad_tensor(side, name, "got a tensor a second time; allowed: each tensor once in a dispatch")
                seen[id(tensor)] = name if side == "inputs" else ""
                if tensor.constant:
                    raise self._bad_tensor(side, name, "got a constant tensor; allowed: one of create_tensor")
                if tensor.descriptor != descriptors[name]:
                    raise self._bad_tensor(side, name, f"got {tensor.descriptor}; allowed: {descriptors[name]}")

    def _call(self, arrays: list[Any]) -> list[jax.Array]:
        """Results in the order of the outputs. Arguments that are aliased are gone afterwards."""
        try:
            results = self._program.executable(*self._arguments, *arrays)
        except Exception as error:
            raise OperationError(f"running the graph failed: {error}", operator="dispatch") from error
        if self._short is closer:
            self._short = self._straight()
        order = self._program.output_order
        return results if order is None else [results[index] for index in order]

    def _arrays(self, operator: str, inputs: Mapping[str, Any], host: Callable[..., Any]) -> list[jax.Array]:
        """The inputs, in the graph's order, on the device; ``host`` makes NumPy arrays of what is not of JAX."""
        self._match(operator, "inputs", inputs, self.input_descriptors)
        arrays = []
        for name, descriptor in self.input_descriptors.items():
            given = inputs[name]
            if not isinstance(given, jax.Array):
                try:
                    given = self._context._to_device(host(given, descriptor, printable(name)))
                except ArgumentError as error:
                    raise located(error, operator) from None
            array = self._accept(given, descriptor, name, operator)
            # An array of the caller's must not be written over.
            arrays.append(array.copy() if name in self._overwritten else array)
        return arrays

    def _accept(self, array: jax.Array, descriptor: MLOperandDescriptor, name: str, operator: str) -> jax.Array:
        if isinstance(array, jax.core.Tracer):
            raise ArgumentError(
                "got an array that JAX traces; allowed: one with data (inside jax.jit and the like, call graph.as_function())",
                operator=operator,
                operand=printable(name),
            )
        if array.dtype == descriptor.data_type.numpy != descriptor.data_type.carrier:
            array = jax.lax.convert_element_type(array, descriptor.data_type.carrier)
        if array.dtype != descriptor.data_type.carrier or array.shape != tuple(descriptor.shape):
            got = f"got a JAX array of {array.dtype}{list(array.shape)}"
            raise ArgumentError(f"{got}; allowed: {descriptor}", operator=operator, operand=printable(name))
        if array.devices() != {self._context.device}:
            return self._context._to_device(array)
        return array

    def _wanted(self, names: Iterable[str] | None) -> list[str]:
        if names is None:
            return list(self.output_descriptors)
        wanted = [names] if isinstance(names, str) else list(names)
        for name in wanted:
            if name not in self.output_descriptors:
                allowed = ", ".join(map(printable, self.output_descriptors))
                raise ArgumentError(f"got {name!r}; allowed: {allowed}", operator="compute", operand="output_names")
        return wanted

    @staticmethod
    def _match(operator: str, side: str, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        if isinstance(given, Mapping) and given.keys() == wanted.keys():
            return
        if not isinstance(given, Mapping):
            raise ArgumentError(f"got {type(given).__name__}; allowed: a mapping by name", operator=operator, operand=side)
        missing = [printable(name) for name in wanted if name not in given]
        unknown = [printable(str(name)) for name in given if name not in wanted]
        parts = [f"{what} {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        allowed = ", ".join(map(printable, wanted)) or "none"
        raise ArgumentError(f"got {'; '.join(parts)}; allowed: {allowed}", operator=operator, operand=side)

    @staticmethod
    def _bad_tensor(side: str, name: str, message: str) -> ArgumentError:
        return ArgumentError(message, operator="dispatch", operand=f"{side}['{printable(name)}']")

    def _check_alive(self, operator: str, *, weights_needed: bool = True) -> None:
        self._context._check_alive(operator)
        if self._destroyed:
            raise InvalidStateError("the graph is destroyed", operator=operator, operand="graph")
        if weights_needed and self._missing:
            shown = ", ".join(printable(name) for name in sorted(self._missing)[:10])
            message = f"{len(self._missing)} weights are not loaded: {shown}; call load_weights"
            raise InvalidStateError(message, operator=operator)


def _traced(array: Any, descriptor: MLOperandDescriptor, name: str) -> Any:
    """``array`` if it has the descriptor's type and shape; 32-bit integers become 64-bit ones."""
    data_type = descriptor.data_type
    dtype, shape = getattr(array, "dtype", None), getattr(array, "shape", None)
    narrow = data_type.numpy.name.replace("int64", "int32") if data_type.is_integer else ""
    if shape == tuple(descriptor.shape) and dtype is not None:
        if dtype in (data_type.numpy, data_type.carrier):
            return array
        if str(dtype) == narrow:
            return jax.lax.convert_element_type(array, data_type.numpy)
    got = type(array).__name__ if dtype is None else f"an array of {dtype}{list(shape or ())}"
    raise ArgumentError(f"got {got}; allowed: an array of {descriptor}", operator="as_function", operand=printable(name))
