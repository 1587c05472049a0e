"""Reductions in TOSA. All keep the reduced axes, with size 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from webnn_xla.lowering.tosa import Emitter, Tensor

Axes = tuple[int, ...]


def l2(t: Emitter, x: Tensor, axes: Axes) -> Tensor:
    if all(x.shape[axis] == 1 for axis in axes):
        return t.unary("abs", x)
    return t.sqrt(t.reduce_all("reduce_sum", t.mul(x, x), axes))


def mean(t: Emitter, x: Tensor, axes: Axes) -> Tensor:
    total = t.reduce_all("reduce_sum", x, axes)
    return total if total.shape == x.shape else t.mul(total, total.size / x.size)


def log_sum_exp(t: Emitter, x: Tensor, axes: Axes) -> Tensor:
    peak = t.reduce_all("reduce_max", x, axes)
    peak = t.select(t.compare("greater", t.scalar(np.inf, peak), t.unary("abs", peak)), peak, 0)
    return t.add(t.unary("log", t.reduce_all("reduce_sum", t.unary("exp", t.sub(x, peak)), axes)), peak)


def extreme(name: str) -> Callable[[Emitter, Tensor, Axes], Tensor]:
    return lambda t, x, axes: t.on_ordered(lambda x: t.reduce_all(name, x, axes), x)


def product(t: Emitter, x: Tensor, axes: Axes) -> Tensor:
    """REDUCE_PRODUCT takes floats only: halves of integers are multiplied until one number is left."""
    if x.is_float:
        return t.reduce_all("reduce_product", x, axes)

    def halve(x: Tensor, axis: int) -> Tensor:
        while (size := x.shape[axis]) > 1:
            half = size // 2
            product = t.mul(t.slice_axis(x, axis, 0, half), t.slice_axis(x, axis, half, half))
            x = t.concat([product, t.slice_axis(x, axis, 2 * half, 1)], axis) if size % 2 else product
        return x

    for axis in axes:
        x = t.on_axis(halve, x, axis)
    return x


def sums(t: Emitter, x: Tensor, axis: int, exclusive: bool, backward: bool) -> Tensor:
    """Each element plus the one before it, then plus what is two before, four before, …"""
    if x.is_flat:
        return t.on_axis(lambda x, axis: sums(t, x, axis, exclusive, backward), x, axis)
    size = x.shape[axis]

    def shifted(x: Tensor, count: int) -> Tensor:
        if count >= size:
            return t.const(np.zeros(x.shape), x.element)
        kept = t.slice_axis(x, axis, count if backward else 0, size - count)
        return t.pad_axis(kept, axis, 0 if backward else count, count if backward else 0)

    x = shifted(x, 1) if exclusive else x
    step = 1
    while step < size:
        x = t.add(x, shifted(x, step))
        step *= 2
    return x


def position(t: Emitter, x: Tensor, axis: int, *, least: bool, last: bool) -> Tensor:
    """Position of the extreme along ``axis``, which is kept; of equal ones the first, or the last."""
    x = t.reverse(x, axis) if last else x
    kept = [1 if a == axis else size for a, size in enumerate(x.shape)]
    if x.is_float:
        x = t.unary("negate", x) if least else x
        shape = [size for a, size in enumerate(x.shape) if a != axis]
        position = t.reshape(t.op("argmax", (x,), "i32", shape, f"axis = {axis} : i32"), kept)
    else:
        # ARGMAX takes no integers but int8: the extreme, then the first position that holds it.
        x = t.ordered(x)
        found = t.compare("equal", x, t.reduce("reduce_min" if least else "reduce_max", x, axis))
        positions = t.along(t.const(np.arange(x.shape[axis]), "i32"), x.rank, axis)
        position = t.reduce("reduce_min", t.select(found, positions, x.shape[axis]), axis)
    return t.sub(t.scalar(x.shape[axis] - 1, position), position) if last else position
