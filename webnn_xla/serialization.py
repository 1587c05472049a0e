"""Saving and loading graphs: a folder with the topology as JSON and the weights as safetensors.

``docs/format.md`` describes the files. Names of ops and arguments, and the kinds of attributes, come from the op table.
Loading rebuilds the graph through the builder, so that whatever a file says passes the checks that a program's calls
pass; nothing in a file is run, and no memory is taken that the size of the file does not account for.
"""

from __future__ import annotations

import base64
import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from webnn_xla import buffers
from webnn_xla.builder import MLGraphBuilder, MLOperand
from webnn_xla.compile import INLINE_BYTES
from webnn_xla.dtypes import MAX_RANK, Descriptor
from webnn_xla.errors import ArgumentError, DataError, WebNNError, printable
from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering import OPS
from webnn_xla.mlgraph import MLGraph
from webnn_xla.naming import to_camel, to_snake
from webnn_xla.weights import Array, Damaged, open_weights, parse_json, reason, regular_file, write_weights

if TYPE_CHECKING:
    from webnn_xla.context import MLContext

__all__ = ["FORMAT", "TOPOLOGY", "VERSION", "WEIGHTS", "load", "open_weights", "read_graph", "save"]

FORMAT: Final = "webnn-graph"
VERSION: Final = 1
TOPOLOGY: Final = "graph.json"
WEIGHTS: Final = "weights.safetensors"
MAX_TOPOLOGY_BYTES: Final = 2**28
"""Graphs of a hundred thousand ops take a tenth of this."""

_NON_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


# Saving


def save(graph: Graph | MLGraph, path: str | os.PathLike[str]) -> None:
    """Writes ``graph`` to the folder ``path``: ``graph.json`` and, if it has weights, ``weights.safetensors``.

    An earlier graph at ``path`` is replaced at once, or stays if anything fails. The same graph gives the same bytes.
    Errors: ArgumentError if ``path`` is something else than a new name, an empty folder or a saved graph;
    InvalidStateError for a destroyed graph; DataError if the files cannot be written.
    """
    if isinstance(graph, MLGraph):
        graph._check_alive("save", weights_needed=False)
        graph = graph.graph
    if not isinstance(graph, Graph):
        raise ArgumentError(f"got {type(graph).__name__}; allowed: an MLGraph or a Graph", operator="save", operand="graph")
    internal = next((node.op.name for node in graph.nodes if node.op.internal), None)
    if internal:
        raise ArgumentError(
            f"got a rewritten graph, with {internal}; allowed: one of the builder's ops", operator="save", operand="graph"
        )
    topology, tensors = _encode(graph.reachable())
    target = Path(path)
    try:
        target = target.resolve()
        _check_target(target)
        _replace(target, topology, tensors)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be written: {reason(error)}", operator="save", operand=_shown(target)) from None


def _check_target(target: Path) -> None:
    if not target.exists():
        return
    others = sorted({item.name for item in target.iterdir()} - {TOPOLOGY, WEIGHTS}) if target.is_dir() else [target.name]
    if others:
        raise ArgumentError(
            f"got {_shown(target)}, where {printable(others[0])} is; allowed: a new name, an empty folder, or a saved graph",
            operator="save",
            operand="path",
        )


def _replace(target: Path, topology: bytes, tensors: Mapping[str, tuple[Array, Descriptor]]) -> None:
    """Writes a new folder beside the target, and swaps them. What is at the target is complete at any time."""
    token = secrets.token_hex(4)
    fresh, aside = target.with_name(f".{target.name}.{token}.new"), target.with_name(f".{target.name}.{token}.old")
    fresh.mkdir()
    try:
        (fresh / TOPOLOGY).write_bytes(topology)
        if tensors:
            write_weights(fresh / WEIGHTS, tensors)
            # The library makes files that only their owner may read.
            shutil.copymode(fresh / TOPOLOGY, fresh / WEIGHTS)
        if not target.exists():
            fresh.rename(target)
            return
        target.rename(aside)
        try:
            fresh.rename(target)
        except OSError:
            aside.rename(target)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _encode(graph: Graph) -> tuple[bytes, dict[str, tuple[Array, Descriptor]]]:
    """The topology's bytes, and the tensors of the weights file."""
    numbers = {value: number for number, value in enumerate(_values(graph))}
    tensors: dict[str, tuple[Array, Descriptor]] = {}
    names = {constant.name for constant in graph.constants.values()}

    def described(value: Value) -> dict[str, Any]:
        return {"id": numbers[value], "dataType": str(value.descriptor.data_type), "shape": list(value.descriptor.shape)}

    constants = []
    for value, constant in graph.constants.items():
        item = described(value) | ({"name": constant.name} if constant.name else {})
        if constant.data is not None:
            data = np.asarray(constant.data)
            if not constant.name and value.descriptor.byte_length <= INLINE_BYTES:
                item["data"] = base64.b64encode(buffers.pack(data, value.descriptor).tobytes()).decode("ascii")
            else:
                key = constant.name or f"constant.{numbers[value]}"
                while not constant.name and key in names:
                    key += "_"
                item["weight"] = key
                tensors[key] = data, value.descriptor
        constants.append(item)
    members = {
        "inputs": [described(value) | {"name": name} for name, value in graph.inputs.items()],
        "constants": constants,
        "operations": [_encode_node(node, numbers) | {"outputs": list(map(described, node.outputs))} for node in graph.nodes],
        "outputs": [{"name": name, "id": numbers[value]} for name, value in graph.outputs.items()],
    }
    # One item a line: short, and readable where versions are compared.
    lines = [f'"format": {_json(FORMAT)}', f'"version": {VERSION}']
    for name, items in members.items():
        lines.append(f'"{name}": [\n' + ",\n".join(map(_json, items)) + "\n]")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii"), tensors


def _encode_node(node: Node, numbers: Mapping[Value, int]) -> dict[str, Any]:
    operands = {
        to_camel(name): [numbers[value] for value in operand] if isinstance(operand, tuple) else numbers[operand]
        for name, operand in node.operands.items()
    }
    attributes = {to_camel(name): _encode_attribute(value) for name, value in node.attributes.items() if value is not None}
    label = {"label": node.label} if node.label else {}
    return {"op": to_camel(node.op.name)} | label | {"operands": operands, "attributes": attributes}


def _encode_attribute(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_encode_attribute(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _values(graph: Graph) -> Iterator[Value]:
    """All values in the order of their numbers in a file."""
    yield from graph.inputs.values()
    yield from graph.constants
    for node in graph.nodes:
        yield from node.outputs


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


# Loading


def load(path: str | os.PathLike[str], context: MLContext, *, weights: bool = True, **options: Any) -> MLGraph:
    """Reads a graph that ``save`` wrote, and builds it on ``context``.

    Arguments:
        path: the folder, or the JSON file in it.
        weights: False leaves the weights out, as if their file were not there: constants that it holds become named
            ones, for ``graph.load_weights``; those without a name get that of their tensor in the file.
        options: those of ``MLGraphBuilder.build``.

    Errors: DataError, with the path and what is wrong, for a missing, damaged or unknown file; those of ``build``.
    """
    return MLGraph._build(context, read_graph(path, context, weights=weights), **options)


def read_graph(path: str | os.PathLike[str], context: MLContext, *, weights: bool = True, operator: str = "load") -> Graph:
    """The graph in a folder, as ``load`` reads it, without compiling it."""
    builder = MLGraphBuilder(context)
    folder = Path(path)
    try:
        topology, folder = (folder / TOPOLOGY, folder) if folder.is_dir() else (folder, folder.parent)
        there = weights and (folder / WEIGHTS).exists()
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read: {reason(error)}", operator=operator, operand=_shown(folder)) from None
    tensors = open_weights(folder / WEIGHTS, operator=operator) if there else None
    try:
        return _decode(_read(topology), builder, tensors)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read: {reason(error)}", operator=operator, operand=_shown(topology)) from None
    except Damaged as error:
        raise DataError(str(error), operator=operator, operand=_shown(topology)) from None
    except RecursionError:
        raise DataError("is nested too deeply", operator=operator, operand=_shown(topology)) from None


def _read(path: Path) -> Any:
    with regular_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_TOPOLOGY_BYTES:
            raise Damaged("", f"got {size} bytes; allowed: at most {MAX_TOPOLOGY_BYTES}")
        return parse_json(file.read(size), "")


def _decode(document: Any, builder: MLGraphBuilder, tensors: Mapping[str, Array] | None) -> Graph:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Damaged("format", f"allowed: {FORMAT!r}")
    if type(document.get("version")) is not int or document["version"] != VERSION:
        raise Damaged("version", f"got {_short(document.get('version'))}; allowed: {VERSION}")
    _members(document, "", ("format", "version", "inputs", "constants", "operations", "outputs"))
    values: list[MLOperand] = []
    weights_read: set[str] = set()

    def add(where: str, item: Mapping[str, Any], operand: MLOperand) -> None:
        if type(item["id"]) is not int or item["id"] != len(values):
            raise Damaged(f"{where}.id", f"got {_short(item['id'])}; allowed: {len(values)}, the next number")
        values.append(operand)

    for where, item in _items(document, "inputs"):
        _members(item, where, ("id", "name", "dataType", "shape"))
        add(where, item, _checked(where, builder.input, item["name"], _descriptor(where, item)))
    for where, item in _items(document, "constants"):
        add(where, item, _decode_constant(where, item, builder, tensors, weights_read))
    for where, item in _items(document, "operations"):
        _members(item, where, ("op", "operands", "outputs"), ("label", "attributes"))
        made = _decode_operation(where, item, builder, values)
        outputs = list(_items(item, "outputs", f"{where}."))
        if len(outputs) != len(made):
            raise Damaged(f"{where}.outputs", f"got {len(outputs)}; allowed: {len(made)}, as the op has")
        for (place, output), operand in zip(outputs, made, strict=True):
            _members(output, place, ("id", "dataType", "shape"))
            if (described := _descriptor(place, output)) != operand._value.descriptor:
                raise Damaged(place, f"got {described}; allowed: {operand._value.descriptor}, as the op gives")
            add(place, output, operand)
    results: dict[str, MLOperand] = {}
    for where, item in _items(document, "outputs"):
        _members(item, where, ("name", "id"))
        name = item["name"]
        if not isinstance(name, str) or name in results:
            raise Damaged(f"{where}.name", f"got {_short(name)}; allowed: a string that no other output has")
        results[name] = _value(f"{where}.id", item["id"], values)
    if tensors is not None and (unused := tensors.keys() - weights_read):
        raise Damaged("constants", f"do not have {printable(min(unused))!r}, which {WEIGHTS} has")
    graph: Graph = _checked("outputs", builder._graph, results)
    return graph


def _decode_constant(
    where: str, item: Any, builder: MLGraphBuilder, tensors: Mapping[str, Array] | None, read: set[str]
) -> MLOperand:
    _members(item, where, ("id", "dataType", "shape"), ("name", "weight", "data"))
    name, weight, text = (item.get(member) for member in ("name", "weight", "data"))
    if name == "" or (weight is not None and text is not None):
        raise Damaged(where, "allowed: data or weight, and no empty name")
    descriptor = _descriptor(where, item)
    data = None
    if text is not None:
        data = _unpack(f"{where}.data", text, descriptor)
    elif weight is not None:
        if not isinstance(weight, str):
            raise Damaged(f"{where}.weight", f"got {_short(weight)}; allowed: a string")
        if tensors is None:
            name = weight if name is None else name
        else:
            data = _weight(f"{where}.weight", weight, descriptor, tensors)
            read.add(weight)
    made: MLOperand = _checked(where, builder.constant, descriptor, data, name="" if name is None else name)
    return made


def _unpack(where: str, text: Any, descriptor: Descriptor) -> Array:
    # Rank before size: a product of very many dimensions takes long.
    if not isinstance(text, str) or descriptor.rank > MAX_RANK or len(text) != (descriptor.byte_length + 2) // 3 * 4:
        raise Damaged(where, f"allowed: base64 of as many bytes as {printable(str(descriptor))} has")
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Damaged(where, f"is not base64: {error}") from None
    if len(raw) != descriptor.byte_length:
        raise Damaged(where, f"got {len(raw)} bytes; allowed: {descriptor.byte_length} for {descriptor}")
    return buffers.unpack(np.frombuffer(raw, np.uint8), descriptor)


def _weight(where: str, name: str, descriptor: Descriptor, tensors: Mapping[str, Array]) -> Array:
    if name not in tensors:
        raise Damaged(where, f"{WEIGHTS} has no tensor {printable(name)!r}")
    data = tensors[name]
    if data.dtype != descriptor.data_type.numpy or data.shape != tuple(descriptor.shape):
        raise Damaged(where, f"{printable(name)!r} is {data.dtype}{list(data.shape)} in {WEIGHTS}; allowed: {descriptor}")
    return data


def _decode_operation(where: str, item: Mapping[str, Any], builder: MLGraphBuilder, values: list[MLOperand]) -> list[MLOperand]:
    op = OPS.get(to_snake(item["op"])) if isinstance(item["op"], str) else None
    if op is None or to_camel(op.name) != item["op"]:
        raise Damaged(f"{where}.op", f"got {_short(item['op'])}; allowed: an op of version {VERSION}")
    label = item.get("label", "")
    shown = f"{where} ({op.name}{f' [{printable(label)}]' if isinstance(label, str) and label else ''})"
    names = {to_camel(name): name for name in op.arguments}
    arguments: dict[str, Any] = {}
    for member, are_operands in (("operands", True), ("attributes", False)):
        given = item.get(member, {})
        allowed = {camel for camel, name in names.items() if (name in op.operands()) == are_operands}
        _members(given, f"{shown}.{member}", (), tuple(sorted(allowed)))
        for camel, value in given.items():
            place = f"{shown}.{member}.{camel}"
            if not are_operands:
                arguments[names[camel]] = _decode_attribute(value)
            elif isinstance(value, list):
                arguments[names[camel]] = [_value(f"{place}[{i}]", number, values) for i, number in enumerate(value)]
            else:
                arguments[names[camel]] = _value(place, value, values)
    made = _checked(shown, getattr(builder, op.name), **arguments, label=label)
    return made if isinstance(made, list) else [made]


def _decode_attribute(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode_attribute(item) for item in value]
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value


# Pieces


def _items(document: Mapping[str, Any], member: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    items = document[member]
    if not isinstance(items, list):
        raise Damaged(prefix + member, f"got {_short(items)}; allowed: a list")
    for index, item in enumerate(items):
        yield f"{prefix}{member}[{index}]", item


def _members(item: Any, where: str, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    if not isinstance(item, dict):
        raise Damaged(where, f"got {_short(item)}; allowed: an object")
    for name in item:
        if name not in required and name not in optional:
            raise Damaged(where, f"got an unknown member {_short(name)}; allowed: {', '.join(required + optional) or 'none'}")
    for name in required:
        if name not in item:
            raise Damaged(where, f"has no member {name!r}")


def _descriptor(where: str, item: Mapping[str, Any]) -> Descriptor:
    if not isinstance(item["dataType"], str) or not isinstance(item["shape"], list):
        raise Damaged(where, "allowed: dataType, a string, and shape, a list")
    made: Descriptor = _checked(where, Descriptor, item["dataType"], item["shape"])
    return made


def _value(where: str, number: Any, values: list[MLOperand]) -> MLOperand:
    if type(number) is not int or not 0 <= number < len(values):
        raise Damaged(where, f"got {_short(number)}; allowed: the id of an earlier value, 0 to {len(values) - 1}")
    return values[number]


def _checked(where: str, call: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of the API on what a file says; what it rejects is the file's fault."""
    try:
        return call(*args, **kwargs)
    except WebNNError as error:
        raise Damaged(where, str(error)) from None


def _short(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return printable(repr(value) if not isinstance(value, str) else f"'{value[:100]}'", 110)


def _shown(path: Path) -> str:
    return printable(str(path), 1000)
