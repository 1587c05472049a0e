"""Operators of com.microsoft against onnxruntime, one node at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import webnn_xla as webnn

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from onnx import helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(0)
CONSTANT = ("B", "scales", "zero_points", "weight", "qweight", "W", "total_sequence_length", "data", "diagonal")
"""Inputs that are weights of the model, not inputs of the graph."""


def f(*shape: int, scale: float = 1.0) -> Any:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def u8(*shape: int) -> Any:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> Any:
    """Seven bits: with eight, onnxruntime saturates intermediate sums on some processors."""
    return RNG.integers(-64, 64, shape).astype(np.int8)


def quantized(op: str, *arrays: Any, scale: float, zero: int, kind: Any = np.uint8, **attributes: Any) -> Any:
    """A node of quantized operands, each with a scale and a zero point, and those of the result."""
    result = {"ys": np.float32(scale), "yz": kind(zero)}
    inputs: dict[str, Any] = dict(result) if op == "QLinearConcat" else {}
    for k, array in enumerate(arrays):
        inputs |= {f"x{k}": array, f"s{k}": np.float32(0.02 * (k + 1)), f"z{k}": array.dtype.type(7 * k + 3)}
    return op, inputs | result, 1, attributes


def gqa(batch: int, new: int, past: int, total: int, lengths: list[int], packed: bool = False, **attributes: Any) -> Any:
    heads, groups, size = 4, 2, 16
    angle = np.outer(np.arange(64), 10000.0 ** (-np.arange(size // 2) / (size // 2)))
    rotary = attributes.get("do_rotary")
    query = f(batch, new, (heads + 2 * groups) * size) if packed else f(batch, new, heads * size)
    inputs = {
        "query": query,
        "key": None if packed else f(batch, new, groups * size),
        "value": None if packed else f(batch, new, groups * size),
        "past_key": f(batch, groups, past, size),
        "past_value": f(batch, groups, past, size),
        "seqlens_k": np.array(lengths, np.int32),
        "total_sequence_length": np.array(total, np.int32),
        "cos": np.cos(angle).astype(np.float32) if rotary else None,
        "sin": np.sin(angle).astype(np.float32) if rotary else None,
    }
    return "GroupQueryAttention", inputs, 3, {"num_heads": heads, "kv_num_heads": groups, **attributes}


def nbits(k: int, n: int, bits: int, block: int, zero: str = "") -> Any:
    blocks = -(-k // block)
    inputs = {"A": f(2, 3, k), "B": u8(n, blocks, block * bits // 8), "scales": f(n * blocks, scale=0.1)}
    if zero == "packed":
        inputs["zero_points"] = u8(n * -(-blocks * bits // 8))
    elif zero == "float":
        inputs["zero_points"] = (RNG.uniform(5, 10, n * blocks)).astype(np.float32)
    return "MatMulNBits", inputs, 1, {"K": k, "N": n, "bits": bits, "block_size": block}


def mha(**given: Any) -> Any:
    attributes = given.pop("attributes", {})
    outputs = given.pop("outputs", 1)
    names = ["query", "key", "value", "bias", "key_padding_mask", "attention_bias", "past_key", "past_value"]
    return "MultiHeadAttention", {name: given.get(name) for name in names}, outputs, {"num_heads": 2, **attributes}


CASES: dict[str, Any] = {
    "gqa prompt": gqa(2, 4, 0, 4, [3, 3]),
    "gqa step": gqa(2, 1, 5, 6, [5, 5], do_rotary=1),
    "gqa step interleaved": gqa(1, 1, 5, 6, [5], do_rotary=1, rotary_interleaved=1),
    "gqa packed": gqa(1, 4, 0, 4, [3], packed=True, do_rotary=1),
    "gqa window": gqa(1, 6, 0, 6, [5], local_window_size=3),
    "gqa window step": gqa(1, 1, 7, 8, [7], local_window_size=3),
    "gqa softcap": gqa(1, 3, 0, 3, [2], softcap=5.0),
    "gqa scale": gqa(1, 3, 0, 3, [2], scale=0.5),
    "mha plain": mha(query=f(2, 3, 16), key=f(2, 5, 16), value=f(2, 5, 16)),
    "mha bias": mha(query=f(2, 3, 16), key=f(2, 5, 16), value=f(2, 5, 16), bias=f(48)),
    "mha mask": mha(
        query=f(2, 3, 16), key=f(2, 5, 16), value=f(2, 5, 16), key_padding_mask=np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int32)
    ),
    "mha past": mha(
        query=f(1, 2, 16), key=f(1, 2, 16), value=f(1, 2, 16), past_key=f(1, 2, 3, 8), past_value=f(1, 2, 3, 8), outputs=3
    ),
    "mha causal": mha(query=f(1, 4, 16), key=f(1, 4, 16), value=f(1, 4, 16), attributes={"unidirectional": 1}),
    "attention": ("Attention", {"input": f(2, 4, 16), "weight": f(16, 48, scale=0.3), "bias": f(48)}, 1, {"num_heads": 2}),
    "attention mask": (
        "Attention",
        {
            "input": f(2, 4, 16),
            "weight": f(16, 48, scale=0.3),
            "bias": f(48),
            "mask": np.array([[1] * 4, [1, 1, 0, 0]], np.int32),
        },
        1,
        {"num_heads": 2},
    ),
    "attention causal": (
        "Attention",
        {"input": f(1, 4, 16), "weight": f(16, 48, scale=0.3), "bias": f(48)},
        1,
        {"num_heads": 2, "unidirectional": 1},
    ),
    "rotary": (
        "RotaryEmbedding",
        {"x": f(2, 3, 32), "position_ids": np.array([[0, 1, 2], [5, 6, 7]]), "cos": f(16, 4), "sin": f(16, 4)},
        1,
        {},
    ),
    "rotary offset": (
        "RotaryEmbedding",
        {"x": f(1, 2, 3, 8), "position_ids": np.array([4]), "cos": f(16, 4), "sin": f(16, 4)},
        1,
        {"interleaved": 1},
    ),
    "nbits 4": nbits(64, 5, 4, 32),
    "nbits 4 zero": nbits(96, 5, 4, 32, "packed"),
    "nbits 4 float zero": nbits(64, 5, 4, 32, "float"),
    "nbits 4 ragged": nbits(40, 5, 4, 32, "packed"),
    "nbits 8": nbits(64, 5, 8, 32, "packed"),
    "skip layer norm": (
        "SkipLayerNormalization",
        {"x": f(2, 3, 8), "skip": f(2, 3, 8), "gamma": f(8), "beta": f(8), "bias": f(8)},
        1,
        {"epsilon": 1e-5},
    ),
    "skip rms norm": (
        "SkipSimplifiedLayerNormalization",
        {"x": f(2, 3, 8), "skip": f(2, 3, 8), "gamma": f(8)},
        1,
        {"epsilon": 1e-5},
    ),
    "embed": (
        "EmbedLayerNormalization",
        {
            "ids": RNG.integers(0, 9, (2, 4)).astype(np.int32),
            "segments": RNG.integers(0, 2, (2, 4)).astype(np.int32),
            "words": f(9, 8),
            "positions": f(6, 8),
            "kinds": f(2, 8),
            "gamma": f(8),
            "beta": f(8),
            "mask": np.array([[1] * 4, [1, 1, 0, 0]], np.int32),
        },
        2,
        {},
    ),
    "gelu": ("Gelu", {"x": f(3, 4)}, 1, {}),
    "fast gelu": ("FastGelu", {"x": f(3, 4), "bias": f(4)}, 1, {}),
    "bias gelu": ("BiasGelu", {"x": f(3, 4), "bias": f(4)}, 1, {}),
    "quick gelu": ("QuickGelu", {"x": f(3, 4)}, 1, {"alpha": 1.702}),
    "fused matmul": ("FusedMatMul", {"a": f(2, 4, 3), "b": f(2, 5, 4)}, 1, {"transA": 1, "transB": 1, "alpha": 0.5}),
    "fused conv": (
        "FusedConv",
        {"x": f(1, 3, 6, 6), "W": f(4, 3, 3, 3), "b": f(4)},
        1,
        {"kernel_shape": [3, 3], "activation": "LeakyRelu", "activation_params": [0.2]},
    ),
    "matmul integer to float": (
        "MatMulIntegerToFloat",
        {"a": u8(3, 40), "qweight": i8(40, 5), "as": f(1)[0], "bs": f(1)[0], "az": u8(1)[0], "bz": i8(1)[0], "bias": f(5)},
        1,
        {},
    ),
    "qlinear add": (
        "QLinearAdd",
        {"a": u8(2, 3), "as": np.float32(0.1), "az": np.uint8(100), "b": u8(2, 3), "bs": np.float32(0.2), "bz": np.uint8(90),
         "ys": np.float32(0.3), "yz": np.uint8(110)},
        1,
        {},
    ),
    "qlinear mul": quantized("QLinearMul", i8(2, 3), i8(3), scale=0.05, zero=-4, kind=np.int8),
    "qlinear sigmoid": quantized("QLinearSigmoid", u8(3, 7), scale=1 / 256, zero=0),
    "qlinear leaky relu": quantized("QLinearLeakyRelu", i8(3, 7), scale=0.03, zero=5, kind=np.int8, alpha=0.2),
    "qlinear pool": quantized("QLinearGlobalAveragePool", u8(2, 3, 4, 5), scale=0.01, zero=9),
    "qlinear pool last": quantized("QLinearGlobalAveragePool", u8(2, 4, 5, 3), scale=0.01, zero=9, channels_last=1),
    "qlinear concat": quantized("QLinearConcat", u8(2, 3), u8(2, 4), u8(2, 1), scale=0.05, zero=20, axis=1),
    "dynamic matmul": (
        "DynamicQuantizeMatMul",
        {"a": f(3, 24), "B": i8(24, 5), "scales": np.float32(0.02), "zero_points": np.int8(3), "bias": f(5)},
        1,
        {},
    ),
    "quantize": ("QuantizeLinear", {"x": f(2, 5), "s": np.float32(0.02), "z": np.int8(3)}, 1, {}),
    "quantize axis": (
        "QuantizeLinear", {"x": f(3, 5), "s": np.float32([0.02, 0.01, 0.04]), "z": np.uint8([3, 128, 90])}, 1, {"axis": 0}
    ),
    "dequantize": ("DequantizeLinear", {"x": i8(2, 5), "s": np.float32(0.02), "z": np.int8(3)}, 1, {}),
    "transpose matmul": ("TransposeMatMul", {"a": f(2, 4, 3), "b": f(2, 4, 5)}, 1, {"transA": 1, "alpha": 2.0}),
    "trilu": ("Trilu", {"x": f(2, 4, 5), "diagonal": np.array(-1)}, 1, {"upper": 0}),
    "grid sample": (
        "GridSample",
        {"x": f(1, 2, 5, 6), "grid": RNG.uniform(-1.2, 1.2, (1, 3, 4, 2)).astype(np.float32)},
        1,
        {"mode": "bilinear", "padding_mode": "border", "align_corners": 1},
    ),
    "gather block": (
        "GatherBlockQuantized",
        {"data": u8(6, 16), "indices": np.array([[1, 5], [0, 2]]), "scales": f(6, 2), "zero_points": u8(6, 1)},
        1,
        {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1},
    ),
}  # fmt: skip


def made(op: str, inputs: dict[str, Any], outputs: int, attributes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    given = {name: np.asarray(array) for name, array in inputs.items() if array is not None}
    names = [name if array is not None else "" for name, array in inputs.items()]
    while names and not names[-1]:
        names.pop()
    nodes = [helper.make_node(op, names, [f"y{k}" for k in range(outputs)], name="node", domain="com.microsoft", **attributes)]
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
        if name not in CONSTANT
    ]
    quantized = op.startswith("Q") and op != "QuickGelu"
    zero = next((given[name] for name in ("yz", "z") if name in given), np.uint8(0))
    kinds = [helper.np_dtype_to_tensor_dtype(zero.dtype) if quantized else 1, 1 if op != "EmbedLayerNormalization" else 6, 1]
    results = [helper.make_tensor_value_info(f"y{k}", kinds[k], None) for k in range(outputs)]
    constants = [numpy_helper.from_array(array, name) for name, array in given.items() if name in CONSTANT]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "g", ports, results, constants)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), {n: a for n, a in given.items() if n not in CONSTANT}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_agrees_with_onnxruntime(name: str) -> None:
    proto, inputs = made(*CASES[name])
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    reference = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    # An empty cache is a cache of length 0 to onnxruntime as well.
    wanted = dict(zip([o.name for o in reference.get_outputs()], reference.run(None, inputs), strict=True))
    got = webnn.Session(proto, optimize=False).run(inputs)
    for key, want in wanted.items():
        assert (got[key].dtype, got[key].shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got[key].astype(np.float64), want.astype(np.float64), rtol=2e-4, atol=2e-4, err_msg=key)


# Operators that onnxruntime has for other processors only: against NumPy in float64.


def grouped(x: Any, gamma: Any, beta: Any, groups: int, silu: bool, last: bool) -> Any:
    """Group normalization of channels that are last, or second."""
    x = np.moveaxis(x, -1, 1) if last else x
    each = x.reshape(x.shape[0], groups, -1).astype(np.float64)
    normal = (each - each.mean(-1, keepdims=True)) / np.sqrt(each.var(-1, keepdims=True) + 1e-5)
    y = normal.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
    y = y / (1 + np.exp(-y)) if silu else y
    return np.moveaxis(y, 1, -1) if last else y


@pytest.mark.parametrize("last", [True, False], ids=["channels last", "channels second"])
@pytest.mark.parametrize("skip", ["", "whole", "pixel", "flat"])
def test_group_norm(last: bool, skip: str) -> None:
    channels, spatial, silu = 8, (3, 5), skip in ("", "flat")
    wide = (2, *spatial, channels) if last else (2, channels, *spatial)
    inputs = {"x": f(*wide), "gamma": f(channels), "beta": f(channels)}
    total = inputs["x"]
    if skip:
        each = (2, 1, 1, channels) if last else (2, channels, 1, 1)
        inputs["skip"] = f(*{"whole": wide, "pixel": each, "flat": (2, channels)}[skip])
        total = total + (inputs["skip"].reshape(each) if skip == "flat" else inputs["skip"])
        if skip != "whole":
            inputs["bias"] = f(channels)
            total = total + (inputs["bias"] if last else inputs["bias"][:, None, None])
    attributes = {"groups": 4, "activation": int(silu), "channels_last": int(last)}
    proto, given = made("SkipGroupNorm" if skip else "GroupNorm", inputs, 2 if skip else 1, attributes)
    got = webnn.Session(proto, optimize=False).run(given)
    np.testing.assert_allclose(got["y0"], grouped(total, inputs["gamma"], inputs["beta"], 4, silu, last), rtol=1e-4, atol=1e-5)
    if skip:
        np.testing.assert_allclose(got["y1"], total, rtol=1e-6, atol=1e-6)


def test_bias_add_and_bias_split_gelu() -> None:
    from scipy.special import erf

    x, bias, skip = f(2, 3, 8), f(8), f(2, 3, 8)
    proto, given = made("BiasAdd", {"x": x, "bias": bias, "skip": skip}, 1, {})
    np.testing.assert_allclose(webnn.Session(proto).run(given)["y0"], x + bias + skip, rtol=1e-6)
    proto, given = made("BiasSplitGelu", {"x": x, "bias": bias}, 1, {})
    left, right = np.split((x + bias).astype(np.float64), 2, axis=-1)
    want = left * right * (1 + erf(right / np.sqrt(2))) / 2
    np.testing.assert_allclose(webnn.Session(proto).run(given)["y0"], want, rtol=1e-5, atol=1e-6)
