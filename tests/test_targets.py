"""What is lowered for accelerators: it means the same, and every op of it lowers for them. It runs on the CPU here."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import export
from quick import QUICK

import webnn_xla as webnn
from webnn_xla import devices
from webnn_xla.conformance.reference import REFERENCES
from webnn_xla.conformance.table import build_mixed, principal_types
from webnn_xla.lowering import OPS, Target
from webnn_xla.program import Program
from webnn_xla.rewrites import NAMES

EXPORTED = {"gpu": ("cuda", "rocm"), "tpu": ("tpu",)}
"""JAX's names of the platforms of a target."""


def compute(graph: Any, target: Target, names: frozenset[str], inputs: dict[str, Any]) -> dict[str, Any]:
    program = Program(graph, target, jax.devices("cpu")[0], names=names, options=QUICK)
    program.compile()
    put = lambda array: jax.device_put(array, program.device)  # noqa: E731
    with devices.x64():
        data = {value: constant.data for value, constant in graph.constants.items()}
        results = program.executable(*program.bind(data, put), *(put(inputs[name]) for name in graph.inputs))
    return dict(zip(graph.outputs, map(np.asarray, results), strict=True))


def lowers(graph: Any, target: Target, names: frozenset[str]) -> str:
    program = Program(graph, target, jax.devices("cpu")[0], names=names)
    inputs = [value.descriptor for value in program.main.inputs.values()]
    structs = [jax.ShapeDtypeStruct(item.shape, item.dtype) for item in program.arguments.structs(program.device)]
    structs += [jax.ShapeDtypeStruct(tuple(item.shape), item.data_type.carrier) for item in inputs]
    with devices.x64():
        return export.export(jax.jit(program.flat), platforms=EXPORTED[target.platform])(*structs).mlir_module()


def assert_close(got: dict[str, Any], want: dict[str, Any]) -> None:
    for name, wanted in want.items():
        assert got[name].dtype == wanted.dtype
        tolerance = 2e-2 if wanted.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(
            got[name].astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance, err_msg=name
        )


def size(operand: Any) -> int:
    return sum(map(np.size, operand)) if isinstance(operand, list) else np.size(operand)


@pytest.fixture(scope="module")
def every_op(context: webnn.MLContext) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """A graph with a case of every op, its inputs, and its results with the canonical lowering."""
    chosen = []
    for name, op in OPS.items():
        kind = principal_types(op)[0]
        cases = list(REFERENCES[name].cases(kind, np.random.default_rng(0)))
        cases = [case for case in cases if not case.note] or cases
        small = sorted(cases, key=lambda case: sum(size(value) for value in case.operands.values()))
        chosen.append((op, kind, small[len(small) // 2]))
    built = build_mixed(context, chosen)
    graph = built.builder._graph(built.outputs)
    return graph, built.inputs, compute(graph, Target(), frozenset(), built.inputs)


@pytest.mark.parametrize("platform", list(EXPORTED))
def test_every_op(platform: str, every_op: tuple[Any, dict[str, Any], dict[str, Any]]) -> None:
    graph, inputs, canonical = every_op
    assert_close(compute(graph, Target(platform), frozenset(NAMES), inputs), canonical)
    assert "stablehlo" in lowers(graph, Target(platform), frozenset(NAMES))


def network(context: webnn.MLContext) -> Any:
    """What the rewrites look for: convolutions with normalization, depthwise ones, attention, GELU, layer norm, …."""
    builder: Any = webnn.MLGraphBuilder(context)
    rng = np.random.default_rng(1)

    def weights(*shape: int, scale: float = 0.2) -> Any:
        return builder.constant((rng.standard_normal(shape) * scale).astype(np.float32))

    image = builder.input("image", [1, 3, 16, 16], "float32")
    y = builder.conv2d(image, weights(8, 3, 3, 3), padding=[1, 1, 1, 1], strides=[2, 2])
    variance = builder.constant(rng.uniform(0.5, 1, 8).astype(np.float32))
    y = builder.relu(builder.batch_normalization(y, weights(8), variance, scale=weights(8), bias=weights(8)))
    y = builder.hard_swish(builder.conv2d(y, weights(8, 1, 3, 3), groups=8, padding=[1, 1, 1, 1]))
    y = builder.average_pool2d(y, window_dimensions=[2, 2], strides=[2, 2])
    y = builder.mul(y, builder.sigmoid(y))
    y = builder.conv_transpose2d(y, weights(8, 8, 2, 2), strides=[2, 2])
    rows = builder.transpose(builder.reshape(y, [1, 8, 64]), permutation=[0, 2, 1])
    rows = builder.layer_normalization(rows, axes=[2], scale=weights(8), bias=weights(8))
    query, key, value = (builder.matmul(rows, weights(8, 8)) for _ in range(3))
    scores = builder.matmul(query, builder.transpose(key, permutation=[0, 2, 1])) * 0.35
    rows = builder.add(rows, builder.matmul(builder.softmax(scores, 2), value))
    packed = builder.constant(rng.integers(0, 15, (8, 16)).astype(ml_dtypes.uint4))
    zero = builder.constant(np.full((1, 16), 8).astype(ml_dtypes.uint4))
    inner = builder.matmul(rows, builder.dequantize_linear(packed, weights(1, 16, scale=0.05), zero))
    return builder, {"y": builder.gelu(inner), "image": builder.resample2d(image, scales=[2, 2], mode="linear")}


@pytest.mark.parametrize("platform", list(EXPORTED))
def test_a_network_with_all_rewrites(platform: str, context: webnn.MLContext) -> None:
    builder, outputs = network(context)
    graph = builder._graph(outputs)
    inputs = {"image": np.random.default_rng(2).standard_normal((1, 3, 16, 16), np.float32)}
    target, names = Target(platform), frozenset(NAMES)
    program = Program(graph, target, jax.devices("cpu")[0], names=names)
    assert len(program.fired) >= 4
    assert_close(compute(graph, target, names, inputs), compute(graph, Target(), frozenset(), inputs))
    assert "stablehlo" in lowers(graph, target, names)
