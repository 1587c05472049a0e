"""``webnn-xla compare``: a graph or an ONNX model on disk in XLA and in oracles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("compare")(compare)


def compare(
    graph: Annotated[Path, typer.Argument(help="A folder that webnn_xla.save wrote, or an ONNX model.", show_default=False)],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "--inputs", help="NAME=FILE.npy, or FILE.npz with arrays by name. May be given again."),
    ] = None,
    against: Annotated[
        str, typer.Option(help="Of stablehlo, tosa, onnxruntime and onnx-reference, with commas.")
    ] = "stablehlo,tosa",
    dim: Annotated[list[str] | None, typer.Option("--dim", help="NAME=SIZE of a model's free dimension.")] = None,
    value: Annotated[
        list[str] | None, typer.Option("--value", help="NAME=NUMBER of a model's input that shapes or branches depend on.")
    ] = None,
    random: Annotated[bool, typer.Option("--random", help="Random numbers for inputs that are not given.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers.")] = 0,
    onnx: Annotated[
        Path | None, typer.Option(help="The ONNX model that a folder's graph came from, for oracles that run it.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for each oracle.")] = 120,
    device_type: Annotated[str, typer.Option(help="cpu, gpu or tpu.")] = "cpu",
) -> None:
    """Run a graph in XLA and in oracles, and print the first op where they part.

    Exit status: 0 all agree, 1 they part, 2 an oracle could not be asked.
    """
    from webnn_xla import arrayfiles
    from webnn_xla.conformance import onnx_graph
    from webnn_xla.conformance.graph_compare import compare_graph
    from webnn_xla.context import ML
    from webnn_xla.errors import ArgumentError
    from webnn_xla.serialization import read_graph

    if graph.suffix == ".onnx" and onnx is not None:
        raise ArgumentError("got --onnx with an ONNX model; allowed: with a folder", operator="compare")
    if graph.suffix != ".onnx" and (dim or value):
        raise ArgumentError("got --dim or --value with a folder; allowed: with an ONNX model", operator="compare")
    with ML().create_context(device_type=device_type) as context:
        model: onnx_graph.OnnxModel | Path | None = onnx
        if graph.suffix == ".onnx":
            model = onnx_graph.read(graph, context, arrayfiles.sizes(dim), arrayfiles.numbers(value))
            topology, descriptors = model.graph, dict(model.inputs)
        else:
            topology = read_graph(graph, context, operator="compare")
            descriptors = {name: value.descriptor for name, value in topology.inputs.items()}
        given = arrayfiles.read_inputs(inputs or [], descriptors)
        if random:
            given = arrayfiles.random_inputs(descriptors, seed) | given
        names = [name.strip() for name in against.split(",") if name.strip()]
        verdicts = compare_graph(topology, given, names, context=context, model=model, timeout=timeout)
    for verdict in verdicts:
        typer.echo(str(verdict))
    answers = [verdict.agrees for verdict in verdicts]
    raise typer.Exit(1 if False in answers else 2 if None in answers else 0)
