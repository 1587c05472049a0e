"""Convolutions of any rank: one and three spatial dimensions go through WebNN's two."""

from __future__ import annotations

import math

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import FLOAT32, INT32
from webnn_xla.importers.onnx.values import Tensor


def spatial(n: Node, name: str, rank: int, default: int = 1, low: int = 1) -> list[int]:
    """A list attribute with one number per spatial dimension."""
    values = n.ints(name) or [default] * rank
    if len(values) != rank or any(v < low for v in values):
        raise Malformed(f"{name} {values} do not fit {rank} spatial dimensions")
    return values


def resolve_padding(
    n: Node, sizes: list[int], kernel: list[int], strides: list[int], dilations: list[int]
) -> tuple[list[int], list[int]]:
    """Padding before and after each spatial dimension, from ``pads`` or ``auto_pad``."""
    rank = len(sizes)
    auto = n.attr("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
            total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
            small = total // 2
            before.append(small if auto == "SAME_UPPER" else total - small)
            after.append(total - before[-1])
        return before, after
    if auto == "VALID":
        return [0] * rank, [0] * rank
    if auto not in ("NOTSET", ""):
        raise Malformed(f"auto_pad {auto!r}")
    pads = n.ints("pads") or [0] * (2 * rank)
    if len(pads) != 2 * rank or any(p < 0 for p in pads):
        raise Malformed(f"pads {pads} do not fit {rank} spatial dimensions")
    return pads[:rank], pads[rank:]


def convolve(
    n: Node,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    before: list[int],
    after: list[int],
    strides: list[int],
    dilations: list[int],
    groups: int,
) -> Tensor:
    """Cross-correlation of ``x`` [N, C, …] with ``w`` [O, C / groups, …]."""
    rank = x.rank - 2
    if rank == 1:
        y = convolve(
            n,
            n.unsqueezed(x, [2]),
            n.unsqueezed(w, [2]),
            bias,
            [0, *before],
            [0, *after],
            [1, *strides],
            [1, *dilations],
            groups,
        )
        return n.squeezed(y, [2])
    if rank == 2:
        return n.conv2d(
            x,
            w,
            padding=[before[0], after[0], before[1], after[1]],
            strides=strides,
            dilations=dilations,
            groups=groups,
            bias=bias,
        )
    return _convolve_slices(n, x, w, bias, before, after, strides, dilations, groups)


def _convolve_slices(
    n: Node,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    before: list[int],
    after: list[int],
    strides: list[int],
    dilations: list[int],
    groups: int,
) -> Tensor:
    """The first spatial dimension becomes part of the batch; one convolution for each of its kernel positions, summed."""
    if before[0] or after[0]:
        x = n.pad(x, [0, 0, before[0]] + [0] * (x.rank - 3), [0, 0, after[0]] + [0] * (x.rank - 3))
    depth, kernel = x.shape[2], w.shape[2]
    count = (depth - (kernel - 1) * dilations[0] - 1) // strides[0] + 1
    if count < 1:
        raise Malformed(f"the kernel {w} is larger than the input {x}")
    moved = [0, 2, 1, *range(3, x.rank)]
    total: Tensor | None = None
    for k in range(kernel):
        starts, sizes, steps = [0] * x.rank, list(x.shape), [1] * x.rank
        starts[2], sizes[2], steps[2] = k * dilations[0], (count - 1) * strides[0] + 1, strides[0]
        part = n.permuted(n.slice(x, starts, sizes, strides=steps), moved)
        flat = n.to(part, [x.shape[0] * count, x.shape[1], *x.shape[3:]])
        y = convolve(
            n, flat, n.squeezed(n.cut(w, 2, k, 1), [2]), None, before[1:], after[1:], strides[1:], dilations[1:], groups
        )
        total = y if total is None else n.add(total, y)
    assert total is not None
    y = n.permuted(n.to(total, [x.shape[0], count, *total.shape[1:]]), moved)
    return y if bias is None else n.add(y, n.to(bias, [bias.size] + [1] * (x.rank - 2)))


def _check(n: Node, x: Tensor, w: Tensor) -> int:
    if x.rank != w.rank or x.rank < 3:
        raise Malformed(f"input {x} and weights {w} do not fit together")
    return x.rank - 2


@onnx_op("Conv")
def conv(n: Node) -> Tensor:
    x, w = n[0], n[1]
    rank = _check(n, x, w)
    strides, dilations = spatial(n, "strides", rank), spatial(n, "dilations", rank)
    before, after = resolve_padding(n, list(x.shape[2:]), list(w.shape[2:]), strides, dilations)
    return convolve(n, x, w, n.get(2), before, after, strides, dilations, n.attr("group", 1))


def exact_conv(n: Node, x: Tensor, w: Tensor, x_zero: Tensor | None, w_zero: Tensor | None) -> Tensor:
    """int32 convolution of 8-bit tensors, by float32 convolutions that do not round."""
    rank = _check(n, x, w)
    strides, dilations = spatial(n, "strides", rank), spatial(n, "dilations", rank)
    before, after = resolve_padding(n, list(x.shape[2:]), list(w.shape[2:]), strides, dilations)
    groups = n.attr("group", 1)
    image, kernel = n.cast_to(x, FLOAT32), n.cast_to(w, FLOAT32)
    if x_zero is not None:
        image = n.sub(image, n.cast_to(n.to(x_zero, []), FLOAT32))
    if w_zero is not None:
        shape = [w_zero.size] + [1] * (w.rank - 1) if w_zero.size > 1 else []
        kernel = n.sub(kernel, n.cast_to(n.to(w_zero, shape), FLOAT32))

    def run(part: Tensor) -> Tensor:
        return n.cast_to(convolve(n, image, part, None, before, after, strides, dilations, groups), INT32)

    if math.prod(w.shape[1:]) * 255 * 255 < 2**24:
        return run(kernel)
    high = n.floor(n.mul(kernel, 1 / 16))
    return n.add(n.mul(run(high), 16), run(n.sub(kernel, n.mul(high, 16.0))))


@onnx_op("ConvInteger", since=10)
def conv_integer(n: Node) -> Tensor:
    return exact_conv(n, n[0], n[1], n.get(2), n.get(3))


@onnx_op("ConvTranspose")
def conv_transpose(n: Node) -> Tensor:
    x, w, bias = n[0], n[1], n.get(2)
    rank = _check(n, x, w)
    strides, dilations = spatial(n, "strides", rank), spatial(n, "dilations", rank)
    extra = spatial(n, "output_padding", rank, 0, 0)
    groups = n.attr("group", 1)
    kernel = list(w.shape[2:])
    full = [(d - 1) * s + (k - 1) * q + 1 for d, s, k, q in zip(x.shape[2:], strides, kernel, dilations, strict=True)]
    wanted = n.ints("output_shape")
    auto = n.attr("auto_pad", "NOTSET")
    if wanted is not None:
        wanted = wanted[-rank:]
    elif auto.startswith("SAME"):
        wanted = [d * s for d, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        totals = [f + e - o for f, e, o in zip(full, extra, wanted, strict=True)]
        halves = [max(t, 0) // 2 for t in totals]
        # What the output is longer than the full result is more output padding.
        extra = [e + max(-t, 0) for e, t in zip(extra, totals, strict=True)]
        before = halves if auto != "SAME_LOWER" else [max(t, 0) - h for t, h in zip(totals, halves, strict=True)]
        after = [max(t, 0) - b for t, b in zip(totals, before, strict=True)]
        if auto == "NOTSET":
            before, after = after, before
    else:
        before, after = resolve_padding(n, list(x.shape[2:]), kernel, strides, dilations)
    if rank <= 2 and all(e < s for e, s in zip(extra, strides, strict=True)):
        two = [0] * (2 - rank)
        image = n.unsqueezed(x, [2]) if rank == 1 else x
        filters = n.unsqueezed(w, [2]) if rank == 1 else w
        b, a = [*two, *before], [*two, *after]
        y = n.conv_transpose2d(
            image,
            filters,
            padding=[b[0], a[0], b[1], a[1]],
            strides=[1] * (2 - rank) + strides,
            dilations=[1] * (2 - rank) + dilations,
            output_padding=[*two, *extra],
            groups=groups,
            bias=bias,
        )
        return n.squeezed(y, [2]) if rank == 1 else y
    return _by_dilation(n, x, w, bias, before, after, strides, dilations, extra, groups)


def _by_dilation(
    n: Node,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    before: list[int],
    after: list[int],
    strides: list[int],
    dilations: list[int],
    extra: list[int],
    groups: int,
) -> Tensor:
    """Zeros between the elements, then a convolution with the mirrored kernel."""
    rank = x.rank - 2
    for k, stride in enumerate(strides):
        if stride > 1:
            axis = k + 2
            spread = n.pad(
                n.unsqueezed(x, [axis + 1]), [0] * (x.rank + 1), [stride - 1 if a == axis + 1 else 0 for a in range(x.rank + 1)]
            )
            shape = list(x.shape)
            shape[axis] *= stride
            x = n.cut(n.to(spread, shape), axis, 0, shape[axis] - stride + 1)
    edges = [(k - 1) * d for k, d in zip(w.shape[2:], dilations, strict=True)]
    low = [e - b for e, b in zip(edges, before, strict=True)]
    high = [e - a + o for e, a, o in zip(edges, after, extra, strict=True)]
    from webnn_xla.importers.onnx.families.movement import padded

    x = padded(n, x, [0, 0, *low, 0, 0, *high], "constant", 0)
    inputs, outputs = w.shape[0], w.shape[1]
    mirrored = n.reverse(w, axes=list(range(2, w.rank)))
    grouped = n.to(mirrored, [groups, inputs // groups, *w.shape[1:]])
    swapped = n.to(n.permuted(grouped, [0, 2, 1, *range(3, grouped.rank)]), [groups * outputs, inputs // groups, *w.shape[2:]])
    zeros = [0] * rank
    return convolve(n, x, swapped, bias, zeros, zeros, [1] * rank, dilations, groups)


@onnx_op("DeformConv", since=19)
def deform_conv(n: Node) -> Tensor:
    """Samples every kernel position bilinearly, then one matrix product per group."""
    x, w, offset, bias, mask = n[0], n[1], n[2], n.get(3), n.get(4)
    if _check(n, x, w) != 2:
        raise Malformed(f"deformable convolution of {x}")
    from webnn_xla.importers.onnx.families.image import bilinear_at

    strides, dilations = spatial(n, "strides", 2), spatial(n, "dilations", 2)
    before, _ = resolve_padding(n, list(x.shape[2:]), list(w.shape[2:]), strides, dilations)
    groups, parts = n.attr("group", 1), n.attr("offset_group", 1)
    b, c = x.shape[:2]
    o, kh, kw = w.shape[0], w.shape[2], w.shape[3]
    oh, ow = offset.shape[2:]
    shifts = n.to(offset, [b, parts, kh * kw, 2, oh, ow])
    ys = np.arange(oh)[None, :, None] * strides[0] - before[0] + (np.arange(kh * kw) // kw * dilations[0])[:, None, None]
    xs = np.arange(ow)[None, None, :] * strides[1] - before[1] + (np.arange(kh * kw) % kw * dilations[1])[:, None, None]
    rows = n.add(n.squeezed(n.cut(shifts, 3, 0, 1), [3]), n.const(ys, x))
    columns = n.add(n.squeezed(n.cut(shifts, 3, 1, 1), [3]), n.const(xs, x))
    flat = [b * parts, kh * kw * oh * ow]
    image = n.to(x, [b * parts, c // parts, *x.shape[2:]])
    sampled = bilinear_at(n, image, n.to(rows, flat), n.to(columns, flat))
    if mask is not None:
        sampled = n.mul(sampled, n.to(mask, [b * parts, 1, flat[1]]))
    columns_ = n.permuted(n.to(sampled, [b, groups, c // groups, kh * kw, oh * ow]), [0, 1, 2, 3, 4])
    matrix = n.to(columns_, [b, groups, c // groups * kh * kw, oh * ow])
    kernel = n.to(w, [1, groups, o // groups, c // groups * kh * kw])
    y = n.to(n.matmul(n.broadcast(kernel, [b, *kernel.shape[1:]]), matrix), [b, o, oh, ow])
    return y if bias is None else n.add(y, n.to(bias, [o, 1, 1]))


@onnx_op("Col2Im", since=18)
def column_to_image(n: Node) -> Tensor:
    """The sum of every kernel position's patch, put at its place."""
    x = n[0]
    image, block = n.known_ints(1, "image_shape"), n.known_ints(2, "block_shape")
    rank = len(image)
    strides, dilations = spatial(n, "strides", rank), spatial(n, "dilations", rank)
    before, after = resolve_padding(n, image, block, strides, dilations)
    whole = [d + b + a for d, b, a in zip(image, before, after, strict=True)]
    counts = [(d - (k - 1) * q - 1) // s + 1 for d, k, q, s in zip(whole, block, dilations, strides, strict=True)]
    kernel = math.prod(block)
    if x.rank != 3 or x.shape[1] % kernel or x.shape[2] != math.prod(counts):
        raise Malformed(f"{x} has no columns of blocks {block} of an image {image}")
    channels = x.shape[1] // kernel
    # An identity kernel makes of each column's elements a patch: the sum is a transposed convolution.
    y = n.to(x, [x.shape[0] * channels, kernel, *counts])
    identity = n.const(np.eye(kernel).reshape([kernel, 1, *block]), x)
    full = [(c - 1) * s + (k - 1) * q + 1 for c, s, k, q in zip(counts, strides, block, dilations, strict=True)]
    rest = [d - f for d, f in zip(whole, full, strict=True)]
    spread = _by_dilation(n, y, identity, None, [0] * rank, [0] * rank, strides, dilations, rest, 1)
    cropped = n.slice(spread, [0, 0, *before], [spread.shape[0], 1, *image])
    return n.to(cropped, [x.shape[0], channels, *image])
