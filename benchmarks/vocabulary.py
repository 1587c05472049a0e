"""The ops that the benchmarks' networks are written in, and what each runtime must offer to be measured on them.

A network is a function of a ``Vocabulary``; running it with another vocabulary gives the same network, with the same
weights, for another runtime. Images are NCHW, filters OIHW, as web models have them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Tensor = Any
Pair = int | tuple[int, int]
"""Height and width, or one number for both."""


def pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


class Vocabulary(ABC):
    """Makes tensors of one runtime. Every method but ``input`` and ``weight`` is an op, and returns a tensor."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def weight(self, *shape: int, scale: float | None = None) -> Tensor:
        """Random weights, of a size that keeps activations near one."""
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 100
        data = self.rng.standard_normal(shape, np.float32) * np.float32(scale or np.sqrt(1.0 / fan))
        return self.constant(data)

    def positive(self, *shape: int) -> Tensor:
        """Random weights from 0.5 to 1.5."""
        return self.constant(self.rng.uniform(0.5, 1.5, shape).astype(np.float32))

    @abstractmethod
    def input(self, name: str, shape: Sequence[int], data_type: str = "float32") -> Tensor: ...

    @abstractmethod
    def constant(self, data: Array) -> Tensor: ...

    @abstractmethod
    def shape(self, x: Tensor) -> tuple[int, ...]: ...

    @abstractmethod
    def conv(
        self, x: Tensor, w: Tensor, b: Tensor | None = None, *, stride: Pair = 1, pad: Pair = 0, groups: int = 1
    ) -> Tensor: ...

    @abstractmethod
    def conv_transpose(self, x: Tensor, w: Tensor, *, stride: int, pad: int = 0) -> Tensor: ...

    @abstractmethod
    def batch_norm(self, x: Tensor, mean: Tensor, variance: Tensor, scale: Tensor, bias: Tensor) -> Tensor: ...

    @abstractmethod
    def unary(self, op: str, x: Tensor) -> Tensor:
        """relu, sigmoid, tanh, exp, sqrt, erf, gelu, identity."""

    @abstractmethod
    def relu6(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def binary(self, op: str, a: Tensor, b: Tensor) -> Tensor:
        """add, sub, mul, div."""

    @abstractmethod
    def matmul(self, a: Tensor, b: Tensor) -> Tensor: ...

    @abstractmethod
    def max_pool(self, x: Tensor, *, size: int, stride: int, pad: int = 0) -> Tensor: ...

    @abstractmethod
    def average_pool(self, x: Tensor, *, size: int, stride: int, pad: int = 0) -> Tensor: ...

    @abstractmethod
    def global_average_pool(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor: ...

    @abstractmethod
    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor: ...

    @abstractmethod
    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor: ...

    @abstractmethod
    def split(self, x: Tensor, parts: int, axis: int) -> list[Tensor]: ...

    @abstractmethod
    def softmax(self, x: Tensor, axis: int) -> Tensor: ...

    @abstractmethod
    def layer_norm(self, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        """Over the last dimension, epsilon 1e-5."""

    @abstractmethod
    def gather(self, x: Tensor, indices: Tensor) -> Tensor:
        """Rows."""

    @abstractmethod
    def resize(self, x: Tensor, scale: int, mode: str) -> Tensor:
        """nearest-neighbor or linear; of height and width."""

    @abstractmethod
    def reduce_mean(self, x: Tensor, axis: int) -> Tensor: ...

    @abstractmethod
    def cumulative_sum(self, x: Tensor, axis: int) -> Tensor: ...

    @abstractmethod
    def lstm(self, x: Tensor, w: Tensor, r: Tensor, b: Tensor, hidden: int) -> Tensor:
        """x [steps, batch, size], w [1, 4 hidden, size], r [1, 4 hidden, hidden], b [1, 4 hidden] → last [1, batch, hidden]."""


@dataclass(frozen=True)
class Network:
    """One case: ``make`` writes it in a vocabulary and returns the outputs; ``inputs`` makes arrays to run it on."""

    name: str
    make: Callable[[Vocabulary], Sequence[Tensor]]
    inputs: dict[str, Array]
    kind: str = "op"
    batch: int = 1
    path: Path | None = None
    """An ONNX file, in place of ``make``."""


@dataclass
class Runnable:
    """A network in one runtime. ``run`` returns NumPy arrays, and ``run_bound`` the fastest form of a call that it has."""

    runtime: str
    run: Callable[[], list[Array]]
    build_seconds: float
    first_seconds: float = 0.0
    run_bound: Callable[[], Any] | None = None
    notes: dict[str, Any] = field(default_factory=dict)
