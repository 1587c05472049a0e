"""A graph as text, and as SVG for notebooks and ``webnn-xla show --svg``: by Graphviz, or by a plain layout of our own.

Boxes are inputs, operations and outputs; constants are lines in the box of the operation that reads them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape

import graphviz
import numpy as np

from webnn_xla.errors import printable
from webnn_xla.graph import Constant, Graph, Node, Value

MAX_NODES: Final = 300
"""Operations. Larger graphs are drawn as one box with the number of operations of each kind."""

MAX_LISTED: Final = 20
"""Inputs and outputs that the summary of a large graph names."""

_FILLS: Final = {"input": "#dbeafe", "operation": "#ffffff", "output": "#dcfce7"}


@dataclass
class Box:
    """A box of the picture: lines of text, the first a title, and the boxes that it reads."""

    kind: str
    lines: list[str]
    sources: list[int] = field(default_factory=list)
    tooltip: str = ""


def svg(graph: Graph) -> str:
    """The graph as an SVG document. Names and labels are escaped."""
    boxes = _boxes(graph) if len(graph.nodes) <= MAX_NODES else _summary(graph)
    try:
        return _with_graphviz(boxes)
    except (graphviz.ExecutableNotFound, graphviz.CalledProcessError, OSError):
        return _plain(boxes)


def _boxes(graph: Graph) -> list[Box]:
    boxes: list[Box] = []
    homes: dict[Value, int] = {}
    for name, value in graph.inputs.items():
        homes[value] = len(boxes)
        boxes.append(Box("input", [_cut(name), str(value.descriptor)]))
    for node in graph.nodes:
        sources = list(dict.fromkeys(homes[value] for value in node.inputs() if value in homes))
        homes |= dict.fromkeys(node.outputs, len(boxes))
        boxes.append(Box("operation", _lines(node, graph.constants), sources, attributes_text(node)))
    for name, value in graph.outputs.items():
        boxes.append(Box("output", [_cut(name), str(value.descriptor)], [homes[value]] if value in homes else []))
    return boxes


def _lines(node: Node, constants: Mapping[Value, Constant]) -> list[str]:
    lines = [node.op.name] + ([_cut(node.label)] if node.label else [])
    for name, operand in node.operands.items():
        values = operand if isinstance(operand, tuple) else (operand,)
        lines += [f"{name}: {constant_text(value, constants[value])}" for value in values if value in constants][:8]
    shown = [str(value.descriptor) for value in node.outputs[:8]] + ["…"] * (len(node.outputs) > 8)
    return [*lines, f"→ {', '.join(shown)}"]


def constant_text(value: Value, constant: Constant) -> str:
    """A constant in a few words: its name or, of an unnamed scalar, its value; type and shape."""
    if constant.name:
        return f"{_cut(constant.name)} {value.descriptor}"
    if constant.data is not None and not value.descriptor.shape:
        return f"{np.asarray(constant.data)[()]} {value.descriptor}"
    return str(value.descriptor)


def attributes_text(node: Node) -> str:
    """The attributes that are given, as they stand in a call."""
    given = {name: value for name, value in node.attributes.items() if value is not None}
    shown = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return printable(" ".join(f"{name}={value}" for name, value in shown.items()))


def _summary(graph: Graph) -> list[Box]:
    def ports(kind: str, values: Mapping[str, Value], sources: list[int]) -> list[Box]:
        boxes = [Box(kind, [_cut(name), str(value.descriptor)], sources) for name, value in list(values.items())[:MAX_LISTED]]
        return boxes + [Box(kind, [f"… {len(values) - MAX_LISTED} more"], sources)] * (len(values) > MAX_LISTED)

    boxes = ports("input", graph.inputs, [])
    middle = len(boxes)
    counts = Counter(node.op.name for node in graph.nodes)
    lines = [f"{count} × {name}" for name, count in counts.most_common()]
    size = sum(value.descriptor.byte_length for value in graph.constants)
    head = [f"{len(graph.nodes)} operations", f"{len(graph.constants)} constants, {size:,} bytes"]
    boxes.append(Box("operation", head + lines, list(range(middle))))
    return boxes + ports("output", graph.outputs, [middle])


def _cut(text: str) -> str:
    return printable(text, 40)


def _with_graphviz(boxes: Sequence[Box]) -> str:
    drawing = graphviz.Digraph(
        graph_attr={"bgcolor": "transparent", "nodesep": "0.2", "ranksep": "0.35"},
        node_attr={
            "shape": "box",
            "style": "rounded,filled",
            "fontname": "sans-serif",
            "fontsize": "10",
            "margin": "0.12,0.06",
        },
        edge_attr={"arrowsize": "0.6", "color": "#6b7280"},
    )
    for index, box in enumerate(boxes):
        # escape() takes backslashes literally; nohtml() keeps a text like "<b>" from being read as markup.
        label = "\n".join(box.lines)
        drawing.node(
            str(index),
            graphviz.nohtml(graphviz.escape(label)),
            fillcolor=_FILLS[box.kind],
            tooltip=graphviz.nohtml(graphviz.escape(box.tooltip or box.lines[0])),
        )
        drawing.edges((str(source), str(index)) for source in box.sources)
    with warnings.catch_warnings():
        # dot warns of fonts that are missing and labels that do not fit: the picture is there all the same.
        warnings.simplefilter("ignore")
        return str(drawing.pipe(format="svg", encoding="utf-8", quiet=True))


# Without Graphviz: rows by the longest way from an input, each row in the order of what it reads.

_CHARACTER, _LINE, _MARGIN, _GAP, _ROW_GAP = 6.6, 14, 9, 16, 34


@dataclass
class _Placed:
    x: float
    y: float
    width: float
    height: float


def _plain(boxes: Sequence[Box]) -> str:
    places = _layout(boxes)
    width = max((place.x + place.width for place in places), default=0) + _GAP
    height = max((place.y + place.height for place in places), default=0) + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="11">',
        '<defs><marker id="webnn-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#6b7280"/></marker></defs>',
    ]
    for box, place in zip(boxes, places, strict=True):
        for source in box.sources:
            start = places[source]
            x0, y0, x1, y1 = start.x + start.width / 2, start.y + start.height, place.x + place.width / 2, place.y
            bend = max((y1 - y0) / 2, _ROW_GAP / 2)
            parts.append(
                f'<path d="M{x0:.1f} {y0:.1f}C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}" '
                'fill="none" stroke="#6b7280" marker-end="url(#webnn-arrow)"/>'
            )
    for box, place in zip(boxes, places, strict=True):
        parts.append(
            f'<g><title>{escape(box.tooltip or box.lines[0])}</title><rect x="{place.x:.1f}" y="{place.y:.1f}" '
            f'width="{place.width:.1f}" height="{place.height:.1f}" rx="5" fill="{_FILLS[box.kind]}" stroke="#374151"/>'
        )
        for index, line in enumerate(box.lines):
            weight = ' font-weight="bold"' if index == 0 else ""
            parts.append(
                f'<text x="{place.x + place.width / 2:.1f}" y="{place.y + _MARGIN + (index + 0.75) * _LINE:.1f}" '
                f'text-anchor="middle"{weight}>{escape(line)}</text>'
            )
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _layout(boxes: Sequence[Box]) -> list[_Placed]:
    rows: list[list[int]] = []
    depths: list[int] = []
    for index, box in enumerate(boxes):
        depths.append(max((depths[source] + 1 for source in box.sources), default=0))
        rows += [[] for _ in range(depths[-1] + 1 - len(rows))]
        rows[depths[-1]].append(index)
    sizes = [(max(map(len, box.lines)) * _CHARACTER + 2 * _MARGIN, len(box.lines) * _LINE + 2 * _MARGIN) for box in boxes]
    total = max((sum(sizes[i][0] + _GAP for i in row) for row in rows), default=0)
    places = [_Placed(0, 0, *size) for size in sizes]

    def centre(index: int) -> float:
        sources = boxes[index].sources
        return sum(places[s].x + places[s].width / 2 for s in sources) / len(sources) if sources else 0.0

    y: float = _GAP
    for row in rows:
        row.sort(key=centre)
        x = _GAP + (total - sum(sizes[i][0] + _GAP for i in row)) / 2
        for index in row:
            places[index].x, places[index].y = x, y
            x += places[index].width + _GAP
        y += max(places[i].height for i in row) + _ROW_GAP
    return places


# Text


def summary(graph: Graph) -> list[str]:
    """Lines of text: inputs, weights, operations in order, outputs. Values that have no name are numbered."""
    names: dict[Value, str] = {value: printable(name, 60) for name, value in graph.inputs.items()}
    counts = (len(graph.inputs), len(graph.constants), len(graph.nodes), len(graph.outputs))
    lines = ["{} inputs, {} constants, {} operations, {} outputs".format(*counts)]
    lines += ["inputs", *(f"  {names[value]}  {value.descriptor}" for value in graph.inputs.values())]
    total = sum(value.descriptor.byte_length for value in graph.constants)
    lines.append(f"constants  {total:,} bytes")
    for value, constant in graph.constants.items():
        names[value] = printable(constant.name, 60) if constant.name else f"%{len(names)}"
        scalar = constant_text(value, constant) if not constant.name else str(value.descriptor)
        lines.append(f"  {names[value]}  {scalar}  {value.descriptor.byte_length:,} bytes")
    lines.append("operations")
    for node in graph.nodes:
        names |= {value: f"%{len(names) + index}" for index, value in enumerate(node.outputs)}
        label = f" [{printable(node.label, 60)}]" if node.label else ""
        operands = " ".join(f"{name}={_operand_text(operand, names)}" for name, operand in node.operands.items())
        results = ", ".join(f"{names[value]} {value.descriptor}" for value in node.outputs)
        lines.append(f"  {' '.join(filter(None, (f'{node.op.name}{label}', operands, attributes_text(node))))} → {results}")
    return [
        *lines,
        "outputs",
        *(f"  {printable(name, 60)}  {names[value]}  {value.descriptor}" for name, value in graph.outputs.items()),
    ]


def _operand_text(operand: Value | tuple[Value, ...], names: Mapping[Value, str]) -> str:
    return f"[{', '.join(names[value] for value in operand)}]" if isinstance(operand, tuple) else names[operand]
