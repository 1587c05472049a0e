"""1×1 convolution as a matrix product."""

from __future__ import annotations

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes


def pointwise_as_matmul(graph: Graph, target: Target) -> Graph:
    """``conv2d`` with a 1×1 filter in one group, no padding, and ``nhwc`` images → ``matmul`` of [n, h, w, i] and [i, o], plus bias.

    With strides, the image is sliced first. The filter is a constant. float32, on CPU and GPU.
    """
    if target.platform == "portable":
        return graph
    return rewrite_nodes(graph, _rule)


def _rule(node: Node, view: View) -> Draft | None:
    if node.op.name != "conv2d" or node.attributes["input_layout"] != "nhwc" or node.attributes["groups"] != 1:
        return None
    if node.outputs[0].descriptor.data_type != "float32" or any(node.attributes["padding"] or ()):
        return None
    x, filter, bias = node.operands["input"], node.operands["filter"], node.operands.get("bias")
    assert isinstance(x, Value)
    assert isinstance(filter, Value)
    layout = node.attributes["filter_layout"]
    sizes = dict(zip(layout, filter.descriptor.shape, strict=True))
    if sizes["h"] != 1 or sizes["w"] != 1 or not view.is_constant(filter):
        return None
    draft = Draft(node.label)
    strides = node.attributes["strides"] or (1, 1)
    if tuple(strides) != (1, 1):
        batch, height, width, channels = x.descriptor.shape
        x = draft.emit("slice", input=x, starts=(0, 0, 0, 0), sizes=(batch, height, width, channels), strides=(1, *strides, 1))
    weights = draft.emit("reshape", input=filter, new_shape=(sizes["i"], sizes["o"]) if layout in ("hwio", "ihwo") else (sizes["o"], sizes["i"]))
    if layout in ("oihw", "ohwi"):
        weights = draft.emit("transpose", input=weights, permutation=(1, 0))
    if bias is None:
        draft.emit("matmul", outputs=node.outputs, a=x, b=weights)
    else:
        draft.emit("add", outputs=node.outputs, a=draft.emit("matmul", a=x, b=weights), b=bias)
    return draft
