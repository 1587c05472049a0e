"""ONNX element types, the NumPy dtype that says what they mean, and the WebNN data type that holds them.

WebNN has no booleans, 16-bit integers or double precision, so a tensor has two types: the logical one (ONNX's, a NumPy
dtype) and the storage (WebNN's). Booleans are uint8 of 0 and 1; int16 and uint16 are int32, wrapped after arithmetic;
float64 is computed in float32; floats of 8 and 4 bits are float32 that hold representable numbers only.
"""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx

from webnn_xla.dtypes import MLOperandDataType
from webnn_xla.errors import DataError, NotSupportedError

DType = np.dtype[Any]
Array = np.ndarray[Any, Any]
T = MLOperandDataType

BOOL: Final[DType] = np.dtype(bool)
INT64: Final[DType] = np.dtype(np.int64)
INT32: Final[DType] = np.dtype(np.int32)
FLOAT32: Final[DType] = np.dtype(np.float32)
FLOAT16: Final[DType] = np.dtype(np.float16)
FLOAT64: Final[DType] = np.dtype(np.float64)
UINT8: Final[DType] = np.dtype(np.uint8)
BFLOAT16: Final[DType] = np.dtype(ml_dtypes.bfloat16)

SMALL_FLOATS: Final = tuple(
    np.dtype(getattr(ml_dtypes, name))
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn")
)
"""Floats of at most 8 bits. They are held as float32: nothing is computed in them but conversions."""

_STORAGE: Final[dict[str, MLOperandDataType]] = {
    "bool": T.UINT8,
    "int16": T.INT32,
    "uint16": T.INT32,
    "float64": T.FLOAT32,
    "int2": T.INT8,
    "uint2": T.UINT8,
    **{dtype.name: T.FLOAT32 for dtype in SMALL_FLOATS},
    **{member.value: member for member in MLOperandDataType},
}

BITS: Final[dict[str, int]] = {
    "int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4,
}  # fmt: skip
"""Element size of the types that share bytes."""


def from_enum(code: int, what: str) -> DType:
    """The logical dtype of a ``TensorProto.DataType``; NotSupportedError for strings and complex numbers."""
    try:
        name = onnx.TensorProto.DataType.Name(code)
    except ValueError:
        raise DataError(f"{what} has the unknown element type {code}") from None
    if name in ("UNDEFINED", "STRING", "COMPLEX64", "COMPLEX128"):
        raise NotSupportedError(f"{what} is of type {name.lower()}; WebNN has numbers only")
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    if dtype.name not in _STORAGE:
        raise NotSupportedError(f"{what} is of type {name.lower()}, which is not supported")
    return dtype


def storage_of(dtype: DType) -> MLOperandDataType:
    """The WebNN data type that holds tensors of a logical type."""
    return _STORAGE[dtype.name]


def to_storage(array: Array) -> Array:
    """``array`` of a logical type, in its storage type."""
    wanted = storage_of(array.dtype).numpy
    return array if array.dtype == wanted else array.astype(wanted)


def is_float(dtype: DType) -> bool:
    return dtype.kind == "f" or "float" in dtype.name


def is_small_float(dtype: DType) -> bool:
    return dtype in SMALL_FLOATS


def is_signed(dtype: DType) -> bool:
    return not dtype.name.startswith("u") and dtype != BOOL


def integer_bits(dtype: DType) -> int:
    """Bits of an integer type."""
    return BITS.get(dtype.name, dtype.itemsize * 8)


def integer_range(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    bits = integer_bits(dtype)
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed(dtype) else (0, 2**bits - 1)
