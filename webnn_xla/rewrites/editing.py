"""Tools of rewrites: walk a graph node by node, and put other nodes in the place of some.

A replacement computes the same ``Value`` objects as the node it replaces, so nothing that reads them changes, and what
became unread is dropped at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from webnn_xla.dtypes import Descriptor, MLOperandDataType
from webnn_xla.graph import Constant, Graph, Node, Value
from webnn_xla.lowering.op import INTERNAL_OPS, OPS, Op, Option

SCALAR_BYTES = 16


class Draft:
    """New nodes and constants. ``label`` is that of every node it makes."""

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.nodes: list[Node] = []
        self.constants: dict[Value, Constant] = {}

    def emit(self, name: str, *, outputs: tuple[Value, ...] | None = None, label: str | None = None, **arguments: Any) -> Value:
        """Adds a node of the op ``name``; options left out have their defaults. Returns its first output.

        ``outputs``: values that exist already, for the last node of a replacement; by default the op's rule makes them.
        """
        op = find_op(name)
        operands: dict[str, Value | tuple[Value, ...]] = {}
        attributes: dict[str, Any] = {}
        declared = op.operands()
        descriptors: dict[str, Any] = dict.fromkeys(declared)
        for key, argument in op.arguments.items():
            given = arguments.pop(key, argument.default if isinstance(argument, Option) else None)
            if key not in declared:
                attributes[key] = given
            elif given is not None:
                operands[key] = given
                descriptors[key] = [item.descriptor for item in given] if isinstance(given, tuple) else given.descriptor
        if arguments:
            raise TypeError(f"{name} has no {', '.join(arguments)}")
        if outputs is None:
            if op.rule is None:
                results = [next(iter(descriptors.values()))]
            else:
                inferred = op.rule(**descriptors, **attributes)
                results = [inferred] if isinstance(inferred, Descriptor) else list(inferred)
            outputs = tuple(Value(result) for result in results)
        self.nodes.append(Node(op, operands, attributes, outputs, self.label if label is None else label))
        return outputs[0]

    def add(self, node: Node) -> None:
        self.nodes.append(node)

    def constant(self, data: Any, data_type: MLOperandDataType) -> Value:
        """A new unnamed constant."""
        array = np.asarray(data, data_type.numpy)
        value = Value(Descriptor(data_type, array.shape))
        self.constants[value] = Constant(array)
        return value


class View:
    """What a rewrite may ask about the graph while it is rewritten; producers are those after the changes so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants: dict[Value, Constant] = dict(graph.constants)
        self.producers: dict[Value, Node] = {}

    @cached_property
    def users(self) -> dict[Value, list[Node | None]]:
        """Who reads each value: those of the graph before, and new nodes. Most rules never ask."""
        return self.graph.users()

    @cached_property
    def _constant_values(self) -> dict[Value, bool]:
        return self.graph.constant_values()

    def is_constant(self, value: Value | None) -> bool:
        """True for a constant, named or not, and for what is computed from constants only."""
        return value in self._constant_values

    def producer(self, value: Value | Any, name: str = "") -> Node | None:
        """The node that computes ``value``, if it is of the op ``name``."""
        node = self.producers.get(value)
        return node if node is not None and name in ("", node.op.name) else None

    def inner(self, value: Value | Any, name: str) -> Node | None:
        """``producer``, if one operand of one node reads ``value`` and nothing else: it may be absorbed."""
        node = self.producer(value, name)
        return node if node is not None and self.read_once(value) else None

    def read_once(self, value: Value) -> bool:
        users = self.users.get(value, [])
        return len(users) == 1 and users[0] is not None

    def scalar(self, value: Value | Any) -> float | None:
        """The number in an unnamed constant of one element."""
        constant = self.constants.get(value)
        if constant is None or constant.name or constant.data is None or value.descriptor.element_count != 1:
            return None
        return float(np.asarray(constant.data).reshape(()))

    def is_scalar(self, value: Value | Any, number: float, relative: float = 1e-6) -> bool:
        """True for an unnamed constant of one element that is ``number``, up to rounding."""
        found = self.scalar(value)
        if found is None:
            return False
        if value.descriptor.data_type.bits == 16:
            relative = max(relative, 2e-3)
        return abs(found - number) <= relative * abs(number)

    def split_scalar(self, node: Node) -> tuple[Value, float] | None:
        """Of a commutative binary node: the operand that is no scalar constant, and the number of the one that is."""
        for first, second in (("a", "b"), ("b", "a")):
            found = self.scalar(node.operands[second])
            other = node.operands[first]
            if found is not None and isinstance(other, Value) and other.descriptor.shape == node.outputs[0].descriptor.shape:
                return other, found
        return None


def find_op(name: str) -> type[Op]:
    """An op of the table, or an internal one."""
    op = OPS.get(name) or INTERNAL_OPS.get(name)
    if op is None:
        raise KeyError(name)
    return op


def is_convolution(node: Node) -> bool:
    """True for a convolution of the specification, transposed or not."""
    return node.op.name in ("conv2d", "conv_transpose2d")


Rule = Callable[[Node, View], Draft | None]


def rewrite_nodes(graph: Graph, rule: Rule) -> Graph:
    """``graph`` with every node replaced by the draft that ``rule`` returns for it; the graph itself if it never does."""
    view = View(graph)
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        draft = rule(node, view)
        made: Sequence[Node] = (node,)
        if draft is not None:
            made, changed = draft.nodes, True
            _note(draft, view)
        nodes += made
        for new in made:
            view.producers.update(dict.fromkeys(new.outputs, new))
    if not changed:
        return graph
    return replace(graph, constants=view.constants, nodes=tuple(nodes)).reachable()


def _note(draft: Draft, view: View) -> None:
    """What the nodes of ``draft`` read, and which of them depend on constants only."""
    view.constants.update(draft.constants)
    view._constant_values.update(dict.fromkeys(draft.constants, False))
    for node in draft.nodes:
        sources = node.inputs()
        if all(view.is_constant(value) for value in sources):
            named = any(view._constant_values[value] for value in sources)
            view._constant_values.update(dict.fromkeys(node.outputs, named))
        for value in sources:
            view.users.setdefault(value, []).append(node)
