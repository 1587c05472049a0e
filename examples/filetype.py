"""Says what kind of data files hold, from their bytes: the magika network as an XLA executable.

    python -m examples.filetype FILE…

The network is that of the PyPI package ``magika`` (``pip install --no-deps magika``). Needs ``webnn-xla[onnx]``.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import webnn_xla as webnn

PADDING = 256
"""Stands for "no byte": the network reads 1,024 numbers from the beginning of a file and 1,024 from its end."""


def model_folder() -> Path:
    """The newest network in the installed package, which is not imported."""
    found = importlib.util.find_spec("magika")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the network is missing: pip install --no-deps magika")
    folders = Path(found.submodule_search_locations[0]).glob("models/*/model.onnx")
    return max(folders).parent


class Identifier:
    """The network and the names of what it tells apart."""

    def __init__(self, folder: Path | None = None, batch: int = 1) -> None:
        folder = folder or model_folder()
        config = json.loads((folder / "config.min.json").read_text())
        self.labels: list[str] = config["target_labels_space"]
        self.size: int = config["beg_size"]
        self.block: int = config["block_size"]
        model = folder / "model.onnx"
        (free,) = webnn.check_onnx(model).free_dimensions
        self.graph = webnn.from_onnx(model, dims={free: batch})
        self.batch = batch

    def features(self, data: bytes) -> np.ndarray[Any, Any]:
        """Bytes of the beginning and the end, white space around them left out."""
        head = data[: self.block].lstrip()[: self.size]
        tail = data[-self.block :].rstrip()[-self.size :]
        features = np.full(2 * self.size, PADDING, np.int32)
        features[: len(head)] = np.frombuffer(head, np.uint8)
        if tail:
            features[-len(tail) :] = np.frombuffer(tail, np.uint8)
        return features

    def __call__(self, files: Sequence[bytes]) -> list[tuple[str, float]]:
        """The label of each, and how probable it is."""
        answers: list[tuple[str, float]] = []
        for start in range(0, len(files), self.batch):
            part = [self.features(data) for data in files[start : start + self.batch]]
            rows = np.stack(part + [part[-1]] * (self.batch - len(part)))
            (probability,) = self.graph.compute({"bytes": rows}).values()
            best = probability.argmax(axis=1)
            answers += [(self.labels[k], float(row[k])) for k, row in zip(best[: len(part)], probability, strict=False)]
        return answers


def main() -> None:
    """Prints a label for each file."""
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m examples.filetype FILE…")
    identify = Identifier()
    for name in sys.argv[1:]:
        ((label, probability),) = identify([Path(name).read_bytes()])
        print(f"{name}: {label} ({probability:.2f})")


if __name__ == "__main__":
    main()
