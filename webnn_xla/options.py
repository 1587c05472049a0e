"""XLA's options for one executable, chosen by rule from what is in the graph.

On CPU, XLA can hand matrix products and convolutions to YNNPACK. It usually wins for products, and usually loses for
convolutions to XLA's own; which of the two a graph spends its time on is seen from its ops.
"""

from __future__ import annotations

from typing import Any, Final

from webnn_xla.graph import Graph
from webnn_xla.lowering.op import Target

YNNPACK: Final = "xla_cpu_experimental_ynn_fusion_type"
NONE: Final = ""
PRODUCTS: Final = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
CONVOLUTIONS: Final = frozenset(("conv2d", "conv_transpose2d", "depthwise_conv2d", "grouped_conv2d", "subpixel_conv_transpose2d"))


def compiler_options(graph: Graph, target: Target) -> dict[str, Any]:
    """The options for ``graph`` as it is compiled, after rewrites."""
    if target.platform != "cpu":
        return {}
    if any(node.op.name in CONVOLUTIONS for node in graph.nodes):
        return {YNNPACK: NONE}
    return {}


def candidates(graph: Graph, target: Target) -> list[dict[str, Any]]:
    """The options that ``build(autotune=True)`` measures; the first is the rule's."""
    ruled = compiler_options(graph, target)
    if target.platform != "cpu":
        return [ruled]
    others: list[dict[str, Any]] = [{}, {YNNPACK: PRODUCTS}, {YNNPACK: NONE}]
    return [ruled, *(item for item in others if item != ruled)]
