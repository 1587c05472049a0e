"""Constant factors and summands folded into the weights before them."""

from __future__ import annotations

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes
from webnn_xla.rewrites.fold_batch_norm import along


def fold_scale(graph: Graph, target: Target) -> Graph:
    """``conv2d(x, w, b) * c`` → ``conv2d(x, w * c, b * c)``; ``conv2d(x, w, b) + c`` → ``conv2d(x, w, b + c)``.

    c is a constant that is one number, or one for each output channel; w and b are constants, nothing else reads the
    result, and the type is float32. The same for ``matmul(x, w) * c`` with a constant w. Sums first, products first: as
    often as there are such nodes in a row.
    """
    while True:
        after = rewrite_nodes(graph, _fold)
        if after is graph:
            return graph
        graph = after


def _fold(node: Node, view: View) -> Draft | None:
    if node.op.name not in ("mul", "div", "add", "sub") or node.outputs[0].descriptor.data_type != "float32":
        return None
    a, b = node.operands["a"], node.operands["b"]
    for x, c in ((a, b), (b, a)):
        if (x is b and node.op.name in ("div", "sub")) or not isinstance(x, Value) or not isinstance(c, Value):
            continue
        if view.is_constant(c) and not view.is_constant(x) and x.descriptor == node.outputs[0].descriptor:
            found = _into_conv(node, x, c, view) or _into_matmul(node, x, c, view)
            if found is not None:
                return found
    return None


def _into_conv(node: Node, x: Value, c: Value, view: View) -> Draft | None:
    conv = view.inner(x, "conv2d")
    if conv is None:
        return None
    filter, bias = conv.operands["filter"], conv.operands.get("bias")
    assert isinstance(filter, Value)
    assert not isinstance(bias, tuple)
    layout = conv.attributes["input_layout"]
    channel = layout.index("c")
    channels = x.descriptor.shape[channel]
    if not view.is_constant(filter) or not (bias is None or view.is_constant(bias)) or not _along_only(c, 4, channel):
        return None
    draft = Draft(conv.label or node.label)
    factor = draft.emit("reshape", input=c, new_shape=(c.descriptor.element_count,))
    if node.op.name in ("mul", "div"):
        filter = draft.emit(node.op.name, a=filter, b=along(draft, factor, conv.attributes["filter_layout"], "o"))
        if bias is not None:
            bias = draft.emit(node.op.name, a=bias, b=factor)
    elif bias is not None:
        bias = draft.emit(node.op.name, a=bias, b=factor)
    else:
        bias = factor if node.op.name == "add" else draft.emit("neg", input=factor)
        if channels != c.descriptor.element_count:
            bias = draft.emit("expand", input=bias, new_shape=(channels,))
    draft.emit("conv2d", outputs=node.outputs, input=conv.operands["input"], filter=filter, bias=bias, **conv.attributes)
    return draft


def _into_matmul(node: Node, x: Value, c: Value, view: View) -> Draft | None:
    product = view.inner(x, "matmul")
    if product is None or node.op.name not in ("mul", "div"):
        return None
    rank = x.descriptor.rank
    weights = product.operands["b"]
    if not isinstance(weights, Value) or not view.is_constant(weights) or not _along_only(c, rank, rank - 1):
        return None
    draft = Draft(product.label or node.label)
    factor = draft.emit("reshape", input=c, new_shape=(c.descriptor.element_count,))
    scaled = draft.emit(node.op.name, a=weights, b=factor)
    draft.emit("matmul", outputs=node.outputs, a=product.operands["a"], b=scaled)
    return draft


def _along_only(c: Value, rank: int, axis: int) -> bool:
    """True if ``c``, broadcast to ``rank`` dimensions, varies along ``axis`` only."""
    shape = (1,) * (rank - c.descriptor.rank) + tuple(c.descriptor.shape)
    return all(size == 1 for index, size in enumerate(shape) if index != axis)
