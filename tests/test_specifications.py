"""The comparison with StableHLO's interpreter and TOSA's model: verdicts, the page, the commands, failures of oracles.

A few ops and cases; all of them are a command, ``webnn-xla conformance spec``.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import webnn_xla as webnn
from webnn_xla.cli import app
from webnn_xla.conformance import graph_compare, interpreter, specifications, tosa_reference
from webnn_xla.conformance.differences import BRIDGED, DIFFERENCES
from webnn_xla.conformance.specification_page import page
from webnn_xla.conformance.specifications import Cell, Row, SpecificationReport
from webnn_xla.lowering import OPS

has_tosa = pytest.mark.skipif(importlib.util.find_spec("tosa_reference_model") is None, reason="tosa-tools is not installed")
CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


# The comparison


@has_tosa
def test_ops_agree_or_differ_as_known(tmp_path: Path) -> None:
    result = call(
        *("conformance", "spec", "--op", "add", "--op", "tanh", "--type", "float32", "--type", "int32", "--max-cases", 6),
        *("--json", tmp_path / "r.json", "--html", tmp_path / "r.html"),
    )
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "r.json").read_text())
    rows = {(row["op"], row["dataType"]): row["oracles"] for row in report["rows"]}
    assert set(rows) == {("add", "float32"), ("add", "int32"), ("tanh", "float32")}
    for oracles in rows.values():
        assert oracles["xla"]["state"] == oracles["stablehlo"]["state"] == "agrees"
        assert oracles["xla"]["agree"] == 6
    assert rows["add", "int32"]["tosa"]["state"] in ("agrees", "differs as known")
    assert 0 < rows["tanh", "float32"]["xla"]["ulp"] < 8
    assert report["problems"] == []
    assert "<!doctype html>" in (tmp_path / "r.html").read_text()


def test_a_broken_lowering_is_found(context: webnn.MLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPS["relu"], "lowering", staticmethod(lambda input: input))
    monkeypatch.setattr(tosa_reference, "WORKER", "webnn_xla.conformance.no_such_worker")
    report = specifications.run(["relu"], context=context, data_types=["float32"], max_cases=3)
    cells = report.rows[0].cells
    assert cells["xla"].state == cells["stablehlo"].state == "differs"
    assert any("XLA: element" in problem and "float64 says" in problem for problem in report.problems)


def test_an_oracle_that_is_not_installed_is_a_state_and_status_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "WORKER", "webnn_xla.conformance.no_such_worker")
    monkeypatch.setattr(tosa_reference, "WORKER", "webnn_xla.conformance.no_such_worker")
    monkeypatch.setattr(specifications.tosa_reference.tosa.TosaModule, "flatbuffer", lambda self: b"")
    result = call("conformance", "spec", "--op", "relu", "--type", "float32", "--max-cases", 2)
    assert result.exit_code == 2
    assert "2 not installed" in result.output
    assert "stablehlo is not installed" in result.output


def test_a_crash_is_a_state(context: webnn.MLContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "worker_that_dies.py").write_text("import os\ndef serve(request):\n    os.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(interpreter, "WORKER", "worker_that_dies")
    monkeypatch.setattr(tosa_reference, "WORKER", "webnn_xla.conformance.no_such_worker")
    report = specifications.run(["relu"], context=context, data_types=["float32"], max_cases=2)
    assert report.rows[0].cells["stablehlo"].state == "failed"
    assert report.rows[0].cells["xla"].state == "agrees"
    assert any("crashed (SIGABRT" in problem for problem in report.problems)


def test_unknown_op(context: webnn.MLContext) -> None:
    with pytest.raises(webnn.ArgumentError, match="no_such_op"):
        specifications.run(["no_such_op"], context=context)


@pytest.mark.parametrize("entry", [*DIFFERENCES, *BRIDGED], ids=lambda entry: entry.ops.split()[0])
def test_sentences_are_of_ops_that_exist(entry: Any) -> None:
    assert entry.sentence.endswith(".")
    assert all(name in OPS or name == "*" for name in entry.ops.split())


# The page


@pytest.fixture
def report() -> SpecificationReport:
    def row(op: str, kind: str, cases: int, tosa: Cell) -> Row:
        return Row(op, kind, cases, 1, {"xla": Cell(agree=cases, ulp=cases / 2), "stablehlo": Cell(agree=cases), "tosa": tosa})

    return SpecificationReport(
        [
            row("tanh", "float32", 12, Cell(explained=12, ulp=13, sentences=["It <differs>."])),
            row("add", "int8", 17, Cell(refused=17, reasons=["refused: no & never"])),
            row("sub", "float16", 3, Cell(unexplained=3, ulp=float("inf"), reasons=["element 0"])),
        ]
    )


def test_the_page_needs_nothing_else_and_escapes(report: SpecificationReport) -> None:
    text = page(report)
    assert not re.search(r"(src|href)=|@import|url\(", text)
    assert "prefers-color-scheme: dark" in text
    assert "It &lt;differs&gt;." in text
    assert "no &amp; never" in text
    assert "1 differences without an explanation" in text
    assert all(escape(entry.sentence) in text for entry in DIFFERENCES)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path")
def test_the_page_in_a_browser_sorts_and_filters(report: SpecificationReport, tmp_path: Path) -> None:
    script = """<script>
    const visible = () => [...document.querySelectorAll('table.rows tbody tr')].filter(row => !row.hidden);
    const ops = () => visible().map(row => row.cells[0].textContent);
    const click = column => document.querySelector(`th[data-column="${column}"] button`).click();
    const seen = [ops().join()];
    click(0); seen.push(ops().join());
    click(2); seen.push(ops().join()); click(2); seen.push(ops().join());
    document.querySelector('#filter').value = 'INT8'; document.querySelector('#filter').dispatchEvent(new Event('input'));
    seen.push(ops().join());
    seen.push(document.documentElement.scrollWidth <= innerWidth);
    document.title = seen.join('|');</script></body>"""
    path = tmp_path / "page.html"
    path.write_text(page(report).replace("</body>", script), encoding="utf-8")
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"),
            *("--window-size=1400,900", f"--screenshot={tmp_path / 'page.png'}", "--dump-dom", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    title = re.search("<title>(.*?)</title>", done.stdout)
    assert title is not None
    assert title[1] == "tanh,add,sub|add,sub,tanh|sub,tanh,add|add,tanh,sub|add|true"


# A user's graph


@pytest.fixture(scope="module")
def folder(context: webnn.MLContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [2, 3], "float32")
    product = builder.matmul(x, builder.constant(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)), label="the product")
    path = tmp_path_factory.mktemp("graph") / "saved"
    webnn.save(builder.build({"y": builder.softmax(builder.relu(product), 1)}), path)
    return path


@has_tosa
def test_a_graph_agrees(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    result = call("compare", folder, "--input", f"x={tmp_path / 'x.npy'}", "--against", "stablehlo,tosa")
    assert result.exit_code == 0, result.output
    assert "stablehlo: all 3 values agree" in result.output
    assert "tosa: all 3 values agree" in result.output


def test_the_first_op_where_they_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = interpreter.interpret_graph

    def wrong(*args: Any, **options: Any) -> Any:
        results = real(*args, **options)
        return {**results, "1": results["1"] + 1, "2": results["2"] + 1}

    monkeypatch.setattr(graph_compare.interpreter, "interpret_graph", wrong)
    result = call("compare", folder, "--random", "--against", "stablehlo")
    assert result.exit_code == 1, result.output
    assert "parts at op 1, relu (input float32[2, 4])" in result.output


def test_oracles_that_cannot_be_asked(folder: Path) -> None:
    result = call("compare", folder, "--random", "--against", "onnxruntime")
    assert result.exit_code == 2
    assert "give it with --onnx MODEL.onnx" in result.output
    assert call("compare", folder, "--random", "--against", "nothing").exit_code == 2


# An ONNX model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolution, batch normalization of an old opset, a choice by booleans, and weights in a file of their own."""
    onnx = pytest.importorskip("onnx")
    from tests.onnx_networks import Net

    net = Net(opset=11)
    x = net.input("x", ["batch", 3, 6, 6])
    chosen = net.input("chosen", ["batch", 1], onnx.TensorProto.BOOL)
    y = net.Conv(x, net.weight(4, 3, 3, 3), net.weight(4), kernel_shape=[3, 3])
    scale, zeros = net.const(np.array([-1.0, 0.5, 1.0, 2.0])), net.const(np.zeros(4))
    y = net.Relu(net.BatchNormalization(y, scale, zeros, zeros, net.const(np.arange(4) + 0.5)))
    y = net.MatMul(net.Flatten(net.MaxPool(y, kernel_shape=[2, 2], strides=[2, 2])), net.weight(16, 300, scale=0.1))
    net.output("y", net.Softmax(net.Where(chosen, y, net.Neg(y)), axis=1))
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save_model(net.model(), path, save_as_external_data=True, location="model.bin", size_threshold=1024)
    return path


@has_tosa
def test_every_value_of_a_model(model: Path) -> None:
    pytest.importorskip("onnxruntime")
    against = "onnxruntime,onnx-reference,stablehlo,tosa"
    result = call("compare", model, "--random", "--dim", "batch=2", "--against", against)
    assert result.exit_code == 0, result.output
    for oracle in ("onnxruntime", "onnx-reference"):
        assert f"{oracle}: all 10 values agree that have a name in the model" in result.output
    assert result.output.count("values agree\n") == 2


def test_a_model_and_where_it_parts(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(OPS["relu"], "lowering", staticmethod(lambda input: input))
    result = call("compare", model, "--random", "--dim", "batch=1", "--against", "onnx-reference")
    assert result.exit_code == 1, result.output
    assert re.search(r"onnx-reference: parts at Relu_\d+\.0, op \d+, relu \[Relu_\d+\]", result.output)
    # Of a folder and its model, the outputs.
    assert call("import", model, "-o", tmp_path / "graph", "--dim", "batch=1").exit_code == 0
    result = call("compare", tmp_path / "graph", "--random", "--onnx", model, "--against", "onnx-reference")
    assert result.exit_code == 1, result.output
    assert "onnx-reference: output y, op" in result.output


def test_a_model_without_its_oracle(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_compare, "ONNX_WORKER", "webnn_xla.conformance.no_such_worker")
    result = call("compare", model, "--random", "--dim", "batch=1", "--against", "onnxruntime,onnx-reference")
    assert result.exit_code == 2, result.output
    assert result.output.count("not compared: no_such_worker: not installed") == 2
    assert call("compare", model, "--random", "--against", "onnx-reference").exit_code == 2  # no size for batch


def test_a_graph_that_is_too_large(model: Path) -> None:
    result = call("compare", model, "--random", "--dim", "batch=4000", "--against", "stablehlo", "--timeout", "5")
    assert result.exit_code == 2, result.output
    assert re.search(
        r"stablehlo: not compared: .*the graph is too large: about \d+ s for .* flops; allowed: 5 s", result.output
    )


# WPT vectors and StableHLO's own data


@pytest.mark.parametrize("oracle", ["stablehlo", pytest.param("tosa", marks=has_tosa)])
def test_vectors_through_an_oracle(oracle: str, tmp_path: Path) -> None:
    float32 = {"dataType": "float32", "shape": [2]}

    def case(name: str, value: float) -> dict[str, Any]:
        graph = {
            "inputs": {"x": {"data": [1, 2], "descriptor": float32}},
            "operators": [{"name": "add", "arguments": [{"a": "x"}, {"b": "x"}], "outputs": "z"}],
            "expectedOutputs": {"z": {"data": [2, value], "descriptor": float32}},
        }
        tolerance = {"metricType": "ULP", "value": 1}
        return {"id": name, "name": name, "source": "", "revision": "", "graph": graph, "tolerance": tolerance}

    (tmp_path / "conformance").mkdir()
    content = {"format": "webnn-wpt-conformance/1", "op": "add", "cases": [case("right", 4.0), case("wrong", 50.0)]}
    (tmp_path / "conformance" / "add.json").write_text(json.dumps(content))
    result = call("conformance", "wpt", tmp_path, "--through", oracle, "--json", tmp_path / "report.json")
    assert result.exit_code == 1, result.output
    assert json.loads((tmp_path / "report.json").read_text())["counts"] == {"passed": 1, "differs": 1}
    assert call("conformance", "wpt", tmp_path, "--through", "nothing").exit_code == 2


CASE = """// RUN: stablehlo-translate --interpret -split-input-file %s
module @jit_main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main() -> (tensor<3xELEMENT> {jax.result_info = "", mhlo.layout_mode = "default"}) {
    %0 = call @inputs() : () -> tensor<3xELEMENT>
    %1 = call @expected() : () -> tensor<3xELEMENT>
    %2 = stablehlo.abs %0 : tensor<3xELEMENT>
    stablehlo.custom_call @check.CHECK(%2, %1) {has_side_effect = true} : (tensor<3xELEMENT>, tensor<3xELEMENT>) -> ()
    return %2 : tensor<3xELEMENT>
  }
  func.func private @inputs() -> (tensor<3xELEMENT> {mhlo.layout_mode = "default"}) {
    %cst = stablehlo.constant dense<[1, -2, 3]> : tensor<3xELEMENT>
    return %cst : tensor<3xELEMENT>
  }
  func.func private @expected() -> (tensor<3xELEMENT> {mhlo.layout_mode = "default"}) {
    %cst = stablehlo.constant dense<[1, 2, LAST]> : tensor<3xELEMENT>
    return %cst : tensor<3xELEMENT>
  }
}
"""


def test_testdata_of_stablehlo(tmp_path: Path) -> None:
    data = tmp_path / "stablehlo" / "testdata"
    data.mkdir(parents=True)

    def write(name: str, element: str, check: str, last: str) -> None:
        text = CASE.replace("CHECK", check).replace("LAST", last)
        if element.startswith(("f", "bf")):
            text = text.replace("[1, -2, 3]", "[1.0, -2.0, 3.0]").replace("[1, 2, ", "[1.0, 2.0, ")
        (data / f"{name}.mlir").write_text(text.replace("ELEMENT", element))

    write("right", "f32", "expect_close", "3.00001")
    write("half", "bf16", "expect_almost_eq", "3.0")
    write("integers", "i64", "expect_eq", "3")
    write("wrong", "f32", "expect_close", "3.01")
    (data / "dynamic.mlir").write_text(CASE.replace("3xELEMENT", "?xf32"))
    (data / "damaged.mlir").write_text("nonsense check.expect_eq")
    result = call("conformance", "stablehlo-testdata", tmp_path, "--json", tmp_path / "report.json")
    assert result.exit_code == 1
    assert "3 passed, 2 failed, 1 skipped" in result.output
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report["failed"]) == {"wrong.mlir", "damaged.mlir"}
    assert "1 of 3 elements differ; element [2]" in report["failed"]["wrong.mlir"]
    assert call("conformance", "stablehlo-testdata", tmp_path / "report.json").exit_code == 2
