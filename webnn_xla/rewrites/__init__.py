"""Rewrites: for speed only. Each maps a graph to a graph that computes the same, within the ops' tolerances.

A rewrite is one small pure function ``(graph, target) -> graph`` in its own file, whose docstring states its rule. Its name
is its switch: ``create_context(optimize={"fold_batch_norm", …})`` runs only those named. ``REWRITES`` is the order in which
they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from webnn_xla.errors import ArgumentError
from webnn_xla.graph import Graph, Node
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites.activations import recognise_gelu, recognise_swish
from webnn_xla.rewrites.attention import recognise_attention
from webnn_xla.rewrites.caches import scatter_as_update
from webnn_xla.rewrites.columns import widen_columns
from webnn_xla.rewrites.depthwise import depthwise_as_multiply_add, small_groups_as_multiply_add
from webnn_xla.rewrites.fold_batch_norm import fold_batch_norm
from webnn_xla.rewrites.fold_scale import fold_scale
from webnn_xla.rewrites.groups import split_groups
from webnn_xla.rewrites.layout import channels_last
from webnn_xla.rewrites.normalization import recognise_normalization
from webnn_xla.rewrites.patches import few_channels_as_patches
from webnn_xla.rewrites.pointwise import pointwise_as_matmul
from webnn_xla.rewrites.quantized import dequantize_in_matmul
from webnn_xla.rewrites.simplify import merge_equal_nodes, remove_no_ops
from webnn_xla.rewrites.transposed import transposed_as_subpixel
from webnn_xla.rewrites.turns import images_in_turn

Rewrite = Callable[[Graph, Target], Graph]
Optimize = bool | Iterable[str]


@dataclass(frozen=True)
class Fired:
    """One place where a rewrite changed the graph: the node that was there, and those that are there now."""

    rewrite: str
    before: Node
    after: tuple[Node, ...]
    note: str = ""
    """In place of the new nodes, where they are the old ones."""

    def __str__(self) -> str:
        label = f" [{self.before.label}]" if self.before.label else ""
        names = [node.op.name for node in self.after]
        shown = ", ".join(names if len(names) <= 4 else [f"{len(names) - 3} nodes", *names[-3:]])
        return f"{self.rewrite}: {self.before.op.name}{label} → {self.note or shown or 'nothing'}"


REWRITES: Final[tuple[Rewrite, ...]] = (
    remove_no_ops,
    images_in_turn,
    merge_equal_nodes,
    recognise_gelu,
    recognise_swish,
    recognise_normalization,
    recognise_attention,
    dequantize_in_matmul,
    scatter_as_update,
    fold_batch_norm,
    fold_scale,
    split_groups,
    channels_last,
    transposed_as_subpixel,
    remove_no_ops,
    pointwise_as_matmul,
    depthwise_as_multiply_add,
    small_groups_as_multiply_add,
    few_channels_as_patches,
    widen_columns,
    merge_equal_nodes,
)
"""In order."""

NAMES: Final = tuple(dict.fromkeys(rewrite.__name__ for rewrite in REWRITES))


def chosen(optimize: Optimize, operator: str = "create_context") -> frozenset[str]:
    """The names of the rewrites that ``optimize`` asks for. ArgumentError for one that does not exist."""
    if isinstance(optimize, bool):
        return frozenset(NAMES) if optimize else frozenset()
    names = frozenset([optimize] if isinstance(optimize, str) else optimize)
    unknown = sorted(map(str, names.difference(NAMES)))
    if unknown:
        raise ArgumentError(f"got {', '.join(unknown)}; allowed: {', '.join(NAMES)}", operator=operator, operand="optimize")
    return names


def apply(graph: Graph, target: Target, names: frozenset[str]) -> tuple[Graph, tuple[Fired, ...]]:
    """``graph`` after the rewrites named, and where they fired."""
    fired: list[Fired] = []
    for rewrite in REWRITES:
        if rewrite.__name__ in names:
            after = rewrite(graph, target)
            if after is not graph:
                fired += differences(rewrite.__name__, graph, after)
                graph = after
    return graph, tuple(fired)


def differences(name: str, before: Graph, after: Graph) -> list[Fired]:
    """The nodes of ``before`` whose results other nodes compute in ``after``, each with the new nodes that feed them."""
    if before.parts != after.parts:
        size = next(iter(after.outputs.values())).descriptor.shape[0]
        note = f"the graph in {after.turns} turns, of {after.abreast} × {size} of {size * after.parts}"
        return [Fired(name, before.nodes[-1], after.nodes[-1:], note)]
    old = set(before.nodes)
    places: list[Fired] = []
    new: list[Node] = []
    for node in after.nodes:
        if node in old:
            continue
        new.append(node)
        replaced = next((before.producers[value] for value in node.outputs if value in before.producers), None)
        if replaced is not None:
            if replaced.op is not node.op or replaced.attributes != node.attributes or len(new) > 1:
                places.append(Fired(name, replaced, tuple(new)))
            new = []
    if not places:
        gone = [node for node in before.nodes if node not in set(after.nodes) and not _same_outputs(node, after)]
        places = [Fired(name, node, ()) for node in gone]
    return places


def _same_outputs(node: Node, graph: Graph) -> bool:
    return any(value in graph.producers for value in node.outputs)
