"""``check_onnx``: what a model needs, and which of its nodes could not be imported, without reading or compiling weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from webnn_xla.context import ML
from webnn_xla.errors import printable
from webnn_xla.importers.onnx.errors import InvalidModelError, Problem, UnsupportedModelError, describe
from webnn_xla.importers.onnx.importer import Importer
from webnn_xla.importers.onnx.loader import record
from webnn_xla.importers.onnx.model import Model, Port, Source, read_model


@dataclass(frozen=True)
class Report:
    """What was found. ``complete`` is False where dimensions were missing, and only the operators were looked up."""

    name: str
    opsets: Mapping[str, int]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operators: Mapping[str, int]
    free_dimensions: tuple[str, ...]
    complete: bool
    problems: tuple[Problem, ...]
    webnn_ops: int
    """WebNN ops of the graph; 0 where it is not complete."""

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        domains = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in self.opsets.items())
        counted = ", ".join(
            f"{name} {count}" for name, count in sorted(self.operators.items(), key=lambda item: (-item[1], item[0]))
        )
        lines = [f"{printable(self.name)}: opset {domains}; {sum(self.operators.values())} nodes: {counted}"]
        lines += [f"  input {port}" for port in self.inputs]
        lines += [f"  output {port}" for port in self.outputs]
        if self.free_dimensions:
            lines.append(f"  free dimensions: {', '.join(map(printable, self.free_dimensions))}")
        if self.problems:
            lines.append(describe(self.problems))
        elif self.complete:
            lines.append(f"supported: {self.webnn_ops} WebNN ops")
        else:
            lines.append("every operator is known; give the free dimensions for a complete check")
        return "\n".join(lines)


def check_onnx(
    model: Source | Model, dims: Mapping[str, Any] | None = None, *, values: Mapping[str, Any] | None = None
) -> Report:
    """Whether a model can be imported, and every node that cannot. No weight is read, and nothing compiled.

    With sizes for all free dimensions (``dims``) every node is imported on trial; without, operators are looked up.
    Errors: DataError and NotSupportedError for files that are no models, or of unknown opsets; ArgumentError for
    dimensions or values of unknown names.
    """
    parsed = model if isinstance(model, Model) else read_model(model)
    free = parsed.free_dimensions()
    complete = all(name in (dims or {}) or name in (values or {}) for name in free) or bool(dims)
    problems: tuple[Problem, ...] = ()
    count = 0
    if complete:
        with ML().create_context(accelerated=False) as context:
            try:
                builder, *_ = record(parsed, context, dims, values)
                count = len(builder._nodes)
            except (UnsupportedModelError, InvalidModelError) as error:
                problems = error.problems
    else:
        problems = tuple(_lookup(parsed))
    operators = Counter(
        f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        for node in parsed.proto.graph.node
    )
    return Report(parsed.name, parsed.opsets, parsed.inputs, parsed.outputs, operators, tuple(free), complete, problems, count)


def _lookup(model: Model) -> list[Problem]:
    """Nodes, those of subgraphs and local functions included, whose operator is not in the table."""
    problems = [
        Problem(port.name, "graph input", model.opsets.get("", 0), port.problem) for port in model.inputs if port.problem
    ]
    importer = Importer.__new__(Importer)
    importer.model = model
    stack: list[tuple[Any, Mapping[str, int], str]] = [(model.proto.graph.node, model.opsets, "")]
    for function in model.functions.values():
        own = {("" if e.domain == "ai.onnx" else e.domain): int(e.version) for e in function.opset_import}
        stack.append((function.node, {**model.opsets, **own}, f"{function.name}/"))
    while stack:
        nodes, opsets, path = stack.pop()
        for node in nodes:
            domain = "" if node.domain == "ai.onnx" else node.domain
            opset = opsets.get(domain, 1)
            label = path + (node.name or f"{node.op_type}({node.output[0] if node.output else ''})")
            if importer._supported(domain, node.op_type, opset) is None:
                problems.append(Problem(label, node.op_type, opset, Importer._missing(domain, node.op_type, opset)))
            for attribute in node.attribute:
                graphs = ([attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else []) + list(attribute.graphs)
                stack.extend((graph.node, opsets, f"{label}/") for graph in graphs)
    return problems
