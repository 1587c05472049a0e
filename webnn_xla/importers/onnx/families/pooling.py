"""Pooling of any rank. Averages count what ONNX counts: the sizes of windows are known, so they are constants."""

from __future__ import annotations

import itertools
import math

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.families.convolution import resolve_padding, spatial
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import INT64, is_float
from webnn_xla.importers.onnx.values import Tensor

MAX_WINDOW = 1024
"""Elements of a window that is taken apart slice by slice."""


class Window:
    """Sizes, strides and padding of a pooling node; ``after`` covers what rounding up needs."""

    def __init__(self, n: Node, x: Tensor) -> None:
        rank = x.rank - 2
        if rank < 1:
            raise Malformed(f"pooling of {x}")
        self.rank = rank
        self.kernel = spatial(n, "kernel_shape", rank) if n.ints("kernel_shape") else n.need("kernel_shape", list)
        self.strides = spatial(n, "strides", rank)
        self.dilations = spatial(n, "dilations", rank)
        self.before, self.declared = resolve_padding(n, list(x.shape[2:]), self.kernel, self.strides, self.dilations)
        ceil = bool(n.attr("ceil_mode", 0))
        self.sizes: list[int] = []
        self.after: list[int] = []
        for d, k, s, q, b, a in zip(
            x.shape[2:], self.kernel, self.strides, self.dilations, self.before, self.declared, strict=True
        ):
            reach = (k - 1) * q + 1
            room = d + b + a - reach
            if room < 0:
                raise Malformed(f"the window {self.kernel} is larger than the padded input {x}")
            count = (-(-room // s) if ceil else room // s) + 1
            if ceil and (count - 1) * s >= d + b:
                count -= 1
            self.sizes.append(count)
            self.after.append(max((count - 1) * s + reach - d - b, 0))

    def padded(self, n: Node, x: Tensor, value: float) -> Tensor:
        if not any(self.before) and not any(self.after):
            return x
        return n.pad(x, [0, 0, *self.before], [0, 0, *self.after], value=value)

    def positions(self, n: Node, x: Tensor) -> list[Tensor]:
        """For each element of the window, the tensor of that element for every output; ``x`` is padded."""
        if math.prod(self.kernel) > MAX_WINDOW:
            raise Unsupported(f"a window of {math.prod(self.kernel)} elements")
        found = []
        for place in itertools.product(*(range(k) for k in self.kernel)):
            starts = [0, 0, *(p * q for p, q in zip(place, self.dilations, strict=True))]
            extents = [*x.shape[:2], *((c - 1) * s + 1 for c, s in zip(self.sizes, self.strides, strict=True))]
            found.append(n.slice(x, starts, extents, strides=[1, 1, *self.strides]))
        return found

    def pairs(self) -> list[list[int]]:
        """Spatial dimensions two at a time, for separable pooling."""
        axes = list(range(self.rank))
        return [axes[k : k + 2] for k in range(0, self.rank, 2)]


def _pool2d(n: Node, method: str, x: Tensor, w: Window, axes: list[int]) -> Tensor:
    """WebNN's pooling over one or two of the spatial dimensions of ``x``, which is padded already."""
    spatial_axes = [a + 2 for a in axes]
    other = [a for a in range(x.rank) if a not in spatial_axes]
    order = other + spatial_axes
    moved = n.permuted(x, order)
    sizes = [moved.shape[len(other) + k] for k in range(len(axes))]
    lead = math.prod(moved.shape[: len(other)])
    flat = n.to(moved, [1, lead, *([1] * (2 - len(axes))), *sizes])
    fill = [1] * (2 - len(axes))
    y = n.call(
        method,
        flat,
        window_dimensions=fill + [w.kernel[a] for a in axes],
        strides=fill + [w.strides[a] for a in axes],
        dilations=fill + [w.dilations[a] for a in axes],
    )
    out = n.to(y, [*moved.shape[: len(other)], *y.shape[4 - len(axes) :]])
    return n.permuted(out, np.argsort(order).tolist())


def _direct(n: Node, method: str, x: Tensor, w: Window) -> Tensor:
    """One WebNN op on a rank-4 input, with its padding."""
    return n.call(
        method,
        x,
        window_dimensions=w.kernel,
        padding=[w.before[0], w.after[0], w.before[1], w.after[1]],
        strides=w.strides,
        dilations=w.dilations,
        output_sizes=w.sizes,
    )


@onnx_op("AveragePool")
def average_pool(n: Node) -> Tensor:
    x = n[0]
    w = Window(n, x)
    include = bool(n.attr("count_include_pad", 0))
    padded = any(w.before) or any(w.after)
    if w.rank == 2 and not padded:
        return _direct(n, "average_pool2d", x, w)
    if w.rank == 2 and not include and w.after == w.declared:
        return _direct(n, "average_pool2d", x, w)
    y = w.padded(n, x, 0)
    for axes in w.pairs():
        y = _pool2d(n, "average_pool2d", y, w, axes)
    # The mean of a window with zeros, times window size over what counts in it.
    for axis in range(w.rank):
        low = -w.before[axis] if include else 0
        high = x.shape[axis + 2] + (w.declared[axis] if include else 0)
        starts = np.arange(w.sizes[axis]) * w.strides[axis] - w.before[axis]
        places = starts[:, None] + np.arange(w.kernel[axis])[None, :] * w.dilations[axis]
        counts = np.maximum(((places >= low) & (places < high)).sum(axis=1), 1)
        if np.any(counts != w.kernel[axis]):
            factor = (w.kernel[axis] / counts).reshape([-1 if a == axis else 1 for a in range(w.rank)])
            y = n.mul(y, n.const(factor, y.dtype))
    return y


@onnx_op("MaxPool")
def max_pool(n: Node) -> list[Tensor]:
    x = n[0]
    w = Window(n, x)
    if n.wants(1):
        return _with_indices(n, x, w)
    if w.rank == 2:
        return [_direct(n, "max_pool2d", x, w)]
    y = w.padded(n, x, _lowest(x))
    for axes in w.pairs():
        y = _pool2d(n, "max_pool2d", y, w, axes)
    return [y]


def _lowest(x: Tensor) -> float:
    return -math.inf if is_float(x.dtype) else int(np.iinfo(x.dtype).min)


def _with_indices(n: Node, x: Tensor, w: Window) -> list[Tensor]:
    stacked = n.concat([n.unsqueezed(p, [0]) for p in w.positions(n, w.padded(n, x, _lowest(x)))], axis=0)
    best = n.reduce_max(stacked, axes=[0])
    which = n.arg_max(stacked, 0, output_data_type="int64")
    # Position in the flat input of each window's element: known, so a table.
    table = np.zeros((math.prod(w.kernel), *w.sizes), np.int64)
    sizes = x.shape[2:]
    column = bool(n.attr("storage_order", 0))
    strides = [math.prod(sizes[:k]) for k in range(w.rank)] if column else [math.prod(sizes[k + 1 :]) for k in range(w.rank)]
    for index, place in enumerate(itertools.product(*(range(k) for k in w.kernel))):
        for axis in range(w.rank):
            along = np.arange(w.sizes[axis]) * w.strides[axis] - w.before[axis] + place[axis] * w.dilations[axis]
            table[index] += (along * strides[axis]).reshape([-1 if a == axis else 1 for a in range(w.rank)])
    lead = np.arange(x.shape[0] * x.shape[1]).reshape([x.shape[0], x.shape[1], *([1] * w.rank)]) * math.prod(sizes)
    spread = n.broadcast(n.to(n.const(table), [table.shape[0], 1, 1, *w.sizes]), [table.shape[0], *best.shape])
    picked = n.gather_elements(spread, n.unsqueezed(which, [0]), axis=0)
    return [best, n.add(n.squeezed(picked, [0]), n.const(lead, INT64))]


@onnx_op("LpPool")
def lp_pool(n: Node) -> Tensor:
    x, p = n[0], n.attr("p", 2)
    w = Window(n, x)
    if p == 2 and w.rank == 2:
        return _direct(n, "l2_pool2d", x, w)
    powered = n.abs(x) if p == 1 else n.pow(n.abs(x), float(p))
    y = w.padded(n, powered, 0)
    for axes in w.pairs():
        y = _pool2d(n, "average_pool2d", y, w, axes)
    total = n.mul(y, float(math.prod(w.kernel)))
    return total if p == 1 else n.pow(total, 1 / p)


@onnx_op("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: Node) -> Tensor:
    method = "reduce_mean" if n.op == "GlobalAveragePool" else "reduce_max"
    return n.call(method, n[0], axes=list(range(2, n[0].rank)), keep_dimensions=True)


@onnx_op("GlobalLpPool")
def global_lp_pool(n: Node) -> Tensor:
    x, p = n[0], n.attr("p", 2)
    axes = list(range(2, x.rank))
    if p in (1, 2):
        return n.call(f"reduce_l{p}", x, axes=axes, keep_dimensions=True)
    return n.pow(n.reduce_sum(n.pow(n.abs(x), float(p)), axes=axes, keep_dimensions=True), 1 / p)


@onnx_op("MaxUnpool", since=9)
def max_unpool(n: Node) -> Tensor:
    x, indices = n[0], n[1]
    rank = x.rank - 2
    kernel = spatial(n, "kernel_shape", rank)
    strides = spatial(n, "strides", rank)
    before, after = resolve_padding(n, list(x.shape[2:]), kernel, strides, [1] * rank)
    inner = [(d - 1) * s + k - b - a for d, s, k, b, a in zip(x.shape[2:], strides, kernel, before, after, strict=True)]
    shape = [*x.shape[:2], *inner]
    wanted = n.known_ints(2, "output_shape") if n.get(2) is not None else shape
    total = math.prod(wanted)
    zeros = n.broadcast(n.const(0, x), [total])
    places: Tensor = indices
    if wanted != shape:
        # Indices count in the smaller shape: unravel there, ravel here.
        rest, parts = indices, []
        for axis in range(x.rank):
            stride = math.prod(shape[axis + 1 :])
            digit = n.div(rest, stride)
            rest = n.sub(rest, n.mul(digit, stride))
            parts.append(n.mul(digit, math.prod(wanted[axis + 1 :])))
        places = parts[0]
        for part in parts[1:]:
            places = n.add(places, part)
    return n.to(n.scatter_elements(zeros, n.to(places, [x.size]), n.to(x, [x.size]), axis=0), wanted)
