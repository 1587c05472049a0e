"""Kinds of arguments that are not operands: how a Python value converts, and what it is called in stubs and files.

Conversions follow WebIDL: [EnforceRange] unsigned long, MLNumber (bigint or unrestricted double), enums. Integers stay
Python integers of any size, so 2**64 - 1 is never a float on the way.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from webnn_xla.dtypes import MLOperandDataType
from webnn_xla.errors import ArgumentError, Rejected

UINT32_MAX: Final = 2**32 - 1


@dataclass(frozen=True)
class Kind:
    """``annotation`` is the type in stubs; ``allowed`` is the phrase in messages."""

    annotation: str
    allowed: str

    def convert(self, value: Any, name: str) -> Any:
        """The value in the form that graphs store (immutable), or Rejected."""
        raise NotImplementedError


def _reject(name: str, value: Any, allowed: str) -> Rejected:
    try:
        text = repr(value)
    except Exception:  # integers of thousands of digits have none, and a repr may fail
        text = f"an unprintable {type(value).__name__}"
    return Rejected(name, text if len(text) <= 100 else text[:100] + "…", allowed)


@dataclass(frozen=True)
class Integer(Kind):
    low: int
    high: int

    def convert(self, value: Any, name: str) -> int:
        try:
            if isinstance(value, (bool, np.bool_)):
                raise TypeError
            number = operator.index(value)
        except TypeError:
            raise _reject(name, value, self.allowed) from None
        if not self.low <= number <= self.high:
            raise _reject(name, number, self.allowed)
        return number


@dataclass(frozen=True)
class Boolean(Kind):
    def convert(self, value: Any, name: str) -> bool:
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        raise _reject(name, value, self.allowed)


@dataclass(frozen=True)
class Double(Kind):
    """A double. WebIDL's ``double`` is finite; only MLNumber may be NaN or infinite."""

    def convert(self, value: Any, name: str) -> float:
        number = _real(value, name, self.allowed)
        try:
            result = float(number)
        except OverflowError:
            raise _reject(name, value, self.allowed) from None
        if not math.isfinite(result):
            raise _reject(name, value, self.allowed)
        return result


@dataclass(frozen=True)
class Single(Double):
    """WebIDL's ``float``: rounded to float32, and finite after it."""

    def convert(self, value: Any, name: str) -> float:
        with np.errstate(over="ignore"):
            result = float(np.float32(super().convert(value, name)))
        if not math.isfinite(result):
            raise _reject(name, value, self.allowed)
        return result


@dataclass(frozen=True)
class Number(Kind):
    """MLNumber: an integer of any size or a float, NaN and infinities included; kept as it is."""

    def convert(self, value: Any, name: str) -> int | float:
        return _real(value, name, self.allowed)


@dataclass(frozen=True)
class Choice(Kind):
    """An IDL enum."""

    values: tuple[str, ...]

    def convert(self, value: Any, name: str) -> str:
        if isinstance(value, str) and value in self.values:
            return str(value)
        raise _reject(name, value, self.allowed)


@dataclass(frozen=True)
class DataTypeKind(Kind):
    def convert(self, value: Any, name: str) -> MLOperandDataType:
        try:
            return MLOperandDataType.of(value)
        except ArgumentError:
            raise _reject(name, value, self.allowed) from None


@dataclass(frozen=True)
class ListOf(Kind):
    """A sequence; converts to a tuple."""

    item: Kind

    def convert(self, value: Any, name: str) -> tuple[Any, ...]:
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise _reject(name, value, self.allowed)
        return tuple(self.item.convert(item, f"{name}[{index}]") for index, item in enumerate(value))


@dataclass(frozen=True)
class Either(Kind):
    """A number or a sequence of them (``splits``)."""

    scalar: Kind
    sequence: Kind

    def convert(self, value: Any, name: str) -> Any:
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            return self.sequence.convert(value, name)
        return self.scalar.convert(value, name)


def _real(value: Any, name: str, allowed: str) -> int | float:
    if isinstance(value, (bool, np.bool_)):
        raise _reject(name, value, allowed)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, (numbers.Real, np.floating)):
        return float(value)
    try:
        return float(value) if getattr(value, "shape", None) == () else operator.index(value)
    except (TypeError, ValueError):
        raise _reject(name, value, allowed) from None


def choice(*values: str) -> Choice:
    """An enum of the specification."""
    return Choice(f"Literal[{', '.join(map(repr, values))}]", " or ".join(map(repr, values)), values)


def list_of(item: Kind) -> ListOf:
    return ListOf(f"Sequence[{item.annotation}]", f"a sequence of: {item.allowed}", item)


UINT32: Final = Integer("int", "an integer from 0 to 4294967295", 0, UINT32_MAX)
INT32: Final = Integer("int", "an integer from -2147483648 to 2147483647", -(2**31), 2**31 - 1)
BOOL: Final = Boolean("bool", "True or False")
DOUBLE: Final = Double("float", "a finite number")
NUMBER: Final = Number("int | float", "a number")
DATA_TYPE: Final = DataTypeKind("DataTypeLike", ", ".join(MLOperandDataType))
UINT32S: Final = list_of(UINT32)
DOUBLES: Final = list_of(DOUBLE)
SINGLES: Final = list_of(Single("float", "a finite float32 number"))
SPLITS: Final = Either("int | Sequence[int]", "an integer or a sequence of integers", UINT32, UINT32S)
