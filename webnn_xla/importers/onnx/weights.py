"""Tensors of a model file: inline data, and external data memory-mapped and confined to the model's folder.

Sizes are compared with what shape and type say before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

import ml_dtypes
import numpy as np
import onnx

from webnn_xla.errors import DataError, printable
from webnn_xla.importers.onnx.types import BITS, FLOAT16, Array, DType, from_enum
from webnn_xla.importers.onnx.values import Tensor

SMALL_BYTES: Final = 4096
"""Floating-point tensors up to this size are known on import and may fold; larger ones are weights, read after the build."""

SMALL_INTEGERS: Final = 1 << 20
"""The same for integers and booleans, which may be shapes or indices, in bytes."""


def read_tensor(proto: onnx.TensorProto, folder: Path | None, name: str = "") -> Tensor:
    """A tensor of the model: its value if it is small and inline, else a weight that is read when it is asked for."""
    name = name or proto.name
    what = f"tensor {printable(name)!r}"
    dtype = from_enum(proto.data_type, what)
    shape = tuple(int(d) for d in proto.dims)
    if any(d < 0 for d in shape):
        raise DataError(f"{what} has the shape {list(shape)}; dimensions are not negative")
    if math.prod(shape) >= 2**40:
        raise DataError(f"{what} has {math.prod(shape)} elements, which is absurd")
    reader = _external(proto, folder, dtype, shape, what) if _is_external(proto) else _inline(proto, dtype, shape, what)
    size = byte_size(dtype, shape)
    limit = SMALL_INTEGERS if dtype.kind in "iub" else SMALL_BYTES
    if math.prod(shape) == 0:
        return Tensor(dtype, shape, np.zeros(shape, dtype), name=name)
    if size <= limit and (not _is_external(proto) or size <= SMALL_BYTES):
        return Tensor(dtype, shape, reader(), name=name)
    return Tensor(dtype, shape, weight=reader, name=name)


def byte_size(dtype: DType, shape: tuple[int, ...]) -> int:
    """Bytes in a file; elements under 8 bits share bytes."""
    return (math.prod(shape) * BITS.get(dtype.name, dtype.itemsize * 8) + 7) // 8


def _is_external(proto: onnx.TensorProto) -> bool:
    return bool(proto.data_location == onnx.TensorProto.EXTERNAL)


def _inline(proto: onnx.TensorProto, dtype: DType, shape: tuple[int, ...], what: str) -> Callable[[], Array]:
    count = math.prod(shape)
    if proto.HasField("raw_data"):
        wanted = byte_size(dtype, shape)
        if len(proto.raw_data) != wanted:
            raise DataError(f"{what} of {dtype.name}{list(shape)} has {len(proto.raw_data)} bytes of data instead of {wanted}")
        return lambda: _decode(np.frombuffer(proto.raw_data, np.uint8), dtype, shape)
    bits = BITS.get(dtype.name, 8)
    field = _FIELDS.get(dtype.name, "int32_data")
    values = getattr(proto, field)
    stored = count if bits == 8 else (count * bits + 7) // 8
    if len(values) != stored:
        raise DataError(f"{what} of {dtype.name}{list(shape)} has {len(values)} elements in {field} instead of {stored}")

    def read() -> Array:
        array = np.array(values, dtype=np.int64 if field == "int32_data" else None)
        if field != "int32_data":
            return array.astype(dtype).reshape(shape)
        if bits < 8:
            return _decode(array.astype(np.uint8), dtype, shape)
        if dtype == FLOAT16 or dtype.name == "bfloat16":
            return array.astype(np.uint16).view(dtype).reshape(shape)
        if dtype.itemsize == 1 and "float" in dtype.name:
            return array.astype(np.uint8).view(dtype).reshape(shape)
        return array.astype(dtype).reshape(shape)

    return read


_FIELDS: Final = {
    "float32": "float_data",
    "float64": "double_data",
    "int64": "int64_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
}


def _decode(raw: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    bits = BITS.get(dtype.name)
    if bits is None:
        return raw.view(dtype.newbyteorder("<") if dtype.isbuiltin == 1 else dtype).reshape(shape)
    per_byte = 8 // bits
    parts = np.stack([(raw >> (bits * k)) & (2**bits - 1) for k in range(per_byte)], axis=-1).reshape(-1)[: math.prod(shape)]
    if dtype.name.startswith("int"):
        half = 2 ** (bits - 1)
        return ((parts ^ half).astype(np.int8) - half).astype(np.int8).astype(dtype).reshape(shape)
    if dtype.name == "float4_e2m1fn":
        return parts.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).reshape(shape)
    return parts.astype(np.uint8).astype(dtype).reshape(shape)


def _external(
    proto: onnx.TensorProto, folder: Path | None, dtype: DType, shape: tuple[int, ...], what: str
) -> Callable[[], Array]:
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise DataError(f"{what} is in the external file {printable(location)!r}, but the model was not read from a path")
    path = confined(folder, location, what)
    wanted = byte_size(dtype, shape)
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries.get("length") or wanted)
    except ValueError:
        raise DataError(f"{what}: offset and length of external data are not numbers") from None
    if offset < 0 or length != wanted:
        raise DataError(f"{what} of {dtype.name}{list(shape)} claims {length} bytes at {offset} of its file; it takes {wanted}")
    available = path.stat().st_size
    if offset + wanted > available:
        raise DataError(f"{what} ends at byte {offset + wanted} of {printable(location)!r}, which has {available}")

    def read() -> Array:
        raw = np.memmap(path, np.uint8, mode="r", offset=offset, shape=(wanted,))
        return _decode(np.asarray(raw), dtype, shape)

    return read


def confined(folder: Path, location: str, what: str) -> Path:
    """The path of an external file, which must be a regular file in the model's folder, symbolic links followed."""
    if not location or "\0" in location or Path(location).is_absolute() or "\\" in location:
        raise DataError(f"{what}: external data at {printable(location)!r}; allowed: a path relative to the model's folder")
    root = folder.resolve()
    path = (root / location).resolve()
    if not path.is_relative_to(root):
        raise DataError(f"{what}: external data at {printable(location)!r} is outside of the model's folder")
    if not path.is_file():
        raise DataError(f"{what}: no file {printable(location)!r} in the model's folder")
    return path
