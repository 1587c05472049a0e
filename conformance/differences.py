"""Where the specifications themselves differ, a sentence each: the one place that the comparison and the docs read.

A row of the comparison that is beyond tolerance and is not covered here is a failure. A sentence covers as little as it can:
an oracle, some ops and data types, only NaN and infinities (``special``), only errors up to so many ``ulp``, or only
failures with some words in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from webnn_xla.dtypes import MLOperandDataType


@dataclass(frozen=True)
class Difference:
    """One known difference. ``ops``: names or patterns, with spaces between; ``types``: floats, integers, or names."""

    oracle: str
    ops: str
    types: str
    sentence: str
    special: bool = False
    """Covers only elements that are NaN or infinite, in the reference or the result."""
    ulp: float = math.inf
    """Covers only elements that are off by no more than this."""
    failure: str = ""
    """Covers only failures with these words."""

    def applies(self, op: str, data_type: MLOperandDataType) -> bool:
        return any(fnmatchcase(op, pattern) for pattern in self.ops.split()) and any(
            word in ("any", data_type, "floats" if data_type.is_float else "integers") for word in self.types.split()
        )


UNPREDICTABLE: Final = "TOSA_UNPREDICTABLE"

DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "tosa",
        "add sub mul neg abs prelu cumulative_sum reduce_sum reduce_sum_square reduce_l1 reduce_product",
        "integers",
        "TOSA leaves the overflow of 32- and 64-bit integers unpredictable; WebNN and StableHLO wrap.",
        failure=UNPREDICTABLE,
    ),
    Difference(
        "tosa",
        "pow",
        "floats",
        "TOSA defines POW for positive bases (and 0 with a positive exponent) only; elsewhere WebNN follows IEEE 754.",
        failure=UNPREDICTABLE,
    ),
    Difference(
        "tosa",
        "elu",
        "floats",
        "TOSA has no exp(x) - 1 in one operator: results near 0 lose their digits.",
        ulp=2.0**24,
    ),
    Difference(
        "tosa",
        "softplus",
        "floats",
        "TOSA has no log(1 + x) in one operator: small results lose their digits.",
        ulp=2.0**24,
    ),
    Difference(
        "tosa",
        "tanh",
        "float32",
        "The TOSA reference model's TANH has an absolute error of 1.5e-8 near 0: small results lose their digits.",
        ulp=2.0**24,
    ),
    Difference(
        "tosa",
        "resample2d",
        "float32",
        "TOSA's RESIZE takes the weights of a linear interpolation as the fractions of coordinates in float32: they lose the "
        "digits that the coordinates have before the point.",
        ulp=2.0**10,
    ),
)


@dataclass(frozen=True)
class Bridged:
    """Where the specifications differ, and the lowering or the export writes around it, so that the results agree."""

    ops: str
    sentence: str


BRIDGED: Final[tuple[Bridged, ...]] = (
    Bridged(
        "cast quantize_linear",
        "Float to integer: TOSA's CAST rounds half to even and saturates, StableHLO's convert truncates and leaves what does "
        "not fit to implementations. Here it truncates, saturates, and turns NaN into 0: the fraction is cut off before CAST, "
        "and the StableHLO that is emitted selects for what is out of range.",
    ),
    Bridged(
        "div",
        "Integer division: by 0 it ends the process of both reference implementations, and MIN / -1 is undefined in both. Here "
        "x / 0 and MIN / -1 are defined, and neither reaches the division.",
    ),
    Bridged(
        "min max clamp relu reduce_min reduce_max max_pool2d arg_min arg_max",
        "NaN: TOSA's operators take a mode, PROPAGATE or IGNORE; StableHLO's maximum propagates, and so does WebNN's here.",
    ),
    Bridged(
        "arg_min arg_max",
        "Ties: WebNN leaves them open. Here the first one wins, as in TOSA's ARGMAX; StableHLO has none, and a reduction "
        "says it.",
    ),
    Bridged(
        "gather gather_elements gather_nd",
        "Indices out of range: StableHLO clamps, TOSA's GATHER is unpredictable and ends the process. Here negative ones count "
        "from the end and the others are clamped before.",
    ),
    Bridged(
        "scatter_elements scatter_nd",
        "Indices out of range: StableHLO drops the update; TOSA's SCATTER is unpredictable, also for repeated indices, which "
        "are refused. Here indices are clamped.",
    ),
    Bridged(
        "resample2d",
        "Nearest neighbour: TOSA's RESIZE rounds ties up, WebNN's coordinates round them down; the exported offset moves ties.",
    ),
    Bridged(
        "conv2d average_pool2d max_pool2d",
        "TOSA wants strides to divide the input exactly: what no window reaches is sliced off before.",
    ),
    Bridged("*", "Rank: TOSA's tensors have 6 dimensions at most. Those of more travel in fewer where the op allows it."),
    Bridged(
        "*",
        "Unsigned: TOSA has none. Their bits travel in signed ones; where the sign matters, the order is restored or the "
        "op is refused.",
    ),
    Bridged("*", "Denormal numbers: XLA on CPU flushes them to 0 in arithmetic, the reference implementations keep them."),
)


def known(op: str, data_type: MLOperandDataType, oracle: str) -> Sequence[Difference]:
    """What is known of an op and type in an oracle."""
    return [difference for difference in DIFFERENCES if difference.oracle == oracle and difference.applies(op, data_type)]
