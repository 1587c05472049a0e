"""Time and memory of building and of dispatch, over the number of ops and the size of the weights; a process for each point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import child

OPS = (10, 30, 100, 300, 1000, 3000, 10000)
EVERY = 50
"""A matrix product after so many element-wise ops."""

UNBROKEN = (10, 100, 1000, 3000)
"""Without products XLA makes one kernel of the whole chain, in time that grows faster than its length: 10,000 take minutes."""

MEGABYTES = (1, 8, 64, 256, 1024, 2048)
MIB = 2**20

Series = dict[str, list[list[float]]]
Tell = Callable[[str], None]


def run(tell: Tell = lambda text: None) -> dict[str, Series]:
    """Series of points by the title of their chart. ``tell`` is called with what is measured next."""
    ops: dict[str, list[Any]] = {"products": [], "one kernel": []}
    for name, counts, every in (("products", OPS, EVERY), ("one kernel", UNBROKEN, 0)):
        for count in counts:
            tell(f"growth: {count} ops")
            ops[name].append((count, child.run({"kind": "ops", "count": count, "every": every})))
    sizes = []
    for megabytes in MEGABYTES:
        tell(f"growth: {megabytes} MB")
        sizes.append((megabytes, child.run({"kind": "weights", "megabytes": megabytes})))

    def line(points: list[Any], name: str, unit: float = 1.0) -> list[list[float]]:
        return [[at, found[name] / unit] for at, found in points]

    return {
        f"Graphs of n ops, a matrix product after every {EVERY}: seconds": {
            "record": line(ops["products"], "record"),
            "rewrite and lower": line(ops["products"], "lower"),
            "compile": line(ops["products"], "compile"),
            "dispatch": line(ops["products"], "dispatch"),
            "compile, no products": line(ops["one kernel"], "compile"),
        },
        "Graphs of n ops: MB of memory at most, while building": {
            "with products": line(ops["products"], "peak", MIB),
            "no products": line(ops["one kernel"], "peak", MIB),
        },
        "Weights of n MB: seconds": {name: line(sizes, name) for name in ("build", "load", "dispatch")},
        "Weights of n MB: MB of memory at most, while building, loading and running": {
            "peak": line(sizes, "peak", MIB),
            "the weights": [[megabytes, float(megabytes)] for megabytes in MEGABYTES],
        },
    }
