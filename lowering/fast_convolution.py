"""Convolutions in the forms that XLA's CPU backend runs fast. Made by rewrites, never by users.

Each is the ``conv2d`` of the same operands and options.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax import Array, lax

from webnn_xla.lowering.convolution import Conv2d
from webnn_xla.lowering.op import Target
from webnn_xla.lowering.primitives import broadcast_along
from webnn_xla.lowering.window import SPATIAL, Window, by_letter


class DepthwiseConv2d(Conv2d):
    """``conv2d`` with as many groups as input and output channels: the sum of shifted images, each times its tap."""

    internal = True

    @classmethod
    def products(
        cls,
        input: Array,
        filter: Array,
        windows: Sequence[Window],
        groups: int,
        layout: str,
        filter_layout: str,
        target: Target,
    ) -> Array:
        taps = by_letter(filter_layout, filter.shape)
        # [h, w, channels]
        weights = lax.squeeze(lax.transpose(filter, [filter_layout.index(axis) for axis in "hwio"]), (2,))
        image = padded(input, windows, layout)
        channel = layout.index("c")
        total = None
        for row in range(taps["h"]):
            for column in range(taps["w"]):
                part = shifted(image, windows, (row, column), layout)
                tap = lax.squeeze(lax.slice(weights, (row, column, 0), (row + 1, column + 1, groups)), (0, 1))
                product = lax.mul(part, broadcast_along(tap, part.shape, (channel,)))
                total = product if total is None else lax.add(total, product)
        assert total is not None
        return total


class GroupedConv2d(Conv2d):
    """``conv2d`` of small groups: sums over taps and the channels of a group, each a plane of every group.

    A plane is multiplied by a weight for every output channel of its group.
    """

    internal = True

    @classmethod
    def products(
        cls,
        input: Array,
        filter: Array,
        windows: Sequence[Window],
        groups: int,
        layout: str,
        filter_layout: str,
        target: Target,
    ) -> Array:
        taps = by_letter(filter_layout, filter.shape)
        channel = layout.index("c")
        outputs = taps["o"] // groups
        # [h, w, channel of the group, group, output of the group]
        weights = lax.transpose(filter, [filter_layout.index(axis) for axis in "hwio"])
        weights = lax.reshape(weights, (taps["h"], taps["w"], taps["i"], groups, outputs))
        image = padded(input, windows, layout)
        split = lax.reshape(image, (*image.shape[:channel], groups, taps["i"], *image.shape[channel + 1 :]))
        total = None
        for inner in range(taps["i"]):
            plane = lax.squeeze(lax.slice_in_dim(split, inner, inner + 1, axis=channel + 1), (channel + 1,))
            for row in range(taps["h"]):
                for column in range(taps["w"]):
                    part = shifted(plane, windows, (row, column), layout)
                    shape = (*part.shape[: channel + 1], outputs, *part.shape[channel + 1 :])
                    spread = lax.broadcast_in_dim(part, shape, [axis for axis in range(5) if axis != channel + 1])
                    tap = lax.squeeze(
                        lax.slice(weights, (row, column, inner, 0, 0), (row + 1, column + 1, inner + 1, groups, outputs)),
                        (0, 1, 2),
                    )
                    product = lax.mul(spread, lax.broadcast_in_dim(tap, shape, (channel, channel + 1)))
                    total = product if total is None else lax.add(total, product)
        assert total is not None
        return lax.reshape(total, (*total.shape[:channel], groups * outputs, *total.shape[channel + 2 :]))


def padded(image: Array, windows: Sequence[Window], layout: str) -> Array:
    """The image with its padding, in memory: fused into what reads it, padding would be a condition for every element."""
    config = [(0, 0, 0)] * 4
    for axis, window in zip(SPATIAL, windows, strict=True):
        config[layout.index(axis)] = (window.before, window.after, 0)
    if not any(low or high for low, high, _ in config):
        return image
    result: Array = lax.optimization_barrier(lax.pad(image, np.asarray(0, image.dtype), config))
    return result


def shifted(image: Array, windows: Sequence[Window], tap: Sequence[int], layout: str) -> Array:
    """What one tap reads: the padded image from the tap on, every stride-th element, as many as there are outputs."""
    starts, limits, strides = [0] * 4, list(image.shape), [1] * 4
    for axis, window, index in zip(SPATIAL, windows, tap, strict=True):
        dimension, start = layout.index(axis), index * window.dilation
        starts[dimension] = start
        limits[dimension] = start + (window.positions - 1) * window.stride + 1
        strides[dimension] = window.stride
    return lax.slice(image, starts, limits, strides)
