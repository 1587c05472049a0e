"""The vocabulary of TOSA rules: ``to_tosa`` of an op's declaration writes with it what the op is in TOSA.

    @staticmethod
    def to_tosa(t, input, axis):                       # t: Emitter; operands are Tensors, arguments as in ``lower``
        exponent = t.unary("exp", t.binary("sub", input, t.reduce("reduce_max", input, axis)))
        return t.mul(exponent, t.unary("reciprocal", t.reduce("reduce_sum", exponent, axis)))

TOSA has no unsigned integers but the names in quantised operators: unsigned data travels as its bits in the signed type of
the same width, and a rule whose meaning depends on the sign refuses it or orders by other means. Elementwise operators want
equal ranks; ``binary`` and the others reshape for it. Tensors of rank 7 and more travel flat, in row-major order, through a
graph and at its ends: helpers work on three dimensions at a time (before the axis, the axis, after it).
Source: https://www.mlplatform.org/tosa/tosa_spec.html (1.0 and 1.1 draft).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn

import ml_dtypes
import numpy as np

from webnn_xla.dtypes import Descriptor, MLOperandDataType, cast_number

MAX_RANK: Final = 6
"""Of TOSA tensors, in every level."""

FOUR_BITS: Final = "TOSA has 4-bit integers as weights of convolutions only"

_ELEMENT: Final = {
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

_NUMPY: Final[Mapping[str, Any]] = {
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
    return _ELEMENT[data_type]


def data_type_of_element(x: Tensor) -> MLOperandDataType:
    """The WebNN data type that a tensor stands for."""
    names = [name for name, element in _ELEMENT.items() if element == x.element]
    return MLOperandDataType.of(next(name for name in names if x.is_float or name.startswith("u") == x.unsigned))


def number_bits(value: int | float, like: Tensor) -> Any:
    """A number cast to the WebNN type of ``like``, as TOSA's element type has its bits."""
    data_type = data_type_of_element(like)
    number = np.asarray(cast_number(value, data_type), data_type.numpy)
    return number.view(f"i{number.itemsize}") if like.unsigned and data_type.bits >= 8 else number


def fail(reason: str) -> NoReturn:
    """Says why TOSA cannot express an op."""
    raise TosaUnsupported(reason)


def signed_only(*tensors: Tensor) -> None:
    """Refuses unsigned operands, where the operator would read their bits as signed numbers."""
    for tensor in tensors:
        if tensor.unsigned:
            fail(f"TOSA has no unsigned {tensor.element.removeprefix('i')}-bit tensors, and here the sign matters")


class Emitter:
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
        array = array.astype(_NUMPY[element]) if array.dtype != _NUMPY[element] else array
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
        """Leading dimensions of 1."""
        return x if x.rank == rank else self.reshape(x, (1,) * (rank - x.rank) + x.shape)

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
                x = self.on_axis(
                    lambda x, axis, count=count: self.tile(x, [count if a == axis else 1 for a in range(x.rank)]), x, axis
                )
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
        return self.tile(x, [count if dimension == axis else 1 for dimension in range(x.rank)]) if count else x

    def reverse(self, x: Tensor, axis: int) -> Tensor:
        if x.shape[axis] == 1:
            return x

        def turn(x: Tensor, axis: int) -> Tensor:
            return self.op("reverse", (x,), x.element, x.shape, f"axis = {axis} : i32", unsigned=x.unsigned)

        return self.on_axis(turn, x, axis)

    def take(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """The slices at ``indices`` (i32, of any rank, in bounds) along ``axis``, whose place their shape takes."""
        before, count, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
        if math.prod(before) > 1:
            # One row of indices reads from one batch: the axis comes first, all others are what is read.
            x = self.transpose(x, (axis, *range(axis), *range(axis + 1, x.rank)))
        rows = self.gather(self.reshape(x, (1, count, x.size // count)), self.reshape(indices, (1, indices.size)))
        if math.prod(before) == 1:
            return self.reshape(rows, (*before, *indices.shape, *after))
        rows = self.reshape(rows, (indices.size, math.prod(before), math.prod(after)))
        return self.reshape(self.transpose(rows, (1, 0, 2)), (*before, *indices.shape, *after))

    def gather(self, values: Tensor, indices: Tensor) -> Tensor:
        """[N, K, C] and i32 [N, W], in bounds, to [N, W, C]."""
        shape = (values.shape[0], indices.shape[1], values.shape[2])
        return self.op("gather", (values, self._index(values, indices)), values.element, shape, unsigned=values.unsigned)

    def scatter(self, values: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        """[N, K, C] with rows replaced by [N, W, C], at i32 [N, W], in bounds and distinct in each batch."""
        operands = (values, self._index(values, indices), updates)
        return self.op("scatter", operands, values.element, values.shape, unsigned=values.unsigned)

    def _index(self, values: Tensor, indices: Tensor) -> Tensor:
        """Indices of 64 bits are those that 64-bit values want."""
        return self.cast(indices, "i64") if values.element == "i64" else indices

    # Elementwise

    def scalar(self, value: Any, like: Tensor) -> Tensor:
        """``value`` in the type of ``like``, with its rank and dimensions of 1."""
        return self.const(np.full((1,) * like.rank, value, _NUMPY[like.element]), like.element)

    def elementwise(
        self, name: str, operands: Sequence[Tensor], element: str, attributes: str = "", extra: Sequence[Tensor] = ()
    ) -> Tensor:
        """An operator on tensors that broadcast, and ``extra`` operands that do not."""
        aligned, shape = self.align(*operands)
        if len(shape) > MAX_RANK:
            aligned = tuple(
                replace(x, shape=(x.size,)) for x in (x if x.size == 1 else self.broadcast_to(x, shape) for x in aligned)
            )
        unsigned = operands[-1].unsigned
        made = self.op(name, (*aligned, *extra), element, physical(shape), attributes, unsigned=unsigned)
        return made if made.shape == shape else replace(made, shape=shape)

    def unary(self, name: str, x: Tensor) -> Tensor:
        zero = (self.const([0], x.element),) * 2 if name == "negate" else ()
        return self.elementwise(name, (x,), x.element, extra=zero)

    def binary(self, name: str, a: Tensor, b: Any, element: str = "", attributes: str = "") -> Tensor:
        """An elementwise operator on two tensors (or a tensor and a number), broadcast."""
        second = b if isinstance(b, Tensor) else self.scalar(b, a)
        made = self.elementwise(name, (a, second), element or a.element, attributes)
        return replace(made, unsigned=a.unsigned)

    def add(self, a: Tensor, b: Any) -> Tensor:
        return self.binary("add", a, b)

    def sub(self, a: Tensor, b: Any) -> Tensor:
        return self.binary("sub", a, b)

    def mul(self, a: Tensor, b: Any) -> Tensor:
        second = b if isinstance(b, Tensor) else self.scalar(b, a)
        return replace(self.elementwise("mul", (a, second), a.element, extra=(self.const([0], "i8"),)), unsigned=a.unsigned)

    def maximum(self, a: Tensor, b: Any) -> Tensor:
        return self.binary("maximum", a, b)

    def minimum(self, a: Tensor, b: Any) -> Tensor:
        return self.binary("minimum", a, b)

    def compare(self, name: str, a: Tensor, b: Any) -> Tensor:
        """``equal``, ``greater`` or ``greater_equal``; the result is of i1."""
        return replace(self.binary(name, a, b, "i1"), unsigned=False)

    def select(self, condition: Tensor, on_true: Any, on_false: Any) -> Tensor:
        like = on_true if isinstance(on_true, Tensor) else on_false
        first = on_true if isinstance(on_true, Tensor) else self.scalar(on_true, like)
        second = on_false if isinstance(on_false, Tensor) else self.scalar(on_false, like)
        return replace(self.elementwise("select", (condition, first, second), like.element), unsigned=like.unsigned)

    def cast(self, x: Tensor, element: str, *, unsigned: bool = False) -> Tensor:
        """TOSA's CAST: float to integer rounds half to even and saturates."""
        if x.element == element:
            return replace(x, unsigned=unsigned)
        if {x.element, element} == {"bf16", "f16"}:
            x = self.cast(x, "f32")
        if "i64" in (x.element, element) and (x.is_float or element in ("f32", "f16", "bf16")):
            fail("TOSA has no CAST between 64-bit integers and floats")
        if x.value is not None and x.element in ("i4", "i64") and element in ("i32", "i64"):
            return replace(self.const(x.value.astype(_NUMPY[element]), element), unsigned=unsigned)
        return replace(self.elementwise("cast", (x,), element), unsigned=unsigned)

    def to_boolean(self, x: Tensor) -> Tensor:
        """i1: true where not zero."""
        return self.unary("logical_not", self.compare("equal", self.widen_integer(x), 0))

    def from_boolean(self, x: Tensor) -> Tensor:
        """WebNN's uint8 of 0 and 1."""
        return self.cast(x, "i8", unsigned=True)

    def widen_integer(self, x: Tensor) -> Tensor:
        """int8 as int32: most elementwise operators take only the latter. Unsigned numbers keep their value."""
        if x.element not in ("i8", "i4"):
            return x
        wide = self.cast(x, "i32")
        if x.unsigned:
            bits = 8 if x.element == "i8" else 4
            wide = self.binary("bitwise_and", wide, (1 << bits) - 1)
        return wide

    def narrow_integer(self, x: Tensor, like: Tensor) -> Tensor:
        """The low bits of ``x``, in the type of ``like``: the inverse of ``widen_integer``."""
        return self.cast(x, like.element, unsigned=like.unsigned)

    def ordered(self, x: Tensor) -> Tensor:
        """Integers whose signed order is the order of ``x``: unsigned ones with their highest bit flipped, small ones wide."""
        wide = self.widen_integer(x)
        if not wide.unsigned:
            return wide
        lowest = -(2 ** (int(wide.element[1:]) - 1))
        return replace(self.binary("bitwise_xor", wide, lowest), unsigned=False)

    def on_ordered(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Applies a function that picks among its operands' values (a maximum, …) to integers of any sign and size."""
        like = tensors[0]
        if like.is_float:
            return function(*tensors)
        picked = function(*map(self.ordered, tensors))
        if like.unsigned and like.element in ("i32", "i64"):
            picked = self.binary("bitwise_xor", picked, -(2 ** (int(like.element[1:]) - 1)))
        return self.narrow_integer(picked, like)

    def on_wide(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Applies integer arithmetic to small integers as int32, and keeps the low bits; others as they are."""
        like = tensors[0]
        return self.narrow_integer(function(*map(self.widen_integer, tensors)), like)

    def in_float32(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Runs ``function`` on float32 copies of narrow floats, and rounds its result once."""
        element = tensors[0].element
        if element not in ("f16", "bf16"):
            return function(*tensors)
        return self.cast(function(*(self.cast(tensor, "f32") for tensor in tensors)), element)

    # Reductions and products

    def reduce(self, name: str, x: Tensor, axis: int) -> Tensor:
        """One axis, kept with size 1."""
        if x.shape[axis] == 1 and name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_product"):
            return x

        def whole(x: Tensor, axis: int) -> Tensor:
            shape = [1 if a == axis else size for a, size in enumerate(x.shape)]
            return self.op(name, (x,), x.element, shape, f"axis = {axis} : i32", unsigned=x.unsigned)

        return self.on_axis(whole, x, axis)

    def reduce_all(self, name: str, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Several axes, kept with size 1; neighbours together."""
        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        while axes:
            *axes, last = sorted(axes)
            first = last
            while axes and axes[-1] == first - 1:
                first = axes.pop()
            merged = (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :])
            if first != last:
                x = self.reshape(x, merged)
            x = self.reduce(name, x, first)
        return self.reshape(x, shape)

    def sqrt(self, x: Tensor) -> Tensor:
        return self.unary("reciprocal", self.unary("rsqrt", x))

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """[N, H, C] × [N, C, W] → [N, H, W], accumulated in float32."""
        zeros = [self.const([0], tensor.element) for tensor in (a, b)]
        accumulate = "f32" if a.is_float else "i32"
        product = self.op("matmul", (a, b, *zeros), accumulate, (a.shape[0], a.shape[1], b.shape[2]))
        return self.cast(product, a.element) if a.is_float else product


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


def describe(descriptor: Descriptor) -> tuple[str, tuple[int, ...], bool]:
    """Element type, shape and unsignedness of an operand."""
    return element_type(descriptor.data_type), tuple(descriptor.shape), not descriptor.data_type.is_signed
