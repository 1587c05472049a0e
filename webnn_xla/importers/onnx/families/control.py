"""If, Loop and Scan: unrolled on import. An ``If`` on data computes both branches and selects."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from webnn_xla.importers.onnx.errors import Malformed, NeedsValue, Unsupported
from webnn_xla.importers.onnx.importer import Env, Skip
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import INT64
from webnn_xla.importers.onnx.values import Gap, Tensor, Value

MAX_TRIPS = 4096
"""Iterations that are written out."""


def run(n: Node, name: str, inputs: Sequence[Value], step: int | None = None) -> list[Value]:
    """The outputs of a subgraph attribute on the given inputs."""
    graph = n.attributes.get(name)
    if not isinstance(graph, onnx.GraphProto):
        raise Malformed(f"attribute {name} is no graph")
    suffix = "" if step is None else f"[{step}]"
    scope = (*n.env.scope, next((output for output in n.outputs if output), ""), name)
    env = Env(n.env.opsets, f"{n.label}{suffix}/", n.env.depth + 1, n.env, None, scope)
    if len(graph.input) != len(inputs):
        raise Malformed(f"{name} has {len(graph.input)} inputs for {len(inputs)} values")
    env.values.update(zip((info.name for info in graph.input), inputs, strict=True))
    outputs = n.importer.graph(graph, env)
    if any(isinstance(value, Gap) for value in outputs):
        raise Skip
    return [value for value in outputs if not isinstance(value, Gap)]


@onnx_op("If")
def if_op(n: Node) -> list[Value]:
    condition = n[0]
    if condition.data is not None:
        return run(n, "then_branch" if bool(np.all(condition.data)) else "else_branch", [])
    shapes = n.importer.shapes
    if n.importer.specialize and condition.sources and all(math.prod(shapes[name]) == 1 for name in condition.sources):
        raise NeedsValue("the condition (input 0)", condition.sources)
    before = len(n.importer.problems)
    try:
        yes, no = run(n, "then_branch", []), run(n, "else_branch", [])
        results: list[Value] = []
        for a, b in zip(yes, no, strict=True):
            if not isinstance(a, Tensor) or not isinstance(b, Tensor) or (a.dtype, a.shape) != (b.dtype, b.shape):
                raise Unsupported("branches of different types or shapes")
            results.append(n.where(n.to(condition, []), a, b))
        return results
    except (Skip, Unsupported, Malformed, NeedsValue):
        # A branch that cannot be taken for these shapes may well not import: only the condition's value tells.
        del n.importer.problems[before:]
        raise NeedsValue("the condition (input 0)", condition.sources) from None


@onnx_op("Loop")
def loop(n: Node) -> list[Value]:
    graph = n.attributes.get("body")
    if not isinstance(graph, onnx.GraphProto):
        raise Malformed("attribute body is no graph")
    limit = n.get(0)
    trips = MAX_TRIPS + 1 if limit is None else n.known_int(0, "the trip count")
    condition = n.get(1)
    state: list[Value] = [n.value(k) for k in range(2, len(n.inputs))]
    going = True
    if condition is not None:
        going = bool(np.all(n.known(condition, "the condition (input 1)")))
    count = len(state)
    scanned: list[list[Tensor]] = [[] for _ in range(len(graph.output) - 1 - count)]
    step = 0
    while going and step < trips:
        if step >= MAX_TRIPS:
            raise Unsupported(f"more than {MAX_TRIPS} iterations")
        flag = n.const(True)
        outputs = run(n, "body", [n.const(step, INT64), flag, *state], step)
        state = outputs[1 : 1 + count]
        for column, value in zip(scanned, outputs[1 + count :], strict=True):
            if not isinstance(value, Tensor):
                raise Unsupported("a scan output that is not a tensor")
            column.append(value)
        step += 1
        if step < trips:
            follow = outputs[0]
            if not isinstance(follow, Tensor):
                raise Malformed("the condition is not a tensor")
            going = bool(np.all(n.known(follow, "the condition of the loop")))
    return [*state, *(_stacked(n, graph, k, column, 0, count) for k, column in enumerate(scanned))]


def _stacked(n: Node, graph: onnx.GraphProto, k: int, column: list[Tensor], axis: int, states: int, lead: int = 1) -> Tensor:
    if column:
        if len({c.shape for c in column}) > 1:
            raise Unsupported("iterations give tensors of different shapes")
        place = axis if axis >= 0 else axis + column[0].rank + 1
        return n.joined([n.unsqueezed(c, [place]) for c in column], place)
    info = graph.output[lead + states + k].type.tensor_type
    from webnn_xla.importers.onnx.types import from_enum

    dtype = from_enum(info.elem_type, "a scan output")
    return n.const(np.zeros([0, *(d.dim_value for d in info.shape.dim)]), dtype)


@onnx_op("Scan", since=8)
def scan(n: Node) -> list[Value]:
    graph = n.attributes.get("body")
    if not isinstance(graph, onnx.GraphProto):
        raise Malformed("attribute body is no graph")
    inputs = list(n.inputs)
    if n.opset < 9:
        return _scan_batched(n, graph, inputs[1:])
    return _scan(n, graph, inputs)


def _scan(n: Node, graph: onnx.GraphProto, inputs: list[Value | None]) -> list[Value]:
    count = n.need("num_scan_inputs", int)
    states = len(inputs) - count
    if states < 0 or count < 1:
        raise Malformed(f"{count} scan inputs of {len(inputs)} inputs")
    given = [value for value in inputs[states:] if isinstance(value, Tensor)]
    axes = n.ints("scan_input_axes", [0] * count) or []
    axes = [n.axis(a, x.rank) for a, x in zip(axes, given, strict=True)]
    backward = n.ints("scan_input_directions", [0] * count) or []
    lengths = {x.shape[a] for x, a in zip(given, axes, strict=True)}
    if len(lengths) != 1:
        raise Malformed(f"scan inputs have lengths {sorted(lengths)}")
    trips = lengths.pop()
    if trips > MAX_TRIPS:
        raise Unsupported(f"{trips} iterations; at most {MAX_TRIPS}")
    outs = len(graph.output) - states
    state: list[Value] = [value for value in inputs[:states] if value is not None]
    columns: list[list[Tensor]] = [[] for _ in range(outs)]
    for step in range(trips):
        parts = []
        for x, axis, flip in zip(given, axes, backward, strict=True):
            place = trips - 1 - step if flip else step
            parts.append(n.squeezed(n.cut(x, axis, place, 1), [axis]))
        results = run(n, "body", [*state, *parts], step)
        state = results[:states]
        for column, value in zip(columns, results[states:], strict=True):
            if not isinstance(value, Tensor):
                raise Unsupported("a scan output that is not a tensor")
            column.append(value)
    out_axes = n.ints("scan_output_axes", [0] * outs) or [0] * outs
    reverse = n.ints("scan_output_directions", [0] * outs) or [0] * outs
    stacked = [
        _stacked(n, graph, k, column[::-1] if reverse[k] else column, out_axes[k], states, 0)
        for k, column in enumerate(columns)
    ]
    return [*state, *stacked]


def _scan_batched(n: Node, graph: onnx.GraphProto, inputs: list[Value | None]) -> list[Value]:
    """Opset 8: a batch dimension in front of everything, each element scanned on its own."""
    if n.inputs[0] is not None:
        raise Unsupported("sequence lengths of opset 8")
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    batch = tensors[0].shape[0]
    n.attributes["scan_input_directions"] = n.attributes.get("directions")
    rows = []
    for index in range(batch):
        rows.append(_scan(n, graph, [n.squeezed(n.cut(x, 0, index, 1), [0]) for x in tensors]))
    results: list[Value] = []
    for column in zip(*rows, strict=True):
        parts = [value for value in column if isinstance(value, Tensor)]
        results.append(n.joined([n.unsqueezed(p, [0]) for p in parts], 0))
    return results
