"""Errors of the importer, beside those of ``webnn_xla.errors``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webnn_xla.errors import DataError, NotSupportedError, printable


@dataclass(frozen=True)
class Problem:
    """Why one node cannot be imported."""

    name: str
    op: str
    opset: int
    reason: str
    inputs: tuple[str, ...] = ()
    """Graph inputs whose values would have to be known on import."""
    malformed: bool = False
    """True where the model is wrong, not merely beyond what is supported."""

    def __str__(self) -> str:
        return f"{printable(self.op)} (opset {self.opset}) {printable(self.name)!r}: {self.reason}"


class UnsupportedModelError(NotSupportedError):
    """Nodes of the model that cannot become WebNN ops. ``problems`` has them all."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(describe(problems), operator="from_onnx")


class InvalidModelError(DataError):
    """The model contradicts itself. ``problems`` has every node concerned."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(describe(problems), operator="from_onnx")


class NeedsValue(Exception):  # noqa: N818  (internal: becomes a Problem)
    """A node's result depends on the value of something that is only known when the graph runs."""

    def __init__(self, what: str, sources: frozenset[str]) -> None:
        self.sources = sources
        super().__init__(f"{what} has to be known on import")


class Unsupported(Exception):  # noqa: N818  (internal: becomes a Problem)
    """Raised by handlers: what the node asks for cannot be said in WebNN."""


class Malformed(Exception):  # noqa: N818  (internal: becomes a Problem)
    """Raised by handlers: the node's inputs or attributes contradict each other or the ONNX specification."""


def describe(problems: Sequence[Problem], limit: int = 100) -> str:
    """One line per node; identical reasons are not merged, as each names its node."""
    lines = [f"{len(problems)} node{'s' if len(problems) != 1 else ''} cannot be imported:"]
    lines += [f"  {problem}" for problem in problems[:limit]]
    if len(problems) > limit:
        lines.append(f"  … and {len(problems) - limit} more")
    frozen = sorted({name for problem in problems for name in problem.inputs})
    if frozen:
        lines.append(f"  (fix the values of inputs with values={{…}}: {', '.join(map(printable, frozen))})")
    return "\n".join(lines)
