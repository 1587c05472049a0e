"""What the tests of rewrites share: one graph built with a rewrite and without, and the two compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from quick import QUICK

import webnn_xla as webnn

Make = Callable[[Any], Mapping[str, Any]]
"""Builds a graph: builder → outputs by name."""


class Comparison:
    """``make`` compiled with only the rewrites named, and as written."""

    def __init__(self, context: webnn.MLContext, make: Make, *names: str) -> None:
        builders = [webnn.MLGraphBuilder(context) for _ in range(2)]
        self.rewritten = builders[0].build(make(builders[0]), optimize=set(names), compiler_options=QUICK)
        self.written = builders[1].build(make(builders[1]), optimize=False, compiler_options=QUICK)
        self.names = names

    @property
    def ops(self) -> list[str]:
        """The ops that run at every call, after the rewrites."""
        return [node.op.name for node in self.rewritten._program.main.nodes]

    @property
    def fired(self) -> list[str]:
        return [place.rewrite for place in self.rewritten._program.fired]

    def check(self, inputs: Mapping[str, Any] | None = None, *, ulps: float = 64, seed: int = 0) -> None:
        """Both give the same types and shapes, and numbers within ``ulps`` of the largest magnitude of an output."""
        rng = np.random.default_rng(seed)
        given = dict(inputs or {})
        for name, descriptor in self.written.input_descriptors.items():
            if name not in given:
                given[name] = rng.standard_normal(descriptor.shape).astype(descriptor.data_type.numpy)
        got, want = self.rewritten.compute(given), self.written.compute(given)
        for name, wanted in want.items():
            assert got[name].dtype == wanted.dtype
            assert got[name].shape == wanted.shape
            if wanted.dtype.kind != "f":
                np.testing.assert_array_equal(got[name], wanted)
                continue
            scale = float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)) or 1.0
            limit = ulps * float(np.finfo(wanted.dtype).eps) * scale
            np.testing.assert_allclose(
                got[name].astype(np.float64), wanted.astype(np.float64), rtol=0, atol=limit, err_msg=name
            )


def random(*shape: int, seed: int = 1, data_type: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(data_type)


def positive(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(0.5, 1.5, shape).astype(np.float32)


def assert_not_fired(context: webnn.MLContext, make: Make, *names: str, ops: Sequence[str] | None = None) -> None:
    """The rewrites named change nothing in this graph."""
    comparison = Comparison(context, make, *names)
    assert comparison.fired == []
    if ops is not None:
        assert comparison.ops == list(ops)
    comparison.check()
