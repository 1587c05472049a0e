"""The vocabulary for hand-written, naive ``jax.lax``: each op as the graph says it, in the graph's layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from benchmarks import measure
from benchmarks.vocabulary import Array, Network, Pair, Runnable, Tensor, Vocabulary, pair

BINARY: dict[str, Callable[..., Any]] = {"add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div}
HIGHEST = lax.Precision.HIGHEST


class Lax(Vocabulary):
    """Used within a trace: weights are taken in order from ``weights``, or collected there on a first, dry run."""

    def __init__(self, inputs: dict[str, Any], weights: list[Any] | None = None, seed: int = 0) -> None:
        super().__init__(seed)
        self.inputs = inputs
        self.given = None if weights is None else iter(weights)
        self.collected: list[Array] = []

    def input(self, name: str, shape: Sequence[int], data_type: str = "float32") -> Tensor:
        return self.inputs[name]

    def constant(self, data: Array) -> Tensor:
        if np.size(data) <= 16:
            return lax.full(np.shape(data), data) if np.ndim(data) == 0 else jax.device_put(data)
        self.collected.append(data)
        return data if self.given is None else next(self.given)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.shape)

    def conv(
        self, x: Tensor, w: Tensor, b: Tensor | None = None, *, stride: Pair = 1, pad: Pair = 0, groups: int = 1
    ) -> Tensor:
        y = lax.conv_general_dilated(
            x, w, pair(stride), [(p, p) for p in pair(pad)], feature_group_count=groups, precision=HIGHEST
        )
        return y if b is None else lax.add(y, lax.broadcast_in_dim(b, y.shape, (1,)))

    def conv_transpose(self, x: Tensor, w: Tensor, *, stride: int, pad: int = 0) -> Tensor:
        size = w.shape[2] - 1 - pad
        return lax.conv_general_dilated(
            x, lax.rev(w, (2, 3)), (1, 1), [(size, size)] * 2, lhs_dilation=(stride, stride),
            dimension_numbers=("NCHW", "IOHW", "NCHW"), precision=HIGHEST,
        )  # fmt: skip

    def batch_norm(self, x: Tensor, mean: Tensor, variance: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        def spread(value: Tensor) -> Tensor:
            return lax.broadcast_in_dim(value, x.shape, (1,))

        factor = lax.mul(scale, lax.rsqrt(lax.add(variance, lax.full_like(variance, 1e-5))))
        return lax.add(lax.mul(lax.sub(x, spread(mean)), spread(factor)), spread(bias))

    def unary(self, op: str, x: Tensor) -> Tensor:
        if op == "relu":
            return lax.max(x, lax.full_like(x, 0))
        if op == "sigmoid":
            return lax.logistic(x)
        if op == "gelu":
            half, root = lax.full_like(x, 0.5), lax.full_like(x, 2**-0.5)
            return lax.mul(lax.mul(half, x), lax.add(lax.full_like(x, 1), lax.erf(lax.mul(x, root))))
        return getattr(lax, op)(x)

    def relu6(self, x: Tensor) -> Tensor:
        return lax.clamp(lax.full_like(x, 0), x, lax.full_like(x, 6))

    def binary(self, op: str, a: Tensor, b: Tensor) -> Tensor:
        shape = np.broadcast_shapes(a.shape, b.shape)

        def spread(x: Tensor) -> Tensor:
            return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - x.ndim, len(shape))))

        return BINARY[op](spread(a), spread(b))

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        batch = tuple(range(b.ndim - 2)) if b.ndim > 2 else ()
        return lax.dot_general(a, b, (((a.ndim - 1,), (b.ndim - 2,)), (batch, batch)), precision=HIGHEST)

    def _pool(self, x: Tensor, start: float, combine: Callable[..., Any], size: int, stride: int, pad: int) -> Tensor:
        window, strides = (1, 1, size, size), (1, 1, stride, stride)
        return lax.reduce_window(x, np.float32(start), combine, window, strides, [(0, 0)] * 2 + [(pad, pad)] * 2)

    def max_pool(self, x: Tensor, *, size: int, stride: int, pad: int = 0) -> Tensor:
        return self._pool(x, -np.inf, lax.max, size, stride, pad)

    def average_pool(self, x: Tensor, *, size: int, stride: int, pad: int = 0) -> Tensor:
        one = lax.full_like(x, 1)
        return lax.div(self._pool(x, 0, lax.add, size, stride, pad), self._pool(one, 0, lax.add, size, stride, pad))

    def global_average_pool(self, x: Tensor) -> Tensor:
        mean = lax.div(lax.reduce_sum(x, (2, 3)), np.float32(x.shape[2] * x.shape[3]))
        return lax.reshape(mean, (*x.shape[:2], 1, 1))

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return lax.reshape(x, tuple(shape))

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        return lax.transpose(x, tuple(order))

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return lax.concatenate(list(tensors), axis)

    def split(self, x: Tensor, parts: int, axis: int) -> list[Tensor]:
        return list(lax.split(x, [x.shape[axis] // parts] * parts, axis))

    def softmax(self, x: Tensor, axis: int) -> Tensor:
        axis %= x.ndim
        kept = tuple(i for i in range(x.ndim) if i != axis)
        e = lax.exp(lax.sub(x, lax.broadcast_in_dim(lax.reduce_max(x, (axis,)), x.shape, kept)))
        return lax.div(e, lax.broadcast_in_dim(lax.reduce_sum(e, (axis,)), x.shape, kept))

    def layer_norm(self, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        size, kept, last = np.float32(x.shape[-1]), tuple(range(x.ndim - 1)), (x.ndim - 1,)
        centred = lax.sub(x, lax.broadcast_in_dim(lax.div(lax.reduce_sum(x, last), size), x.shape, kept))
        variance = lax.div(lax.reduce_sum(lax.mul(centred, centred), last), size)
        factor = lax.broadcast_in_dim(lax.rsqrt(lax.add(variance, np.float32(1e-5))), x.shape, kept)
        spread = [lax.broadcast_in_dim(item, x.shape, last) for item in (scale, bias)]
        return lax.add(lax.mul(lax.mul(centred, factor), spread[0]), spread[1])

    def gather(self, x: Tensor, indices: Tensor) -> Tensor:
        numbers = lax.GatherDimensionNumbers((indices.ndim,), (0,), (0,))
        return lax.gather(x, lax.reshape(indices, (*indices.shape, 1)), numbers, (1, *x.shape[1:]), mode="fill")

    def resize(self, x: Tensor, scale: int, mode: str) -> Tensor:
        shape = (*x.shape[:2], x.shape[2] * scale, x.shape[3] * scale)
        return jax.image.resize(x, shape, {"nearest-neighbor": "nearest"}.get(mode, mode), antialias=False)

    def reduce_mean(self, x: Tensor, axis: int) -> Tensor:
        return lax.div(lax.reduce_sum(x, (axis,)), np.float32(x.shape[axis]))

    def cumulative_sum(self, x: Tensor, axis: int) -> Tensor:
        return lax.cumsum(x, axis)

    def lstm(self, x: Tensor, w: Tensor, r: Tensor, b: Tensor, hidden: int) -> Tensor:
        w, r, b = (lax.squeeze(item, (0,)) for item in (w, r, b))

        def step(state: Any, xt: Any) -> Any:
            h, c = state
            gates = lax.dot_general(xt, w, (((1,), (1,)), ((), ()))) + lax.dot_general(h, r, (((1,), (1,)), ((), ())))
            i, o, f, g = lax.split(gates + lax.broadcast_in_dim(b, gates.shape, (1,)), [hidden] * 4, 1)
            c = lax.logistic(f) * c + lax.logistic(i) * lax.tanh(g)
            return (lax.logistic(o) * lax.tanh(c), c), None

        zero = lax.full((x.shape[1], hidden), np.float32(0))
        (h, _), _ = lax.scan(step, (zero, zero), x)
        return lax.expand_dims(h, (0,))


def prepare(network: Network) -> Runnable:
    """``run_bound`` runs on device arrays and waits."""
    weights: list[Array] = []

    def collect(inputs: dict[str, Any]) -> Any:
        vocabulary = Lax(inputs)
        outputs = network.make(vocabulary)
        weights.extend(vocabulary.collected)
        return list(outputs)

    started = measure.clock()
    jax.eval_shape(collect, network.inputs)
    arguments = [jax.device_put(item) for item in weights]

    def function(weights: list[Any], inputs: dict[str, Any]) -> list[Any]:
        return list(network.make(Lax(inputs, weights)))

    compiled = jax.jit(function).lower(arguments, network.inputs).compile()
    built = measure.clock()
    resident = {name: jax.device_put(array) for name, array in network.inputs.items()}

    def run() -> list[Array]:
        return [np.asarray(item) for item in compiled(arguments, network.inputs)]

    run()
    return Runnable(
        "naive jax.lax", run, built - started, measure.clock() - built,
        lambda: jax.block_until_ready(compiled(arguments, resident)),
    )  # fmt: skip
