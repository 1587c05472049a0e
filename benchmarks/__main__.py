"""Runs the benchmarks: ``python -m benchmarks [--only TEXT] [--quick] [--output DIR]``. Under 15 minutes on two cores.

Every case is built for each runtime, the results are compared, and the runtimes take turns (see ``measure``). Ratios are
medians to onnxruntime's median of the same run. Writes ``results.json`` and ``report.html``.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import webnn_xla as webnn
from benchmarks import growth, measure, overhead, with_lax, with_onnx, with_webnn
from benchmarks.measure import interleave
from benchmarks.networks import networks
from benchmarks.ops import ops
from benchmarks.report import write_html
from benchmarks.vocabulary import Network, Runnable

CLOCKS = ("time", "processor time")
US, BASE = "webnn-xla", "onnxruntime"
TOLERANCE = 2e-4
"""Largest difference of results between runtimes, of the largest magnitude."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", help="cases whose name has this text; several: split by |")
    parser.add_argument("--quick", action="store_true", help="batch 1, a second a case, no growth")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of the other runtimes")
    parser.add_argument(
        "--output", type=Path, default=Path("benchmarks/results"), help="folder for results.json and report.html"
    )
    parser.add_argument(
        "--cpu-time", action="store_true", help="processor time on one core, in place of time: for busy machines"
    )
    options = parser.parse_args()
    if options.cpu_time:
        # Before JAX starts its threads, of which there are as many as cores.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        measure.clock, options.threads = time.process_time, 1
    console = Console()
    wanted = options.only.split("|")
    cases = [
        case for case in (*networks((1,) if options.quick else (1, 8)), *ops()) if any(text in case.name for text in wanted)
    ]
    results: dict[str, Any] = {"machine": machine(options.threads), "cases": []}
    started = time.perf_counter()
    with webnn.ML().create_context(device_type="cpu", cache=False) as context, console.status("") as status:
        for case in cases:
            status.update(f"{case.name}, batch {case.batch}")
            results["cases"].append(run_case(case, context, options.threads, options.quick))
        if not options.only:
            status.update("overheads")
            results["overheads"] = overhead.run(context)
            if not options.quick:
                status.update("growth")
                results["growth"] = growth.run()
    results["seconds"] = time.perf_counter() - started
    show(results, console)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    write_html(results, options.output / "report.html")
    console.print(f"{results['seconds']:.0f} s; {options.output / 'results.json'}, {options.output / 'report.html'}")


def machine(threads: int) -> dict[str, Any]:
    """What the numbers depend on."""
    names = ("jax", "jaxlib", "onnxruntime", "openvino", "numpy", "webnn-xla")
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
        "threads": threads, "clock": CLOCKS[measure.clock is time.process_time],
        "python": platform.python_version(), "versions": versions, "load_before": round(load, 2),
    }  # fmt: skip


def runtimes(case: Network, context: webnn.MLContext, threads: int) -> dict[str, Callable[[], Runnable]]:
    made: dict[str, Callable[[], Runnable]] = {US: lambda: with_webnn.prepare(case, context)}
    models: list[Any] = []

    def model() -> Any:
        if not models:
            models.append(with_onnx.make_model(case))
        return models[0]

    made[BASE] = lambda: with_onnx.prepare_onnxruntime(case, threads, model())
    if importlib.util.find_spec("openvino"):
        made["OpenVINO"] = lambda: with_onnx.prepare_openvino(case, threads, model())
    if case.batch == 1:
        made["naive jax.lax"] = lambda: with_lax.prepare(case)
    return made


def run_case(case: Network, context: webnn.MLContext, threads: int, quick: bool) -> dict[str, Any]:
    """One case in all runtimes. A runtime that cannot do it is left out, with its reason."""
    ready: dict[str, Runnable] = {}
    failures: dict[str, str] = {}
    for name, make in runtimes(case, context, threads).items():
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
    seconds = (1.0 if quick else 2.0) if case.kind == "op" else (4.0 if quick else 8.0 if case.batch == 1 else 12.0)
    bound = interleave({name: item.run_bound or item.run for name, item in ready.items()}, seconds=seconds)
    host = interleave({name: item.run for name, item in ready.items() if name in (US, BASE)}, seconds=seconds / 3)
    return {
        "name": case.name, "kind": case.kind, "batch": case.batch, "failures": failures, "differences": differences,
        "bound": {name: timing.as_dict() for name, timing in bound.items()},
        "host": {name: timing.as_dict() for name, timing in host.items()},
        "build": {name: item.build_seconds for name, item in ready.items()},
        "first": {name: item.first_seconds for name, item in ready.items()},
    }  # fmt: skip


def ratio(case: dict[str, Any], name: str, kind: str = "bound") -> float | None:
    """Median to onnxruntime's median."""
    timings = case[kind]
    return timings[name]["median"] / timings[BASE]["median"] if name in timings and BASE in timings else None


def show(results: dict[str, Any], console: Console) -> None:
    """One table: times of onnxruntime, and ratios to it."""
    found = results["machine"]
    title = (
        f"{found['date']}, {found['processor']}, {found['threads']} threads, {found['clock']}; ratio to onnxruntime's median"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("case", no_wrap=True)
    table.add_column("batch", justify="right")
    table.add_column(BASE, justify="right")
    names = [US, "OpenVINO", "naive jax.lax"]
    for name in (*names, f"{US}, NumPy to NumPy", f"{US}, build"):
        table.add_column(name, justify="right")
    for case in results["cases"]:
        row = [case["name"], str(case["batch"]), human(case["bound"][BASE]["median"]) if BASE in case["bound"] else "–"]
        for name in names:
            value = ratio(case, name)
            row.append("–" if value is None else _coloured(value, "!" if name in case["failures"] else ""))
        host = ratio(case, US, "host")
        row += ["–" if host is None else f"{host:.2f}", f"{case['build'].get(US, 0):.2f} s"]
        table.add_row(*row)
    console.print(table)
    for case in results["cases"]:
        for name, reason in case["failures"].items():
            console.print(f"{case['name']}, {name}: {reason}", style="red", markup=False)
    for name, value in results.get("overheads", {}).items():
        console.print(f"{name}: {value}", markup=False)


def _coloured(value: float, mark: str) -> str:
    style = "green" if value <= 1 else "yellow" if value <= 2 else "red"
    return f"[{style}]{value:.2f}{mark}[/]"


def human(seconds: float) -> str:
    """A time in the unit that suits it."""
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


if __name__ == "__main__":
    main()
