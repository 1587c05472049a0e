"""The command line: what it prints, and one clear line for every mistake."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner, Result

import webnn_xla as webnn
from webnn_xla import arrayfiles
from webnn_xla.cli import app
from webnn_xla.lowering import OPS

RUN = [sys.executable, "-m", "webnn_xla.cli"]


@pytest.fixture(scope="module")
def folder(context: webnn.MLContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a saved graph ``g`` and its inputs."""
    path = tmp_path_factory.mktemp("cli")
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [2, 3], "float32")
    i = builder.input("i=1", [2], "int64")
    weight = builder.constant(np.ones((2, 3), np.float32), name="bias")
    outputs = {
        "y/../z": builder.add(x, weight, label="sum"),
        "file": builder.identity(i),
        "b": builder.cast(x, "bfloat16"),
        "four": builder.cast(x, "int4"),
    }
    webnn.save(builder.build(outputs), path / "g")
    np.save(path / "x.npy", np.full((2, 3), 2, np.float32))
    np.save(path / "i.npy", np.array([2**53 + 1, -(2**63)], np.int64))
    np.savez(path / "both.npz", **{"x": np.zeros((2, 3), ">f4"), "i=1": np.array([1, 2], np.int64)})
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_help_is_quick_and_imports_no_jax() -> None:
    code = "import sys; from webnn_xla.cli import main; sys.argv = ['webnn-xla', '--help']\n"
    code += "try: main()\nexcept SystemExit as stop: print('status', stop.code, 'jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "conformance" in done.stdout
    assert done.stdout.endswith("status 0 False\n")


def test_version_and_no_command() -> None:
    assert call("--version").output == f"webnn-xla {webnn.__version__}\n"
    assert "Usage: " in call().output
    assert call().exit_code == 0


def test_entry_point(folder: Path) -> None:
    """In a process of its own: output, error and status are a shell's."""
    done = subprocess.run([*RUN, "show", str(folder / "g")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "add [sum] a=x b=bias → %3 float32[2, 3]" in done.stdout
    done = subprocess.run([*RUN, "show", str(folder / "none")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: show: {folder / 'none'}: cannot be read: No such file or directory\n"


def test_ops() -> None:
    lines = call("ops").output.splitlines()
    assert len(lines) == len(OPS) + 5
    assert any("│ softmax " in line and "REDUCE_MAX" in line for line in lines)
    markdown = call("ops", "--markdown").output
    assert markdown.startswith("| op | data types | ranks | StableHLO | TOSA |\n|-|-|-|-|-|\n| `abs` |")
    described = json.loads(call("ops", "--json").output)
    assert [item["name"] for item in described] == list(OPS)
    softmax = next(item for item in described if item["name"] == "softmax")
    assert softmax["tensors"]["input"]["dataTypes"] == ["float32", "float16"]
    assert softmax["parameters"]["axis"]["allowed"]


def test_limits(context: webnn.MLContext) -> None:
    assert json.loads(call("limits", "--device-type", "cpu").output) == context.op_support_limits()
    assert json.loads(call("limits", "--extensions").output) == context.op_support_limits(extensions=True)


def test_show(folder: Path) -> None:
    shown = call("show", folder / "g", "--cost", "--svg", folder / "g.svg")
    assert shown.exit_code == 0
    assert "2 inputs, 1 constants, 4 operations, 4 outputs" in shown.output
    assert "  bias  float32[2, 3]  24 bytes" in shown.output
    assert "  y/../z  %3  float32[2, 3]" in shown.output
    assert "  flops: " in shown.output
    assert "<svg" in (folder / "g.svg").read_text()
    assert "stablehlo.add" in call("show", folder / "g", "--stablehlo").output


def test_run(folder: Path, tmp_path: Path) -> None:
    done = call(
        "run",
        folder / "g",
        "--input",
        f"x={folder / 'x.npy'}",
        "--input",
        f"i=1={folder / 'i.npy'}",
        "--output",
        tmp_path / "out",
    )
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == f"y/../z: float32[2, 3]  min 3 max 3  mean 3  → {tmp_path / 'out' / 'y%2F..%2Fz.npy'}"
    assert lines[1].startswith("file: int64[2]  min -9223372036854775808 max 9007199254740993  →")
    assert lines[-1].startswith("load ")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["b.npy", "file.npy", "four.npy", "y%2F..%2Fz.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y%2F..%2Fz.npy"), np.full((2, 3), 3, np.float32))
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "file.npy"), np.load(folder / "i.npy"))
    assert (np.load(tmp_path / "out" / "b.npy").view(ml_dtypes.bfloat16) == 2).all()


def test_run_with_archives_and_random_numbers(folder: Path, tmp_path: Path) -> None:
    done = call("run", folder / "g", "--input", folder / "both.npz", "--output", tmp_path / "out.npz", "--repeat", 3)
    assert done.exit_code == 0, done.output
    assert "median of 3" in done.output
    results = np.load(tmp_path / "out.npz")
    assert set(results) == {"y/../z", "file", "b", "four"}
    assert results["file"].tolist() == [1, 2]
    one, again, other = (call("run", folder / "g", "--random", "--seed", seed).output.splitlines()[0] for seed in (1, 1, 2))
    assert one == again != other
    done = call("run", folder / "g", "--input", f"x={folder / 'both.npz'}", "--random")
    assert "min 1 max 1" in done.output.splitlines()[0]


def test_weights_that_come_later(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_bytes((folder / "g" / "graph.json").read_bytes())
    done = call("run", tmp_path, "--random")
    assert (done.exit_code, done.stderr) == (2, "error: compute: 1 weights are not loaded: bias; call load_weights\n")
    assert call("run", tmp_path, "--random", "--weights", folder / "g" / "weights.safetensors").exit_code == 0


MISTAKES = [
    (["--nothing"], "No such option"),
    (["nothing"], "No such command"),
    (["show"], "Missing argument"),
    (["ops", "--json", "--markdown"], "allowed: one of them"),
    (["limits", "--device-type", "npu"], "got 'npu'; allowed: 'cpu', 'gpu', 'tpu'"),
    (["show", "g/nothing"], "No such file or directory"),
    (["show", "g", "--svg", "none/g.svg"], "cannot be written"),
    (["show", "x.npy"], "JSON"),
    (["run", "g"], "missing x, i=1"),
    (["run", "g", "--input", "x.npy"], "allowed: NAME=FILE.npy, NAME one of x, i=1; or FILE.npz"),
    (["run", "g", "--input", "q=x.npy"], "NAME one of x, i=1"),
    (["run", "g", "--input", "x=none.npy"], "none.npy: no such file"),
    (["run", "g", "--input", "x=g"], "no such file"),
    (["run", "g", "--input", "x=g/graph.json"], "is not a .npy or .npz file"),
    (["run", "g", "--random", "--input", "x=i.npy"], "got a NumPy array of int64[2]; allowed: float32"),
    (["run", "g", "--random", "--input", "x=shape.npy"], "got shape [3, 2]; allowed: [2, 3]"),
    (["run", "g", "--random", "--input", "x=objects.npy"], "cannot be read"),
    (["run", "g", "--random", "--input", "x=large.npy"], "cannot be read"),
    (["run", "g", "--random", "--input", "x=large.npz"], "cannot be read"),
    (["run", "g", "--random", "--input", "x=short.npy"], "cannot be read"),
    (["run", "g", "--random", "--input", "x=zip.npy"], "cannot be read"),
    (["run", "g", "--random", "--input", "x=two.npz"], "has no array 'x'; there are a, b"),
    (["run", "g", "--random", "--input", "two.npz"], "got an unknown name 'a'"),
    (["run", "g", "--input", "x=x.npy", "--input", "both.npz"], "got a second array for 'x'"),
    (["run", "g", "--random", "--output", "x.npy"], "cannot be written: File exists"),
    (["run", "g", "--random", "--output", "none/out.npz"], "cannot be written"),
    (["run", "g", "--random", "--weights", "x.npy"], "load_weights: x.npy: header"),
    (["run", "g", "--random", "--repeat", "0"], "--repeat"),
    (["conformance", "wpt", "none"], "no such folder"),
]


@pytest.fixture
def mistakes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder as the current one, with files that are no good."""
    monkeypatch.chdir(folder)
    np.save("shape.npy", np.zeros((3, 2), np.float32))
    np.save("objects.npy", np.array([{}], object), allow_pickle=True)
    large = io.BytesIO()
    np.lib.format.write_array_header_1_0(large, {"descr": "<f4", "fortran_order": False, "shape": (2**40,)})
    Path("large.npy").write_bytes(large.getvalue())
    with zipfile.ZipFile("large.npz", "w") as archive:
        archive.writestr("x.npy", large.getvalue())
    Path("short.npy").write_bytes(b"\x93NUMPY\x01")
    Path("zip.npy").write_bytes(b"PK\x03\x04 and nothing")
    np.savez("two.npz", a=np.zeros(1), b=np.zeros(1))


@pytest.mark.usefixtures("mistakes")
@pytest.mark.parametrize(("arguments", "words"), MISTAKES)
def test_a_mistake_is_one_line_and_status_2(arguments: list[str], words: str) -> None:
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert done.stdout == ""


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webnn_xla.optable.rows", lambda: 1 / 0)
    assert isinstance(call("ops").exception, ZeroDivisionError)


def test_file_names() -> None:
    names = {
        "a b.c": "a b.c",
        "../x": "%2E.%2Fx",
        "naïve": "naïve",
        "a\n": "a%0A",
        "\ud800": "%ED%A0%80",
        ".": "%2E",
        "100%": "100%25",
    }
    for name, file in names.items():
        assert arrayfiles._file_name(name) == file
