"""Emission: WebNN ops on the importer's tensors.

``n.add(x, 1)`` is the builder's ``add``: on known values it folds (``fold.py``); otherwise it records the op with the node's
label. Data types that WebNN does not allow for an op are widened before it and narrowed after it. Empty tensors, which WebNN
does not have, stay on this side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_xla.dtypes import MLOperandDataType
from webnn_xla.importers.onnx import fold
from webnn_xla.importers.onnx.errors import Malformed, NeedsValue, Unsupported
from webnn_xla.importers.onnx.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    Array,
    DType,
    is_float,
    is_small_float,
    storage_of,
)
from webnn_xla.importers.onnx.values import Tensor
from webnn_xla.lowering import OPS
from webnn_xla.lowering.op import Operand, OperandList, OptionalOperand, Same

if TYPE_CHECKING:
    from webnn_xla.importers.onnx.importer import Importer

T = MLOperandDataType

_BOOLEAN = frozenset(
    {
        "equal", "not_equal", "greater", "greater_or_equal", "lesser", "lesser_or_equal", "logical_not", "logical_and",
        "logical_or", "logical_xor", "is_nan", "is_infinite",
    }
)  # fmt: skip
_MOVES = frozenset(
    {
        "identity", "reshape", "expand", "transpose", "concat", "split", "slice", "tile", "pad", "reverse", "gather",
        "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "triangular", "where", "relu", "max", "min",
    }
)  # fmt: skip
"""Ops whose results are numbers they were given: nothing to wrap afterwards."""

_WIDER: dict[MLOperandDataType, tuple[MLOperandDataType, ...]] = {
    T.INT4: (T.INT8, T.INT32, T.INT64, T.FLOAT32),
    T.UINT4: (T.UINT8, T.INT32, T.INT64, T.FLOAT32),
    T.INT8: (T.INT32, T.INT64, T.FLOAT32),
    T.UINT8: (T.INT32, T.INT64, T.FLOAT32),
    T.INT32: (T.INT64, T.FLOAT32),
    T.UINT32: (T.INT64, T.UINT64, T.FLOAT32),
    T.INT64: (T.FLOAT32,),
    T.UINT64: (T.FLOAT32,),
    T.BFLOAT16: (T.FLOAT32,),
    T.FLOAT16: (T.FLOAT32,),
}

Argument = Tensor | int | float | bool


class Emitter:
    """Base of ``Node``: makes constants and ops under one label."""

    importer: Importer
    label: str

    # Making values

    def const(self, value: Any, dtype: DType | Tensor | type | None = None) -> Tensor:
        """A known tensor."""
        wanted = dtype.dtype if isinstance(dtype, Tensor) else np.dtype(dtype) if dtype is not None else None
        data = np.asarray(value) if wanted is None else _exact(value, wanted)
        return Tensor(data.dtype, data.shape, data)

    def lift(self, value: Argument, like: Tensor) -> Tensor:
        """A Python number as a scalar in the type of ``like``."""
        return value if isinstance(value, Tensor) else self.const(value, like)

    def derived(
        self, source: Tensor, suffix: str, dtype: DType, shape: Sequence[int], make: Callable[[Array], Array]
    ) -> Tensor:
        """A weight computed on the host from another, when weights are loaded; a plain constant if that one is small."""
        if source.data is not None:
            data = make(source.data)
            return Tensor(data.dtype, data.shape, data)
        read = source.weight
        if read is None:
            raise NeedsValue("the weight", source.sources)
        return Tensor(dtype, tuple(shape), weight=lambda: make(read()), name=f"{source.name}/{suffix}")

    # Emitting

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in OPS:
            raise AttributeError(name)
        return partial(self.call, name)

    def call(self, op: str, *operands: Any, **arguments: Any) -> Any:
        """A WebNN op by name: tensors (or numbers, or lists of tensors), parameters and options as the builder takes them."""
        declared = OPS[op].arguments
        given: dict[str, Any] = dict(zip(declared, operands, strict=False)) | arguments
        tensors, rest = self._separate(op, given)
        first = _first(tensors)
        logical = first.dtype
        if op in _BOOLEAN:
            result_type = BOOL
        elif op in ("arg_max", "arg_min"):
            result_type = np.dtype(rest.get("output_data_type", "int32"))
        elif op == "where":
            result_type = tensors["true_value"].dtype
        elif op == "dequantize_linear":
            result_type = tensors["scale"].dtype
        elif op == "quantize_linear":
            result_type = tensors["zero_point"].dtype
        else:
            result_type = logical
        sources = frozenset[str]().union(*(x.sources for x in _flat(tensors)))
        folded = self._fold(op, tensors, rest)
        if folded is not None:
            results = [Tensor(d.dtype, d.shape, d, sources=sources) for d in folded]
            return results if op == "split" else results[0]
        empty = self._empty(op, tensors, rest, result_type)
        if empty is not None:
            return empty
        return self._emit(op, tensors, rest, result_type, sources)

    def _separate(self, op: str, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        tensors: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        declared = OPS[op].arguments
        for name, value in given.items():
            kind = declared.get(name)
            if isinstance(kind, (Operand, OptionalOperand)):
                if value is not None:
                    tensors[name] = value
            elif isinstance(kind, OperandList):
                tensors[name] = list(value)
            else:
                rest[name] = value
        like = next(
            (x for x in _flat(tensors) if isinstance(x, Tensor) and not (op == "where" and x is tensors["condition"])), None
        )
        if like is None:
            raise Malformed(f"{op} got no tensor")
        for name, value in tensors.items():
            if not isinstance(value, list):
                tensors[name] = self.lift(value, like)
        return tensors, rest

    def _fold(self, op: str, tensors: dict[str, Any], rest: dict[str, Any]) -> list[Array] | None:
        function = fold.FOLDS.get(op)
        flat = list(_flat(tensors))
        if function is None or not all(x.known for x in flat):
            return None
        arrays = [x.data for x in flat]
        if any(is_small_float(a.dtype) for a in arrays) and op not in _MOVES:
            return None
        try:
            if fold.result_size(op, arrays, rest) > fold.FOLD_ELEMENTS:
                return None
            with np.errstate(all="ignore"):
                result = function(*arrays, **rest)
        except (ValueError, IndexError) as error:
            raise Malformed(f"{op} of {', '.join(map(str, flat))}: {error}") from None
        return [np.asarray(item) for item in result] if op == "split" else [np.asarray(result)]

    def _empty(self, op: str, tensors: dict[str, Any], rest: dict[str, Any], dtype: DType) -> Any:
        """The result where an operand or the result has no elements, which WebNN cannot express."""
        if op == "split" and not isinstance(rest["splits"], int) and 0 in rest["splits"]:
            return self._split_around_empty(tensors["input"], rest)
        sizes = rest.get("sizes") if op == "slice" else rest.get("new_shape") or rest.get("repetitions")
        flat = list(_flat(tensors))
        if all(x.size for x in flat) and not (sizes is not None and 0 in sizes):
            return None
        if op == "concat":
            kept = [x for x in flat if x.size]
            if not kept:
                raise Malformed("concat of empty tensors that do not fit together")
            return kept[0] if len(kept) == 1 else self.concat(kept, **rest)
        function = fold.FOLDS.get(op)
        if function is None:
            raise Unsupported(f"{op} of an empty tensor ({', '.join(map(str, flat))})")
        stand_ins = [x.data if x.data is not None else np.broadcast_to(np.zeros((), x.dtype), x.shape) for x in flat]
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(function(*stand_ins, **rest))
        except (ValueError, IndexError) as error:
            raise Malformed(f"{op} of {', '.join(map(str, flat))}: {error}") from None
        if result.size and op in ("scatter_elements", "scatter_nd"):
            return tensors["input"]
        if result.size and not all(x.known for x in flat if x.size):
            raise Unsupported(f"{op} of an empty tensor ({', '.join(map(str, flat))})")
        return Tensor(result.dtype, result.shape, result)

    def _split_around_empty(self, x: Tensor, rest: dict[str, Any]) -> list[Tensor]:
        axis = rest.get("axis", 0)
        parts: list[Tensor] = []
        start = 0
        for size in rest["splits"]:
            starts, sizes = [0] * x.rank, list(x.shape)
            starts[axis], sizes[axis] = start, size
            parts.append(self.slice(x, starts, sizes))
            start += size
        return parts

    def _emit(self, op: str, tensors: dict[str, Any], rest: dict[str, Any], dtype: DType, sources: frozenset[str]) -> Any:
        declared = OPS[op].arguments
        operands: dict[str, Any] = {}
        widened: dict[str, MLOperandDataType] = {}
        for name, value in tensors.items():
            limits: Any = declared[name]
            items = value if isinstance(value, list) else [value]
            raw = [self.importer.operand(x, self.label) for x in items]
            if isinstance(limits.types, Same):
                wanted = widened.get(limits.types.operand)
            else:
                wanted = self._widen(raw[0].data_type, limits.types + limits.extensions)
            if wanted is not None:
                widened[name] = wanted
                raw = [self.importer.emit("cast", [x, wanted], {}, self.label) if x.data_type is not wanted else x for x in raw]
            operands[name] = raw if isinstance(value, list) else raw[0]
        result = self.importer.emit(op, [], operands | rest, self.label)
        storage = storage_of(dtype)
        wrap = dtype.name in ("int16", "uint16") and op not in _MOVES and op not in _BOOLEAN
        results = []
        for item in result if isinstance(result, list) else [result]:
            made = item
            if made.data_type is not storage and op != "cast":
                made = self.importer.emit("cast", [made, storage], {}, self.label)
            tensor = Tensor(dtype, tuple(made.shape), operand=made, sources=sources)
            results.append(self._wrap16(tensor) if wrap else tensor)
        return results if isinstance(result, list) else results[0]

    @staticmethod
    def _widen(given: MLOperandDataType, allowed: tuple[MLOperandDataType, ...]) -> MLOperandDataType | None:
        if given in allowed:
            return None
        return next((wider for wider in _WIDER.get(given, ()) if wider in allowed), None)

    def _wrap16(self, x: Tensor) -> Tensor:
        """int32 storage back into the range of int16 or uint16, two's complement."""
        wide = Tensor(INT32, x.shape, operand=x.operand, sources=x.sources)
        offset = 2**15 if x.dtype.name == "int16" else 0
        moved = self.add(wide, offset) if offset else wide
        rest = self.sub(moved, self.mul(self.floor_div(moved, 2**16), 2**16))
        result = self.sub(rest, offset) if offset else rest
        return Tensor(x.dtype, x.shape, operand=result.operand, sources=x.sources)

    # Small pieces that many handlers use

    def floor_div(self, a: Tensor, b: Argument) -> Tensor:
        """Integer division rounded toward minus infinity."""
        divisor = self.lift(b, a)
        quotient = self.div(a, divisor)
        product = self.mul(quotient, divisor)
        lower = self.logical_and(
            self.not_equal(product, a), self.logical_xor(self.lesser(a, 0), self.lesser(divisor, self.lift(0, divisor)))
        )
        return self.sub(quotient, self.cast_to(lower, a.dtype))

    def cast_to(self, x: Tensor, dtype: DType | type) -> Tensor:
        """Conversion between logical types, as ONNX's Cast has it where it is defined."""
        wanted = np.dtype(dtype)
        if x.dtype == wanted:
            return x
        if x.data is not None and not is_small_float(wanted):
            with np.errstate(all="ignore"):
                data = fold.cast(x.data, wanted)
            return Tensor(wanted, x.shape, data, sources=x.sources)
        if wanted == BOOL:
            return self.not_equal(x, 0)
        if is_small_float(wanted):
            from webnn_xla.importers.onnx.families.small_floats import round_to

            return round_to(self, x, wanted)
        storage = storage_of(wanted)
        source = self.importer.operand(x, self.label)
        if wanted.name in ("int16", "uint16", "int2", "uint2") or storage.bits == 4:
            return self._to_narrow(x, wanted)
        made = source if source.data_type is storage else self.importer.emit("cast", [source, storage], {}, self.label)
        return Tensor(wanted, x.shape, operand=made, sources=x.sources)

    def _to_narrow(self, x: Tensor, wanted: DType) -> Tensor:
        """To integers of 2, 4 or 16 bits: floats saturate at the storage's range, then all wrap."""
        storage = storage_of(wanted)
        wide = self.cast_to(x, INT32 if is_float(x.dtype) or x.dtype == BOOL else INT64 if x.dtype.itemsize == 8 else INT32)
        bits = 16 if wanted.itemsize == 2 else int(wanted.name[-1])
        offset = 2 ** (bits - 1) if not wanted.name.startswith("u") else 0
        moved = self.add(wide, offset) if offset else wide
        rest = self.sub(moved, self.mul(self.floor_div(moved, 2**bits), 2**bits))
        result = self.sub(rest, offset) if offset else rest
        made = self.importer.operand(result, self.label)
        if made.data_type is not storage:
            made = self.importer.emit("cast", [made, storage], {}, self.label)
        return Tensor(wanted, x.shape, operand=made, sources=x.sources)

    def retype(self, x: Tensor, dtype: DType) -> Tensor:
        """The same numbers under another logical type of the same storage."""
        data = None if x.data is None else fold.cast(x.data, dtype)
        return Tensor(dtype, x.shape, data, x.operand, None if data is not None else x.weight, x.name, x.sources)

    def to(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Reshape, unless it has the shape already."""
        if math.prod(shape) != x.size:
            raise Malformed(f"a tensor of shape {list(x.shape)} cannot take shape {list(shape)}")
        return x if x.shape == tuple(shape) else self.reshape(x, list(shape))

    def squeezed(self, x: Tensor, axes: Iterable[int]) -> Tensor:
        drop = set(axes)
        return self.to(x, [size for axis, size in enumerate(x.shape) if axis not in drop])

    def unsqueezed(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        rank = x.rank + len(axes)
        sizes = iter(x.shape)
        return self.to(x, [1 if axis in axes else next(sizes) for axis in range(rank)])

    def permuted(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        return x if list(permutation) == list(range(x.rank)) else self.transpose(x, permutation=list(permutation))

    def broadcast(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return x if x.shape == tuple(shape) else self.expand(x, list(shape))

    def cut(self, x: Tensor, axis: int, start: int, size: int) -> Tensor:
        """A range of one axis."""
        if start == 0 and size == x.shape[axis]:
            return x
        starts, sizes = [0] * x.rank, list(x.shape)
        starts[axis], sizes[axis] = start, size
        return self.slice(x, starts, sizes)

    def joined(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        return parts[0] if len(parts) == 1 else self.concat(list(parts), axis=axis)

    def iota(self, count: int, dtype: DType | type = np.int64) -> Tensor:
        """0, 1, … count - 1."""
        return self.const(np.arange(count), np.dtype(dtype))

    def floats(self, x: Tensor) -> Tensor:
        """``x`` as float32 if it is narrower or wider, for what float32 has to do for."""
        return x if x.dtype in (FLOAT32, FLOAT64) else self.cast_to(x, FLOAT32)


def _first(tensors: dict[str, Any]) -> Tensor:
    return next(_flat(tensors))


def _flat(tensors: dict[str, Any]) -> Any:
    for value in tensors.values():
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _exact(value: Any, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if "int" in dtype.name:
                return np.asarray(int(value)).astype(dtype) if abs(int(value)) < 2**63 else np.asarray(value, dtype=np.uint64)
            return np.asarray(float(value)).astype(dtype)
        return np.asarray(value).astype(dtype)
