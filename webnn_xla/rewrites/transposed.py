"""Transposed convolution as an ordinary one."""

from __future__ import annotations

from typing import Final

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.lowering.window import by_letter
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes

MAX_PHASES: Final = 256
"""Outputs of one input pixel."""

SHUFFLES: Final = {"nhwc": (0, 1, 3, 2, 4, 5), "nchw": (0, 3, 4, 1, 5, 2)}
"""From phases among the channels (rows, columns, channels) to phases beside the pixels that they belong to."""


def transposed_as_subpixel(graph: Graph, target: Target) -> Graph:
    """``conv_transpose2d`` with strides → ``conv2d`` that makes all outputs of a pixel as channels, then put in place.

    Output p of an axis sees the taps k for which p + padding - k is a multiple of the stride: a few of them, and those of
    another phase of the stride for the output after. So each phase is a convolution over the input as it is, without the
    zeros between its pixels, by every stride-th tap, the last one first; and all of them are one convolution.

    One group, no dilations, a constant filter whose height and width are multiples of the strides (zeros that fill it up
    would make NaN of infinities in outputs that they do not reach), and padding less than the filter. For CPU.
    """
    return graph if target.platform != "cpu" else rewrite_nodes(graph, _rule)


def is_spread(node: Node) -> bool:
    """True where the windows of a transposed convolution lie side by side, so that it is a matrix product."""
    return node.op.name == "conv_transpose2d" and not any(node.attributes["padding"] or ()) and _strides(node) == _taps(node)


def _strides(node: Node) -> tuple[int, int]:
    height, width = node.attributes["strides"] or (1, 1)
    return height, width


def _taps(node: Node) -> tuple[int, int]:
    filter = node.operands["filter"]
    assert isinstance(filter, Value)
    taps = by_letter(node.attributes["filter_layout"], filter.descriptor.shape)
    return taps["h"], taps["w"]


def _rule(node: Node, view: View) -> Draft | None:
    if (
        node.op.name != "conv_transpose2d"
        or node.attributes["groups"] != 1
        or tuple(node.attributes["dilations"] or (1, 1)) != (1, 1)
    ):
        return None
    x, filter, bias = node.operands["input"], node.operands["filter"], node.operands.get("bias")
    assert isinstance(x, Value)
    assert isinstance(filter, Value)
    strides, taps = _strides(node), _taps(node)
    phases = strides[0] * strides[1]
    if not 1 < phases <= MAX_PHASES or not view.is_constant(filter) or any(map(int.__mod__, taps, strides)):
        return None
    layout = node.attributes["input_layout"]
    image = by_letter(layout, x.descriptor.shape)
    output = by_letter(layout, node.outputs[0].descriptor.shape)
    padding = node.attributes["padding"] or (0, 0, 0, 0)
    padded: list[int] = []
    made: list[int] = []
    cropped: list[int] = []
    for axis, stride, size, before in zip("hw", strides, taps, padding[::2], strict=True):
        # In units of the input: the first and last position that any output belongs to.
        first, last = before // stride, (before + output[axis] - 1) // stride
        padded += [size // stride - 1 - first, last - image[axis] + 1]
        made.append(last - first + 1)
        cropped.append(before - first * stride)
    if min(padded) < 0:
        return None
    draft = Draft(node.label)
    if isinstance(bias, Value):
        bias = draft.emit("tile", input=bias, repetitions=(phases,))
    pixels = draft.emit(
        "conv2d", input=x, filter=_phase_filter(draft, node, filter, strides, taps), bias=bias,
        padding=tuple(padded), input_layout=layout, filter_layout="hwio",
    )  # fmt: skip
    sizes = {"n": (image["n"],), "h": (made[0],), "w": (made[1],), "c": (*strides, output["c"])}
    split = draft.emit("reshape", input=pixels, new_shape=tuple(size for letter in layout for size in sizes[letter]))
    shuffled = draft.emit("transpose", input=split, permutation=SHUFFLES[layout])
    whole = output | {"h": made[0] * strides[0], "w": made[1] * strides[1]}
    merged = draft.emit("reshape", input=shuffled, new_shape=tuple(whole[letter] for letter in layout))
    starts = {"h": cropped[0], "w": cropped[1]}
    draft.emit(
        "slice", outputs=node.outputs, input=merged,
        starts=tuple(starts.get(letter, 0) for letter in layout), sizes=tuple(output[letter] for letter in layout),
    )  # fmt: skip
    return draft


def _phase_filter(draft: Draft, node: Node, filter: Value, strides: tuple[int, int], taps: tuple[int, int]) -> Value:
    """[taps of a phase (height, width), input channels, phases * output channels]."""
    layout = node.attributes["filter_layout"]
    ordered = draft.emit("transpose", input=filter, permutation=tuple(layout.index(letter) for letter in "hwio"))
    inputs, outputs = ordered.descriptor.shape[2:]
    height, width = strides
    rows, columns = taps[0] // height, taps[1] // width
    split = draft.emit("reshape", input=ordered, new_shape=(rows, height, columns, width, inputs, outputs))
    turned = draft.emit("reverse", input=split, axes=(0, 2))
    moved = draft.emit("transpose", input=turned, permutation=(0, 2, 4, 1, 3, 5))
    return draft.emit("reshape", input=moved, new_shape=(rows, columns, inputs, height * width * outputs))
