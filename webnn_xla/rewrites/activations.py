"""Activations that importers and web pages write out in small ops."""

from __future__ import annotations

import math
from typing import Any

from webnn_xla.graph import Graph, Node, Value
from webnn_xla.lowering.op import FLOATS, Target
from webnn_xla.rewrites.editing import Draft, View, rewrite_nodes


def recognise_gelu(graph: Graph, target: Target) -> Graph:
    """Both forms of GELU.

    ``0.5 * x * (1 + erf(x / sqrt(2)))`` → ``gelu``;
    ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))`` → ``gelu_tanh``.

    In any order and grouping of the products, where nothing else reads what is in between. Not in portable graphs.
    """
    return graph if target.platform == "portable" else rewrite_nodes(graph, _gelu)


def recognise_swish(graph: Graph, target: Target) -> Graph:
    """``x * sigmoid(x)`` → ``silu``; ``x * clamp(x + 3, 0, 6) / 6`` and ``x * hard_sigmoid(x, 1/6, 0.5)`` → ``hard_swish``.

    Where nothing else reads what is in between. Not in portable graphs.
    """
    return graph if target.platform == "portable" else rewrite_nodes(graph, _swish)


def factors(node: Node, view: View) -> tuple[float, list[Value]]:
    """A product as a number and its other factors, through products and quotients by numbers that nothing else reads."""
    number, found = 1.0, []

    def collect(value: Any) -> None:
        nonlocal number
        scalar = view.scalar(value)
        if scalar is not None:
            number *= scalar
            return
        inner = view.inner(value, "mul") or view.inner(value, "div")
        if inner is not None and expand(inner):
            return
        found.append(value)

    def expand(product: Node) -> bool:
        nonlocal number
        if product.op.name == "mul":
            collect(product.operands["a"])
            collect(product.operands["b"])
            return True
        divisor = view.scalar(product.operands["b"])
        if divisor is None or divisor == 0:
            return False
        number /= divisor
        collect(product.operands["a"])
        return True

    if not expand(node):
        return 1.0, [node.outputs[0]]
    return number, found


def _close(found: float, wanted: float) -> bool:
    return abs(found - wanted) <= 1e-3 * abs(wanted)


def _is_float(node: Node) -> bool:
    return node.outputs[0].descriptor.data_type in FLOATS


def _gelu(node: Node, view: View) -> Draft | None:
    if node.op.name not in ("mul", "div") or not _is_float(node):
        return None
    number, items = factors(node, view)
    if len(items) != 2 or not _close(number, 0.5):
        return None
    for x, gate in (items, items[::-1]):
        name = _gate(x, gate, view) if x.descriptor == node.outputs[0].descriptor else None
        if name is not None:
            draft = Draft(node.label)
            draft.emit(name, outputs=node.outputs, input=x)
            return draft
    return None


def _gate(x: Value, gate: Value, view: View) -> str | None:
    """The op whose gate ``1 + erf(…)`` or ``1 + tanh(…)`` of ``x`` it is."""
    total = view.inner(gate, "add")
    split = None if total is None else view.split_scalar(total)
    if split is None or not _close(split[1], 1.0):
        return None
    curve = view.inner(split[0], "erf") or view.inner(split[0], "tanh")
    argument = (
        None if curve is None else view.inner(curve.operands["input"], "mul") or view.inner(curve.operands["input"], "div")
    )
    if curve is None or argument is None:
        return None
    number, items = factors(argument, view)
    if curve.op.name == "erf":
        return "gelu" if items == [x] and _close(number, math.sqrt(0.5)) else None
    if len(items) != 1 or not _close(number, math.sqrt(2 / math.pi)):
        return None
    return "gelu_tanh" if _is_cubic(items[0], x, view) else None


def _is_cubic(value: Value, x: Value, view: View) -> bool:
    """True for ``x + 0.044715 * x ** 3``."""
    total = view.inner(value, "add")
    if total is None:
        return False
    for first, second in (("a", "b"), ("b", "a")):
        term = view.inner(total.operands[second], "mul")
        if total.operands[first] is x and term is not None:
            number, items = factors(term, view)
            if _close(number, 0.044715) and (items == [x] * 3 or (len(items) == 1 and _is_cube(items[0], x, view))):
                return True
    return False


def _is_cube(value: Value, x: Value, view: View) -> bool:
    power = view.inner(value, "pow")
    return power is not None and power.operands["a"] is x and view.is_scalar(power.operands["b"], 3.0)


def _swish(node: Node, view: View) -> Draft | None:
    if node.op.name not in ("mul", "div") or not _is_float(node):
        return None
    number, items = factors(node, view)
    if len(items) != 2:
        return None
    for x, gate in (items, items[::-1]):
        name = _swish_gate(x, gate, number, view) if x.descriptor == node.outputs[0].descriptor else None
        if name is not None:
            draft = Draft(node.label)
            draft.emit(name, outputs=node.outputs, input=x)
            return draft
    return None


def _swish_gate(x: Value, gate: Value, number: float, view: View) -> str | None:
    sigmoid = view.inner(gate, "sigmoid")
    if sigmoid is not None and sigmoid.operands["input"] is x and number == 1.0:
        return "silu"
    hard = view.inner(gate, "hard_sigmoid")
    if hard is not None and hard.operands["input"] is x and number == 1.0:
        return "hard_swish" if _close(hard.attributes["alpha"], 1 / 6) and _close(hard.attributes["beta"], 0.5) else None
    clamp = view.inner(gate, "clamp")
    shifted = None if clamp is None else view.inner(clamp.operands["input"], "add")
    split = None if shifted is None else view.split_scalar(shifted)
    if clamp is None or split is None or split[0] is not x or not _close(split[1], 3.0) or not _close(number, 1 / 6):
        return None
    low, high = clamp.attributes["min_value"], clamp.attributes["max_value"]
    return "hard_swish" if low == 0 and high == 6 else None
