"""Batch normalization folded into the convolution before it."""

from __future__ import annotations

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes


def fold_batch_norm(graph: Graph, target: Target) -> Graph:
    """``batch_normalization(conv2d(x, w, b))`` → ``conv2d(x, w * s, (b - mean) * s + bias)``.

    s is scale / sqrt(variance + epsilon).

    Where filter, bias and all statistics are constants, nothing else reads the convolution's result, the normalized axis is
    its channels, and the type is float32: in float16 the products would be rounded before they are summed.
    """
    return rewrite_nodes(graph, _fold)


def _fold(node: Node, view: View) -> Draft | None:
    if node.op.name != "batch_normalization" or node.outputs[0].descriptor.data_type != "float32":
        return None
    conv = view.inner(node.operands["input"], "conv2d")
    if conv is None or node.attributes["axis"] != conv.attributes["input_layout"].index("c"):
        return None
    filter, bias = conv.operands["filter"], conv.operands.get("bias")
    statistics = [node.operands.get(name) for name in ("mean", "variance", "scale", "bias")]
    if not all(view.is_constant(value) for value in (filter, bias, *statistics) if isinstance(value, Value)):
        return None
    mean, variance, scale, shift = statistics
    draft = Draft(conv.label or node.label)
    kind = node.outputs[0].descriptor.data_type
    deviation = draft.emit("sqrt", input=draft.emit("add", a=variance, b=draft.constant(node.attributes["epsilon"], kind)))
    factor = draft.emit("div", a=draft.constant(1.0, kind) if scale is None else scale, b=deviation)
    centre = draft.emit("neg", input=mean) if bias is None else draft.emit("sub", a=bias, b=mean)
    moved = draft.emit("mul", a=centre, b=factor)
    if shift is not None:
        moved = draft.emit("add", a=moved, b=shift)
    scaled = draft.emit("mul", a=filter, b=along(draft, factor, conv.attributes["filter_layout"], "o"))
    draft.emit("conv2d", outputs=node.outputs, input=conv.operands["input"], filter=scaled, bias=moved, **conv.attributes)
    return draft


def along(draft: Draft, vector: Value, layout: str, letter: str) -> Value:
    """``vector`` reshaped to lie along one letter of a layout, with ones elsewhere."""
    shape = [vector.descriptor.element_count if axis == letter else 1 for axis in layout]
    return draft.emit("reshape", input=vector, new_shape=tuple(shape))
