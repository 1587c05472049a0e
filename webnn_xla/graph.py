"""The graph: an immutable record of what the builder was told. Rewrites map graphs to graphs; lowering reads them.

Values are compared by identity: a value is the output of one node, an input, or a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
    _inputs: tuple[Value, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        sources: list[Value] = []
        for operand in self.operands.values():
            if isinstance(operand, tuple):
                sources += operand
            else:
                sources.append(operand)
        object.__setattr__(self, "_inputs", tuple(sources))

    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads, in the order of its operands."""
        return self._inputs

    def with_operands(self, change: Callable[[Value], Value]) -> Node:
        """This node reading ``change(value)`` in place of each value; itself if nothing changes."""
        operands = {
            name: tuple(map(change, operand)) if isinstance(operand, tuple) else change(operand)
            for name, operand in self.operands.items()
        }
        return self if operands == self.operands else Node(self.op, operands, self.attributes, self.outputs, self.label)

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
    """Inputs and outputs by name, nodes in an order in which every value comes before its use.

    With ``turns`` or ``abreast`` above 1, a graph of rewrites, it is to run on that many equal parts of its inputs along their
    first dimension: ``abreast`` side by side in each turn. Its values have the shapes of one part.
    """

    inputs: Mapping[str, Value]
    constants: Mapping[Value, Constant]
    nodes: tuple[Node, ...]
    outputs: Mapping[str, Value]
    turns: int = 1
    abreast: int = 1
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
        return replace(
            self,
            inputs={name: value for name, value in self.inputs.items() if value in needed},
            constants={value: constant for value, constant in self.constants.items() if value in needed},
            nodes=tuple(reversed(kept)),
        )

    @property
    def parts(self) -> int:
        """How many parts of its inputs the graph runs on."""
        return self.turns * self.abreast

    def whole(self, value: Value) -> Descriptor:
        """The descriptor of an input or output, all parts together."""
        descriptor = value.descriptor
        if self.parts == 1:
            return descriptor
        return descriptor.with_shape((self.parts * descriptor.shape[0], *descriptor.shape[1:]))

    def users(self) -> dict[Value, list[Node | None]]:
        """Who reads each value: nodes, once for each operand, and None for each output of the graph."""
        users: dict[Value, list[Node | None]] = {}
        for node in self.nodes:
            for value in node.inputs():
                users.setdefault(value, []).append(node)
        for value in self.outputs.values():
            users.setdefault(value, []).append(None)
        return users

    def constant_values(self) -> dict[Value, bool]:
        """Values that no input reaches; True where a named constant does, so that ``load_weights`` may change them."""
        constant = {value: bool(payload.name) for value, payload in self.constants.items()}
        for node in self.nodes:
            sources = node.inputs()
            if all(value in constant for value in sources):
                named = any(constant[value] for value in sources)
                constant.update(dict.fromkeys(node.outputs, named))
        return constant

    def substitute(self, mapping: Mapping[Value, Value]) -> Graph:
        """This graph with some values read in place of others (to the end of each chain), and without what is dead then."""
        if not mapping:
            return self

        def resolve(value: Value) -> Value:
            while value in mapping:
                value = mapping[value]
            return value

        return replace(
            self,
            nodes=tuple(node.with_operands(resolve) for node in self.nodes),
            outputs={name: resolve(value) for name, value in self.outputs.items()},
        ).reachable()

    def named_constants(self) -> dict[str, Value]:
        """Constants that were declared with a name, for ``load_weights``."""
        return {constant.name: value for value, constant in self.constants.items() if constant.name}

    def replace_constants(self, data: Mapping[Value, Any]) -> Graph:
        """This graph with other payloads for some constants."""
        constants = {
            value: Constant(data[value], constant.name) if value in data else constant
            for value, constant in self.constants.items()
        }
        return replace(self, constants=constants)
