"""The command line, ``webnn-xla``. JAX is imported by the commands that need it, so that ``--help`` is quick.

What a user got wrong is one line on standard error and exit status 2; what fails in XLA is status 1.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from webnn_xla import __version__, onnx_commands
from webnn_xla.conformance import compare_command
from webnn_xla.conformance.command import app as conformance_app
from webnn_xla.errors import ArgumentError, OperationError, WebNNError, printable

if TYPE_CHECKING:
    from webnn_xla.context import MLContext
    from webnn_xla.mlgraph import MLGraph


class _Group(TyperGroup):
    """Shows an error in one line, whether it is the user's or was raised by the package."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            status = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except (typer.TyperException, WebNNError) as error:
            message = error.format_message() if isinstance(error, typer.TyperException) else str(error)
            typer.echo(f"error: {' '.join(message.split())}", err=True)
            status = 1 if isinstance(error, OperationError) else 2
        except typer.Abort:
            status = 1
        if standalone_mode:
            sys.exit(status)
        return status


app = typer.Typer(
    cls=_Group,
    help="W3C WebNN graphs as XLA executables.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(conformance_app, name="conformance")
onnx_commands.register(app)
compare_command.register(app)


def main() -> None:
    """Entry point of ``webnn-xla``."""
    app(prog_name="webnn-xla")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"webnn-xla {__version__}")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """W3C WebNN graphs as XLA executables."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


GraphPath = Annotated[Path, typer.Argument(help="A folder that webnn_xla.save wrote.", show_default=False)]
DeviceType = Annotated[str | None, typer.Option(help="cpu, gpu or tpu. By default the best there is.")]


# ops, limits


@app.command()
def ops(
    as_json: Annotated[bool, typer.Option("--json", help="Everything that is declared, as JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The table in Markdown.")] = False,
) -> None:
    """The op table: data types, ranks, StableHLO operators emitted, TOSA counterparts."""
    from webnn_xla import optable
    from webnn_xla.lowering import OPS

    if as_json and as_markdown:
        raise ArgumentError("got --json and --markdown; allowed: one of them", operator="ops")
    if as_json:
        typer.echo(json.dumps([optable.describe(op) for op in OPS.values()], indent=2, ensure_ascii=False))
    elif as_markdown:
        typer.echo(optable.markdown(), nl=False)
    else:
        from rich.table import Table

        table = Table(*optable.HEADINGS)
        for row in optable.rows():
            table.add_row(*row)
        # In a pipe a row is a line: nothing is folded at the 80 columns that a terminal might have.
        console = Console(width=None if sys.stdout.isatty() else 10_000, markup=False, highlight=False)
        console.print(table)
        console.print("all: the eight types of the specification; floats: float32, float16")


@app.command()
def limits(
    extensions: Annotated[bool, typer.Option("--extensions", help="Also types and ops that the specification lacks.")] = False,
    device_type: DeviceType = None,
) -> None:
    """opSupportLimits() of a context, as JSON."""
    with _context(device_type) as context:
        typer.echo(json.dumps(context.op_support_limits(extensions=extensions), indent=2))


# show


@app.command()
def show(
    graph: GraphPath,
    stablehlo: Annotated[bool, typer.Option("--stablehlo", help="The StableHLO module in place of the summary.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Also what XLA says it costs. Compiles the graph.")] = False,
    rewrites: Annotated[bool, typer.Option("--rewrites", help="Also which rewrites fire where, for the device.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Write a picture to this file.")] = None,
    device_type: DeviceType = None,
) -> None:
    """A graph in text: inputs, outputs, weights, and operations in order. Weights are not read."""
    from webnn_xla import render
    from webnn_xla.serialization import read_graph

    with _context(device_type) as context:
        topology = read_graph(graph, context, weights=False, operator="show")
        if svg is not None:
            _write(svg, render.svg(topology).encode())
        if stablehlo:
            from webnn_xla.export import canonical_text

            typer.echo(canonical_text(topology)[0])
        else:
            typer.echo("\n".join(render.summary(topology)))
        if rewrites:
            from webnn_xla.rewrites import apply

            rewritten, fired = apply(topology, context.target, context.rewrites)
            typer.echo(
                f"rewrites: {len(topology.nodes)} operations become {len(rewritten.nodes)}, some of them of weights only"
            )
            for place in fired:
                typer.echo(f"  {printable(str(place))}")
        if cost:
            from dataclasses import asdict

            compiled = _load(graph, context, weights=False)
            typer.echo("cost, as XLA estimates it")
            for name, value in asdict(compiled.cost()).items():
                typer.echo(f"  {name.replace('_', ' ')}: {value:,.0f}" + ("" if name == "flops" else " bytes"))


# run


@app.command()
def run(
    graph: Annotated[Path, typer.Argument(help="A folder that webnn_xla.save wrote, or MODEL.onnx.", show_default=False)],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="NAME=FILE.npy, or FILE.npz with arrays by name. May be given again.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for one .npy file an output, or a FILE.npz.")] = None,
    weights: Annotated[Path | None, typer.Option(help="A safetensors file to take named constants from.")] = None,
    random: Annotated[bool, typer.Option("--random", help="Random numbers for inputs that are not given.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="Runs; the time shown is the median.")] = 1,
    dim: onnx_commands.Dims = None,
    device_type: DeviceType = None,
) -> None:
    """Run a graph on arrays in files. Prints a summary of the outputs and the time."""
    if graph.suffix == ".onnx":
        onnx_commands.run_model(
            graph, inputs or [], output, dim, random=random, seed=seed, repeat=repeat, device_type=device_type
        )
        return
    import statistics
    import time

    from webnn_xla import arrayfiles

    with _context(device_type) as context:
        started = time.perf_counter()
        compiled = _load(graph, context)
        if weights is not None:
            compiled.load_weights(weights)
        loaded = time.perf_counter() - started
        given = arrayfiles.read_inputs(inputs or [], compiled.input_descriptors)
        if random:
            given = arrayfiles.random_inputs(compiled.input_descriptors, seed) | given
        seconds = []
        with _progress("running"):
            for _ in range(repeat):
                started = time.perf_counter()
                results = compiled.compute(given)
                seconds.append(time.perf_counter() - started)
        written = arrayfiles.write_outputs(output, results) if output is not None else {}
    for name, array in results.items():
        typer.echo(arrayfiles.describe(name, array, written.get(name)))
    built = ", ".join(f"{step} {duration:.2f} s" for step, duration in compiled.build_seconds.items())
    of = f" (median of {repeat})" if repeat > 1 else ""
    typer.echo(
        f"load {loaded:.2f} s ({built}); run {statistics.median(seconds) * 1000:.3g} ms{of} on {context.device.platform}"
    )


# Pieces


@contextmanager
def _context(device_type: str | None) -> Iterator[MLContext]:
    with _progress("starting"):
        from webnn_xla.context import ML

        made = ML().create_context(device_type=device_type)
    with made as context:
        yield context


def _load(path: Path, context: MLContext, **options: Any) -> MLGraph:
    from webnn_xla.serialization import load

    with _progress("compiling"):
        return load(path, context, **options)


@contextmanager
def _progress(text: str) -> Iterator[None]:
    """Says on a terminal what is going on, once it has taken a second."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    status = console.status(text)
    timer = threading.Timer(1, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be written: {error.strerror}") from None


if __name__ == "__main__":
    main()
