"""XLA's options for one executable, chosen by rule from what is in the graph.

On CPU, XLA can hand matrix products and convolutions to YNNPACK. Measured over whole networks, XLA's own convolutions win, but
for those of few input channels on one core (YNNPACK's are hardly shared out to others); its own products too where weights are
stored [inputs, outputs]; stored the other way round, YNNPACK's products win.
"""

from __future__ import annotations

from typing import Any, Final

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites.depthwise import has_few_channels
from webnn_xla.rewrites.editing import is_convolution

YNNPACK: Final = "xla_cpu_experimental_ynn_fusion_type"
NONE: Final = ""
PRODUCTS: Final = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
CONVOLUTIONS: Final = "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
LARGE: Final = 65536
"""Bytes from which the order of a weight matters."""


def compiler_options(graph: Graph, target: Target) -> dict[str, Any]:
    """The options for ``graph`` as it is compiled, after rewrites."""
    if target.platform != "cpu":
        return {}
    convolutions = list(filter(is_convolution, graph.nodes))
    chosen = [PRODUCTS] if any(_reads_transposed_weights(node, graph) for node in graph.nodes) else []
    if target.cores == 1 and convolutions and all(map(has_few_channels, convolutions)):
        chosen.append(CONVOLUTIONS)
    return {YNNPACK: ",".join(chosen)}


def _reads_transposed_weights(node: Node, graph: Graph) -> bool:
    if node.op.name == "gemm":
        weights = node.operands["b"]
        return bool(node.attributes["b_transpose"]) and weights in graph.constants
    if node.op.name != "matmul":
        return False
    weights = node.operands["b"]
    assert isinstance(weights, Value)
    producer = graph.producers.get(weights)
    return (
        producer is not None
        and producer.op.name == "transpose"
        and weights.descriptor.byte_length > LARGE
        and producer.operands["input"] in graph.constants
    )


def candidates(graph: Graph, target: Target) -> list[dict[str, Any]]:
    """The options that ``build(autotune=True)`` measures; the first is the rule's."""
    ruled = compiler_options(graph, target)
    if target.platform != "cpu":
        return [ruled]
    others: list[dict[str, Any]] = [{}, {YNNPACK: PRODUCTS}, {YNNPACK: CONVOLUTIONS}, {YNNPACK: NONE}]
    return [ruled, *(item for item in others if item != ruled)]
