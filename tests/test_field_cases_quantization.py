"""Quantization on inputs that implementations got wrong: value, type and shape."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import webnn_xla as webnn


def run(context: webnn.MLContext, op: str, *arrays: Any, constants: bool = False) -> Any:
    """Input, scale and zero point: all inputs, or the last two constants."""
    builder = webnn.MLGraphBuilder(context)
    names = ("input", "scale", "zero_point")
    given = dict(zip(names, map(np.asarray, arrays), strict=True))
    fed = {name: array for name, array in given.items() if name == "input" or not constants}
    operands = [
        builder.input(name, array.shape, array.dtype) if name in fed else builder.constant(array)
        for name, array in given.items()
    ]
    result = builder.build({"y": getattr(builder, op)(*operands)}).compute(fed)["y"]
    assert result.shape == given["input"].shape
    return result


def like(value: float, dtype: Any) -> Any:
    return np.array([value]).astype(dtype)


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("integer", ["uint8", "int8", "uint32", "int32", ml_dtypes.int4, ml_dtypes.uint4])
def test_halves_round_before_the_zero_point(context: webnn.MLContext, dtype: str, integer: Any, constants: bool) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5], dtype)
    result = run(context, "quantize_linear", x, like(1, dtype), like(1, integer), constants=constants)
    assert result.dtype == integer
    assert result.astype(int).tolist() == [1, 3, 3, 1]


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize(("x", "scale", "y"), [(45.5, 7, 6), (84.5, 13, 6), (143.5, 41, 4), (307.5, 41, 8), (0.35, 0.1, 4)])
def test_halves_survive_the_division(context: webnn.MLContext, x: float, scale: float, y: int, constants: bool) -> None:
    for shape in ((1,), (64,)):
        values, zero = np.full(shape, x, np.float32), like(0, "uint8")
        assert set(run(context, "quantize_linear", values, like(scale, "float32"), zero, constants=constants).tolist()) == {y}


@pytest.mark.parametrize(
    ("integer", "low", "high"),
    [
        ("uint8", 0, 255),
        ("int8", -128, 127),
        ("uint32", 0, 2**32 - 1),
        ("int32", -(2**31), 2**31 - 1),
        (ml_dtypes.int4, -8, 7),
        (ml_dtypes.uint4, 0, 15),
    ],
)
def test_saturation_is_exact(context: webnn.MLContext, integer: Any, low: int, high: int) -> None:
    x = np.array([-np.inf, -3e38, -(2.0**33), -1, 0, 1, 2.0**33, 3e38, np.inf], np.float32)
    for zero_point in (low, low + 1, high - 1, high):
        result = run(context, "quantize_linear", x, like(1, "float32"), np.array([zero_point]).astype(integer))
        near = [min(max(value + zero_point, low), high) for value in (-1, 0, 1)]
        assert result.dtype == integer
        assert result.astype(object).astype(int).tolist() == [low, low, low, *near, high, high, high]


def test_not_a_number_gives_0(context: webnn.MLContext) -> None:
    x, zero = np.array([np.nan, 0, 1], np.float32), like(5, "uint8")
    assert run(context, "quantize_linear", x, like(1, "float32"), zero).tolist() == [0, 5, 6]
    assert run(context, "quantize_linear", x, like(0, "float32"), zero).tolist() == [0, 0, 255]


def test_uint32_values_above_2_to_24(context: webnn.MLContext) -> None:
    x = np.array([2.0**31, 2.0**32 - 256, 1], np.float32)
    result = run(context, "quantize_linear", x, like(1, "float32"), like(2, "uint32"))
    assert result.tolist() == [2**31 + 2, 2**32 - 254, 3]


def test_float16_scale_of_a_large_range(context: webnn.MLContext) -> None:
    x, scale = np.array([60000, -60000, 1], np.float16), like(2**-14, "float16")
    result = run(context, "quantize_linear", x, scale, like(3, "int32"))
    assert result.tolist() == [60000 * 2**14 + 3, -60000 * 2**14 + 3, 2**14 + 3]
    back = run(context, "dequantize_linear", result, scale, like(3, "int32"))
    assert back.dtype == np.float16
    assert back.tolist() == x.tolist()


@pytest.mark.parametrize("scale", ["float32", "float16", ml_dtypes.bfloat16])
def test_dequantize_int4_minus_8(context: webnn.MLContext, scale: Any) -> None:
    x = np.arange(-8, 8).astype(ml_dtypes.int4)
    result = run(context, "dequantize_linear", x, like(0.5, scale), like(0, ml_dtypes.int4))
    assert result.dtype == scale
    assert result.astype(float).tolist() == [value / 2 for value in range(-8, 8)]
    shifted = run(context, "dequantize_linear", x, like(0.5, scale), like(-8, ml_dtypes.int4))
    assert shifted.astype(float).tolist() == [value / 2 for value in range(16)]


def test_dequantize_uint4(context: webnn.MLContext) -> None:
    x = np.arange(16).reshape(2, 8).astype(ml_dtypes.uint4)
    scale, zero = np.array([[1, 2], [3, 4]], np.float32), np.array([[0, 8], [15, 1]]).astype(ml_dtypes.uint4)
    result = run(context, "dequantize_linear", x, scale, zero)
    assert result.tolist() == [[0, 1, 2, 3, -8, -6, -4, -2], [-21, -18, -15, -12, 44, 48, 52, 56]]


@pytest.mark.parametrize(
    ("integer", "x", "zero_point"),
    [
        ("uint32", 0, 2**32 - 1),
        ("uint32", 2**32 - 1, 0),
        ("int32", -(2**31), 2**31 - 1),
        ("int32", 2**31 - 1, -(2**31)),
        ("uint8", 0, 255),
        ("int8", -128, 127),
    ],
)
def test_differences_do_not_overflow(context: webnn.MLContext, integer: str, x: int, zero_point: int) -> None:
    result = run(context, "dequantize_linear", like(x, integer), like(0.5, "float32"), like(zero_point, integer))
    assert result.tolist() == [float(np.float32(x - zero_point)) / 2]


def test_differences_of_large_integers_are_exact(context: webnn.MLContext) -> None:
    x, zero = np.array([2**31 - 1, 2**31 - 100], np.int32), np.array([2**31 - 2, 2**31 - 1], np.int32)
    assert run(context, "dequantize_linear", x, np.float32([3, 3]), zero).tolist() == [3, -297]


def test_scalars(context: webnn.MLContext) -> None:
    assert run(context, "quantize_linear", np.float32(7), np.float32(2), np.int8(1)) == 5
    assert run(context, "dequantize_linear", np.int8(7), np.float32(2), np.int8(1)) == 12


@pytest.mark.parametrize("constants", [False, True])
def test_blocks_in_every_dimension(context: webnn.MLContext, constants: bool) -> None:
    x = np.arange(48, dtype=np.float32).reshape(4, 2, 6)
    scale = np.array([[[1, 2, 4]], [[8, 16, 32]]], np.float32)
    zero = np.arange(6, dtype=np.int8).reshape(2, 1, 3)
    whole = [np.repeat(np.repeat(np.repeat(part, 2, 0), 2, 1), 2, 2) for part in (scale, zero)]
    quantized = run(context, "quantize_linear", x, scale, zero, constants=constants)
    assert quantized.tolist() == (np.rint(x / whole[0]) + whole[1]).tolist()
    back = run(context, "dequantize_linear", quantized, scale, zero, constants=constants)
    assert back.tolist() == ((quantized.astype(np.float32) - whole[1]) * whole[0]).tolist()


@pytest.mark.parametrize(
    ("scale", "zero_point", "operand"),
    [
        ([3, 3], [3, 3], "scale"),
        ([2, 4], [2, 4], "scale"),
        ([4, 12], [4, 12], "scale"),
        ([2, 3], [1, 3], "zero_point"),
        ([3], [3], "scale"),
        ([2, 1], [2], "zero_point"),
        ([1, 2, 3], [1, 2, 3], "scale"),
    ],
)
def test_rejected_shapes(builder: webnn.MLGraphBuilder, scale: list[int], zero_point: list[int], operand: str) -> None:
    for op, types in (("quantize_linear", ("float32", "float32", "int8")), ("dequantize_linear", ("int8", "float32", "int8"))):
        shapes = ([2, 6], scale, zero_point)
        operands = [
            builder.constant({"data_type": kind, "shape": shape}, start=1) for kind, shape in zip(types, shapes, strict=True)
        ]
        with pytest.raises(webnn.ArgumentError) as caught:
            getattr(builder, op)(*operands, label="here")
        assert (caught.value.operator, caught.value.operand, caught.value.label) == (op, operand, "here")


@pytest.mark.parametrize(
    ("op", "types", "operand"),
    [
        ("quantize_linear", ("float32", "float16", "int8"), "scale"),
        ("quantize_linear", ("float32", "float32", "int64"), "zero_point"),
        ("quantize_linear", ("int32", "int32", "int8"), "input"),
        ("dequantize_linear", ("int8", "float32", "uint8"), "zero_point"),
        ("dequantize_linear", ("int8", "int8", "int8"), "scale"),
        ("dequantize_linear", ("int64", "float32", "int64"), "input"),
    ],
)
def test_rejected_types(builder: webnn.MLGraphBuilder, op: str, types: tuple[str, ...], operand: str) -> None:
    operands = [builder.input(str(index), [2], kind) for index, kind in enumerate(types)]
    with pytest.raises(webnn.ArgumentError) as caught:
        getattr(builder, op)(*operands)
    assert caught.value.operand == operand
