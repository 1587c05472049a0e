"""A batch of images in turn, so that what one layer writes is still in the cache when the next one reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.lowering.window import by_letter
from webnn_xla.rewrites.editing import is_convolution
from webnn_xla.rewrites.layout import ELEMENTWISE, REDUCTIONS
from webnn_xla.rewrites.simplify import order_of

MAX_CORES: Final = 4
"""Cores for which each gets a part of the batch. With more of them, all share each layer of the whole batch."""

TURN_BYTES: Final = 4 << 20
"""What the largest tensor of a turn may take, unless one image takes more."""

PRODUCTS_PER_BYTE: Final = {True: 8, False: 32}
"""Products for each byte that ops write, up to which layers wait for memory: where cores share a turn, and on one core."""

Changes = Mapping[str, Any] | None
"""Attributes of the node for a part of the batch, where they differ; None where its parts depend on each other."""


def images_in_turn(graph: Graph, target: Target) -> Graph:
    """A network of convolutions over a batch → the same over parts of it, in a loop; parts for each core side by side.

    Every input and output has the batch as its first dimension, each op computes its images apart, and the network has few
    products for each byte that it writes, as depthwise convolutions have: its layers then wait for memory, unless what
    they pass on stays in the cache. For CPU, up to 4 cores.
    """
    if target.platform != "cpu" or target.cores > MAX_CORES or not any(map(is_convolution, graph.nodes)):
        return graph
    sizes = {value.descriptor.shape[0] if value.descriptor.rank else 1 for value in graph.inputs.values()}
    if len(sizes) != 1 or sizes == {1} or not _waits_for_memory(graph, target):
        return graph
    (batch,) = sizes
    part = _part(graph, batch)
    abreast = max(count for count in range(1, target.cores + 1) if batch // part % count == 0)
    split = None if part == batch else _split(graph, batch, part)
    return graph if split is None else replace(split, turns=batch // part // abreast, abreast=abreast)


def _waits_for_memory(graph: Graph, target: Target) -> bool:
    written = sum(value.descriptor.byte_length for value in graph.producers)
    return sum(map(_products, graph.nodes)) < PRODUCTS_PER_BYTE[target.cores > 1] * written


def _products(node: Node) -> int:
    if node.op.name in ("matmul", "gemm"):
        rows = node.operands["b"].descriptor.shape  # type: ignore[union-attr]
        return node.outputs[0].descriptor.element_count * rows[-1 if node.attributes.get("b_transpose") else -2]
    if not is_convolution(node):
        return 0
    # Each element of the output meets the filter of its channel; transposed, each element of the input.
    image, channel = (node.outputs[0], "o") if node.op.name == "conv2d" else (node.operands["input"], "i")
    filter = node.operands["filter"]
    assert isinstance(image, Value)
    assert isinstance(filter, Value)
    channels = by_letter(node.attributes["filter_layout"], filter.descriptor.shape)[channel]
    return image.descriptor.element_count * filter.descriptor.element_count // channels


def _part(graph: Graph, batch: int) -> int:
    """Images of one turn."""
    largest = max(value.descriptor.byte_length for value in graph.producers) // batch
    return max(count for count in range(1, batch + 1) if batch % count == 0 and (count == 1 or count * largest <= TURN_BYTES))


def _split(graph: Graph, batch: int, part: int) -> Graph | None:
    """``graph`` over ``part`` images; None where they depend on each other, or are not the first dimension of an output."""
    made: dict[Value, Value] = {}

    def shorten(value: Value) -> Value:
        descriptor = value.descriptor
        return made.setdefault(value, Value(descriptor.with_shape((part, *descriptor.shape[1:]))))

    for value in graph.inputs.values():
        shorten(value)
    nodes: list[Node] = []
    for node in graph.nodes:
        if not any(value in made for value in node.inputs()):
            nodes.append(node)
            continue
        rule = _RULES.get(node.op.name)
        changes = None if rule is None else rule(node, made, part)
        if changes is None or any(not value.descriptor.rank or value.descriptor.shape[0] != batch for value in node.outputs):
            return None
        outputs = tuple(map(shorten, node.outputs))
        operands = node.with_operands(lambda value: made.get(value, value)).operands
        nodes.append(Node(node.op, operands, {**node.attributes, **changes}, outputs, node.label))
    if not all(value in made for value in graph.outputs.values()):
        return None
    return Graph(
        {name: made[value] for name, value in graph.inputs.items()},
        graph.constants,
        tuple(nodes),
        {name: made[value] for name, value in graph.outputs.items()},
    )


# Rules: (node, values with the batch as their first dimension, images of a turn) → attributes


Batched = Mapping[Value, Value]


def _elementwise(node: Node, batched: Batched, part: int) -> Changes:
    """Also products of matrices of which there is one for each image."""
    rank = node.outputs[0].descriptor.rank
    return {} if all(_along_batch(value, rank, batched) for value in node.inputs()) else None


def _along_batch(value: Value, rank: int, batched: Batched) -> bool:
    """True if a result of ``rank`` dimensions has for each image what ``value`` has for it, or the same for all of them."""
    if value in batched:
        return value.descriptor.rank == rank
    return value.descriptor.rank < rank or value.descriptor.shape[0] == 1


def _only(name: str) -> Callable[[Node, Batched, int], Changes]:
    """Ops that treat each element of the first dimension of the operand ``name`` apart, if only that has the batch."""

    def rule(node: Node, batched: Batched, part: int) -> Changes:
        return {} if [value in batched for value in node.inputs()].count(True) == 1 and node.operands[name] in batched else None

    return rule


def _axes(name: str, default: tuple[int, ...] | None = None) -> Callable[[Node, Batched, int], Changes]:
    """Ops along dimensions ``name`` of their first operand; ``default`` stands for None, and None for all of them."""

    def rule(node: Node, batched: Batched, part: int) -> Changes:
        axes = default if node.attributes[name] is None else node.attributes[name]
        if axes is None or 0 in ((axes,) if isinstance(axes, int) else axes):
            return None
        first = next(iter(node.operands.values()))
        count = len(first) if isinstance(first, tuple) else 1
        own, others = node.inputs()[:count], node.inputs()[count:]
        return {} if all(value in batched for value in own) and not any(value in batched for value in others) else None

    return rule


def _shape(node: Node, batched: Batched, part: int) -> Changes:
    return {"new_shape": (part, *node.attributes["new_shape"][1:])}


def _spread(node: Node, batched: Batched, part: int) -> Changes:
    same = node.operands["input"].descriptor.rank == node.outputs[0].descriptor.rank  # type: ignore[union-attr]
    return _shape(node, batched, part) if same else None


def _kept(node: Node, batched: Batched, part: int) -> Changes:
    return {} if order_of(node)[0] == 0 else None


def _window(node: Node, batched: Batched, part: int) -> Changes:
    """All images, since the result has as many; a stride over the batch would leave fewer."""
    return {"sizes": (part, *node.attributes["sizes"][1:])}


def _squeezed(node: Node, batched: Batched, part: int) -> Changes:
    """By default all dimensions of 1 go, which the batch is not, but a part of it may be."""
    axes, shape = node.attributes["axes"], node.operands["input"].descriptor.shape  # type: ignore[union-attr]
    return {"axes": tuple(axis for axis, size in enumerate(shape) if size == 1) if axes is None else axes}


def _by_size(node: Node, batched: Batched, part: int) -> Changes:
    """Ops that leave the images as they are if they leave their number: padding and repetition."""
    return {}


def _rows(node: Node, batched: Batched, part: int) -> Changes:
    """A product of two matrices: the rows of ``a`` are images. Of more dimensions, it has a product for each."""
    if node.outputs[0].descriptor.rank > 2:
        return _elementwise(node, batched, part)
    a, b, added = node.operands["a"], node.operands["b"], node.operands.get("c")
    rows = a in batched and b not in batched and not node.attributes.get("a_transpose")
    return {} if rows and (not isinstance(added, Value) or _along_batch(added, 2, batched)) else None


_RULES: Final[dict[str, Callable[[Node, Batched, int], Changes]]] = {
    **dict.fromkeys(ELEMENTWISE - {"quantize_linear", "dequantize_linear"}, _elementwise),
    **dict.fromkeys(("conv2d", "conv_transpose2d", "instance_normalization"), _only("input")),
    **dict.fromkeys(("average_pool2d", "l2_pool2d", "max_pool2d"), _only("input")),
    **dict.fromkeys(("concat", "split", "softmax", "batch_normalization", "cumulative_sum"), _axes("axis")),
    **dict.fromkeys(REDUCTIONS, _axes("axes")),
    "resample2d": _axes("axes", (2, 3)),
    "layer_normalization": _axes("axes", ()),
    **dict.fromkeys(("gather", "arg_min", "arg_max"), _axes("axis")),
    **dict.fromkeys(("reverse", "unsqueeze"), _axes("axes")),
    "reshape": _shape,
    "expand": _spread,
    "transpose": _kept,
    "slice": _window,
    "pad": _by_size,
    "tile": _by_size,
    "squeeze": _squeezed,
    "matmul": _rows,
    "gemm": _rows,
}
