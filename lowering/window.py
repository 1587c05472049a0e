"""Geometry of windows that slide over an image, shared by convolution and pooling. Numbers only, no arrays of the graph.

Layouts and filter layouts are strings of letters (``"nchw"``, ``"hwio"``), one a dimension; spatial axes are ``h``, then
``w``. Padding is ``[before h, after h, before w, after w]``, in elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from webnn_xla.dtypes import MAX_DIMENSION
from webnn_xla.lowering.op import reject, require

SPATIAL = "hw"
NAMES = {"h": "height", "w": "width"}


@dataclass(frozen=True)
class Window:
    """A window along one axis: its tap k at position p reads element ``p * stride + k * dilation - before``."""

    input: int
    size: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def extent(self) -> int:
        """Elements from the first tap to the last (the specification's effectiveFilterSize)."""
        return (self.size - 1) * self.dilation + 1

    @property
    def room(self) -> int:
        """How far the window can slide over the padded input. Negative where it does not fit."""
        return self.input + self.before + self.after - self.extent

    @property
    def positions(self) -> int:
        """Positions at which the whole window is in the padded input; 0 or less where it does not fit."""
        return self.room // self.stride + 1

    @property
    def positions_ceil(self) -> int:
        """The same, with a last position whose window reaches beyond the padded input."""
        return -(-self.room // self.stride) + 1

    @property
    def spread(self) -> int:
        """Size of the transposed convolution's output: every input element spreads over a window, less the padding."""
        return (self.input - 1) * self.stride + self.extent - self.before - self.after

    def padding(self, positions: int) -> tuple[int, int]:
        """Padding before and after that makes a ``reduce_window``, which rounds down, give exactly ``positions``.

        More after than declared where windows reach beyond it; less than 0 crops what no window reads.
        """
        after = (positions - 1) * self.stride + self.extent - self.input - self.before
        return self.before, 0 if -self.stride < after < 0 else after

    def trimmed(self, positions: int) -> Window:
        """The same reads of the input, without the first and last taps that only ever read padding."""
        first = max(0, -(((positions - 1) * self.stride - self.before) // self.dilation))
        first = min(first, self.size - 1)
        last = min((self.input - 1 + self.before) // self.dilation, self.size - 1)
        # One tap stays where all of them read padding.
        return replace(self, size=max(last - first + 1, 1), before=self.before - first * self.dilation)

    def transposed_padding(self, positions: int) -> tuple[int, int]:
        """Padding of the convolution over the input dilated by ``stride`` that gives ``positions``. Negative crops."""
        return self.extent - 1 - self.before, self.extent - 1 - self.after + positions - self.spread

    def counts(self, positions: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """How many taps read the input, not padding, at each of ``positions``."""
        first = np.arange(positions, dtype=np.int64) * self.stride - self.before
        # Taps with 0 <= first + k * dilation < input: from the first k of the left bound up to that of the right one.
        left = np.maximum(-(first // self.dilation), 0)
        right = np.clip(-((first - self.input) // self.dilation), 0, self.size)
        return np.maximum(right - left, 0)


def by_letter(layout: str, shape: Sequence[int]) -> dict[str, int]:
    """Dimensions by the letters of their layout."""
    return dict(zip(layout, shape, strict=True))


def make_windows(
    image: Mapping[str, int],
    taps: Mapping[str, int],
    padding: Sequence[int] | None,
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
) -> tuple[Window, Window]:
    """The windows along ``h`` and ``w``, with the specification's defaults. Rejects wrong lengths and zeros."""
    padding = (0, 0, 0, 0) if padding is None else padding
    strides = (1, 1) if strides is None else strides
    dilations = (1, 1) if dilations is None else dilations
    require_length("padding", padding, 4)
    for name, values in (("strides", strides), ("dilations", dilations)):
        require_length(name, values, 2)
        require_positive(name, values)
    height, width = (
        Window(image[axis], taps[axis], strides[i], dilations[i], padding[2 * i], padding[2 * i + 1])
        for i, axis in enumerate(SPATIAL)
    )
    return height, width


def require_length(name: str, values: Sequence[int], length: int) -> None:
    """Rejects a list of another length."""
    require(len(values) == length, name, list(values), f"{length} numbers")


def require_positive(name: str, values: Sequence[int]) -> None:
    """Rejects a list with a zero."""
    require(all(value > 0 for value in values), name, list(values), "numbers of 1 or more")


def require_output(axis: str, window: Window, size: int, name: str) -> None:
    """Rejects operand or option ``name`` where an output size is not a valid dimension."""
    if not 0 < size <= MAX_DIMENSION:
        reject(
            name,
            f"output {NAMES[axis]} {size} for input {NAMES[axis]} {window.input}, padding {window.before} + {window.after}, "
            f"stride {window.stride} and window {window.size} with dilation {window.dilation}",
            f"an output {NAMES[axis]} from 1 to {MAX_DIMENSION}",
        )
