"""Resizing and sampling. Coordinates of a resize are known, so it is a gather and a weighted sum along each axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import INT64, Array, is_float
from webnn_xla.importers.onnx.values import Tensor

MAX_TAPS = 8
"""Axes with more taps than this are resized by a matrix product."""


@onnx_op("Upsample", since=7, until=9)
def upsample(n: Node) -> Tensor:
    scales = n.attr("scales", None) if n.opset < 9 else n.known_input(1, "scales").reshape(-1).tolist()
    if not scales:
        raise Malformed("no scales")
    mode = n.attr("mode", "nearest")
    return _resize(n, n[0], _Plan(n[0], scales=[float(s) for s in scales]), mode, "asymmetric", "floor")


@onnx_op("Resize", since=10, until=10)
def resize_10(n: Node) -> Tensor:
    scales = n.known_input(1, "scales").reshape(-1).tolist()
    return _resize(n, n[0], _Plan(n[0], scales=scales), n.attr("mode", "nearest"), "asymmetric", "floor")


@onnx_op("Resize", since=11)
def resize(n: Node) -> Tensor:
    x = n[0]
    axes = n.axes(n.ints("axes") or range(x.rank), x.rank)
    given = n.get(2)
    coordinates = n.attr("coordinate_transformation_mode", "half_pixel")
    roi = None
    if coordinates == "tf_crop_and_resize":
        roi = n.known_input(1, "roi").reshape(-1).astype(np.float64)
        if roi.size != 2 * len(axes):
            raise Malformed(f"roi has {roi.size} numbers for {len(axes)} axes")
    if given is not None and given.size:
        plan = _Plan(x, axes, scales=n.known(given, "scales (input 2)").reshape(-1).tolist(), roi=roi)
    else:
        plan = _Plan(x, axes, sizes=n.known_ints(3, "sizes"), roi=roi, policy=n.attr("keep_aspect_ratio_policy", "stretch"))
    return _resize(n, x, plan, n.attr("mode", "nearest"), coordinates, n.attr("nearest_mode", "round_prefer_floor"))


class _Plan:
    """Scales and sizes of every axis."""

    def __init__(
        self,
        x: Tensor,
        axes: list[int] | None = None,
        *,
        scales: list[float] | None = None,
        sizes: list[int] | None = None,
        roi: Array | None = None,
        policy: str = "stretch",
    ) -> None:
        axes = list(range(x.rank)) if axes is None else axes
        self.scales = [1.0] * x.rank
        self.sizes = list(x.shape)
        self.roi: list[tuple[float, float] | None] = [None] * x.rank
        count = len(scales if scales is not None else sizes or [])
        if count != len(axes):
            raise Malformed(f"{count} scales or sizes for {len(axes)} axes")
        if sizes is not None and policy != "stretch":
            ratios = [s / x.shape[a] for s, a in zip(sizes, axes, strict=True)]
            if policy not in ("not_larger", "not_smaller"):
                raise Malformed(f"keep_aspect_ratio_policy {policy!r}")
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            scales = [ratio] * len(axes)
            sizes = [math.floor(ratio * x.shape[a] + 0.5) for a in axes]
        for k, axis in enumerate(axes):
            extent = 1.0
            if roi is not None:
                self.roi[axis] = (float(roi[k]), float(roi[k + len(axes)]))
                extent = float(roi[k + len(axes)] - roi[k])
            if sizes is not None:
                self.sizes[axis] = sizes[k]
                self.scales[axis] = scales[k] if scales is not None else sizes[k] / x.shape[axis]
            elif scales is not None:
                self.scales[axis] = scales[k]
                self.sizes[axis] = math.floor(x.shape[axis] * scales[k] * extent + 1e-9)
            if not self.scales[axis] > 0 or self.sizes[axis] < 0 or self.sizes[axis] > 2**31:
                raise Malformed(f"scale {self.scales[axis]} and size {self.sizes[axis]} of axis {axis}")


def _resize(n: Node, x: Tensor, plan: _Plan, mode: str, coordinates: str, rounding: str) -> Tensor:
    if mode not in ("nearest", "linear", "cubic"):
        raise Malformed(f"mode {mode!r}")
    antialias = bool(n.attr("antialias", 0))
    changed = [
        a for a in range(x.rank) if plan.scales[a] != 1 or plan.sizes[a] != x.shape[a] or coordinates == "tf_crop_and_resize"
    ]
    exact = all(abs(plan.scales[a] * x.shape[a] - plan.sizes[a]) < 1e-6 for a in changed)
    if (
        mode == "linear"
        and coordinates == "half_pixel"
        and changed == [2, 3]
        and x.rank == 4
        and exact
        and not antialias
        and is_float(x.dtype)
    ):
        return n.resample2d(x, mode="linear", sizes=[plan.sizes[2], plan.sizes[3]], axes=[2, 3])
    y = x if mode == "nearest" or is_float(x.dtype) else n.floats(x)
    outside: list[tuple[int, Array]] = []
    for axis in changed:
        places = _coordinates(coordinates, plan, axis, x.shape[axis])
        if mode == "nearest":
            y = _pick(n, y, _nearest(places, rounding, x.shape[axis]), axis)
        else:
            index, weights = _taps(n, places, x.shape[axis], plan.scales[axis], mode, antialias)
            y = _weighted(n, y, axis, index, weights)
        if coordinates == "tf_crop_and_resize":
            outside.append((axis, (places < 0) | (places > x.shape[axis] - 1)))
    value = n.attr("extrapolation_value", 0.0)
    for axis, mask in outside:
        if mask.any():
            shape = [-1 if a == axis else 1 for a in range(x.rank)]
            y = n.where(n.const(mask.reshape(shape)), n.const(value, y), y)
    if y.dtype != x.dtype:
        y = n.cast_to(n.round_even(y), x.dtype)
    return y


def _coordinates(mode: str, plan: _Plan, axis: int, size: int) -> Array:
    """Positions in the input of every output element, in float64."""
    out, scale = plan.sizes[axis], plan.scales[axis]
    k = np.arange(out, dtype=np.float64)
    if mode == "half_pixel":
        return (k + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        adjustment = out / (scale * size)
        return size / 2 * (1 - adjustment) + (k + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (k + 0.5) / scale - 0.5 if out > 1 else np.zeros(out)
    if mode == "align_corners":
        # The length before it is rounded down, as ONNX's reference has it.
        length = scale * size
        return k * (size - 1) / (length - 1) if out > 1 else np.zeros(out)
    if mode == "asymmetric":
        return k / scale
    if mode == "tf_half_pixel_for_nn":
        return (k + 0.5) / scale
    if mode == "tf_crop_and_resize":
        start, end = plan.roi[axis] or (0.0, 1.0)
        if out > 1:
            return start * (size - 1) + k * (end - start) * (size - 1) / (out - 1)
        return np.full(out, 0.5 * (start + end) * (size - 1))
    raise Malformed(f"coordinate_transformation_mode {mode!r}")


def _nearest(places: Array, rounding: str, size: int) -> Array:
    rounded: dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda p: np.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: np.floor(p + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
        "simple": np.trunc,
    }
    if rounding not in rounded:
        raise Malformed(f"nearest_mode {rounding!r}")
    return np.clip(rounded[rounding](places), 0, size - 1).astype(np.int64)


def _pick(n: Node, x: Tensor, index: Array, axis: int) -> Tensor:
    size = x.shape[axis]
    factor = len(index) // size if size else 0
    if factor and np.array_equal(index, np.repeat(np.arange(size), factor)):
        shape = [*x.shape[: axis + 1], factor, *x.shape[axis + 1 :]]
        return n.to(n.broadcast(n.unsqueezed(x, [axis + 1]), shape), [*x.shape[:axis], len(index), *x.shape[axis + 1 :]])
    return n.gather(x, n.const(index, np.int32), axis=axis)


def _cubic(distance: Array, a: float) -> Array:
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _taps(n: Node, places: Array, size: int, scale: float, mode: str, antialias: bool) -> tuple[Array, Array]:
    """Indices and weights [out, taps] of the input elements that each output element is made of."""
    squeeze = min(scale, 1.0) if antialias else 1.0
    reach = 1.0 if mode == "linear" else 2.0
    low = math.floor(-reach / squeeze) + 1
    offsets = np.arange(low, 2 - low)
    base = np.floor(places).astype(np.int64)
    index = base[:, None] + offsets[None, :]
    distance = (index - places[:, None]) * squeeze
    weights = np.clip(1 - np.abs(distance), 0, 1) if mode == "linear" else _cubic(distance, n.attr("cubic_coeff_a", -0.75))
    if n.attr("exclude_outside", 0):
        weights = np.where((index < 0) | (index >= size), 0, weights)
    if antialias or n.attr("exclude_outside", 0):
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
    return np.clip(index, 0, size - 1), weights


def _weighted(n: Node, x: Tensor, axis: int, index: Array, weights: Array) -> Tensor:
    used = [k for k in range(index.shape[1]) if np.any(weights[:, k])]
    if len(used) > MAX_TAPS:
        matrix = np.zeros((index.shape[0], x.shape[axis]))
        np.add.at(matrix, (np.arange(len(index))[:, None], index), weights)
        last = x.rank - 1
        order = [a for a in range(x.rank) if a != axis] + [axis]
        moved = n.to(n.permuted(x, order), [-(-x.size // max(x.shape[axis], 1)), x.shape[axis]])
        y = n.to(n.matmul(moved, n.const(matrix.T, x)), [*(x.shape[a] for a in order[:last]), len(index)])
        return n.permuted(y, np.argsort(order).tolist())
    shape = [-1 if a == axis else 1 for a in range(x.rank)]
    parts = [n.mul(_pick(n, x, index[:, k], axis), n.const(weights[:, k].reshape(shape), x)) for k in used]
    return reduce(lambda a, b: n.add(a, b), parts)


# Sampling at computed positions


def _at(n: Node, flat: Tensor, positions: Tensor) -> Tensor:
    """``flat`` [B, C, S] at ``positions`` [B, P] → [B, C, P]."""
    b, c, _ = flat.shape
    index = n.broadcast(n.unsqueezed(positions, [1]), [b, c, positions.shape[1]])
    return n.gather_elements(flat, index, axis=2)


def bilinear_at(n: Node, image: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """``image`` [B, C, H, W] at fractional ``rows`` and ``columns`` [B, P], zero outside → [B, C, P]."""
    return _sample(n, image, [rows, columns], "linear", "zeros", False, 0)


def _reflected(n: Node, x: Tensor, low: float, high: float) -> Tensor:
    """Mirrored into low … high."""
    span = high - low
    if span <= 0:
        return n.mul(x, 0.0)
    distance = n.abs(n.sub(x, low))
    turns = n.floor(n.mul(distance, 1 / span))
    rest = n.sub(distance, n.mul(turns, span))
    odd = n.greater(n.sub(turns, n.mul(n.floor(n.mul(turns, 0.5)), 2.0)), 0.5)
    return n.add(n.where(odd, n.sub(span, rest), rest), low)


def _sample(n: Node, image: Tensor, places: list[Tensor], mode: str, padding: str, corners: bool, _depth: int) -> Tensor:
    sizes = image.shape[2:]
    flat = n.to(image, [*image.shape[:2], math.prod(sizes)])
    taps: list[list[tuple[Tensor, Tensor | None]]] = []
    for place, size in zip(places, sizes, strict=True):
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        x = place
        if mode != "cubic":
            if padding == "border":
                x = n.clamp(x, min_value=0.0, max_value=size - 1.0)
            elif padding == "reflection":
                x = _reflected(n, x, low, high)
        if mode == "nearest":
            found: list[tuple[Tensor, Tensor | None]] = [(n.round_even(x), None)]
        else:
            base = n.floor(x)
            fraction = n.sub(x, base)
            found = []
            for offset in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
                distance = n.abs(n.sub(fraction, float(offset)))
                weight = n.sub(1.0, distance) if mode == "linear" else _cubic_weight(n, distance, offset in (0, 1))
                found.append((n.add(base, float(offset)), weight))
        axis: list[tuple[Tensor, Tensor | None]] = []
        for index, weight in found:
            if padding == "zeros":
                inside = n.logical_and(n.greater_or_equal(index, 0.0), n.lesser_or_equal(index, size - 1.0))
                mask = n.cast_to(inside, index.dtype)
                weight = mask if weight is None else n.mul(weight, mask)
            elif padding == "reflection":
                index = _reflected(n, index, low, high)
            axis.append((n.cast_to(n.clamp(index, min_value=0.0, max_value=size - 1.0), INT64), weight))
        taps.append(axis)
    total: Tensor | None = None
    for combination in itertools.product(*taps):
        position: Tensor | None = None
        weight = None
        for (index, part), size in zip(combination, sizes, strict=True):
            position = index if position is None else n.add(n.mul(position, size), index)
            weight = part if weight is None else weight if part is None else n.mul(weight, part)
        assert position is not None
        value = _at(n, flat, position)
        if weight is not None:
            value = n.mul(value, n.unsqueezed(n.cast_to(weight, value.dtype), [1]))
        total = value if total is None else n.add(total, value)
    assert total is not None
    return total


def _cubic_weight(n: Node, d: Tensor, near: bool, a: float = -0.75) -> Tensor:
    if near:
        return n.add(n.mul(n.mul(n.sub(n.mul(d, a + 2), a + 3), d), d), 1.0)
    return n.sub(n.mul(n.add(n.mul(n.sub(n.mul(d, a), 5 * a), d), 8 * a), d), 4 * a)


@onnx_op("GridSample", since=16)
@onnx_op("GridSample", domain="com.microsoft")
def grid_sample(n: Node) -> Tensor:
    x, grid = n[0], n[1]
    mode = n.attr("mode", "linear" if n.opset >= 20 else "bilinear").removeprefix("bi")
    padding, corners = n.attr("padding_mode", "zeros"), bool(n.attr("align_corners", 0))
    rank = x.rank - 2
    if rank < 1 or grid.rank != x.rank or grid.shape[-1] != rank or mode not in ("linear", "nearest", "cubic"):
        raise Malformed(f"mode {mode!r} and grid {grid} do not fit {x}")
    if padding not in ("zeros", "border", "reflection"):
        raise Malformed(f"padding_mode {padding!r}")
    points = math.prod(grid.shape[1:-1])
    flat = n.to(grid, [grid.shape[0], points, rank])
    places = []
    for k, size in enumerate(x.shape[2:]):
        # The grid names the last dimension first.
        g = n.squeezed(n.cut(flat, 2, rank - 1 - k, 1), [2])
        if corners:
            places.append(n.mul(n.add(g, 1.0), (size - 1) / 2))
        else:
            places.append(n.sub(n.mul(n.add(g, 1.0), size / 2), 0.5))
    y = _sample(n, x, places, mode, padding, corners, rank)
    return n.to(y, [*x.shape[:2], *grid.shape[1:-1]])


@onnx_op("RoiAlign", since=10)
def roi_align(n: Node) -> Tensor:
    x, rois, batch = n[0], n[1], n[2]
    height, width = n.attr("output_height", 1), n.attr("output_width", 1)
    ratio, scale, mode = n.attr("sampling_ratio", 0), n.attr("spatial_scale", 1.0), n.attr("mode", "avg")
    half = n.attr("coordinate_transformation_mode", "half_pixel" if n.opset >= 16 else "output_half_pixel") == "half_pixel"
    if x.rank != 4 or rois.rank != 2 or rois.shape[1] != 4 or mode not in ("avg", "max") or min(height, width) < 1:
        raise Malformed(f"mode {mode!r} and regions {rois} do not fit {x}")
    if ratio <= 0:
        raise Unsupported("a number of samples that depends on the regions (sampling_ratio 0)")
    count = rois.shape[0]
    edges = n.mul(rois, scale)
    if half:
        edges = n.sub(edges, 0.5)
    columns, rows, right, bottom = (n.cut(edges, 1, k, 1) for k in range(4))
    image = n.gather(x, batch, axis=0)

    def places(start: Tensor, end: Tensor, bins: int) -> Tensor:
        extent = n.sub(end, start)
        extent = extent if half else n.max(extent, 1.0)
        steps = (np.arange(bins * ratio) + 0.5) / ratio / bins
        return n.add(start, n.mul(extent, n.const(steps[None, :], x)))

    ys, xs = places(rows, bottom, height), places(columns, right, width)
    y_taps, x_taps = _roi_taps(n, ys, x.shape[2]), _roi_taps(n, xs, x.shape[3])
    flat = n.to(image, [count, x.shape[1], x.shape[2] * x.shape[3]])
    many = height * ratio * width * ratio
    corners = []
    for (row, row_weight), (column, column_weight) in itertools.product(y_taps, x_taps):
        position = n.add(n.unsqueezed(n.mul(row, x.shape[3]), [2]), n.unsqueezed(column, [1]))
        weight = n.mul(n.unsqueezed(row_weight, [2]), n.unsqueezed(column_weight, [1]))
        value = _at(n, flat, n.to(position, [count, many]))
        corners.append(n.mul(value, n.to(weight, [count, 1, many])))
    shape = [count, x.shape[1], height, ratio, width, ratio]
    if mode == "avg":
        return n.reduce_mean(n.to(reduce(lambda a, b: n.add(a, b), corners), shape), axes=[3, 5])
    return n.reduce_max(n.to(reduce(lambda a, b: n.max(a, b), corners), shape), axes=[3, 5])


def _roi_taps(n: Node, place: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """The two neighbours of a position, clamped to the image; weights are zero beyond one element outside."""
    inside = n.cast_to(n.logical_and(n.greater_or_equal(place, -1.0), n.lesser_or_equal(place, float(size))), place.dtype)
    clamped = n.clamp(place, min_value=0.0, max_value=float(size - 1))
    low = n.floor(clamped)
    fraction = n.sub(clamped, low)
    high = n.min(n.add(low, 1.0), float(size - 1))
    return [
        (n.cast_to(low, INT64), n.mul(n.sub(1.0, fraction), inside)),
        (n.cast_to(high, INT64), n.mul(fraction, inside)),
    ]


@onnx_op("Det", since=11)
def determinant(n: Node) -> Tensor:
    """By expansion along the first row, for small matrices."""
    x = n[0]
    size = x.shape[-1] if x.rank >= 2 else 0
    if not 1 <= size <= 5 or x.shape[-2] != size:
        raise Unsupported(f"the determinant of {x}; at most 5 × 5")

    def element(i: int, j: int) -> Tensor:
        return n.squeezed(n.cut(n.cut(x, x.rank - 2, i, 1), x.rank - 1, j, 1), [x.rank - 2, x.rank - 1])

    def minor(row: int, columns: tuple[int, ...]) -> Tensor:
        if len(columns) == 1:
            return element(row, columns[0])
        total: Tensor | None = None
        for k, column in enumerate(columns):
            term = n.mul(element(row, column), minor(row + 1, columns[:k] + columns[k + 1 :]))
            total = term if total is None else n.sub(total, term) if k % 2 else n.add(total, term)
        assert total is not None
        return total

    return minor(0, tuple(range(size)))
