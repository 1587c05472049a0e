"""Every exception that this package raises on purpose.

    WebNNError                      base of all; carries .operator, .operand, .label
    ├── ArgumentError               also a TypeError: a wrong argument, shape, type, rank, name or buffer
    │   └── DestroyedObjectError    also an InvalidStateError: a destroyed tensor or graph was given
    ├── InvalidStateError           the object cannot do this any more (built, destroyed, lost)
    ├── NotSupportedError           the device or the feature is not there
    ├── OperationError              building or running failed below this package (XLA)
    └── DataError                   a damaged or hostile file

Argument errors are TypeErrors because the specification throws TypeError there; the others mirror the names of
DOM exceptions. Messages read ``op [label]: operand: got …; allowed: …``.

Source: https://www.w3.org/TR/webnn/ (method steps) and https://webidl.spec.whatwg.org/#idl-DOMException-error-names.
"""

from __future__ import annotations

import unicodedata


class WebNNError(Exception):
    """Base class. ``operator``, ``operand`` and ``label`` are empty where they do not apply."""

    def __init__(self, message: str, *, operator: str = "", operand: str = "", label: str = "") -> None:
        self.operator = operator
        self.operand = operand
        self.label = label
        where = operator
        if label:
            where = f"{where} [{printable(label)}]" if where else f"[{printable(label)}]"
        parts = [part for part in (where, operand, message) if part]
        super().__init__(": ".join(parts))


class ArgumentError(WebNNError, TypeError):
    """A wrong argument. Where the specification says TypeError, this is raised."""


class InvalidStateError(WebNNError):
    """The object is in a state in which it cannot do this: already built, destroyed, or its context is lost."""


class DestroyedObjectError(ArgumentError, InvalidStateError):
    """A destroyed tensor was given. The specification says TypeError, browsers InvalidStateError: this is both."""


class NotSupportedError(WebNNError):
    """The device, platform or feature asked for does not exist here. The message lists what does."""


class OperationError(WebNNError):
    """Compiling or running a valid graph failed in XLA or on the device."""


class DataError(WebNNError):
    """A file is damaged, inconsistent, or of an unknown format."""


class Rejected(Exception):  # noqa: N818  (internal: always rewrapped before a user sees it)
    """Raised by rules on descriptors, which know neither the op nor its label; the builder adds them."""

    def __init__(self, operand: str, got: str, allowed: str) -> None:
        self.operand = operand
        self.got = got
        self.allowed = allowed
        super().__init__(f"got {got}; allowed: {allowed}")


def located(error: ArgumentError | Rejected, operator: str, label: str = "", *, operand: str = "") -> ArgumentError:
    """The same error with the op and its label; ``operand`` replaces the one it names."""
    text = str(error)
    if isinstance(error, ArgumentError):
        text = text.removeprefix(f"{error.operand}: ")
        label = label or error.label
    return ArgumentError(text, operator=operator, operand=operand or error.operand, label=label)


def printable(text: str, limit: int = 200) -> str:
    """Escapes control, bidirectional and other invisible characters of a user's name or label, and shortens it."""
    shown = "".join(c if _is_visible(c) else c.encode("unicode_escape").decode("ascii") for c in text[: limit + 1])
    return shown if len(text) <= limit else shown[:limit] + "…"


def _is_visible(char: str) -> bool:
    return char == " " or unicodedata.category(char)[0] not in "CZ"
