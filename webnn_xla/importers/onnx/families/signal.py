"""Fourier transforms by constant matrices, and mel filters."""

from __future__ import annotations

import math

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import from_enum
from webnn_xla.importers.onnx.values import Tensor

MAX_LENGTH = 8192
"""Transforms longer than this would need matrices of over half a gigabyte."""


def transform(n: Node, real: Tensor, imaginary: Tensor | None, length: int, rows: int, inverse: bool) -> tuple[Tensor, Tensor]:
    """The discrete Fourier transform along the last axis, which has ``length`` elements; its first ``rows`` results."""
    if length > MAX_LENGTH:
        raise Unsupported(f"a Fourier transform of {length} points; at most {MAX_LENGTH}")
    # Angles are reduced exactly, as integers, before they are turned into floats.
    turns = np.outer(np.arange(length), np.arange(rows)) % length
    angle = 2 * math.pi * turns / length * (1 if inverse else -1)
    scale = 1 / length if inverse else 1.0
    cosine, sine = n.const(np.cos(angle) * scale, real), n.const(np.sin(angle) * scale, real)
    out_real, out_imaginary = n.matmul(real, cosine), n.matmul(real, sine)
    if imaginary is not None:
        out_real = n.sub(out_real, n.matmul(imaginary, sine))
        out_imaginary = n.add(out_imaginary, n.matmul(imaginary, cosine))
    return out_real, out_imaginary


@onnx_op("DFT", since=17)
def dft(n: Node) -> Tensor:
    x = n[0]
    given = n.attr("axis", 1) if n.opset < 20 else -2 if n.get(2) is None else n.known_int(2, "the axis")
    axis = n.axis(given, x.rank)
    if x.rank < 2 or x.shape[-1] not in (1, 2) or axis == x.rank - 1:
        raise Malformed(f"{x} is no signal: its last dimension is 1 (real) or 2 (complex)")
    length = x.shape[axis] if n.get(1) is None else n.known_int(1, "the length")
    inverse, half = bool(n.attr("inverse", 0)), bool(n.attr("onesided", 0))
    size = x.shape[axis]
    if inverse and half:
        # The other half is the mirror image, conjugate.
        length = 2 * (size - 1) if n.get(1) is None else length
        wanted = length // 2 + 1
        x = _resized(n, x, axis, wanted)
        mirror = n.reverse(n.cut(x, axis, 1, length - wanted), axes=[axis])
        x = n.concat([x, n.mul(mirror, n.const([1, -1], x))], axis=axis)
    else:
        x = _resized(n, x, axis, length)
    last = x.rank - 1
    order = [a for a in range(x.rank) if a not in (axis, last)] + [last, axis]
    moved = n.permuted(x, order)
    parts = [n.squeezed(n.cut(moved, last - 1, k, 1), [last - 1]) for k in range(x.shape[-1])]
    rows = length // 2 + 1 if half and not inverse else length
    real, imaginary = transform(n, parts[0], parts[1] if len(parts) > 1 else None, length, rows, inverse)
    both = [real] if inverse and half else [real, imaginary]
    stacked = n.joined([n.unsqueezed(p, [last - 1]) for p in both], last - 1)
    return n.permuted(stacked, np.argsort(order).tolist())


def _resized(n: Node, x: Tensor, axis: int, size: int) -> Tensor:
    """Cut or filled with zeros to ``size`` along ``axis``."""
    if size <= x.shape[axis]:
        return n.cut(x, axis, 0, size)
    after = [size - x.shape[axis] if a == axis else 0 for a in range(x.rank)]
    return n.pad(x, [0] * x.rank, after)


@onnx_op("STFT", since=17)
def stft(n: Node) -> Tensor:
    x, window = n[0], n.get(2)
    step = n.known_int(1, "frame_step")
    if x.rank == 2:
        x = n.unsqueezed(x, [2])
    if n.get(3) is not None:
        length = n.known_int(3, "frame_length")
    elif window is not None:
        length = window.size
    else:
        raise Malformed("neither a window nor a frame_length")
    if step < 1 or length < 1 or length > x.shape[1]:
        raise Malformed(f"frames of {length} every {step} do not fit {x}")
    count = (x.shape[1] - length) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(length)[None, :]
    frames = n.gather(x, n.const(places.reshape(-1), np.int32), axis=1)
    frames = n.permuted(n.to(frames, [x.shape[0], count, length, x.shape[2]]), [3, 0, 1, 2])
    if window is not None:
        frames = n.mul(frames, window)
    rows = length // 2 + 1 if n.attr("onesided", 1) else length
    parts = [n.squeezed(n.cut(frames, 0, k, 1), [0]) for k in range(x.shape[2])]
    real, imaginary = transform(n, parts[0], parts[1] if len(parts) > 1 else None, length, rows, False)
    return n.concat([n.unsqueezed(real, [3]), n.unsqueezed(imaginary, [3])], axis=3)


@onnx_op("MelWeightMatrix", since=17)
def mel_weight_matrix(n: Node) -> Tensor:
    bins, length, rate = (n.known_int(k, what) for k, what in enumerate(("num_mel_bins", "dft_length", "sample_rate")))
    low, high = (float(n.known_input(k, what).reshape(-1)[0]) for k, what in ((3, "lower_edge_hertz"), (4, "upper_edge_hertz")))
    code = n.attr("output_datatype", 1)
    if not 0 < bins < 2**16 or not 0 < length < 2**20 or rate < 1:
        raise Malformed(f"{bins} bins of a transform of {length} at {rate} Hz")
    spectrum = length // 2 + 1
    mels = 2595 * np.log10(1 + np.array([low, high]) / 700)
    edges = 700 * (10 ** (np.linspace(mels[0], mels[1], bins + 2, endpoint=False)[: bins + 2] / 2595) - 1)
    edges = 700 * (10 ** ((np.arange(bins + 2) * ((mels[1] - mels[0]) / (bins + 2)) + mels[0]) / 2595) - 1)
    places = ((length + 1) * edges // rate).astype(np.int64)
    weights = np.zeros((spectrum, bins))
    for k in range(bins):
        left, centre, right = places[k : k + 3]
        if centre == left:
            weights[centre, k] = 1
        else:
            rising = np.arange(left, centre + 1)
            weights[rising, k] = (rising - left) / (centre - left)
        if right > centre:
            falling = np.arange(centre, right)
            weights[falling, k] = (right - falling) / (right - centre)
    return n.const(weights, from_enum(code, "the matrix"))
