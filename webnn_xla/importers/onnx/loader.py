"""``from_onnx``: a model file to a compiled graph, whose weights go from the file to the device after it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from webnn_xla.builder import MLGraphBuilder, MLOperand
from webnn_xla.context import ML, MLContext
from webnn_xla.errors import ArgumentError, printable
from webnn_xla.importers.onnx.importer import Importer
from webnn_xla.importers.onnx.model import Model, Source, read_model
from webnn_xla.importers.onnx.types import Array, DType, to_storage
from webnn_xla.importers.onnx.values import Tensor
from webnn_xla.mlgraph import MLGraph

Progress = Callable[[str, int, int], None]
"""Called with what is being done ("reading", "compiling", "weights"), how far it is, and how far it goes."""

_PLACEHOLDER = "(no output has elements)"


@dataclass(frozen=True)
class Boundary:
    """An input or output in ONNX's terms. ``value`` is set where it is known on import."""

    dtype: DType
    shape: tuple[int, ...]
    value: Array | None = None


class OnnxGraph(MLGraph):
    """A compiled graph that knows the ONNX types of its inputs and outputs.

    ``compute`` takes and returns them: booleans (uint8 in the graph), int16 and uint16 (int32), float64 (float32), and
    tensors without elements. Everything else is as in any MLGraph, in WebNN's types.
    """

    onnx_inputs: dict[str, Boundary]
    onnx_outputs: dict[str, Boundary]

    def compute(self, inputs: Mapping[str, Any], output_names: Iterable[str] | None = None) -> dict[str, Array]:
        """Runs on NumPy arrays in the model's types, and returns such: all outputs, or only those named.

        Inputs whose values were fixed, or that nothing depends on, may be given or left out.
        Errors: ArgumentError, naming the input, for missing or unknown names, types and shapes.
        """
        self._check_alive("compute")
        wanted = (
            list(self.onnx_outputs)
            if output_names is None
            else [output_names]
            if isinstance(output_names, str)
            else list(output_names)
        )
        for name in wanted:
            if name not in self.onnx_outputs:
                raise ArgumentError(
                    f"got {name!r}; allowed: {', '.join(map(printable, self.onnx_outputs))}",
                    operator="compute",
                    operand="output_names",
                )
        if not isinstance(inputs, Mapping):
            raise ArgumentError(
                f"got {type(inputs).__name__}; allowed: a mapping by name", operator="compute", operand="inputs"
            )
        prepared = {}
        for name, given in inputs.items():
            if name in self.input_descriptors:
                prepared[name] = self._entering(name, given)
            elif name not in self.onnx_inputs:
                prepared[name] = given
        needed = [name for name in wanted if name in self.output_descriptors]
        results = super().compute(prepared, needed) if needed or prepared.keys() != self.input_descriptors.keys() else {}
        return {name: self._leaving(name, results.get(name)) for name in wanted}

    def _entering(self, name: str, given: Any) -> Any:
        declared = self.onnx_inputs[name].dtype
        descriptor = self.input_descriptors[name]
        if isinstance(given, np.ndarray) and given.dtype == declared and given.dtype != descriptor.data_type.numpy:
            return to_storage(given)
        if declared == np.bool_ and isinstance(given, (bool, list, np.bool_)):
            return np.asarray(given, bool).astype(np.uint8)
        return given

    def _leaving(self, name: str, got: Array | None) -> Array:
        declared = self.onnx_outputs[name]
        if got is None:
            assert declared.value is not None
            return declared.value.copy()
        if got.dtype == declared.dtype:
            return got
        return got.astype(declared.dtype)


class _Reading(Mapping[str, Array]):
    """Weights by name, each read when it is asked for."""

    def __init__(self, readers: Mapping[str, Callable[[], Array]], progress: Progress | None) -> None:
        self._readers = readers
        self._progress = progress
        self._done = 0

    def __getitem__(self, name: str) -> Array:
        array = to_storage(self._readers[name]())
        self._done += 1
        if self._progress is not None:
            self._progress("weights", self._done, len(self._readers))
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def from_onnx(
    model: Source | Model,
    dims: Mapping[str, Any] | None = None,
    *,
    values: Mapping[str, Any] | None = None,
    context: MLContext | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> OnnxGraph:
    """A compiled graph of an ONNX model.

    Arguments:
        model: a path, the bytes of a file, or an ``onnx.ModelProto``.
        dims: sizes of free dimensions by name (``{"batch": 1}``; unnamed ones are ``"input[axis]"``), or whole shapes by
            input name (``{"x": [1, 3, 224, 224]}``).
        values: inputs that are fixed to a value, because shapes or branches depend on them (``{"sr": 16000}``).
        context: where to build; by default a new context on the best device.
        progress: called with a stage, how far it is, and its end.
        options: passed to ``MLGraphBuilder.build``.

    Errors: UnsupportedModelError (a NotSupportedError) lists every node that cannot be imported, before any weight is
    read; InvalidModelError and DataError for models that are damaged or contradict themselves; ArgumentError for
    missing or unknown dimensions.
    """
    parsed = model if isinstance(model, Model) else read_model(model)
    context = context if context is not None else ML().create_context()
    graph, readers = compile_model(parsed, context, dims, values, progress, options)
    graph.load_weights(_Reading(readers, progress))
    return graph


def compile_model(
    model: Model,
    context: MLContext,
    dims: Mapping[str, Any] | None,
    values: Mapping[str, Any] | None,
    progress: Progress | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    specialize: bool = False,
) -> tuple[OnnxGraph, Mapping[str, Callable[[], Array]]]:
    """The graph without its weights, and how to read each of them."""
    builder, importer, inputs, results = record(model, context, dims, values, progress, specialize=specialize)
    outputs: dict[str, MLOperand] = {}
    boundaries: dict[str, Boundary] = {}
    taken: set[int] = set()
    for name, tensor in results.items():
        boundaries[name] = Boundary(tensor.dtype, tensor.shape, tensor.data)
        if tensor.size == 0:
            continue
        operand = importer.operand(tensor, "")
        if operand._value not in builder._producers or id(operand._value) in taken:
            operand = builder.identity(operand, label=f"output {name}")
        taken.add(id(operand._value))
        outputs[name] = operand
    if not outputs:
        outputs[_PLACEHOLDER] = builder.identity(builder.constant("uint8", 0))
    if progress is not None:
        progress("compiling", 0, 1)
    graph = OnnxGraph._build(context, builder._graph(outputs), **(options or {}))
    builder._built = True
    assert isinstance(graph, OnnxGraph)
    graph.onnx_inputs, graph.onnx_outputs = inputs, boundaries
    if progress is not None:
        progress("compiling", 1, 1)
    return graph, {name: reader for name, reader in importer.weights.items() if name in graph._names}


def record(
    model: Model,
    context: MLContext,
    dims: Mapping[str, Any] | None,
    values: Mapping[str, Any] | None,
    progress: Progress | None = None,
    *,
    specialize: bool = False,
) -> tuple[MLGraphBuilder, Importer, dict[str, Boundary], dict[str, Tensor]]:
    """The model in a builder, not compiled."""
    fixed = _fixed(model, values)
    given = dict(dims or {})
    for name, array in fixed.items():
        if name not in given and name not in model.free_dimensions():
            given[name] = list(array.shape)
    shapes = model.shapes(given)
    builder = MLGraphBuilder(context)
    reading = None if progress is None else (lambda done, total: progress("reading", done, total))
    importer = Importer(model, builder, shapes, fixed, reading, specialize=specialize)
    results = importer.run()
    ports = {port.name: port.dtype for port in model.inputs}
    inputs = {name: Boundary(dtype, shapes[name], fixed.get(name)) for name, dtype in ports.items() if dtype is not None}
    return builder, importer, inputs, results


def _fixed(model: Model, values: Mapping[str, Any] | None) -> dict[str, Array]:
    ports = {port.name: port for port in model.inputs}
    fixed: dict[str, Array] = {}
    for name, value in (values or {}).items():
        port = ports.get(name)
        if port is None or port.dtype is None:
            raise ArgumentError(
                f"got {name!r}; allowed: {', '.join(map(printable, ports)) or 'none: the model has no inputs'}",
                operator="from_onnx",
                operand="values",
            )
        try:
            fixed[name] = np.asarray(value).astype(port.dtype)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{printable(name)!r}: {error}", operator="from_onnx", operand="values") from None
    return fixed
