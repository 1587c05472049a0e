"""Matrix products. float16 is multiplied and summed in float32, and rounded once, at the end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor, cast_number
from webnn_xla.lowering.emulation import Emulator, Handle
from webnn_xla.lowering.kinds import BOOL, DOUBLE
from webnn_xla.lowering.op import (
    FLOATS,
    Op,
    Operand,
    Option,
    OptionalOperand,
    Output,
    Same,
    Target,
    Tolerance,
    reject,
    require,
)
from webnn_xla.lowering.primitives import (
    broadcast_shapes,
    broadcast_to,
    constant,
    data_type_of,
    narrow,
    require_broadcastable,
    widen,
)
from webnn_xla.lowering.tosa import Emitter, Tensor, data_type_of_element


def product(
    a: Array, b: Array, contract: tuple[int, int], target: Target, batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
) -> Array:
    """Products of ``a`` and ``b`` summed over one dimension of each, in float32: batch, then the rest of a, then of b."""
    dimensions = (((contract[0],), (contract[1],)), batch)
    return lax.dot_general(a, b, dimensions, precision=target.precision, preferred_element_type=np.dtype(np.float32))


class Matmul(Op):
    """Matrix product of the last two dimensions; the others broadcast.

    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-matmul.
    """

    a = Operand(FLOATS, ranks=(2, None), required=FLOATS, required_ranks=(2, 5), doc="[…, M, K]")
    b = Operand(Same("a"), ranks=(2, None), required=FLOATS, required_ranks=(2, 5), doc="[…, K, N]")
    output = Output(Same("a"), ranks=(2, None), required=FLOATS, required_ranks=(2, 5), doc="[…, M, N]")
    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "RESHAPE MATMUL TILE"
    tosa_note = "of rank 3 and without broadcasting: RESHAPE and TILE around it"
    stablehlo = "broadcast_in_dim dot_general reshape"

    @staticmethod
    def infer(a: Descriptor, b: Descriptor) -> Descriptor:
        *batch_a, rows, inner = a.shape
        *batch_b, inner_b, columns = b.shape
        require(inner_b == inner, "b", f"{inner_b} rows in shape {list(b.shape)}", f"{inner}, the columns of a")
        try:
            batch = broadcast_shapes(batch_a, batch_b)
        except ValueError:
            reject("b", f"shape {list(b.shape)}", f"leading dimensions that broadcast with {batch_a}, those of a")
        return a.with_shape((*batch, rows, columns))

    @staticmethod
    def lower(a: Array, b: Array, target: Target) -> Array:
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        rank = len(batch) + 2
        if math.prod(b.shape[:-2]) == 1:
            # One matrix for all of a: its rows are one long matrix, and nothing is repeated.
            b = lax.reshape(b, b.shape[-2:])
            a = lax.reshape(a, (1,) * (rank - a.ndim) + a.shape)
            return narrow(product(a, b, (rank - 1, 0), target), a)
        a = broadcast_to(a, (*batch, *a.shape[-2:]))
        b = broadcast_to(b, (*batch, *b.shape[-2:]))
        shared = tuple(range(len(batch)))
        return narrow(product(a, b, (rank - 1, rank - 2), target, (shared, shared)), a)

    @staticmethod
    def to_tosa(t: Emitter, a: Tensor, b: Tensor) -> Tensor:
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
        if math.prod(b.shape[:-2]) == 1:
            product = t.matmul(t.reshape(a, (1, a.size // inner, inner)), t.reshape(b, (1, inner, columns)))
        else:
            a, b = t.broadcast_to(a, (*batch, rows, inner)), t.broadcast_to(b, (*batch, inner, columns))
            count = math.prod(batch)
            product = t.matmul(t.reshape(a, (count, rows, inner)), t.reshape(b, (count, inner, columns)))
        return t.reshape(product, (*batch, rows, columns))


class Gemm(Op):
    """General matrix multiplication: ``alpha * a @ b + beta * c``.

    ``alpha`` and ``beta`` are cast to the data type of ``a`` first. Source:
    https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gemm.
    """

    a = Operand(FLOATS, ranks=(2, 2), required=FLOATS, required_ranks=(2, 2), doc="[M, K], or [K, M] with a_transpose")
    b = Operand(Same("a"), ranks=(2, 2), required=FLOATS, required_ranks=(2, 2), doc="[K, N], or [N, K] with b_transpose")
    c = OptionalOperand(
        Same("a"), ranks=(0, 2), required=FLOATS, required_ranks=(0, 2), doc="Broadcasts to [M, N]; by default there is none."
    )
    alpha = Option(DOUBLE, 1.0, "Factor of the product.")
    beta = Option(DOUBLE, 1.0, "Factor of c.")
    a_transpose = Option(BOOL, False, "Whether a is transposed first.")
    b_transpose = Option(BOOL, False, "Whether b is transposed first.")
    output = Output(Same("a"), ranks=(2, 2), required=FLOATS, required_ranks=(2, 2), doc="[M, N]")
    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "RESHAPE MATMUL ADD TRANSPOSE MUL"
    stablehlo = "add broadcast_in_dim dot_general multiply"

    @staticmethod
    def infer(
        a: Descriptor, b: Descriptor, c: Descriptor | None, alpha: float, beta: float, a_transpose: bool, b_transpose: bool
    ) -> Descriptor:
        rows, inner = reversed(a.shape) if a_transpose else a.shape
        inner_b, columns = reversed(b.shape) if b_transpose else b.shape
        if inner_b != inner:
            given = f"{inner_b} {'columns' if b_transpose else 'rows'} in shape {list(b.shape)}"
            reject("b", given, f"{inner}, the {'rows' if a_transpose else 'columns'} of a")
        if c is not None:
            require_broadcastable(c, (rows, columns), "c")
        return a.with_shape((rows, columns))

    @staticmethod
    def lower(
        a: Array,
        b: Array,
        c: Array | None,
        alpha: float,
        beta: float,
        a_transpose: bool,
        b_transpose: bool,
        target: Target,
    ) -> Array:
        data_type = data_type_of(a)
        result = product(a, b, (0 if a_transpose else 1, 1 if b_transpose else 0), target)
        alpha, beta = cast_number(alpha, data_type), cast_number(beta, data_type)
        if alpha != 1:
            result = lax.mul(result, constant(alpha, result))
        if c is not None:
            addend = widen(c)
            if beta != 1:
                addend = lax.mul(addend, constant(beta, addend))
            result = lax.add(result, broadcast_to(addend, result.shape))
        return narrow(result, a)

    @staticmethod
    def to_tosa(
        t: Emitter,
        a: Tensor,
        b: Tensor,
        c: Tensor | None,
        alpha: float,
        beta: float,
        a_transpose: bool,
        b_transpose: bool,
    ) -> Tensor:
        factors = [float(cast_number(value, data_type_of_element(a))) for value in (alpha, beta)]

        def in_float32(a: Tensor, b: Tensor, *rest: Tensor) -> Tensor:
            a, b = t.transpose(a, (1, 0)) if a_transpose else a, t.transpose(b, (1, 0)) if b_transpose else b
            product = t.matmul(t.reshape(a, (1, *a.shape)), t.reshape(b, (1, *b.shape)))
            result = t.reshape(product, product.shape[1:])
            result = result if factors[0] == 1 else t.mul(result, factors[0])
            for addend in rest:
                result = t.add(result, addend if factors[1] == 1 else t.mul(addend, factors[1]))
            return result

        return t.in_float32(in_float32, a, b, *(() if c is None else (c,)))

    @staticmethod
    def emulate(
        builder: Emulator,
        a: Handle,
        b: Handle,
        c: Handle | None,
        alpha: float,
        beta: float,
        a_transpose: bool,
        b_transpose: bool,
    ) -> Any:
        first = builder.transpose(a) if a_transpose else a
        second = builder.transpose(b) if b_transpose else b
        product = builder.matmul(builder.mul(builder.scalar(alpha, a), first), second)
        return product if c is None else builder.add(product, builder.mul(builder.scalar(beta, a), c))
