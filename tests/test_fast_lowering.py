"""Lowerings for CPU that differ from the canonical ones: where they are taken, where not, and that results stay."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from quick import QUICK

import webnn_xla as webnn
from webnn_xla.lowering.fast_reduction import LANES
from webnn_xla.lowering.op import OPS, Target

CPU, PORTABLE = Target("cpu"), Target()
INF, NAN = np.inf, np.nan


def lowered(op: str, shape: tuple[int, ...], target: Target, data_type: str = "float32", **attributes: Any) -> str:
    """What an op lowers to, as text."""
    x = jax.ShapeDtypeStruct(shape, data_type)
    return str(jax.make_jaxpr(lambda x: OPS[op].lowering(input=x, target=target, **attributes))(x))


def reduction(op: str, x: np.ndarray, target: Target, axes: tuple[int, ...], *, keep: bool = False) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(jax.jit(lambda x: OPS[op].lowering(x, axes, keep, target), compiler_options=QUICK)(x))


def same(a: Any, b: Any) -> bool:
    """Equal, NaN to NaN, and zeros by sign."""
    return bool(np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a), np.signbit(b)))


# Reductions: rows are folded into columns


def test_rows_are_folded_on_cpu() -> None:
    folded = f"f32[4,4,{LANES}]"
    assert folded in lowered("reduce_sum", (4, 4 * LANES), CPU, axes=(1,), keep_dimensions=False)
    assert folded not in lowered("reduce_sum", (4, 4 * LANES), PORTABLE, axes=(1,), keep_dimensions=False)


@pytest.mark.parametrize(("shape", "axes"), [((4, 16), (1,)), ((128, 4), (0,)), ((128, 3, 128), (1,)), ((), ()), ((256,), ())])
def test_short_rows_and_columns_are_not_folded(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    assert "optimization_barrier" not in lowered("reduce_sum", shape, CPU, axes=axes, keep_dimensions=False)


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max", "reduce_min", "reduce_l1"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 31), (1,)), ((3, 32), (1,)), ((3, 49), (1,)), ((3, 64), (1,)), ((3, 65), (1,)), ((3, 95), (1,)), ((3, 1000), (1,)),
        ((200,), (0,)), ((2, 3, 7, 11), (2, 3)), ((2, 3, 7, 11), (0, 2, 3)), ((2, 3, 7, 11), (0, 1, 2, 3)),
        ((2, 3, 7, 40), (1, 3)), ((0, 64), (1,)), ((1, 1, 64), (0, 2)), ((70, 1), (0, 1)),
    ],
)  # fmt: skip
def test_every_element_counts_once(op: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).integers(-1000, 1000, shape)
    given = [x.astype(data_type) for data_type in (np.int32, np.int64, np.float32)]
    lowering = OPS[op].lowering
    with jax.enable_x64(True):
        got, want = (
            jax.jit(
                lambda given, target=target: [[lowering(x, axes, keep, target) for keep in (False, True)] for x in given],
                compiler_options=QUICK,
            )(given)
            for target in (CPU, PORTABLE)
        )
    for each in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert each[0].dtype == each[1].dtype
        np.testing.assert_array_equal(*each)


@pytest.mark.parametrize("data_type", [np.uint8, np.int8, np.uint64, np.uint32])
def test_extremes_of_integers(data_type: Any) -> None:
    limits = np.iinfo(data_type)
    x = np.random.default_rng(2).integers(limits.min, limits.max, (3, 100), data_type, endpoint=True)
    np.testing.assert_array_equal(reduction("reduce_max", x, CPU, (1,)), x.max(1))
    np.testing.assert_array_equal(reduction("reduce_min", x, CPU, (1,)), x.min(1))


@pytest.mark.parametrize("size", [64, 99])
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max", "reduce_min", "reduce_log_sum_exp", "reduce_mean"])
def test_special_values(op: str, size: int) -> None:
    """Each at the start, in the middle, at the end, and everywhere in a row."""
    values, places = [NAN, INF, -INF, -0.0], [slice(0, 1), slice(40, 41), slice(-1, None), slice(None)]
    x = np.zeros((len(values), len(places), size), np.float32)
    for row, value in enumerate(values):
        for column, place in enumerate(places):
            x[row, column, place] = value
    assert same(reduction(op, x, CPU, (2,)), reduction(op, x, PORTABLE, (2,)))


def test_float16_is_summed_in_float32() -> None:
    x = np.full((1, 4096), 100, np.float16)
    assert reduction("reduce_mean", x, CPU, (1,)) == np.float16(100)
    assert reduction("reduce_sum_square", np.full((1, 64), 20, np.float16), CPU, (1,)) == np.float16(25600)


@pytest.mark.parametrize("op", ["arg_max", "arg_min"])
@pytest.mark.parametrize("last", [False, True])
def test_positions(op: str, last: bool) -> None:
    x = np.random.default_rng(3).integers(0, 9, (5, 100)).astype(np.float32)
    x[4, 70] = NAN
    arguments = {"axis": 1, "keep_dimensions": False, "output_data_type": webnn.MLOperandDataType.INT32}
    got, want = (OPS[op].lowering(x, **arguments, select_last_index=last, target=target) for target in (CPU, PORTABLE))
    np.testing.assert_array_equal(got, want)
    assert int(got[4]) == 70


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max", "reduce_mean", "reduce_log_sum_exp", "reduce_l2"])
def test_gradients_and_batches(op: str) -> None:
    x = np.random.default_rng(4).standard_normal((2, 3, 70)).astype(np.float32)

    def total(target: Target) -> Any:
        return lambda x: OPS[op].lowering(x, (1,), False, target).sum()

    for transform in (lambda f: jax.grad(f)(x[0]), lambda f: jax.vmap(f)(x), lambda f: jax.vmap(jax.grad(f))(x)):
        np.testing.assert_allclose(transform(total(CPU)), transform(total(PORTABLE)), rtol=1e-5, atol=1e-6)


# Normalization


def normalized(x: np.ndarray, target: Target) -> np.ndarray:
    return np.asarray(jax.jit(lambda x: OPS["layer_normalization"].lowering(x, None, None, (x.ndim - 1,), 1e-5, target))(x))


@pytest.mark.parametrize("size", [8, 100, 384, 5000])
def test_a_large_mean_costs_no_digits(size: int) -> None:
    x = np.random.default_rng(5).integers(-8, 8, (3, size)).astype(np.float32)
    np.testing.assert_allclose(normalized(x + np.float32(2**20), CPU), normalized(x, PORTABLE), rtol=0, atol=1e-5)


@pytest.mark.parametrize("value", [0.1, 1e10, -3e30, INF, NAN])
def test_equal_elements_are_their_mean(value: float) -> None:
    got = normalized(np.full((2, 384), value, np.float32), CPU)
    if np.isfinite(value):
        np.testing.assert_allclose(got, 0, atol=1e-2)
    else:
        assert np.isnan(got).all()


def test_layers_are_not_fused_into_each_other() -> None:
    """Each normalization reads its input from memory: what computes it is not computed again for each reader."""
    x = jax.ShapeDtypeStruct((1, 16, 384), "float32")
    text = str(jax.make_jaxpr(lambda x: OPS["layer_normalization"].lowering(x, None, None, (2,), 1e-5, CPU))(x))
    assert text.count("dot_general") == 1


# Resampling


def resized(x: np.ndarray, target: Target, sizes: list[int], axes: tuple[int, int] = (2, 3)) -> np.ndarray:
    arguments = {"mode": "linear", "scales": None, "sizes": sizes, "axes": axes, "target": target}
    return np.asarray(jax.jit(lambda x: OPS["resample2d"].lowering(x, **arguments))(x))


@pytest.mark.parametrize("sizes", [[10, 14], [15, 7], [40, 21], [5, 56], [13, 14], [8, 11]])
def test_whole_factors_agree_with_gathers(sizes: list[int]) -> None:
    x = np.random.default_rng(6).standard_normal((2, 3, 5, 7)).astype(np.float32)
    if sizes == [10, 14]:
        x[0, 0, 2, 3], x[1, 1, 2, 3] = NAN, INF
    np.testing.assert_allclose(resized(x, CPU, sizes), resized(x, PORTABLE, sizes), rtol=1e-5, atol=1e-6)


def test_infinities_without_weight_are_not_read() -> None:
    x = np.arange(7, dtype=np.float32).reshape(1, 1, 1, 7)
    x[..., 3] = INF
    got = resized(x, CPU, [1, 21]).reshape(-1)
    np.testing.assert_array_equal(got[[7, 10, 13]], [2, INF, 4])
    np.testing.assert_array_equal(np.isinf(got), (np.arange(21) >= 8) & (np.arange(21) <= 12))


@pytest.mark.parametrize(("sizes", "fast"), [([10, 14], True), ([15, 28], True), ([8, 11], False), ([5, 7 * 9], False)])
def test_whole_factors_need_no_gather(sizes: list[int], fast: bool) -> None:
    attributes = {"mode": "linear", "scales": None, "sizes": sizes, "axes": None}
    assert ("gather" not in lowered("resample2d", (1, 2, 5, 7), CPU, **attributes)) == fast
    assert "gather" in lowered("resample2d", (1, 2, 5, 7), PORTABLE, **attributes)
