"""Bitwise operators and shifts. WebNN has none: numbers are split into nibbles, which a table combines."""

from __future__ import annotations

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import INT64, DType, integer_bits, is_signed
from webnn_xla.importers.onnx.values import Tensor

UINT64 = np.dtype(np.uint64)


def _unsigned(n: Node, x: Tensor) -> Tensor:
    """The bits of ``x`` as a number in uint64."""
    wide = n.cast_to(n.cast_to(x, INT64), UINT64) if is_signed(x.dtype) else n.cast_to(x, UINT64)
    bits = integer_bits(x.dtype)
    return wide if bits == 64 or not is_signed(x.dtype) else _low_bits(n, wide, bits)


def _low_bits(n: Node, x: Tensor, bits: int) -> Tensor:
    if bits == 64:
        return x
    return n.sub(x, n.mul(n.div(x, 2**bits), 2**bits))


def _restored(n: Node, x: Tensor, dtype: DType) -> Tensor:
    """The inverse of ``_unsigned``."""
    if not is_signed(dtype):
        return n.cast_to(x, dtype)
    bits = integer_bits(dtype)
    signed = n.cast_to(x, INT64)
    if bits < 64:
        high = n.greater_or_equal(signed, 2 ** (bits - 1))
        signed = n.where(high, n.sub(signed, 2**bits), signed)
    return n.cast_to(signed, dtype)


@onnx_op("BitwiseAnd", "BitwiseOr", "BitwiseXor", since=18)
def bitwise(n: Node) -> Tensor:
    a, b = n[0], n[1]
    function = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}[n.op]
    if a.data is not None and b.data is not None:
        return n.const(function(a.data, b.data))
    nibbles = integer_bits(a.dtype) // 4
    powers = n.const(np.array([16**k for k in range(nibbles)], dtype=np.uint64))
    split = []
    for x in (a, b):
        wide = n.unsqueezed(_unsigned(n, x), [x.rank])
        quotient = n.div(wide, powers)
        split.append(n.sub(quotient, n.mul(n.div(quotient, 16), 16)))
    index = n.cast_to(n.add(n.mul(split[0], 16), split[1]), np.int32)
    values = function(np.arange(16)[:, None], np.arange(16)[None, :]).reshape(-1).astype(np.uint64)
    combined = n.mul(n.gather(n.const(values), index), powers)
    return _restored(n, n.reduce_sum(combined, axes=[combined.rank - 1]), a.dtype)


@onnx_op("BitwiseNot", since=18)
def bitwise_not(n: Node) -> Tensor:
    x = n[0]
    if x.data is not None:
        return n.const(np.bitwise_not(x.data))
    if is_signed(x.dtype):
        return n.sub(n.const(-1, x), x)
    return n.sub(n.const(2 ** integer_bits(x.dtype) - 1, x), x)


@onnx_op("BitShift", since=11)
def bit_shift(n: Node) -> Tensor:
    x, amount = n[0], n[1]
    direction = n.need("direction", str)
    if direction not in ("LEFT", "RIGHT"):
        raise Malformed(f"attribute direction is {direction!r}; ONNX has LEFT and RIGHT")
    bits = integer_bits(x.dtype)
    if is_signed(x.dtype) and direction == "RIGHT":
        # The sign moves in; a negative amount shifts everything out.
        steps = n.cast_to(amount, INT64)
        steps = n.where(n.lesser(steps, 0), n.const(bits - 1, INT64), n.min(steps, bits - 1))
        halves = n.const(np.array([2**k for k in range(min(bits, 63))], dtype=np.int64))
        wide, divisor = n.cast_to(x, INT64), n.gather(halves, n.min(steps, 62))
        shifted = n.floor_div(wide, divisor)
        return n.cast_to(n.where(n.equal(steps, 63), n.floor_div(shifted, 2), shifted), x.dtype)
    powers = n.const(np.array([2**k for k in range(bits)] + [0], dtype=np.uint64))
    index = n.cast_to(n.min(n.cast_to(amount, UINT64), bits), np.int32)
    factor = n.gather(powers, index)
    wide = n.cast_to(x, UINT64)
    if direction == "LEFT":
        return n.cast_to(_low_bits(n, n.mul(wide, factor), bits), x.dtype)
    shifted = n.div(wide, n.max(factor, 1))
    return n.cast_to(n.where(n.equal(factor, 0), n.const(0, UINT64), shifted), x.dtype)
