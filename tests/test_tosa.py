"""TOSA: what the exporter writes is valid, and the reference model of TOSA computes what the graph means.

The model computes floats in float64 here, so that differences are those of the rules and not of its arithmetic.
"""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import webnn_xla as webnn
from webnn_xla import MLOperandDataType, tosa
from webnn_xla.conformance.compare import worst
from webnn_xla.conformance.emitted import emitted_tosa
from webnn_xla.conformance.oracle import Oracle
from webnn_xla.conformance.reference import REFERENCES, Case, Scaled
from webnn_xla.conformance.table import build_mixed, principal_types, wanted
from webnn_xla.conformance.tosa_reference import WORKER, run_tosa
from webnn_xla.lowering import OPS
from webnn_xla.lowering.tosa import MAX_RANK

CASES = 4
"""Of each op and data type."""

WIDE_INTEGERS = ("int32", "uint32", "int64", "uint64")

REFUSED = {
    "pow": {"int32", "uint32", "int64", "uint64", "int8", "uint8"},
    "div": {"uint64"},
}
"""Data types that TOSA cannot say, by op. All refuse 4-bit integers."""


def has_tools() -> bool:
    try:
        tosa.find_tool("tosa-opt")
        tosa.find_tool("tosa_reference_model")
    except webnn.NotSupportedError:
        return False
    return importlib.util.find_spec("tosa_reference_model") is not None


needs_tools = pytest.mark.skipif(
    not has_tools(),
    reason="tosa-tools is not installed: pip install --no-deps tosa-tools && pip install flatbuffers jsonschema semver",
)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle(WORKER, timeout=120) as made:
        yield made


def usable(case: Case, data_type: MLOperandDataType) -> bool:
    """TOSA leaves the overflow of wide integers unpredictable; its model takes no 4-bit arguments; loops are long texts."""
    small = any(str(kind).rpartition(".")[2].lower() in ("int4", "uint4") for kind in case.types.values())
    return case.attributes.get("steps", 1) <= 8 and not small and not ("corner" in case.note and data_type in WIDE_INTEGERS)


def some(op: str, data_type: MLOperandDataType, count: int = CASES) -> list[Case]:
    """A few cases, from all over the list."""
    rng = np.random.default_rng(zlib.crc32(f"{op} {data_type}".encode()))
    cases = [case for case in REFERENCES[op].cases(data_type, rng) if usable(case, data_type)]
    return [cases[index] for index in sorted({round(i) for i in np.linspace(0, len(cases) - 1, count)})] if cases else []


def types_of(op: str) -> list[MLOperandDataType]:
    return [data_type for data_type in principal_types(OPS[op], extensions=True) if data_type.bits > 4]


@pytest.mark.parametrize("op", OPS)
def test_the_tosa_line_is_what_the_rule_emits(op: str) -> None:
    assert OPS[op].tosa.split() == list(emitted_tosa(OPS[op]))


@needs_tools
@pytest.mark.parametrize("op", OPS)
def test_op_agrees_with_float64(op: str, context: webnn.MLContext, oracle: Oracle) -> None:
    cases = [(OPS[op], data_type, case) for data_type in types_of(op) for case in some(op, data_type)]
    built = build_mixed(context, cases)
    # Quotients of float64 are not on the same side of a half as those of float32.
    precise = op != "quantize_linear"
    graph = built.builder._graph(built.outputs)
    results, module = run_tosa(graph, built.inputs, allow_partial=True, precise=precise, oracle=oracle)
    refused = set()
    for index, (_, data_type, case) in enumerate(cases):
        for number, want in enumerate(wanted(OPS[op], case, data_type)):
            got = results.get(f"{index}.{number}")
            if got is None:
                refused.add(data_type.value)
                continue
            value, scale = want if isinstance(want, Scaled) else (np.asarray(want), None)
            kind = MLOperandDataType.of(got.dtype)
            allowed = 0 if kind.is_integer else OPS[op].tolerance.float32 + 4 if kind == "float32" else 2
            difference = worst(got, value, kind, scale)
            assert difference is None or difference.distance <= allowed, f"{data_type} {case}: {difference}"
    assert refused == REFUSED.get(op, set()), [str(refusal) for refusal in module.refusals]


@needs_tools
def test_everything_is_valid_in_1_0(context: webnn.MLContext) -> None:
    cases = [(OPS[op], kind, case) for op in OPS for kind in types_of(op)[:1] for case in some(op, kind, 3)]
    built = build_mixed(context, cases)
    module = tosa.export(built.builder._graph(built.outputs), "1.0", allow_partial=True)
    module.validate()
    assert {refusal.reason for refusal in module.refusals} <= {"TOSA 1.0 has no 64-bit integers; 1.1 has"}
    assert "xi64>" not in module.text.partition("->")[2].partition("{\n")[2]


@needs_tools
def test_float64_mode_is_more_precise(builder: webnn.MLGraphBuilder, oracle: Oracle) -> None:
    x = np.linspace(-1e-3, 1e-3, 50, dtype=np.float32)
    graph = builder.build({"y": builder.tanh(builder.input("x", [50], "float32"))}).graph
    plain, precise = (run_tosa(graph, {"x": x}, precise=mode, oracle=oracle)[0]["y"] for mode in (False, True))
    exact = np.tanh(x.astype(np.float64))
    assert plain.shape == precise.shape == (50,)
    assert np.abs(precise - exact).max() <= np.abs(plain - exact).max()
    np.testing.assert_allclose(precise, exact, rtol=1e-7)


@needs_tools
def test_constant_4_bit_weights(builder: webnn.MLGraphBuilder, oracle: Oracle) -> None:
    weights = np.arange(-8, 8).reshape(4, 4)
    x = builder.input("x", [2, 4], "float32")
    for kind, shift in (("int4", 0), ("uint4", 8)):
        constant = builder.constant((weights + shift).astype(MLOperandDataType(kind).numpy))
        scale = builder.constant(np.full((1, 4), 0.5, np.float32))
        zero = builder.constant(np.full((1, 4), shift).astype(MLOperandDataType(kind).numpy))
        graph = builder._graph({"y": builder.matmul(x, builder.dequantize_linear(constant, scale, zero))})
        results, _ = run_tosa(graph, {"x": np.eye(2, 4, dtype=np.float32)}, oracle=oracle)
        assert results["y"].tolist() == (weights[:2] * 0.5).tolist()


# Refusals


def test_refusals_name_op_label_and_reason(builder: webnn.MLGraphBuilder) -> None:
    n = builder.input("n", [2], "int32")
    x = builder.input("x", [2], "float32")
    graph = builder.build({"p": builder.pow(n, n, label="power"), "y": builder.neg(builder.exp(x)), "q": builder.abs(n)})
    with pytest.raises(webnn.NotSupportedError, match=r"1 of 4 ops: pow \[power\]: TOSA has POW for floats only"):
        graph.tosa()
    module = graph.tosa(allow_partial=True)
    assert [str(refusal) for refusal in module.refusals] == ["pow [power]: TOSA has POW for floats only"]
    assert module.outputs == ("y", "q")
    assert "POW" not in module.operators


def test_what_depends_on_a_refusal_is_left_out(builder: webnn.MLGraphBuilder) -> None:
    n = builder.input("n", [2], "int32")
    module = builder.build({"y": builder.neg(builder.pow(n, n)), "z": builder.neg(n)}).tosa(allow_partial=True)
    assert module.outputs == ("z",)
    assert len(module.refusals) == 1


def test_versions_and_profiles_limit_types(builder: webnn.MLGraphBuilder) -> None:
    n, x = builder.input("n", [2], "int64"), builder.input("x", [2], "float32")
    graph = builder.build({"n": builder.neg(n), "x": builder.neg(x)})
    with pytest.raises(webnn.NotSupportedError, match=r"1 of 2 ops: neg: TOSA 1\.0 has no 64-bit integers"):
        graph.tosa("1.0")
    assert not graph.tosa("1.1").refusals
    with pytest.raises(webnn.NotSupportedError, match="neg: floating-point numbers need the profile pro_fp"):
        graph.tosa("1.1", profile="pro_int")


@pytest.mark.parametrize("arguments", [{"version": "0.9"}, {"profile": "main"}, {"profile": ()}])
def test_unknown_versions_and_profiles(builder: webnn.MLGraphBuilder, arguments: dict[str, Any]) -> None:
    graph = builder.build({"y": builder.neg(builder.input("x", [2], "float32"))})
    with pytest.raises(webnn.ArgumentError, match="allowed: "):
        graph.tosa(**arguments)


def test_long_sequences_are_refused(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", [65, 1, 2], "float32")
    weight = builder.input("w", [1, 6, 2], "float32")
    graph = builder.build({"y": builder.gru(x, weight, weight, 65, 2)[0]})
    with pytest.raises(webnn.NotSupportedError, match="gru: 65 steps; at most 64"):
        graph.tosa()


def test_repeated_constant_indices_are_refused(builder: webnn.MLGraphBuilder) -> None:
    data, other = builder.input("d", [4], "float32"), builder.input("u", [2], "float32")
    twice = builder.constant(np.array([1, -3], np.int32))
    with pytest.raises(webnn.NotSupportedError, match="scatter_elements: indices repeat"):
        builder.build({"y": builder.scatter_elements(data, twice, other)}).tosa()


# Text


def test_labels_and_names_are_in_the_text(builder: webnn.MLGraphBuilder) -> None:
    text = str(builder.build({'a "name"': builder.neg(builder.input("été", [2], "float32"), label="the label")}).tosa())
    assert 'loc("the label")' in text
    assert 'tosa.tensor_name = "\\C3\\A9t\\C3\\A9"' in text
    assert 'tosa.tensor_name = "a \\22name\\22"' in text


def test_many_dimensions_travel_flat(builder: webnn.MLGraphBuilder) -> None:
    shape = [2, 1, 3, 1, 2, 1, 2]
    assert len(shape) > MAX_RANK
    text = builder.build({"y": builder.transpose(builder.input("x", shape, "float32"))}).tosa().text
    assert "%arg0: tensor<24xf32>" in text
    assert "tosa.transpose" in text


def test_without_the_tools(monkeypatch: pytest.MonkeyPatch, builder: webnn.MLGraphBuilder) -> None:
    module = builder.build({"y": builder.neg(builder.input("x", [2], "float32"))}).tosa()
    monkeypatch.setattr(tosa.os, "access", lambda *_: False)
    monkeypatch.setattr(tosa.shutil, "which", lambda _: None)
    with pytest.raises(webnn.NotSupportedError, match="tosa-opt is not installed: pip install"):
        module.validate()


# Networks


def minilm(context: webnn.MLContext) -> tuple[webnn.MLGraph, dict[str, Any]]:
    """One small layer of the encoder, with random weights."""
    from examples.minilm import Config, Encoder

    rng = np.random.default_rng(0)
    builder = webnn.MLGraphBuilder(context)
    config = Config(layers=1, hidden=32, heads=4, intermediate=64, vocabulary=50, positions=16, epsilon=1e-12)
    graph = builder.build(Encoder(builder, config, batch=2, length=8).build())
    graph.load_weights(
        {
            name: rng.normal(0, 0.2, tuple(value.descriptor.shape)).astype(np.float32)
            for name, value in graph.graph.named_constants().items()
        }
    )
    tokens = rng.integers(0, 50, (2, 8)).astype(np.int32)
    return graph, {"tokens": tokens, "mask": np.array([[1] * 8, [1] * 5 + [0] * 3], np.int32)}


def cnn(context: webnn.MLContext) -> tuple[webnn.MLGraph, dict[str, Any]]:
    """Convolutions of all kinds, pooling, a classifier."""
    rng = np.random.default_rng(0)
    b = webnn.MLGraphBuilder(context)

    def weight(*shape: int) -> webnn.MLOperand:
        return b.constant(rng.normal(0, 0.3, shape).astype(np.float32))

    x = b.input("x", [2, 3, 15, 15], "float32")
    x = b.relu(b.conv2d(x, weight(8, 3, 3, 3), bias=weight(8), strides=[2, 2], padding=[1, 1, 1, 1]))
    x = b.batch_normalization(x, weight(8), b.abs(weight(8)), scale=weight(8), bias=weight(8))
    x = b.hard_swish(b.conv2d(x, weight(8, 1, 3, 3), groups=8, padding=[1, 1, 1, 1]))
    x = b.add(x, b.conv2d(x, weight(8, 4, 1, 1), groups=2))
    x = b.max_pool2d(x, window_dimensions=[3, 3], strides=[2, 2], padding=[0, 1, 0, 1])
    x = b.resample2d(b.conv_transpose2d(x, weight(8, 4, 2, 2), strides=[2, 2]), mode="linear", sizes=[5, 7])
    x = b.reshape(b.average_pool2d(x), [2, 4])
    y = b.softmax(b.gemm(x, weight(5, 4), c=weight(5), b_transpose=True), 1)
    return b.build({"y": y}), {"x": rng.normal(0, 1, (2, 3, 15, 15)).astype(np.float32)}


@needs_tools
@pytest.mark.parametrize("network", [minilm, cnn])
@pytest.mark.parametrize("precise", [False, True])
def test_networks_agree_with_xla(network: Any, precise: bool, context: webnn.MLContext, oracle: Oracle) -> None:
    graph, inputs = network(context)
    results, module = run_tosa(graph.graph, inputs, version="1.0", precise=precise, oracle=oracle)
    assert not module.refusals
    for name, expected in graph.compute(inputs).items():
        np.testing.assert_allclose(results[name], expected, rtol=2e-4, atol=2e-5)
