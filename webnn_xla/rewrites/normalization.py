"""Normalizations that are written out in small ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import FLOATS, Target
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes


def recognise_normalization(graph: Graph, target: Target) -> Graph:
    """Layer and RMS normalization.

    ``(x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + e)`` → ``layer_normalization``;
    ``x / sqrt(mean(x ** 2) + e)`` → ``rms_normalization``.

    Over the last dimension, with means that keep it; the quotient may be a product with the reciprocal, the square a
    power of 2. A product with a constant vector after it is the scale, a sum after that the bias (of the layer
    normalization). Where nothing else reads what is in between. Not in portable graphs.
    """
    return graph if target.platform == "portable" else _affine(rewrite_nodes(graph, _core))


def _affine(graph: Graph) -> Graph:
    """Scale, then bias."""
    for rule in (_scale, _bias):
        graph = rewrite_nodes(graph, rule)
    return graph


@dataclass(frozen=True)
class _Quotient:
    numerator: Value
    epsilon: float
    squared: Value


def _core(node: Node, view: View) -> Draft | None:
    if node.op.name not in ("div", "mul") or node.outputs[0].descriptor.data_type not in FLOATS:
        return None
    found = _quotient(node, view)
    if found is None or found.squared is not found.numerator:
        return None
    x = found.numerator
    draft = Draft(node.label)
    centred = view.producer(x, "sub")
    if centred is not None and _is_mean(centred.operands["b"], centred.operands["a"], view):
        # Read by the square and by the quotient, and by nothing else.
        readers = view.users.get(x, [])
        if None not in readers and len(set(readers)) == 2:
            source = centred.operands["a"]
            assert isinstance(source, Value)
            axes = (source.descriptor.rank - 1,)
            draft.emit("layer_normalization", outputs=node.outputs, input=source, axes=axes, epsilon=found.epsilon)
            return draft
    draft.emit("rms_normalization", outputs=node.outputs, input=x, epsilon=found.epsilon)
    return draft


def _quotient(node: Node, view: View) -> _Quotient | None:
    """``a / sqrt(mean(s * s) + e)`` or ``a * reciprocal(sqrt(…))``."""
    a, b = node.operands["a"], node.operands["b"]
    for top, bottom in ((a, b), (b, a)):
        if node.op.name == "mul":
            inverse = view.inner(bottom, "reciprocal")
            bottom = inverse.operands["input"] if inverse is not None else None  # type: ignore[assignment]
        elif top is b:
            continue
        root = view.inner(bottom, "sqrt")
        total = None if root is None else view.inner(root.operands["input"], "add")
        split = None if total is None else view.split_scalar(total)
        mean = None if split is None else view.inner(split[0], "reduce_mean")
        if split is None or mean is None or not isinstance(top, Value) or not _over_last(mean):
            continue
        squared = _squared(mean.operands["input"], view)
        if squared is not None and top.descriptor == node.outputs[0].descriptor:
            return _Quotient(top, split[1], squared)
    return None


def _squared(value: object, view: View) -> Value | None:
    product = view.inner(value, "mul")
    if product is not None and product.operands["a"] is product.operands["b"]:
        return product.operands["a"]  # type: ignore[return-value]
    power = view.inner(value, "pow")
    if power is not None and view.is_scalar(power.operands["b"], 2.0):
        return power.operands["a"]  # type: ignore[return-value]
    return None


def _over_last(mean: Node) -> bool:
    source = mean.operands["input"]
    assert isinstance(source, Value)
    axes = mean.attributes["axes"]
    return bool(mean.attributes["keep_dimensions"]) and axes is not None and tuple(axes) == (source.descriptor.rank - 1,)


def _is_mean(value: object, of: object, view: View) -> bool:
    mean = view.inner(value, "reduce_mean")
    return mean is not None and mean.operands["input"] is of and _over_last(mean)


def _vector(value: object, view: View, size: int) -> bool:
    return isinstance(value, Value) and view.is_constant(value) and tuple(value.descriptor.shape) == (size,)


def _scale(node: Node, view: View) -> Draft | None:
    return _absorb(node, view, "mul", "scale", ("rms_normalization", "layer_normalization"))


def _bias(node: Node, view: View) -> Draft | None:
    return _absorb(node, view, "add", "bias", ("layer_normalization",))


def _absorb(node: Node, view: View, op: str, operand: str, names: tuple[str, ...]) -> Draft | None:
    if node.op.name != op:
        return None
    a, b = node.operands["a"], node.operands["b"]
    for x, vector in ((a, b), (b, a)):
        for name in names:
            norm = view.inner(x, name)
            if norm is None or operand in norm.operands or "bias" in norm.operands:
                continue
            source = norm.operands["input"]
            assert isinstance(source, Value)
            last = source.descriptor.rank - 1
            axes = norm.attributes.get("axes", (last,))
            if tuple(axes or ()) != (last,) or not _vector(vector, view, source.descriptor.shape[-1]):
                continue
            draft = Draft(norm.label or node.label)
            arguments: dict[str, Any] = {**norm.operands, **norm.attributes, operand: vector}
            draft.emit(name, outputs=node.outputs, **arguments)
            return draft
    return None
