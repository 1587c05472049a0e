"""References of gathering, scattering and triangular parts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from webnn_xla.conformance.reference import Array, Case, Rng, numbers, reference, shapes, special
from webnn_xla.dtypes import MLOperandDataType

Type = MLOperandDataType

INDEX_TYPES = ("int32", "uint32", "int64")


def _kinds(data_type: Type) -> tuple[str, ...]:
    """Index types for the long cases: all with float32, one with each other type, for values play no part in indexing."""
    return INDEX_TYPES if data_type == "float32" else (INDEX_TYPES[list(Type).index(data_type) % 3],)


def _position(index: Any, size: int) -> int:
    """Where an index points: negative ones from the end, all clamped to the dimension."""
    number = int(index)
    return min(max(number + size if number < 0 else number, 0), size - 1)


def _positions(indices: Array, size: int) -> Array:
    return np.array([_position(index, size) for index in indices.flat], np.int64).reshape(indices.shape)


def _random(rng: Rng, kind: str, shape: tuple[int, ...], size: int) -> Array:
    """Indices on and off both ends of a dimension."""
    low = 0 if kind == "uint32" else -size - 2
    return rng.integers(low, size + 2, shape)


def _extremes(kind: str, size: int) -> Array:
    """The ends of a dimension, and of an index type."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    near = [0, size - 1, size, size + 1, -1, -size, -size - 1]
    far = [low, low + 1, high, high - 1, 2**31 - 1, 2**31, -(2**31), 2**32, 2**32 + 1, -(2**32)]
    return np.array([index for index in near + far if low <= index <= high], kind)


def _axis(shape: tuple[int, ...]) -> int:
    """One dimension of a shape: the first, the middle or the last, by rank."""
    return (0, len(shape) // 2, len(shape) - 1)[len(shape) % 3]


def _depth(shape: tuple[int, ...]) -> int:
    """A length of coordinates for a shape: 1, about half of its rank, or the rank, by rank."""
    return (1, (len(shape) + 1) // 2, len(shape))[len(shape) % 3]


def _gather_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    def case(shape: tuple[int, ...], index_shape: tuple[int, ...], axis: int, kind: str) -> Case:
        indices = _random(rng, kind, index_shape, shape[axis])
        return Case({"input": numbers(data_type, rng, shape), "indices": indices}, {"axis": axis}, {"indices": kind})

    for rank, shape in enumerate(shapes(1), 1):
        yield case(shape, ((3,), (2, 2)[: 9 - rank], ())[rank % 3], _axis(shape), INDEX_TYPES[rank % 3])
    for kind in _kinds(data_type):
        yield case((3,), (), 0, kind)
        yield case((3,), (2, 1, 2, 1, 2, 1, 1, 2), 0, kind)
        yield case((3, 4, 2), (2, 2), 1, kind)
        operands = {"input": numbers(data_type, rng, (5,)), "indices": _extremes(kind, 5)}
        yield Case(operands, {}, {"indices": kind}, "extreme indices")
    corner = special(data_type)
    yield Case({"input": corner, "indices": np.arange(corner.size)[::-1]}, {}, {"indices": "int32"}, "corner values")


@reference("gather", _gather_cases)
def gather(input: Array, indices: Array, axis: int) -> Array:
    return np.asarray(np.take(input, _positions(indices, input.shape[axis]), axis))


def _gather_elements_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for rank, shape in enumerate(shapes(1), 1):
        axis, kind = _axis(shape), INDEX_TYPES[rank % 3]
        indices = _random(rng, kind, (*shape[:axis], 1 + rank % 4, *shape[axis + 1 :]), shape[axis])
        operands = {"input": numbers(data_type, rng, shape), "indices": indices}
        yield Case(operands, {"axis": axis}, {"indices": kind})
    for kind in _kinds(data_type):
        indices = np.stack([_extremes(kind, 5), _extremes(kind, 5)[::-1]])
        operands = {"input": numbers(data_type, rng, (2, 5)), "indices": indices}
        yield Case(operands, {"axis": 1}, {"indices": kind}, "extreme indices")
        operands = {"input": numbers(data_type, rng, (4, 3)), "indices": _random(rng, kind, (5, 3), 4)}
        yield Case(operands, {}, {"indices": kind}, "default axis, more indices than elements")


@reference("gather_elements", _gather_elements_cases)
def gather_elements(input: Array, indices: Array, axis: int) -> Array:
    return np.take_along_axis(input, _positions(indices, input.shape[axis]), axis)


def _coordinates(rng: Rng, kind: str, batch: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    return np.stack([_random(rng, kind, batch, size) for size in sizes], -1)


def _gather_nd_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for rank, shape in enumerate(shapes(1), 1):
        depth, kind = _depth(shape), INDEX_TYPES[rank % 3]
        for batch in ((), ((3,), (2, 2))[rank % 2]):
            indices = _coordinates(rng, kind, batch, shape[:depth])
            yield Case({"input": numbers(data_type, rng, shape), "indices": indices}, {}, {"indices": kind})
    for kind in _kinds(data_type):
        indices = np.stack([_extremes(kind, 5), _extremes(kind, 5)[::-1]], -1)
        yield Case({"input": numbers(data_type, rng, (4, 7, 2)), "indices": indices}, {}, {"indices": kind}, "extreme indices")
        eight = _coordinates(rng, kind, (2, 1, 2, 1, 1, 1, 2), (3, 2))
        yield Case({"input": numbers(data_type, rng, (3, 2)), "indices": eight}, {}, {"indices": kind}, "8-D indices")


def _where(coordinates: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(_position(index, size) for index, size in zip(coordinates, shape, strict=False))


@reference("gather_nd", _gather_nd_cases)
def gather_nd(input: Array, indices: Array) -> Array:
    batch, depth = indices.shape[:-1], indices.shape[-1]
    result = np.empty((*batch, *input.shape[depth:]), input.dtype)
    for place in np.ndindex(*batch):
        result[place] = input[_where(indices[place], input.shape)]
    return result


def _scatter_elements_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for rank, shape in enumerate(shapes(1), 1):
        axis, kind = _axis(shape), INDEX_TYPES[rank % 3]
        count = shape[axis] if rank % 2 else 1
        # Distinct positions, for the result to be unique: the start of a permutation along the axis.
        whole = np.broadcast_to(np.arange(shape[axis]), (*shape[:axis], *shape[axis + 1 :], shape[axis]))
        indices = np.moveaxis(rng.permuted(whole, axis=-1)[..., :count], -1, axis)
        if kind != "uint32":
            indices = np.where(rng.random(indices.shape) < 0.5, indices, indices - shape[axis])
        updates = numbers(data_type, rng, indices.shape)
        operands = {"input": numbers(data_type, rng, shape), "indices": indices, "updates": updates}
        yield Case(operands, {"axis": axis}, {"indices": kind})
    for kind in _kinds(data_type):
        indices = _extremes(kind, 5)[:, None]
        updates = numbers(data_type, rng, indices.shape)
        operands = {"input": numbers(data_type, rng, (len(indices), 5)), "indices": indices, "updates": updates}
        yield Case(operands, {"axis": 1}, {"indices": kind}, "extreme indices")
    corner = special(data_type)
    operands = {"input": corner, "indices": np.arange(corner.size), "updates": corner[::-1]}
    yield Case(operands, {}, {"indices": "int32"}, "default axis, corner values")


@reference("scatter_elements", _scatter_elements_cases)
def scatter_elements(input: Array, indices: Array, updates: Array, axis: int) -> Array:
    result = input.copy()
    for place in np.ndindex(*indices.shape):
        target = list(place)
        target[axis] = _position(indices[place], input.shape[axis])
        result[tuple(target)] = updates[place]
    return result


def _scatter_nd_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for rank, shape in enumerate(shapes(1), 1):
        depth, kind = _depth(shape), INDEX_TYPES[rank % 3]
        sizes = shape[:depth]
        for batch in ((), ((2,), (1, 2))[rank % 2]):
            chosen = rng.permutation(math.prod(sizes))[: math.prod(batch)]
            indices = np.stack(np.unravel_index(chosen, sizes), -1).reshape(*batch, depth)
            if kind != "uint32":
                indices = np.where(rng.random(indices.shape) < 0.5, indices, indices - np.array(sizes))
            updates = numbers(data_type, rng, (*batch, *shape[depth:]))
            operands = {"input": numbers(data_type, rng, shape), "indices": indices, "updates": updates}
            yield Case(operands, {}, {"indices": kind})
    for kind in _kinds(data_type):
        extreme = _extremes(kind, 5)
        indices = np.stack([np.arange(extreme.size).astype(kind), extreme], -1)
        shape = (extreme.size, 5, 2)
        updates = numbers(data_type, rng, (extreme.size, 2))
        operands = {"input": numbers(data_type, rng, shape), "indices": indices, "updates": updates}
        yield Case(operands, {}, {"indices": kind}, "extreme indices")


@reference("scatter_nd", _scatter_nd_cases)
def scatter_nd(input: Array, indices: Array, updates: Array) -> Array:
    result = input.copy()
    for place in np.ndindex(*indices.shape[:-1]):
        result[_where(indices[place], input.shape)] = updates[place]
    return result


def _triangular_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    options = [{"upper": upper, "diagonal": diagonal} for upper in (True, False) for diagonal in (0, 1, -1)]
    for index, shape in enumerate([*shapes(2), (1, 1), (5, 3), (3, 5), (2, 4, 4)]):
        for chosen in (options[index % 6], options[(index + 3) % 6]):
            yield Case({"input": numbers(data_type, rng, shape)}, chosen)
    for diagonal in (-(2**31), -3, -2, 2, 3, 2**31 - 1) if data_type == "float32" else (-2, 2):
        for upper in (True, False):
            yield Case({"input": numbers(data_type, rng, (3, 4))}, {"upper": upper, "diagonal": diagonal}, note="far diagonals")
    corner = special(data_type)
    yield Case({"input": np.stack([corner, corner])}, note="corner values, default options")


def triangular(input: Array, upper: bool, diagonal: int) -> Array:
    result = input.copy()
    for place in np.ndindex(*input.shape):
        offset = place[-1] - place[-2]
        if (offset < diagonal) if upper else (offset > diagonal):
            result[place] = 0
    return result


def _triangular_matrix_cases(data_type: Type, rng: Rng) -> Iterator[Case]:
    for index, shape in enumerate(shapes(2)):
        yield Case({"input": numbers(data_type, rng, shape)}, {"upper": index % 2 == 0, "diagonal": index % 3 - 1})


reference("triangular", _triangular_cases)(triangular)
reference("triangular_matrix", _triangular_matrix_cases)(triangular)
