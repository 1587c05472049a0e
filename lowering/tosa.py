"""The vocabulary of TOSA rules: ``to_tosa`` of an op's declaration writes with it what the op is in TOSA.

    @staticmethod
    def to_tosa(t, input, axis):                       # t: Emitter; operands are Tensors, arguments as in ``lower``
        exponent = t.unary("exp", t.binary("sub", input, t.reduce("reduce_max", input, axis)))
        return t.mul(exponent, t.unary("reciprocal", t.reduce("reduce_sum", exponent, axis)))

TOSA has no unsigned integers but the names in quantised operators: unsigned data travels as its bits in the signed type of
the same width, and a rule whose meaning depends on the sign refuses it. Elementwise operators want equal ranks; ``binary``
and the others reshape for it. Source: https://www.mlplatform.org/tosa/tosa_spec.html (1.0 and 1.1 draft).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn

import ml_dtypes
import numpy as np

from webnn_xla.dtypes import Descriptor, MLOperandDataType

MAX_RANK: Final = 6
"""Of TOSA tensors, in every level."""

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
    def type(self) -> str:
        return f"tensor<{''.join(f'{size}x' for size in self.shape)}{self.element}>"

    @property
    def is_float(self) -> bool:
        return self.element in ("f32", "f16", "bf16")


def element_type(data_type: MLOperandDataType) -> str:
    """TOSA's element type for a WebNN data type; unsigned types as their bits."""
    return _ELEMENT[data_type]


def fail(reason: str) -> NoReturn:
    """Says why TOSA cannot express an op."""
    raise TosaUnsupported(reason)


def signed_only(*tensors: Tensor) -> None:
    """Refuses unsigned operands, where the operator would read their bits as signed numbers."""
    for tensor in tensors:
        if tensor.unsigned:
            fail(f"TOSA has no unsigned {tensor.element.removeprefix('i')}-bit tensors, and here the sign matters")


class Emitter:
    """Writes a TOSA function, one operator at a time, as MLIR text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.location = ""
        self._count = 0
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Tensor] = {}
        self.operators: set[str] = set()
        """Names of the operators used, in capitals as in the specification."""

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
        if result.rank > MAX_RANK:
            fail(f"TOSA tensors have rank {MAX_RANK} at most, this one has {result.rank}")
        properties = f" <{{{attributes}}}>" if attributes else ""
        types = ", ".join(operand.type for operand in operands)
        names = ", ".join(operand.name for operand in operands)
        location = f" loc({self.location})" if self.location else ""
        self.lines.append(f'{result.name} = "tosa.{name}"({names}){properties} : ({types}) -> {result.type}{location}')
        if name != "const":
            self.operators.add(name.upper())
        return result

    def const(self, value: Any, element: str) -> Tensor:
        """A constant tensor of the shape of ``value``; the same one is written once."""
        array = np.asarray(value)
        array = array.astype(_NUMPY[element]) if array.dtype != _NUMPY[element] else array
        key = (element, array.shape, array.tobytes())
        if key not in self._constants:
            made = self.op("const", (), element, array.shape, f"values = {dense(array, element)}")
            self._constants[key] = replace(made, value=array)
        return self._constants[key]

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
        return self.op("reshape", (x, self.shape(shape)), x.element, shape, unsigned=x.unsigned)

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        permutation = tuple(permutation)
        if permutation == tuple(range(x.rank)):
            return x
        if x.value is not None:
            return replace(self.const(np.ascontiguousarray(x.value.transpose(permutation)), x.element), unsigned=x.unsigned)
        attributes = f"perms = array<i32: {', '.join(map(str, permutation))}>"
        return self.op("transpose", (x,), x.element, [x.shape[axis] for axis in permutation], attributes, unsigned=x.unsigned)

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
        shape = [size * count for size, count in zip(x.shape, repetitions, strict=True)]
        return self.op("tile", (x, self.shape(repetitions)), x.element, shape, unsigned=x.unsigned)

    def broadcast_to(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Tiles what is 1 to ``shape``."""
        x = self.expand_rank(x, len(shape))
        return self.tile(x, [target // size for size, target in zip(x.shape, shape, strict=True)])

    def slice(self, x: Tensor, starts: Sequence[int], sizes: Sequence[int]) -> Tensor:
        if tuple(sizes) == x.shape:
            return x
        return self.op("slice", (x, self.shape(starts), self.shape(sizes)), x.element, sizes, unsigned=x.unsigned)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        if len(tensors) == 1:
            return tensors[0]
        shape = list(tensors[0].shape)
        shape[axis] = sum(tensor.shape[axis] for tensor in tensors)
        first = tensors[0]
        return self.op("concat", tensors, first.element, shape, f"axis = {axis} : i32", unsigned=first.unsigned)

    def pad(self, x: Tensor, before: Sequence[int], after: Sequence[int], value: Any = 0) -> Tensor:
        if not any(before) and not any(after):
            return x
        shape = [low + size + high for low, size, high in zip(before, x.shape, after, strict=True)]
        padding = self.shape([size for pair in zip(before, after, strict=True) for size in pair])
        return self.op("pad", (x, padding, self.const([value], x.element)), x.element, shape, unsigned=x.unsigned)

    # Elementwise

    def scalar(self, value: Any, like: Tensor) -> Tensor:
        """``value`` in the type of ``like``, with its rank and dimensions of 1."""
        return self.const(np.full((1,) * like.rank, value, _NUMPY[like.element]), like.element)

    def unary(self, name: str, x: Tensor) -> Tensor:
        if name == "negate":
            zero = self.const([0], x.element)
            return self.op(name, (x, zero, zero), x.element, x.shape)
        return self.op(name, (x,), x.element, x.shape, unsigned=x.unsigned)

    def binary(self, name: str, a: Tensor, b: Any, element: str = "", attributes: str = "") -> Tensor:
        """An elementwise operator on two tensors (or a tensor and a number), broadcast."""
        second = b if isinstance(b, Tensor) else self.scalar(b, a)
        (a, second), shape = self.align(a, second)
        return self.op(name, (a, second), element or a.element, shape, attributes, unsigned=a.unsigned)

    def add(self, a: Tensor, b: Any) -> Tensor:
        return self.binary("add", a, b)

    def sub(self, a: Tensor, b: Any) -> Tensor:
        return self.binary("sub", a, b)

    def mul(self, a: Tensor, b: Any) -> Tensor:
        second = b if isinstance(b, Tensor) else self.scalar(b, a)
        (a, second), shape = self.align(a, second)
        return self.op("mul", (a, second, self.const([0], "i8")), a.element, shape, unsigned=a.unsigned)

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
        (condition, first, second), shape = self.align(condition, first, second)
        return self.op("select", (condition, first, second), first.element, shape, unsigned=first.unsigned)

    def cast(self, x: Tensor, element: str, *, unsigned: bool = False) -> Tensor:
        """TOSA's CAST: float to integer rounds half to even and saturates."""
        if x.element == element:
            return replace(x, unsigned=unsigned)
        return self.op("cast", (x,), element, x.shape, unsigned=unsigned)

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
            wide = self.op("bitwise_and", (wide, self.scalar((1 << bits) - 1, wide)), "i32", wide.shape)
        return wide

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
        shape = list(x.shape)
        shape[axis] = 1
        return self.op(name, (x,), x.element, shape, f"axis = {axis} : i32")

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
