"""Depthwise and small-group convolution as shifted multiply-add."""

from __future__ import annotations

from typing import Any

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.lowering.window import by_letter
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes

MAX_TAPS = 81
"""More taps than this make long programs."""

MAX_FIRST = 32
"""Products for each output, up to which one group of few channels is better off as well."""

MAX_GROUP = 4
"""Input channels a group, up to which multiply-add wins over a convolution for each group."""


def depthwise_as_multiply_add(graph: Graph, target: Target) -> Graph:
    """``conv2d`` of which each output channel reads one input channel → ``depthwise_conv2d``.

    groups = input channels = output channels, and at most 81 taps. For CPU, where XLA's grouped convolution is slow.
    """
    return graph if target.platform != "cpu" else rewrite_nodes(graph, _depthwise)


def small_groups_as_multiply_add(graph: Graph, target: Target) -> Graph:
    """``conv2d`` in groups of at most 4 input channels, with at most 81 products for each output → ``grouped_conv2d``.

    Also the first layer of a network: one group, ``nhwc``, and at most 32 products. For CPU.
    """
    return graph if target.platform != "cpu" else rewrite_nodes(graph, _grouped)


def has_few_channels(node: Node) -> bool:
    """True for a ``conv2d`` in one group over at most 4 input channels, such as the first layer of a network."""
    return node.op.name == "conv2d" and node.attributes["groups"] == 1 and _parts(node)[0]["c"] <= MAX_GROUP


def _parts(node: Node) -> tuple[dict[str, int], dict[str, int]]:
    image, filter = node.operands["input"], node.operands["filter"]
    assert isinstance(image, Value)
    assert isinstance(filter, Value)
    return (
        by_letter(node.attributes["input_layout"], image.descriptor.shape),
        by_letter(node.attributes["filter_layout"], filter.descriptor.shape),
    )


def _depthwise(node: Node, view: View) -> Draft | None:
    if node.op.name != "conv2d":
        return None
    image, filter = _parts(node)
    if not node.attributes["groups"] == image["c"] == filter["o"] > 1 or filter["h"] * filter["w"] > MAX_TAPS:
        return None
    draft = Draft(node.label)
    arguments: dict[str, Any] = {**node.operands, **node.attributes}
    draft.emit("depthwise_conv2d", outputs=node.outputs, **arguments)
    return draft


def _grouped(node: Node, view: View) -> Draft | None:
    if node.op.name != "conv2d":
        return None
    _, filter = _parts(node)
    single = node.attributes["groups"] == 1
    if single and (node.attributes["input_layout"] != "nhwc" or filter["h"] * filter["w"] == 1):
        return None
    if filter["i"] > MAX_GROUP or filter["h"] * filter["w"] * filter["i"] > (MAX_FIRST if single else MAX_TAPS):
        return None
    draft = Draft(node.label)
    arguments: dict[str, Any] = {**node.operands, **node.attributes}
    draft.emit("grouped_conv2d", outputs=node.outputs, **arguments)
    return draft
