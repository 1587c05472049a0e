"""An ONNX model as read: its graph, operator sets and local functions; inputs and outputs with symbolic dimensions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from webnn_xla.errors import ArgumentError, DataError, NotSupportedError, printable
from webnn_xla.importers.onnx.types import DType, from_enum

OLDEST_OPSET: Final = 7
"""Of older opsets, only operators that have not changed since are imported; onnx.version_converter brings others up."""

Source = str | os.PathLike[str] | bytes | onnx.ModelProto


@dataclass(frozen=True)
class Port:
    """An input or output: dimensions are numbers, or the name of a free one. ``shape`` is None where the rank is free."""

    name: str
    dtype: DType | None
    shape: tuple[int | str, ...] | None
    problem: str = ""
    """Why it cannot be an input or output of a graph (sequences, strings, …)."""

    def __str__(self) -> str:
        dimensions = "?" if self.shape is None else ", ".join(map(str, self.shape))
        return f"{printable(self.name)}: {self.dtype.name if self.dtype else self.problem}[{dimensions}]"


@dataclass(frozen=True, eq=False)
class Model:
    """A parsed model. ``folder`` is where external data may lie."""

    proto: onnx.ModelProto
    folder: Path | None
    name: str
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], onnx.FunctionProto]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def free_dimensions(self) -> list[str]:
        """Names by which ``dims=`` sets the free dimensions of inputs, in order."""
        names: dict[str, None] = {}
        for port in self.inputs:
            if port.shape is None:
                names[port.name] = None
                continue
            names.update(dict.fromkeys(d for d in port.shape if isinstance(d, str)))
        return list(names)

    def shapes(self, dims: Mapping[str, Any] | None) -> dict[str, tuple[int, ...]]:
        """Concrete shapes of all inputs. ``dims`` has sizes by dimension name, or whole shapes by input name.

        Errors: ArgumentError, listing the names, for a missing, misspelt or contradicting entry.
        """
        given = dict(dims or {})
        names = self.free_dimensions()
        ports = {port.name: port for port in self.inputs}
        listing = ", ".join(map(printable, names)) or "none: every dimension is fixed"
        unknown = [name for name in given if name not in names and name not in ports]
        if unknown:
            raise _dims_error(f"got {', '.join(map(repr, unknown))}; allowed: {listing}")
        shapes: dict[str, tuple[int, ...]] = {}
        missing: dict[str, None] = {}
        for port in self.inputs:
            whole = given.get(port.name) if port.name not in names or port.shape is None else None
            if whole is not None:
                shapes[port.name] = _whole_shape(port, whole)
                continue
            if port.shape is None:
                missing[port.name] = None
                continue
            sizes = [d if isinstance(d, int) else given.get(d) for d in port.shape]
            missing.update(dict.fromkeys(str(d) for d, size in zip(port.shape, sizes, strict=True) if size is None))
            shapes[port.name] = tuple(_size(str(d), s) for d, s in zip(port.shape, sizes, strict=True) if s is not None)
        if missing:
            raise _dims_error(
                f"got no size for {', '.join(map(printable, missing))}; the model's free dimensions are: {listing}"
            )
        return shapes


def _dims_error(message: str) -> ArgumentError:
    return ArgumentError(message, operator="from_onnx", operand="dims")


def _size(name: str, size: Any) -> int:
    if isinstance(size, bool) or not hasattr(size, "__index__") or not 0 <= int(size) < 2**31:
        raise _dims_error(f"got {size!r} for {printable(name)!r}; allowed: an integer from 0 to {2**31 - 1}")
    return int(size)


def _whole_shape(port: Port, whole: Any) -> tuple[int, ...]:
    if not isinstance(whole, Sequence) or isinstance(whole, (str, bytes)):
        raise _dims_error(f"got {whole!r} for the input {printable(port.name)!r}; allowed: its shape, a list of integers")
    shape = tuple(_size(port.name, size) for size in whole)
    if port.shape is not None and (
        len(shape) != len(port.shape) or any(isinstance(d, int) and d != s for d, s in zip(port.shape, shape, strict=True))
    ):
        raise _dims_error(f"got {list(shape)} for the input {port}; allowed: shapes that fit it")
    return shape


def read_model(source: Source) -> Model:
    """Parses a model. Initializers stay where they are.

    Errors: DataError for a file that is no ONNX model; NotSupportedError for operator sets that are too old or too new.
    """
    folder: Path | None = None
    name = "model"
    if isinstance(source, onnx.ModelProto):
        proto = source
    else:
        if isinstance(source, bytes):
            raw = source
        elif isinstance(source, (str, os.PathLike)):
            path = Path(source)
            name, folder = path.name, path.parent
            try:
                raw = path.read_bytes()
            except OSError as error:
                raise DataError(
                    f"cannot read {printable(str(path))!r}: {error.strerror or error}", operator="from_onnx"
                ) from None
        else:
            raise ArgumentError(
                f"got {type(source).__name__}; allowed: a path, bytes or an onnx.ModelProto",
                operator="from_onnx",
                operand="model",
            )
        proto = onnx.ModelProto()
        try:
            proto.ParseFromString(raw)
        except (DecodeError, RecursionError, MemoryError) as error:
            raise DataError(
                f"{printable(name)!r} is not an ONNX model, or is cut short: {error}", operator="from_onnx"
            ) from None
    if not proto.HasField("graph") or not proto.opset_import:
        raise DataError(f"{printable(name)!r} is not an ONNX model: it has no graph or no operator set", operator="from_onnx")
    if not all(isinstance(text, str) for text in _texts(proto)):
        raise DataError(f"{printable(name)!r} has names that are not text in UTF-8", operator="from_onnx")
    opsets = {_domain(entry.domain): int(entry.version) for entry in proto.opset_import}
    newest = onnx.defs.onnx_opset_version()
    if "" in opsets and not 1 <= opsets[""] <= newest:
        raise NotSupportedError(
            f"the model uses opset {opsets['']}; the onnx package here knows {newest}",
            operator="from_onnx",
        )
    functions = {(_domain(f.domain), f.name): f for f in proto.functions}
    initialized = {tensor.name for tensor in proto.graph.initializer} | {
        sparse.values.name for sparse in proto.graph.sparse_initializer
    }
    inputs = tuple(_port(info) for info in proto.graph.input if info.name not in initialized)
    outputs = tuple(_port(info) for info in proto.graph.output)
    if len({port.name for port in inputs}) != len(inputs):
        raise DataError("two graph inputs have the same name", operator="from_onnx")
    if not outputs:
        raise DataError("the graph has no outputs", operator="from_onnx")
    return Model(proto, folder, name, opsets, functions, inputs, outputs)


def _texts(proto: onnx.ModelProto) -> Iterator[Any]:
    """Every name in the model. protobuf gives bytes in place of a string for what is not UTF-8."""
    yield from (entry.domain for entry in proto.opset_import)
    stack: list[Any] = [proto.graph, *proto.functions]
    while stack:
        graph = stack.pop()
        yield graph.name
        if isinstance(graph, onnx.FunctionProto):
            yield from (graph.domain, *graph.input, *graph.output, *graph.attribute)
            yield from (entry.domain for entry in graph.opset_import)
        else:
            for info in (*graph.input, *graph.output):
                yield info.name
                yield from (d.dim_param for d in info.type.tensor_type.shape.dim)
            yield from (tensor.name for tensor in graph.initializer)
            yield from (entry.value for tensor in graph.initializer for entry in tensor.external_data)
            yield from (sparse.values.name for sparse in graph.sparse_initializer)
        for node in graph.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            for attribute in node.attribute:
                yield from (attribute.name, attribute.ref_attr_name)
                stack.extend([attribute.g] if attribute.HasField("g") else [])
                stack.extend(attribute.graphs)


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _port(info: onnx.ValueInfoProto) -> Port:
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        return Port(info.name, None, None, f"{(kind or 'unknown').removesuffix('_type')} type")
    tensor = info.type.tensor_type
    try:
        dtype: DType | None = from_enum(tensor.elem_type, f"{printable(info.name)!r}")
        problem = ""
    except (NotSupportedError, DataError) as error:
        dtype, problem = None, str(error)
    if not tensor.HasField("shape"):
        return Port(info.name, dtype, None, problem)
    shape: list[int | str] = []
    for axis, dimension in enumerate(tensor.shape.dim):
        fixed = dimension.dim_value if dimension.HasField("dim_value") else 0
        if fixed > 0:
            shape.append(int(fixed))
        else:
            # Exporters write "?", -1 or nothing for dimensions of no name: each gets its own.
            named = dimension.dim_param if dimension.dim_param.strip("?") else ""
            shape.append(named or f"{info.name}[{axis}]")
    return Port(info.name, dtype, tuple(shape), problem)
