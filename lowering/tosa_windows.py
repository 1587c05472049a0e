"""Convolution and pooling in TOSA: its operators where the geometry allows, slices and sums where it does not.

TOSA's images are NHWC, its strides divide exactly, its pools have no dilation and no window wholly in padding, and its
transposed convolution has no dilation and no groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from webnn_xla.lowering.tosa import Emitter, Tensor, fail
from webnn_xla.lowering.window import SPATIAL, Window

MAX_KERNEL: Final = 8192
"""Of TOSA's kernels, strides and padding, in level 8K."""

MAX_TAPS: Final = 64
"""Windows of TOSA's pools that are written out as slices have at most this many elements along an axis."""


def to_layout(t: Emitter, x: Tensor, source: str, target: str) -> Tensor:
    return t.transpose(x, [source.index(letter) for letter in target])


def exact(t: Emitter, x: Tensor, layout: str, windows: Sequence[Window], sizes: Sequence[int]) -> tuple[Tensor, list[Window]]:
    """The image cut, and windows padded, so that ``sizes`` positions fit exactly. Steps without effect become 1."""
    fitted = []
    for axis, window, size in zip(SPATIAL, windows, sizes, strict=True):
        stride = 1 if size == 1 else window.stride
        dilation = 1 if window.size == 1 else window.dilation
        window = replace(window, stride=stride, dilation=dilation)
        first, last = -window.before, (size - 1) * stride + window.extent - window.before
        start, stop = min(max(first, 0), window.input - 1), max(min(last, window.input), 1)
        start = min(start, stop - 1)
        x = t.slice_axis(x, layout.index(axis), start, stop - start)
        window = replace(window, input=stop - start, before=start - first, after=last - stop)
        if window.before < 0 or window.after < 0:
            # Nothing of the image is read.
            low, high = max(window.before, 0), max(window.after, 0)
            x = t.pad_axis(x, layout.index(axis), low, high)
            read = window.input + low + high + min(window.before, 0) + min(window.after, 0)
            x = t.slice_axis(x, layout.index(axis), max(-window.before, 0), read)
            window = replace(window, input=read, before=0, after=0)
        fitted.append(window)
    for window in fitted:
        if max(window.extent, window.stride, window.before, window.after) > MAX_KERNEL:
            fail(f"a window of {window.extent} elements with stride {window.stride}; TOSA's level 8K has at most {MAX_KERNEL}")
    return x, fitted


def _list(name: str, values: Sequence[int]) -> str:
    return f"{name} = array<i64: {', '.join(map(str, values))}>"


def _padding(windows: Sequence[Window]) -> list[int]:
    return [count for window in windows for count in (window.before, window.after)]


def _kernel(
    t: Emitter, name: str, image: Tensor, weight: Tensor, bias: Tensor | None, shape: Sequence[int], geometry: str
) -> Tensor:
    bias = t.const([0], image.element) if bias is None else bias
    zeros = (t.const([0], image.element), t.const([0], weight.element))
    return t.op(name, (image, weight, bias, *zeros), image.element, shape, f"acc_type = f32, {geometry}")


def convolve(
    t: Emitter,
    input: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    windows: Sequence[Window],
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Tensor:
    sizes = [window.positions for window in windows]
    image, windows = exact(t, to_layout(t, input, input_layout, "nhwc"), "nhwc", windows, sizes)
    geometry = ", ".join(
        (
            _list("dilation", [window.dilation for window in windows]),
            _list("pad", _padding(windows)),
            _list("stride", [window.stride for window in windows]),
        )
    )
    channels, outputs = image.shape[3], filter.shape[filter_layout.index("o")]
    shape = (image.shape[0], *sizes)
    if groups == channels and groups > 1:
        weight = to_layout(t, filter, filter_layout, "hwio")
        weight = t.reshape(weight, (*weight.shape[:2], channels, outputs // channels))
        result = _kernel(t, "depthwise_conv2d", image, weight, bias, (*shape, outputs), geometry)
    else:
        weight = to_layout(t, filter, filter_layout, "ohwi")
        result = _by_groups(t, "conv2d", image, weight, 0, bias, groups, (*shape, outputs // groups), geometry)
    return to_layout(t, result, "nhwc", input_layout)


def convolve_transposed(
    t: Emitter,
    input: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    windows: Sequence[Window],
    sizes: Sequence[int],
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Tensor:
    image, weight = to_layout(t, input, input_layout, "nhwc"), to_layout(t, filter, filter_layout, "ohwi")
    strides, out_padding, crops, shape = [], [], [], [image.shape[0]]
    for axis, (window, size) in enumerate(zip(windows, sizes, strict=True), 1):
        weight = _dilate(t, weight, axis, 1 if window.size == 1 else window.dilation)
        stride = 1 if window.input == 1 else window.stride
        extent = weight.shape[axis]
        full = (window.input - 1) * stride + extent
        low, high = -window.before, size + window.before - full
        if low > -extent and high > -extent:
            crops.append((0, size))
        else:
            crops.append((window.before, size))
            low, high = 0, max(high, 0)
        strides.append(stride)
        out_padding += [low, high]
        shape.append(full + low + high)
    if max(strides) > MAX_KERNEL or max(weight.shape[1:3]) > MAX_KERNEL:
        fail(f"strides {strides} and a filter of {list(weight.shape[1:3])}; TOSA's level 8K has at most {MAX_KERNEL}")
    geometry = f"{_list('out_pad', out_padding)}, {_list('stride', strides)}"
    result = _by_groups(t, "transpose_conv2d", image, weight, 3, bias, groups, (*shape, weight.shape[0]), geometry)
    for axis, (start, size) in enumerate(crops, 1):
        result = t.slice_axis(result, axis, start, size)
    return to_layout(t, result, "nhwc", input_layout)


def _by_groups(
    t: Emitter,
    name: str,
    image: Tensor,
    weight: Tensor,
    axis: int,
    bias: Tensor | None,
    groups: int,
    shape: tuple[int, ...],
    geometry: str,
) -> Tensor:
    """``name`` for each group, whose weights lie along ``axis``; ``shape`` is the result of one, and they are joined."""

    def part(x: Tensor, axis: int, group: int) -> Tensor:
        size = x.shape[axis] // groups
        return t.slice_axis(x, axis, group * size, size)

    results = [
        _kernel(
            t,
            name,
            part(image, 3, group),
            part(weight, axis, group),
            None if bias is None else part(bias, 0, group),
            shape,
            geometry,
        )
        for group in range(groups)
    ]
    return t.concat(results, 3)


def _dilate(t: Emitter, weight: Tensor, axis: int, dilation: int) -> Tensor:
    """Zeros between the taps: the transposed convolution has no dilation."""
    if dilation == 1:
        return weight
    size = weight.shape[axis]
    spread = t.reshape(weight, (*weight.shape[: axis + 1], 1, *weight.shape[axis + 1 :]))
    spread = t.pad_axis(spread, axis + 1, 0, dilation - 1)
    merged = t.reshape(spread, (*weight.shape[:axis], size * dilation, *weight.shape[axis + 1 :]))
    return t.slice_axis(merged, axis, 0, (size - 1) * dilation + 1)


def is_plain(windows: Sequence[Window], sizes: Sequence[int]) -> bool:
    """Whether TOSA's pools can have these windows: neighbouring elements, and at least one of them in the image."""
    counts = [window.counts(size) for window, size in zip(windows, sizes, strict=True)]
    return all(
        (window.dilation == 1 or window.size == 1) and count.all() for window, count in zip(windows, counts, strict=True)
    )


def pool(t: Emitter, name: str, x: Tensor, layout: str, windows: Sequence[Window], sizes: Sequence[int]) -> Tensor:
    """``avg_pool2d`` or ``max_pool2d``, of plain windows."""
    image, windows = exact(t, to_layout(t, x, layout, "nhwc"), "nhwc", windows, sizes)
    geometry = ", ".join(
        (
            _list("kernel", [window.size for window in windows]),
            _list("pad", _padding(windows)),
            _list("stride", [window.stride for window in windows]),
        )
    )
    operands = [image]
    if name == "avg_pool2d":
        operands += [t.const([0], image.element)] * 2
        geometry = f"acc_type = f32, {geometry}"
    result = t.op(name, operands, image.element, (image.shape[0], *sizes, image.shape[3]), geometry)
    return to_layout(t, result, "nhwc", layout)


def pool_by_slices(
    t: Emitter,
    combine: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    start: float,
    layout: str,
    windows: Sequence[Window],
    sizes: Sequence[int],
) -> Tensor:
    """One axis after the other: the elements of all windows at one tap are a slice. Padding has the value ``start``."""
    for axis, window, size in zip(SPATIAL, windows, sizes, strict=True):
        if window.size > MAX_TAPS:
            fail(f"a window of {window.size} elements that TOSA's pools cannot have; at most {MAX_TAPS} are written out")
        dimension, stride = layout.index(axis), 1 if size == 1 else window.stride
        last = (size - 1) * stride + window.extent - window.before
        x = t.pad_axis(x, dimension, max(window.before, 0), max(last - window.input, 0), start)
        first = max(-window.before, 0)
        parts = [
            t.slice_axis(x, dimension, first + tap * window.dilation, (size - 1) * stride + 1, stride)
            for tap in range(window.size)
        ]
        x = parts[0]
        for part in parts[1:]:
            x = combine(x, part)
    return x


def average(t: Emitter, x: Tensor, layout: str, windows: Sequence[Window], sizes: Sequence[int]) -> Tensor:
    if is_plain(windows, sizes):
        return pool(t, "avg_pool2d", x, layout, windows, sizes)
    total = pool_by_slices(t, t.add, x, 0, layout, windows, sizes)
    counts = (np.maximum(window.counts(size), 1) for window, size in zip(windows, sizes, strict=True))
    for axis, count in zip(SPATIAL, counts, strict=True):
        total = t.mul(total, t.along(t.const(1 / count, total.element), total.rank, layout.index(axis)))
    return total


def l2(t: Emitter, x: Tensor, layout: str, windows: Sequence[Window], sizes: Sequence[int]) -> Tensor:
    """The average of the squares counts padding where that is in the image, as zeros."""
    squares = t.mul(x, x)
    if any(window.dilation > 1 and window.size > 1 for window in windows):
        return t.sqrt(pool_by_slices(t, t.add, squares, 0, layout, windows, sizes))
    inside = []
    for axis, window, size in zip(SPATIAL, windows, sizes, strict=True):
        stride = 1 if size == 1 else window.stride
        before, last = max(window.before, 0), (size - 1) * stride + window.extent - window.before
        after = max(last - window.input, 0)
        squares = t.pad_axis(squares, layout.index(axis), before, after)
        inside.append(replace(window, input=window.input + before + after, before=min(window.before, 0), after=0))
    count = inside[0].size * inside[1].size
    return t.sqrt(t.mul(pool(t, "avg_pool2d", squares, layout, inside, sizes), count))


def maximum(t: Emitter, x: Tensor, layout: str, windows: Sequence[Window], sizes: Sequence[int]) -> Tensor:
    if is_plain(windows, sizes) and (x.is_float or x.element == "i8"):
        if not x.unsigned:
            return pool(t, "max_pool2d", x, layout, windows, sizes)
        # With the highest bit flipped, signed order is the order of the unsigned numbers.
        signed = replace(t.binary("bitwise_xor", x, -128), unsigned=False)
        pooled = t.binary("bitwise_xor", pool(t, "max_pool2d", signed, layout, windows, sizes), -128)
        return replace(pooled, unsigned=True)

    # Small integers are compared as int32 of their value, wide ones with signed order.
    if x.is_float:
        smallest: float = -np.inf
    elif x.element == "i8":
        smallest = 0 if x.unsigned else -128
    else:
        smallest = np.iinfo(f"i{int(x.element[1:]) // 8}").min
    return t.on_ordered(lambda x: pool_by_slices(t, t.maximum, x, smallest, layout, windows, sizes), x)
