"""Images with channels last, inside: transposes only where a graph asks for the other order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import Target
from webnn_xla.rewrites.depthwise import has_few_channels
from webnn_xla.rewrites.editing import Draft, is_convolution
from webnn_xla.rewrites.pointwise import is_pointwise
from webnn_xla.rewrites.simplify import order_of
from webnn_xla.rewrites.transposed import is_spread

Order = tuple[int, ...]

PLAIN: Final[Order] = (0, 1, 2, 3)
LAST: Final[Order] = (0, 2, 3, 1)
PLATFORMS: Final = ("cpu", "gpu", "cuda", "rocm")
FILTER_ORDER: Final = "hwio"

ELEMENTWISE: Final = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "max",
        "min",
        "pow",
        "equal",
        "not_equal",
        "greater",
        "greater_or_equal",
        "lesser",
        "lesser_or_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "abs",
        "ceil",
        "cos",
        "erf",
        "exp",
        "floor",
        "identity",
        "is_infinite",
        "is_nan",
        "log",
        "neg",
        "reciprocal",
        "round_even",
        "sign",
        "sin",
        "sqrt",
        "tan",
        "where",
        "cast",
        "clamp",
        "elu",
        "gelu",
        "hard_sigmoid",
        "hard_swish",
        "leaky_relu",
        "linear",
        "prelu",
        "relu",
        "sigmoid",
        "softplus",
        "softsign",
        "tanh",
        "quantize_linear",
        "dequantize_linear",
        "gelu_tanh",
        "silu",
    ]
)


def channels_last(graph: Graph, target: Target) -> Graph:
    """Every ``conv2d`` and ``conv_transpose2d`` in ``nchw`` computes in ``nhwc``, with a filter in ``hwio`` if it is constant.

    But in groups, or as a matrix product (a filter of 1×1, or windows of a transposed one side by side) of a batch of 1,
    only if its image comes so: these are as fast in ``nchw``. So is the convolution of an image of few channels, if it is
    the only one.

    One walk from the inputs on: each 4-D value is held in the order in which it was computed, and transposed to the other
    only where a node asks for that. Elementwise nodes, pooling, normalization, resampling, concat, split, pad, slice and
    reductions compute in the order that their image comes in; so transposes meet, and cancel, until a node that knows only
    the plain order, or the graph's output. Constants are transposed by nodes of constants: once. For CPU and GPU.
    """
    if target.platform not in PLATFORMS or not any(_is_seed(node) for node in graph.nodes):
        return graph
    convolutions = list(filter(is_convolution, graph.nodes))
    if len(convolutions) == 1 and has_few_channels(convolutions[0]):
        return graph
    return _Walk(graph).run()


def _is_seed(node: Node) -> bool:
    """True for a node that is worth transposes of its own. Others follow the image that they get."""
    if not is_convolution(node) or node.attributes["input_layout"] != "nchw":
        return False
    return bool(node.attributes["groups"] == 1) and not is_pointwise(node) and not (is_spread(node) and _batch(node) == 1)


def _batch(node: Node) -> int:
    return node.outputs[0].descriptor.shape[0]


class _Walk:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.draft = Draft()
        self.versions: dict[Value, dict[Order, Value]] = {}
        self.constant = graph.constant_values()

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self.draft.label = node.label
            handler = _HANDLERS.get(node.op.name)
            if all(value in self.constant for value in node.inputs()) or handler is None or not handler(self, node):
                self.draft.add(node.with_operands(self.plain))
        outputs = {name: self.plain(value) for name, value in self.graph.outputs.items()}
        constants = {**self.graph.constants, **self.draft.constants}
        return replace(self.graph, constants=constants, nodes=tuple(self.draft.nodes), outputs=outputs).reachable()

    # Values in an order

    def is_last(self, value: Any) -> bool:
        """True if the value was computed with channels last."""
        return isinstance(value, Value) and next(iter(self.versions.get(value, {})), PLAIN) == LAST

    def plain(self, value: Value) -> Value:
        return self.get(value, PLAIN)

    def get(self, value: Value, order: Order) -> Value:
        """``value`` with its dimensions in ``order``; a transpose, or a reshape where only ones move, if need be."""
        held = self.versions.get(value)
        if held is None:
            if order == PLAIN:
                return value
            held = self.versions[value] = {PLAIN: value}
        if order not in held:
            source, made = next(iter(held.items()))
            step = tuple(source.index(axis) for axis in order)
            held[order] = self._moved(made, step)
        return held[order]

    def _moved(self, value: Value, step: Order) -> Value:
        if step == tuple(range(len(step))):
            return value
        shape = value.descriptor.shape
        if [axis for axis in step if shape[axis] != 1] == [axis for axis in range(len(shape)) if shape[axis] != 1]:
            return self.draft.emit("reshape", input=value, new_shape=tuple(shape[axis] for axis in step))
        return self.draft.emit("transpose", input=value, permutation=step)

    def last(self, value: Value) -> Value:
        """``value`` with channels last; one of lower rank with ones before its dimensions, as broadcasting has them."""
        rank = value.descriptor.rank
        if rank == 4:
            return self.get(value, LAST)
        if value.descriptor.element_count == 1 and rank == 0:
            return value
        key = (-1, *LAST)
        held = self.versions.setdefault(value, {PLAIN: value})
        if key not in held:
            shape = (1,) * (4 - rank) + tuple(value.descriptor.shape)
            held[key] = self._moved(self.draft.emit("reshape", input=self.plain(value), new_shape=shape), LAST)
        return held[key]

    # Nodes

    def emit(self, node: Node, operands: dict[str, Any], **changed: Any) -> bool:
        """The node with other operands and attributes; its 4-D results have channels last."""
        descriptors = [value.descriptor for value in node.outputs]
        made = tuple(Value(item.with_shape([item.shape[axis] for axis in LAST])) for item in descriptors)
        self.draft.add(Node(node.op, operands, {**node.attributes, **changed}, made, node.label))
        for value, new in zip(node.outputs, made, strict=True):
            self.versions[value] = {LAST: new}
        return True

    def convolution(self, node: Node) -> bool:
        if node.attributes["input_layout"] != "nchw" or not (_is_seed(node) or self.is_last(node.operands["input"])):
            return False
        operands: dict[str, Any] = dict(node.operands)
        operands["input"] = self.last(operands["input"])
        changed = {"input_layout": "nhwc"}
        layout, filter = node.attributes["filter_layout"], operands["filter"]
        if node.op.name == "conv2d" and filter in self.constant and layout != FILTER_ORDER:
            order = tuple(layout.index(letter) for letter in FILTER_ORDER)
            operands["filter"] = self._moved(filter, order)
            changed["filter_layout"] = FILTER_ORDER
        return self.emit(node, operands, **changed)

    def elementwise(self, node: Node) -> bool:
        if node.outputs[0].descriptor.rank != 4 or not any(self.is_last(value) for value in node.inputs()):
            return False
        operands = {name: self.last(value) for name, value in node.operands.items() if isinstance(value, Value)}
        return self.emit(node, operands)

    def image(self, node: Node) -> bool:
        """Pooling and instance normalization: a layout option."""
        if not self.is_last(node.operands["input"]) or node.attributes["layout"] != "nchw":
            return False
        return self.emit(node, {**node.operands, "input": self.last(node.operands["input"])}, layout="nhwc")  # type: ignore[arg-type]

    def axis(self, node: Node) -> bool:
        """Ops with one axis."""
        first = next(iter(node.operands.values()))
        group = first if isinstance(first, tuple) else (first,)
        if not any(self.is_last(value) for value in group) or node.outputs[0].descriptor.rank != 4:
            return False
        moved: Any = tuple(map(self.last, group))
        operands: dict[str, Any] = {**node.operands, next(iter(node.operands)): moved if isinstance(first, tuple) else moved[0]}
        return self.emit(node, operands, axis=LAST.index(node.attributes["axis"]))

    def resample(self, node: Node) -> bool:
        if not self.is_last(node.operands["input"]):
            return False
        axes = node.attributes["axes"] or (2, 3)
        moved = tuple(LAST.index(axis) for axis in axes)
        return self.emit(node, {"input": self.last(node.operands["input"])}, axes=moved)  # type: ignore[arg-type]

    def per_dimension(self, *names: str) -> Callable[[Node], bool]:
        """Ops whose attributes ``names`` have one number for each dimension."""

        def handle(node: Node) -> bool:
            if not self.is_last(node.operands["input"]):
                return False
            changed = {
                name: None if node.attributes[name] is None else tuple(node.attributes[name][axis] for axis in LAST)
                for name in names
            }
            return self.emit(node, {"input": self.last(node.operands["input"])}, **changed)  # type: ignore[arg-type]

        return handle

    def reduction(self, node: Node) -> bool:
        source = node.operands["input"]
        if not self.is_last(source) or not isinstance(source, Value):
            return False
        axes = node.attributes["axes"]
        axes = (0, 1, 2, 3) if axes is None else axes
        moved = tuple(sorted(LAST.index(axis) for axis in axes))
        if node.attributes["keep_dimensions"]:
            return self.emit(node, {"input": self.last(source)}, axes=moved)
        left = [axis for axis in LAST if axis not in axes]
        if left != sorted(left):
            return False
        self.draft.add(
            Node(node.op, {"input": self.last(source)}, {**node.attributes, "axes": moved}, node.outputs, node.label)
        )
        return True

    def transpose(self, node: Node) -> bool:
        source = node.operands["input"]
        if not self.is_last(source) or not isinstance(source, Value):
            return False
        order = order_of(node)
        step = tuple(LAST.index(axis) for axis in order)
        self.versions[node.outputs[0]] = {PLAIN: self._moved(self.last(source), step)}
        return True

    def reshape(self, node: Node) -> bool:
        """Where height and width are 1, or there is one channel, both orders lie alike in memory."""
        source = node.operands["input"]
        if not self.is_last(source) or not isinstance(source, Value):
            return False
        _, channels, height, width = source.descriptor.shape
        if channels != 1 and height * width != 1:
            return False
        self.draft.add(Node(node.op, {"input": self.last(source)}, node.attributes, node.outputs, node.label))
        return True


def _per_dimension(*names: str) -> Callable[[_Walk, Node], bool]:
    return lambda walk, node: walk.per_dimension(*names)(node)


REDUCTIONS: Final[Sequence[str]] = (
    "reduce_l1", "reduce_l2", "reduce_log_sum", "reduce_log_sum_exp", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_product", "reduce_sum", "reduce_sum_square",
)  # fmt: skip

_HANDLERS: Final[dict[str, Callable[[_Walk, Node], bool]]] = {
    "conv2d": _Walk.convolution,
    "conv_transpose2d": _Walk.convolution,
    **dict.fromkeys(ELEMENTWISE, _Walk.elementwise),
    **dict.fromkeys(("average_pool2d", "l2_pool2d", "max_pool2d", "instance_normalization"), _Walk.image),
    **dict.fromkeys(("concat", "split", "softmax", "batch_normalization", "cumulative_sum"), _Walk.axis),
    "resample2d": _Walk.resample,
    "pad": _per_dimension("beginning_padding", "ending_padding"),
    "slice": _per_dimension("starts", "sizes", "strides"),
    "tile": _per_dimension("repetitions"),
    **dict.fromkeys(REDUCTIONS, _Walk.reduction),
    "transpose": _Walk.transpose,
    "reshape": _Walk.reshape,
}
