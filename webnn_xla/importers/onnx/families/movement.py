"""Shapes and movement of data; constants and ranges."""

from __future__ import annotations

import math

import numpy as np
import onnx

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import BOOL, FLOAT32, INT64, from_enum, is_float
from webnn_xla.importers.onnx.values import Tensor
from webnn_xla.importers.onnx.weights import read_tensor

MAX_HOST_ELEMENTS = 1 << 24
"""Ranges and filled tensors above this many elements are refused or left to XLA."""


@onnx_op("Constant")
def constant(n: Node) -> Tensor:
    given = {name: value for name, value in n.attributes.items() if name}
    if len(given) != 1:
        raise Malformed(f"a constant has one attribute; this has {len(given)}")
    kind, value = next(iter(given.items()))
    if kind == "value" and isinstance(value, onnx.TensorProto):
        return n.importer.tensor(value, n.env, n.outputs[0], n.label)
    if kind in ("value_float", "value_floats"):
        return n.const(value, FLOAT32)
    if kind in ("value_int", "value_ints"):
        return n.const(value, INT64)
    raise Unsupported(f"a constant given as {kind}")


@onnx_op("ConstantOfShape", since=9)
def constant_of_shape(n: Node) -> Tensor:
    shape = n.known_ints(0, "the shape")
    proto = n.attributes.get("value")
    fill = n.const(np.zeros((), np.float32))
    if isinstance(proto, onnx.TensorProto):
        fill = read_tensor(proto, None)
        fill = n.to(fill, [])
    if any(d < 0 for d in shape):
        raise Malformed(f"the shape {shape} is negative")
    return n.broadcast(fill, shape)


@onnx_op("Shape", since=1, until=14)
def shape_whole(n: Node) -> Tensor:
    return n.const(list(n[0].shape), INT64)


@onnx_op("Shape", since=15)
def shape_part(n: Node) -> Tensor:
    return n.const(list(n[0].shape[n.attr("start", 0) : n.attr("end", None)]), INT64)


@onnx_op("Size")
def size(n: Node) -> Tensor:
    return n.const(n[0].size, INT64)


@onnx_op("Range", since=11)
def range_of(n: Node) -> Tensor:
    start, limit, delta = (n.known_input(i, what).reshape(-1) for i, what in enumerate(("start", "limit", "delta")))
    if min(len(start), len(limit), len(delta)) < 1 or not np.any(delta[0]):
        raise Malformed("start, limit and delta are scalars, and delta is not zero")
    first, last, step = start[0], limit[0], delta[0]
    count = max(math.ceil((float(last) - float(first)) / float(step)), 0)
    if not is_float(first.dtype):
        first_, last_, step_ = int(first), int(last), int(step)
        count = max(-((first_ - last_) // step_), 0)
    if count > MAX_HOST_ELEMENTS:
        raise Malformed(f"a range of {count} elements")
    if is_float(first.dtype):
        return n.const((np.arange(count) * np.float64(step) + np.float64(first)).astype(start.dtype))
    return n.const(np.arange(count, dtype=np.int64) * int(step) + int(first), start.dtype)


@onnx_op("EyeLike", since=9)
def eye_like(n: Node) -> Tensor:
    x = n[0]
    if x.rank != 2 or x.size > MAX_HOST_ELEMENTS:
        raise Malformed(f"the input {x} is not a matrix")
    code = n.attr("dtype", 0)
    return n.const(np.eye(x.shape[0], x.shape[1], k=n.attr("k", 0)), from_enum(code, "the identity") if code else x.dtype)


@onnx_op("Reshape", since=1, until=4)
def reshape_attribute(n: Node) -> Tensor:
    return _reshape(n, n.ints("shape") or [])


@onnx_op("Reshape", since=5)
def reshape(n: Node) -> Tensor:
    return _reshape(n, n.known_ints(1, "the shape"))


def _reshape(n: Node, wanted: list[int]) -> Tensor:
    x = n[0]
    shape = list(wanted)
    if not n.attr("allowzero", 0):
        if any(d == 0 and axis >= x.rank for axis, d in enumerate(shape)):
            raise Malformed(f"shape {wanted} copies a dimension that the input {x} does not have")
        shape = [x.shape[axis] if d == 0 else d for axis, d in enumerate(shape)]
    if shape.count(-1) > 1 or any(d < -1 for d in shape):
        raise Malformed(f"shape {wanted} has more than one free dimension, or a negative one")
    if -1 in shape:
        rest = math.prod(d for d in shape if d != -1)
        if rest == 0 or x.size % rest:
            raise Malformed(f"shape {wanted} does not fit the {x.size} elements of {x}")
        shape[shape.index(-1)] = x.size // rest
    return n.to(x, shape)


@onnx_op("Flatten")
def flatten(n: Node) -> Tensor:
    x, axis = n[0], n.attr("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise Malformed(f"axis {axis} is out of range for rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    return n.to(x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


@onnx_op("Squeeze")
def squeeze(n: Node) -> Tensor:
    x = n[0]
    axes = n.ints_of("axes", 1, 13)
    chosen = [k for k, d in enumerate(x.shape) if d == 1] if axes is None else n.axes(axes, x.rank)
    if any(x.shape[axis] != 1 for axis in chosen):
        raise Malformed(f"axes {chosen} of {x} are not all 1")
    return n.squeezed(x, chosen)


@onnx_op("Unsqueeze")
def unsqueeze(n: Node) -> Tensor:
    x = n[0]
    axes = n.ints_of("axes", 1, 13)
    if axes is None:
        raise Malformed("axes are missing")
    return n.unsqueezed(x, n.axes(axes, x.rank + len(axes)))


@onnx_op("Transpose")
def transpose(n: Node) -> Tensor:
    x = n[0]
    permutation = n.ints("perm", list(range(x.rank))[::-1]) or []
    if sorted(permutation) != list(range(x.rank)):
        raise Malformed(f"perm {permutation} is no permutation of the {x.rank} axes")
    return n.permuted(x, permutation)


@onnx_op("Concat")
def concat(n: Node) -> Tensor:
    parts = n.tensors()
    axis = n.axis(n.attr("axis", 1), parts[0].rank)
    for part in parts[1:]:
        same = part.rank == parts[0].rank and all(
            a == b for k, (a, b) in enumerate(zip(part.shape, parts[0].shape, strict=True)) if k != axis
        )
        if not same or part.dtype != parts[0].dtype:
            raise Malformed(f"{part} does not fit {parts[0]} along axis {axis}")
    return n.joined(parts, axis)


@onnx_op("Split")
def split(n: Node) -> list[Tensor]:
    x = n[0]
    axis = n.axis(n.attr("axis", 0), x.rank)
    sizes = n.ints_of("split", 1, 13)
    if sizes is None:
        count = n.attr("num_outputs", len(n.outputs))
        each = -(-x.shape[axis] // max(count, 1))
        sizes = [min(each, max(x.shape[axis] - k * each, 0)) for k in range(count)]
    if sum(sizes) != x.shape[axis] or any(s < 0 for s in sizes):
        raise Malformed(f"sizes {sizes} do not add up to the {x.shape[axis]} of axis {axis}")
    return [x] if len(sizes) == 1 else n.split(x, sizes, axis=axis)


@onnx_op("Slice", since=1, until=9)
def slice_attributes(n: Node) -> Tensor:
    starts, ends = n.ints("starts") or [], n.ints("ends") or []
    return _slice(n, starts, ends, n.ints("axes"), None)


@onnx_op("Slice", since=10)
def slice_inputs(n: Node) -> Tensor:
    axes = None if n.get(3) is None else n.known_ints(3, "axes")
    steps = None if n.get(4) is None else n.known_ints(4, "steps")
    return _slice(n, n.known_ints(1, "starts"), n.known_ints(2, "ends"), axes, steps)


def _slice(n: Node, starts: list[int], ends: list[int], axes: list[int] | None, steps: list[int] | None) -> Tensor:
    x = n[0]
    axes = n.axes(axes if axes is not None else range(len(starts)), x.rank)
    steps = steps if steps is not None else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Malformed(f"starts {starts}, ends {ends}, axes {axes} and steps {steps} do not fit together")
    first, extents, strides, flipped = [0] * x.rank, list(x.shape), [1] * x.rank, []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        places = range(*slice(start, end, step).indices(x.shape[axis]))
        strides[axis] = abs(step) if len(places) > 1 else 1
        if not places:
            extents[axis] = 0
            continue
        extents[axis] = abs(places[-1] - places[0]) + 1
        first[axis] = min(places[0], places[-1])
        if step < 0:
            flipped.append(axis)
    # Extents end exactly at the last element taken, so the first of the reversed axis is right too.
    y: Tensor = x
    if first != [0] * x.rank or extents != list(x.shape) or strides != [1] * x.rank:
        y = n.slice(x, first, extents, strides=strides)
    return n.reverse(y, axes=flipped) if flipped and y.size else y


@onnx_op("Expand", since=8)
def expand(n: Node) -> Tensor:
    x, wanted = n[0], n.known_ints(1, "the shape")
    try:
        shape = np.broadcast_shapes(x.shape, tuple(wanted))
    except ValueError:
        raise Malformed(f"{x} does not broadcast with shape {wanted}") from None
    return n.broadcast(x, shape)


@onnx_op("Tile", since=6)
def tile(n: Node) -> Tensor:
    x, repeats = n[0], n.known_ints(1, "repeats")
    if len(repeats) != x.rank or any(r < 0 for r in repeats):
        raise Malformed(f"repeats {repeats} do not fit {x}")
    return n.tile(x, repeats) if x.rank and set(repeats) != {1} else x


@onnx_op("Pad", since=1, until=10)
def pad_attributes(n: Node) -> Tensor:
    return padded(n, n[0], n.ints("pads") or [], n.attr("mode", "constant"), n.attr("value", 0.0))


@onnx_op("Pad", since=11)
def pad_inputs(n: Node) -> Tensor:
    x, pads, fill = n[0], n.known_ints(1, "pads"), n.get(2)
    value = 0 if fill is None or not fill.size else n.known(fill, "the constant (input 2)").reshape(-1)[0].item()
    if n.get(3) is not None:
        axes = n.axes(n.known_ints(3, "axes"), x.rank)
        if len(pads) != 2 * len(axes):
            raise Malformed(f"pads {pads} do not fit axes {axes}")
        whole = [0] * (2 * x.rank)
        for k, axis in enumerate(axes):
            whole[axis], whole[axis + x.rank] = pads[k], pads[k + len(axes)]
        pads = whole
    return padded(n, x, pads, n.attr("mode", "constant"), value)


def padded(n: Node, x: Tensor, pads: list[int], mode: str, value: float) -> Tensor:
    """Pads, or crops where a pad is negative."""
    if len(pads) != 2 * x.rank or mode not in ("constant", "reflect", "edge", "wrap"):
        raise Malformed(f"pads {pads} and mode {mode!r} do not fit {x}")
    before, after = pads[: x.rank], pads[x.rank :]
    starts = [max(-p, 0) for p in before]
    sizes = [d - s - max(-p, 0) for d, s, p in zip(x.shape, starts, after, strict=True)]
    if any(s < 0 for s in sizes):
        raise Malformed(f"pads {pads} take more than {x} has")
    if sizes != list(x.shape):
        x = n.slice(x, starts, sizes)
    before, after = [max(p, 0) for p in before], [max(p, 0) for p in after]
    if not any(before + after):
        return x
    if mode == "wrap":
        for axis, (low, high) in enumerate(zip(before, after, strict=True)):
            if low or high:
                places = np.arange(-low, x.shape[axis] + high) % x.shape[axis]
                x = n.gather(x, n.const(places, INT64), axis=axis)
        return x
    if x.dtype == BOOL:
        value = int(bool(value))
    if x.size == 0 and mode == "constant":
        shape = [d + a + b for d, a, b in zip(x.shape, before, after, strict=True)]
        return n.broadcast(n.const(value, x), shape)
    if mode == "constant":
        return n.pad(x, before, after, value=value)
    return n.pad(x, before, after, mode="edge" if mode == "edge" else "reflection")


@onnx_op("DepthToSpace")
def depth_to_space(n: Node) -> Tensor:
    x, block = n[0], n.need("blocksize", int)
    mode = n.attr("mode", "DCR")
    if x.rank != 4 or block < 1 or x.shape[1] % (block * block) or mode not in ("DCR", "CRD"):
        raise Malformed(f"blocksize {block} and mode {mode!r} do not fit {x}")
    b, c, h, w = x.shape
    inner = c // (block * block)
    if mode == "DCR":
        y = n.permuted(n.to(x, [b, block, block, inner, h, w]), [0, 3, 4, 1, 5, 2])
    else:
        y = n.permuted(n.to(x, [b, inner, block, block, h, w]), [0, 1, 4, 2, 5, 3])
    return n.to(y, [b, inner, h * block, w * block])


@onnx_op("SpaceToDepth")
def space_to_depth(n: Node) -> Tensor:
    x, block = n[0], n.need("blocksize", int)
    if x.rank != 4 or block < 1 or x.shape[2] % block or x.shape[3] % block:
        raise Malformed(f"blocksize {block} does not fit {x}")
    b, c, h, w = x.shape
    split = n.to(x, [b, c, h // block, block, w // block, block])
    order = [0, 1, 3, 5, 2, 4] if n.attr("mode", "DCR") == "CRD" else [0, 3, 5, 1, 2, 4]
    return n.to(n.permuted(split, order), [b, c * block * block, h // block, w // block])


@onnx_op("Trilu", since=14)
def trilu(n: Node) -> Tensor:
    x = n[0]
    diagonal = 0 if n.get(1) is None else n.known_int(1, "the diagonal")
    diagonal = max(min(diagonal, 2**31 - 1), -(2**31))
    return n.triangular(x, upper=bool(n.attr("upper", 1)), diagonal=diagonal)


@onnx_op("ReverseSequence", since=10)
def reverse_sequence(n: Node) -> Tensor:
    x = n[0]
    batch, time = n.attr("batch_axis", 1), n.attr("time_axis", 0)
    if sorted((batch, time)) != [0, 1] or x.rank < 2:
        raise Malformed(f"batch_axis {batch} and time_axis {time} do not fit {x}")
    trailing = [1] * (x.rank - 2)
    steps = n.to(n.iota(x.shape[time]), [x.shape[k] if k == time else 1 for k in (0, 1)] + trailing)
    lengths = n.to(n.cast_to(n[1], INT64), [x.shape[k] if k == batch else 1 for k in (0, 1)] + trailing)
    mirrored = n.sub(n.sub(lengths, 1), steps)
    index = n.where(n.lesser(steps, lengths), mirrored, steps)
    return n.gather_elements(x, n.broadcast(index, x.shape), axis=time)
