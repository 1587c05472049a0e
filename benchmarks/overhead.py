"""What the package costs beside XLA: lowering against hand-written ``jax.lax``, building, dispatch, memory."""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np
from jax import lax

import webnn_xla as webnn
from benchmarks import child, with_lax, with_webnn
from benchmarks.measure import interleave
from benchmarks.networks import networks

CHAIN = 500


def run(context: webnn.MLContext) -> dict[str, str]:
    """All of them, as text by name."""
    found = {}
    found["MiniLM against hand-written jax.lax, run time"] = f"{lowering_of_minilm(context):.2f} ×"
    found[f"chain of {CHAIN} ops against hand-written jax.lax, run time"] = f"{lowering_of_chain(context):.2f} ×"
    found[f"recording and lowering of {CHAIN} ops, without XLA"] = f"{build_python_seconds(context) * 1e3:.0f} ms"
    ours, jit = dispatch_seconds(context)
    found["dispatch of a tiny graph on resident tensors"] = (
        f"{ours * 1e6:.1f} µs, {ours / jit:.2f} × a jax.jit call ({jit * 1e6:.1f} µs)"
    )
    peak = child.run({"kind": "weights", "megabytes": 1024})["peak"]
    found["peak memory while building, loading and running 1 GiB of weights"] = f"{peak / 2**30:.2f} × the weights"
    return found


def lowering_of_minilm(context: webnn.MLContext) -> float:
    case = networks((1,))[0]
    ours, theirs = with_webnn.prepare(case, context), with_lax.prepare(case)
    assert ours.run_bound is not None
    assert theirs.run_bound is not None
    times = interleave({"ours": ours.run_bound, "theirs": theirs.run_bound}, seconds=8)
    return times["ours"].median / times["theirs"].median


def _chain(context: webnn.MLContext) -> webnn.MLGraphBuilder:
    builder: Any = webnn.MLGraphBuilder(context)
    x = builder.input("x", [256, 256], "float32")
    y = x
    for index in range(CHAIN):
        y = builder.tanh(y) if index % 5 == 0 else builder.add(y, x) if index % 2 else builder.mul(y, x)
    builder.y = y
    return builder  # type: ignore[no-any-return]


def lowering_of_chain(context: webnn.MLContext) -> float:
    builder: Any = _chain(context)
    graph = builder.build({"y": builder.y})

    def function(x: Any) -> Any:
        y = x
        for index in range(CHAIN):
            y = lax.tanh(y) if index % 5 == 0 else lax.add(y, x) if index % 2 else lax.mul(y, x)
        return y

    array = jax.device_put(np.random.default_rng(0).standard_normal((256, 256), np.float32) * np.float32(0.1))
    compiled = jax.jit(function).lower(array).compile()
    times = interleave(
        {"ours": lambda: graph(x=array)["y"].block_until_ready(), "theirs": lambda: compiled(array).block_until_ready()},
        seconds=4,
    )
    return times["ours"].median / times["theirs"].median


def build_python_seconds(context: webnn.MLContext) -> float:
    """Recording, validation, rewrites and tracing to StableHLO; the best of five."""
    from webnn_xla.program import Program

    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        builder: Any = _chain(context)
        _ = Program(builder._graph({"y": builder.y}), context.target, context.device, names=context.rewrites).stage
        best = min(best, time.perf_counter() - started)
    return best


def dispatch_seconds(context: webnn.MLContext) -> tuple[float, float]:
    """A dispatch that adds one to eight numbers, and the same with ``jax.jit``."""
    builder = webnn.MLGraphBuilder(context)
    graph = builder.build({"y": builder.input("x", [8], "float32") + 1.0})
    x = context.create_tensor({"data_type": "float32", "shape": [8]}, writable=True)
    y = context.create_tensor({"data_type": "float32", "shape": [8]}, readable=True)
    context.write_tensor(x, np.ones(8, np.float32))
    inputs, outputs = {"x": x}, {"y": y}
    plain = jax.jit(lambda x: lax.add(x, lax.full_like(x, 1)))
    array = x.array
    times = interleave(
        {"ours": lambda: context.dispatch(graph, inputs, outputs), "jit": lambda: plain(array)}, seconds=3, rounds=2000
    )
    return times["ours"].median, times["jit"].median
