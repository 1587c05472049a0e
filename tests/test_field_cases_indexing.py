"""Indexing as real implementations got it wrong: indices off both ends, scalars, duplicates, extremes, bit patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import webnn_xla as webnn

Array = np.ndarray[Any, Any]
Build = Callable[..., Any]

INDEX_TYPES = ("int32", "uint32", "int64")


def run(context: webnn.MLContext, build: Build, **arrays: Array) -> Array:
    """The result of one op on run-time inputs."""
    builder = webnn.MLGraphBuilder(context)
    operands = {name: builder.input(name, array.shape, array.dtype) for name, array in arrays.items()}
    result: Array = builder.build({"y": build(builder, **operands)}).compute(arrays)["y"]
    return result


def assert_same(got: Array, want: Array) -> None:
    """Equal in type, shape and every bit."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


def out_of_range(kind: str, size: int) -> tuple[Array, list[int]]:
    """Indices at and beyond the ends of a dimension and of their type, and the position that each means."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    ends = [0, size - 1, size, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, -1, -size, -size - 1, -(2**31), -(2**63)]
    indices = [index for index in ends if low <= index <= high]
    positions = [min(max(index + size if index < 0 else index, 0), size - 1) for index in indices]
    return np.array(indices, kind), positions


def test_gather_clamps_beyond_the_end_and_counts_minus_one_from_it(context: webnn.MLContext) -> None:
    x = np.array([10, 20, 30, 40, 50], np.float32)
    got = run(context, lambda b, x, i: b.gather(x, i), x=x, i=np.array([5, -1], np.int32))
    assert_same(got, np.array([50, 50], np.float32))


@pytest.mark.parametrize("kind", INDEX_TYPES)
def test_gather_of_a_vector_with_a_scalar_is_a_scalar(kind: str, context: webnn.MLContext) -> None:
    x = np.array([10, 20, 30], np.int64)
    got = run(context, lambda b, x, i: b.gather(x, i), x=x, i=np.array(2, kind))
    assert_same(got, np.array(30, np.int64))


def test_gather_nd_of_one_element_is_a_scalar(context: webnn.MLContext) -> None:
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    got = run(context, lambda b, x, i: b.gather_nd(x, i), x=x, i=np.array([1, -1], np.int32))
    assert_same(got, np.array(5, np.uint8))


def test_gather_with_a_scalar_drops_the_axis(context: webnn.MLContext) -> None:
    x = np.arange(24, dtype=np.float16).reshape(2, 3, 4)
    got = run(context, lambda b, x, i: b.gather(x, i, axis=1), x=x, i=np.array(-1, np.int64))
    assert_same(got, x[:, -1, :])


@pytest.mark.parametrize("kind", INDEX_TYPES)
@pytest.mark.parametrize("size", [1, 5])
def test_any_index_of_any_type_reads_inside(kind: str, size: int, context: webnn.MLContext) -> None:
    indices, positions = out_of_range(kind, size)
    x = np.arange(3 * size, dtype=np.int32).reshape(size, 3)
    assert_same(run(context, lambda b, x, i: b.gather(x, i), x=x, i=indices), x[positions])
    columns = np.stack([indices] * 3, 1)
    assert_same(run(context, lambda b, x, i: b.gather_elements(x, i), x=x, i=columns), x[positions])
    pairs = np.stack([indices, indices[::-1]], 1)
    second = [min(max(int(i) + 3 if i < 0 else int(i), 0), 2) for i in indices[::-1]]
    assert_same(run(context, lambda b, x, i: b.gather_nd(x, i), x=x, i=pairs), x[positions, second])


@pytest.mark.parametrize("kind", INDEX_TYPES)
@pytest.mark.parametrize("size", [1, 5])
def test_any_index_of_any_type_writes_inside(kind: str, size: int, context: webnn.MLContext) -> None:
    indices, positions = out_of_range(kind, size)
    rows = np.arange(len(indices))
    x = np.zeros((len(indices), size), np.float32)
    updates = np.arange(1, len(indices) + 1, dtype=np.float32)
    want = x.copy()
    want[rows, positions] = updates
    got = run(context, lambda b, x, i, u: b.scatter_elements(x, i, u, axis=1), x=x, i=indices[:, None], u=updates[:, None])
    assert_same(got, want)
    pairs = np.stack([rows.astype(kind), indices], 1)
    assert_same(run(context, lambda b, x, i, u: b.scatter_nd(x, i, u), x=x, i=pairs, u=updates), want)


def test_indices_as_constants_behave_like_inputs(context: webnn.MLContext) -> None:
    x = np.array([10, 20, 30], np.float32)
    indices = np.array([-(2**63), 2**63 - 1, -1], np.int64)
    assert_same(run(context, lambda b, x: b.gather(x, b.constant(indices)), x=x), np.array([10, 30, 30], np.float32))


def test_scatter_nd_with_duplicate_coordinates_writes_one_of_the_updates(context: webnn.MLContext) -> None:
    x = np.zeros(4, np.float32)
    indices, updates = np.array([[1], [1], [3], [-3]], np.int32), np.array([5, 6, 7, 8], np.float32)
    got = run(context, lambda b, x, i, u: b.scatter_nd(x, i, u), x=x, i=indices, u=updates)
    assert got[[0, 2, 3]].tolist() == [0, 0, 7]
    assert got[1] in (5, 6, 8)


def test_scatter_elements_with_duplicate_indices_writes_one_of_the_updates(context: webnn.MLContext) -> None:
    x = np.zeros((2, 2), np.int64)
    indices, updates = np.array([[0, 1], [0, 1], [99, 1]], np.uint32), np.array([[1, 2], [3, 4], [5, 6]], np.int64)
    got = run(context, lambda b, x, i, u: b.scatter_elements(x, i, u), x=x, i=indices, u=updates)
    assert got[0, 0] in (1, 3)
    assert got[1, 0] == 5
    assert got[0, 1] == 0
    assert got[1, 1] in (2, 4, 6)


def test_scatter_leaves_its_input_alone(context: webnn.MLContext) -> None:
    x = np.arange(3, dtype=np.float32)
    builder = webnn.MLGraphBuilder(context)
    operand = builder.input("x", [3], "float32")
    written = builder.scatter_nd(
        operand, builder.constant(np.array([[0]], np.int32)), builder.constant(np.array([9], np.float32))
    )
    results = builder.build({"written": written, "kept": builder.identity(operand)}).compute({"x": x})
    assert results["written"].tolist() == [9, 1, 2]
    assert results["kept"].tolist() == [0, 1, 2]


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
    order = np.array([4, 3, 2, 1, 0], np.int32)
    want = x[::-1].copy()
    assert_same(run(context, lambda b, x, i: b.gather(x, i), x=x, i=order), want)
    assert_same(run(context, lambda b, x, i: b.gather_elements(x, i), x=x, i=order), want)
    assert_same(run(context, lambda b, x, i: b.gather_nd(x, i), x=x, i=order[:, None]), want)
    zeros = np.zeros_like(x)
    assert_same(run(context, lambda b, z, i, x: b.scatter_elements(z, i, x), z=zeros, i=order, x=x), want)
    assert_same(run(context, lambda b, z, i, x: b.scatter_nd(z, i, x), z=zeros, i=order[:, None], x=x), want)
    assert_same(run(context, lambda b, x: b.triangular(x), x=x[None]), x[None])


def test_triangular_drops_nan_and_infinity(context: webnn.MLContext) -> None:
    x = np.array([[1, np.nan], [np.inf, 2]], np.float32)
    assert_same(
        run(context, lambda b, x: b.triangular(x, upper=False, diagonal=-1), x=x), np.array([[0, 0], [np.inf, 0]], np.float32)
    )


@pytest.mark.parametrize(("diagonal", "upper", "kept"), [(-(2**31), True, True), (2**31 - 1, True, False)])
def test_triangular_at_the_extreme_diagonals(diagonal: int, upper: bool, kept: bool, context: webnn.MLContext) -> None:
    x = np.arange(1, 7, dtype=np.int32).reshape(2, 3)
    for flipped in (False, True):
        want = x if kept != flipped else np.zeros_like(x)
        options = {"upper": upper != flipped, "diagonal": diagonal}
        assert_same(run(context, lambda b, x, options=options: b.triangular(x, **options), x=x), want)


def test_triangular_matrix_is_triangular(context: webnn.MLContext) -> None:
    x = np.arange(9, dtype=np.int8).reshape(3, 3)
    assert_same(run(context, lambda b, x: b.triangular_matrix(x, diagonal=1), x=x), np.triu(x, 1))


def operand(builder: webnn.MLGraphBuilder, shape: list[int], data_type: str = "float32") -> webnn.MLOperand:
    return builder.constant({"data_type": data_type, "shape": shape}, start=0)


F = "float32"
N = "int32"


@pytest.mark.parametrize(
    ("op", "shapes", "options", "wrong"),
    [
        ("gather", [([2, 3], F), ([2], "uint64")], {}, "indices"),
        ("gather", [([2, 3], F), ([2], F)], {}, "indices"),
        ("gather", [([2, 3], F), ([2], N)], {"axis": 2}, "axis"),
        ("gather", [([], F), ([2], N)], {}, "input"),
        ("gather", [([1] * 6, F), ([1] * 4, N)], {}, "output"),
        ("gather_elements", [([2, 3], F), ([2], N)], {}, "indices"),
        ("gather_elements", [([2, 3], F), ([2, 2], N)], {}, "indices"),
        ("gather_elements", [([2, 3], F), ([2, 3], N)], {"axis": 2}, "axis"),
        ("gather_nd", [([2, 3], F), ([1, 3], N)], {}, "indices"),
        ("gather_nd", [([2, 3], F), ([], N)], {}, "indices"),
        ("scatter_elements", [([2, 3], F), ([1, 2], N), ([1, 2], F)], {}, "indices"),
        ("scatter_elements", [([2, 3], F), ([1, 3], N), ([2, 3], F)], {}, "updates"),
        ("scatter_elements", [([2, 3], F), ([1, 3], N), ([1, 3], "float16")], {}, "updates"),
        ("scatter_elements", [([2, 3], F), ([1, 3], N), ([1, 3], F)], {"axis": 2**32 - 1}, "axis"),
        ("scatter_nd", [([2, 3], F), ([1, 3], N), ([1], F)], {}, "indices"),
        ("scatter_nd", [([2, 3], F), ([4, 1], N), ([4, 2], F)], {}, "updates"),
        ("scatter_nd", [([2, 3], F), ([4, 2], N), ([4], N)], {}, "updates"),
        ("triangular", [([3], F)], {}, "input"),
        ("triangular", [([3, 3], F)], {"diagonal": 2**31}, "diagonal"),
        ("triangular", [([3, 3], F)], {"diagonal": 0.5}, "diagonal"),
        ("triangular", [([3, 3], F)], {"upper": 1}, "upper"),
    ],
)
def test_wrong_arguments_are_rejected_by_name(
    op: str, shapes: list[tuple[list[int], str]], options: dict[str, Any], wrong: str, builder: webnn.MLGraphBuilder
) -> None:
    operands = [operand(builder, shape, data_type) for shape, data_type in shapes]
    with pytest.raises(webnn.ArgumentError, match=r"\[here\].*got .*allowed: ") as caught:
        getattr(builder, op)(*operands, **options, label="here")
    assert (caught.value.operator, caught.value.operand) == (op, wrong)
