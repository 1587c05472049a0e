"""Ops in terms of simpler ops, as the specification's text gives them: a second opinion on each lowering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webnn_xla.dtypes import EXTENSION_TYPES, cast_number
from webnn_xla.graph import Constant, Graph, Node, Value
from webnn_xla.lowering.op import OPS, Op
from webnn_xla.rewrites.editing import Draft


def emulated() -> tuple[str, ...]:
    """The names of the ops that have an emulation."""
    return tuple(name for name, op in OPS.items() if _rule(op) is not None)


def decompose(graph: Graph) -> Graph:
    """``graph`` with every op that has an ``emulate`` replaced by what that composes, and so on until none is left.

    Nodes that compute in extension types stay, since not all of the simpler ops take them.
    """
    constants: dict[Value, Constant] = dict(graph.constants)
    nodes: list[Node] = []
    replaced: dict[Value, Value] = {}

    def add(node: Node) -> None:
        node = node.with_operands(lambda value: replaced.get(value, value))
        rule = _rule(node.op)
        if rule is None or _extended(node):
            nodes.append(node)
            return
        draft = Draft(node.label)
        arguments: dict[str, Any] = dict.fromkeys(node.op.operands())
        arguments.update({name: list(item) if isinstance(item, tuple) else item for name, item in node.operands.items()})
        made = rule(_Composer(draft), **arguments, **node.attributes)
        results = list(made) if isinstance(made, (list, tuple)) else [made]
        constants.update(draft.constants)
        for inner in draft.nodes:
            add(inner)
        for old, new in zip(node.outputs, results, strict=True):
            if old.descriptor != new.descriptor:
                raise TypeError(f"{node.op.name}: the emulation gives {new.descriptor} for {old.descriptor}")
            replaced[old] = replaced.get(new, new)

    for node in graph.nodes:
        add(node)
    outputs: dict[str, Value] = {}
    made_by_nodes = {value for node in nodes for value in node.outputs}
    for name, value in graph.outputs.items():
        result = replaced.get(value, value)
        if result not in made_by_nodes:
            # An op that does nothing passes its operand on, but an output has to be the result of an op.
            passed = Draft()
            result = passed.emit("identity", input=result)
            nodes += passed.nodes
        outputs[name] = result
    return Graph(graph.inputs, constants, tuple(nodes), outputs).reachable()


class _Composer:
    """A method for every op, called with values and arguments in the declared order; writes to a draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def scalar(self, number: int | float, like: Value) -> Value:
        data_type = like.descriptor.data_type
        return self._draft.constant(cast_number(number, data_type), data_type)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = OPS.get(name)
        if op is None:
            raise AttributeError(name)
        names = list(op.arguments)

        def call(*args: Any, **options: Any) -> Any:
            first = self._draft.emit(name, **dict(zip(names, args, strict=False)), **options)
            outputs = self._draft.nodes[-1].outputs
            return first if len(outputs) == 1 else list(outputs)

        return call


def _rule(op: type[Op]) -> Callable[..., Any] | None:
    rule: Callable[..., Any] | None = getattr(op, "emulate", None)
    return rule


def _extended(node: Node) -> bool:
    return any(value.descriptor.data_type in EXTENSION_TYPES for value in (*node.inputs(), *node.outputs))


__all__: list[str] = ["decompose", "emulated"]
