"""Weights in safetensors files: memory-mapped one by one when read, written from where they lie.

The safetensors library writes; reading is done here, since the library copies every tensor for NumPy and has no
bfloat16 there. The header is not trusted: every shape is checked against its range of bytes before any array is made.
Source: https://github.com/huggingface/safetensors#format. 4-bit integers, which that format lacks, are packed (see
``buffers.pack``) in a flat uint8 tensor; a note in the header's metadata has their type and shape.
"""

from __future__ import annotations

import itertools
import json
import math
import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, TensorSpec, serialize_file

from webnn_xla import buffers
from webnn_xla.dtypes import Descriptor
from webnn_xla.errors import ArgumentError, DataError, printable

Array = np.ndarray[Any, Any]

NOTE: Final = "webnn"
"""Key in the header's metadata. Its value is JSON: key of a tensor → dataType and shape (4-bit integers), name."""

MAX_HEADER_BYTES: Final = 100_000_000
"""The safetensors library's own limit."""

_SIZES: Final = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
"""Bits of an element. Types that are not here can stand in a file, and be left alone."""

_DTYPES: Final[dict[str, Any]] = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "F16": np.float16,
    "BF16": ml_dtypes.bfloat16, "U32": np.uint32, "I32": np.int32, "F32": np.float32, "U64": np.uint64,
    "I64": np.int64, "F64": np.float64,
}  # fmt: skip


class Damaged(Exception):  # noqa: N818  (internal: rewrapped as a DataError with the path)
    """What is wrong with a file, and where in it."""

    def __init__(self, where: str, what: str) -> None:
        text = f"{where}: {what}" if where else what
        super().__init__(text if len(text) <= 2000 else text[:2000] + "…")


def open_weights(path: str | os.PathLike[str], *, operator: str = "load_weights") -> Mapping[str, Array]:
    """The tensors of a safetensors file by name, each a read-only view of the file's memory, made when asked for.

    Errors: DataError, with the path, if the file cannot be read, is damaged, or a tensor's type is unknown.
    """
    return WeightsFile(Path(path), operator)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One tensor: its type in the file, and its first and last byte (exclusive) from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int
    packed: Descriptor | None = None


class WeightsFile(Mapping[str, Array]):
    """What ``open_weights`` returns. The file stays mapped as long as this or any of its arrays lives."""

    def __init__(self, path: Path, operator: str) -> None:
        self.path = path
        self._operator = operator
        self._last: _Entry | None = None
        try:
            with regular_file(path) as file:
                size = os.fstat(file.fileno()).st_size
                self._entries = _read_header(file, size)
                self._memory = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise self._error(f"cannot be read: {reason(error)}") from None
        except Damaged as error:
            raise self._error(str(error)) from None

    def __getitem__(self, name: str) -> Array:
        entry = self._entries[name]
        self._release()
        if entry.dtype not in _DTYPES:
            raise self._error(f"tensor {printable(name)!r} has the type {printable(entry.dtype)}, which WebNN lacks")
        raw = np.frombuffer(self._memory, np.uint8, entry.stop - entry.start, entry.start)
        self._last = entry
        if entry.packed is not None:
            return buffers.unpack(raw, entry.packed)
        array: Array = raw.view(_DTYPES[entry.dtype]).reshape(entry.shape)
        return array

    def _release(self) -> None:
        """Gives back the pages of the tensor asked for last: who reads tensors one by one has one in memory at a time.

        They come back from the file if they are read again.
        """
        if self._last is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        first = self._last.start - self._last.start % mmap.PAGESIZE
        if self._last.stop > first:
            self._memory.madvise(mmap.MADV_DONTNEED, first, self._last.stop - first)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<WeightsFile {str(self.path)!r}, {len(self)} tensors>"

    def _error(self, message: str) -> DataError:
        return DataError(message, operator=self._operator, operand=printable(str(self.path), 1000))


def write_weights(path: Path, tensors: Mapping[str, tuple[Array, Descriptor]]) -> None:
    """Writes tensors by name. The same tensors give the same bytes. Errors: OSError if the file cannot be written."""
    specs: dict[str, TensorSpec] = {}
    notes: dict[str, dict[str, Any]] = {}
    alive = []
    free = (key for number in itertools.count() if (key := f"tensor.{number}") not in tensors)
    for name, (array, descriptor) in tensors.items():
        key = name
        if not _is_key(name):
            key = next(free)
            notes.setdefault(key, {})["name"] = name
        data = buffers.pack(array, descriptor)
        dtype, shape = descriptor.data_type.value, list(descriptor.shape)
        if descriptor.data_type.bits == 4:
            notes.setdefault(key, {}).update(dataType=dtype, shape=shape)
            dtype, shape = "uint8", [data.size]
        alive.append(data)  # the specification of a tensor holds only its address
        specs[key] = TensorSpec(dtype=dtype, shape=shape, data_ptr=data.ctypes.data, data_len=data.nbytes)
    metadata = {NOTE: json.dumps(notes, sort_keys=True, separators=(",", ":"))} if notes else None
    try:
        serialize_file(specs, path, metadata)
    except SafetensorError as error:
        raise OSError(str(error)) from None


def regular_file(path: Path) -> BinaryIO:
    """Opens a file for reading. Anything but a regular file (a pipe would block, a device has no size) is an OSError."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("not a file")
    return os.fdopen(descriptor, "rb")


def reason(error: Exception) -> str:
    """The words of an OSError without number and path."""
    return getattr(error, "strerror", None) or str(error)


def parse_json(raw: bytes, what: str) -> Any:
    """JSON as the formats here allow it: UTF-8, no member twice, no NaN or infinity as a number. Damaged otherwise."""
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        words = "nested too deeply" if isinstance(error, RecursionError) else printable(str(error))
        raise Damaged(what, f"is not the JSON that is expected: {words}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"member {name!r} stands twice")
        members[name] = value
    return members


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:50]} is too large")
    return number


def _is_key(name: str) -> bool:
    """Whether a name can be a key in a header: UTF-8, and not the one key that means something else."""
    return name != "__metadata__" and not any("\ud800" <= character <= "\udfff" for character in name)


def _read_header(file: BinaryIO, size: int) -> dict[str, _Entry]:
    if size < 8:
        raise Damaged("", f"got {size} bytes; allowed: a safetensors file, 8 or more")
    length = int.from_bytes(file.read(8), "little")
    if length > min(MAX_HEADER_BYTES, size - 8):
        raise Damaged(
            "header", f"got {length} bytes of it in a file of {size}; allowed: at most {min(MAX_HEADER_BYTES, size - 8)}"
        )
    header = parse_json(file.read(length), "header")
    if not isinstance(header, dict):
        raise Damaged("header", f"got {type(header).__name__}; allowed: an object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise Damaged("header.__metadata__", "allowed: an object of strings")
    entries = {key: _entry(key, item, 8 + length, size) for key, item in header.items()}
    _check_cover(entries, 8 + length, size)
    if NOTE not in metadata:
        return entries
    return _apply_notes(entries, parse_json(metadata[NOTE].encode("utf-8", "surrogatepass"), f"header.__metadata__.{NOTE}"))


def _entry(key: str, item: Any, base: int, size: int) -> _Entry:
    where = f"tensor {printable(key)!r}"
    if not isinstance(item, dict) or item.keys() != {"dtype", "shape", "data_offsets"}:
        raise Damaged(where, "allowed: an object of dtype, shape and data_offsets")
    dtype, shape, offsets = item["dtype"], item["shape"], item["data_offsets"]
    if not isinstance(dtype, str):
        raise Damaged(where, "dtype: allowed: a string")
    if not _are_sizes(shape):
        raise Damaged(where, "shape: allowed: a list of integers from 0")
    if not _are_sizes(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= size - base:
        raise Damaged(where, f"data_offsets: got {_short(offsets)}; allowed: two, in order, from 0 to {size - base}")
    start, stop = base + offsets[0], base + offsets[1]
    if dtype in _SIZES:
        bits = _SIZES[dtype]
        for dimension in shape:
            # A shape of enormous numbers is given up early: their product alone would take memory and time.
            bits *= min(dimension, 2**63)
            if bits > 2**80:
                break
        if bits != (stop - start) * 8:
            raise Damaged(where, f"got {stop - start} bytes for {dtype} of shape {_short(shape)}")
    return _Entry(dtype, tuple(shape), start, stop)


def _are_sizes(items: Any) -> bool:
    return isinstance(items, list) and all(type(item) is int and item >= 0 for item in items)


def _short(value: Any) -> str:
    text = str(value[:8]) if isinstance(value, list) else str(type(value).__name__)
    return text if len(text) <= 200 else text[:200] + "…"


def _check_cover(entries: Mapping[str, _Entry], base: int, size: int) -> None:
    """Tensors lie one behind the other, without holes, to the end of the file, as the format demands."""
    end = base
    for key, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != end:
            raise Damaged(
                f"tensor {printable(key)!r}", f"starts at byte {entry.start}; allowed: {end}, where the one before ends"
            )
        end = entry.stop
    if end != size:
        raise Damaged("", f"got {size} bytes; allowed: {end}, where the last tensor ends")


def _apply_notes(entries: dict[str, _Entry], notes: Any) -> dict[str, _Entry]:
    where = f"header.__metadata__.{NOTE}"
    members = {"dataType", "shape", "name"}
    if not isinstance(notes, dict) or not all(isinstance(note, dict) and note.keys() <= members for note in notes.values()):
        raise Damaged(where, "allowed: an object of objects of dataType, shape and name")
    if not notes.keys() <= entries.keys():
        raise Damaged(where, f"names {printable(min(notes.keys() - entries.keys()))!r}, which is not in the file")
    named: dict[str, _Entry] = {}
    for key, entry in entries.items():
        note = notes.get(key, {})
        name = note.get("name", key)
        if not isinstance(name, str) or name in named:
            raise Damaged(where, f"{printable(key)!r}: allowed: a name that no other tensor has")
        if "dataType" in note or "shape" in note:
            entry = _packed(f"{where}: {printable(key)!r}", entry, note)
        named[name] = entry
    return named


def _packed(where: str, entry: _Entry, note: Mapping[str, Any]) -> _Entry:
    try:
        descriptor = Descriptor(note.get("dataType"), note.get("shape") or ())
    except ArgumentError as error:
        raise Damaged(where, str(error)) from None
    if descriptor.data_type.bits != 4 or not _are_sizes(note.get("shape")):
        raise Damaged(where, "allowed: int4 or uint4, and a shape")
    length = entry.stop - entry.start
    if descriptor.check_dimensions(2**53) is not None or entry.dtype != "U8" or descriptor.byte_length != length:
        raise Damaged(where, f"got {length} bytes of {printable(entry.dtype)} for {descriptor}")
    return _Entry(entry.dtype, entry.shape, entry.start, entry.stop, descriptor)
