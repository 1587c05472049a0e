"""Scaled dot-product attention."""

from __future__ import annotations

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes


def recognise_attention(graph: Graph, target: Target) -> Graph:
    """``matmul(softmax(matmul(q, k) * c + mask, last axis), v)`` → ``attention``.

    The factor (a number; also as a divisor) and the mask are optional; nothing else reads the scores or the weights. The mask
    broadcasts to the scores, and ranks and batch dimensions of q, k and v are equal. Not in portable graphs.
    """
    return graph if target.platform == "portable" else rewrite_nodes(graph, _rule)


def _rule(node: Node, view: View) -> Draft | None:
    if node.op.name != "matmul":
        return None
    softmax = view.inner(node.operands["a"], "softmax")
    if softmax is None or softmax.attributes["axis"] != softmax.outputs[0].descriptor.rank - 1:
        return None
    scores, mask, factor = softmax.operands["input"], None, 1.0
    shape = softmax.outputs[0].descriptor.shape
    total = view.inner(scores, "add")
    if total is not None:
        for first, second in (("a", "b"), ("b", "a")):
            inner, other = total.operands[first], total.operands[second]
            if _is_scores(inner, view) and isinstance(inner, Value) and inner.descriptor.shape == shape:
                scores, mask = inner, other
                break
    scaled = view.inner(scores, "mul") or view.inner(scores, "div")
    if scaled is not None:
        number = view.scalar(scaled.operands["b"])
        inner = scaled.operands["a"]
        if number is None and scaled.op.name == "mul":
            number, inner = view.scalar(scaled.operands["a"]), scaled.operands["b"]
        if number is None or number == 0:
            return None
        scores, factor = inner, number if scaled.op.name == "mul" else 1 / number
    product = view.inner(scores, "matmul")
    if product is None or product.outputs[0].descriptor.shape != shape:
        return None
    query, key, value = product.operands["a"], product.operands["b"], node.operands["b"]
    assert isinstance(query, Value)
    assert isinstance(key, Value)
    assert isinstance(value, Value)
    batch = tuple(query.descriptor.shape[:-2])
    if not tuple(key.descriptor.shape[:-2]) == tuple(value.descriptor.shape[:-2]) == batch:
        return None
    draft = Draft(softmax.label or node.label)
    draft.emit("attention", outputs=node.outputs, query=query, key=key, value=value, mask=mask, factor=factor)
    return draft


def _is_scores(value: object, view: View) -> bool:
    """True for a product of matrices, scaled or not, that nothing else reads."""
    if view.inner(value, "matmul") is not None:
        return True
    scaled = view.inner(value, "mul") or view.inner(value, "div")
    return scaled is not None and any(view.inner(scaled.operands[name], "matmul") is not None for name in ("a", "b"))
