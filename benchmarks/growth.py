"""Time of building and of dispatch, over the number of ops and the size of the weights."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import webnn_xla as webnn
from benchmarks.measure import interleave
from benchmarks.overhead import memory

OPS = (10, 30, 100, 300, 1000, 3000, 10000)
MEGABYTES = (1, 8, 64, 256, 1024, 2048)
BUDGET_SECONDS = 90.0
"""No larger graph is built once one took this long."""

Series = dict[str, list[list[float]]]


def run() -> dict[str, Series]:
    """Series of points by chart."""
    return {"Graphs of n ops: seconds": over_ops(), "Weights of n MB: bytes of peak memory, of the weights": over_weights()}


def over_ops() -> Series:
    series: Series = {"record": [], "rewrite and lower": [], "compile": [], "dispatch": []}
    with webnn.ML().create_context(device_type="cpu", cache=False) as context:
        for count in OPS:
            started = time.perf_counter()
            builder: Any = webnn.MLGraphBuilder(context)
            y = x = builder.input("x", [64], "float32")
            for index in range(count):
                y = builder.sin(y) if index % 10 == 0 else builder.add(y, x) if index % 2 else builder.mul(y, x)
            recorded = time.perf_counter() - started
            graph = builder.build({"y": y})
            source = context.create_tensor({"data_type": "float32", "shape": [64]}, writable=True)
            result = context.create_tensor({"data_type": "float32", "shape": [64]}, readable=True)
            context.write_tensor(source, np.ones(64, np.float32))

            def dispatch(graph: Any = graph, source: Any = source, result: Any = result) -> None:
                context.dispatch(graph, {"x": source}, {"y": result})
                result.array.block_until_ready()

            timing = interleave({"dispatch": dispatch}, seconds=0.5)["dispatch"]
            values = (recorded, graph.build_seconds["lower"], graph.build_seconds["compile"], timing.median)
            for name, value in zip(series, values, strict=True):
                series[name].append([count, value])
            if sum(values) > BUDGET_SECONDS:
                break
    return series


def over_weights() -> Series:
    return {"peak": [[megabytes, memory(megabytes)[1] / (megabytes * 2**20)] for megabytes in MEGABYTES if megabytes >= 64]}
