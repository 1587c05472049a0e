"""Transcribes speech: Whisper's encoder and decoder from a user's ONNX files, greedily.

    python -m examples.whisper_tiny FOLDER SPEECH.wav

FOLDER is an export of openai/whisper-tiny as browsers use it (for example onnx-community/whisper-tiny): the files
``encoder_model.onnx`` and ``decoder_model.onnx``, in it or in its folder ``onnx``, ``tokenizer.json``, and, if there is one,
``generation_config.json``, which names tokens that are not to be said. SPEECH.wav is mono, 16-bit, at 16 kHz. Needs
``webnn-xla[onnx]`` and tokenizers.
"""

from __future__ import annotations

import json
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

import webnn_xla as webnn

Array = np.ndarray[Any, Any]

RATE, SECONDS, WINDOW, HOP, MELS = 16000, 30, 400, 160, 80
PROMPT = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")
LIMIT = 224
LENGTHS = [16, 64, len(PROMPT) + LIMIT]
"""That the text is padded to. The decoder looks back only, so what comes after the text changes nothing in it; a cache of
keys and values would want another graph for each token."""


def mel_filters() -> Array:
    """[MELS, WINDOW // 2 + 1]: triangles on the scale of Slaney, each of area 1."""

    def to_mel(hertz: Array) -> Array:
        return np.where(hertz < 1000, hertz * 3 / 200, 15 + np.log(np.maximum(hertz, 1) / 1000) * 27 / np.log(6.4))

    def to_hertz(mel: Array) -> Array:
        return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))

    edges = to_hertz(np.linspace(0, float(to_mel(np.array(RATE / 2))), MELS + 2))
    bins = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    return np.asarray(triangles * (2 / (edges[2:] - edges[:-2]))[:, None])


def log_mel(samples: Array) -> Array:
    """[1, MELS, 3000] in float32: what the encoder reads of 30 seconds."""
    padded = np.pad(samples[: RATE * SECONDS], (0, max(0, RATE * SECONDS - len(samples))))
    padded = np.pad(padded, WINDOW // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][: RATE * SECONDS // HOP]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    levels = np.log10(np.maximum(mel_filters() @ power.T, 1e-10))
    levels = np.maximum(levels, levels.max() - 8)
    return np.asarray(((levels + 4) / 4)[None], np.float32)


class Transcriber:
    """The two networks and the tokenizer."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        files = folder / "onnx" if (folder / "onnx").is_dir() else folder
        self.limit = limit
        self.encoder = webnn.Session(files / "encoder_model.onnx")
        model = webnn.Session(files / "decoder_model.onnx").model
        length = next(port.shape[1] for port in model.inputs if port.name == "input_ids" and port.shape)
        self.decoder = webnn.Session(model, buckets={str(length): LENGTHS})
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = folder / "generation_config.json"
        settings = json.loads(config.read_text()) if config.exists() else {}
        self.never = settings.get("suppress_tokens") or []
        self.never_first = settings.get("begin_suppress_tokens") or []

    def __call__(self, samples: Array) -> str:
        """The text of up to 30 seconds of speech, samples from -1 to 1 at 16 kHz."""
        states = next(iter(self.encoder.run({"input_features": log_mel(samples)}).values()))
        end = self.tokenizer.token_to_id("<|endoftext|>")
        prompt = [self.tokenizer.token_to_id(token) for token in PROMPT]
        text: list[int] = []
        while len(text) < self.limit:
            tokens = np.array([prompt + text])
            logits = self.decoder.run({"input_ids": tokens, "encoder_hidden_states": states}, ["logits"])["logits"]
            scores = logits[0, tokens.size - 1]
            scores[self.never if text else [*self.never, *self.never_first]] = -np.inf
            token = int(scores.argmax())
            if token == end:
                break
            text.append(token)
        return str(self.tokenizer.decode(text)).strip()


def read_wave(path: Path) -> Array:
    """Samples from -1 to 1."""
    with wave.open(str(path)) as file:
        if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, RATE):
            raise SystemExit(f"{path}: mono, 16-bit, at {RATE} Hz, please")
        return np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768


def main() -> None:
    """Prints the transcript."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m examples.whisper_tiny FOLDER SPEECH.wav")
    print(Transcriber(Path(sys.argv[1]))(read_wave(Path(sys.argv[2]))))


if __name__ == "__main__":
    main()
