"""Ops in terms of simpler ops, as the specification emulates them: they agree with float64, as the lowerings do."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from quick import QUICK

import webnn_xla as webnn
from webnn_xla.conformance.reference import REFERENCES, Case, Scaled
from webnn_xla.conformance.table import principal_types, run_cases
from webnn_xla.lowering import OPS
from webnn_xla.rewrites.decompose import decompose, emulated

RELATIVE = {"float32": 3e-5, "float16": 3e-2, "bfloat16": 1e-1}
"""The narrow types are rounded at every step."""

OF_THE_SPECIFICATION = {
    *("batch_normalization", "clamp", "sign", "dequantize_linear", "quantize_linear", "elu", "gelu", "gemm", "gru", "gru_cell"),
    *(
        "hard_sigmoid",
        "hard_swish",
        "instance_normalization",
        "layer_normalization",
        "leaky_relu",
        "linear",
        "lstm",
        "lstm_cell",
    ),
    *("prelu", "reduce_log_sum", "reduce_log_sum_exp", "reduce_sum_square", "relu", "sigmoid", "softmax", "softplus"),
    *("softsign", "split", "tanh", "where"),
}


def moderate(case: Case) -> Case | None:
    """The case with floats within 5, where the text does not overflow. None if it is not small, or not finite."""

    def within(array: Any) -> Any:
        return np.clip(array, -5, 5) if array.dtype.kind == "f" else array

    operands = {
        name: list(map(np.asarray, value)) if isinstance(value, list) else np.asarray(value)
        for name, value in case.operands.items()
    }
    arrays = [item for value in operands.values() for item in (value if isinstance(value, list) else [value])]
    if any(array.size > 500 or not np.isfinite(array.astype(np.float64)).all() for array in arrays):
        return None
    moderated = {
        name: [within(item) for item in value] if isinstance(value, list) else within(value) for name, value in operands.items()
    }
    return replace(case, operands=moderated)


def test_which_ops_have_an_emulation() -> None:
    assert set(emulated()) == {*OF_THE_SPECIFICATION, "elementwise_if"}


@pytest.mark.parametrize("op", emulated())
def test_agrees_with_float64(op: str, context: webnn.MLContext) -> None:
    types = principal_types(OPS[op])
    for data_type in types[:1] if len(types) == 1 else (types[0], types[-1]):
        rng = np.random.default_rng(zlib.crc32(f"{op} {data_type}".encode()))
        cases = [case for given in REFERENCES[op].cases(data_type, rng) if (case := moderate(given)) is not None]
        cases = [cases[int(i)] for i in np.linspace(0, len(cases) - 1, min(len(cases), 5))]
        assert cases
        for outcome in run_cases(context, OPS[op], data_type, cases, decompose=True, optimize=False, compiler_options=QUICK):
            for got, want in zip(outcome.got, outcome.wanted, strict=True):
                value, scale = want if isinstance(want, Scaled) else (np.asarray(want), 1)
                assert got.shape == value.shape, outcome
                kind = webnn.MLOperandDataType.of(got.dtype)
                if kind.is_integer:
                    off = np.abs(got.astype(np.float64) - value.astype(np.float64))
                    # A quotient halfway between two integers may round either way after a rounded division.
                    assert off.max(initial=0) <= (op == "quantize_linear"), outcome
                else:
                    allowed = RELATIVE[kind] * np.maximum(np.maximum(np.abs(value), np.abs(scale)), 1)
                    off = np.abs(got.astype(np.float64) - value)
                    assert (np.isnan(got) & np.isnan(value) | (got == value) | (off <= allowed)).all(), outcome


def test_nothing_that_has_an_emulation_is_left(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", [2, 1, 3], "float32")
    weight, recurrent = builder.constant(np.ones((1, 6, 3), np.float32)), builder.constant(np.ones((1, 6, 2), np.float32))
    y = builder.gru(x, weight, recurrent, steps=2, hidden_size=2, label="cell")[0]
    graph = builder._graph({"y": builder.softmax(y, 2), "same": builder.clamp(x)})
    changed = decompose(graph)
    names = {node.op.name for node in changed.nodes}
    assert not names.intersection(emulated())
    assert "identity" in names
    assert any(node.label == "cell" and node.op.name == "matmul" for node in changed.nodes)
    assert [value.descriptor for value in changed.outputs.values()] == [value.descriptor for value in graph.outputs.values()]
