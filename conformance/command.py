"""The command line of this folder: ``webnn-xla conformance …``. What runs is imported when it runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from webnn_xla.errors import DataError, WebNNError

app = typer.Typer(help="Compare with others' truth.")

Optimize = Annotated[bool, typer.Option(help="With rewrites and the lowerings of the device, or as written.")]


@app.command()
def wpt(
    directory: Annotated[Path, typer.Argument(help="Folder with conformance/ and validation/.", show_default=False)],
    op: Annotated[list[str] | None, typer.Option(help="Only this op, in camelCase. May be given again.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write counts and failures to this file.")] = None,
    show: Annotated[int, typer.Option(min=0, help="How many failures to show.")] = 10,
    device_type: Annotated[str | None, typer.Option(help="cpu, gpu or tpu. By default the best there is.")] = None,
    through: Annotated[str | None, typer.Option(help="stablehlo or tosa: small cases in that oracle, in place of XLA.")] = None,
    optimize: Optimize = True,
) -> None:
    """Run the vectors of web-platform-tests. Exit status: 0 all passed, 1 some failed, 2 they could not be run."""
    if through is not None:
        _wpt_through(directory, through, op, json_file, show)
    with _errors():
        _check_writable(json_file)
        from webnn_xla.conformance.wpt import run
        from webnn_xla.context import ML

        with ML().create_context(device_type=device_type, optimize=optimize) as context, _progress() as progress:
            report = run(directory, ops=op, context=context, progress=progress)
        _write_json(json_file, report)
    for failure in report.failures[:show]:
        typer.echo(f"FAILED {failure}")
    hidden = len(report.failures) - show
    if hidden > 0:
        typer.echo(f"… and {hidden} more")
    for corrected in report.corrected:
        typer.echo(f"corrected {corrected}")
    typer.echo(str(report))
    raise typer.Exit(1 if report.failures else 0)


def _wpt_through(directory: Path, oracle: str, ops: list[str] | None, json_file: Path | None, show: int) -> NoReturn:
    with _errors():
        if oracle not in ("stablehlo", "tosa"):
            raise DataError(f"--through: got {oracle}; allowed: stablehlo, tosa")
        _check_writable(json_file)
        from webnn_xla.conformance.wpt_oracles import run_through
        from webnn_xla.context import ML

        with ML().create_context(device_type="cpu") as context, _progress() as progress:
            report = run_through(directory, oracle, context=context, ops=ops, progress=progress)
        _write_json(json_file, report)
    for name, case, state, reason in report.failures[:show]:
        typer.echo(f"{state.upper()} {name} {case!r}: {reason}")
    typer.echo(str(report))
    raise typer.Exit(1 if report.failures else 2 if "not installed" in report.counts() else 0)


@app.command("stablehlo-testdata")
def stablehlo_testdata(
    directory: Annotated[Path, typer.Argument(help="A checkout of openxla/stablehlo.", show_default=False)],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write counts and failures to this file.")] = None,
    show: Annotated[int, typer.Option(min=0, help="How many failures to show.")] = 10,
) -> None:
    """Run StableHLO's own test data through XLA. Exit status: 0 all passed, 1 some failed, 2 they could not be run."""
    with _errors():
        _check_writable(json_file)
        from webnn_xla.conformance.stablehlo_testdata import run

        with _progress() as progress:
            report = run(directory, progress)
        _write_json(json_file, report)
    for name, problem in list(report.failed.items())[:show]:
        typer.echo(f"FAILED {name}: {problem}")
    typer.echo(str(report))
    raise typer.Exit(1 if report.failed else 0)


@app.command()
def onnx(
    name: Annotated[list[str] | None, typer.Option("--case", help="Only cases of this pattern. May be given again.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write counts and failures to this file.")] = None,
    show: Annotated[int, typer.Option(min=0, help="How many failures to show.")] = 10,
    device_type: Annotated[str, typer.Option(help="cpu, gpu or tpu.")] = "cpu",
    step: Annotated[int, typer.Option(min=1, help="Only every N-th case.")] = 1,
    optimize: Optimize = True,
) -> None:
    """Run the node tests of the onnx package. Exit status: 0 all passed, 1 some failed, 2 they could not be run."""
    with _errors():
        _check_writable(json_file)
        from webnn_xla.conformance.onnx_nodes import run
        from webnn_xla.context import ML

        # A cache on disk would fill with the batches of this command, which nothing else runs.
        with (
            ML().create_context(device_type=device_type, optimize=optimize, cache=False) as context,
            _progress() as progress,
        ):
            report = run(name, context=context, step=step, progress=progress)
        _write_json(json_file, report)
    for failure in report.failures[:show]:
        typer.echo(f"FAILED {failure.name}: {failure.problem}")
    if len(report.failures) > show:
        typer.echo(f"… and {len(report.failures) - show} more")
    typer.echo(str(report))
    raise typer.Exit(1 if report.failures else 0)


@app.command()
def spec(
    op: Annotated[list[str] | None, typer.Option(help="Only this op, as in `webnn-xla ops`. May be given again.")] = None,
    data_type: Annotated[list[str] | None, typer.Option("--type", help="Only this data type. May be given again.")] = None,
    max_cases: Annotated[int | None, typer.Option(min=1, help="At most so many cases of each op and type.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write everything to this file.")] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write a page to this file.")] = None,
    show: Annotated[int, typer.Option(min=0, help="How many unexplained differences to show.")] = 10,
    device_type: Annotated[str, typer.Option(help="cpu, gpu or tpu.")] = "cpu",
) -> None:
    """Every op in XLA, StableHLO's interpreter and TOSA's model, against float64.

    Exit status: 0 all agree, or differ as explained; 1 unexplained differences or crashes; 2 an oracle is not installed.
    """
    with _errors():
        _check_writable(json_file, html_file)
        from webnn_xla.conformance import specifications
        from webnn_xla.context import ML

        with ML().create_context(device_type=device_type) as context, _progress("starting") as progress:
            report = specifications.run(op, context=context, data_types=data_type, max_cases=max_cases, progress=progress)
        _write_json(json_file, report)
        if html_file is not None:
            from webnn_xla.conformance.specification_page import page

            html_file.write_text(page(report), encoding="utf-8")
    for problem in report.problems[:show]:
        typer.echo(f"DIFFERS {problem}")
    if len(report.problems) > show:
        typer.echo(f"… and {len(report.problems) - show} more")
    typer.echo(str(report))
    for name in report.missing:
        typer.echo(f"error: the oracle {name} is not installed: pip install tosa-tools", err=True)
    raise typer.Exit(1 if report.problems else 2 if report.missing else 0)


class _Report(Protocol):
    def to_json(self) -> object: ...


@contextmanager
def _errors() -> Iterator[None]:
    """What could not be run ends as one line on standard error, and exit status 2."""
    try:
        yield
    except (WebNNError, ImportError, OSError) as error:
        message = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        typer.echo(f"error: {message}", err=True)
        raise typer.Exit(2) from None


def _check_writable(*files: Path | None) -> None:
    """Before the work, which takes long: DataError unless every file that is given can be written."""
    for file in files:
        if file is None:
            continue
        if not file.parent.is_dir():
            raise DataError(f"{file}: no such folder")
        if file.is_dir():
            raise DataError(f"{file}: is a folder")
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise DataError(f"{file}: may not be written")


def _write_json(file: Path | None, report: _Report) -> None:
    if file is not None:
        file.write_text(json.dumps(report.to_json(), indent=1) + "\n")


@contextmanager
def _progress(first: str = "reading") -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error, if that is a terminal. Gives what is called with a name, how many are done, and of how many."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(first, total=None)
        yield lambda name, done, total: bar.update(task, description=name[:24], completed=done, total=total)
