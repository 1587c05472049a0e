"""Updates of one row: a KV cache."""

from __future__ import annotations

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes


def scatter_as_update(graph: Graph, target: Target) -> Graph:
    """``scatter_nd`` with a single index into the first dimension → ``update_row``, which XLA does in place.

    Not in portable graphs.
    """
    return graph if target.platform == "portable" else rewrite_nodes(graph, _rule)


def _rule(node: Node, view: View) -> Draft | None:
    if node.op.name != "scatter_nd":
        return None
    source, indices = node.operands["input"], node.operands["indices"]
    assert isinstance(source, Value)
    assert isinstance(indices, Value)
    if indices.descriptor.element_count != 1:
        return None
    draft = Draft(node.label)
    shape = (1, *source.descriptor.shape[1:])
    draft.emit(
        "update_row", outputs=node.outputs, input=source, index=indices, update=node.operands["updates"], axis=0, shape=shape
    )
    return draft
