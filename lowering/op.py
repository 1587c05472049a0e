"""The vocabulary of an op's declaration, and the table that declarations build.

An op is one class: operands, parameters, options, outputs, the rule for the output descriptors (``infer``), the
lowering (``lower``), its tolerance and its TOSA counterpart. The builder's method, validation, limits, codec, docs and
command line are all derived from it:

    class Softmax(Op):
        '''Softmax along ``axis``: exp(x - max) / sum(exp(x - max)).'''

        input = Operand(FLOATS, ranks=(1, None), required=FLOATS, required_ranks=(1, 5))
        axis = Param(UINT32)
        output = Output(Same("input"), SameRank("input"), required=FLOATS, required_ranks=(1, 5))
        tolerance = Tolerance(float32=8, float16=2)
        tosa = "REDUCE_MAX SUB EXP REDUCE_SUM RECIPROCAL MUL"

        @staticmethod
        def infer(input, axis): ...      # descriptors and arguments by name -> descriptor (or list of them)

        @staticmethod
        def lower(input, axis): ...      # jax arrays and arguments by name -> array (or tuple of them)

``infer`` may be left out where every output has the first operand's descriptor. ``lower`` may ask for the ``target``.
Rules reject with ``reject(name, got, allowed)``; the builder adds the op and its label.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn

from jax import lax

from webnn_xla.dtypes import EXTENSION_TYPES, MLOperandDataType
from webnn_xla.errors import Rejected
from webnn_xla.lowering.kinds import Kind

T = MLOperandDataType
Types = tuple[MLOperandDataType, ...]
Ranks = tuple[int, int | None]

ANY: Final[Types] = (T.FLOAT32, T.FLOAT16, T.INT32, T.UINT32, T.INT64, T.UINT64, T.INT8, T.UINT8)
FLOATS: Final[Types] = (T.FLOAT32, T.FLOAT16)
SIGNED: Final[Types] = (T.FLOAT32, T.FLOAT16, T.INT32, T.INT64, T.INT8)
WIDE: Final[Types] = (T.FLOAT32, T.FLOAT16, T.INT32, T.UINT32, T.INT64, T.UINT64)
INDICES: Final[Types] = (T.INT32, T.UINT32, T.INT64)
INTEGERS_8: Final[Types] = (T.INT8, T.UINT8)
BOOLEAN: Final[Types] = (T.UINT8,)
COMMON: Final[Types] = (T.FLOAT32, T.FLOAT16, T.INT32)
"""float32, float16, int32: the types that the specification requires of most ops that allow any."""
MOVED: Final[Types] = EXTENSION_TYPES
"""Extension types, for ``extensions=`` of the ops that only move data."""


@dataclass(frozen=True)
class Same:
    """The data type of another operand, by name."""

    operand: str


@dataclass(frozen=True)
class SameRank:
    """The rank of another operand, by name."""

    operand: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Data types and ranks of one operand or output: allowed (the op's), and required (of every implementation)."""

    types: Types | Same
    ranks: Ranks | SameRank = (0, None)
    required: Types = COMMON
    required_ranks: Ranks = (0, 5)
    extensions: Types = ()
    doc: str = ""


class _Tensor(Limits):
    def __init__(
        self,
        types: Types | Same,
        ranks: Ranks | SameRank = (0, None),
        *,
        required: Types = COMMON,
        required_ranks: Ranks = (0, 5),
        extensions: Types = (),
        doc: str = "",
    ) -> None:
        super().__init__(
            types=types, ranks=ranks, required=required, required_ranks=required_ranks, extensions=extensions, doc=doc
        )


class Operand(_Tensor):
    """A positional operand."""


class OperandList(_Tensor):
    """A positional list of operands, one or more."""


class OptionalOperand(_Tensor):
    """An operand that may be left out: a member of the specification's options dictionary."""


class Output(_Tensor):
    """An output. An op with several declares ``output0``, ``output1``, … in order."""


class OutputList(_Tensor):
    """A list of outputs whose number depends on the arguments (split)."""


@dataclass(frozen=True)
class Param:
    """A positional argument that is not an operand."""

    kind: Kind
    doc: str = ""


@dataclass(frozen=True)
class Option:
    """A member of the options dictionary: keyword-only, with the specification's default (None: left out)."""

    kind: Kind
    default: Any = None
    doc: str = ""
    extension: bool = False
    """True for an option that the specification does not have."""


Argument = Operand | OperandList | OptionalOperand | Param | Option


@dataclass(frozen=True)
class Tolerance:
    """How far results may be from float64, in ulp of the output's type. 0 is exact; integers are always exact.

    ``reduction``: the op sums many terms, so an ulp is that of the largest magnitude in the sum, not of the result.
    """

    float32: int = 0
    float16: int = 0
    reduction: bool = False


@dataclass(frozen=True)
class Target:
    """What a graph is lowered for. Portable export uses the default one, whose lowering is canonical."""

    platform: str = "portable"
    precision: lax.Precision = lax.Precision.HIGHEST
    cores: int = 1
    """Of the CPU, where that is the platform."""


OPS: dict[str, type[Op]] = {}
"""Every op by snake_case name, in declaration order. Filled by declaring."""

INTERNAL_OPS: dict[str, type[Op]] = {}
"""The ops that only rewrites make."""


class Op:
    """Base of all ops; never instantiated. Subclassing with operands declares an op, unless ``abstract=True``."""

    name: ClassVar[str] = ""
    """snake_case name. Derived from the class's name, unless given."""
    section: ClassVar[str] = ""
    """Anchor of the section in the specification. Derived from the name, unless given."""
    arguments: ClassVar[Mapping[str, Argument]] = {}
    outputs: ClassVar[Mapping[str, Output | OutputList]] = {}
    tolerance: ClassVar[Tolerance] = Tolerance()
    tosa: ClassVar[str] = ""
    """TOSA operators that it maps to, in order of use. Empty: TOSA cannot say it."""
    tosa_note: ClassVar[str] = ""
    stablehlo: ClassVar[str] = ""
    """StableHLO operators that the canonical lowering emits for float32, sorted."""
    extension: ClassVar[bool] = False
    internal: ClassVar[bool] = False
    """Made by rewrites only: no method of the builder, and in no list of ops that users see."""
    doc: ClassVar[str] = ""
    rule: ClassVar[Callable[..., Any] | None] = None
    """``infer`` of the declaration, or None: outputs have the first operand's descriptor."""
    lowering: ClassVar[Callable[..., Any]]
    wants_target: ClassVar[bool] = False

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        arguments: dict[str, Argument] = {}
        outputs: dict[str, Output | OutputList] = {}
        for base in reversed(cls.__mro__):
            for key, value in vars(base).items():
                if isinstance(value, (Operand, OperandList, OptionalOperand, Param, Option)):
                    arguments[key] = value
                elif isinstance(value, (Output, OutputList)):
                    outputs[key] = value
        # Positional arguments come first, in order; a base's options never precede a subclass's operands.
        cls.arguments = dict(sorted(arguments.items(), key=lambda item: isinstance(item[1], (Option, OptionalOperand))))
        cls.outputs = outputs
        if abstract:
            return
        if "name" not in vars(cls):
            cls.name = _snake(cls.__name__)
        if not cls.section:
            cls.section = "#api-mlgraphbuilder-" + cls.name.replace("_", "")
        cls.doc = inspect.cleandoc(cls.__doc__ or "")
        cls.rule = getattr(cls, "infer", None)
        cls.lowering = cls.lower  # type: ignore[attr-defined]
        cls.wants_target = "target" in inspect.signature(cls.lowering).parameters
        table = INTERNAL_OPS if cls.internal else OPS
        if cls.name in table:
            raise TypeError(f"op {cls.name} is declared twice")
        table[cls.name] = cls

    @classmethod
    def operands(cls) -> dict[str, Operand | OperandList | OptionalOperand]:
        """The declared operands, positional and optional, by name."""
        kinds = (Operand, OperandList, OptionalOperand)
        return {name: arg for name, arg in cls.arguments.items() if isinstance(arg, kinds)}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def reject(name: str, got: object, allowed: str) -> NoReturn:
    """Rejects an argument or operand from within a rule; the builder raises it with the op and its label."""
    raise Rejected(name, str(got), allowed)


def require(condition: bool, name: str, got: object, allowed: str) -> None:
    """``reject`` unless the condition holds."""
    if not condition:
        reject(name, got, allowed)
