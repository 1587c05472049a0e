"""The graph: an immutable record of what the builder was told. Rewrites map graphs to graphs; lowering reads them.

Values are compared by identity: a value is the output of one node, an input, or a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webnn_xla.dtypes import Descriptor
from webnn_xla.lowering.op import Op


class Value:
    """One tensor in a graph."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: Descriptor) -> None:
        self.descriptor = descriptor

    def __repr__(self) -> str:
        return f"<Value {self.descriptor}>"


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One operator: operands and attributes by declared name. Operands left out are absent, attributes never are."""

    op: type[Op]
    operands: Mapping[str, Value | tuple[Value, ...]]
    attributes: Mapping[str, Any]
    outputs: tuple[Value, ...]
    label: str = ""

    def inputs(self) -> Iterator[Value]:
        for operand in self.operands.values():
            if isinstance(operand, tuple):
                yield from operand
            else:
                yield operand

    def __repr__(self) -> str:
        label = f" [{self.label}]" if self.label else ""
        return f"<Node {self.op.name}{label} -> {', '.join(str(value.descriptor) for value in self.outputs)}>"


@dataclass(frozen=True, eq=False, slots=True)
class Constant:
    """Payload of a constant: a NumPy or JAX array in the type and shape of its value.

    ``data`` is None where the weights are loaded after the build; such a constant has a name.
    """

    data: Any
    name: str = ""


@dataclass(frozen=True, eq=False)
class Graph:
    """Inputs and outputs by name, nodes in an order in which every value comes before its use."""

    inputs: Mapping[str, Value]
    constants: Mapping[Value, Constant]
    nodes: tuple[Node, ...]
    outputs: Mapping[str, Value]
    producers: Mapping[Value, Node] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "producers", {value: node for node in self.nodes for value in node.outputs})

    def reachable(self) -> Graph:
        """This graph without the nodes, inputs and constants that no output depends on."""
        needed: set[Value] = set(self.outputs.values())
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                kept.append(node)
                needed.update(node.inputs())
        return Graph(
            {name: value for name, value in self.inputs.items() if value in needed},
            {value: constant for value, constant in self.constants.items() if value in needed},
            tuple(reversed(kept)),
            self.outputs,
        )

    def named_constants(self) -> dict[str, Value]:
        """Constants that were declared with a name, for ``load_weights``."""
        return {constant.name: value for value, constant in self.constants.items() if constant.name}

    def replace_constants(self, data: Mapping[Value, Any]) -> Graph:
        """This graph with other payloads for some constants."""
        constants = {
            value: Constant(data[value], constant.name) if value in data else constant
            for value, constant in self.constants.items()
        }
        return Graph(self.inputs, constants, self.nodes, self.outputs)
