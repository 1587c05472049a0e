"""Data types, shapes and operand descriptors: what rules on graphs talk about, with no JAX in it.

Source: https://www.w3.org/TR/webnn/#api-mloperanddescriptor. ``int4``, ``uint4`` and ``bfloat16`` are extensions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, SupportsIndex

import ml_dtypes
import numpy as np

from webnn_xla.errors import ArgumentError

MAX_RANK: Final = 8
"""Ranks that every op is tested at. The specification leaves the limit to the implementation."""

MAX_DIMENSION: Final = 2**31 - 1
"""A valid dimension is in the range of an IDL ``long``, and so is the number of elements."""


class MLOperandDataType(StrEnum):
    """Data type of an operand. A member equals its name as a string: ``MLOperandDataType.FLOAT32 == "float32"``."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    INT8 = "int8"
    UINT8 = "uint8"
    INT4 = "int4"
    UINT4 = "uint4"
    BFLOAT16 = "bfloat16"

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype that holds one element; 4-bit integers take a byte each on the host."""
        return np.dtype(getattr(ml_dtypes, self.value)) if self.is_extension else np.dtype(self.value)

    @cached_property
    def carrier(self) -> np.dtype[Any]:
        """The dtype of device arrays at a program's boundary: a byte for 4-bit integers, else ``numpy``.

        Ahead-of-time executables of jaxlib 0.10 reject int4 arguments, for their sub-byte layout.
        """
        return self.numpy if self.bits >= 8 else np.dtype(np.int8 if self.is_signed else np.uint8)

    @cached_property
    def bits(self) -> int:
        return int("".join(c for c in self.value if c.isdigit()))

    @cached_property
    def is_float(self) -> bool:
        return "float" in self.value

    @cached_property
    def is_integer(self) -> bool:
        return not self.is_float

    @cached_property
    def is_signed(self) -> bool:
        return not self.value.startswith("u")

    @cached_property
    def is_extension(self) -> bool:
        """True for the types that the specification does not have."""
        return self.value in ("int4", "uint4", "bfloat16")

    @cached_property
    def integer_range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.is_signed:
            return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1
        return 0, 2**self.bits - 1

    @classmethod
    def of(cls, value: object, operand: str = "data_type") -> MLOperandDataType:
        """Converts a name, NumPy dtype, scalar type or member; anything else is an ArgumentError."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            member = _BY_NAME.get(value)
        else:
            try:
                member = _BY_NAME.get(np.dtype(value).name)  # type: ignore[call-overload]
            except TypeError:
                member = None
        if member is None:
            raise ArgumentError(f"got {value!r}; allowed: {', '.join(cls)}", operand=operand)
        return member


_BY_NAME: dict[str, MLOperandDataType] = {member.value: member for member in MLOperandDataType}

DataTypeLike = str | MLOperandDataType | np.dtype[Any] | type[Any]
"""What ``MLOperandDataType.of`` converts."""

SPEC_TYPES: Final = tuple(member for member in MLOperandDataType if not member.is_extension)
EXTENSION_TYPES: Final = tuple(member for member in MLOperandDataType if member.is_extension)


def carried(array: Any) -> Any:
    """``array`` as it crosses a program's boundary (see ``carrier``), without a copy."""
    carrier = MLOperandDataType.of(array.dtype).carrier
    return array if array.dtype == carrier else array.view(carrier)


class Shape(tuple[int, ...]):
    """Dimensions of a tensor. Immutable like the specification's FrozenArray, and equal to a list of the same numbers."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class MLOperandDescriptor:
    """Data type and shape of an operand or tensor. Immutable; compares and hashes by value.

    ``MLOperandDescriptor("float32", [2, 3])``. A mapping with ``data_type``/``dataType`` and ``shape`` converts by ``of``.
    """

    __slots__ = ("data_type", "shape")

    data_type: MLOperandDataType
    shape: Shape

    def __init__(self, data_type: object, shape: Iterable[SupportsIndex]) -> None:
        object.__setattr__(self, "data_type", MLOperandDataType.of(data_type))
        object.__setattr__(self, "shape", _to_shape(shape))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"MLOperandDescriptor is immutable: cannot set {name}")

    @classmethod
    def of(cls, value: object) -> MLOperandDescriptor:
        """Converts a descriptor or a mapping; anything else is an ArgumentError."""
        if isinstance(value, MLOperandDescriptor):
            return value
        if isinstance(value, Mapping):
            data_type = value.get("data_type", value.get("dataType"))
            if data_type is None or "shape" not in value:
                raise ArgumentError(f"got keys {sorted(map(str, value))}; allowed: data_type and shape", operand="descriptor")
            return cls(data_type, value["shape"])
        raise ArgumentError(
            f"got {type(value).__name__}; allowed: MLOperandDescriptor or a mapping with data_type and shape",
            operand="descriptor",
        )

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def element_count(self) -> int:
        return math.prod(self.shape)

    @property
    def byte_length(self) -> int:
        """Bytes of the tensor in a buffer; two 4-bit integers share a byte, the first in bits 0-3."""
        return (self.element_count * self.data_type.bits + 7) // 8

    def with_shape(self, shape: Iterable[int]) -> MLOperandDescriptor:
        return MLOperandDescriptor(self.data_type, shape)

    def with_type(self, data_type: MLOperandDataType) -> MLOperandDescriptor:
        return MLOperandDescriptor(data_type, self.shape)

    def check_dimensions(self, max_byte_length: int) -> str | None:
        """The specification's "check dimensions": None, or what is wrong with this descriptor."""
        if len(self.shape) > MAX_RANK:
            return f"got rank {len(self.shape)}; allowed: at most {MAX_RANK}"
        for dimension in self.shape:
            if not 0 < dimension <= MAX_DIMENSION:
                return f"got dimension {dimension} in shape {list(self.shape)}; allowed: 1 to {MAX_DIMENSION}"
        if self.element_count > MAX_DIMENSION:
            return f"got {self.element_count} elements in shape {list(self.shape)}; allowed: at most {MAX_DIMENSION}"
        if self.byte_length > max_byte_length:
            return f"got {self.byte_length} bytes for {self}; allowed: at most {max_byte_length} on this context"
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MLOperandDescriptor):
            return NotImplemented
        return self.data_type is other.data_type and self.shape == other.shape

    def __hash__(self) -> int:
        return hash((self.data_type, self.shape))

    def __str__(self) -> str:
        return f"{self.data_type}[{', '.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        return f"MLOperandDescriptor({self.data_type.value!r}, {list(self.shape)})"


Descriptor = MLOperandDescriptor
"""Short name for rules on descriptors."""


def _to_shape(values: Iterable[SupportsIndex]) -> Shape:
    if isinstance(values, Shape):
        return values
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ArgumentError(f"got {values!r}; allowed: a sequence of integers", operand="shape")
    dimensions = []
    for value in values:
        if isinstance(value, (bool, np.bool_)):
            raise ArgumentError(f"got {value!r} as a dimension; allowed: an integer", operand="shape")
        try:
            dimensions.append(operator.index(value))
        except TypeError:
            raise ArgumentError(f"got {value!r} as a dimension; allowed: an integer", operand="shape") from None
    return Shape(dimensions)


def cast_number(value: int | float, data_type: MLOperandDataType) -> int | float:
    """The specification's "cast": ``value`` to the nearest number of ``data_type``, exact for integers of any size.

    Integers clamp to the range and round half to even, NaN becomes 0; floats overflow to infinity.
    Source: https://www.w3.org/TR/webnn/#algorithms-casting (where uint32 is read as unsigned).
    """
    if data_type.is_float:
        if isinstance(value, int):
            value = float(value) if abs(value) < 2**1023 else math.inf if value > 0 else -math.inf
        with np.errstate(over="ignore"):
            return float(np.float64(value).astype(data_type.numpy))
    low, high = data_type.integer_range
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return high if value > 0 else low
        value = round(value)
    return min(max(value, low), high)
