"""ONNX's own node tests: a part of them in every run of the tests, all by ``webnn-xla conformance onnx``."""

from __future__ import annotations

import fnmatch
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from webnn_xla.conformance import onnx_nodes
from webnn_xla.context import ML

STEP = 17
"""Every which case runs here. It shares no factor with the patterns in which the cases are written."""


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    return list(onnx_nodes.cases())


def test_every_seventeenth_case_passes(cases: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_nodes, "cases", lambda names=None: iter(cases))
    report = onnx_nodes.run(step=STEP)
    assert len(report.results) == -(-len(cases) // STEP)
    assert not report.failures, report.failures
    assert report.coverage > 0.95


def test_some_cases_pass_as_written(cases: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rewrites and with the canonical lowerings: all cases by ``webnn-xla conformance onnx --no-optimize``."""
    monkeypatch.setattr(onnx_nodes, "cases", lambda names=None: iter(cases))
    with ML().create_context(accelerated=False, optimize=False) as context:
        report = onnx_nodes.run(step=7 * STEP, context=context)
    assert report.passed
    assert not report.failures, report.failures


def test_exclusions_name_cases_and_causes(cases: list[Any]) -> None:
    names = [case.name for case in cases]
    for pattern, cause in onnx_nodes.exclusions():
        assert ":" in cause, pattern
        assert fnmatch.filter(names, pattern), f"{pattern} excludes nothing"


def test_the_excluded_cases_fail(cases: list[Any]) -> None:
    """What cannot be imported says so before anything is compiled: an exclusion that is not needed would pass."""
    listed = onnx_nodes.exclusions()
    chosen = [case for case in cases if any(fnmatch.fnmatch(case.name, pattern) for pattern, _ in listed)]
    with ML().create_context(accelerated=False) as context:
        passed = [result.name for result in onnx_nodes.run_batch(chosen, context) if result.passed]
    assert not passed


def test_the_runner_can_fail(cases: list[Any]) -> None:
    case = next(case for case in cases if case.name == "test_relu")
    with ML().create_context(accelerated=False) as context:
        assert onnx_nodes.run_batch([case], context)[0].passed
        (given, (wanted,)), *_ = case.data_sets
        case.data_sets = [(given, [wanted + np.float32(0.01)])]
        assert "got 1.7" in onnx_nodes.run_batch([case], context)[0].problem
