"""References of convolution and transposed convolution: tap by tap, in float64, on NCHW images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from webnn_xla.conformance.reference import Array, Case, Rng, Scaled, numbers, reference
from webnn_xla.dtypes import MLOperandDataType

LAYOUTS = ("nchw", "nhwc")


def _moved(array: Array, layout: str, wanted: str) -> Array:
    return array.transpose([layout.index(letter) for letter in wanted])


def _arranged(array: Array, layout: str, made: str) -> Array:
    """An array made as ``made``, in ``layout``."""
    return np.ascontiguousarray(_moved(array, made, layout))


def _finish(terms: Any, input: Array, filter: Array, bias: Array | None, layout: str) -> Scaled:
    """The result, and the magnitude of what was added up, in the layout of the input."""

    def total(convert: Any) -> Array:
        image = terms(convert(input), convert(filter))
        image = image if bias is None else image + convert(bias)[None, :, None, None]
        return _moved(image, "nchw", layout)

    return Scaled(total(np.asarray), total(np.abs))


# conv2d


def _conv2d_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    def case(
        image: Sequence[int], out: int, taps: Sequence[int], groups: int = 1, note: str = "", bias: bool = False, **options: Any
    ) -> Case:
        layout, filter_layout = options.get("input_layout", "nchw"), options.get("filter_layout", "oihw")
        filter_shape = (out, image[1] // groups, *taps)
        operands = {
            "input": _arranged(numbers(data_type, rng, tuple(image)), layout, "nchw"),
            "filter": _arranged(numbers(data_type, rng, filter_shape), filter_layout, "oihw"),
        }
        if bias:
            operands["bias"] = numbers(data_type, rng, (out,))
        return Case(operands, options | ({"groups": groups} if groups > 1 else {}), note=note)

    yield case((1, 1, 5, 5), 1, (3, 3), note="defaults")
    yield case((1, 1, 1, 1), 1, (1, 1), note="one number")
    yield case((2, 3, 6, 7), 5, (1, 1), bias=True, note="pointwise")
    for index, (layout, filter_layout) in enumerate(product(LAYOUTS, ("oihw", "hwio", "ohwi", "ihwo"))):
        options: dict[str, Any] = {"input_layout": layout, "filter_layout": filter_layout}
        yield case((2, 3, 6, 5), 4, (3, 2), bias=True, padding=(1, 2, 0, 1), strides=(2, 1), **options)
        yield case((1, 4, 6, 5), 6, (2, 3), 2, dilations=(2, 1), note="grouped", **options)
        if index % 2:
            yield case((1, 4, 5, 6), 4, (3, 3), 4, bias=True, padding=(1, 1, 1, 1), note="depthwise", **options)
        else:
            yield case((1, 3, 5, 6), 6, (3, 3), 3, strides=(1, 2), note="depthwise, two outputs a channel", **options)
    yield case((1, 2, 9, 8), 3, (3, 2), dilations=(3, 4), padding=(0, 3, 2, 0), note="dilated")
    yield case((1, 2, 9, 8), 3, (2, 2), strides=(4, 3), dilations=(2, 3), padding=(1, 2, 3, 4), note="everything")
    yield case((1, 2, 3, 3), 2, (2, 2), padding=(5, 0, 0, 4), strides=(3, 3), note="windows wholly in padding")
    yield case((1, 2, 3, 3), 2, (7, 3), padding=(3, 3, 1, 1), note="the filter is larger than the image")
    yield case((1, 2, 4, 9), 2, (1, 9), strides=(2**32 - 1, 7), dilations=(2**32 - 1, 1), note="large numbers without effect")
    yield case((3, 16, 10, 10), 8, (3, 3), padding=(1, 1, 1, 1), bias=True, note="many terms")


@reference("conv2d", _conv2d_cases)
def conv2d(
    input: Array,
    filter: Array,
    bias: Array | None,
    padding: Sequence[int] | None,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Scaled:
    """The padded image, and for each tap the product of its strided slice and the tap's matrix of channels."""
    top, bottom, left, right = padding or (0, 0, 0, 0)
    (down, across), (gap_y, gap_x) = strides or (1, 1), dilations or (1, 1)

    def terms(image: Array, taps: Array) -> Array:
        image = np.pad(image, ((0, 0), (0, 0), (top, bottom), (left, right)))
        outputs, channels, rows, columns = taps.shape
        height = (image.shape[2] - (rows - 1) * gap_y - 1) // down + 1
        width = (image.shape[3] - (columns - 1) * gap_x - 1) // across + 1
        result = np.zeros((image.shape[0], outputs, height, width))
        share = outputs // groups
        for group in range(groups):
            part = image[:, group * channels : (group + 1) * channels]
            ours = slice(group * share, (group + 1) * share)
            for y in range(rows):
                for x in range(columns):
                    seen = part[:, :, y * gap_y :: down, x * gap_x :: across][:, :, :height, :width]
                    result[:, ours] += np.einsum("nchw,oc->nohw", seen, taps[ours, :, y, x])
        return result

    return _finish(terms, _moved(input, input_layout, "nchw"), _moved(filter, filter_layout, "oihw"), bias, input_layout)


# conv_transpose2d


def _conv_transpose2d_cases(data_type: MLOperandDataType, rng: Rng) -> Iterator[Case]:
    def case(
        image: Sequence[int], out: int, taps: Sequence[int], groups: int = 1, note: str = "", bias: bool = False, **options: Any
    ) -> Case:
        layout, filter_layout = options.get("input_layout", "nchw"), options.get("filter_layout", "iohw")
        filter_shape = (image[1], out // groups, *taps)
        operands = {
            "input": _arranged(numbers(data_type, rng, tuple(image)), layout, "nchw"),
            "filter": _arranged(numbers(data_type, rng, filter_shape), filter_layout, "iohw"),
        }
        if bias:
            operands["bias"] = numbers(data_type, rng, (out,))
        return Case(operands, options | ({"groups": groups} if groups > 1 else {}), note=note)

    yield case((1, 1, 3, 3), 1, (3, 3), note="defaults")
    yield case((1, 1, 1, 1), 1, (1, 1), note="one number")
    yield case((2, 3, 4, 5), 5, (1, 1), bias=True, note="pointwise")
    for index, (layout, filter_layout) in enumerate(product(LAYOUTS, ("iohw", "hwoi", "ohwi"))):
        options: dict[str, Any] = {"input_layout": layout, "filter_layout": filter_layout}
        yield case((2, 3, 4, 3), 5, (3, 2), bias=True, strides=(2, 3), padding=(1, 0, 0, 1), output_padding=(1, 2), **options)
        yield case((1, 4, 3, 4), 6, (2, 3), 2, dilations=(2, 1), bias=True, note="grouped", **options)
        if index % 2:
            yield case((1, 3, 3, 4), 2, (3, 3), strides=(3, 2), output_sizes=(10, 10), output_padding=(3, 3), **options)
            yield case((1, 4, 3, 4), 4, (3, 3), 4, strides=(2, 2), padding=(1, 1, 1, 1), note="depthwise", **options)
        else:
            yield case((1, 3, 3, 4), 6, (2, 2), 3, strides=(2, 2), note="two outputs a channel", **options)
    yield case((1, 2, 4, 3), 3, (3, 2), dilations=(3, 4), padding=(2, 3, 1, 0), note="dilated")
    yield case((1, 2, 4, 5), 3, (1, 1), padding=(1, 0, 1, 2), note="padding crops the input")
    yield case(
        (1, 2, 4, 5), 3, (2, 2), strides=(2, 3), padding=(3, 1, 4, 2), output_padding=(1, 1), note="padding over the filter"
    )
    yield case((1, 2, 2, 3), 2, (1, 2), strides=(4, 5), note="gaps")
    yield case((1, 2, 2, 3), 2, (2, 2), strides=(4, 3), output_padding=(3, 2), bias=True, note="nothing spreads to the end")
    yield case((1, 2, 1, 5), 2, (1, 3), strides=(2**31, 1), dilations=(2**32 - 1, 2), note="large numbers without effect")
    yield case((2, 16, 6, 6), 8, (4, 4), strides=(2, 2), padding=(1, 1, 1, 1), bias=True, note="many terms")


@reference("conv_transpose2d", _conv_transpose2d_cases)
def conv_transpose2d(
    input: Array,
    filter: Array,
    bias: Array | None,
    padding: Sequence[int] | None,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    output_padding: Sequence[int] | None,
    output_sizes: Sequence[int] | None,
    groups: int,
    input_layout: str,
    filter_layout: str,
) -> Scaled:
    """Adds each input element, times each tap, to where it spreads; then crops."""
    top, bottom, left, right = padding or (0, 0, 0, 0)
    (down, across), (gap_y, gap_x) = strides or (1, 1), dilations or (1, 1)
    more_y, more_x = output_padding or (0, 0)

    def terms(image: Array, taps: Array) -> Array:
        batches, channels, height, width = image.shape
        _, share, rows, columns = taps.shape
        full_height = (height - 1) * down + (rows - 1) * gap_y + 1
        full_width = (width - 1) * across + (columns - 1) * gap_x + 1
        out_height = output_sizes[0] if output_sizes else full_height - top - bottom + more_y
        out_width = output_sizes[1] if output_sizes else full_width - left - right + more_x
        result = np.zeros((batches, share * groups, max(full_height, top + out_height), max(full_width, left + out_width)))
        own = channels // groups
        for group in range(groups):
            for channel in range(group * own, (group + 1) * own):
                for y, x, out in np.ndindex(rows, columns, share):
                    target = result[:, group * share + out, y * gap_y :: down, x * gap_x :: across][:, :height, :width]
                    target += image[:, channel] * taps[channel, out, y, x]
        return result[:, :, top : top + out_height, left : left + out_width]

    return _finish(terms, _moved(input, input_layout, "nchw"), _moved(filter, filter_layout, "iohw"), bias, input_layout)
