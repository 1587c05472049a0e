"""A user's graph in XLA and in oracles, op by op from the inputs on: where do they part?

    webnn-xla compare GRAPH --input NAME=FILE.npy --against stablehlo,tosa
    webnn-xla compare MODEL.onnx --random --against onnxruntime,onnx-reference

Every operand of the graph becomes an output, so that all values can be compared, in the order of the ops. Oracles that run
the ONNX model give every value that has a name there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from webnn_xla.conformance import interpreter, tosa_reference
from webnn_xla.conformance.onnx_graph import OnnxModel
from webnn_xla.conformance.oracle import Oracle
from webnn_xla.context import MLContext
from webnn_xla.errors import ArgumentError, NotSupportedError, WebNNError, printable
from webnn_xla.graph import Graph, Node, Value

Array = np.ndarray[Any, Any]

ORACLES: Final = ("stablehlo", "tosa", "onnxruntime", "onnx-reference")
ONNX_WORKER: Final = "webnn_xla.conformance.onnx_oracles"
RELATIVE: Final = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""How far values may be apart, relative to the largest magnitude in their tensor: errors of earlier ops add up."""


@dataclass(frozen=True)
class Verdict:
    """What an oracle says. ``agrees`` is None where it could not be asked."""

    oracle: str
    agrees: bool | None
    text: str

    def __str__(self) -> str:
        return f"{self.oracle}: {self.text}"


def compare_graph(
    graph: Graph,
    inputs: Mapping[str, Any],
    against: Sequence[str],
    *,
    context: MLContext,
    model: Path | OnnxModel | None = None,
    timeout: float = 120.0,
) -> list[Verdict]:
    """Runs ``graph`` on ``inputs`` in XLA and in each oracle, which has ``timeout`` seconds.

    ``model`` is the ONNX file that the graph came from, for oracles that run it. They give the outputs only; of an
    ``OnnxModel``, which is the graph and its file together, every value of the model.

    Errors: ArgumentError for an unknown oracle, or inputs that do not fit. An oracle's failure is a verdict.
    """
    unknown = [name for name in against if name not in ORACLES]
    if unknown:
        raise ArgumentError(f"got {', '.join(map(printable, unknown))}; allowed: {', '.join(ORACLES)}", operand="--against")
    from webnn_xla.mlgraph import MLGraph

    whole = every_value(graph)
    compiled = MLGraph._build(context, whole, optimize=False)
    of_graph = {name: array for name, array in inputs.items() if name in graph.inputs}
    mine = compiled.compute(inputs if model is None else of_graph)
    verdicts = []
    for name in against:
        try:
            if name.startswith("onnx"):
                verdicts.append(_against_onnx(name, graph, inputs, mine, whole, model, timeout))
                continue
            refused: set[str] = set()
            if name == "stablehlo":
                interpreter.check_size(compiled, timeout)
                theirs = interpreter.interpret_graph(whole, of_graph, timeout=timeout)
            else:
                theirs, module = tosa_reference.run_tosa(whole, of_graph, allow_partial=True, timeout=timeout)
                refused = {str(refusal) for refusal in module.refusals}
            verdicts.append(_verdict(name, whole, mine, theirs, refused))
        except (WebNNError, ImportError, MemoryError) as error:
            why = str(error) or type(error).__name__
            if "took longer" in why:
                why += f", which is not enough for {compiled.cost().flops:.2g} flops; --timeout gives it more"
            verdicts.append(Verdict(name, None, f"not compared: {why}"))
    return verdicts


def every_value(graph: Graph) -> Graph:
    """``graph`` with the result of every op as an output, in order; the graph's own outputs keep their places among them."""
    values = [value for node in graph.nodes for value in node.outputs]
    return Graph(graph.inputs, graph.constants, graph.nodes, {str(index): value for index, value in enumerate(values)})


def _verdict(name: str, graph: Graph, mine: Mapping[str, Array], theirs: Mapping[str, Array], refused: set[str]) -> Verdict:
    compared = 0
    for key, value in graph.outputs.items():
        if key not in theirs:
            continue
        problem = differ(mine[key], theirs[key], str(value.descriptor.data_type))
        if problem:
            node = graph.producers[value]
            return Verdict(name, False, f"parts at {_describe(graph, node)}: {problem}")
        compared += 1
    if refused:
        listed = "; ".join(sorted(refused)[:5])
        return Verdict(name, compared > 0 or None, f"{compared} of {len(graph.outputs)} values agree; cannot say: {listed}")
    return Verdict(name, True, f"all {compared} values agree")


def differ(mine: Array, theirs: Array, data_type: str) -> str:
    """How two arrays differ, in words; empty if they do not."""
    if mine.shape != theirs.shape:
        return f"shape {list(mine.shape)} here, {list(theirs.shape)} there"
    if data_type not in RELATIVE:
        off = mine != theirs
    else:
        a, b = mine.astype(np.float64), theirs.astype(np.float64)
        finite = np.abs(a[np.isfinite(a)])
        allowed = RELATIVE[data_type] * max(float(finite.max(initial=0.0)), float(np.finfo(np.float32).tiny))
        with np.errstate(invalid="ignore"):
            off = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= allowed))
    if not off.any():
        return ""
    index = tuple(int(i) for i in np.argwhere(off)[0])
    return f"{int(off.sum())} of {off.size} elements differ, the first {list(index)}: {mine[index]} here, {theirs[index]} there"


def _describe(graph: Graph, node: Node) -> str:
    position = next(index for index, other in enumerate(graph.nodes) if other is node)
    label = f" [{printable(node.label)}]" if node.label else ""
    operands = ", ".join(
        f"{name} {'[…]' if isinstance(operand, tuple) else operand.descriptor}" for name, operand in node.operands.items()
    )
    return f"op {position}, {node.op.name}{label} ({operands})"


def _against_onnx(
    oracle: str,
    graph: Graph,
    inputs: Mapping[str, Any],
    mine: Mapping[str, Array],
    whole: Graph,
    model: Path | OnnxModel | None,
    timeout: float,
) -> Verdict:
    if model is None:
        raise NotSupportedError(
            f"{oracle} runs the ONNX model that the graph came from: give it with --onnx MODEL.onnx, or in place of the graph"
        )
    given = {name: np.asarray(array) for name, array in inputs.items()}
    if isinstance(model, OnnxModel):
        path, tensors, names = model.path, model.tensors, list(model.tensors)
        given |= model.fixed
    else:
        path, tensors, names = model, graph.outputs, []
    with Oracle(ONNX_WORKER, timeout=timeout) as worker:
        theirs = worker.ask((oracle, str(path), given, names))
    keys: dict[Value, str] = {value: key for key, value in whole.outputs.items()}
    compared = [name for name in tensors if name in theirs]
    if not compared:
        listed = ", ".join(map(printable, theirs)) or "none"
        raise NotSupportedError(f"the model's outputs ({listed}) are not those of the graph")
    for name in compared:
        value = tensors[name]
        problem = differ(mine[keys[value]], np.asarray(theirs[name]), str(value.descriptor.data_type))
        if problem:
            where = f"{printable(name)}, {_describe(graph, graph.producers[value])}"
            return Verdict(oracle, False, f"parts at {where}: {problem}" if names else f"output {where}: {problem}")
    if names:
        return Verdict(oracle, True, f"all {len(compared)} values agree that have a name in the model")
    return Verdict(oracle, True, f"all {len(compared)} outputs agree (only outputs are compared)")
