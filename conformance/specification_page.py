"""The comparison of specifications as one HTML file: no other files, no network, light and dark, columns that sort."""

from __future__ import annotations

import math
from html import escape
from typing import Final

from webnn_xla.conformance.differences import BRIDGED, DIFFERENCES
from webnn_xla.conformance.specifications import ORACLES, TITLES, Cell, Row, SpecificationReport, versions

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #59636e; --paper: #fff; --band: #f4f6f8; --line: #d5dae0;
  --good: #1a7f37; --known: #9a6700; --bad: #cf222e; --none: #6e7781; --accent: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9198a1; --paper: #0d1117; --band: #161b22;
  --line: #30363d; --good: #3fb950; --known: #d29922; --bad: #ff7b72; --none: #8b949e; --accent: #79b8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 92rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p, li { max-width: 62rem; } .dim { color: var(--dim); } code { font-size: .92em; }
.cards { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; }
.card { flex: 1 1 16rem; border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem; background: var(--band); }
.card b { display: block; } .card ul { margin: .35rem 0 0; padding: 0; list-style: none; }
.bar { display: flex; flex-wrap: wrap; gap: .75rem; align-items: center; margin: .5rem 0; }
input, select { font: inherit; padding: .3rem .5rem; border: 1px solid var(--line); border-radius: .35rem;
  background: var(--paper); color: var(--ink); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; } tr.group th { border-bottom: 0; color: var(--dim); font-weight: 600; }
thead { position: sticky; top: 0; background: var(--band); } tbody tr:hover { background: var(--band); }
th button { all: unset; cursor: pointer; font-weight: 600; white-space: nowrap; }
th button:focus-visible { outline: 2px solid var(--accent); }
th[aria-sort=ascending] button::after { content: " ▲"; } th[aria-sort=descending] button::after { content: " ▼"; }
.s { white-space: nowrap; } .s::before { content: "● "; }
.agrees { color: var(--good); } .known { color: var(--known); } .differs, .failed { color: var(--bad); }
.none { color: var(--none); }
td details { max-width: 30rem; } summary { cursor: pointer; color: var(--accent); }
details p { margin: .25rem 0; font-size: .92em; }
"""

_SCRIPT: Final = """
const table = document.querySelector('table.rows'), body = table.tBodies[0], rows = [...body.rows];
const heads = [...table.querySelectorAll('th[data-column]')];
const value = (row, column) => { const cell = row.cells[column]; const v = cell.dataset.v ?? cell.textContent;
  return cell.dataset.v === undefined || isNaN(v) ? v : Number(v); };
function sort(head) {
  const column = Number(head.dataset.column), down = head.getAttribute('aria-sort') === 'ascending';
  heads.forEach(h => h.removeAttribute('aria-sort'));
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const order = (a, b) => a === b ? 0 : typeof a === 'number' && typeof b === 'number' ? a - b : String(a) < String(b) ? -1 : 1;
  rows.sort((a, b) => (down ? -1 : 1) * order(value(a, column), value(b, column)));
  body.append(...rows);
}
heads.forEach(head => head.querySelector('button').addEventListener('click', () => sort(head)));
const text = document.querySelector('#filter'), state = document.querySelector('#state');
const shown = document.querySelector('#shown');
function filter() {
  let count = 0;
  for (const row of rows) {
    const fits = row.textContent.toLowerCase().includes(text.value.toLowerCase())
      && (!state.value || row.dataset.states.split(',').includes(state.value));
    row.hidden = !fits; count += fits;
  }
  shown.textContent = count + ' of ' + rows.length + ' rows';
}
text.addEventListener('input', filter); state.addEventListener('input', filter); filter();
"""

_CLASSES: Final = {
    "agrees": "agrees",
    "differs as known": "known",
    "differs": "differs",
    "failed": "failed",
}
_ORDER: Final = ("differs", "failed", "not installed", "differs as known", "refused", "nothing run", "agrees")


def page(report: SpecificationReport) -> str:
    """The whole page."""
    found = ", ".join(f"{name} {version or 'not installed'}" for name, version in versions().items())
    verdict = f"{len(report.problems)} differences without an explanation" if report.problems else "No unexplained difference"
    options = "".join(f'<option value="{state}">{state}</option>' for state in _ORDER)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>WebNN, StableHLO and TOSA compared</title><style>{_STYLE}</style></head><body>
<h1>WebNN, StableHLO and TOSA compared</h1>
<p class="dim">{escape(found)}</p>
<p>Every WebNN op on every data type, on the same inputs: compiled by XLA, in StableHLO's reference interpreter, and exported
to TOSA in its reference model, each against float64. Errors are in units in the last place (ulp) of the output's type; for
integers, the plain difference. <b>{verdict}.</b></p>
<div class="cards">{"".join(_card(report, oracle) for oracle in ORACLES)}</div>
<h2>Ops and data types</h2>
<div class="bar"><label>Filter <input id="filter" type="search" placeholder="conv2d float16"></label>
<label>State <select id="state"><option value="">any</option>{options}</select></label>
<span id="shown" class="dim"></span></div>
<div class="scroll"><table class="rows"><thead>{_heads()}</thead><tbody>
{chr(10).join(map(_row, report.rows))}
</tbody></table></div>
<h2>Where the specifications differ, and the results too</h2>
<ul>{"".join(_difference(oracle) for oracle in ORACLES)}</ul>
<h2>Where the specifications differ, and the lowering or the export writes around it</h2>
<ul>{"".join(f"<li><code>{escape(entry.ops)}</code>: {escape(entry.sentence)}</li>" for entry in BRIDGED)}</ul>
<script>{_SCRIPT}</script></body></html>
"""


def _card(report: SpecificationReport, oracle: str) -> str:
    counts, states = report.counts()[oracle], report.states()[oracle]
    words = {
        "agree": "cases agree",
        "explained": "differ, as explained below",
        "unexplained": "differ without explanation",
        "refused": "cannot be said",
        "failed": "failed",
        "missing": "not run: not installed",
    }
    cases = "".join(f"<li>{count:,} {words[name]}</li>" for name, count in counts.items() if count)
    rows = ", ".join(f"{states[state]} {state}" for state in _ORDER if state in states)
    return f'<div class="card"><b>{TITLES[oracle]}</b><ul>{cases}</ul><span class="dim">Rows: {rows or "none"}</span></div>'


def _heads() -> str:
    groups = "".join(f'<th colspan="3">{TITLES[oracle]}</th>' for oracle in ORACLES)
    names = ["op", "data type", "cases", *["state", "ulp", "NaN, ∞"] * len(ORACLES), "notes"]
    number = {2, *(3 + 3 * i + j for i in range(len(ORACLES)) for j in (1, 2))}
    cells = "".join(
        f'<th data-column="{i}"{" class=n" if i in number else ""}><button type="button">{name}</button></th>'
        for i, name in enumerate(names)
    )
    return f'<tr class="group"><th colspan="3"></th>{groups}<th></th></tr><tr>{cells}</tr>'


def _row(row: Row) -> str:
    cells = "".join(_cell(row.cells[oracle]) for oracle in ORACLES)
    states = ",".join(dict.fromkeys(cell.state for cell in row.cells.values()))
    notes = [
        f"<p><b>{TITLES[oracle]}:</b> {escape(text)}</p>"
        for oracle, cell in row.cells.items()
        for text in (*cell.sentences, *cell.reasons)
    ]
    if row.skipped:
        notes.append(f"<p>{row.skipped} cases are too large for the interpreter and were left out.</p>")
    shown = f"<details><summary>{len(notes)}</summary>{''.join(notes)}</details>" if notes else ""
    return (
        f'<tr data-states="{states}"><td><code>{row.op}</code></td><td>{row.data_type}</td><td class="n" data-v="{row.cases}">'
        f'{row.cases}</td>{cells}<td data-v="{len(notes)}">{shown}</td></tr>'
    )


def _cell(cell: Cell) -> str:
    compared = cell.agree + cell.explained + cell.unexplained
    ulp = "" if not compared else f"{cell.ulp:.3g}" if math.isfinite(cell.ulp) else "∞"
    special = f"{cell.special_agree}/{cell.special}" if compared and cell.special else ""
    missing = cell.special - cell.special_agree if compared else -1
    kind = _CLASSES.get(cell.state, "none")
    refused = f" ({cell.refused} cannot be said)" if cell.refused and compared else ""
    return (
        f'<td data-v="{_ORDER.index(cell.state)}"><span class="s {kind}">{cell.state}</span>'
        f'<span class="dim">{refused}</span></td><td class="n" data-v="{cell.ulp if compared else -1:g}">{ulp}</td>'
        f'<td class="n" data-v="{missing}">{special}</td>'
    )


def _difference(oracle: str) -> str:
    return "".join(
        f"<li><b>{TITLES[oracle]}</b> <code>{escape(difference.ops)}</code> ({escape(difference.types)}): "
        f"{escape(difference.sentence)}</li>"
        for difference in DIFFERENCES
        if difference.oracle == oracle
    )
