"""Nodes that do nothing, and nodes that do the same."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target


def remove_no_ops(graph: Graph, target: Target) -> Graph:
    """``identity``, ``cast`` to the same type, ``reshape``, ``expand`` and ``transpose`` that change nothing → their input.

    A ``reshape`` of a ``reshape``, and a ``transpose`` of a ``transpose``, read the first one's input. Not where an output
    of the graph would be an input or a constant.
    """
    mapping: dict[Value, Value] = {}
    nodes: list[Node] = []
    producers: dict[Value, Node] = {}
    outputs = set(graph.outputs.values())

    def resolve(value: Value) -> Value:
        return mapping.get(value, value)

    for node in graph.nodes:
        node = _merged(node.with_operands(resolve), producers)
        source = _source(node)
        if source is not None and (node.outputs[0] not in outputs or source in producers):
            mapping[node.outputs[0]] = source
            continue
        nodes.append(node)
        producers.update(dict.fromkeys(node.outputs, node))
    if len(nodes) == len(graph.nodes) and all(old is new for old, new in zip(graph.nodes, nodes, strict=True)):
        return graph
    return replace(
        graph, nodes=tuple(nodes), outputs={name: resolve(value) for name, value in graph.outputs.items()}
    ).reachable()


def _source(node: Node) -> Value | None:
    source = node.operands.get("input")
    if not isinstance(source, Value) or source.descriptor != node.outputs[0].descriptor:
        return None
    if node.op.name in ("identity", "cast", "reshape", "expand"):
        return source
    if node.op.name == "transpose" and order_of(node) == tuple(range(source.descriptor.rank)):
        return source
    return None


def _merged(node: Node, producers: dict[Value, Node]) -> Node:
    """A reshape of a reshape, or transpose of a transpose, as one."""
    before = producers.get(node.operands["input"]) if isinstance(node.operands.get("input"), Value) else None  # type: ignore[arg-type]
    if before is None or before.op is not node.op or node.op.name not in ("reshape", "transpose"):
        return node
    attributes = node.attributes
    if node.op.name == "transpose":
        first, second = order_of(before), order_of(node)
        attributes = {"permutation": tuple(first[axis] for axis in second)}
    return Node(node.op, before.operands, attributes, node.outputs, node.label or before.label)


def order_of(node: Node) -> tuple[int, ...]:
    """The permutation of a transpose node, its default resolved."""
    order = node.attributes["permutation"]
    return tuple(range(node.outputs[0].descriptor.rank))[::-1] if order is None else tuple(order)


def merge_equal_nodes(graph: Graph, target: Target) -> Graph:
    """Nodes of the same op, operands and attributes are computed once (common subexpressions)."""
    seen: dict[Hashable, Node] = {}
    mapping: dict[Value, Value] = {}

    def resolve(value: Value) -> Value:
        return mapping.get(value, value)

    for node in graph.nodes:
        read = node.with_operands(resolve)
        key = _key(read)
        first = None if key is None else seen.setdefault(key, read)
        if first is not None and first is not read:
            mapping.update(zip(node.outputs, first.outputs, strict=True))
    return graph.substitute(mapping)


def _key(node: Node) -> Hashable | None:
    def frozen(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(map(frozen, value))
        # 1 and 1.0 are equal, 0.0 and -0.0 too, and NaN is not: attributes are the same only if they look the same.
        return type(value), repr(value) if isinstance(value, float) else value

    operands = tuple((name, operand) for name, operand in node.operands.items())
    return (node.op, operands, tuple((name, frozen(value)) for name, value in node.attributes.items()))
