"""Saving and loading: bit-equal round trips of everything, and damaged or hostile files."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import webnn_xla as webnn
from webnn_xla import serialization, weights
from webnn_xla.conformance.reference import REFERENCES, Case
from webnn_xla.conformance.table import build_cases, principal_types, typed
from webnn_xla.graph import Graph, Node
from webnn_xla.lowering import OPS
from webnn_xla.lowering.op import INTERNAL_OPS
from webnn_xla.serialization import TOPOLOGY, WEIGHTS, open_weights, read_graph

TYPES = list(webnn.MLOperandDataType)
FUZZ = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

BITS: dict[str, list[int]] = {
    # Quiet and signalling NaN with payloads, -0.0, infinities, the smallest denormal, the largest number.
    "float32": [0x7FC12345, 0x7F812345, 0xFFC00001, 0x80000000, 0x7F800000, 0xFF800000, 1, 0x7F7FFFFF],
    "float16": [0x7E12, 0x7D01, 0xFE01, 0x8000, 0x7C00, 0xFC00, 1, 0x7BFF],
    "bfloat16": [0x7FC1, 0x7F81, 0xFFC1, 0x8000, 0x7F80, 0xFF80, 1, 0x7F7F],
    "int4": [0x08, 0x07, 0x0F, 0x00, 0x01],
    "uint4": [0x0F, 0x00, 0x01, 0x08, 0x07],
}


def extremes(data_type: webnn.MLOperandDataType) -> np.ndarray[Any, Any]:
    """The values that are lost first: every bit pattern that matters."""
    if data_type in BITS and data_type.bits > 4:
        return np.array(BITS[data_type], f"uint{data_type.bits}").view(data_type.numpy)
    if data_type.bits == 4:
        low, high = data_type.integer_range
        return np.arange(low, high + 1).astype(np.int8).astype(data_type.numpy)
    low, high = data_type.integer_range
    return np.array([low, high, low + 1, high - 1, 0], data_type.numpy)


def raw(array: Any) -> bytes:
    return np.ascontiguousarray(array).view(np.uint8).tobytes()


def number_of(graph: Graph) -> dict[Any, int]:
    return {value: number for number, value in enumerate(serialization._values(graph))}


def assert_same(first: Graph, second: Graph) -> None:
    """Equal in all that a graph has; constants bit by bit."""
    a, b = number_of(first), number_of(second)
    assert [value.descriptor for value in a] == [value.descriptor for value in b]
    assert {name: a[value] for name, value in first.inputs.items()} == {name: b[value] for name, value in second.inputs.items()}
    assert list(first.inputs) == list(second.inputs)
    assert [(name, a[value]) for name, value in first.outputs.items()] == [
        (name, b[value]) for name, value in second.outputs.items()
    ]
    for one, other in zip(first.constants.values(), second.constants.values(), strict=True):
        assert one.name == other.name
        assert raw(one.data) == raw(other.data)
        assert np.shape(one.data) == np.shape(other.data)
        assert one.data.dtype == other.data.dtype
    for one, other in zip(first.nodes, second.nodes, strict=True):
        assert one.op is other.op
        assert one.label == other.label
        # repr tells NaN from numbers, 1 from 1.0, and -0.0 from 0.0.
        assert repr(one.attributes) == repr(other.attributes)
        assert {name: _numbers(operand, a) for name, operand in one.operands.items()} == {
            name: _numbers(operand, b) for name, operand in other.operands.items()
        }
        assert [a[value] for value in one.outputs] == [b[value] for value in other.outputs]


def _numbers(operand: Any, numbers: dict[Any, int]) -> Any:
    return [numbers[value] for value in operand] if isinstance(operand, tuple) else numbers[operand]


def round_trip(graph: Graph, folder: Path, context: webnn.MLContext) -> None:
    webnn.save(graph, folder / "a")
    loaded = read_graph(folder / "a", context)
    assert_same(graph, loaded)
    webnn.save(loaded, folder / "b")
    assert sorted(os.listdir(folder / "a")) == sorted(os.listdir(folder / "b"))
    for name in os.listdir(folder / "a"):
        assert (folder / "a" / name).read_bytes() == (folder / "b" / name).read_bytes()


@cache
def cases(op: str, data_type: webnn.MLOperandDataType) -> list[Case]:
    rng = np.random.default_rng(zlib.crc32(f"{op} {data_type}".encode()))
    return list(REFERENCES[op].cases(data_type, rng))


# Round trips


@pytest.mark.parametrize("op", list(OPS))
def test_every_op_with_all_its_options(op: str, context: webnn.MLContext, tmp_path: Path) -> None:
    for data_type in principal_types(OPS[op], extensions=True):
        built = build_cases(context, OPS[op], data_type, cases(op, data_type))
        (tmp_path / data_type).mkdir()
        round_trip(built.builder._graph(built.outputs), tmp_path / data_type, context)


NAMES = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["__metadata__", "constant.1", "\ud800", "a/../b", "\u202e", "\0", "🙂"]
)


@st.composite
def graphs(draw: st.DrawFn, context: webnn.MLContext) -> Graph:
    """A few calls from the whole op table, operands as inputs or as constants of all sorts, any labels and names."""
    builder = webnn.MLGraphBuilder(context)
    names = iter(draw(st.lists(NAMES, min_size=40, max_size=40, unique=True)))
    outputs: dict[str, Any] = {}
    for _ in range(draw(st.integers(1, 3))):
        op = OPS[draw(st.sampled_from(sorted(OPS)))]
        data_type = draw(st.sampled_from(principal_types(op, extensions=True)))
        case = draw(st.sampled_from(cases(op.name, data_type)))
        operands: dict[str, Any] = {}
        for operand, value in typed(case, data_type).items():
            made = [_operand(draw, builder, names, array) for array in (value if isinstance(value, list) else [value])]
            operands[operand] = made if isinstance(value, list) else made[0]
        results = getattr(builder, op.name)(**operands, **case.attributes, label=draw(NAMES | st.just("")))
        for result in results if isinstance(results, list) else [results]:
            outputs[next(names, f"output {len(outputs)}")] = result
    return builder._graph(outputs)


def _operand(draw: st.DrawFn, builder: webnn.MLGraphBuilder, names: Any, array: np.ndarray[Any, Any]) -> webnn.MLOperand:
    kind = draw(st.sampled_from(["input", "constant", "named"]))
    name = next(names, None) if kind != "constant" else None
    array = np.asarray(array)
    if name is None:
        return builder.constant(array)
    return (
        builder.input(name, {"data_type": array.dtype, "shape": array.shape})
        if kind == "input"
        else builder.constant(array, name=name)
    )


@FUZZ
@given(data=st.data())
def test_random_graphs(data: st.DataObject, context: webnn.MLContext, tmp_path_factory: pytest.TempPathFactory) -> None:
    round_trip(data.draw(graphs(context)), tmp_path_factory.mktemp("graph"), context)


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("name", ["", "weight"])
@pytest.mark.parametrize("copies", [1, 2000], ids=["small", "large"])
def test_constants_are_bit_equal(
    data_type: webnn.MLOperandDataType, name: str, copies: int, context: webnn.MLContext, tmp_path: Path
) -> None:
    array = np.tile(extremes(data_type), copies)
    scalar = np.asarray(array[3])
    builder = webnn.MLGraphBuilder(context)
    outputs = {
        "array": builder.identity(builder.constant(array, name=name)),
        "scalar": builder.identity(builder.constant(scalar, name=name and "scalar")),
    }
    graph = builder.build(outputs)
    webnn.save(graph, tmp_path / "g")
    assert (tmp_path / "g" / WEIGHTS).exists() == bool(name or copies > 1)
    loaded = webnn.load(tmp_path / "g", context)
    results = loaded.compute({})
    assert raw(results["array"]) == raw(array)
    assert raw(results["scalar"]) == raw(scalar)
    assert results["scalar"].shape == ()
    # And without their file: they come later, under their names or those of the file's tensors.
    late = webnn.load(tmp_path / "g", context, weights=False)
    if (tmp_path / "g" / WEIGHTS).exists():
        with pytest.raises(webnn.InvalidStateError, match="not loaded"):
            late.compute({})
        late.load_weights(tmp_path / "g" / WEIGHTS)
    assert raw(late.compute({})["array"]) == raw(array)


def test_numbers_in_options_are_exact(builder: webnn.MLGraphBuilder, context: webnn.MLContext, tmp_path: Path) -> None:
    x = builder.input("x", [2], "uint64")
    f = builder.input("f", [2], "float32")
    numbers = [2**64 - 1, 2**53 + 1, -(2**80), -0.0, 0.1, 5e-324, float("inf"), float("-inf"), float("nan")]
    outputs = {f"{i}": builder.pad(f if isinstance(n, float) else x, [1], [1], value=n) for i, n in enumerate(numbers)}
    graph = builder._graph(outputs)
    webnn.save(graph, tmp_path / "g")
    document = json.loads((tmp_path / "g" / TOPOLOGY).read_text())
    stored = [item["attributes"]["value"] for item in document["operations"]]
    assert list(map(repr, stored[:6])) == list(map(repr, numbers[:6]))
    assert stored[6:] == ["Infinity", "-Infinity", "NaN"]
    assert_same(graph, read_graph(tmp_path / "g", context))


def test_topology_alone_compiles(context: webnn.MLContext, tmp_path: Path) -> None:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [2000], "float32")
    named = builder.constant({"data_type": "float32", "shape": [2000]}, name="bias")
    unnamed = builder.constant(np.full(2000, 3, np.float32))
    graph = builder.build({"y": builder.add(builder.mul(x, unnamed), named)})
    webnn.save(graph, tmp_path / "before")
    graph.load_weights({"bias": np.ones(2000, np.float32)})
    webnn.save(graph, tmp_path / "g")
    ones = {"x": np.ones(2000, np.float32)}
    shutil.copytree(tmp_path / "g", tmp_path / "bare")
    (tmp_path / "bare" / WEIGHTS).unlink()
    for path in (tmp_path / "bare", tmp_path / "bare" / TOPOLOGY):
        bare = webnn.load(path, context)
        with pytest.raises(webnn.InvalidStateError, match=r"2 weights are not loaded: bias, constant\.2"):
            bare.compute(ones)
        bare.load_weights(tmp_path / "g" / WEIGHTS)
        np.testing.assert_array_equal(bare.compute(ones)["y"], np.full(2000, 4, np.float32))
    # What was declared without data is saved so.
    with pytest.raises(webnn.InvalidStateError, match="1 weights are not loaded: bias"):
        webnn.load(tmp_path / "before", context).compute(ones)


# Writing


def small(context: webnn.MLContext, number: float = 1) -> webnn.MLGraph:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [2], "float32")
    weight = builder.constant(np.full(2, number, np.float32), name="w")
    packed = builder.constant(
        {"data_type": "int4", "shape": [3]}, np.array([1, -8, 7], np.int8).astype(ml_dtypes.int4), name="p"
    )
    outputs = {"y": builder.clamp(builder.add(x, weight, label="sum"), min_value=-1), "p": builder.identity(packed)}
    return builder.build({**outputs, "s": builder.mul(x, builder.constant("float32", 2))})


def test_saving_again_replaces(context: webnn.MLContext, tmp_path: Path) -> None:
    webnn.save(small(context), tmp_path / "g")
    first = {item.name: item.read_bytes() for item in (tmp_path / "g").iterdir()}
    webnn.save(small(context), tmp_path / "again")
    assert first == {item.name: item.read_bytes() for item in (tmp_path / "again").iterdir()}
    webnn.save(small(context, 5), tmp_path / "g")
    assert webnn.load(tmp_path / "g", context).compute({"x": np.zeros(2, np.float32)})["y"].tolist() == [5, 5]
    assert sorted(item.name for item in tmp_path.iterdir()) == ["again", "g"]


def test_a_failed_save_leaves_what_was_there(context: webnn.MLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    webnn.save(small(context), tmp_path / "g")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for name in ("write_weights", "shutil.copymode"):
        with monkeypatch.context() as patch:
            patch.setattr(f"webnn_xla.serialization.{name}", fail)
            with pytest.raises(webnn.DataError, match="cannot be written: No space left on device"):
                webnn.save(small(context, 5), tmp_path / "g")
    assert [item.name for item in tmp_path.iterdir()] == ["g"]
    assert webnn.load(tmp_path / "g", context).compute({"x": np.zeros(2, np.float32)})["y"].tolist() == [1, 1]


def test_saving_never_removes_other_files(context: webnn.MLContext, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(webnn.ArgumentError, match=r"notes\.txt.*allowed: a new name, an empty folder, or a saved graph"):
            webnn.save(small(context), path)
    with pytest.raises(webnn.DataError, match="cannot be written"):
        webnn.save(small(context), tmp_path / "no" / "such" / "folder")
    with pytest.raises(webnn.ArgumentError, match="got str; allowed: an MLGraph or a Graph"):
        webnn.save("graph", tmp_path / "g")  # type: ignore[arg-type]
    with pytest.raises(webnn.DataError, match="null"):
        webnn.save(small(context), "a\0b")
    graph = small(context)
    node = graph.graph.nodes[0]
    rewritten = Node(INTERNAL_OPS["depthwise_conv2d"], node.operands, node.attributes, node.outputs)
    with pytest.raises(webnn.ArgumentError, match="got a rewritten graph, with depthwise_conv2d"):
        webnn.save(Graph({}, {}, (rewritten,), {}), tmp_path / "g")
    graph.destroy()
    with pytest.raises(webnn.InvalidStateError):
        webnn.save(graph, tmp_path / "g")
    assert [item.name for item in tmp_path.iterdir()] == ["notes.txt"]


# Weights of others


def test_weights_are_mapped_not_read(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6, dtype=np.uint64).reshape(2, 3),
        "b": np.array(2.5, np.float16),
        "c": np.zeros((0, 2), np.float32),
    }
    save_file(arrays, tmp_path / "w", metadata={"format": "np"})
    opened = open_weights(tmp_path / "w")
    assert set(opened) == {"a", "b", "c"}
    held = {name: opened[name] for name in opened}
    for name, array in arrays.items():
        assert held[name].dtype == array.dtype
        assert held[name].shape == array.shape
        assert raw(held[name]) == raw(array)
        assert not held[name].flags.writeable
        assert not held[name].flags.owndata
    assert "<WeightsFile" in repr(opened)
    with pytest.raises(KeyError):
        opened["d"]


def header(entries: Any, data: bytes = b"", **extra: Any) -> bytes:
    text = json.dumps(entries | extra).encode() if isinstance(entries, dict) else entries
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: Any, start: int, stop: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def test_types_that_webnn_lacks_do_not_matter_until_used(tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_bytes(header({"x": entry("F8_E8M0", [3], 0, 3), "y": entry("F32", [], 3, 7)}, b"123" + np.float32(7).tobytes()))
    opened = open_weights(path)
    assert opened["y"] == 7  # at an address that is no multiple of 4
    with pytest.raises(webnn.DataError, match="'x' has the type F8_E8M0, which WebNN lacks"):
        opened["x"]


def attempt(call: Callable[[], Any]) -> tuple[Any, str]:
    """The result, or None and the message of a DataError. Whatever else is raised fails the test."""
    try:
        return call(), ""
    except webnn.DataError as error:
        return None, str(error)


NOTE = {"__metadata__": {"webnn": json.dumps({"x": {"dataType": "int4", "shape": [3]}})}}

BAD_WEIGHTS = {
    "empty": (b"", "got 0 bytes"),
    "short": (b"1234567", "got 7 bytes"),
    "long header": (b"\xff" * 8 + b"{}", "got 18446744073709551615 bytes of it"),
    "not utf-8": (header(b"\xff\xfe"), "JSON"),
    "not json": (header(b"{"), "JSON"),
    "deep": (header(b"[" * 100_000), "nested too deeply|JSON"),
    "list": (header(b"[]"), "got list; allowed: an object"),
    "twice": (header(b'{"a":1,"a":2}'), "'a' stands twice"),
    "nan": (header(b'{"a":NaN}'), "NaN is no number"),
    "huge integer": (header(b'{"a":' + b"9" * 10_000 + b"}"), "JSON"),
    "metadata": (header({"__metadata__": {"a": 1}}), "an object of strings"),
    "no shape": (header({"x": {"dtype": "F32", "data_offsets": [0, 0]}}), "dtype, shape and data_offsets"),
    "dtype": (header({"x": entry(1, [], 0, 0)}), "dtype"),  # type: ignore[arg-type]
    "negative": (header({"x": entry("F32", [-1], 0, 0)}), "integers from 0"),
    "boolean": (header({"x": entry("U8", [True], 0, 1)}, b"1"), "integers from 0"),
    "past the end": (header({"x": entry("F32", [1], 0, 4)}, b"123"), r"got \[0, 4\]; allowed: two, in order, from 0 to 3"),
    "reversed": (header({"x": entry("F32", [1], 4, 0)}, b"1234"), "in order"),
    "too small": (header({"x": entry("F32", [2], 0, 4)}, b"1234"), r"got 4 bytes for F32 of shape \[2\]"),
    "enormous": (header({"x": entry("F32", [2**62] * 1000, 0, 4)}, b"1234"), "got 4 bytes for F32"),
    "overlap": (header({"x": entry("U8", [2], 0, 2), "y": entry("U8", [2], 1, 3)}, b"123"), "starts at byte"),
    "hole": (header({"x": entry("U8", [2], 1, 3)}, b"123"), "starts at byte"),
    "rest": (header({"x": entry("U8", [2], 0, 2)}, b"123"), "where the last tensor ends"),
    "note": (header(NOTE), "names 'x', which is not in the file"),
    "note's json": (header({"__metadata__": {"webnn": "["}}), "JSON"),
    "note's type": (header(NOTE | {"x": entry("F32", [1], 0, 4)}, b"1234"), "got 4 bytes of F32 for int4"),
    "note's size": (header(NOTE | {"x": entry("U8", [1], 0, 1)}, b"1"), "got 1 bytes of U8 for int4"),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_damaged_weights(case: str, tmp_path: Path) -> None:
    content, words = BAD_WEIGHTS[case]
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(webnn.DataError, match=words) as caught:
        open_weights(path)
    assert str(path) in str(caught.value)


def test_what_is_no_file(tmp_path: Path, context: webnn.MLContext) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in ((tmp_path / "none", "No such file"), (tmp_path, "not a file"), (tmp_path / "pipe", "not a file")):
        with pytest.raises(webnn.DataError, match=words):
            open_weights(path)
    with pytest.raises(webnn.DataError, match="null"):
        open_weights("a\0b")
    for path, words in ((tmp_path / "none", "No such file"), (tmp_path, "No such file"), (tmp_path / "pipe", "not a file")):
        with pytest.raises(webnn.DataError, match=words):
            webnn.load(path, context)


@FUZZ
@given(data=st.data())
def test_mutated_weights(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    content = bytearray(header(NOTE | {"x": entry("U8", [2], 0, 2), "y": entry("F32", [2, 1], 2, 10)}, bytes(10)))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(
            st.integers(0, 255) | st.sampled_from(b'{}[]",:0123456789')
        )
    path = tmp_path_factory.mktemp("weights") / "w"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    arrays, error = attempt(lambda: list(open_weights(path).values()))
    assert all(array.nbytes <= len(content) for array in arrays or [])
    assert arrays is not None or str(path) in error


# Damaged topologies


@pytest.fixture(scope="module")
def saved(context: webnn.MLContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "g"
    webnn.save(small(context), path)
    return path


def altered(saved: Path, path: tuple[Any, ...], value: Any) -> Any:
    """The saved topology with another value at a path; ``DELETE`` removes the member."""
    document = json.loads((saved / TOPOLOGY).read_text())
    *way, last = path
    place = document
    for step in way:
        place = place[step]
    if value is DELETE:
        del place[last]
    else:
        place[last] = value
    return document


DELETE = object()
FIRST = ("operations", 0)
BAD_TOPOLOGIES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("format",), "onnx", "format: allowed: 'webnn-graph'"),
    (("version",), 2, "version: got 2; allowed: 1"),
    (("version",), True, "version"),
    (("version",), DELETE, "version"),
    (("inputs",), DELETE, "has no member 'inputs'"),
    (("extra",), 1, "unknown member 'extra'"),
    (("inputs",), {}, "inputs: got an object; allowed: a list"),
    (("inputs", 0), 1, r"inputs\[0\]: got 1; allowed: an object"),
    (("inputs", 0, "id"), 1, r"inputs\[0\]\.id: got 1; allowed: 0"),
    (("inputs", 0, "name"), "", "a string that is not empty"),
    (("inputs", 0, "name"), 3, "a string that is not empty"),
    (("inputs", 0, "dataType"), "complex64", "got 'complex64'"),
    (("inputs", 0, "dataType"), ["float32"], "dataType, a string"),
    (("inputs", 0, "shape"), [0], "got dimension 0"),
    (("inputs", 0, "shape"), [-1], "got dimension -1"),
    (("inputs", 0, "shape"), [2.0], "allowed: an integer"),
    (("inputs", 0, "shape"), [True], "allowed: an integer"),
    (("inputs", 0, "shape"), [2**40], "got dimension"),
    (("inputs", 0, "shape"), [10**4000] * 9, "rank 9"),
    (("inputs", 0, "shape"), [1] * 100_000, "got rank 100000"),
    (("constants", 0, "shape"), [3], r"'w' is float32\[2\] in weights.safetensors; allowed: float32\[3\]"),
    (("constants", 0, "dataType"), "float16", "'w' is float32"),
    (("constants", 0, "dataType"), "uint8", "'w' is float32"),
    (("constants", 0, "weight"), "q", "has no tensor 'q'"),
    (("constants", 0, "weight"), 1, "weight: got 1; allowed: a string"),
    (("constants", 0, "data"), "AAAA", "data or weight"),
    (("constants", 0, "weight"), DELETE, "do not have 'w', which weights.safetensors has"),
    (("constants", 0, "name"), "p", "a second time"),
    (("constants", 0, "name"), "", "no empty name"),
    (("constants", 2, "data"), "AAAA", "base64 of as many bytes as"),
    (("constants", 2, "data"), "A?AAAA==", "is not base64"),
    (("constants", 2, "data"), "AAAAAAA=", "got 5 bytes; allowed: 4"),
    (("constants", 2, "shape"), [2**31 - 1], "base64 of as many bytes as"),
    (("constants", 2, "shape"), [10**4000] * 8, "base64 of as many bytes as"),
    (("constants", 2, "data"), 1, "base64"),
    (("constants", 2, "data"), DELETE, "no data"),
    ((*FIRST, "op"), "conv3d", "got 'conv3d'; allowed: an op of version 1"),
    ((*FIRST, "op"), "__init__", "allowed: an op"),
    ((*FIRST, "op"), "build", "allowed: an op"),
    ((*FIRST, "op"), "arg_max", "allowed: an op"),
    ((*FIRST, "op"), ["add"], "allowed: an op"),
    ((*FIRST, "label"), 7, "label: got 7; allowed: a string"),
    ((*FIRST, "operands"), {"a": 0}, r"operations\[0\] \(add \[sum\]\): add \[sum\]: got no b"),
    ((*FIRST, "operands", "c"), 0, "unknown member 'c'"),
    ((*FIRST, "operands", "a"), 4, "allowed: the id of an earlier value"),
    ((*FIRST, "operands", "a"), 99, "allowed: the id of an earlier value"),
    ((*FIRST, "operands", "a"), -1, "allowed: the id of an earlier value"),
    ((*FIRST, "operands", "a"), True, "allowed: the id of an earlier value"),
    ((*FIRST, "operands", "a"), "x", "allowed: the id of an earlier value"),
    ((*FIRST, "operands", "a"), [0], "got list"),
    ((*FIRST, "operands", "a"), 2, "add .*sum.*: a: got int4"),
    ((*FIRST, "attributes", "alpha"), 1, "unknown member 'alpha'; allowed: none"),
    ((*FIRST, "outputs", 0, "shape"), [3], r"got float32\[3\]; allowed: float32\[2\], as the op gives"),
    ((*FIRST, "outputs", 0, "id"), 0, "allowed: 4, the next number"),
    ((*FIRST, "outputs"), [], "got 0; allowed: 1, as the op has"),
    (("operations", 1, "attributes", "minValue"), "x", "got 'x'"),
    (("operations", 1, "attributes", "minValue"), True, "got True"),
    (("operations", 1, "attributes", "minValue"), {"a": 1}, "clamp"),
    (("operations", 1, "attributes", "maxValue"), -5, "at most max_value"),
    (("operations", 1, "operands", "input"), DELETE, "got no input"),
    (("outputs",), [], "no outputs"),
    (("outputs", 0, "id"), 0, "identity passes an input"),
    (("outputs", 0, "id"), 50, "earlier value"),
    (("outputs", 0, "name"), "p", "no other output"),
    (("outputs", 0, "name"), "", "not empty"),
]


@pytest.mark.parametrize("case", range(len(BAD_TOPOLOGIES)))
def test_damaged_topology(case: int, saved: Path, context: webnn.MLContext, tmp_path: Path) -> None:
    path, value, words = BAD_TOPOLOGIES[case]
    shutil.copytree(saved, tmp_path / "g")
    (tmp_path / "g" / TOPOLOGY).write_text(json.dumps(altered(saved, path, value)))
    with pytest.raises(webnn.DataError, match=words) as caught:
        webnn.load(tmp_path / "g", context)
    assert str(tmp_path / "g" / TOPOLOGY) in str(caught.value)
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"null",
        b'{"format":"webnn-graph","format":"webnn-graph"}',
        b'{"a":1e999}',
        b'{"a":NaN}',
        b"[" * 10**6,
    ],
)
def test_no_topology(text: bytes, context: webnn.MLContext, tmp_path: Path) -> None:
    (tmp_path / TOPOLOGY).write_bytes(text)
    with pytest.raises(webnn.DataError, match=r"graph\.json"):
        webnn.load(tmp_path, context)


def test_deep_attributes(saved: Path, context: webnn.MLContext, tmp_path: Path) -> None:
    for depth in (100, 300, 900, 5000, 100_000):
        text = json.dumps(altered(saved, ("operations", 1, "attributes", "minValue"), "HERE"))
        (tmp_path / TOPOLOGY).write_text(text.replace('"HERE"', "[" * depth + "]" * depth))
        with pytest.raises(webnn.DataError):
            webnn.load(tmp_path, context)


def test_the_topology_must_fit_the_size_limit(saved: Path, context: webnn.MLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialization, "MAX_TOPOLOGY_BYTES", 10)
    with pytest.raises(webnn.DataError, match="allowed: at most 10"):
        webnn.load(saved, context)


def test_files_cannot_ask_for_memory(saved: Path, context: webnn.MLContext, tmp_path: Path) -> None:
    large = [2**15, 2**15]
    attacks = [
        (altered(saved, ("constants", 2, "shape"), large), b""),
        (altered(saved, ("constants", 0, "shape"), large), header({"w": entry("F32", large, 0, 4)}, b"1234")),
        (altered(saved, ("constants", 0, "shape"), large), (2**40).to_bytes(8, "little")),
    ]
    for document, content in attacks:
        (tmp_path / TOPOLOGY).write_text(json.dumps(document))
        (tmp_path / WEIGHTS).write_bytes(content)
        tracemalloc.start()
        with pytest.raises(webnn.DataError):
            webnn.load(tmp_path, context)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10_000_000


MEMBERS = st.sampled_from(["a", "b", "id", "name", "shape"])
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["float32", "int4", "add", "NaN", "Infinity", 2**64, 2**31, -1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=3),
    max_leaves=5,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in ((*path, key), *_paths(item, (*path, key)))]


@FUZZ
@given(data=st.data())
def test_mutated_topologies(
    data: st.DataObject, saved: Path, context: webnn.MLContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("mutated")
    shutil.copyfile(saved / WEIGHTS, folder / WEIGHTS)
    document = json.loads((saved / TOPOLOGY).read_text())
    path = data.draw(st.sampled_from(_paths(document)))
    value = data.draw(st.just(DELETE) | JSON_VALUES | st.sampled_from([document["operations"][0], document["inputs"][0]]))
    (folder / TOPOLOGY).write_text(json.dumps(altered(saved, path, value)))
    graph, error = attempt(lambda: read_graph(folder, context))
    if graph is None:
        assert str(folder) in error
    else:
        webnn.save(graph, folder / "again")


def test_the_maximum_of_a_header_is_the_librarys() -> None:
    assert weights.MAX_HEADER_BYTES == 100_000_000
