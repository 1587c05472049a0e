"""The results as one HTML file with its charts in it: no scripts, nothing fetched."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLOURS = {"webnn-xla": "#2563eb", "OpenVINO": "#9333ea", "naive jax.lax": "#9ca3af"}
BASE = "onnxruntime"
STYLE = """body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1em;color:#111}
table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}svg text{font:12px system-ui,sans-serif}.note{color:#555}"""


def write_html(results: Mapping[str, Any], path: Path) -> None:
    """Chart of ratios, table of times, overheads and growth."""
    found = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    parts = [
        f"<!doctype html><meta charset=utf-8><title>webnn-xla benchmarks</title><style>{STYLE}</style>",
        f"<h1>Benchmarks, {found['date']}</h1>",
        f"<p class=note>{html.escape(found['processor'])}, {found['threads']} threads, "
        f"{found['clock']}, Python {found['python']}; {versions}. "
        "Times are medians of interleaved calls on resident tensors; ratios are to onnxruntime, and below 1 is faster.</p>",
    ]
    for kind, title in (("network", "Networks"), ("op", "Single ops")):
        cases = [case for case in results["cases"] if case["kind"] == kind]
        if cases:
            parts += [f"<h2>{title}</h2>", ratio_chart(cases), times_table(cases)]
    if results.get("overheads"):
        rows = "".join(
            f"<tr><td>{html.escape(name)}<td>{html.escape(str(value))}" for name, value in results["overheads"].items()
        )
        parts.append(f"<h2>Overheads</h2><table>{rows}</table>")
    for title, series in results.get("growth", {}).items():
        parts += [f"<h2>{html.escape(title)}</h2>", line_chart(series)]
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def ratio_chart(cases: Sequence[Mapping[str, Any]]) -> str:
    """Horizontal bars on a logarithmic scale; whiskers from the fastest to the median call."""
    left, width, row, low, high = 300, 640, 16, 0.1, 20.0
    scale = width / math.log(high / low)

    def place(value: float) -> float:
        return left + scale * math.log(min(max(value, low), high) / low)

    marks, y = [], 30
    for case in cases:
        names = [name for name in COLOURS if name in case["bound"] and BASE in case["bound"]]
        label = case["name"] + (f", batch {case['batch']}" if case["batch"] > 1 else "")
        marks.append(f'<text x="{left - 8}" y="{y + row * len(names) / 2 + 4}" text-anchor="end">{html.escape(label)}</text>')
        for name in names:
            value = case["bound"][name]["median"] / case["bound"][BASE]["median"]
            size = f'width="{place(value) - place(low):.1f}" height="{row - 4}"'
            marks.append(
                f'<rect x="{place(low)}" y="{y}" {size} fill="{COLOURS[name]}">'
                f"<title>{html.escape(name)}</title></rect>"
                f'<text x="{place(value) + 4:.1f}" y="{y + row - 6}">{value:.2f}</text>'
            )
            y += row
        y += 8
    grid = "".join(
        f'<line x1="{place(v):.1f}" x2="{place(v):.1f}" y1="22" y2="{y}" stroke="{"#111" if v == 1 else "#ddd"}"/>'
        f'<text x="{place(v):.1f}" y="16" text-anchor="middle">{v:g}</text>'
        for v in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
    )
    legend = " ".join(f'<tspan fill="{colour}">■ {html.escape(name)}</tspan>' for name, colour in COLOURS.items())
    return (
        f'<svg viewBox="0 0 {left + width + 60} {y + 24}" role="img" aria-label="ratio to onnxruntime">{grid}{"".join(marks)}'
        f'<text x="{left}" y="{y + 18}">{legend}</text></svg>'
    )


def times_table(cases: Sequence[Mapping[str, Any]]) -> str:
    names = [BASE, *COLOURS]
    head = "".join(f"<th>{html.escape(name)}" for name in names)
    rows = []
    for case in cases:
        cells = []
        for name in names:
            timing = case["bound"].get(name)
            cells.append(
                "<td>–"
                if timing is None
                else f'<td title="{timing["low"] * 1e3:.3f} to {timing["high"] * 1e3:.3f}">{timing["median"] * 1e3:.3f}'
            )
        rows.append(
            f"<tr><td>{html.escape(case['name'])}<td>{case['batch']}{''.join(cells)}<td>{case['build'].get('webnn-xla', 0):.2f}"
        )
    return f"<table><tr><th>ms<th>batch{head}<th>build, s{''.join(rows)}</table>"


def line_chart(series: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """Lines over logarithmic axes. ``series``: name → [[x, y], …]."""
    points = [point for line in series.values() for point in line if min(point) > 0]
    if not points:
        return ""
    (x0, x1), (y0, y1) = ((min(p[i] for p in points), max(p[i] for p in points)) for i in (0, 1))
    width, height, left, top = 640, 260, 80, 16

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / x0) / max(math.log(x1 / x0), 1e-9)
        up = math.log(y / y0) / max(math.log(y1 / y0), 1e-9)
        return left + across * width, top + (1 - up) * height

    colours = ["#2563eb", "#dc2626", "#16a34a", "#9333ea", "#ea580c"]
    marks = []
    for index, (name, line) in enumerate(series.items()):
        colour = colours[index % len(colours)]
        placed = [place(*point) for point in line if min(point) > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        marks.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        marks += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{point[0]:g}: {point[1]:g}</title></circle>'
            for (x, y), point in zip(placed, line, strict=False)
        ]
        marks.append(f'<text x="{left + width + 12}" y="{top + 16 * index + 12}" fill="{colour}">{html.escape(name)}</text>')
    axes = "".join(
        f'<text x="{left - 8}" y="{place(x0, v)[1] + 4:.1f}" text-anchor="end">{v:.3g}</text>'
        for v in (y0, math.sqrt(y0 * y1), y1)
    ) + "".join(
        f'<text x="{place(v, y0)[0]:.1f}" y="{top + height + 18}" text-anchor="middle">{v:.3g}</text>'
        for v in (x0, math.sqrt(x0 * x1), x1)
    )
    frame = f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#ddd"/>'
    return f'<svg viewBox="0 0 {left + width + 260} {top + height + 30}">{frame}{axes}{"".join(marks)}</svg>'
