"""The importer: dimensions, values, errors that list everything, folding, control flow, weights, labels, sessions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webnn_xla as webnn

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from webnn_xla.importers.onnx import InvalidModelError, UnsupportedModelError  # noqa: E402

F, INT, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Info = onnx.ValueInfoProto


def info(name: str, kind: int = F, shape: list[int | str] | None = None) -> Info:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[Info],
    outputs: list[Info],
    weights: dict[str, Any] | None = None,
    opset: int = 18,
    **more: Any,
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """``node("Add", "a b", "c")``; "-" is an input left out."""
    return helper.make_node(op, ["" if n == "-" else n for n in inputs.split()], outputs.split(), **attributes)


def affine(**more: Any) -> onnx.ModelProto:
    """y = relu(x · w + b) with free batch and sequence."""
    nodes = [node("MatMul", "x w", "h", name="project"), node("Add", "h b", "s"), node("Relu", "s", "y", name="activate")]
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((40, 30), np.float32), "b": rng.standard_normal(30, np.float32)}
    return model(nodes, [info("x", F, ["batch", "seq", 40])], [info("y", F, ["batch", "seq", 30])], weights, **more)


def expected(proto: onnx.ModelProto, x: Any) -> Any:
    w, b = (numpy_helper.to_array(t) for t in proto.graph.initializer)
    return np.maximum(x @ w + b, 0)


# Dimensions and values


def test_free_dimensions_are_set_by_name_and_by_shape() -> None:
    proto = affine()
    x = np.ones((2, 3, 40), np.float32)
    for dims in ({"batch": 2, "seq": 3}, {"x": [2, 3, 40]}):
        graph = webnn.from_onnx(proto, dims=dims)
        np.testing.assert_allclose(graph.compute({"x": x})["y"], expected(proto, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dims", [None, {"batch": 2}, {"batch": 2, "sequence": 3}, {"batch": 2, "seq": -1}, {"x": [2, 3]}])
def test_missing_and_misspelt_dimensions_list_the_names(dims: dict[str, Any] | None) -> None:
    with pytest.raises(webnn.ArgumentError, match=r"dims: .*(batch, seq|an integer from 0|shapes that fit)"):
        webnn.from_onnx(affine(), dims=dims)


def test_unnamed_dimensions_have_names_of_their_own() -> None:
    proto = model([node("Relu", "x", "y")], [info("x", F, ["?", "?"])], [info("y", F, ["?", "?"])])
    assert webnn.from_onnx(proto, dims={"x[0]": 2, "x[1]": 3}).compute({"x": np.ones((2, 3), np.float32)})["y"].shape == (2, 3)


def test_values_that_shapes_depend_on_can_be_fixed() -> None:
    proto = model([node("Reshape", "x s", "y")], [info("x", F, [6]), info("s", INT, [2])], [info("y", F, None)])
    with pytest.raises(UnsupportedModelError, match=r"values=.*: s"):
        webnn.from_onnx(proto)
    graph = webnn.from_onnx(proto, values={"s": [2, 3]})
    assert graph.compute({"x": np.arange(6, dtype=np.float32)})["y"].shape == (2, 3)
    with pytest.raises(webnn.ArgumentError, match=r"values.*allowed: x, s"):
        webnn.from_onnx(proto, values={"t": [2, 3]})


# Errors


def test_one_error_lists_every_unsupported_node_before_weights_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        node("MatMul", "x w", "h"),
        node("StringNormalizer", "h", "s", name="first"),
        node("Nonsense", "h", "t", name="second"),
        node("NonZero", "h", "u", name="third"),
        node("ImageDecoder", "s", "v", name="after the first"),
    ]
    outputs = [info(name, F, None) for name in "tuv"]
    proto = model(nodes, [info("x", F, [2, 40])], outputs, {"w": np.ones((40, 40), np.float32)})
    from webnn_xla.importers.onnx import weights

    monkeypatch.setattr(weights, "_decode", lambda *_: pytest.fail("a weight was read"))
    with pytest.raises(UnsupportedModelError) as caught:
        webnn.from_onnx(proto)
    assert [problem.name for problem in caught.value.problems] == ["first", "second", "third", "after the first"]
    message = str(caught.value)
    assert "Nonsense (opset 18) 'second': operator ai.onnx.Nonsense is unknown" in message
    assert isinstance(caught.value, webnn.NotSupportedError)
    report = webnn.check_onnx(proto)
    assert not report.ok
    assert len(report.problems) == 4
    assert "ImageDecoder" in str(report)


def test_check_reports_dimensions_and_counts() -> None:
    report = webnn.check_onnx(affine())
    assert report.ok
    assert not report.complete
    assert report.free_dimensions == ("batch", "seq")
    assert webnn.check_onnx(affine(), dims={"batch": 1, "seq": 1}).webnn_ops == 3


def test_errors_of_webnn_name_the_onnx_node() -> None:
    nodes = [node("Conv", "x w", "y", name="stem/conv", kernel_shape=[3, 3])]
    proto = model(nodes, [info("x", F, [1, 4, 8, 8])], [info("y", F, None)], {"w": np.ones((2, 3, 3, 3), np.float32)})
    with pytest.raises(webnn.WebNNError, match=r"'stem/conv'.*got"):
        webnn.from_onnx(proto)


def test_contradictions_are_invalid_models() -> None:
    proto = model([node("Concat", "x x2", "y", axis=0)], [info("x", F, [2, 3]), info("x2", F, [2, 4])], [info("y", F, None)])
    with pytest.raises(InvalidModelError, match="does not fit"):
        webnn.from_onnx(proto)


# Labels and locations


def test_labels_are_node_names() -> None:
    graph = webnn.from_onnx(affine(), dims={"batch": 1, "seq": 2}, optimize=False)
    assert {n.label for n in graph.graph.nodes} >= {"project", "activate"}
    assert "project" in graph.stablehlo()


# Types


def test_int64_is_exact() -> None:
    proto = model([node("Add", "x c", "y")], [info("x", INT, [2])], [info("y", INT, [2])], {"c": np.array([1, -1])})
    got = webnn.from_onnx(proto).compute({"x": np.array([2**53, -(2**62)])})["y"]
    assert got.dtype == np.int64
    assert got.tolist() == [2**53 + 1, -(2**62) - 1]


def test_booleans_come_and_go_as_booleans() -> None:
    proto = model([node("And", "a b", "c"), node("Not", "c", "y")], [info("a", B, [3]), info("b", B, [3])], [info("y", B, [3])])
    got = webnn.from_onnx(proto).compute({"a": np.array([True, True, False]), "b": np.array([True, False, True])})["y"]
    assert got.dtype == np.bool_
    assert got.tolist() == [False, True, True]


@pytest.mark.parametrize(("kind", "dtype"), [(TensorProto.INT16, np.int16), (TensorProto.UINT16, np.uint16)])
def test_16_bit_integers_wrap(kind: int, dtype: type) -> None:
    proto = model([node("Mul", "x x", "y")], [info("x", kind, [3])], [info("y", kind, [3])])
    x = np.array([3, 300, 32767], dtype)
    np.testing.assert_array_equal(webnn.from_onnx(proto).compute({"x": x})["y"], x * x)


def test_integer_matmul_is_exact_beyond_float32() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 256, (3, 2000)).astype(np.uint8), rng.integers(-128, 128, (2000, 4)).astype(np.int8)
    inputs = [info("a", TensorProto.UINT8, [3, 2000]), info("b", TensorProto.INT8, [2000, 4])]
    proto = model([node("MatMulInteger", "a b", "y")], inputs, [info("y", TensorProto.INT32, None)])
    np.testing.assert_array_equal(
        webnn.from_onnx(proto).compute({"a": a, "b": b})["y"], a.astype(np.int32) @ b.astype(np.int32)
    )


def test_qdq_rounds_half_to_even_and_saturates() -> None:
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    weights = {"s": np.float32(1), "z": np.uint8(1)}
    proto = model(nodes, [info("x", F, [6])], [info("q", TensorProto.UINT8, None), info("y", F, None)], weights)
    got = webnn.from_onnx(proto).compute({"x": np.array([0.5, 1.5, 2.5, -0.5, 300, -9], np.float32)})
    assert got["q"].tolist() == [1, 3, 3, 1, 255, 0]
    assert got["y"].tolist() == [0, 2, 2, 0, 254, -1]


# Folding and empty tensors


def test_shape_computations_fold() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n zero1", "n1"),
        node("Concat", "n1 minus", "t", axis=0),
        node("Reshape", "x t", "y"),
    ]
    weights = {"zero": np.array(0), "zero1": np.array([0]), "minus": np.array([-1])}
    proto = model(nodes, [info("x", F, ["a", 3, 4])], [info("y", F, None)], weights)
    graph = webnn.from_onnx(proto, dims={"a": 2})
    assert [n.op.name for n in graph.graph.nodes] == ["reshape"]
    assert graph.output_descriptors["y"].shape == [2, 12]


def test_empty_tensors_vanish() -> None:
    nodes = [node("Concat", "past x", "y", axis=1), node("Shape", "past", "s")]
    proto = model(nodes, [info("past", F, [1, "p"]), info("x", F, [1, 2])], [info("y", F, None), info("s", INT, None)])
    graph = webnn.from_onnx(proto, dims={"p": 0})
    got = graph.compute({"past": np.zeros((1, 0), np.float32), "x": np.ones((1, 2), np.float32)})
    assert got["y"].tolist() == [[1, 1]]
    assert got["s"].tolist() == [1, 0]


# Control flow, functions, sequences


def branch(value: float) -> onnx.GraphProto:
    return helper.make_graph([node("Add", f"x c{int(value)}", "r")], "b", [], [info("r", F, None)],
                             [numpy_helper.from_array(np.float32(value), f"c{int(value)}")])  # fmt: skip


def test_if_folds_or_selects() -> None:
    nodes = [node("If", "flag", "y", then_branch=branch(1), else_branch=branch(2))]
    proto = model(nodes, [info("flag", B, []), info("x", F, [2])], [info("y", F, None)])
    x = np.zeros(2, np.float32)
    assert webnn.from_onnx(proto, values={"flag": False}).compute({"x": x})["y"].tolist() == [2, 2]
    graph = webnn.from_onnx(proto)
    assert [graph.compute({"x": x, "flag": np.array(flag)})["y"][0] for flag in (True, False)] == [1, 2]


def test_loop_with_a_constant_trip_count() -> None:
    body = helper.make_graph(
        [node("Mul", "v two", "w"), node("Identity", "w", "scanned"), node("Identity", "go", "on")],
        "body",
        [info("i", INT, []), info("go", B, []), info("v", F, None)],
        [info("on", B, []), info("w", F, None), info("scanned", F, None)],
    )
    proto = model([node("Loop", "n - x", "y all", body=body)], [info("x", F, [2])], [info("y", F, None), info("all", F, None)],
                  {"n": np.array(3), "two": np.float32(2)})  # fmt: skip
    got = webnn.from_onnx(proto).compute({"x": np.ones(2, np.float32)})
    assert got["y"].tolist() == [8, 8]
    assert got["all"].tolist() == [[2, 2], [4, 4], [8, 8]]


def test_weights_of_a_loop_are_read_once() -> None:
    body = helper.make_graph(
        [node("MatMul", "v w", "u"), node("Identity", "go", "on")],
        "body",
        [info("i", INT, []), info("go", B, []), info("v", F, None)],
        [info("on", B, []), info("u", F, None)],
        [numpy_helper.from_array(2 * np.eye(40, dtype=np.float32), "w")],
    )
    nodes = [node("Loop", "n - x", "y", body=body)]
    graph = webnn.from_onnx(model(nodes, [info("x", F, [1, 40])], [info("y", F, None)], {"n": np.array(3)}))
    assert len(graph.weights) == 1
    assert graph.compute({"x": np.ones((1, 40), np.float32)})["y"].tolist() == [[8.0] * 40]


def test_local_functions_and_their_attributes() -> None:
    inner = node("LeakyRelu", "a", "b")
    inner.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    function = helper.make_function("local", "Leak", ["a"], ["b"], [inner], [helper.make_opsetid("", 18)], ["slope"])
    call = node("Leak", "x", "y", domain="local", slope=0.5, name="call")
    graph = webnn.from_onnx(model([call], [info("x", F, [2])], [info("y", F, None)], functions=[function]))
    assert graph.compute({"x": np.array([-2, 2], np.float32)})["y"].tolist() == [-1, 2]
    assert graph.graph.nodes[0].label.startswith("call/")


def test_sequences_inside_a_model() -> None:
    nodes = [node("SplitToSequence", "x", "s", axis=0, keepdims=0), node("SequenceAt", "s one", "y")]
    proto = model(nodes, [info("x", F, [3, 2])], [info("y", F, None)], {"one": np.array(1)})
    assert webnn.from_onnx(proto).compute({"x": np.arange(6, dtype=np.float32).reshape(3, 2)})["y"].tolist() == [2, 3]


# Weights


def save_external(folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save_model(affine(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_external_data_is_mapped(tmp_path: Path) -> None:
    graph = webnn.from_onnx(save_external(tmp_path), dims={"batch": 1, "seq": 1})
    assert set(graph.weights) == {"w"}  # b is small enough to be a literal
    x = np.ones((1, 1, 40), np.float32)
    np.testing.assert_allclose(graph.compute({"x": x})["y"], expected(affine(), x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "missing.bin", "", "link.bin", "folder"])
def test_external_data_stays_in_the_folder(tmp_path: Path, location: str) -> None:
    inside = tmp_path / "inside"
    (inside / "folder").mkdir(parents=True)
    path = save_external(inside)
    (inside / "weights.bin").rename(tmp_path / "weights.bin")
    (inside / "link.bin").symlink_to(tmp_path / "weights.bin")
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        next(entry for entry in tensor.external_data if entry.key == "location").value = location
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(webnn.DataError, match=r"external data|no file"):
        webnn.from_onnx(path, dims={"batch": 1, "seq": 1})


def test_weights_are_named_constants_that_save_and_load(tmp_path: Path) -> None:
    graph = webnn.from_onnx(affine(), dims={"batch": 1, "seq": 2})
    webnn.save(graph, tmp_path / "graph")
    x = np.ones((1, 2, 40), np.float32)
    loaded = webnn.load(tmp_path / "graph", graph.context)
    np.testing.assert_array_equal(loaded.compute({"x": x})["y"], graph.compute({"x": x})["y"])


# Sessions


def test_a_session_specialises_shares_weights_and_forgets() -> None:
    proto = affine()
    session = webnn.Session(proto, cache_size=2)
    for shape in ((1, 2, 40), (2, 2, 40), (1, 2, 40), (1, 3, 40)):
        x = np.ones(shape, np.float32)
        np.testing.assert_allclose(session.run({"x": x})["y"], expected(proto, x), rtol=1e-5, atol=1e-5)
    assert [graph.input_descriptors["x"].shape for graph in session.graphs] == [[1, 2, 40], [1, 3, 40]]
    first, second = (graph.weights["w"] for graph in session.graphs)
    assert first.unsafe_buffer_pointer() == second.unsafe_buffer_pointer()


def test_transformed_weights_are_shared_too() -> None:
    rng = np.random.default_rng(2)
    weights = {"w": rng.standard_normal((64, 32, 3, 3), np.float32)}
    nodes = [node("Conv", "x w", "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1])]
    session = webnn.Session(model(nodes, [info("x", F, [1, 32, "h", "w_"])], [info("y", F, None)], weights))
    for size in (5, 6):
        session.run({"x": np.ones((1, 32, size, size), np.float32)})
    first, second = (
        [array.unsafe_buffer_pointer() for array in graph._arguments if array.nbytes > 50000] for graph in session.graphs
    )
    assert first
    assert first == second


def test_buckets_pad_and_cut() -> None:
    proto = affine()
    session = webnn.Session(proto, buckets={"seq": [4, 8]})
    for length in (3, 4, 5):
        x = np.ones((1, length, 40), np.float32)
        np.testing.assert_allclose(session.run({"x": x})["y"], expected(proto, x), rtol=1e-5, atol=1e-5)
    assert len(session.graphs) == 2
    with pytest.raises(webnn.ArgumentError, match="at most 8, its largest bucket"):
        session.run({"x": np.ones((1, 9, 40), np.float32)})
    with pytest.raises(webnn.ArgumentError, match=r"buckets.*allowed: batch, seq"):
        webnn.Session(proto, buckets={"sequence": [4]})


def test_a_session_specialises_for_values_that_shapes_depend_on() -> None:
    proto = model([node("Reshape", "x s", "y")], [info("x", F, [6]), info("s", INT, [2])], [info("y", F, None)])
    session = webnn.Session(proto)
    for shape in ([2, 3], [3, 2], [2, 3]):
        assert session.run({"x": np.zeros(6, np.float32), "s": np.array(shape)})["y"].shape == tuple(shape)
    assert session.fixed_inputs == {"s"}
    assert len(session.graphs) == 2


@pytest.mark.parametrize("inputs", [{}, {"x": np.ones((1, 2, 41), np.float32)}, {"x": np.ones((1, 2, 40))}, {"z": np.ones(1)}])
def test_wrong_inputs_of_a_session(inputs: dict[str, Any]) -> None:
    with pytest.raises(webnn.ArgumentError, match=r"Session: .*allowed: x"):
        webnn.Session(affine()).run(inputs)


# The package and the command line


def test_the_page_of_operators_is_up_to_date() -> None:
    from webnn_xla.importers.onnx import coverage

    page = coverage.PAGE.read_text()
    assert page == coverage.updated(page), "python -m webnn_xla.importers.onnx.coverage writes it"


def test_the_core_does_not_import_onnx() -> None:
    code = "import sys, webnn_xla; webnn_xla.ML, webnn_xla.load; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_commands(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from webnn_xla.cli import app

    path = tmp_path / "model.onnx"
    path.write_bytes(affine().SerializeToString())
    dims = ["--dim", "batch=1", "--dim", "seq=2"]
    runner = CliRunner()
    checked = runner.invoke(app, ["check", str(path), *dims])
    assert checked.exit_code == 0
    assert "supported: 3 WebNN ops" in checked.stdout
    np.save(tmp_path / "x.npy", np.ones((1, 2, 40), np.float32))
    ran = runner.invoke(app, ["run", str(path), "--input", f"x={tmp_path / 'x.npy'}"])
    assert ran.exit_code == 0, ran.output
    assert "y: float32[1, 2, 30]" in ran.stdout
    assert runner.invoke(app, ["run", str(path), "--random", *dims]).exit_code == 0
    assert runner.invoke(app, ["import", str(path), "-o", str(tmp_path / "graph"), *dims]).exit_code == 0
    assert runner.invoke(app, ["run", str(tmp_path / "graph"), "--random"]).exit_code == 0
    for arguments in (
        ["check", str(tmp_path / "none.onnx")],
        ["run", str(path), "--random", "--dim", "bach=1"],
        ["check", __file__],
    ):
        failed = runner.invoke(app, arguments)
        assert failed.exit_code == 2, failed.output
        assert len(failed.stderr.strip().splitlines()) == 1
