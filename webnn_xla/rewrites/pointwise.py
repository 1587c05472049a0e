"""1×1 convolution as a matrix product."""

from __future__ import annotations

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.lowering.window import by_letter
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes


def pointwise_as_matmul(graph: Graph, target: Target) -> Graph:
    """``conv2d`` with a 1×1 filter in one group and no padding → ``matmul``, plus bias.

    ``nhwc``: [n, h, w, i] times [i, o]. ``nchw``, for a batch of 1: [o, i] times [i, h * w]. With strides, the image is
    sliced first. The filter is a constant, the type float32. Not in portable graphs.
    """
    return graph if target.platform == "portable" else rewrite_nodes(graph, _rule)


def is_pointwise(node: Node) -> bool:
    """True for the convolutions that this rewrite takes in the layout that they have, if their filter is constant."""
    if node.op.name != "conv2d" or node.attributes["groups"] != 1 or any(node.attributes["padding"] or ()):
        return False
    sizes = _sizes(node)
    return (
        sizes["h"] == sizes["w"] == 1
        and node.outputs[0].descriptor.data_type == "float32"
        and (node.attributes["input_layout"] == "nhwc" or node.outputs[0].descriptor.shape[0] == 1)
    )


def _sizes(node: Node) -> dict[str, int]:
    filter = node.operands["filter"]
    assert isinstance(filter, Value)
    return by_letter(node.attributes["filter_layout"], filter.descriptor.shape)


def _rule(node: Node, view: View) -> Draft | None:
    if not is_pointwise(node) or not view.is_constant(node.operands["filter"]):  # type: ignore[arg-type]
        return None
    x, filter, bias = node.operands["input"], node.operands["filter"], node.operands.get("bias")
    assert isinstance(x, Value)
    assert isinstance(filter, Value)
    draft, sizes = Draft(node.label), _sizes(node)
    layout, image = node.attributes["filter_layout"], node.attributes["input_layout"]
    strides = dict(zip("hw", node.attributes["strides"] or (1, 1), strict=True))
    if any(stride != 1 for stride in strides.values()):
        steps = tuple(strides.get(axis, 1) for axis in image)
        x = draft.emit("slice", input=x, starts=(0, 0, 0, 0), sizes=tuple(x.descriptor.shape), strides=steps)
    # The two dimensions that are not 1, in the order that the product wants.
    order = "io" if image == "nhwc" else "oi"
    stored = "".join(letter for letter in layout if letter in "io")
    weights = draft.emit("reshape", input=filter, new_shape=tuple(sizes[letter] for letter in stored))
    if stored != order:
        weights = draft.emit("transpose", input=weights, permutation=(1, 0))
    if image == "nhwc":
        if bias is None:
            draft.emit("matmul", outputs=node.outputs, a=x, b=weights)
        else:
            draft.emit("add", outputs=node.outputs, a=draft.emit("matmul", a=x, b=weights), b=bias)
        return draft
    _, channels, height, width = x.descriptor.shape
    product = draft.emit("matmul", a=weights, b=draft.emit("reshape", input=x, new_shape=(channels, height * width)))
    if bias is not None:
        product = draft.emit("add", a=product, b=draft.emit("reshape", input=bias, new_shape=(sizes["o"], 1)))
    draft.emit("reshape", outputs=node.outputs, input=product, new_shape=tuple(node.outputs[0].descriptor.shape))
    return draft
