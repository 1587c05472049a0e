"""Transcribes speech: Whisper's encoder and decoder from a user's ONNX files, greedily, with a cache of keys and values.

    python -m examples.whisper_tiny FOLDER SPEECH.wav

FOLDER is an export of openai/whisper-tiny as browsers use it (for example onnx-community/whisper-tiny): the files
``encoder_model.onnx``, ``decoder_model.onnx`` and ``decoder_with_past_model.onnx``, in it or in its folder ``onnx``, and
``tokenizer.json``. SPEECH.wav is mono, 16-bit, at 16 kHz. Needs ``webnn-xla[onnx]`` and tokenizers.
"""

from __future__ import annotations

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
    """The three networks and the tokenizer."""

    def __init__(self, folder: Path) -> None:
        files = folder / "onnx" if (folder / "onnx").is_dir() else folder
        self.encoder = webnn.Session(files / "encoder_model.onnx")
        self.first = webnn.Session(files / "decoder_model.onnx")
        # Every step has one more key than the one before. Few of their graphs are worth keeping.
        self.next = webnn.Session(files / "decoder_with_past_model.onnx", cache_size=4)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def __call__(self, samples: Array) -> str:
        """The text of up to 30 seconds of speech, samples from -1 to 1 at 16 kHz."""
        states = next(iter(self.encoder.run({"input_features": log_mel(samples)}).values()))
        end = self.tokenizer.token_to_id("<|endoftext|>")
        tokens = [self.tokenizer.token_to_id(token) for token in PROMPT]
        results = self.first.run({"input_ids": np.array([tokens]), "encoder_hidden_states": states})
        cache = {name: array for name, array in results.items() if name.startswith("present")}
        text: list[int] = []
        wanted = {port.name for port in self.next.inputs}
        while len(text) < LIMIT:
            token = int(results["logits"][0, -1].argmax())
            if token == end:
                break
            text.append(token)
            inputs = {"input_ids": np.array([[token]]), "encoder_hidden_states": states}
            inputs |= {name.replace("present", "past_key_values"): array for name, array in cache.items()}
            results = self.next.run({name: array for name, array in inputs.items() if name in wanted})
            # Keys and values of the encoder's states stay as the first step made them.
            cache |= {name: array for name, array in results.items() if name.startswith("present")}
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
