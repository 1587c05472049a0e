"""What of a graph depends on constants only, and so is computed once and not at every run.

Rewrites express transformed weights (another layout, batch normalization folded in) as ordinary nodes whose inputs are
constants. ``split`` moves them, and any such nodes that the user wrote, into two graphs of their own:

- ``fixed`` depends on unnamed constants: it runs once, at build; small results become literals of the program;
- ``loaded`` depends on a named constant as well: it runs at build, and again whenever ``load_weights`` brings data.

Their results are constants of ``main``, the graph that runs every time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from webnn_xla.graph import Constant, Graph, Node, Value

SMALL_BYTES: Final = 65536
"""Results up to this size are always prepared; larger ones unless they grow."""

GROWTH: Final = 2
"""A large result may take this many times the bytes of its operands: a dequantized weight stays quantized in memory."""


@dataclass(frozen=True)
class Split:
    """One graph as three; ``fixed`` and ``loaded`` are None where nothing is theirs."""

    main: Graph
    fixed: Graph | None
    loaded: Graph | None

    def with_fixed(self, results: dict[Value, Constant]) -> Graph:
        """``main`` with the results of ``fixed``."""
        return replace(self.main, constants={**self.main.constants, **results})


def split(graph: Graph) -> Split:
    """Partitions the nodes of ``graph``."""
    constant = graph.constant_values()
    users = graph.users()
    ready: set[Value] = set(graph.constants)
    prepared: list[Node] = []
    main: list[Node] = []
    for node in graph.nodes:
        if all(value in ready for value in node.inputs()) and not grows(node) and not is_free(node, users):
            prepared.append(node)
            ready.update(node.outputs)
        else:
            main.append(node)
    read = {value for node in main for value in node.inputs()}.union(graph.outputs.values())
    boundary = [value for node in prepared for value in node.outputs if value in read]
    constants = {**graph.constants, **{value: Constant(None) for value in boundary}}
    kept = replace(graph, constants=constants, nodes=tuple(main))
    return Split(
        kept.reachable(),
        _part(graph, prepared, [value for value in boundary if not constant[value]]),
        _part(graph, prepared, [value for value in boundary if constant[value]]),
    )


def grows(node: Node) -> bool:
    """True where computing the node ahead would take much more memory than its operands do."""
    result = sum(value.descriptor.byte_length for value in node.outputs)
    return result > SMALL_BYTES and result > GROWTH * sum(value.descriptor.byte_length for value in node.inputs())


def is_free(node: Node, users: dict[Value, list[Node | None]]) -> bool:
    """True for a transpose that the matrix products reading it absorb: done ahead, it would only cost memory."""
    if node.op.name != "transpose" or node.outputs[0].descriptor.byte_length <= SMALL_BYTES:
        return False
    rank = node.outputs[0].descriptor.rank
    order = node.attributes["permutation"] or tuple(range(rank))[::-1]
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    readers = users.get(node.outputs[0], [])
    return tuple(order) == swapped and all(reader is not None and reader.op.name == "matmul" for reader in readers)


def _part(graph: Graph, nodes: list[Node], results: list[Value]) -> Graph | None:
    if not results:
        return None
    return Graph({}, graph.constants, tuple(nodes), {str(index): value for index, value in enumerate(results)}).reachable()
