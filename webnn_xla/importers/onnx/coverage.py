"""The table of operators as a page: ``python -m webnn_xla.importers.onnx.coverage`` writes it into docs/onnx.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import onnx

from webnn_xla.importers.onnx import families
from webnn_xla.importers.onnx.model import OLDEST_OPSET
from webnn_xla.importers.onnx.table import TABLE

BEGIN: Final = "<!-- operators: python -m webnn_xla.importers.onnx.coverage -->"
RANDOM: Final = frozenset({"Bernoulli"})
"""Defined by functions that draw random numbers."""

END: Final = "<!-- end of operators -->"
PAGE: Final = Path(__file__).parents[3] / "docs" / "onnx.md"


def by_function(domain: str = "") -> list[str]:
    """Operators that ONNX defines by a function of others and that the table does not have: they are imported by that."""
    newest = {}
    schemas: Sequence[Any] = onnx.defs.get_all_schemas()
    for schema in schemas:
        if schema.domain == domain and (schema.has_function or schema.has_context_dependent_function):
            newest[schema.name] = schema
    return sorted(name for name in newest if (domain, name) not in TABLE and name not in RANDOM)


def unsupported(domain: str = "") -> list[str]:
    """Operators of the installed onnx package that are not imported."""
    known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == domain and not schema.deprecated}
    return sorted(known - {name for where, name in TABLE if where == domain} - set(by_function(domain)))


def markdown() -> str:
    """Counts, operators by family, what ONNX's functions bring, and what is missing."""
    rows = []
    for family in families.FAMILIES:
        shown = []
        for (domain, name), entries in sorted(TABLE.items()):
            if entries[0].family != family:
                continue
            text = f"{domain}.{name}" if domain else name
            first = min(entry.first for entry in entries)
            if not domain and first > OLDEST_OPSET:
                text += f" {first}+"
            limits = next((entry.partial for entry in entries if entry.partial), "")
            shown.append(f"{text} ({limits})" if limits else text)
        if shown:
            rows.append(f"| {family} | {', '.join(shown)} |")
    own = sum(not domain for domain, _ in TABLE)
    contrib = sum(domain == "com.microsoft" for domain, _ in TABLE)
    functions = by_function()
    return "\n".join(
        [
            f"{own} operators of ai.onnx and {contrib} of com.microsoft have a handler; {len(functions)} more of ai.onnx come",
            "through the functions that ONNX defines them by. A number is the first opset where it is not the oldest.",
            "",
            "| family | operators |",
            "|-|-|",
            *rows,
            "",
            f"By ONNX's own function: {', '.join(functions)}.",
            "",
            f"Not supported: {', '.join(unsupported())}.",
        ]
    )


def updated(page: str) -> str:
    """The page with the table of now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{markdown()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
