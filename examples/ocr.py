"""Reads the text in an image: PP-OCR's three networks, from their ONNX files to XLA executables.

    python -m examples.ocr IMAGE.png

The networks are those of the PyPI package ``rapidocr-onnxruntime`` (``pip install --no-deps rapidocr-onnxruntime``):
one finds text, one tells whether a line is upside down, one reads it. Needs ``webnn-xla[onnx]`` and Pillow.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy import ndimage

import webnn_xla as webnn

Array = np.ndarray[Any, Any]

WIDTHS = (96, 160, 320, 640, 1280)
"""Lines are padded to one of these, so that few graphs are compiled."""


@dataclass(frozen=True)
class Line:
    """A line of text: where it is (left, top, right, bottom), what it says, and how sure that is."""

    box: tuple[int, int, int, int]
    text: str
    confidence: float


def models() -> Path:
    """The folder of the networks in the installed package, which is not imported."""
    found = importlib.util.find_spec("rapidocr_onnxruntime")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the networks are missing: pip install --no-deps rapidocr-onnxruntime")
    return Path(found.submodule_search_locations[0]) / "models"


class Reader:
    """The three networks. Each compiles once for every size of input that it meets."""

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or models()
        self.detector = webnn.Session(folder / "ch_PP-OCRv4_det_infer.onnx")
        self.direction = webnn.Session(folder / "ch_ppocr_mobile_v2.0_cls_infer.onnx")
        self.recognizer = webnn.Session(folder / "ch_PP-OCRv4_rec_infer.onnx")
        # The recognizer carries its alphabet; 0 is the blank of connectionist temporal classification.
        metadata = {entry.key: entry.value for entry in self.recognizer.model.proto.metadata_props}
        self.alphabet = ["", *metadata["character"].splitlines(), " "]

    def read(self, image: Image.Image) -> list[Line]:
        """The lines of an image, from top to bottom."""
        lines = []
        for box in self.find(image):
            crop = image.convert("RGB").crop(box)
            if self.is_upside_down(crop):
                crop = crop.rotate(180)
            text, confidence = self.read_line(crop)
            if text:
                lines.append(Line(box, text, confidence))
        return lines

    def find(self, image: Image.Image) -> list[tuple[int, int, int, int]]:
        """Boxes of lines, grown by what the network shrinks text regions by."""
        width, height = (max(32, round(side / 32) * 32) for side in image.size)
        x = normalized(image.convert("RGB").resize((width, height)), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
        (probability,) = self.detector.run({"x": x}).values()
        labels, _ = ndimage.label(probability[0, 0] > 0.3)
        boxes = []
        for rows, columns in ndimage.find_objects(labels):
            tall, wide = rows.stop - rows.start, columns.stop - columns.start
            if min(tall, wide) < 4:
                continue
            grow = round(0.5 * 1.6 * tall * wide / (tall + wide))
            box = (columns.start - grow, rows.start - grow, columns.stop + grow, rows.stop + grow)
            scale = (image.width / width, image.height / height) * 2
            left, top, right, bottom = (round(side * factor) for side, factor in zip(box, scale, strict=True))
            boxes.append((max(left, 0), max(top, 0), min(right, image.width), min(bottom, image.height)))
        return sorted(boxes, key=lambda box: (box[1], box[0]))

    def is_upside_down(self, line: Image.Image) -> bool:
        """True if the network is sure of it."""
        (probability,) = self.direction.run({"x": fitted(line, 192)}).values()
        return bool(probability[0, 1] > 0.9)

    def read_line(self, line: Image.Image) -> tuple[str, float]:
        """The text of a line, and the mean probability of its characters."""
        natural = round(48 * line.width / line.height)
        width = next((width for width in WIDTHS if width >= natural), WIDTHS[-1])
        (probability,) = self.recognizer.run({"x": fitted(line, width)}).values()
        best = probability[0].argmax(axis=1)
        kept = (best != 0) & (best != np.concatenate([[0], best[:-1]]))
        sure = probability[0].max(axis=1)[kept]
        return "".join(self.alphabet[k] for k in best[kept]), float(sure.mean()) if sure.size else 0.0


def normalized(image: Image.Image, mean: list[float], deviation: list[float]) -> Array:
    """[1, 3, height, width] in float32; blue first, as the networks were trained."""
    pixels = np.asarray(image, np.float32)[:, :, ::-1] / 255
    scaled = (pixels - np.array(mean, np.float32)) / np.array(deviation, np.float32)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], np.float32)


def fitted(line: Image.Image, width: int) -> Array:
    """A line scaled to a height of 48, and padded or pressed to ``width``."""
    natural = max(1, min(width, round(48 * line.width / line.height)))
    pixels = normalized(line.convert("RGB").resize((natural, 48)), [0.5] * 3, [0.5] * 3)
    return np.pad(pixels, [(0, 0), (0, 0), (0, 0), (0, width - natural)])


def main() -> None:
    """Prints every line with its confidence and place."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m examples.ocr IMAGE")
    for line in Reader().read(Image.open(sys.argv[1])):
        print(f"{line.text}  ({line.confidence:.2f} at {line.box})")


if __name__ == "__main__":
    main()
