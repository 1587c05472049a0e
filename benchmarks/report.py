"""The results as one HTML file with its charts in it: no scripts, nothing fetched, in light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

US, BASE = "webnn-xla", "onnxruntime"
RUNTIMES = {US: "us", "OpenVINO": "openvino", "LiteRT": "litert", "naive jax.lax": "naive"}
"""Name → class of its colour."""

LINES = ("us", "openvino", "litert", "line4", "naive")
STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--note:#57606a;--rule:#d8dee4;--paper:#fff;
--us:#1d5fd1;--openvino:#8a3ffc;--litert:#b45309;--line4:#047857;--naive:#6e7781}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--note:#9aa4b0;--rule:#3a424c;--paper:#0d1117;
--us:#6ea8fe;--openvino:#c4a1ff;--litert:#f0a04b;--line4:#4cc38a;--naive:#7d8590}}
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:96em;padding:0 1em;color:var(--ink);background:var(--paper)}
h2{margin-top:2em}.note,figcaption{color:var(--note)}figure{margin:1em 0}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.15em .5em;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}
th{white-space:normal;vertical-align:bottom}
td:first-child,th:first-child{text-align:left}small{color:var(--note)}
svg{max-width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--ink)}
svg .tick{fill:var(--note)}.rule{stroke:var(--rule)}.one{stroke:var(--ink)}.whisker{stroke:var(--ink);opacity:.55}
""" + "".join(f".f-{name}{{fill:var(--{name})!important}}.s-{name}{{stroke:var(--{name});fill:none}}" for name in LINES)

Case = Mapping[str, Any]


def write_html(results: Mapping[str, Any], path: Path) -> None:
    """Charts of ratios, tables of times, of building and memory, overheads and growth."""
    found = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    missing = "; ".join(f"{name}: {reason}" for name, reason in results.get("missing", {}).items())
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>webnn-xla benchmarks</title><style>{STYLE}</style>",
        f"<h1>Benchmarks, {found['date']}</h1>",
        f"<p class=note>{html.escape(found['processor'])}, {_threads(found)}, "
        f"{found['clock']}, Python {found['python']}; {versions}. {html.escape(missing)}</p>"
        "<p class=note>Medians of interleaved calls on resident tensors, whiskers from the fastest to the slowest call. "
        "Ratios are to onnxruntime's median: below 1 is faster. Float32.</p>",
    ]
    for kind, title in (("network", "Networks"), ("op", "Single ops")):
        cases = [case for case in results["cases"] if case["kind"] == kind]
        if cases:
            parts += [f"<h2>{title}: time, ratio to onnxruntime</h2>", ratio_chart(cases), times_table(cases)]
        if any(case["alone"] for case in cases):
            parts += ["<h2>Networks: in a process of their own</h2>", alone_table(cases)]
    if results.get("overheads"):
        rows = "".join(
            f"<tr><td>{html.escape(name)}<td>{html.escape(str(value))}" for name, value in results["overheads"].items()
        )
        parts.append(f"<h2>Overheads</h2><div class=scroll><table>{rows}</table></div>")
    if results.get("growth"):
        parts.append("<h2>Growth</h2>")
        parts += [f"<h3>{html.escape(title)}</h3>{line_chart(series)}" for title, series in results["growth"].items()]
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _threads(machine: Mapping[str, Any]) -> str:
    return f"{machine['threads']} thread" + ("s" if machine["threads"] != 1 else "")


def _label(case: Case) -> str:
    return html.escape(case["name"] + (f", batch {case['batch']}" if case["kind"] == "network" else ""))


def ratio_chart(cases: Sequence[Case]) -> str:
    """Horizontal bars on a logarithmic scale, from 1 on: to the left is faster than onnxruntime."""
    left, width, row, low, high = 250, 640, 15, 0.1, 20.0
    scale = width / math.log(high / low)

    def place(value: float) -> float:
        return left + scale * math.log(min(max(value, low), high) / low)

    names = [name for name in RUNTIMES if any(name in case["bound"] for case in cases)]
    marks, y = [], 34
    for case in cases:
        if BASE not in case["bound"]:
            continue
        base = case["bound"][BASE]["median"]
        shown = [name for name in names if name in case["bound"]]
        marks.append(f'<text x="{left - 8}" y="{y + row * len(shown) / 2 + 4:.0f}" text-anchor="end">{_label(case)}</text>')
        for name in shown:
            least, value, most = (case["bound"][name][key] / base for key in ("low", "median", "high"))
            start, end = sorted((place(1), place(value)))
            middle = y + row / 2 - 1
            size = f'width="{max(end - start, 1):.1f}" height="{row - 3}"'
            marks.append(
                f'<rect x="{start:.1f}" y="{y}" {size} class="f-{RUNTIMES[name]}">'
                f"<title>{html.escape(name)}: {value:.2f} ({least:.2f}–{most:.2f})</title></rect>"
                f'<line x1="{place(least):.1f}" x2="{place(most):.1f}" y1="{middle}" y2="{middle}" class="whisker"/>'
                f'<text x="{left + width + 10}" y="{y + row - 5}" class="f-{RUNTIMES[name]}">{value:.2f}</text>'
            )
            y += row
        y += 9
    grid = "".join(
        f'<line x1="{place(v):.1f}" x2="{place(v):.1f}" y1="26" y2="{y}" class="{"one" if v == 1 else "rule"}"/>'
        f'<text x="{place(v):.1f}" y="18" text-anchor="middle" class="tick">{v:g}</text>'
        for v in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
    )
    legend = "  ".join(f'<tspan class="f-{RUNTIMES[name]}">■ {html.escape(name)}</tspan>' for name in names)
    return (
        f'<figure><svg viewBox="0 0 {left + width + 60} {y + 26}" width="{left + width + 60}" role="img" '
        f'aria-label="ratio to onnxruntime">{grid}{"".join(marks)}'
        f'<text x="{left}" y="{y + 20}" xml:space="preserve">{legend}</text></svg></figure>'
    )


def _milliseconds(value: float) -> str:
    return f"{value * 1e3:.3f}" if value < 1e-3 else f"{value * 1e3:.1f}"


def times_table(cases: Sequence[Case]) -> str:
    """Medians with their ranges."""
    names = [BASE, *RUNTIMES]
    rows = []
    for case in cases:
        cells = []
        for name in names:
            timing = case["bound"].get(name)
            reason = html.escape(case["failures"].get(name, ""))
            cells.append(
                f'<td title="{reason}">–'
                if timing is None
                else f"<td>{_milliseconds(timing['median'])} "
                f"<small>{_milliseconds(timing['low'])}–{_milliseconds(timing['high'])}</small>"
            )
        host = [case["host"].get(name, {}).get("median") for name in (US, BASE)]
        cells += [f"<td>{'–' if value is None else _milliseconds(value)}" for value in host]
        rows.append(f"<tr><td>{_label(case)}{''.join(cells)}<td>{case['build'].get(US, 0):.2f}")
    heads = [*names, f"NumPy to NumPy, {US}", f"NumPy to NumPy, {BASE}"]
    head = "".join(f"<th>{html.escape(name)}" for name in heads)
    return f"<div class=scroll><table><tr><th>ms{head}<th>build, s{''.join(rows)}</table></div>"


def alone_table(cases: Sequence[Case]) -> str:
    """Starting, building, first call and memory of each runtime."""
    rows = []
    for case in cases:
        for name, found in case["alone"].items():
            rows.append(
                f"<tr><td>{_label(case)}<td>{html.escape(name)}<td>{found['start']:.2f}<td>{found['build']:.2f}"
                f"<td>{found['first'] * 1e3:.0f}<td>{found['peak'] / 2**20:.0f}<td>{found['held'] / 2**20:.0f}"
            )
    head = "<th>start, s<th>build, s<th>first call, ms<th>peak, MB<th>held, MB"
    return (
        "<p class=note>Start: import and device. Build: from the file to something that runs. Memory: beyond that of the "
        "started runtime.</p>"
        f"<div class=scroll><table><tr><th>network<th>runtime{head}{''.join(rows)}</table></div>"
    )


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten in a range, or its ends where there are none."""
    powers = [10.0**n for n in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]
    return powers if len(powers) > 1 else [low, high]


def line_chart(series: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """Lines over logarithmic axes. ``series``: name → [[x, y], …]."""
    points = [point for line in series.values() for point in line if min(point) > 0]
    if not points:
        return ""
    (x0, x1), (y0, y1) = ((min(p[i] for p in points), max(p[i] for p in points)) for i in (0, 1))
    width, height, left, top = 620, 280, 80, 16

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / x0) / max(math.log(x1 / x0), 1e-9)
        up = math.log(y / y0) / max(math.log(y1 / y0), 1e-9)
        return left + across * width, top + (1 - up) * height

    marks, labels = [], []
    for (name, line), colour in zip(series.items(), LINES, strict=False):
        placed = [(point, place(*point)) for point in line if min(point) > 0]
        if not placed:
            continue
        path = " ".join(f"{x:.1f},{y:.1f}" for _, (x, y) in placed)
        marks.append(f'<polyline points="{path}" class="s-{colour}" stroke-width="1.8"/>')
        marks += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" class="f-{colour}"><title>{point[0]:g}: {point[1]:.3g}</title></circle>'
            for point, (x, y) in placed
        ]
        labels.append((placed[-1][1][1] + 4, colour, f"{name}: {_plain(placed[-1][0][1])}"))
    # Names stand at the ends of their lines, moved apart where lines meet.
    lowest = -math.inf
    for y, colour, text in sorted(labels):
        lowest = max(y, lowest + 16)
        marks.append(f'<text x="{left + width + 12}" y="{lowest:.1f}" class="f-{colour}">{html.escape(text)}</text>')
    axes = "".join(
        f'<line x1="{left}" x2="{left + width}" y1="{place(x0, v)[1]:.1f}" y2="{place(x0, v)[1]:.1f}" class="rule"/>'
        f'<text x="{left - 8}" y="{place(x0, v)[1] + 4:.1f}" text-anchor="end" class="tick">{_plain(v)}</text>'
        for v in _ticks(y0, y1)
    ) + "".join(
        f'<line x1="{place(v, y0)[0]:.1f}" x2="{place(v, y0)[0]:.1f}" y1="{top}" y2="{top + height}" class="rule"/>'
        f'<text x="{place(v, y0)[0]:.1f}" y="{top + height + 18}" text-anchor="middle" class="tick">{v:,.0f}</text>'
        for v in _ticks(x0, x1)
    )
    size = (left + width + 220, max(top + height + 30, int(lowest) + 10))
    return (
        f'<figure><svg viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" role="img" aria-label="growth">'
        f"{axes}{''.join(marks)}</svg></figure>"
    )
