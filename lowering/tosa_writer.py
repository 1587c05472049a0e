"""What TOSA rules write with: tensors, constants, and the operators that move data, as MLIR text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn

import ml_dtypes
import numpy as np

from webnn_xla.dtypes import MLOperandDataType, cast_number

MAX_RANK: Final = 6
"""Of TOSA tensors, in every level."""

FOUR_BITS: Final = "TOSA has 4-bit integers as weights of convolutions only"

ELEMENT: Final = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int32": "i32",
    "uint32": "i32",
    "int64": "i64",
    "uint64": "i64",
    "int8": "i8",
    "uint8": "i8",
    "int4": "i4",
    "uint4": "i4",
}

NUMPY: Final[Mapping[str, Any]] = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "i4": ml_dtypes.int4,
    "i1": np.bool_,
}


class TosaUnsupported(Exception):  # noqa: N818  (caught by the exporter, which adds the op and its label)
    """TOSA cannot say what the op means for these operands. The message is the reason."""


@dataclass(frozen=True)
class Tensor:
    """A value in a TOSA graph: its SSA name, element type and shape. ``unsigned`` where bits stand for unsigned numbers."""

    name: str
    element: str
    shape: tuple[int, ...]
    unsigned: bool = False
    value: Any = field(default=None, compare=False)
    """The NumPy array of a constant, else None."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_flat(self) -> bool:
        """Whether the rank is more than TOSA allows, so that the tensor is of one dimension in the text."""
        return self.rank > MAX_RANK

    @property
    def type(self) -> str:
        return f"tensor<{''.join(f'{size}x' for size in physical(self.shape))}{self.element}>"

    @property
    def is_float(self) -> bool:
        return self.element in ("f32", "f16", "bf16")


def physical(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape that a tensor has in the text."""
    return tuple(shape) if len(shape) <= MAX_RANK else (math.prod(shape),)


def element_type(data_type: MLOperandDataType) -> str:
    """TOSA's element type for a WebNN data type; unsigned types as their bits."""
    return ELEMENT[data_type]


def data_type_of_element(x: Tensor) -> MLOperandDataType:
    """The WebNN data type that a tensor stands for."""
    names = [name for name, element in ELEMENT.items() if element == x.element]
    return MLOperandDataType.of(next(name for name in names if x.is_float or name.startswith("u") == x.unsigned))


def number_bits(value: int | float, like: Tensor) -> Any:
    """A number cast to the WebNN type of ``like``, as TOSA's element type has its bits."""
    data_type = data_type_of_element(like)
    number = np.asarray(cast_number(value, data_type), data_type.numpy)
    return number.view(f"i{number.itemsize}") if like.unsigned and data_type.bits >= 8 else number


def number(value: int | float, like: Tensor) -> float:
    """A number among the options: cast to the WebNN type of ``like``."""
    return float(cast_number(value, data_type_of_element(like)))


def fail(reason: str) -> NoReturn:
    """Says why TOSA cannot express an op."""
    raise TosaUnsupported(reason)


def signed_only(*tensors: Tensor) -> None:
    """Refuses unsigned operands, where the operator would read their bits as signed numbers."""
    for tensor in tensors:
        if tensor.unsigned:
            fail(f"TOSA has no unsigned {tensor.element.removeprefix('i')}-bit tensors, and here the sign matters")


class Writer:
    """Writes a TOSA function, one operator at a time, as MLIR text. ``version`` and ``profiles`` limit the types."""

    def __init__(self, version: str = "1.1", profiles: Sequence[str] = ("pro_int", "pro_fp")) -> None:
        self.version = version
        self.profiles = tuple(profiles)
        self.lines: list[str] = []
        self.location = ""
        self._count = 0
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Tensor] = {}
        self.operators: dict[str, None] = {}
        """Names of the operators used, in order of their first use, in capitals as in the specification."""

    # Writing

    def op(
        self,
        name: str,
        operands: Sequence[Any],
        element: str,
        shape: Sequence[int],
        attributes: str = "",
        *,
        unsigned: bool = False,
    ) -> Tensor:
        """One operator with one result. ``operands`` are Tensors or shape values; ``attributes`` is MLIR text."""
        result = Tensor(self._fresh(), element, tuple(shape), unsigned)
        if name != "const":
            for tensor in (*operands, result):
                if isinstance(tensor, Tensor):
                    self._check(name, tensor)
        properties = f" <{{{attributes}}}>" if attributes else ""
        types = ", ".join(operand.type for operand in operands)
        names = ", ".join(operand.name for operand in operands)
        location = f" loc({self.location})" if self.location else ""
        self.lines.append(f'{result.name} = "tosa.{name}"({names}){properties} : ({types}) -> {result.type}{location}')
        if name != "const":
            self.operators[name.upper()] = None
        return result

    def _check(self, name: str, tensor: Tensor) -> None:
        if tensor.is_flat and name not in ("reshape", "identity"):
            fail(f"TOSA tensors have rank {MAX_RANK} at most, this one has {tensor.rank}")
        if tensor.element == "i4" and name != "identity":
            fail(FOUR_BITS)
        if tensor.element == "i64" and self.version == "1.0":
            fail("TOSA 1.0 has no 64-bit integers; 1.1 has")
        if tensor.is_float and "pro_fp" not in self.profiles:
            fail("floating-point numbers need the profile pro_fp")

    def const(self, value: Any, element: str) -> Tensor:
        """A constant tensor of the shape of ``value``; the same one is written once."""
        array = np.asarray(value)
        if element == "i4" and array.dtype != ml_dtypes.int4:
            array = (array.astype(np.int8) + 8) % 16 - 8
        array = array.astype(NUMPY[element]) if array.dtype != NUMPY[element] else array
        key = (element, array.shape, array.tobytes())
        if key not in self._constants:
            made = self.op(
                "const", (), element, array.shape, f"values = {dense(array.reshape(physical(array.shape)), element)}"
            )
            self._constants[key] = replace(made, value=array)
        return self._constants[key]

    def data(self, array: np.ndarray[Any, Any], data_type: MLOperandDataType) -> Tensor:
        """A constant in a WebNN data type."""
        unsigned = not data_type.is_signed
        signed = array.view(f"i{array.dtype.itemsize}") if array.dtype.kind == "u" else array
        return replace(self.const(signed, element_type(data_type)), unsigned=unsigned)

    def shape(self, sizes: Sequence[int]) -> Any:
        """A constant of type ``!tosa.shape``."""
        name = self._fresh()
        values = f"dense<{list(sizes)}> : tensor<{len(sizes)}xindex>" if sizes else "dense<> : tensor<0xindex>"
        kind = f"!tosa.shape<{len(sizes)}>"
        self.lines.append(f'{name} = "tosa.const_shape"() <{{values = {values}}}> : () -> {kind}')
        return _ShapeValue(name, kind)

    def _fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    # Shapes

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if x.value is not None:
            return replace(self.const(x.value.reshape(shape), x.element), unsigned=x.unsigned)
        if physical(x.shape) == physical(shape):
            return replace(x, shape=shape)
        return self.op("reshape", (x, self.shape(physical(shape))), x.element, shape, unsigned=x.unsigned)

    def on_axis(self, function: Callable[[Tensor, int], Tensor], x: Tensor, axis: int) -> Tensor:
        """Applies a function that keeps all dimensions but ``axis``; to three dimensions, where TOSA takes no more."""
        if not x.is_flat:
            return function(x, axis)
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        result = function(self.reshape(x, (math.prod(before), x.shape[axis], math.prod(after))), 1)
        return self.reshape(result, (*before, result.shape[1], *after))

    def along(self, x: Tensor, rank: int, axis: int) -> Tensor:
        """A vector as a tensor of ``rank`` that has its elements along ``axis``."""
        return self.reshape(x, [x.size if dimension == axis else 1 for dimension in range(rank)])

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        permutation = tuple(permutation)
        if permutation == tuple(range(x.rank)):
            return x
        if x.value is not None:
            return replace(self.const(np.ascontiguousarray(x.value.transpose(permutation)), x.element), unsigned=x.unsigned)
        if x.is_flat:
            return self._transpose_flat(x, permutation)
        attributes = f"perms = array<i32: {', '.join(map(str, permutation))}>"
        return self.op("transpose", (x,), x.element, [x.shape[axis] for axis in permutation], attributes, unsigned=x.unsigned)

    def _transpose_flat(self, x: Tensor, permutation: tuple[int, ...]) -> Tensor:
        """One dimension after the other moves to its place, past those that are in between."""
        order = list(range(x.rank))
        for place, axis in enumerate(permutation):
            now = order.index(axis)
            if now == place:
                continue
            parts = (order[:place], order[place:now], [axis], order[now + 1 :])
            moved = self.transpose(
                self.reshape(
                    x,
                    [
                        math.prod(x.shape[a] for a in range(i, j))
                        for i, j in ((0, place), (place, now), (now, now + 1), (now + 1, x.rank))
                    ],
                ),
                (0, 2, 1, 3),
            )
            order = [*parts[0], axis, *parts[1], *parts[3]]
            x = self.reshape(moved, [x.shape[i] for i in (*range(place), now, *range(place, now), *range(now + 1, x.rank))])
        return x

    def expand_rank(self, x: Tensor, rank: int) -> Tensor:
        """Leading dimensions of 1. Not counted among the operators: every elementwise rule would have it."""
        if x.rank == rank:
            return x
        counted = dict(self.operators)
        expanded = self.reshape(x, (1,) * (rank - x.rank) + x.shape)
        self.operators = counted
        return expanded

    def align(self, *tensors: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """The tensors at one rank, and the shape that they broadcast to."""
        rank = max(tensor.rank for tensor in tensors)
        aligned = tuple(self.expand_rank(tensor, rank) for tensor in tensors)
        return aligned, tuple(max(sizes) for sizes in zip(*(tensor.shape for tensor in aligned), strict=True))

    def tile(self, x: Tensor, repetitions: Sequence[int]) -> Tensor:
        if all(count == 1 for count in repetitions):
            return x
        if x.is_flat:
            for axis, count in enumerate(repetitions):
                x = self.tile_axis(x, axis, count)
            return x
        shape = [size * count for size, count in zip(x.shape, repetitions, strict=True)]
        return self.op("tile", (x, self.shape(repetitions)), x.element, shape, unsigned=x.unsigned)

    def broadcast_to(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Tiles what is 1 to ``shape``."""
        x = self.expand_rank(x, len(shape))
        return self.tile(x, [target // size for size, target in zip(x.shape, shape, strict=True)])

    def slice(self, x: Tensor, starts: Sequence[int], sizes: Sequence[int]) -> Tensor:
        if tuple(sizes) == x.shape:
            return x
        if x.is_flat:
            for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
                x = self.slice_axis(x, axis, start, size)
            return x
        return self.op("slice", (x, self.shape(starts), self.shape(sizes)), x.element, sizes, unsigned=x.unsigned)

    def slice_axis(self, x: Tensor, axis: int, start: int, size: int, stride: int = 1) -> Tensor:
        """``size`` elements along ``axis``, of which every stride-th is taken: SLICE knows no strides."""

        def cut(x: Tensor, axis: int) -> Tensor:
            starts, sizes = [0] * x.rank, list(x.shape)
            starts[axis], sizes[axis] = start, size
            return self.slice(x, starts, sizes)

        if stride >= size:
            size, stride = 1, 1
        x = self.on_axis(cut, x, axis)
        if stride == 1:
            return x
        count = -(-size // stride)
        x = self.pad_axis(x, axis, 0, count * stride - size)
        shape, before, after = x.shape, math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
        split = self.reshape(x, (before, count, stride, after))
        return self.reshape(self.slice_axis(split, 2, 0, 1), (*shape[:axis], count, *shape[axis + 1 :]))

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        first = tensors[0]
        if len(tensors) == 1:
            return first
        shape = list(first.shape)
        shape[axis] = sum(tensor.shape[axis] for tensor in tensors)
        if len(shape) > MAX_RANK:
            before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
            parts = [self.reshape(tensor, (before, tensor.shape[axis], after)) for tensor in tensors]
            return self.reshape(self.concat(parts, 1), shape)
        return self.op("concat", tensors, first.element, shape, f"axis = {axis} : i32", unsigned=first.unsigned)

    def pad(self, x: Tensor, before: Sequence[int], after: Sequence[int], value: Any = 0) -> Tensor:
        if not any(before) and not any(after):
            return x
        if x.is_flat:
            for axis, (low, high) in enumerate(zip(before, after, strict=True)):
                x = self.pad_axis(x, axis, low, high, value)
            return x
        shape = [low + size + high for low, size, high in zip(before, x.shape, after, strict=True)]
        padding = self.shape([size for pair in zip(before, after, strict=True) for size in pair])
        return self.op("pad", (x, padding, self.const([value], x.element)), x.element, shape, unsigned=x.unsigned)

    def pad_axis(self, x: Tensor, axis: int, before: int, after: int, value: Any = 0) -> Tensor:
        def widen(x: Tensor, axis: int) -> Tensor:
            low, high = ([count if a == axis else 0 for a in range(x.rank)] for count in (before, after))
            return self.pad(x, low, high, value)

        return self.on_axis(widen, x, axis)

    def tile_axis(self, x: Tensor, axis: int, count: int) -> Tensor:
        def repeat(x: Tensor, axis: int) -> Tensor:
            return self.tile(x, [count if dimension == axis else 1 for dimension in range(x.rank)])

        return self.on_axis(repeat, x, axis) if count else x

    def reverse(self, x: Tensor, axis: int) -> Tensor:
        if x.shape[axis] == 1:
            return x

        def turn(x: Tensor, axis: int) -> Tensor:
            return self.op("reverse", (x,), x.element, x.shape, f"axis = {axis} : i32", unsigned=x.unsigned)

        return self.on_axis(turn, x, axis)


@dataclass(frozen=True)
class _ShapeValue:
    name: str
    type: str


def dense(array: np.ndarray[Any, Any], element: str) -> str:
    """A dense attribute, bit-exact: hexadecimal, but for booleans and 4-bit integers."""
    kind = f"tensor<{''.join(f'{size}x' for size in array.shape)}{element}>"
    if element in ("i1", "i4"):
        text = str(array.astype(np.int8).tolist()).replace("'", "")
        if element == "i1":
            text = str(array.tolist()).replace("True", "true").replace("False", "false")
        return f"dense<{text}> : {kind}"
    return f'dense<"0x{array.tobytes().hex().upper()}"> : {kind}'
