"""Commands on ONNX models: ``webnn-xla import``, ``check``, and ``run MODEL.onnx``. The importer is loaded when one runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from webnn_xla.errors import NotSupportedError, printable

ModelPath = Annotated[Path, typer.Argument(help="An ONNX model.", show_default=False)]
Dims = Annotated[list[str] | None, typer.Option("--dim", help="NAME=SIZE of a free dimension. May be given again.")]
Values = Annotated[
    list[str] | None,
    typer.Option("--value", help="NAME=NUMBER of an input that shapes or branches depend on. May be given again."),
]
DeviceType = Annotated[str | None, typer.Option(help="cpu, gpu or tpu. By default the best there is.")]


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command("import")(import_model)
    app.command("check")(check)


def import_model(
    model: ModelPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the graph and its weights.", show_default=False)],
    dim: Dims = None,
    value: Values = None,
    device_type: DeviceType = None,
) -> None:
    """Turn an ONNX model into a WebNN graph on disk: topology in JSON, weights in safetensors."""
    importer = _importer()
    from webnn_xla import arrayfiles
    from webnn_xla.context import ML
    from webnn_xla.serialization import save

    with ML().create_context(device_type=device_type) as context:
        with _progress() as progress:
            graph = importer.from_onnx(
                model,
                arrayfiles.sizes(dim),
                values=arrayfiles.numbers(value),
                context=context,
                progress=progress,
                optimize=False,
            )
        save(graph, output)
        typer.echo(f"{printable(model.name)} → {output}: {graph.operation_count} ops, {len(graph.weights)} weights")


def check(model: ModelPath, dim: Dims = None, value: Values = None) -> None:
    """Say what an ONNX model needs, and list every node that cannot be imported. Reads no weights. Exit status 1 if any."""
    from webnn_xla import arrayfiles

    report = _importer().check_onnx(model, arrayfiles.sizes(dim), values=arrayfiles.numbers(value))
    typer.echo(str(report))
    raise typer.Exit(0 if report.ok else 1)


def run_model(
    model: Path,
    inputs: Sequence[str],
    output: Path | None,
    dims: Sequence[str] | None,
    *,
    random: bool,
    seed: int,
    repeat: int,
    device_type: str | None,
) -> None:
    """Runs an ONNX model on arrays in files. Prints a summary of the outputs and the time."""
    importer = _importer()
    from webnn_xla import arrayfiles
    from webnn_xla.context import ML
    from webnn_xla.dtypes import Descriptor, MLOperandDataType
    from webnn_xla.importers.onnx.types import storage_of, to_storage

    with ML().create_context(device_type=device_type) as context:
        sizes = arrayfiles.sizes(dims)
        with _progress() as progress:
            session = importer.Session(model, context=context, progress=progress)
            problems = [port.problem for port in session.inputs if port.dtype is None]
            if problems:
                raise NotSupportedError("; ".join(problems), operator="run")
            types = {port.name: port.dtype for port in session.inputs}
            wanted = {name: Descriptor(storage_of(dtype), []) for name, dtype in types.items()}
            given = arrayfiles.read_inputs(inputs, wanted)
            if random:
                shapes = session.model.shapes(
                    {**sizes, **{name: list(array.shape) for name, array in given.items()}} if given else sizes
                )
                drawn = arrayfiles.random_inputs({name: wanted[name].with_shape(shapes[name]) for name in wanted}, seed)
                given = {name: array.astype(types[name]) for name, array in drawn.items()} | given
            started = time.perf_counter()
            graph = session.graph(given)
            built = time.perf_counter() - started
        seconds = []
        for _ in range(repeat):
            started = time.perf_counter()
            results = graph.compute(given)
            seconds.append(time.perf_counter() - started)
        written = arrayfiles.write_outputs(output, results) if output is not None else {}
        for name, array in results.items():
            shown = array if array.dtype.name in list(MLOperandDataType) else to_storage(array)
            typer.echo(arrayfiles.describe(name, shown, written.get(name)))
        of = f" (median of {repeat})" if repeat > 1 else ""
        run = statistics.median(seconds) * 1000
        typer.echo(f"import and compile {built:.2f} s; run {run:.3g} ms{of} on {context.device.platform}")


def _importer() -> Any:
    try:
        from webnn_xla.importers import onnx
    except ImportError as error:
        raise NotSupportedError(str(error)) from None
    return onnx


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar for each stage, on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done, total=total)

        yield show
