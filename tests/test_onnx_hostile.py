"""Damaged and hostile models: always an error of the documented hierarchy, quickly and in little memory."""

from __future__ import annotations

import importlib.util
import random
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webnn_xla as webnn
from webnn_xla.errors import WebNNError

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tests import onnx_networks as networks  # noqa: E402
from tests.test_onnx_import import INT, F, affine, info, model, node  # noqa: E402


def refuse(proto: Any, match: str, kind: type[Exception] = WebNNError, **arguments: Any) -> None:
    raw = proto if isinstance(proto, bytes) else proto.SerializeToString()
    with pytest.raises(kind, match=match) as caught:
        webnn.from_onnx(raw, **arguments)
    assert isinstance(caught.value, WebNNError)


@pytest.mark.parametrize("raw", [b"", b"\0" * 100, b"PK\x03\x04 something else", b"\x08\x0a\x3a\xff\xff\xff\xff\x0f"])
def test_files_that_are_no_models(raw: bytes) -> None:
    refuse(raw, "not an ONNX model", webnn.DataError)


def test_every_truncation_is_an_error_or_a_smaller_model() -> None:
    raw = affine().SerializeToString()
    for length in range(0, len(raw), 97):
        with pytest.raises(WebNNError):
            webnn.from_onnx(raw[:length], dims={"batch": 1, "seq": 1})


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(webnn.DataError, match="cannot read"):
            webnn.from_onnx(path)


def test_cycles_and_missing_initializers() -> None:
    nodes = [node("Add", "x b", "a", name="one"), node("Add", "a x", "b", name="two")]
    refuse(model(nodes, [info("x", F, [2])], [info("b", F, None)]), "'one'.*'b' is not defined", webnn.DataError)
    refuse(model([node("Add", "x w", "y")], [info("x", F, [2])], [info("y", F, None)]), "'w' is not defined")
    refuse(model([node("Relu", "x", "y")], [info("x", F, [2])], [info("z", F, None)]), "nothing makes this output")


def tensor(dims: list[int], raw: bytes, kind: int = F) -> onnx.TensorProto:
    made = onnx.TensorProto(name="w", data_type=kind, raw_data=raw)
    made.dims.extend(dims)
    return made


@pytest.mark.parametrize(
    ("dims", "raw", "match"),
    [
        ([2, 3], b"\0" * 23, "23 bytes of data instead of 24"),
        ([2**40], b"\0" * 4, "absurd|4 bytes of data"),
        ([2**31, 2**31], b"\0" * 4, "absurd"),
        ([-2, 3], b"", "not negative"),
        ([2**62, 2**62, 2**62], b"", "absurd"),
    ],
)
def test_initializers_that_lie(dims: list[int], raw: bytes, match: str) -> None:
    proto = model([node("Relu", "w", "y")], [], [info("y", F, None)])
    proto.graph.initializer.append(tensor(dims, raw))
    refuse(proto, match, webnn.DataError)


def test_unknown_types_and_opsets() -> None:
    proto = model([node("Relu", "w", "y")], [], [info("y", F, None)])
    proto.graph.initializer.append(tensor([1], b"\0\0\0\0", 99))
    refuse(proto, "unknown element type 99")
    refuse(model([node("Relu", "x", "y")], [info("x", F, [2])], [info("y", F, None)], opset=9999), "opset 9999")
    refuse(model([node("Relu", "x", "y")], [info("x", TensorProto.STRING, [2])], [info("y", F, None)]), "string")


@pytest.mark.parametrize(
    ("nodes", "weights", "match"),
    [
        ([node("ConstantOfShape", "s", "y")], {"s": np.array([2**40, 2**40])}, "allowed"),
        ([node("ConstantOfShape", "s", "y")], {"s": np.array([-1])}, "negative"),
        ([node("Range", "a b c", "y")], {"a": np.array(0), "b": np.array(2**60), "c": np.array(1)}, "a range of"),
        ([node("Range", "a b c", "y")], {"a": np.array(0), "b": np.array(5), "c": np.array(0)}, "not zero"),
        ([node("Tile", "v s", "y")], {"v": np.zeros(4, np.float32), "s": np.array([2**50])}, "allowed"),
        ([node("Expand", "v s", "y")], {"v": np.zeros(1, np.float32), "s": np.array([2**50])}, "allowed"),
        ([node("OneHot", "s d v", "y")], {"s": np.array([1]), "d": np.array(2**50), "v": np.zeros(2, np.float32)}, "."),
        ([node("Pad", "v s", "y")], {"v": np.zeros(4, np.float32), "s": np.array([2**50, 2**50])}, "allowed"),
        ([node("EyeLike", "v", "y")], {"v": np.zeros(4, np.float32)}, "matrix"),
        ([node("Reshape", "v s", "y")], {"v": np.zeros(4, np.float32), "s": np.array([-1, -1])}, "free dimension"),
        ([node("Gather", "v s", "y")], {"v": np.zeros(4, np.float32), "s": np.array([7])}, "out of range"),
        ([node("Transpose", "v", "y", perm=[5])], {"v": np.zeros(4, np.float32)}, "permutation"),
        ([node("Softmax", "v", "y", axis="x")], {"v": np.zeros(4, np.float32)}, "axis"),
        ([node("Cast", "v", "y", to=77)], {"v": np.zeros(4, np.float32)}, "element type"),
        ([node("Conv", "v v", "y")], {"v": np.zeros(4, np.float32)}, "fit"),
    ],
)
def test_absurd_nodes(nodes: list[Any], weights: dict[str, Any], match: str) -> None:
    refuse(model(nodes, [], [info("y", F, None)], weights), match)


def test_loops_do_not_run_away() -> None:
    body = helper.make_graph(
        [node("Identity", "go", "on"), node("Identity", "v", "w")],
        "b",
        [info("i", INT, []), info("go", TensorProto.BOOL, []), info("v", F, None)],
        [info("on", TensorProto.BOOL, []), info("w", F, None)],
    )
    nodes = [node("Loop", "n - x", "y", body=body)]
    proto = model(nodes, [info("x", F, [1])], [info("y", F, None)], {"n": np.array(2**62)})
    refuse(proto, "iterations")


def test_deep_nesting_and_endless_recursion() -> None:
    call = node("Again", "a", "b", domain="local")
    function = helper.make_function("local", "Again", ["a"], ["b"], [call], [helper.make_opsetid("local", 1)])
    start = [node("Again", "x", "y", domain="local")]
    refuse(model(start, [info("x", F, [1])], [info("y", F, None)], functions=[function]), "nest more than")
    # Two calls in each body would be 2 ** depth nodes: the number of steps is limited as well.
    twice = [node("Again", "a", "c", domain="local"), node("Again", "c", "b", domain="local")]
    function = helper.make_function("local", "Again", ["a"], ["b"], twice, [helper.make_opsetid("local", 1)])
    refuse(model(start, [info("x", F, [1])], [info("y", F, None)], functions=[function]), "nest more than|steps")


def test_names_are_escaped_in_messages() -> None:
    proto = model([node("Bad\n\x1b[31mOp", "x", "y", name="a\u202eb")], [info("x", F, [1])], [info("y", F, None)])
    with pytest.raises(WebNNError) as caught:
        webnn.from_onnx(proto)
    assert "\x1b" not in str(caught.value)
    assert "\u202e" not in str(caught.value)


# Mutated real models


def seeds() -> list[tuple[bytes, dict[str, Any]]]:
    found: list[tuple[bytes, dict[str, Any]]] = [
        (networks.gpt2(layers=1).SerializeToString(), {"batch": 1, "seq": 3, "past": 2}),
        (networks.unet().SerializeToString(), {"batch": 1, "height": 8, "width": 8, "seq": 3}),
        (networks.llama(layers=1).SerializeToString(), {"batch": 1, "seq": 2, "past": 2, "total": 4}),
    ]
    package = importlib.util.find_spec("silero_vad")
    if package is not None and package.submodule_search_locations:
        data = Path(package.submodule_search_locations[0]) / "data"
        found.append(((data / "silero_vad_16k_sequence.onnx").read_bytes(), {"sequence_length": 2}))
        found.append(((data / "silero_vad_op18_ifless.onnx").read_bytes(), {"batch": 1, "sequence": 576}))
    package = importlib.util.find_spec("magika")
    if package is not None and package.submodule_search_locations:
        path = max(Path(package.submodule_search_locations[0]).glob("models/*/model.onnx"))
        found.append((path.read_bytes(), {"unk__214": 1}))
    return found


def mutated(raw: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, a range removed, doubled or exchanged; mostly in the structure, not in the weights."""
    data = bytearray(raw)
    structure = [0, len(data)]
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = min(int(rng.expovariate(1 / 3000)), len(data) - 1) if rng.random() < 0.7 else rng.randrange(*structure)
        kind = rng.randrange(4)
        if kind == 0:
            data[place] = rng.randrange(256)
        elif kind == 1:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[place : place + rng.randrange(1, 8)]
        else:
            data[place:place] = data[place : place + rng.randrange(1, 16)]
    return bytes(data)


def altered(raw: bytes, rng: random.Random) -> bytes:
    """A valid protobuf whose nodes, attributes, shapes and constants were changed."""
    proto = onnx.ModelProto.FromString(raw)
    graph = proto.graph
    for _ in range(rng.choice((1, 1, 2, 4))):
        target = rng.choice(graph.node)
        kind = rng.randrange(9)
        names = [name for n in graph.node for name in n.output] + [t.name for t in graph.initializer]
        if kind == 0 and target.input:
            target.input[rng.randrange(len(target.input))] = rng.choice([*names, "", "nowhere"])
        elif kind == 1:
            target.op_type = rng.choice([n.op_type for n in graph.node] + ["Loop", "If", "Scan", "Einsum", "TopK", "Resize"])
        elif kind == 2 and target.attribute:
            attribute = rng.choice(target.attribute)
            attribute.i = rng.choice((-1, 0, 7, 2**31, -(2**63)))
            if attribute.ints:
                attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice((-1, 0, 9, 2**40))
        elif kind == 3 and target.attribute:
            del target.attribute[rng.randrange(len(target.attribute))]
        elif kind == 4 and graph.initializer:
            chosen = rng.choice(graph.initializer)
            chosen.dims[:] = [rng.choice((-1, 0, 1, 3, 2**33)) for _ in range(rng.randrange(4))]
        elif kind == 5 and graph.initializer:
            small = [t for t in graph.initializer if t.data_type == INT and len(t.raw_data) in (8, 16, 24, 32)]
            if small:
                chosen = rng.choice(small)
                values = numpy_helper.to_array(chosen).copy().reshape(-1)
                values[rng.randrange(values.size)] = rng.choice((-5, -1, 0, 2, 99, 2**40, -(2**62)))
                chosen.raw_data = values.tobytes()
        elif kind == 6:
            del target.input[rng.randrange(len(target.input) + 1) :]
        elif kind == 7 and graph.input:
            dims = rng.choice(graph.input).type.tensor_type.shape.dim
            if dims:
                rng.choice(dims).dim_value = rng.choice((1, 3, 2**20, 2**40))
        else:
            proto.opset_import[0].version = rng.choice((1, 7, 11, 13, 21, 23))
    return proto.SerializeToString()


@pytest.mark.parametrize("change", [mutated, altered])
def test_mutated_models_are_refused_or_imported(change: Any) -> None:
    """Nothing but the package's own errors, whatever is changed. ``check_onnx`` imports every node and compiles nothing."""
    rng = random.Random(7)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = {"imported": 0, "refused": 0}
    for raw, dims in seeds():
        for _ in range(60):
            try:
                report = webnn.check_onnx(change(raw, rng), dims)
                outcomes["imported" if report.ok else "refused"] += 1
                for problem in report.problems:
                    assert "malformed: AssertionError" not in problem.reason, problem
            except WebNNError:
                outcomes["refused"] += 1
    assert min(outcomes.values()) > 5, outcomes
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 1500, f"{grown:.0f} MB more"
