"""The benchmark's own machinery: which cases run, what the report shows, and that memory is that of the process alone."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("rich")

from rich.console import Console

from benchmarks import __main__ as program
from benchmarks.growth import Series
from benchmarks.measure import interleave, memory
from benchmarks.report import write_html


def options(**changes: Any) -> argparse.Namespace:
    return argparse.Namespace(**({"only": "", "kind": None, "batch": None, "quick": False} | changes))


def case(name: str, kind: str, **changes: Any) -> dict[str, Any]:
    timing = {"median": 2e-3, "low": 1e-3, "high": 4e-3, "rounds": 9}
    return {
        "name": name, "kind": kind, "batch": 1, "failures": {"LiteRT": "wrong: differs by 1"}, "differences": {},
        "bound": {"onnxruntime": timing, "webnn-xla": timing | {"median": 3e-3}, "LiteRT": timing},
        "host": {}, "build": {"webnn-xla": 0.5}, "first": {}, "alone": {},
    } | changes  # fmt: skip


def results(growth: dict[str, Series] | None = None) -> dict[str, Any]:
    alone = {"start": 1.0, "build": 2.5, "first": 0.02, "peak": 2**28, "held": 2**27}
    found: dict[str, Any] = {
        "machine": {
            "date": "2026-01-01", "processor": "one & only", "threads": 1, "clock": "time", "python": "3",
            "versions": {"jax": "1"},
        },
        "missing": {"OpenVINO": "not available: openvino is not installed"},
        "cases": [case("a <network>", "network", alone={"webnn-xla": alone, "onnxruntime": alone}), case("an op", "op")],
    }  # fmt: skip
    return found | ({"growth": growth} if growth else {})


def test_which_cases_run() -> None:
    everything = program.chosen(options())
    assert len({(item.name, item.batch) for item in everything}) == len(everything)
    assert {item.batch for item in everything if item.kind == "network"} == {1, 8}
    names = {item.name for item in program.chosen(options(only="MiniLM|softmax", quick=True))}
    assert names == {"MiniLM-L6, 128 tokens", "softmax 12×128×128"}
    assert all(item.kind == "op" for item in program.chosen(options(kind="op")))
    assert not program.chosen(options(kind="growth"))


def test_the_report_stands_alone_and_shows_everything(tmp_path: Path) -> None:
    line = [[10, 0.1], [100, 0.0], [1000, 2.0]]
    write_html(results({"Growth of n": {"compile": line, "nothing": []}}), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "http" not in text
    assert "prefers-color-scheme:dark" in text
    for wanted in (
        "a &lt;network&gt;",
        "one &amp; only",
        "1.50",
        "256",
        "Growth of n",
        "compile: 2",
        "openvino is not installed",
    ):
        assert wanted in text, wanted


@pytest.mark.parametrize("width", [100, program.WIDE])
def test_the_table(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    program.show(results(), Console(width=width))
    text = capsys.readouterr().out
    for wanted in ("a <network>", "1.50", "1.00!", "wrong: differs by 1", "not available: openvino"):
        assert wanted in text
    assert ("256 / 256" in text) == (width == program.WIDE)
    assert ("3.0 (1.0–4.0)" in text) == (width == program.WIDE)


def test_runs_take_turns() -> None:
    order: list[str] = []
    timings = interleave({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=0.0, warm=1)
    assert set(timings) == {"a", "b"}
    assert all(item.low <= item.median <= item.high and item.rounds == 5 for item in timings.values())


def test_memory_is_that_of_the_process_alone() -> None:
    ballast = np.ones(64 * 2**20, np.uint8)
    code = "import json; from benchmarks.measure import memory; print(json.dumps(memory()))"
    root = Path(__file__).parents[1]
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    held, most = json.loads(child.stdout)
    assert 0 < held <= most < memory()[1]
    assert ballast.all()
