"""Matrix products, in floats and exactly in integers; Gemm; Einsum."""

from __future__ import annotations

import math

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import FLOAT32, INT32, is_float
from webnn_xla.importers.onnx.values import Tensor

EXACT = 2**24
"""Integers up to this are exact in float32, and so are sums that never exceed it."""


def matmul(n: Node, a: Tensor, b: Tensor) -> Tensor:
    """NumPy's matmul: vectors are rows or columns."""
    if a.rank == 0 or b.rank == 0:
        raise Malformed(f"matrix product of {a} and {b}")
    left = n.unsqueezed(a, [0]) if a.rank == 1 else a
    right = n.unsqueezed(b, [1]) if b.rank == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise Malformed(f"matrix product of {a} and {b}")
    y = n.matmul(left, right) if is_float(a.dtype) else integer_matmul(n, left, right)
    if a.rank == 1:
        y = n.squeezed(y, [y.rank - 2])
    return n.squeezed(y, [y.rank - 1]) if b.rank == 1 else y


def integer_matmul(n: Node, a: Tensor, b: Tensor) -> Tensor:
    """Wrapping product of integer matrices by products and sums of the integer type, a block of columns at a time."""
    if a.known and b.known:
        return n.matmul(a, b)
    size = math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])) * a.shape[-2] * a.shape[-1] * b.shape[-1]
    if size > 1 << 24:
        raise Unsupported(f"an integer matrix product of {size} terms")
    product = n.mul(n.unsqueezed(a, [a.rank]), n.unsqueezed(b, [b.rank - 2]))
    return n.reduce_sum(product, axes=[product.rank - 2])


def small_integer_matmul(n: Node, a: Tensor, b: Tensor) -> Tensor:
    """Exact int32 product of matrices whose elements lie in -255 … 255, by float32 products that do not round.

    Where sums could pass 2**24, the second factor is split into a multiple of 16 and the rest.
    """
    depth = a.shape[-1]
    left, right = n.cast_to(a, FLOAT32), n.cast_to(b, FLOAT32)
    if depth * 255 * 255 < EXACT:
        return n.cast_to(n.matmul(left, right), INT32)
    if depth * 255 * 16 >= EXACT:
        half = depth // 2
        parts = [
            small_integer_matmul(n, n.cut(a, a.rank - 1, s, e - s), n.cut(b, b.rank - 2, s, e - s))
            for s, e in ((0, half), (half, depth))
        ]
        return n.add(*parts)
    high = n.floor(n.mul(right, 1 / 16))
    low = n.sub(right, n.mul(high, 16.0))
    upper = n.cast_to(n.matmul(left, high), INT32)
    return n.add(n.mul(upper, 16), n.cast_to(n.matmul(left, low), INT32))


@onnx_op("MatMul")
def matmul_op(n: Node) -> Tensor:
    return matmul(n, n[0], n[1])


@onnx_op("Gemm")
def gemm(n: Node) -> Tensor:
    a, b, c = n[0], n[1], n.get(2)
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    flip_a, flip_b = bool(n.attr("transA", 0)), bool(n.attr("transB", 0))
    if a.rank != 2 or b.rank != 2:
        raise Malformed(f"{a} and {b} are not matrices")
    if not is_float(a.dtype):
        y = integer_matmul(n, n.permuted(a, [1, 0]) if flip_a else a, n.permuted(b, [1, 0]) if flip_b else b)
        y = y if alpha == 1 else n.mul(y, int(alpha))
        return y if c is None else n.add(y, c if beta == 1 else n.mul(c, int(beta)))
    if not a.size or not b.size:
        y = n.matmul(n.permuted(a, [1, 0]) if flip_a else a, n.permuted(b, [1, 0]) if flip_b else b)
        return y if c is None else n.add(y, n.mul(c, beta))
    return n.gemm(a, b, c=c, alpha=alpha, beta=beta, a_transpose=flip_a, b_transpose=flip_b)


def centred(n: Node, x: Tensor, zero_point: Tensor | None, *, rows: bool) -> Tensor:
    """``x`` - ``zero_point`` in int32. A vector of zero points is one a row (or column) of the matrices."""
    wide = n.cast_to(x, INT32)
    if zero_point is None:
        return wide
    zero = n.cast_to(zero_point, INT32)
    if zero.rank == 1 and zero.size > 1 and rows:
        zero = n.unsqueezed(zero, [1])
    elif zero.rank == 1 and zero.size == 1:
        zero = n.to(zero, [])
    return n.sub(wide, zero)


@onnx_op("MatMulInteger", since=10)
def matmul_integer(n: Node) -> Tensor:
    a = centred(n, n[0], n.get(2), rows=True)
    b = centred(n, n[1], n.get(3), rows=False)
    left = n.unsqueezed(a, [0]) if a.rank == 1 else a
    right = n.unsqueezed(b, [1]) if b.rank == 1 else b
    y = small_integer_matmul(n, left, right)
    drop = ([y.rank - 2] if a.rank == 1 else []) + ([y.rank - 1] if b.rank == 1 else [])
    return n.squeezed(y, drop)


@onnx_op("Einsum", since=12)
def einsum(n: Node) -> Tensor:
    terms, output = _parse(n.need("equation", str), [x.rank for x in n.tensors()])
    operands = list(zip(n.tensors(), terms, strict=True))
    reduced = []
    for index, (x, labels) in enumerate(operands):
        later = set(output).union(*(other for k, (_, other) in enumerate(operands) if k != index))
        reduced.append(_own(n, x, labels, later))
    current = reduced[0]
    for index, other in enumerate(reduced[1:], 1):
        later = set(output).union(*(labels for _, labels in reduced[index + 1 :]))
        current = _pair(n, current, other, later)
    x, labels = current
    if set(labels) != set(output):
        raise Malformed(f"output labels {''.join(output)} do not appear in the inputs")
    return n.permuted(x, [labels.index(label) for label in output])


def _parse(equation: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """Labels of each operand's axes and of the output's; the axes under an ellipsis are "0", "1", … from the last."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    given = left.split(",")
    if len(given) != len(ranks):
        raise Malformed(f"equation {equation!r} has {len(given)} terms for {len(ranks)} inputs")
    widest = 0

    def expand(term: str, extra: int) -> list[str]:
        head, dots, tail = term.partition("...")
        if not all(c.isalpha() for c in head + tail):
            raise Malformed(f"equation {equation!r}")
        return [*head, *([str(k) for k in range(extra - 1, -1, -1)] if dots else []), *tail]

    terms = []
    for term, rank in zip(given, ranks, strict=True):
        extra = rank - len(term.replace("...", ""))
        if extra < 0 or (extra and "..." not in term):
            raise Malformed(f"equation {equation!r} does not fit an input of rank {rank}")
        widest = max(widest, extra)
        terms.append(expand(term, extra))
    if arrow:
        return terms, expand(right, widest)
    counts: dict[str, int] = {}
    for label in (label for term in terms for label in term):
        counts[label] = counts.get(label, 0) + 1
    free = sorted(label for label, count in counts.items() if count == 1 and label.isalpha())
    return terms, [str(k) for k in range(widest - 1, -1, -1)] + free


def _own(n: Node, x: Tensor, labels: list[str], later: set[str]) -> tuple[Tensor, list[str]]:
    """Takes diagonals of repeated labels, and sums what no other term needs."""
    while len(set(labels)) < len(labels):
        label = next(name for name in labels if labels.count(name) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        size = x.shape[first]
        mask = n.to(n.const(np.eye(size), x.dtype), [size if k in (first, second) else 1 for k in range(x.rank)])
        x = n.reduce_sum(n.mul(x, mask), axes=[second])
        labels = labels[:second] + labels[second + 1 :]
    summed = [k for k, label in enumerate(labels) if label not in later]
    if summed:
        x = n.reduce_sum(x, axes=summed)
        labels = [label for label in labels if label in later]
    return x, labels


def _pair(
    n: Node, first: tuple[Tensor, list[str]], second: tuple[Tensor, list[str]], later: set[str]
) -> tuple[Tensor, list[str]]:
    (a, left), (b, right) = first, second
    shared = [label for label in left if label in right]
    sizes = dict(zip(left, a.shape, strict=True))
    for label, size in zip(right, b.shape, strict=True):
        known = sizes.setdefault(label, size)
        if known != size and 1 not in (known, size):
            raise Malformed(f"label {label} is {known} and {size}")
        sizes[label] = max(known, size)
    batch = [label for label in shared if label in later]
    summed = [label for label in shared if label not in later]
    rows = [label for label in left if label not in shared]
    columns = [label for label in right if label not in shared]

    def arranged(x: Tensor, labels: list[str], groups: list[list[str]]) -> Tensor:
        order = [label for group in groups for label in group]
        moved = n.permuted(x, [labels.index(label) for label in order])
        moved = n.broadcast(moved, [sizes[label] for label in order])
        return n.to(moved, [sizes[label] for label in groups[0]] + [math.prod(sizes[g] for g in group) for group in groups[1:]])

    y = arranged(a, left, [batch, rows, summed])
    z = arranged(b, right, [batch, summed, columns])
    product = n.matmul(y, z) if is_float(a.dtype) else integer_matmul(n, y, z)
    result = [*batch, *rows, *columns]
    return n.to(product, [sizes[label] for label in result]), result
