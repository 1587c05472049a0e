"""Matrix products with quantized weights."""

from __future__ import annotations

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes


def dequantize_in_matmul(graph: Graph, target: Target) -> Graph:
    """``matmul(a, dequantize_linear(b, scale, zero_point))`` → ``quantized_matmul``.

    Where b [rows, columns] is a constant of 4 or 8 bits with one scale for each column, or one for all: the product is scaled,
    not every weight. float32; nothing else reads the dequantized weights. Not in portable graphs.
    """
    return graph if target.platform == "portable" else rewrite_nodes(graph, _rule)


def _rule(node: Node, view: View) -> Draft | None:
    if node.op.name != "matmul" or node.outputs[0].descriptor.data_type != "float32":
        return None
    source = view.inner(node.operands["b"], "dequantize_linear")
    if source is None:
        return None
    weights, scale = source.operands["input"], source.operands["scale"]
    assert isinstance(weights, Value)
    assert isinstance(scale, Value)
    shape = weights.descriptor.shape
    if not view.is_constant(weights) or len(shape) != 2 or weights.descriptor.data_type.bits > 8:
        return None
    if scale.descriptor.data_type != "float32" or tuple(scale.descriptor.shape) not in ((1, 1), (1, shape[1])):
        return None
    draft = Draft(node.label or source.label)
    draft.emit(
        "quantized_matmul", outputs=node.outputs, a=node.operands["a"], b=weights, scale=scale,
        zero_point=source.operands["zero_point"],
    )  # fmt: skip
    return draft
