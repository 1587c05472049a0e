"""Grouped convolution as one convolution a group."""

from __future__ import annotations

from typing import Final

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites.depthwise import MAX_GROUP
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes

MAX_SPLIT: Final = 8
"""Groups, up to which one convolution each is the better way."""


def split_groups(graph: Graph, target: Target) -> Graph:
    """``conv2d`` in 2 … 8 groups of more than 4 input channels → ``split``, a ``conv2d`` each, ``concat``, and the bias added.

    For CPU, where XLA's grouped convolution is slow.
    """
    return graph if target.platform != "cpu" else rewrite_nodes(graph, _rule)


def _rule(node: Node, view: View) -> Draft | None:
    if node.op.name != "conv2d" or not 1 < node.attributes["groups"] <= MAX_SPLIT:
        return None
    groups, layout = node.attributes["groups"], node.attributes["filter_layout"]
    filter = node.operands["filter"]
    assert isinstance(filter, Value)
    if filter.descriptor.shape[layout.index("i")] <= MAX_GROUP:
        return None
    draft = Draft(node.label)
    channel = node.attributes["input_layout"].index("c")

    def split(value: Value, axis: int) -> tuple[Value, ...]:
        draft.emit("split", input=value, splits=groups, axis=axis)
        return draft.nodes[-1].outputs

    parts = split(node.operands["input"], channel)  # type: ignore[arg-type]
    filters = split(filter, layout.index("o"))
    bias = node.operands.get("bias")
    biases: tuple[Value | None, ...] = split(bias, 0) if isinstance(bias, Value) else (None,) * groups
    attributes = {**node.attributes, "groups": 1}
    made = tuple(
        draft.emit("conv2d", input=part, filter=taps, bias=addend, **attributes)
        for part, taps, addend in zip(parts, filters, biases, strict=True)
    )
    draft.emit("concat", outputs=node.outputs, inputs=made, axis=channel)
    return draft
