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


DIFFERENCES: Final[tuple[Difference, ...]] = ()


def known(op: str, data_type: MLOperandDataType, oracle: str) -> Sequence[Difference]:
    """What is known of an op and type in an oracle."""
    return [difference for difference in DIFFERENCES if difference.oracle == oracle and difference.applies(op, data_type)]
