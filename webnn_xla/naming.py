"""snake_case here, camelCase in the specification, JavaScript and files: one function each way."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_ACRONYMS: Final = {"nd": "ND", "nan": "NaN"}


@cache
def to_camel(name: str) -> str:
    """``gather_nd`` → ``gatherND``, ``is_nan`` → ``isNaN``, ``reduce_l1`` → ``reduceL1``."""
    first, *rest = name.split("_")
    return first + "".join(_ACRONYMS.get(part, part[:1].upper() + part[1:]) for part in rest)


@cache
def to_snake(name: str) -> str:
    """The inverse of ``to_camel``."""
    for part, acronym in _ACRONYMS.items():
        name = re.sub(f"(?<=[a-z0-9]){acronym}(?![a-z])", "_" + part, name)
    # flattenTo2d: a number after a word of its own (but averagePool2d, reduceL1).
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=To)(?=[0-9])", "_", name).lower()
