"""What leaves the package: StableHLO in three formats, jax.export artifacts, and the reference interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import webnn_xla as webnn
from webnn_xla.conformance import interpret
from webnn_xla.conformance.interpreter import WORKER
from webnn_xla.conformance.oracle import Oracle, OracleError
from webnn_xla.export import read_portable

X = np.array([[0.5, -1.0, 2.0], [3.0, -0.25, 0.0]], np.float32)


@pytest.fixture
def graph(builder: webnn.MLGraphBuilder) -> webnn.MLGraph:
    x = builder.input("x", [2, 3], "float32")
    big = builder.constant(np.linspace(-1, 1, 3 * 700, dtype=np.float32).reshape(3, 700))
    product = builder.matmul(x, big, label="the product")
    return builder.build({"y": builder.erf(product), "n": builder.cast(x, "int64")})


def test_text_carries_labels(graph: webnn.MLGraph) -> None:
    assert "the product" in graph.stablehlo()
    assert "the product" not in graph.stablehlo(locations=False)


@pytest.mark.parametrize("version", ["0.9.0", "1.0.0", "1.9.0", None])
def test_portable_artifacts_round_trip(graph: webnn.MLGraph, version: str | None) -> None:
    artifact = graph.stablehlo("portable", version)
    assert isinstance(artifact, bytes)
    text = read_portable(artifact)
    assert "stablehlo.dot_general" in text
    assert "chlo." not in text


@pytest.mark.parametrize("version", ["1.99.0", "0.1.0", "new", "1.2"])
def test_impossible_versions(graph: webnn.MLGraph, version: str) -> None:
    with pytest.raises(webnn.ArgumentError, match=r"allowed: 0\.9\.0 to"):
        graph.stablehlo("portable", version)


def test_unknown_format_and_damaged_artifact(graph: webnn.MLGraph) -> None:
    with pytest.raises(webnn.ArgumentError, match="text, bytecode, portable"):
        graph.stablehlo("protobuf")
    with pytest.raises(webnn.ArgumentError, match="not a StableHLO artifact"):
        read_portable(b"nothing of the kind")


def test_bytecode(graph: webnn.MLGraph) -> None:
    assert graph.stablehlo("bytecode")[:4] == b"ML\xefR"  # type: ignore[comparison-overlap]


def test_exported_artifact_runs_without_this_package(graph: webnn.MLGraph, tmp_path: Path) -> None:
    exported = graph.export()
    assert set(exported.platforms) == {"cpu", "cuda", "rocm", "tpu"}
    (tmp_path / "graph.bin").write_bytes(exported.serialize())
    np.save(tmp_path / "x.npy", X)
    program = """
import sys
sys.modules["webnn_xla"] = None  # an import of it would fail
import jax.export, numpy as np
exported = jax.export.deserialize(open("graph.bin", "rb").read())
results = exported.call({"x": np.load("x.npy")})
np.savez("results.npz", **results)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=tmp_path, check=True, timeout=120)
    wanted = graph.compute({"x": X})
    with np.load(tmp_path / "results.npz") as results:
        assert set(results) == {"y", "n"}
        np.testing.assert_allclose(results["y"], wanted["y"], rtol=1e-6)
        assert results["n"].dtype == np.int64
        np.testing.assert_array_equal(results["n"], wanted["n"])


def test_interpreter_agrees(graph: webnn.MLGraph) -> None:
    results = interpret(graph, {"x": X})
    wanted = graph.compute({"x": X})
    np.testing.assert_allclose(results["y"], wanted["y"], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(results["n"], wanted["n"])
    assert results["n"].dtype == np.int64


def test_interpreter_failures_are_errors(graph: webnn.MLGraph) -> None:
    with pytest.raises(OracleError, match="too large"):
        interpret(graph, {"x": X}, timeout=1e-6)
    with pytest.raises(webnn.ArgumentError, match="inputs"):
        interpret(graph, {})
    with Oracle(WORKER) as oracle:
        divide = (
            "func.func public @main(%a: tensor<i32>) -> tensor<i32> {"
            "%0 = stablehlo.divide %a, %a : tensor<i32>\n return %0 : tensor<i32>}"
        )
        with pytest.raises(OracleError, match="crashed"):
            oracle.ask((divide, [np.array(0, np.int32)]))
        # The next request gets a new worker.
        assert oracle.ask((divide, [np.array(7, np.int32)])) == [1]
        with pytest.raises(OracleError, match="Unable to parse"):
            oracle.ask(("nonsense", []))
        with pytest.raises(OracleError, match="took longer"):
            oracle.ask((divide, [np.array(7, np.int32)]), timeout=1e-6)
    with Oracle("webnn_xla.conformance.no_such_worker") as missing, pytest.raises(OracleError, match="not installed"):
        missing.ask(None)
