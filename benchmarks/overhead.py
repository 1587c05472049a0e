"""What the package costs beside XLA: lowering against hand-written ``jax.lax``, building, dispatch, memory."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import jax
import numpy as np
from jax import lax

import webnn_xla as webnn
from benchmarks import with_lax, with_webnn
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
    weights, peak = memory(1024)
    found["peak memory while building and loading 1 GiB of weights"] = f"{peak / weights:.2f} × the weights"
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


MEMORY = """
import resource, sys
import numpy as np
import webnn_xla as webnn
megabytes = int(sys.argv[1])
context = webnn.ML().create_context(device_type="cpu", cache=False)
def build(count, rows):
    builder = webnn.MLGraphBuilder(context)
    y = builder.input("x", [1, 1024], "float32")
    for index in range(count):
        y = builder.relu(builder.matmul(y, builder.constant({"data_type": "float32", "shape": [1024, rows]}, name=f"w{index}")))
        if rows != 1024:
            y = builder.slice(y, [0, 0], [1, 1024])
    return builder.build({"y": y})
small = build(4, 1024)
small.load_weights({name: np.zeros((1024, 1024), np.float32) for name in small._names})
small.compute({"x": np.zeros((1, 1024), np.float32)})
del small
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
graph = build(max(1, megabytes // 64), 16384)
class Weights(dict):
    def __getitem__(self, name):
        return np.zeros((1024, 16384), np.float32)
    def items(self):
        return ((name, self[name]) for name in self)
graph.load_weights(Weights(dict.fromkeys(graph._names)))
graph.compute({"x": np.zeros((1, 1024), np.float32)})
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def memory(megabytes: int) -> tuple[int, int]:
    """Bytes of weights, and how far the peak of a process rose while it built the graph, loaded them and ran once."""
    result = subprocess.run([sys.executable, "-c", MEMORY, str(megabytes)], capture_output=True, text=True, check=True)
    return megabytes * 2**20, int(result.stdout)
