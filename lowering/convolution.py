"""Convolution and transposed convolution.

A convolution here is WebNN's: a cross-correlation, the filter is not flipped. float16 is computed in float32, the bias
added there, and rounded once. float32 asks for the target's precision, by default the highest.
"""

from __future__ import annotations

from collections.abc import Sequence

from jax import Array, lax

from webnn_xla.dtypes import MAX_DIMENSION, Descriptor
from webnn_xla.lowering import tosa_windows
from webnn_xla.lowering.kinds import UINT32, UINT32S, choice
from webnn_xla.lowering.op import FLOATS, Op, Operand, Option, OptionalOperand, Output, Same, Target, Tolerance, reject, require
from webnn_xla.lowering.primitives import broadcast_along, narrow, widen
from webnn_xla.lowering.tosa import Emitter, Tensor
from webnn_xla.lowering.window import (
    SPATIAL,
    Window,
    by_letter,
    make_windows,
    require_length,
    require_output,
)

Integers = Sequence[int]


class Convolution(Op, abstract=True):
    input = Operand(FLOATS, (4, 4), required=FLOATS, required_ranks=(4, 4), doc="Image, in input_layout.")
    filter = Operand(Same("input"), (4, 4), required=FLOATS, required_ranks=(4, 4), doc="In filter_layout.")
    padding = Option(UINT32S, None, "[before height, after height, before width, after width]. By default zeros.")
    strides = Option(UINT32S, None, "[height, width]. By default ones.")
    dilations = Option(UINT32S, None, "[height, width] between the taps of the filter. By default ones.")
    groups = Option(UINT32, 1, "Groups that input and output channels are divided into.")
    input_layout = Option(choice("nchw", "nhwc"), "nchw", "Of the input and the output.")
    bias = OptionalOperand(Same("input"), (1, 1), required=FLOATS, required_ranks=(1, 1), doc="[output channels], added.")
    output = Output(Same("input"), (4, 4), required=FLOATS, required_ranks=(4, 4))


class Conv2d(Convolution):
    """2-D convolution: each output is the sum of products of the filter and the window of the input under it.

    Output size of an axis: floor((input + padding - (filter - 1) * dilation - 1) / stride) + 1.
    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-conv2d.
    """

    filter_layout = Option(choice("oihw", "hwio", "ohwi", "ihwo"), "oihw", "o: output channels, i: input channels / groups.")
    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "TRANSPOSE CONV2D SLICE CONCAT RESHAPE DEPTHWISE_CONV2D"
    tosa_note = "groups: DEPTHWISE_CONV2D, or SLICE CONV2D CONCAT; strides must divide exactly: trim with SLICE"
    stablehlo = "add broadcast_in_dim convolution"

    @staticmethod
    def infer(
        input: Descriptor,
        filter: Descriptor,
        bias: Descriptor | None,
        padding: Integers | None,
        strides: Integers | None,
        dilations: Integers | None,
        groups: int,
        input_layout: str,
        filter_layout: str,
    ) -> Descriptor:
        image, taps = by_letter(input_layout, input.shape), by_letter(filter_layout, filter.shape)
        windows = make_windows(image, taps, padding, strides, dilations)
        require(groups > 0, "groups", groups, "1 or more")
        require(image["c"] % groups == 0, "groups", groups, f"a divisor of the input's {image['c']} channels")
        if taps["i"] != image["c"] // groups:
            reject(
                "filter",
                f"{taps['i']} input channels in the {filter_layout} shape {list(filter.shape)}",
                f"{image['c'] // groups}: {image['c']} channels of the {input_layout} input in {groups} groups",
            )
        require(taps["o"] % groups == 0, "groups", groups, f"a divisor of the filter's {taps['o']} output channels")
        _require_bias(bias, taps["o"])
        for axis, window in zip(SPATIAL, windows, strict=True):
            require_output(axis, window, window.positions, "filter")
        return _output(input, input_layout, taps["o"], [window.positions for window in windows])

    @classmethod
    def lower(
        cls,
        input: Array,
        filter: Array,
        bias: Array | None,
        padding: Integers | None,
        strides: Integers | None,
        dilations: Integers | None,
        groups: int,
        input_layout: str,
        filter_layout: str,
        target: Target,
    ) -> Array:
        image, taps = by_letter(input_layout, input.shape), by_letter(filter_layout, filter.shape)
        windows = make_windows(image, taps, padding, strides, dilations)
        result = cls.products(widen(input), widen(filter), windows, groups, input_layout, filter_layout, target)
        return narrow(_add_bias(result, bias, input_layout), input)

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
        """The sums of products, before the bias. Faster forms of the op are others of these."""
        result: Array = lax.conv_general_dilated(
            input,
            filter,
            window_strides=[window.stride for window in windows],
            padding=[(window.before, window.after) for window in windows],
            rhs_dilation=[window.dilation for window in windows],
            dimension_numbers=(layout.upper(), filter_layout.upper(), layout.upper()),
            feature_group_count=groups,
            precision=target.precision,
        )
        return result

    @staticmethod
    def to_tosa(
        t: Emitter,
        input: Tensor,
        filter: Tensor,
        bias: Tensor | None,
        padding: Integers | None,
        strides: Integers | None,
        dilations: Integers | None,
        groups: int,
        input_layout: str,
        filter_layout: str,
    ) -> Tensor:
        image, taps = by_letter(input_layout, input.shape), by_letter(filter_layout, filter.shape)
        windows = make_windows(image, taps, padding, strides, dilations)
        return tosa_windows.convolve(t, input, filter, bias, windows, groups, input_layout, filter_layout)


class ConvTranspose2d(Convolution):
    """2-D transposed convolution: each input spreads over a window of the output, weighted by the filter; overlaps add.

    Output size of an axis: (input - 1) * stride + (filter - 1) * dilation + 1 - padding + output_padding. Padding crops
    the output, output_padding uncrops its end: what spreads there is in it, the rest is 0 (plus the bias).
    Input channels that groups do not divide pass the checks of the specification, but have no meaning: building the graph
    fails with OperationError.
    Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-convtranspose2d.
    """

    filter_layout = Option(choice("iohw", "hwoi", "ohwi"), "iohw", "i: input channels, o: output channels / groups.")
    output_padding = Option(UINT32S, None, "[height, width] added at the end, each less than its stride. By default zeros.")
    output_sizes = Option(UINT32S, None, "[height, width] of the output; output_padding is then ignored.")
    tolerance = Tolerance(4, 1, reduction=True)
    tosa = "TRANSPOSE TRANSPOSE_CONV2D RESHAPE PAD SLICE CONCAT"
    tosa_note = "dilations: zeros in the filter; groups: SLICE TRANSPOSE_CONV2D CONCAT"
    stablehlo = "add broadcast_in_dim convolution reshape reverse slice transpose"

    @staticmethod
    def infer(
        input: Descriptor,
        filter: Descriptor,
        bias: Descriptor | None,
        padding: Integers | None,
        strides: Integers | None,
        dilations: Integers | None,
        output_padding: Integers | None,
        output_sizes: Integers | None,
        groups: int,
        input_layout: str,
        filter_layout: str,
    ) -> Descriptor:
        image, taps = by_letter(input_layout, input.shape), by_letter(filter_layout, filter.shape)
        windows = make_windows(image, taps, padding, strides, dilations)
        sizes = transposed_sizes(windows, output_padding, output_sizes)
        require(groups > 0, "groups", groups, "1 or more")
        if taps["i"] != image["c"]:
            reject(
                "filter",
                f"{taps['i']} input channels in the {filter_layout} shape {list(filter.shape)}",
                f"{image['c']}, the channels of the {input_layout} input",
            )
        channels = taps["o"] * groups
        require(channels <= MAX_DIMENSION, "groups", groups, f"at most {MAX_DIMENSION} output channels; these are {channels}")
        _require_bias(bias, channels)
        return _output(input, input_layout, channels, sizes)

    @staticmethod
    def lower(
        input: Array,
        filter: Array,
        bias: Array | None,
        padding: Integers | None,
        strides: Integers | None,
        dilations: Integers | None,
        output_padding: Integers | None,
        output_sizes: Integers | None,
        groups: int,
        input_layout: str,
        filter_layout: str,
        target: Target,
    ) -> Array:
        image, taps = by_letter(input_layout, input.shape), by_letter(filter_layout, filter.shape)
        require(image["c"] % groups == 0, "groups", groups, f"a divisor of the input's {image['c']} channels")
        windows = make_windows(image, taps, padding, strides, dilations)
        sizes = transposed_sizes(windows, output_padding, output_sizes)
        # The transpose of a strided convolution: over the input with stride - 1 zeros between, by the flipped filter.
        flipped = lax.rev(move_groups(filter, filter_layout, groups), [filter_layout.index(axis) for axis in SPATIAL])
        padded = [_transposed_padding(window, size) for window, size in zip(windows, sizes, strict=True)]
        result = lax.conv_general_dilated(
            widen(input),
            widen(flipped),
            window_strides=(1, 1),
            padding=padded,
            lhs_dilation=[window.stride for window in windows],
            rhs_dilation=[window.dilation for window in windows],
            dimension_numbers=(input_layout.upper(), filter_layout.upper(), input_layout.upper()),
            feature_group_count=groups,
            precision=target.precision,
        )
        for axis, size in zip(SPATIAL, sizes, strict=True):
            result = lax.slice_in_dim(result, -size, None, axis=input_layout.index(axis))
        return narrow(_add_bias(result, bias, input_layout), input)

    @staticmethod
    def to_tosa(
        t: Emitter,
        input: Tensor,
        filter: Tensor,
        bias: Tensor | None,
        padding: Integers | None,
        strides: Integers | None,
        dilations: Integers | None,
        output_padding: Integers | None,
        output_sizes: Integers | None,
        groups: int,
        input_layout: str,
        filter_layout: str,
    ) -> Tensor:
        image, taps = by_letter(input_layout, input.shape), by_letter(filter_layout, filter.shape)
        windows = make_windows(image, taps, padding, strides, dilations)
        sizes = transposed_sizes(windows, output_padding, output_sizes)
        return tosa_windows.convolve_transposed(t, input, filter, bias, windows, sizes, groups, input_layout, filter_layout)


def _transposed_padding(window: Window, size: int) -> tuple[int, int]:
    """The padding that gives ``size`` outputs, or one more before them."""
    before, after = window.transposed_padding(size)
    if (window.size, window.stride, window.dilation, before, after) == (2, 2, 1, 0, 0):
        # XLA takes this for a grouped dimension, exchanges operands for it, and aborts (algebraic_simplifier.cc).
        return 1, 0
    return before, after


def transposed_sizes(
    windows: Sequence[Window], output_padding: Integers | None, output_sizes: Integers | None
) -> tuple[int, ...]:
    """Output height and width of a transposed convolution. ``output_sizes`` wins over ``output_padding``."""
    extra = (0, 0) if output_padding is None else output_padding
    require_length("output_padding", extra, 2)
    if output_sizes is not None:
        require_length("output_sizes", output_sizes, 2)
        for window, size in zip(windows, output_sizes, strict=True):
            low, high = window.spread, window.spread + window.stride - 1
            require(low <= size <= high, "output_sizes", list(output_sizes), f"{low} to {high} where {size} is")
        sizes, name = tuple(output_sizes), "output_sizes"
    else:
        for window, more in zip(windows, extra, strict=True):
            require(more < window.stride, "output_padding", list(extra), f"less than the stride, {window.stride}")
        sizes, name = tuple(window.spread + more for window, more in zip(windows, extra, strict=True)), "padding"
    for axis, window, size in zip(SPATIAL, windows, sizes, strict=True):
        require_output(axis, window, size, name)
    return sizes


def move_groups(filter: Array, layout: str, groups: int) -> Array:
    """A transposed convolution's filter with i: input channels / groups, and o: all output channels, group by group."""
    if groups == 1:
        return filter
    i, o = layout.index("i"), layout.index("o")
    channels = filter.shape[i] // groups
    split = lax.reshape(filter, (*filter.shape[:i], groups, channels, *filter.shape[i + 1 :]))
    # The axis of groups is now at i; it moves to right before o, and the two merge.
    rest = [axis for axis in range(5) if axis != i]
    order = [*rest[:o], i, *rest[o:]]
    shape = list(filter.shape)
    shape[i], shape[o] = channels, filter.shape[o] * groups
    return lax.reshape(lax.transpose(split, order), shape)


def _require_bias(bias: Descriptor | None, channels: int) -> None:
    if bias is not None and tuple(bias.shape) != (channels,):
        reject("bias", f"shape {list(bias.shape)}", f"[{channels}], the output channels")


def _add_bias(result: Array, bias: Array | None, layout: str) -> Array:
    if bias is None:
        return result
    return lax.add(result, broadcast_along(widen(bias), result.shape, (layout.index("c"),)))


def _output(input: Descriptor, layout: str, channels: int, sizes: Integers) -> Descriptor:
    by_name = by_letter(layout, input.shape) | {"c": channels, "h": sizes[0], "w": sizes[1]}
    return input.with_shape([by_name[letter] for letter in layout])
