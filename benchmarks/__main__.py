"""Times this package, onnxruntime, OpenVINO, LiteRT and naive jax.lax side by side. Under 15 minutes on two cores.

Every case is built for each runtime that is installed, the results are compared, and the runtimes take turns in one
process. Ratios are of medians, to onnxruntime's median of the same run: below 1 is faster. Networks are also loaded,
built and run once in a process of their own for each runtime: compile time, first call and peak memory.
Writes ``results.json`` and ``report.html``.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import webnn_xla as webnn
from benchmarks import child, growth, measure, overhead, with_lax, with_litert, with_onnx, with_webnn
from benchmarks.measure import interleave
from benchmarks.models import models
from benchmarks.networks import networks
from benchmarks.ops import ops
from benchmarks.report import write_html
from benchmarks.vocabulary import Network, Runnable

CLOCKS = ("time", "processor time")
US, BASE = "webnn-xla", "onnxruntime"
PEERS = {"OpenVINO": "openvino", "LiteRT": "ai_edge_litert"}
"""Modules of the runtimes that may be missing."""

OTHERS = (*PEERS, "naive jax.lax")
WIDE, NARROW = 176, 150
"""Columns of a terminal that shows the ranges of times; of one that shows building and memory of networks."""

TOLERANCE = 2e-4
"""Largest difference of results between runtimes, of the largest magnitude."""

EXAMPLES = """examples:
  python -m benchmarks                                everything
  python -m benchmarks --only "MiniLM|softmax"        cases whose name has one of these texts
  python -m benchmarks --kind op --quick              single ops, a second each
  python -m benchmarks --kind network --cpu-time      networks, on a machine that others use
  python -m benchmarks --list                         the names of the cases
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has this text; several: split by |")
    parser.add_argument(
        "--kind", choices=("network", "op", "growth"), help="only networks, single ops, or overheads and growth"
    )
    parser.add_argument(
        "--batch", type=int, action="append", help="batch size of networks; may be given again (default: 1 and 8)"
    )
    parser.add_argument("--quick", action="store_true", help="batch 1, less time for each case, no growth, no processes")
    parser.add_argument("--list", action="store_true", help="print the names of the cases, and end")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of the other runtimes (default: all cores)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("benchmarks/results"), metavar="DIR",
        help="folder for results.json and report.html (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--cpu-time", action="store_true", help="processor time on one core, in place of time: for busy machines"
    )
    options = parser.parse_args()
    cases = chosen(options)
    if options.list:
        for case in cases:
            print(f"{case.name}, batch {case.batch}" if case.kind == "network" else case.name)
        return
    if options.cpu_time:
        # Before JAX starts its threads, of which there are as many as cores.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        measure.clock, options.threads = time.process_time, 1
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)
    missing = {name: f"not available: {module} is not installed" for name, module in PEERS.items() if not _there(module)}
    results: dict[str, Any] = {"machine": machine(options.threads), "missing": missing, "cases": []}
    growing = not options.only and options.kind in (None, "growth")
    points = len(growth.OPS) + len(growth.UNBROKEN) + len(growth.MEGABYTES)
    steps = len(cases) + (1 if growing else 0) + (points if growing and not options.quick else 0)
    started = time.perf_counter()
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        webnn.ML().create_context(device_type="cpu", cache=False) as context,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("", total=steps)
        done = -1

        def tell(text: str) -> None:
            nonlocal done
            done += 1
            progress.update(task, description=text, completed=done)
            if not console.is_terminal:
                console.print(
                    f"[{done + 1}/{steps}, {time.perf_counter() - started:.0f} s] {text}", markup=False, highlight=False
                )

        for case in cases:
            tell(f"{case.name}, batch {case.batch}" if case.kind == "network" else case.name)
            results["cases"].append(run_case(case, context, options.threads, options.quick))
        if growing:
            tell("overheads")
            results["overheads"] = overhead.run(context)
            if not options.quick:
                results["growth"] = growth.run(tell)
    results["seconds"] = time.perf_counter() - started
    show(results, console)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    write_html(results, options.output / "report.html")
    console.print(f"{results['seconds']:.0f} s; {options.output / 'results.json'}, {options.output / 'report.html'}")


def chosen(options: argparse.Namespace) -> list[Network]:
    """The cases that the command line asks for."""
    batches = options.batch or ((1,) if options.quick else (1, 8))
    cases: list[Network] = []
    if options.kind in (None, "network"):
        cases += [*networks(batches), *models(batches)]
    if options.kind in (None, "op"):
        cases += ops()
    return [case for case in cases if any(text in case.name for text in options.only.split("|"))]


def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def machine(threads: int) -> dict[str, Any]:
    """What the numbers depend on."""
    names = ("jax", "jaxlib", "onnxruntime", "openvino", "ai-edge-litert", "numpy", "webnn-xla")
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {
        "date": datetime.date.today().isoformat(), "processor": model or platform.processor(), "machine": platform.machine(),
        "cores": os.cpu_count(), "threads": threads, "clock": CLOCKS[measure.clock is time.process_time],
        "python": platform.python_version(), "versions": versions, "load_before": round(load, 2),
    }  # fmt: skip


class Files:
    """The files of one case for each runtime, made when they are first asked for."""

    def __init__(self, case: Network, folder: Path) -> None:
        self.case, self.folder = case, folder
        self._onnx: bytes | Path | None = case.path
        self._litert: tuple[bytes, list[bool], list[bool]] | None = None

    @property
    def onnx(self) -> bytes | Path:
        if self._onnx is None:
            self._onnx = with_onnx.make_model(self.case)
        return self._onnx

    @property
    def litert(self) -> tuple[bytes, list[bool], list[bool]]:
        if self.case.path is not None:
            raise NotImplementedError("an ONNX file, and the converters need torch or tensorflow")
        if self._litert is None:
            self._litert = with_litert.make_model(self.case)
        return self._litert

    def path(self, runtime: str, graph: webnn.MLGraph | None) -> Path:
        """Where the file of a runtime lies; it is written."""
        if runtime == US and self.case.path is None:
            assert graph is not None
            webnn.save(graph, self.folder / "graph")
            return self.folder / "graph"
        data = self.litert[0] if runtime == "LiteRT" else self.onnx
        if isinstance(data, Path):
            return data
        target = self.folder / ("model.tflite" if runtime == "LiteRT" else "model.onnx")
        target.write_bytes(data)
        return target


def runtimes(case: Network, context: webnn.MLContext, threads: int, files: Files) -> dict[str, Callable[[], Runnable]]:
    made: dict[str, Callable[[], Runnable]] = {
        US: lambda: with_webnn.prepare(case, context),
        BASE: lambda: with_onnx.prepare_onnxruntime(case, threads, files.onnx),
        "OpenVINO": lambda: with_onnx.prepare_openvino(case, threads, files.onnx),
        "LiteRT": lambda: with_litert.prepare(case, threads, files.litert[0], files.litert[2]),
    }
    if case.batch == 1 and case.path is None:
        made["naive jax.lax"] = lambda: with_lax.prepare(case)
    return {name: make for name, make in made.items() if name not in PEERS or _there(PEERS[name])}


def run_case(case: Network, context: webnn.MLContext, threads: int, quick: bool) -> dict[str, Any]:
    """One case in all runtimes. A runtime that cannot do it is left out, with its reason."""
    with tempfile.TemporaryDirectory() as folder:
        files = Files(case, Path(folder))
        ready: dict[str, Runnable] = {}
        failures: dict[str, str] = {}
        for name, make in runtimes(case, context, threads, files).items():
            try:
                ready[name] = make()
            except Exception as error:
                failures[name] = f"{type(error).__name__}: {error}"[:300]
        reference = ready[BASE].run() if BASE in ready else ready[US].run()
        differences = {}
        for name, item in ready.items():
            pairs = zip(reference, item.run(), strict=True)
            differences[name] = max(float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30)) for a, b in pairs)
            if differences[name] > TOLERANCE:
                failures[name] = f"wrong: differs by {differences[name]:.1e}"
        seconds = (1.0 if quick else 1.6) if case.kind == "op" else (3.0 if quick else 5.0 if case.batch == 1 else 6.0)
        bound = interleave({name: item.run_bound or item.run for name, item in ready.items()}, seconds=seconds)
        between = {name: item.run for name, item in ready.items() if name in (US, BASE) and case.batch == 1}
        host = interleave(between, seconds=seconds / 3) if between else {}
        alone = {} if quick or case.kind == "op" else run_alone(case, files, ready, threads, failures)
    return {
        "name": case.name, "kind": case.kind, "batch": case.batch, "failures": failures, "differences": differences,
        "bound": {name: timing.as_dict() for name, timing in bound.items()},
        "host": {name: timing.as_dict() for name, timing in host.items()},
        "build": {name: item.build_seconds for name, item in ready.items()},
        "first": {name: item.first_seconds for name, item in ready.items()},
        "alone": alone,
    }  # fmt: skip


def run_alone(
    case: Network, files: Files, ready: Mapping[str, Runnable], threads: int, failures: dict[str, str]
) -> dict[str, Any]:
    """Each runtime in a process of its own, this package twice: with an empty cache on disk, and with what that left there."""
    np.savez(files.folder / "inputs.npz", **case.inputs)
    job = {
        "kind": "network", "name": case.name, "inputs": str(files.folder / "inputs.npz"), "threads": threads,
        "cache": str(files.folder / "cache"), "given": case.path is not None,
    }  # fmt: skip
    found: dict[str, Any] = {}
    for name, item in ready.items():
        if name == "naive jax.lax":
            continue
        try:
            place = str(files.path(name, item.notes.get("graph")))
            found[name] = child.run(job | {"runtime": name, "path": place})
            if name == US:
                found[f"{US}, cached"] = child.run(job | {"runtime": name, "path": place})
        except Exception as error:
            failures[f"{name}, in a process of its own"] = f"{type(error).__name__}: {error}"[:300]
    return found


def ratio(case: Mapping[str, Any], name: str, kind: str = "bound") -> float | None:
    """Median to onnxruntime's median."""
    timings = case[kind]
    return timings[name]["median"] / timings[BASE]["median"] if name in timings and BASE in timings else None


def show(results: dict[str, Any], console: Console) -> None:
    """One table: medians with their range, ratios to onnxruntime; for networks also building, first call and memory."""
    found = results["machine"]
    wide = console.width >= WIDE
    alone = console.width >= NARROW and any(case["alone"] for case in results["cases"])
    notes = ["×: ratio of medians to onnxruntime's, on resident tensors."]
    if alone:
        notes.append("Build: cold / from the cache / onnxruntime; first call; peak memory beyond that of the runtime alone:")
        notes.append(f"{US} / onnxruntime, each in a new process.")
    table = Table(
        title=f"{found['date']}, {found['processor']}, threads: {found['threads']}, {found['clock']}",
        title_justify="left", caption=" ".join(notes), caption_justify="left", box=SIMPLE, padding=(0, 1, 0, 0),
    )  # fmt: skip
    table.add_column("case", no_wrap=True)
    heads = ["batch", "onnxruntime,\nms", "webnn-xla,\nms", "webnn-xla\n×", "OpenVINO\n×", "LiteRT\n×", "naive\njax.lax ×"]
    for head in (*heads, "build, s", *(("first call,\nms", "peak, MB") if alone else ())):
        table.add_column(head, justify="right", no_wrap=True)
    for case in results["cases"]:
        row = [case["name"], str(case["batch"]), *(spread(case["bound"].get(name), wide=wide) for name in (BASE, US))]
        for name in (US, *OTHERS):
            value = ratio(case, name)
            row.append("–" if value is None else _coloured(value, "!" if name in case["failures"] else ""))
        if alone and case["alone"]:
            ours, cached, base = (case["alone"].get(name, {}) for name in (US, f"{US}, cached", BASE))
            row.append(" / ".join(_number(item.get("build"), 1, 2) for item in (ours, cached, base)))
            row.append(" / ".join(_number(item.get("first"), 1e3) for item in (ours, base)))
            row.append(" / ".join(_number(item.get("peak"), 2**-20) for item in (ours, base)))
        else:
            row += [_number(case["build"].get(US), 1, 2), *(["", ""] if alone else [])]
        table.add_row(*row)
    console.print(table)
    reasons: dict[str, list[str]] = {}
    for case in results["cases"]:
        for name, reason in case["failures"].items():
            reasons.setdefault(f"{name}: {reason}", []).append(f"{case['name']}, batch {case['batch']}")
    for reason, where in reasons.items():
        console.print(
            f"– {reason} ({'; '.join(where)})", style="red" if "wrong" in reason else "", markup=False, highlight=False
        )
    for name, reason in (results["missing"] | results.get("overheads", {})).items():
        console.print(f"{name}: {reason}", markup=False, highlight=False)


def _coloured(value: float, mark: str) -> str:
    style = "green" if value <= 1 else "yellow" if value <= 2 else "red"
    return f"[{style}]{value:.2f}{mark}[/]"


def _number(value: float | None, unit: float = 1.0, digits: int = 0) -> str:
    return "–" if value is None else f"{value * unit:.{digits}f}"


def spread(timing: Mapping[str, float] | None, *, wide: bool) -> str:
    """A median in milliseconds, with its range where there is room."""
    if timing is None:
        return "–"

    def short(name: str) -> str:
        value = timing[name] * 1e3
        return f"{value:.3f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:.0f}"

    return f"{short('median')} ({short('low')}–{short('high')})" if wide else short("median")


if __name__ == "__main__":
    main()
