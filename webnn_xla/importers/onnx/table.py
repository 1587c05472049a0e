"""The table of ONNX operators: which function imports which operator, in which versions of its operator set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from webnn_xla.importers.onnx.errors import Malformed
from webnn_xla.importers.onnx.values import Tensor, Value
from webnn_xla.lowering import OPS
from webnn_xla.lowering.op import Operand

if TYPE_CHECKING:
    from webnn_xla.importers.onnx.node import Node

Handler = Callable[["Node"], "Value | Sequence[Value | None]"]

_H = TypeVar("_H", bound=Handler)

MICROSOFT: Final = "com.microsoft"


@dataclass(frozen=True)
class Entry:
    """One declaration: opsets ``first`` to ``last`` (None: the newest) of ``domain``'s operator ``op``."""

    domain: str
    op: str
    first: int
    last: int | None
    handler: Handler
    family: str
    partial: str = ""
    """What is not supported, if anything."""


TABLE: dict[tuple[str, str], list[Entry]] = {}


def onnx_op(*names: str, since: int = 1, until: int | None = None, domain: str = "", partial: str = "") -> Callable[[_H], _H]:
    """Declares the decorated function as the handler of operators ``names`` in opsets ``since`` to ``until``."""

    def declare(handler: _H) -> _H:
        family = handler.__module__.rpartition(".")[2]
        for name in names:
            entries = TABLE.setdefault((domain, name), [])
            for other in entries:
                if since <= (other.last or 10**6) and other.first <= (until or 10**6):
                    raise TypeError(f"{domain or 'ai.onnx'}.{name} is declared twice for opset {max(since, other.first)}")
            entries.append(Entry(domain, name, since, until, handler, family, partial))
        return handler

    return declare


def simple(ops: Mapping[str, str], since: int = 1, domain: str = "") -> None:
    """Declares operators that are one WebNN op of the same operands: ONNX name → WebNN method."""

    def make(method: str) -> Handler:
        def handler(n: Node) -> Tensor:
            count = sum(isinstance(argument, Operand) for argument in OPS[method].arguments.values())
            if len(n.inputs) != count:
                raise Malformed(f"{len(n.inputs)} inputs; the operator has {count}")
            return n.call(method, *n.tensors())

        handler.__module__ = caller
        return handler

    import sys

    caller = sys._getframe(1).f_globals["__name__"]
    for name, method in ops.items():
        onnx_op(name, since=since, domain=domain)(make(method))


def find(domain: str, op: str, opset: int) -> Entry | None:
    """The declaration that covers an operator at an opset version."""
    for entry in TABLE.get((domain, op), ()):
        if entry.first <= opset and (entry.last is None or opset <= entry.last):
            return entry
    return None
