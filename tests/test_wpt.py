"""All WPT vectors, an op a test, and proof that their runner fails when an op is broken.

The vectors are not in this repository: ``../shared/wpt-vectors`` beside it, or where WEBNN_WPT_VECTORS says.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jax import lax
from typer.testing import CliRunner

import webnn_xla as webnn
from webnn_xla.conformance import wpt
from webnn_xla.conformance.distance import mismatch, ulp_distance
from webnn_xla.conformance.wpt_vectors import load, op_names, to_array
from webnn_xla.lowering import OPS

VECTORS = Path(os.environ.get("WEBNN_WPT_VECTORS", Path(__file__).parents[2] / "shared" / "wpt-vectors"))
there = pytest.mark.skipif(not VECTORS.is_dir(), reason=f"no WPT vectors at {VECTORS} (set WEBNN_WPT_VECTORS)")


@there
@pytest.mark.parametrize("op", op_names(VECTORS) if VECTORS.is_dir() else [])
def test_vectors(op: str, context: webnn.MLContext) -> None:
    report = wpt.run(VECTORS, ops=[op], context=context)
    assert report.results
    assert not report.failures, f"{report}\n" + "\n".join(map(str, report.failures[:5]))


@there
@pytest.mark.parametrize("op", ["conv2d", "convTranspose2d", "gelu", "layerNormalization", "softmax", "averagePool2d"])
def test_vectors_as_written(op: str) -> None:
    """Without rewrites and with the canonical lowerings: all ops by ``webnn-xla conformance wpt --no-optimize``."""
    with webnn.ML().create_context(device_type="cpu", optimize=False) as plain:
        assert not plain.rewrites
        report = wpt.run(VECTORS, ops=[op], context=plain)
    assert report.results
    assert not report.failures, f"{report}\n" + "\n".join(map(str, report.failures[:5]))


# A folder of our own, so that the proofs need no vectors


def graph_case(value: float = 3.0, **changes: Any) -> dict[str, Any]:
    """``add``: [1, 2] + [2, 2] = [value, 4]."""
    float32 = {"dataType": "float32", "shape": [2]}
    case = {
        "id": "c1",
        "name": "add float32",
        "source": "",
        "revision": "",
        "graph": {
            "inputs": {"x": {"data": [1, 2], "descriptor": float32}, "y": {"data": 2, "descriptor": float32, "constant": True}},
            "operators": [{"name": "add", "arguments": [{"a": "x"}, {"b": "y"}], "outputs": "z"}],
            "expectedOutputs": {"z": {"data": [value, 4], "descriptor": float32}},
        },
        "tolerance": {"metricType": "ULP", "value": 1},
    }
    return case | changes


def call_case(**changes: Any) -> dict[str, Any]:
    """``add`` of shapes that do not broadcast throws, and names the label."""
    operand = {"kind": "input", "dataType": "float32"}
    case = {
        "id": "v1",
        "name": "add throws",
        "source": "",
        "op": "add",
        "operands": {"a": operand | {"shape": [2]}, "b": operand | {"shape": [3]}},
        "args": [{"$operand": "a"}, {"$operand": "b"}, {"label": "my_add"}],
        "expect": {"throws": "TypeError", "messageIncludes": "[my_add]"},
    }
    return case | changes


def write(folder: Path, conformance: list[Any] | None = None, validation: list[Any] | None = None) -> Path:
    for kind, cases in (("conformance", conformance), ("validation", validation)):
        (folder / kind).mkdir(exist_ok=True)
        if cases is not None:
            content = {"format": f"webnn-wpt-{kind}/1", "op": "add", "cases": cases}
            (folder / kind / "add.json").write_text(json.dumps(content))
    return folder


def invoke(folder: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(wpt.app, ["wpt", str(folder), *arguments])
    return result.exit_code, result.output


def only_failure(folder: Path) -> str:
    """The problem of the one case that fails; the exit status and the last line say so too."""
    status, output = invoke(folder)
    assert status == 1
    report = wpt.run(folder)
    assert output.splitlines()[-1] == str(report)
    (failure,) = report.failures
    assert failure.problem in output
    return failure.problem


def test_passes_when_all_is_right(tmp_path: Path) -> None:
    status, output = invoke(write(tmp_path, [graph_case()], [call_case()]), "--json", str(tmp_path / "report.json"))
    assert status == 0
    assert output.splitlines()[-1] == "2 passed, 0 failed"
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["passed"], report["failed"], report["failures"]) == (2, 0, [])
    assert report["ops"]["add"]["conformance"] == {"passed": 1, "failed": 0}


def test_a_wrong_value_fails_and_says_where(tmp_path: Path) -> None:
    problem = only_failure(write(tmp_path, [graph_case(3.0), graph_case(3.5, id="c2")]))
    assert problem == "output z: element [0]: got 3.0, wanted 3.5, distance 2.09715e+06 ULP, allowed 1"


def test_one_ulp_is_within_one_ulp_and_two_are_not(tmp_path: Path) -> None:
    near = float(np.nextafter(np.float32(3), np.float32(4)))
    far = float(np.nextafter(np.float32(near), np.float32(4)))
    assert not wpt.run(write(tmp_path, [graph_case(near)])).failures
    assert "distance 2 ULP, allowed 1" in only_failure(write(tmp_path, [graph_case(far)]))


def test_a_broken_lowering_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPS["add"], "lowering", staticmethod(lambda a, b: lax.sub(a, b)))
    assert "got -1.0, wanted 3.0" in only_failure(write(tmp_path, [graph_case()]))


@pytest.mark.parametrize(
    ("lowering", "message"),
    [
        (lambda a, b: lax.convert_element_type(lax.add(a, b), np.float16), "lowering gave float16[2]"),
        (lambda a, b: lax.reshape(lax.add(a, b), (2, 1)), "lowering gave float32[2, 1]"),
        (lambda a, b: lax.add(a, lax.reshape(b, (1, 2))), "lowering failed"),
    ],
)
def test_a_lowering_of_wrong_type_or_shape_fails(
    lowering: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OPS["add"], "lowering", staticmethod(lowering))
    assert message in only_failure(write(tmp_path, [graph_case()]))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda a, b: a.with_type(webnn.MLOperandDataType.FLOAT16), "got float16[2], wanted float32[2]"),
        (lambda a, b: a.with_shape([2, 1]), "got float32[2, 1], wanted float32[2]"),
        (lambda a, b: [a], "returned a list of 1"),
    ],
)
def test_a_rule_of_wrong_type_or_shape_fails(rule: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPS["add"], "rule", staticmethod(rule))
    assert message in only_failure(write(tmp_path, [graph_case()]))


def test_a_check_that_is_missing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPS["add"], "rule", staticmethod(lambda a, b: a))
    assert "wanted TypeError" in only_failure(write(tmp_path, [graph_case()], [call_case()]))


def test_an_error_that_is_a_bug_is_not_the_error_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(a: Any, b: Any) -> Any:
        raise TypeError("[my_add]")

    monkeypatch.setattr(OPS["add"], "rule", staticmethod(rule))
    assert "got TypeError: [my_add], wanted TypeError" in only_failure(write(tmp_path, None, [call_case()]))


def test_a_message_without_the_label_fails(tmp_path: Path) -> None:
    expect = {"throws": "TypeError", "messageIncludes": "[another]"}
    assert "wanted '[another]' in it" in only_failure(write(tmp_path, None, [call_case(expect=expect)]))


@pytest.mark.parametrize(
    ("expect", "problem"),
    [
        ({"output": {"dataType": "float16", "shape": [2]}}, "the output: got float32[2], wanted float16[2]"),
        ({"output": {"dataType": "float32", "shape": []}}, "the output: got float32[2], wanted float32[]"),
        ({"outputCount": 2}, "wanted 2"),
        ({"throws": "TypeError"}, "wanted TypeError"),
    ],
)
def test_wrong_results_of_a_call_fail(expect: Any, problem: str, tmp_path: Path) -> None:
    args = [{"$operand": "a"}, {"$operand": "a"}]
    assert problem in only_failure(write(tmp_path, None, [call_case(args=args, expect=expect)]))


def test_an_operand_that_the_case_lacks_is_not_taken_for_the_error_wanted(tmp_path: Path) -> None:
    args = [{"$operand": "a"}, {"$operand": "misspelt"}]
    assert "no operand 'misspelt'" in only_failure(
        write(tmp_path, None, [call_case(args=args, expect={"throws": "TypeError"})])
    )


def test_an_unknown_option_or_op_fails(tmp_path: Path) -> None:
    case = graph_case()
    case["graph"]["operators"][0]["arguments"].append({"options": {"keepDims": True}})
    assert "has no option keepDims" in only_failure(write(tmp_path, [case]))
    case["graph"]["operators"][0]["name"] = "subtract"
    assert "no op subtract" in only_failure(write(tmp_path, [case]))


def test_arguments_in_another_order_fail(tmp_path: Path) -> None:
    case = graph_case()
    case["graph"]["operators"][0]["arguments"].reverse()
    assert "takes ['a', 'b']" in only_failure(write(tmp_path, [case]))


def test_one_bad_case_leaves_the_others_of_its_graph_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lower(a: Any, b: Any) -> Any:
        return lax.add(a, b) if a.dtype == np.float32 else lax.add(a, lax.reshape(b, (1, 2)))

    monkeypatch.setattr(OPS["add"], "lowering", staticmethod(lower))
    bad = json.loads(json.dumps(graph_case(id="bad")).replace("float32", "float16"))
    report = wpt.run(write(tmp_path, [graph_case(), bad, graph_case(id="c3")]))
    assert [result.id for result in report.failures] == ["bad"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "got the format 'list'"),
        ('{"format": "webnn-wpt-conformance/2", "cases": []}', "webnn-wpt-conformance/2"),
        ('{"format": "webnn-wpt-conformance/1"}', "no list of cases"),
        ('{"format": "webnn-wpt-conformance/1", "cases": []}', "no cases"),
        ('{"format": "webnn-wpt-conformance/1", "cases": [{}]}', "case 0: no 'graph'"),
        ('{"format": "webnn-wpt-conformance/1", "cases": [1]}', "case 0"),
        (json.dumps({"format": "webnn-wpt-conformance/1", "cases": [graph_case("x")]}), "case c1: got 'x' as a number"),
    ],
)
def test_damaged_files_end_with_status_2_and_one_line(content: str, message: str, tmp_path: Path) -> None:
    folder = write(tmp_path, [])
    (folder / "conformance" / "add.json").write_text(content)
    status, output = invoke(folder)
    assert status == 2
    assert output.startswith("error: ")
    assert message in output
    assert output.count("\n") == 1


def test_wrong_paths_and_ops_end_with_status_2_and_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path, [graph_case()])
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ([str(tmp_path / "nowhere")], "no such folder"),
        ([str(tmp_path / "empty")], "no vectors here"),
        ([str(folder), "--op", "subtract"], "no vectors of 'subtract'"),
        ([str(folder), "--json", str(tmp_path / "nowhere" / "report.json")], "no such folder"),
        ([str(folder), "--device-type", "abacus"], "abacus"),
    ):
        result = CliRunner().invoke(wpt.app, ["wpt", *arguments])
        assert result.exit_code == 2
        assert message in result.output
        assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    "command", ["wpt", "wpt --through stablehlo", "wpt --through tosa", "stablehlo-testdata", "onnx", "spec"]
)
def test_a_report_that_cannot_be_written_ends_before_the_work(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work began")

    for name in ("wpt.run", "wpt_oracles.run_through", "stablehlo_testdata.run", "onnx_nodes.run", "specifications.run"):
        monkeypatch.setattr(f"webnn_xla.conformance.{name}", work)
    name, *options = command.split()
    folders = [] if name in ("onnx", "spec") else [str(write(tmp_path, [graph_case()]))]

    def refused(path: Path, message: str) -> None:
        result = CliRunner().invoke(wpt.app, [name, *folders, *options, "--json", str(path)])
        assert (result.exit_code, result.output) == (2, f"error: {path}: {message}\n")

    refused(tmp_path / "nowhere" / "report.json", "no such folder")
    refused(tmp_path, "is a folder")
    monkeypatch.setattr("os.access", lambda _, mode: mode != os.W_OK)  # root may write everywhere
    refused(tmp_path / "report.json", "may not be written")
    assert not (tmp_path / "report.json").exists()


def test_show_limits_the_failures_shown(tmp_path: Path) -> None:
    folder = write(tmp_path, [graph_case(9.0, id=f"c{index}") for index in range(5)])
    status, output = invoke(folder, "--show", "2")
    assert status == 1
    assert output.count("FAILED") == 2
    assert "… and 3 more" in output


# Distances and numbers


def test_ulp_of_float32_orders_by_sign_and_magnitude() -> None:
    tiny = float(np.finfo(np.float32).smallest_subnormal)
    got = np.array([0.0, tiny, 1.0, np.inf], np.float32)
    want = np.array([-0.0, -tiny, 1.0, np.finfo(np.float32).max], np.float32)
    assert ulp_distance(got, want).tolist() == [0, 2, 0, 1]


def test_ulp_of_float16_compares_patterns() -> None:
    got = np.array([0.0, 1.0, 1.0], np.float16)
    want = np.array([-0.0, 1 + 2**-10, -1.0], np.float16)
    assert ulp_distance(got, want).tolist() == [0, 1, 0x8000]


def test_distances_of_integers_are_exact() -> None:
    big = np.array([2**64 - 1, 0], np.uint64)
    assert ulp_distance(big, big[::-1]).tolist() == [2**64 - 1, 2**64 - 1]
    ends = np.array([-(2**63), 2**63 - 1], np.int64)
    assert ulp_distance(ends, ends[::-1]).tolist() == [2**64 - 1] * 2
    assert mismatch(np.array([2**53 + 1]), np.array([2**53]), "ULP", 0) is not None


@pytest.mark.parametrize("metric", ["ULP", "ATOL"])
def test_nan_equals_only_nan(metric: str) -> None:
    nan, one = np.array([np.nan], np.float32), np.array([1], np.float32)
    assert mismatch(nan, nan, metric, 0) is None
    for got, want in ((nan, one), (one, nan)):
        found = mismatch(got, want, metric, 2**40)
        assert found is not None
        assert found.distance == np.inf


def test_absolute_tolerance() -> None:
    got, want = np.array([1.0, np.inf], np.float32), np.array([1.25, np.inf], np.float32)
    assert mismatch(got, want, "ATOL", 0.25) is None
    assert mismatch(got, want, "ATOL", 0.2) is not None


def test_signs_of_zero_count_only_when_asked() -> None:
    got, want = np.array([[1, -0.0]], np.float32), np.array([[1, 0.0]], np.float32)
    assert mismatch(got, want, "ULP", 0) is None
    found = mismatch(got, want, "ULP", 0, signed_zero=True)
    assert found is not None
    assert found.position == (0, 1)


def test_numbers_of_the_files_are_exact() -> None:
    types = webnn.MLOperandDataType
    assert to_array([2**64 - 1], types.UINT64).tolist() == [2**64 - 1]
    assert to_array([-(2**63)], types.INT64).tolist() == [-(2**63)]
    assert np.signbit(to_array([-0.0], types.FLOAT16)[0])
    assert np.isnan(to_array(["NaN"], types.FLOAT32)[0])
    assert to_array(["-Infinity", 1e300], types.FLOAT32).tolist() == [-np.inf, np.inf]
    assert to_array([-8, 7], types.INT4).astype(int).tolist() == [-8, 7]
    for wrong, data_type in ((8, types.INT4), (-1, types.UINT8), (1.5, types.INT32), (True, types.INT32), ("1", types.INT32)):
        with pytest.raises(ValueError, match="got"):
            to_array([wrong], data_type)


@there
def test_every_case_of_the_files_is_run() -> None:
    loaded = [load(VECTORS, op) for op in op_names(VECTORS)]
    counted = {"conformance": 0, "validation": 0}
    for kind in counted:
        for path in (VECTORS / kind).glob("*.json"):
            counted[kind] += len(json.loads(path.read_text())["cases"])
    assert counted == {
        "conformance": sum(len(vectors.conformance) for vectors in loaded),
        "validation": sum(len(vectors.validation) for vectors in loaded),
    }


@there
def test_corrected_vectors_are_wrong_as_described() -> None:
    (case,) = [case for case in load(VECTORS, "l2Pool2d").conformance if case.id == "8f254e0857db"]
    raw = json.loads((VECTORS / "conformance" / "l2Pool2d.json").read_text())["cases"]
    (as_written,) = [item for item in raw if item["id"] == "8f254e0857db"]
    (wrong,) = as_written["graph"]["expectedOutputs"].values()
    (right,) = case.outputs.values()
    data = np.array(wrong["data"])
    elements = [2, 8, 11, 17]
    # Two numbers below 100 have no norm above 142.
    assert max(as_written["graph"]["inputs"]["l2Pool2dInput"]["data"]) < 100
    assert (data[elements] > 142).all()
    np.testing.assert_allclose(right.data.reshape(-1)[elements] ** 2, data[elements], rtol=1e-6)
    kept = [index for index in range(data.size) if index not in elements]
    np.testing.assert_array_equal(right.data.reshape(-1)[kept], data[kept].astype(np.float32))
