"""Data movement as real implementations got it wrong: scalars, extremes, bit patterns, every check of the arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webnn_xla as webnn

Array = np.ndarray[Any, Any]
Build = Callable[..., Any]


def run(context: webnn.MLContext, build: Build, **arrays: Array) -> Array:
    """The result of one op on run-time inputs."""
    result: Array = run_all(context, lambda builder, **operands: {"y": build(builder, **operands)}, **arrays)["y"]
    return result


def run_all(context: webnn.MLContext, build: Build, **arrays: Array) -> dict[str, Array]:
    """The results of several ops on run-time inputs."""
    builder = webnn.MLGraphBuilder(context)
    operands = {name: builder.input(name, array.shape, array.dtype) for name, array in arrays.items()}
    result: dict[str, Array] = builder.build(build(builder, **operands)).compute(arrays)
    return result


def assert_same(got: Array, want: Array) -> None:
    """Equal in type, shape and every bit."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


BITS = [
    np.array([0x7FC00001, 0xFFC12345, 0x80000000, 0x00000001, 0x7F800000], np.uint32).view(np.float32),
    np.array([0x7E01, 0xFE55, 0x8000, 0x0001, 0x7C00], np.uint16).view(np.float16),
    # XLA's CPU backend may pass bfloat16 through float32 arithmetic, which keeps the sign of NaN but not its payload.
    np.array([0x7FC0, 0xFFC0, 0x8000, 0x0001, 0x7F80], np.uint16).view(webnn.MLOperandDataType.BFLOAT16.numpy),
    np.array([2**63 - 1, -(2**63), 2**53 + 1, -1, 0], np.int64),
    np.array([2**64 - 1, 2**63, 2**53 + 1, 1, 0], np.uint64),
]


@pytest.mark.parametrize("x", BITS, ids=lambda x: str(x.dtype))
def test_values_pass_through_bit_for_bit(x: Array, context: webnn.MLContext) -> None:
    def build(b: webnn.MLGraphBuilder, x: webnn.MLOperand) -> dict[str, webnn.MLOperand]:
        parts = b.split(x, [2, 3])
        return {
            "concat": b.concat(parts[::-1], 0),
            "expand": b.expand(x, [2, 5]),
            "pad": b.pad(x, [1], [1], value=0),
            "edge": b.pad(x, [1], [1], mode="edge"),
            "reflection": b.pad(x, [1], [1], mode="reflection"),
            "reshape": b.reshape(x, [1, 5, 1]),
            "reverse": b.reverse(x),
            "slice": b.slice(x, [0], [5], strides=[2]),
            "split": parts[1],
            "tile": b.tile(x, [2]),
            "transpose": b.transpose(b.reshape(x, [1, 5])),
            "squeeze": b.squeeze(b.reshape(x, [1, 5])),
            "unsqueeze": b.unsqueeze(x, [0]),
            "flatten": b.flatten_to_2d(x, 0),
        }

    zero = np.zeros(1, x.dtype)
    want = {
        "concat": np.concatenate([x[2:], x[:2]]),
        "expand": np.stack([x, x]),
        "pad": np.concatenate([zero, x, zero]),
        "edge": x[[0, 0, 1, 2, 3, 4, 4]],
        "reflection": x[[1, 0, 1, 2, 3, 4, 3]],
        "reshape": x[None, :, None],
        "reverse": x[::-1],
        "slice": x[::2],
        "split": x[2:],
        "tile": np.concatenate([x, x]),
        "transpose": x[:, None],
        "squeeze": x,
        "unsqueeze": x[None],
        "flatten": x[None],
    }
    got = run_all(context, build, x=x)
    assert got.keys() == want.keys()
    for name in want:
        assert_same(got[name], want[name])


def test_a_scalar_stays_a_scalar(context: webnn.MLContext) -> None:
    x = np.array(2**53 + 1, np.int64)

    def build(b: webnn.MLGraphBuilder, x: webnn.MLOperand) -> dict[str, webnn.MLOperand]:
        return {
            "expand": b.expand(x, []),
            "pad": b.pad(x, [], []),
            "edge": b.pad(x, [], [], mode="edge"),
            "reflection": b.pad(x, [], [], mode="reflection"),
            "reshape": b.reshape(b.reshape(x, [1, 1]), []),
            "reverse": b.reverse(x),
            "slice": b.slice(x, [], [], strides=[]),
            "tile": b.tile(x, []),
            "transpose": b.transpose(x),
            "permuted": b.transpose(x, permutation=[]),
            "squeeze": b.squeeze(b.unsqueeze(x, [0])),
        }

    for got in run_all(context, build, x=x).values():
        assert_same(got, x)
    builder = webnn.MLGraphBuilder(context)
    assert builder.flatten_to_2d(builder.input("x", [], "float32"), 0).shape == [1, 1]


@pytest.mark.parametrize(
    ("data_type", "value", "want"),
    [
        ("uint64", 2**64 - 1, 2**64 - 1),
        ("int64", -(2**63), -(2**63)),
        ("int64", 2**53 + 1, 2**53 + 1),
        ("uint8", 300, 255),
        ("int8", -1e9, -128),
        ("int32", math.inf, 2**31 - 1),
        ("int32", math.nan, 0),
        ("float16", 1e6, math.inf),
        ("float32", -math.inf, -math.inf),
        ("int4", 100, 7),
        ("uint4", -1, 0),
    ],
)
def test_pad_casts_its_value_exactly(data_type: str, value: float, want: float, context: webnn.MLContext) -> None:
    kind = webnn.MLOperandDataType(data_type).numpy
    x = np.array([1], np.int8).astype(kind)
    got = run(context, lambda b, x: b.pad(x, [1], [0], value=value), x=x)
    assert_same(got, np.array([want, 1]).astype(kind) if data_type != "uint64" else np.array([want, 1], kind))


def test_pad_with_nan(context: webnn.MLContext) -> None:
    got = run(context, lambda b, x: b.pad(x, [1], [0], value=math.nan), x=np.array([1], np.float16))
    assert np.isnan(got[0])
    assert got[1] == 1


def test_pad_as_the_specification_shows(context: webnn.MLContext) -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    for mode, first, second in (
        ("constant", [0, 0, 0, 0, 0, 0, 0], [0, 0, 1, 2, 3, 0, 0]),
        ("edge", [1, 1, 1, 2, 3, 3, 3], [1, 1, 1, 2, 3, 3, 3]),
        ("reflection", [6, 5, 4, 5, 6, 5, 4], [3, 2, 1, 2, 3, 2, 1]),
    ):
        got = run(context, lambda b, x, mode=mode: b.pad(x, [1, 2], [1, 2], mode=mode), x=x)
        assert got.shape == (4, 7)
        assert got[:2].tolist() == [first, second]


def test_split_returns_a_list(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", [2, 6], "float32")
    assert [part.shape for part in builder.split(x, [1, 5], axis=1)] == [[2, 1], [2, 5]]
    one = builder.split(x, 1)
    assert isinstance(one, list)
    assert [part.shape for part in one] == [[2, 6]]
    assert len(builder.split(builder.input("many", [8192], "uint8"), 8192)) == 8192


def test_outputs_of_split_can_be_used_alone(context: webnn.MLContext) -> None:
    x = np.arange(6, dtype=np.int32)
    assert_same(run(context, lambda b, x: b.split(x, [1, 2, 3])[1], x=x), x[1:3])


def test_squeeze_and_unsqueeze_place_their_axes(builder: webnn.MLGraphBuilder) -> None:
    x = builder.input("x", [1, 3, 1, 2], "float32")
    assert builder.squeeze(x).shape == [3, 2]
    assert builder.squeeze(x, axes=[]).shape == [3, 2]
    assert builder.squeeze(x, axes=[2]).shape == [1, 3, 2]
    assert builder.unsqueeze(x, [0, 5]).shape == [1, 1, 3, 1, 2, 1]
    assert builder.unsqueeze(x, [5, 0]).shape == [1, 1, 3, 1, 2, 1]
    assert builder.unsqueeze(x, []).shape == [1, 3, 1, 2]
    assert builder.flatten_to_2d(builder.input("y", [2, 3, 4, 5], "float32"), 2).shape == [6, 20]
    assert builder.flatten_to_2d(builder.input("z", [2, 3, 4, 5], "float32"), 0).shape == [1, 120]
    assert builder.flatten_to_2d(builder.input("w", [2, 3, 4, 5], "float32"), 4).shape == [120, 1]


# fill_sequence, and constant with start and step


@pytest.mark.parametrize(
    ("data_type", "shape", "start", "step", "want"),
    [
        ("float32", [3, 3], 0, 1, [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
        ("float32", [3, 3], 9, -1, [[9, 8, 7], [6, 5, 4], [3, 2, 1]]),
        ("float16", [3, 3], 1, 0, [[1, 1, 1], [1, 1, 1], [1, 1, 1]]),
        ("uint32", [4], 1.0, 2.0, [1, 3, 5, 7]),
        ("uint8", [4], 3, -1, [3, 2, 1, 0]),
        ("int64", [3], 2**53 + 1, 1, [2**53 + 1, 2**53 + 2, 2**53 + 3]),
        ("int64", [3], -(2**63), 2**62 + 1, [-(2**63), -(2**62) + 1, 2]),
        ("uint64", [2], 2**64 - 1, -(2**64 - 1), [2**64 - 1, 0]),
        ("uint64", [3], 2**64 - 3, 1, [2**64 - 3, 2**64 - 2, 2**64 - 1]),
        ("int64", [], 2**63 - 1, 5, 2**63 - 1),
        ("float32", [], -1.5, 0, -1.5),
        ("float32", [2], -math.inf, 0, [-math.inf, -math.inf]),
        ("int8", [2], math.inf, 0, [127, 127]),
        ("int4", [16], -8, 1, list(range(-8, 8))),
        ("uint4", [2, 2], 15, -5, [[15, 10], [5, 0]]),
    ],
)
def test_fill_sequence(
    data_type: str, shape: list[int], start: float, step: float, want: Any, context: webnn.MLContext
) -> None:
    kind = webnn.MLOperandDataType(data_type).numpy
    expected = np.array(want, np.int8).astype(kind) if "int4" in data_type else np.array(want, kind)
    assert_same(run(context, lambda b: b.fill_sequence(data_type, shape, start, step)), expected)
    descriptor = {"data_type": data_type, "shape": shape}
    by_constant = run(context, lambda b: b.identity(b.constant(descriptor, start=start, step=step)))
    assert_same(by_constant, expected)


def test_a_sequence_of_float16_does_not_add_up_its_error(context: webnn.MLContext) -> None:
    got = run(context, lambda b: b.fill_sequence("float16", [10], 0, 0.1))
    assert_same(got, (np.arange(10) * 0.1).astype(np.float16))


def test_a_fill_keeps_the_sign_of_zero(context: webnn.MLContext) -> None:
    got = run(context, lambda b: b.identity(b.constant({"data_type": "float32", "shape": [2]}, start=-0.0)))
    assert np.signbit(got).all()


def test_a_large_sequence_is_no_literal(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    graph = builder.build({"y": builder.fill_sequence("int64", [1 << 20], 2**40, 3)})
    assert len(graph.stablehlo()) < 50_000
    assert graph.compute({})["y"][-1] == 2**40 + 3 * ((1 << 20) - 1)


@pytest.mark.parametrize(
    ("data_type", "start", "step", "wrong"),
    [
        ("float32", math.inf, 1, "start"),
        ("float32", math.nan, 1, "start"),
        ("float32", 0, math.inf, "step"),
        ("float32", 0, math.nan, "step"),
        ("float32", 10**400, 1, "start"),
        ("float32", 3e38, 3e38, "step"),
        ("float16", 60000, 1000, "step"),
        ("int32", 0.5, 1, "start"),
        ("int32", 0, 0.5, "step"),
        ("int32", -math.inf, 1, "start"),
        ("uint8", 250, 1, "step"),
        ("uint8", 3, -1, "step"),
        ("uint8", -1, 1, "start"),
        ("int64", 2**63 - 5, 1, "step"),
        ("float32", "0", 1, "start"),
        ("float32", True, 1, "start"),
        ("float64", 0, 1, "data_type"),
    ],
)
def test_fill_sequence_rejects(data_type: str, start: Any, step: Any, wrong: str, builder: webnn.MLGraphBuilder) -> None:
    with pytest.raises(webnn.ArgumentError, match=r"\[here\].*got .*allowed: ") as caught:
        builder.fill_sequence(data_type, [10], start, step, label="here")
    assert (caught.value.operator, caught.value.operand) == ("fill_sequence", wrong)


def test_numbers_too_long_to_print_are_rejected(builder: webnn.MLGraphBuilder) -> None:
    with pytest.raises(webnn.ArgumentError, match="start: got an integer of 33216 bits"):
        builder.fill_sequence("int64", [2], 10**9999, 1)
    with pytest.raises(webnn.ArgumentError, match="new_shape"):
        builder.reshape(builder.input("x", [1], "float32"), [10**9999])


@pytest.mark.parametrize(
    ("op", "shape", "arguments", "wrong"),
    [
        ("expand", [2, 3], ([3],), "new_shape"),
        ("expand", [2], ([2, 3],), "new_shape"),
        ("expand", [1], ([0],), "new_shape"),
        ("expand", [1], ([1] * 9,), "output"),
        ("expand", [1], ([2**31],), "new_shape"),
        ("expand", [1], ([-1],), "new_shape[0]"),
        ("pad", [2, 3], ([1], [1, 1]), "beginning_padding"),
        ("pad", [2, 3], ([1, 1], [1, 1, 1]), "ending_padding"),
        ("pad", [2, 3], ([2, 0], [0, 0], {"mode": "reflection"}), "beginning_padding"),
        ("pad", [2, 3], ([1, 0], [0, 3], {"mode": "reflection"}), "ending_padding"),
        ("pad", [1], ([1], [0], {"mode": "reflection"}), "beginning_padding"),
        ("pad", [2], ([2**32 - 1], [0]), "ending_padding"),
        ("pad", [2], ([1], [0], {"mode": "symmetric"}), "mode"),
        ("pad", [2], ([1], [0], {"value": "0"}), "value"),
        ("reshape", [2, 3], ([5],), "new_shape"),
        ("reshape", [2, 3], ([],), "new_shape"),
        ("reshape", [2, 3], ([6, 0],), "new_shape"),
        ("reshape", [2, 3], ([2.0, 3],), "new_shape[0]"),
        ("reshape", [2, 3], (6,), "new_shape"),
        ("reverse", [2, 3], ({"axes": [2]},), "axes"),
        ("reverse", [2, 3], ({"axes": [0, 0]},), "axes"),
        ("reverse", [], ({"axes": [0]},), "axes"),
        ("slice", [2, 3], ([0], [1, 1]), "starts"),
        ("slice", [2, 3], ([0, 0], [1]), "sizes"),
        ("slice", [2, 3], ([0, 0], [1, 0]), "sizes"),
        ("slice", [2, 3], ([2, 0], [1, 1]), "starts"),
        ("slice", [2, 3], ([2**32 - 1, 0], [1, 1]), "starts"),
        ("slice", [2, 3], ([1, 1], [1, 3]), "sizes"),
        ("slice", [2, 3], ([0, 0], [1, 1], {"strides": [1]}), "strides"),
        ("slice", [2, 3], ([0, 0], [1, 1], {"strides": [1, 0]}), "strides"),
        ("slice", [2, 3], ([0, 0], [1, 1], {"strides": [1, -1]}), "strides[1]"),
        ("split", [4], (0,), "splits"),
        ("split", [4], (3,), "splits"),
        ("split", [4], (8193,), "splits"),
        ("split", [4], ([],), "splits"),
        ("split", [4], ([0, 4],), "splits"),
        ("split", [4], ([1, 2],), "splits"),
        ("split", [4], (2, {"axis": 1}), "axis"),
        ("split", [], (1,), "input"),
        ("tile", [2, 3], ([1],), "repetitions"),
        ("tile", [2, 3], ([1, 0],), "repetitions"),
        ("tile", [2, 3], ([2**31, 2],), "output"),
        ("transpose", [2, 3], ({"permutation": [0]},), "permutation"),
        ("transpose", [2, 3], ({"permutation": [0, 2]},), "permutation"),
        ("transpose", [2, 3], ({"permutation": [1, 1]},), "permutation"),
        ("squeeze", [1, 3], ({"axes": [1]},), "axes"),
        ("squeeze", [1, 3], ({"axes": [2]},), "axes"),
        ("unsqueeze", [1, 3], ([3],), "axes"),
        ("unsqueeze", [1, 3], ([0, 0],), "axes"),
        ("unsqueeze", [1] * 8, ([0],), "output"),
        ("flatten_to_2d", [2, 3], (3,), "axis"),
    ],
)
def test_wrong_arguments_are_rejected_by_name(
    op: str, shape: list[int], arguments: tuple[Any, ...], wrong: str, builder: webnn.MLGraphBuilder
) -> None:
    options = arguments[-1] if isinstance(arguments[-1], dict) else {}
    positional = arguments[:-1] if options else arguments
    operand = builder.input("x", shape, "float32")
    with pytest.raises(webnn.ArgumentError, match=r"\[here\].*got .*allowed: ") as caught:
        getattr(builder, op)(operand, *positional, **options, label="here")
    assert (caught.value.operator, caught.value.operand) == (op, wrong)


@pytest.mark.parametrize(
    ("shapes", "axis", "wrong"),
    [
        ([], 0, "inputs"),
        ([[2]] * 8193, 0, "inputs"),
        ([[2], [2]], 1, "axis"),
        ([[], []], 0, "inputs[0]"),
        ([[2, 3], [2]], 0, "inputs[1]"),
        ([[2, 3], [3, 3]], 1, "inputs[1]"),
    ],
)
def test_concat_rejects(shapes: Sequence[list[int]], axis: int, wrong: str, builder: webnn.MLGraphBuilder) -> None:
    operands = [builder.input(f"x{index}", shape, "float32") for index, shape in enumerate(shapes)]
    with pytest.raises(webnn.ArgumentError, match=r"\[here\].*got .*allowed: ") as caught:
        builder.concat(operands, axis, label="here")
    assert (caught.value.operator, caught.value.operand) == ("concat", wrong)


def test_concat_rejects_mixed_types_and_no_list(builder: webnn.MLGraphBuilder) -> None:
    operands = [builder.input("a", [2], "float32"), builder.input("b", [2], "int32")]
    with pytest.raises(webnn.ArgumentError, match=r"inputs\[1\]: got int32.*allowed: float32"):
        builder.concat(operands, 0)
    with pytest.raises(webnn.ArgumentError, match="a sequence of operands"):
        builder.concat(operands[0], 0)


# Shapes of random calls


DIMENSIONS = st.lists(st.integers(1, 4), max_size=8)


@given(data=st.data(), shape=DIMENSIONS)
@settings(deadline=None, max_examples=60)
def test_shapes_are_those_of_numpy(data: st.DataObject, shape: list[int], context: webnn.MLContext) -> None:
    def each(strategy: Callable[[int], st.SearchStrategy[int]]) -> list[int]:
        return [data.draw(strategy(size)) for size in shape]

    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", shape, "uint8")
    like = np.broadcast_to(np.uint8(0), shape)
    permutation = data.draw(st.permutations(range(len(shape))))
    assert builder.transpose(x, permutation=permutation).shape == like.transpose(permutation).shape
    repetitions = each(lambda _: st.integers(1, 3))
    assert builder.tile(x, repetitions).shape == [size * count for size, count in zip(shape, repetitions, strict=True)]
    before, after = each(lambda size: st.integers(0, size - 1)), each(lambda size: st.integers(0, size - 1))
    padded = [sum(sizes) for sizes in zip(before, shape, after, strict=True)]
    for mode in ("constant", "edge", "reflection"):
        assert builder.pad(x, before, after, mode=mode).shape == padded
    starts = each(lambda size: st.integers(0, size - 1))
    sizes = [data.draw(st.integers(1, size - start)) for size, start in zip(shape, starts, strict=True)]
    strides = each(lambda _: st.integers(1, 5))
    window = tuple(slice(start, start + size, step) for start, size, step in zip(starts, sizes, strides, strict=True))
    assert builder.slice(x, starts, sizes, strides=strides).shape == like[window].shape
