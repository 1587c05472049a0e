"""What flows between ONNX nodes on import: tensors, whose value may be known; sequences of them; and gaps after errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from webnn_xla.builder import MLOperand
from webnn_xla.importers.onnx.types import Array, DType


@dataclass(eq=False)
class Tensor:
    """A tensor of a logical type. At least one of ``data``, ``weight`` and ``operand`` is set.

    ``data`` is the value, where it is known on import (always so for an empty tensor, which WebNN cannot hold).
    ``weight`` reads a large initializer when it is asked for. ``sources`` are the graph inputs that it depends on.
    """

    dtype: DType
    shape: tuple[int, ...]
    data: Array | None = None
    operand: MLOperand | None = None
    weight: Callable[[], Array] | None = None
    name: str = ""
    sources: frozenset[str] = field(default=frozenset())

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def known(self) -> bool:
        return self.data is not None

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


@dataclass(eq=False)
class TensorList:
    """An ONNX sequence, whose length is always known on import."""

    items: tuple[Value, ...]
    sources: frozenset[str] = field(default=frozenset())


@dataclass(eq=False)
class Absent:
    """An ONNX optional without a value."""


Value = Tensor | TensorList | Absent


class Gap:
    """Stands for the outputs of a node that could not be imported; nodes that use it are skipped."""


GAP = Gap()
