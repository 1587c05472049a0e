"""Transformers and diffusion networks at reduced size, against onnxruntime on the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import webnn_xla as webnn

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from tests import onnx_networks as networks  # noqa: E402

Inputs = dict[str, Any]


def reference(model: onnx.ModelProto, inputs: Inputs) -> dict[str, Any]:
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def agree(session: webnn.Session, model: onnx.ModelProto, inputs: Inputs, rtol: float = 1e-4) -> dict[str, Any]:
    got, want = session.run(inputs), reference(model, inputs)
    assert got.keys() == want.keys()
    for name, expected in want.items():
        assert (got[name].dtype, got[name].shape) == (expected.dtype, expected.shape), name
        scale = max(float(np.abs(expected).max(initial=0)), 1e-6)
        np.testing.assert_allclose(got[name] / scale, expected / scale, rtol=0, atol=rtol, err_msg=name)
    return got


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape, np.float32)


def cache(rng: np.random.Generator, heads: int, past: int, size: int, layers: int = 2, batch: int = 2) -> Inputs:
    parts = [f"past.{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
    return {name: normal(rng, batch, heads, past, size) for name in parts}


def continued(results: dict[str, Any]) -> Inputs:
    return {name.replace("present", "past"): array for name, array in results.items() if name.startswith("present")}


def single_pass() -> dict[str, tuple[Callable[[], onnx.ModelProto], Inputs]]:
    rng = np.random.default_rng(0)
    mask = np.array([[1] * 7, [1] * 5 + [0] * 2])
    points = {
        "point_coords": rng.uniform(0, 64, (1, 3, 2)).astype(np.float32),
        "point_labels": np.array([[1, 0, -1]], np.float32),
    }
    conditions = {"timestep": np.array([500]), "encoder_hidden_states": normal(rng, 1, 5, 16)}
    ids = rng.integers(0, 50, (2, 7))
    return {
        "whisper encoder": (networks.whisper_encoder, {"input_features": normal(rng, 2, 20, 30)}),
        "t5": (networks.t5, {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": ids[:, :4]}),
        "clip text": (networks.clip_text, {"input_ids": ids}),
        "diffusion text encoder": (networks.diffusion_text_encoder, {"input_ids": ids.astype(np.int32)}),
        "clip image": (networks.clip_image, {"pixel_values": normal(rng, 2, 3, 32, 32)}),
        "unet": (networks.unet, {"sample": normal(rng, 1, 4, 8, 8), **conditions}),
        "vae decoder": (networks.vae_decoder, {"latent_sample": normal(rng, 1, 4, 8, 8)}),
        "mask decoder": (networks.sam_mask_decoder, {"image_embeddings": normal(rng, 1, 32, 8, 8), **points}),
        "rotary": (
            networks.rotary_decoder,
            {"x": normal(rng, 2, 6, 64), "bias": normal(rng, 1, 4, 6, 6), "position_ids": np.tile(np.arange(3, 9), (2, 1))},
        ),
    }


@pytest.mark.parametrize("name", list(single_pass()))
def test_a_network_agrees_with_onnxruntime(name: str) -> None:
    make, inputs = single_pass()[name]
    model = make()
    agree(webnn.Session(model), model, inputs)


def test_gpt2_prompt_and_steps() -> None:
    rng = np.random.default_rng(1)
    model = networks.gpt2()
    session = webnn.Session(model)
    results = agree(session, model, {"input_ids": rng.integers(0, 50, (2, 5)), **cache(rng, 4, 0, 8)})
    agree(session, model, {"input_ids": rng.integers(0, 50, (2, 1)), **continued(results)})


def test_whisper_decoder_prompt_and_steps() -> None:
    rng = np.random.default_rng(2)
    model = networks.whisper_decoder()
    session = webnn.Session(model)
    states = normal(rng, 2, 15, 32)
    inputs = {"input_ids": rng.integers(0, 50, (2, 4)), "encoder_hidden_states": states, **cache(rng, 4, 0, 8)}
    results = agree(session, model, inputs)
    agree(session, model, {"input_ids": rng.integers(0, 50, (2, 1)), "encoder_hidden_states": states, **continued(results)})


def test_llama_prompt_and_steps() -> None:
    rng = np.random.default_rng(3)
    model = networks.llama()
    session = webnn.Session(model)
    ids = rng.integers(0, 50, (1, 5))
    empty = cache(rng, 2, 0, 16, batch=1)
    results = agree(session, model, {"input_ids": ids, "attention_mask": np.ones((1, 5), np.int64), **empty}, 1e-3)
    step = {"input_ids": ids[:, :1], "attention_mask": np.ones((1, 6), np.int64)}
    agree(session, model, {**step, **continued(results)}, 1e-3)


def test_float16_stays_float16() -> None:
    model = networks.clip_text(dtype=np.float16)
    session = webnn.Session(model)
    ids = np.random.default_rng(4).integers(0, 50, (2, 7))
    got = agree(session, model, {"input_ids": ids}, 2e-2)
    assert got["text_embeds"].dtype == np.float16
    assert "f16" in session.graphs[0].stablehlo()
