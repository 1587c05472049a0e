"""``Session``: a model with free dimensions, specialised for the shapes it meets, with one copy of its weights."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import Any

import numpy as np

from webnn_xla.context import ML, MLContext
from webnn_xla.errors import ArgumentError, printable
from webnn_xla.importers.onnx.errors import UnsupportedModelError
from webnn_xla.importers.onnx.loader import OnnxGraph, Progress, _Reading, compile_model
from webnn_xla.importers.onnx.model import Model, Port, Source, read_model
from webnn_xla.importers.onnx.types import Array

MAX_FIXED_ELEMENTS = 4096
"""Inputs up to this size may become part of what a graph is specialised for, if shapes or branches depend on them."""

SHARED_BYTES = 16384
"""Arguments of executables from this size on are looked for among those of the session's other graphs."""

_Key = tuple[Any, ...]


class Session:
    """Runs a model on inputs of any shape it allows.

    The first run with new shapes compiles a graph, and later ones find it again; when there are more than
    ``cache_size``, the least recently used goes. Graphs share the weights on the device. Where shapes or branches depend
    on the value of a small input, the value is part of what is specialised for.

    Arguments:
        model: a path, the bytes of a file, or an ``onnx.ModelProto``.
        dims: sizes for some of the free dimensions, fixed for all runs.
        values: inputs fixed to a value for all runs; they need not be given.
        buckets: sizes that a free dimension is padded up to, by name: ``{"seq": [32, 64, 128]}``. Inputs are padded at the
            end with ``pad_values`` (0 by default), which is right where the model has a mask input that 0 masks out;
            outputs that have the dimension are cut back.
        cache_size: how many graphs are kept.
        context: where to build; by default a new context on the best device.
    """

    def __init__(
        self,
        model: Source | Model,
        *,
        dims: Mapping[str, int] | None = None,
        values: Mapping[str, Any] | None = None,
        buckets: Mapping[str, Sequence[int]] | None = None,
        pad_values: Mapping[str, float] | None = None,
        cache_size: int = 8,
        context: MLContext | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> None:
        self.model = model if isinstance(model, Model) else read_model(model)
        self.context = context if context is not None else ML().create_context()
        if cache_size < 1:
            raise ArgumentError(f"got {cache_size}; allowed: 1 or more", operator="Session", operand="cache_size")
        self.cache_size = cache_size
        self._dims, self._values = dict(dims or {}), dict(values or {})
        self._buckets = self._checked(buckets)
        self._pad_values = dict(pad_values or {})
        self._known(self._dims, "dims", self.model.free_dimensions())
        names = [port.name for port in self.model.inputs]
        self._known(self._values, "values", names)
        self._known(self._pad_values, "pad_values", names)
        self._progress, self._options = progress, options
        self._graphs: OrderedDict[_Key, OnnxGraph] = OrderedDict()
        self._fixed: set[str] = set()
        self._weights: dict[str, Any] = {}
        self._arrays: dict[_Key, Any] = {}
        self._lock = RLock()

    @staticmethod
    def _known(given: Mapping[str, Any], operand: str, names: Sequence[str]) -> None:
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ArgumentError(
                f"got {', '.join(map(repr, unknown))}; allowed: {', '.join(map(printable, names)) or 'none'}",
                operator="Session",
                operand=operand,
            )

    def _checked(self, buckets: Mapping[str, Sequence[int]] | None) -> dict[str, list[int]]:
        self._known(buckets or {}, "buckets", self.model.free_dimensions())
        checked = {}
        for name, sizes in (buckets or {}).items():
            if not sizes or any(not isinstance(size, int) or isinstance(size, bool) or size < 1 for size in sizes):
                raise ArgumentError(
                    f"got {sizes!r} for {name!r}; allowed: sizes of 1 or more", operator="Session", operand="buckets"
                )
            checked[name] = sorted(sizes)
        return checked

    # What it is

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Name, NumPy dtype and dimensions of each input."""
        return self.model.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Name, NumPy dtype and dimensions of each output."""
        return self.model.outputs

    @property
    def graphs(self) -> list[OnnxGraph]:
        """The graphs that are kept, the most recently used last."""
        return list(self._graphs.values())

    @property
    def fixed_inputs(self) -> frozenset[str]:
        """Inputs whose values graphs are specialised for, as far as runs have shown."""
        return frozenset(self._fixed)

    def __repr__(self) -> str:
        ports = ", ".join(map(str, self.inputs))
        return f"<Session {printable(self.model.name)} ({ports}), {len(self._graphs)} graphs>"

    # Running

    def run(self, inputs: Mapping[str, Any], output_names: Iterable[str] | None = None) -> dict[str, Array]:
        """NumPy arrays in, NumPy arrays out, in the model's types.

        Errors: ArgumentError, naming the input, for missing or unknown names, types and shapes, and a size above the
        largest bucket; UnsupportedModelError where a node cannot be imported for these shapes.
        """
        given = self._typed(inputs)
        sizes = self._sizes(given)
        padded = self._padded(given, sizes)
        graph = self._graph(padded)
        results = graph.compute(padded, output_names)
        return self._cut(results, sizes)

    __call__ = run

    def graph(self, inputs: Mapping[str, Any]) -> OnnxGraph:
        """The graph that such inputs run on; compiled if it is not there yet."""
        given = self._typed(inputs)
        return self._graph(self._padded(given, self._sizes(given)))

    def _typed(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        wanted = {port.name: port for port in self.inputs}
        missing = [name for name in wanted if name not in inputs and name not in self._values]
        unknown = [name for name in inputs if name not in wanted]
        if missing or unknown:
            parts = [
                f"{what} {', '.join(map(printable, names))}"
                for what, names in (("missing", missing), ("unknown", unknown))
                if names
            ]
            raise ArgumentError(
                f"got {'; '.join(parts)}; allowed: {', '.join(map(printable, wanted)) or 'none'}",
                operator="Session",
                operand="inputs",
            )
        arrays = {}
        for name, given in inputs.items():
            port = wanted[name]
            array = np.asarray(given)
            if not isinstance(given, np.ndarray) and port.dtype is not None and array.dtype != port.dtype:
                array = array.astype(port.dtype)
            if array.dtype != port.dtype:
                raise ArgumentError(f"got {array.dtype}; allowed: {port}", operator="Session", operand=printable(name))
            if port.shape is not None and (
                array.ndim != len(port.shape)
                or any(isinstance(d, int) and d != size for d, size in zip(port.shape, array.shape, strict=True))
            ):
                raise ArgumentError(
                    f"got shape {list(array.shape)}; allowed: {port}", operator="Session", operand=printable(name)
                )
            arrays[name] = array
        return arrays

    def _sizes(self, given: Mapping[str, Array]) -> dict[str, int]:
        """Sizes of free dimensions, which must agree between inputs."""
        sizes: dict[str, int] = dict(self._dims)
        for port in self.inputs:
            if port.name not in given or port.shape is None:
                continue
            for dimension, size in zip(port.shape, given[port.name].shape, strict=True):
                if isinstance(dimension, str) and sizes.setdefault(dimension, size) != size:
                    raise ArgumentError(
                        f"got {size} for the dimension {printable(dimension)!r}, which is {sizes[dimension]}",
                        operator="Session",
                        operand=printable(port.name),
                    )
        return sizes

    def _padded(self, given: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
        if not self._buckets:
            return dict(given)
        targets: dict[str, int] = {}
        for name, buckets in self._buckets.items():
            size = sizes.get(name, 0)
            target = next((bucket for bucket in buckets if bucket >= size), None)
            if target is None:
                raise ArgumentError(
                    f"got {size} for the dimension {printable(name)!r}; allowed: at most {buckets[-1]}, its largest bucket",
                    operator="Session",
                    operand="inputs",
                )
            targets[name] = target
        padded = {}
        for port in self.inputs:
            if port.name not in given:
                continue
            array = given[port.name]
            widths = [(0, targets[d] - s if d in targets else 0) for d, s in zip(port.shape or (), array.shape, strict=False)]
            if any(width[1] for width in widths):
                array = np.pad(array, widths, constant_values=self._pad_values.get(port.name, 0))
            padded[port.name] = array
        return padded

    def _cut(self, results: dict[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
        for port in self.outputs if self._buckets else ():
            if port.name in results and port.shape is not None:
                places = tuple(slice(0, sizes[d]) if d in self._buckets and d in sizes else slice(None) for d in port.shape)
                results[port.name] = np.ascontiguousarray(results[port.name][places])
        return results

    def _graph(self, given: Mapping[str, Array]) -> OnnxGraph:
        with self._lock:
            while True:
                fixed = {name: given[name] for name in sorted(self._fixed) if name in given}
                key: _Key = (
                    *((name, array.shape) for name, array in sorted(given.items())),
                    *((name, array.tobytes()) for name, array in fixed.items()),
                )
                if key in self._graphs:
                    self._graphs.move_to_end(key)
                    return self._graphs[key]
                try:
                    graph = self._compile(given, fixed)
                except UnsupportedModelError as error:
                    wanted = {name for problem in error.problems for name in problem.inputs} - set(self._values) - self._fixed
                    if not wanted or any(name not in given or given[name].size > MAX_FIXED_ELEMENTS for name in wanted):
                        raise
                    self._fixed |= wanted
                    continue
                self._graphs[key] = graph
                while len(self._graphs) > self.cache_size:
                    self._graphs.popitem(last=False)[1].destroy()
                return graph

    def _shared(self, array: Any) -> Any:
        """The same numbers as another graph has on the device, if there are such: weights that each graph transforms alike."""
        if array.nbytes < SHARED_BYTES:
            return array
        host = np.ascontiguousarray(np.asarray(array)).view(np.uint8).reshape(-1)
        key = (array.dtype.name, array.shape, hashlib.blake2b(host.data, digest_size=16).digest())
        return self._arrays.setdefault(key, array)

    def _compile(self, given: Mapping[str, Array], fixed: Mapping[str, Array]) -> OnnxGraph:
        free = self.model.free_dimensions()
        dims: dict[str, Any] = dict(self._dims)
        for port in self.inputs:
            if port.name not in given:
                continue
            if port.shape is None:
                dims[port.name] = list(given[port.name].shape)
                continue
            for dimension, size in zip(port.shape, given[port.name].shape, strict=True):
                if isinstance(dimension, str):
                    dims[dimension] = size
        for name, value in self._values.items():
            port = next(port for port in self.inputs if port.name == name)
            for dimension, size in zip(port.shape or (), np.shape(value), strict=False):
                if isinstance(dimension, str):
                    dims.setdefault(dimension, size)
        dims = {name: size for name, size in dims.items() if name in free or any(p.name == name for p in self.inputs)}
        graph, readers = compile_model(
            self.model, self.context, dims, {**self._values, **fixed}, self._progress, self._options, specialize=True
        )
        # The device's arrays of an earlier graph are taken as they are: nothing is read or copied again.
        names = graph._names
        graph._bind({names[name]: self._weights[name] for name in readers if name in self._weights})
        new = {name: reader for name, reader in readers.items() if name not in self._weights}
        graph.load_weights(_Reading(new, self._progress))
        constants = graph.graph.constants
        self._weights.update({name: constants[names[name]].data for name in new})
        graph._arguments = [self._shared(array) for array in graph._arguments]
        return graph
