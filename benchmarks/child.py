"""Measures in a process of its own: ``python -m benchmarks.child JOB``, where JOB is JSON; prints JSON.

What a runtime needs to start, build and first run a network cannot be told from a process in which others have run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.vocabulary import Network

REPOSITORY = Path(__file__).resolve().parents[1]


def run(job: Mapping[str, Any]) -> dict[str, Any]:
    """Runs ``job`` in a new process and returns what it found. RuntimeError with its last words if it fails."""
    settings = dict(job) | {"processor": measure.clock is time.process_time}
    command = [sys.executable, "-m", "benchmarks.child", json.dumps(settings)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    if result.returncode:
        raise RuntimeError(" ".join(result.stderr.split())[-300:] or f"ended with {result.returncode}")
    return json.loads(result.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def network(job: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds to start the runtime, to load and build the file ``path``, and of the first call; bytes of memory beyond those
    of the runtime alone: at most, and at the end.
    """
    clock = measure.clock
    with np.load(job["inputs"]) as file:
        inputs = {name: file[name] for name in file.files}
    path = Path(job["path"])
    item = Network(job["name"], lambda _: [], inputs, path=path if job["given"] else None)
    threads = job["threads"]
    begun = clock()
    found: dict[str, Any] = {}
    if job["runtime"] == "webnn-xla":
        import webnn_xla as webnn

        context = webnn.ML().create_context(device_type="cpu", cache=job["cache"])
        if job["given"]:
            import webnn_xla.importers.onnx
    elif job["runtime"] == "LiteRT":
        from ai_edge_litert import interpreter  # noqa: F401

        from benchmarks import with_litert
    elif job["runtime"] == "OpenVINO":
        import openvino  # noqa: F401

        from benchmarks import with_onnx
    else:
        import onnxruntime  # noqa: F401

        from benchmarks import with_onnx
    started, (before, _) = clock(), measure.memory()
    if job["runtime"] == "webnn-xla":
        if job["given"]:
            graph: Any = webnn.from_onnx(path, {name: array.shape for name, array in inputs.items()}, context=context)
        else:
            graph = webnn.load(path, context)
        built = clock()
        graph.compute(inputs)
        found["cache_hit"] = graph.cache_hit
        found |= {"build": built - started, "first": clock() - built}
    else:
        prepare = {
            "LiteRT": lambda: with_litert.prepare(item, threads, path),
            "OpenVINO": lambda: with_onnx.prepare_openvino(item, threads, path),
            "onnxruntime": lambda: with_onnx.prepare_onnxruntime(item, threads, path),
        }[job["runtime"]]
        runnable = prepare()
        found |= {"build": runnable.build_seconds, "first": runnable.first_seconds}
    held, most = measure.memory()
    return found | {"start": started - begun, "held": held - before, "peak": most - before}


def ops(job: Mapping[str, Any]) -> dict[str, Any]:
    """A chain of ``count`` ops: seconds to record, to rewrite and lower, to compile, of a dispatch; bytes of memory.

    A matrix product stands after every ``every`` element-wise ops, as XLA compiles those between into one kernel.
    """
    import webnn_xla as webnn

    clock, count = measure.clock, job["count"]
    with webnn.ML().create_context(device_type="cpu", cache=False) as context:
        begin: Any = webnn.MLGraphBuilder(context)
        begin.build({"y": begin.tanh(begin.input("x", [8, 8], "float32"))})
        before, _ = measure.memory()
        started = clock()
        builder: Any = webnn.MLGraphBuilder(context)
        y = x = builder.input("x", [8, 8], "float32")
        for index in range(count):
            if job["every"] and index % job["every"] == job["every"] - 1:
                y = builder.matmul(y, x)
            else:
                y = builder.sin(y) if index % 10 == 0 else builder.add(y, x) if index % 2 else builder.mul(y, x)
        recorded = clock()
        graph = builder.build({"y": y})
        built = clock()
        _, most = measure.memory()
        dispatch = _dispatch(context, graph, np.full((8, 8), 0.1, np.float32))
        lower, compiled = graph.build_seconds["lower"], graph.build_seconds["compile"]
        share = (built - recorded) / max(lower + compiled, 1e-9)
    return {
        "record": recorded - started, "lower": lower * share, "compile": compiled * share, "dispatch": dispatch,
        "peak": most - before,
    }  # fmt: skip


def weights(job: Mapping[str, Any]) -> dict[str, Any]:
    """A chain of products with named weights of ``megabytes``: seconds to build, to load them, of a dispatch; peak memory.

    The weights are made one by one as they are asked for, so that memory is the package's.
    """
    import webnn_xla as webnn

    clock, megabytes = measure.clock, job["megabytes"]
    columns = min(16384, megabytes * 256)
    with webnn.ML().create_context(device_type="cpu", cache=False) as context:

        def build(count: int, columns: int) -> Any:
            builder: Any = webnn.MLGraphBuilder(context)
            y = builder.input("x", [1, 1024], "float32")
            for index in range(count):
                w = builder.constant({"data_type": "float32", "shape": [1024, columns]}, name=f"w{index}")
                y = builder.relu(builder.matmul(y, w))
                y = y if columns == 1024 else builder.slice(builder.concat([y] * max(1, 1024 // columns), 1), [0, 0], [1, 1024])
            return builder.build({"y": y})

        class Weights(dict[str, Any]):
            def __getitem__(self, name: str) -> Any:
                return np.full((1024, columns), 1e-3, np.float32)

            def items(self) -> Any:
                return ((name, self[name]) for name in self)

        build(1, 1024)
        before, _ = measure.memory()
        started = clock()
        graph = build(max(1, megabytes // 64), columns)
        built = clock()
        graph.load_weights(Weights(dict.fromkeys(graph._names)))
        loaded = clock()
        dispatch = _dispatch(context, graph, np.zeros((1, 1024), np.float32))
        _, most = measure.memory()
    return {"build": built - started, "load": loaded - built, "dispatch": dispatch, "peak": most - before}


def _dispatch(context: Any, graph: Any, data: Any) -> float:
    """Median seconds of a dispatch on resident tensors, waited for."""
    descriptor = {"data_type": "float32", "shape": list(data.shape)}
    source = context.create_tensor(descriptor, writable=True)
    (result,) = (context.create_tensor(item, readable=True) for item in graph.output_descriptors.values())
    context.write_tensor(source, data)

    def call() -> None:
        context.dispatch(graph, {"x": source}, {"y": result})
        result.array.block_until_ready()

    return measure.interleave({"": call}, seconds=0.5)[""].median


def main() -> None:
    job = json.loads(sys.argv[1])
    if job["processor"]:
        measure.clock = time.process_time
    print(json.dumps({"network": network, "ops": ops, "weights": weights}[job["kind"]](job)))


if __name__ == "__main__":
    main()
