"""Host buffers: what ``constant``, ``write_tensor``, ``create_constant_tensor`` and ``read_tensor`` accept.

A buffer is a NumPy array of the descriptor's type, raw bytes (``bytes``, ``bytearray``, ``memoryview``, a uint8 array),
an object with ``__array__`` or ``__dlpack__`` of the right type, or a (nested) list of Python numbers. Source:
https://www.w3.org/TR/webnn/#mlcontext-validate-buffer-with-descriptor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from webnn_xla.dtypes import Descriptor, MLOperandDataType
from webnn_xla.errors import ArgumentError

ALIGNMENT = 64
"""Bytes. XLA's CPU client takes host memory so aligned without a copy."""


def aligned_empty(descriptor: Descriptor) -> np.ndarray[Any, Any]:
    """An uninitialised array whose memory starts at a multiple of ``ALIGNMENT``."""
    dtype = descriptor.data_type.numpy
    size = descriptor.element_count * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(descriptor.shape)


def copy_in(buffer: Any, descriptor: Descriptor, operand: str = "buffer") -> np.ndarray[Any, Any]:
    """A private, aligned copy of ``buffer`` in the type and shape of ``descriptor``, or an ArgumentError."""
    target = aligned_empty(descriptor)
    source = view(buffer, descriptor, operand)
    np.copyto(target, source, casting="no")
    return target


def view(buffer: Any, descriptor: Descriptor, operand: str = "buffer") -> np.ndarray[Any, Any]:
    """``buffer`` as an array of the descriptor's type and shape, copied only where its layout asks for it."""
    data_type = descriptor.data_type
    buffer = _typed(buffer, operand)
    if isinstance(buffer, (bytes, bytearray, memoryview)):
        return _from_bytes(buffer, descriptor, operand)
    if isinstance(buffer, np.ndarray):
        array = buffer
    elif isinstance(buffer, (int, float, Sequence, np.generic)) and not isinstance(buffer, (str, np.generic)):
        return _from_numbers(buffer, descriptor, operand)
    elif hasattr(buffer, "__array__") or isinstance(buffer, np.generic):
        array = np.asarray(buffer)
    elif hasattr(buffer, "__dlpack__"):
        try:
            array = np.from_dlpack(buffer)
        except (TypeError, ValueError, RuntimeError, BufferError) as error:
            raise ArgumentError(f"got {type(buffer).__name__}, which DLPack cannot pass on: {error}", operand=operand) from None
    else:
        try:
            return _from_bytes(memoryview(buffer), descriptor, operand)
        except (TypeError, ValueError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise ArgumentError(
                f"got {type(buffer).__name__}; allowed: a NumPy array, bytes, or numbers for {descriptor}", operand=operand
            ) from None
    if array.dtype == data_type.numpy:
        if array.shape == tuple(descriptor.shape):
            return array
        if array.ndim == 1 and array.size == descriptor.element_count:
            return array.reshape(descriptor.shape)
        raise ArgumentError(
            f"got shape {list(array.shape)}; allowed: {list(descriptor.shape)} or flat, for {descriptor}", operand=operand
        )
    if array.dtype == np.uint8 and array.ndim == 1:
        return _from_bytes(np.ascontiguousarray(array).data, descriptor, operand)
    raise ArgumentError(
        f"got a NumPy array of {array.dtype}{list(array.shape)}; allowed: {data_type.numpy} (or raw bytes as flat uint8) "
        f"for {descriptor}",
        operand=operand,
    )


def copy_out(array: np.ndarray[Any, Any], buffer: Any, descriptor: Descriptor, operand: str = "output_data") -> None:
    """Writes ``array`` to the start of ``buffer``, which may be larger (as in browsers); the rest keeps its values."""
    buffer = _typed(buffer, operand)
    if isinstance(buffer, np.ndarray):
        if buffer.dtype not in (descriptor.data_type.numpy, np.dtype(np.uint8)):
            raise ArgumentError(
                f"got a NumPy array of {buffer.dtype}; allowed: {descriptor.data_type.numpy} for {descriptor}", operand=operand
            )
        if buffer.dtype == descriptor.data_type.numpy:
            if not buffer.flags.writeable:
                raise ArgumentError("got a read-only array; allowed: a writeable one", operand=operand)
            if buffer.shape == array.shape:
                buffer[...] = array
                return
            if buffer.ndim != 1 or buffer.size < array.size:
                raise ArgumentError(
                    f"got shape {list(buffer.shape)}; allowed: {list(array.shape)}, or flat with at least "
                    f"{array.size} elements, for {descriptor}",
                    operand=operand,
                )
            buffer[: array.size] = array.reshape(-1)
            return
    packed = pack(array, descriptor)
    try:
        with memoryview(buffer) as memory:
            if memory.readonly:
                raise ArgumentError("got a read-only buffer; allowed: a writeable one", operand=operand)
            if memory.nbytes < packed.nbytes or not memory.contiguous:
                raise ArgumentError(
                    f"got {memory.nbytes} bytes; allowed: contiguous, {packed.nbytes} or more, for {descriptor}",
                    operand=operand,
                )
            memory.cast("B")[: packed.nbytes] = packed.data.cast("B")
    except (TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(
            f"got {type(buffer).__name__}; allowed: a writeable buffer for {descriptor}", operand=operand
        ) from None


def pack(array: np.ndarray[Any, Any], descriptor: Descriptor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of ``array`` in a file or raw buffer, row-major; 4-bit integers two to a byte, the first in bits 0-3."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if descriptor.data_type.bits == 4:
        nibbles = flat.view(np.uint8) & 0xF
        if nibbles.size % 2:
            nibbles = np.append(nibbles, np.uint8(0))
        return (nibbles[0::2] | (nibbles[1::2] << 4)).astype(np.uint8)
    return flat.view(np.uint8)


def unpack(raw: np.ndarray[Any, np.dtype[np.uint8]], descriptor: Descriptor) -> np.ndarray[Any, Any]:
    """The inverse of ``pack``. Without a copy, but for 4-bit integers."""
    data_type = descriptor.data_type
    if data_type.bits == 4:
        nibbles = np.stack([raw & 0xF, raw >> 4], axis=-1).reshape(-1)[: descriptor.element_count]
        if data_type is MLOperandDataType.INT4:
            nibbles = ((nibbles ^ 8).astype(np.int8) - 8).astype(np.int8)
        return nibbles.astype(data_type.numpy).reshape(descriptor.shape)
    return raw.view(data_type.numpy).reshape(descriptor.shape)


def _typed(buffer: Any, operand: str) -> Any:
    """A memoryview of numbers as an array of their type; one of bytes as it is. ArgumentError if it was released."""
    if not isinstance(buffer, memoryview):
        return buffer
    try:
        return buffer if buffer.format in ("B", "b", "c") else np.asarray(buffer)
    except ValueError:
        raise ArgumentError("got a buffer that was released; allowed: one that is alive", operand=operand) from None


def _from_bytes(buffer: bytes | bytearray | memoryview, descriptor: Descriptor, operand: str) -> np.ndarray[Any, Any]:
    with memoryview(buffer) as memory:
        if memory.nbytes != descriptor.byte_length:
            raise ArgumentError(
                f"got {memory.nbytes} bytes; allowed: {descriptor.byte_length} for {descriptor}", operand=operand
            )
        if not memory.contiguous:
            raise ArgumentError(f"got a strided buffer; allowed: a contiguous one for {descriptor}", operand=operand)
    return unpack(np.frombuffer(buffer, np.uint8), descriptor)


def _from_numbers(numbers: Any, descriptor: Descriptor, operand: str) -> np.ndarray[Any, Any]:
    data_type = descriptor.data_type
    try:
        exact = np.array(numbers, dtype=object)
        if exact.shape != tuple(descriptor.shape):
            if exact.size != descriptor.element_count or exact.ndim != 1:
                raise ArgumentError(
                    f"got numbers of shape {list(exact.shape)}; allowed: {list(descriptor.shape)}", operand=operand
                )
            exact = exact.reshape(descriptor.shape)
        if data_type.is_integer:
            low, high = data_type.integer_range
            for number in exact.flat:
                if not isinstance(number, (int, np.integer)) or not low <= number <= high:
                    raise ArgumentError(f"got {number!r}; allowed: integers from {low} to {high}", operand=operand)
            return exact.astype(np.int8).astype(data_type.numpy) if data_type.bits == 4 else exact.astype(data_type.numpy)
        for number in exact.flat:
            # NumPy would read None as NaN, and "1.5" as a number.
            if not isinstance(number, (Real, np.number)):
                raise ArgumentError(f"got {number!r}; allowed: numbers", operand=operand)
        with np.errstate(over="ignore"):
            return exact.astype(np.float64).astype(data_type.numpy)
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"got {type(numbers).__name__}; allowed: numbers for {descriptor}", operand=operand) from None


Weights = Mapping[str, Any]
"""Arrays by name, as ``load_weights`` takes them."""
