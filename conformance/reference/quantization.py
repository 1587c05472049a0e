"""References of quantization: integers as Python's own, so nothing overflows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from webnn_xla.conformance.reference import Array, Case, Rng, numbers, reference, shapes, special
from webnn_xla.dtypes import MLOperandDataType

_INTEGERS = ("uint8", "int8", "uint32", "int32", "int4", "uint4")


def _repeat(part: Array, whole: tuple[int, ...]) -> Array:
    """Every element of ``part`` repeated along each dimension, to the shape ``whole``."""
    for axis, size in enumerate(whole):
        part = np.repeat(part, size // part.shape[axis], axis)
    return part


def _block_shapes() -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes of an input and of its scale: one for all, one an index of each dimension, one an element, one a block."""
    for whole in shapes():
        parts = {(1,) * len(whole), whole}
        parts |= {tuple(size if axis == kept else 1 for axis, size in enumerate(whole)) for kept in range(len(whole))}
        yield from ((whole, part) for part in sorted(parts))
    yield from [((6,), (3,)), ((4, 6), (2, 3)), ((4, 6), (4, 2)), ((2, 8, 3), (1, 4, 3)), ((6, 4, 9, 2), (3, 1, 3, 2))]
    yield ((4, 2, 1, 6, 2, 2, 3, 4), (2, 2, 1, 3, 1, 1, 3, 2))


def _quantize_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    for index, (whole, part) in enumerate(_block_shapes()):
        integer = MLOperandDataType.of(_INTEGERS[index % len(_INTEGERS)])
        # Results stay in the range of 4-bit types, whose saturation a reference that gets them as bytes cannot know.
        zero_point = numbers(integer, rng, part, 4 if integer == "uint4" else -1, 5 if integer == "uint4" else 2)
        operands = {"input": numbers(data_type, rng, whole, -3, 3), "scale": numbers(data_type, rng, part, 1, 3)}
        yield Case({**operands, "zero_point": zero_point}, types={"zero_point": integer}, note=f"to {integer}")
    halves = np.concatenate([np.arange(-6, 6) / 2, np.arange(-300, 300, 7) / 2])
    for name in _INTEGERS[:4]:
        zero_point = special(MLOperandDataType.of(name))[:, None]
        for values, scale in ((halves, 1.0), (special(data_type), 0.5), (special(data_type) * 3, 2.0**-14)):
            input = np.broadcast_to(values, (len(zero_point), len(values)))
            operands = {"input": input, "scale": np.full(zero_point.shape, scale), "zero_point": zero_point}
            yield Case(operands, types={"zero_point": name}, note=f"to {name}, saturating")
    steps = numbers(data_type, rng, (20, 1), 0.001, 3).astype(data_type.numpy).astype(np.float64)
    operands = {"input": (np.arange(-120, 120) + 0.5) * steps, "scale": steps}
    for name in ("int8", "int32"):
        yield Case({**operands, "zero_point": np.zeros((20, 1))}, types={"zero_point": name}, note=f"to {name}, near halves")


@reference("quantize_linear", _quantize_cases)
def quantize_linear(input: Array, scale: Array, zero_point: Array) -> Array:
    """The specification divides in the operands' own type, so that what is a half depends on it: float32 here."""
    low, high = int(np.iinfo(zero_point.dtype).min), int(np.iinfo(zero_point.dtype).max)
    quotients = np.divide(input.astype(np.float32), _repeat(scale, input.shape).astype(np.float32))
    results: list[int] = []
    for divided, offset in zip(quotients.flat, _repeat(zero_point, input.shape).ravel().tolist(), strict=True):
        quotient = float(divided)
        if math.isnan(quotient):
            results.append(0)
        elif math.isinf(quotient):
            results.append(high if quotient > 0 else low)
        else:
            results.append(min(max(round(quotient) + offset, low), high))
    return np.array(results, object).reshape(input.shape)


def _dequantize_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    scales = ("float32", "float16", "bfloat16")
    low, high = data_type.integer_range
    for index, (whole, part) in enumerate(_block_shapes()):
        kind = scales[index % len(scales)]
        scale = numbers(MLOperandDataType.of(kind), rng, part, 0.01, 3)
        operands = {
            "input": numbers(data_type, rng, whole, -100, 300),
            "scale": scale,
            "zero_point": numbers(data_type, rng, part),
        }
        yield Case(operands, types={"scale": kind}, note=f"to {kind}")
    corner = special(data_type) if data_type.bits > 4 else np.arange(low, high + 1)
    for kind in scales:
        grid = np.broadcast_to(corner[:, None], (len(corner), len(corner)))
        operands = {"input": grid, "zero_point": grid.T, "scale": np.full(grid.shape, 0.75)}
        yield Case(operands, types={"scale": kind}, note=f"to {kind}, extremes")
        operands = {name: numbers(data_type, rng, (500,), low, high) for name in ("input", "zero_point")}
        yield Case({**operands, "scale": rng.uniform(0.01, 3, 500)}, types={"scale": kind}, note=f"to {kind}, whole range")


@reference("dequantize_linear", _dequantize_cases)
def dequantize_linear(input: Array, scale: Array, zero_point: Array) -> Array:
    offsets = _repeat(zero_point, input.shape).ravel().tolist()
    # Differences of 32-bit integers are exact in float64.
    differences = [float(value - offset) for value, offset in zip(input.ravel().tolist(), offsets, strict=True)]
    return np.asarray(np.array(differences).reshape(input.shape) * _repeat(scale, input.shape))
