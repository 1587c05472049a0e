"""Convolution over an image of few channels as a matrix product with its patches."""

from __future__ import annotations

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.lowering.window import by_letter, make_windows
from webnn_xla.rewrites.depthwise import MAX_FIRST, has_few_channels
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes


def few_channels_as_patches(graph: Graph, target: Target) -> Graph:
    """``conv2d`` in ``nchw`` → ``matmul`` of the filter with what each of its taps reads, and the bias added.

    One group of at most 4 input channels, a batch of 1, from 2 to 32 products for each output, a constant filter,
    float32. For CPU.
    """
    return graph if target.platform != "cpu" else rewrite_nodes(graph, _rule)


def _rule(node: Node, view: View) -> Draft | None:
    if not has_few_channels(node) or node.attributes["input_layout"] != "nchw":
        return None
    x, filter, bias = node.operands["input"], node.operands["filter"], node.operands.get("bias")
    assert isinstance(x, Value)
    assert isinstance(filter, Value)
    layout = node.attributes["filter_layout"]
    taps = by_letter(layout, filter.descriptor.shape)
    batch, channels, height, width = x.descriptor.shape
    count = taps["h"] * taps["w"] * channels
    if batch != 1 or not 1 < count <= MAX_FIRST or taps["h"] * taps["w"] == 1 or not view.is_constant(filter):
        return None
    if x.descriptor.data_type != "float32" or view.is_constant(x):
        return None
    padding = node.attributes["padding"] or (0, 0, 0, 0)
    windows = make_windows({"h": height, "w": width}, taps, padding, node.attributes["strides"], node.attributes["dilations"])
    draft = Draft(node.label)
    if any(padding):
        x = draft.emit("pad", input=x, beginning_padding=(0, 0, *padding[::2]), ending_padding=(0, 0, *padding[1::2]))
    strides = (1, 1, *(window.stride for window in windows))
    sizes = (1, channels, *((window.positions - 1) * window.stride + 1 for window in windows))
    parts = []
    for row in range(taps["h"]):
        for column in range(taps["w"]):
            starts = (0, 0, row * windows[0].dilation, column * windows[1].dilation)
            parts.append(draft.emit("slice", input=x, starts=starts, sizes=sizes, strides=strides))
    positions = windows[0].positions * windows[1].positions
    patches = draft.emit("reshape", input=draft.emit("concat", inputs=tuple(parts), axis=1), new_shape=(count, positions))
    moved = draft.emit("transpose", input=filter, permutation=tuple(layout.index(letter) for letter in "ohwi"))
    product = draft.emit("matmul", a=draft.emit("reshape", input=moved, new_shape=(taps["o"], count)), b=patches)
    if bias is not None:
        product = draft.emit("add", a=product, b=draft.emit("reshape", input=bias, new_shape=(taps["o"], 1)))
    draft.emit("reshape", outputs=node.outputs, input=product, new_shape=tuple(node.outputs[0].descriptor.shape))
    return draft
