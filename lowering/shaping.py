"""Extensions that earlier drafts of the specification had: reshapes by rule, and tensors filled with a sequence."""

from __future__ import annotations

import math

import numpy as np
from jax import Array, lax

from webnn_xla.dtypes import Descriptor, MLOperandDataType, cast_number
from webnn_xla.lowering.kinds import DATA_TYPE, NUMBER, UINT32, UINT32S
from webnn_xla.lowering.movement import COMMON_8, require_shape
from webnn_xla.lowering.op import ANY, MOVED, Op, Operand, Option, Output, Param, Same, reject, require
from webnn_xla.lowering.primitives import require_axes
from webnn_xla.lowering.tosa import FOUR_BITS, Emitter, Tensor, fail


class ShapeRule(Op, abstract=True):
    extension = True
    section = "#api-mlgraphbuilder-reshape-method"
    input = Operand(ANY, required=COMMON_8, extensions=MOVED)
    output = Output(Same("input"), required=COMMON_8)
    tosa = "RESHAPE"


class Squeeze(ShapeRule):
    """Removes dimensions of size 1: those in ``axes``, or all of them.

    Source: https://github.com/webmachinelearning/webnn/issues/375.
    """

    axes = Option(UINT32S, None, "The dimensions to remove, each of size 1. By default, or if empty, all of size 1.")
    stablehlo = "reshape"

    @staticmethod
    def infer(input: Descriptor, axes: tuple[int, ...] | None) -> Descriptor:
        require_axes(axes or (), input.rank)
        for axis in axes or ():
            if input.shape[axis] != 1:
                reject("axes", list(axes or ()), f"dimensions of size 1 in the shape {list(input.shape)}")
        return input.with_shape(_squeezed(input.shape, axes))

    @staticmethod
    def lower(input: Array, axes: tuple[int, ...] | None) -> Array:
        return lax.reshape(input, _squeezed(input.shape, axes))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, axes: tuple[int, ...] | None) -> Tensor:
        return t.reshape(input, _squeezed(input.shape, axes))


def _squeezed(shape: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    return tuple(size for axis, size in enumerate(shape) if size != 1 or (axes and axis not in axes))


class Unsqueeze(ShapeRule):
    """Inserts dimensions of size 1, which are ``axes`` of the output.

    Source: https://github.com/webmachinelearning/webnn/issues/375.
    """

    axes = Param(UINT32S, "Where the new dimensions are in the output's shape.")
    stablehlo = "reshape"

    @staticmethod
    def infer(input: Descriptor, axes: tuple[int, ...]) -> Descriptor:
        rank = input.rank + len(axes)
        if len(set(axes)) != len(axes) or any(axis >= rank for axis in axes):
            reject("axes", list(axes), f"distinct dimensions of an output of rank {rank}")
        return input.with_shape(_unsqueezed(input.shape, axes))

    @staticmethod
    def lower(input: Array, axes: tuple[int, ...]) -> Array:
        return lax.reshape(input, _unsqueezed(input.shape, axes))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, axes: tuple[int, ...]) -> Tensor:
        return t.reshape(input, _unsqueezed(input.shape, axes))


def _unsqueezed(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    made = list(shape)
    for axis in sorted(axes):
        made.insert(axis, 1)
    return tuple(made)


class FlattenTo2d(ShapeRule):
    """Flattens the dimensions before ``axis`` into one, and the others into a second.

    Source: https://github.com/webmachinelearning/webnn/issues/375.
    """

    name = "flatten_to_2d"
    axis = Param(UINT32, "The first dimension of the second part, from 0 to the rank of the input.")
    stablehlo = "reshape"

    @staticmethod
    def infer(input: Descriptor, axis: int) -> Descriptor:
        require(axis <= input.rank, "axis", axis, f"0 to {input.rank}, the rank of the input")
        return input.with_shape((math.prod(input.shape[:axis]), math.prod(input.shape[axis:])))

    @staticmethod
    def lower(input: Array, axis: int) -> Array:
        return lax.reshape(input, (math.prod(input.shape[:axis]), math.prod(input.shape[axis:])))

    @staticmethod
    def to_tosa(t: Emitter, input: Tensor, axis: int) -> Tensor:
        return t.reshape(input, (math.prod(input.shape[:axis]), math.prod(input.shape[axis:])))


class FillSequence(Op):
    """A tensor of ``start + index * step``, the index counting its elements in row-major order.

    Integers are exact; floats are computed in float64 and rounded once. With a step of 0 the tensor is filled with
    ``start``, cast as a scalar constant is, and only then may ``start`` be infinite or NaN. Otherwise every element must
    be a number of the data type: integer types take whole numbers only, and nothing may overflow.
    Source: https://github.com/webmachinelearning/webnn/issues/492.
    """

    extension = True
    section = "#dom-mlgraphbuilder-constant"
    data_type = Param(DATA_TYPE, "Data type of the output.")
    shape = Param(UINT32S, "Shape of the output.")
    start = Param(NUMBER, "The first element.")
    step = Param(NUMBER, "The difference between successive elements, of either sign, for unsigned types too.")
    output = Output(ANY, extensions=MOVED)
    tosa = "CONST"
    stablehlo = "add broadcast_in_dim convert iota multiply reshape"

    @staticmethod
    def infer(data_type: MLOperandDataType, shape: tuple[int, ...], start: int | float, step: int | float) -> Descriptor:
        require_shape(shape, "shape")
        output = Descriptor(data_type, shape)
        if step == 0:
            return output
        for name, value in (("start", start), ("step", step)):
            require(isinstance(value, int) or math.isfinite(value), name, value, "a finite number, as the step is not 0")
            if data_type.is_integer:
                require(value == int(value), name, value, f"a whole number, for {data_type}")
        end = _element(data_type, output.element_count - 1, start, step)
        for name, value in (("start", start), ("step", end)):
            if not _representable(value, data_type):
                got = f"{_shown(start)} + index * {_shown(step)}, which ends at {_shown(end)}"
                reject(name, got, f"a sequence in the range of {data_type}")
        return output

    @staticmethod
    def lower(data_type: MLOperandDataType, shape: tuple[int, ...], start: int | float, step: int | float) -> Array:
        if step == 0:
            return lax.full(shape, np.asarray(cast_number(start, data_type), _exact(data_type)).astype(data_type.numpy))
        # Integers wrap on the way, if at all: the last element is in range, so the sum is exact.
        wide = _exact(data_type)
        index = lax.iota(wide, math.prod(shape))
        values = lax.add(lax.mul(index, _scalar(step, wide, index.shape)), _scalar(start, wide, index.shape))
        return lax.convert_element_type(lax.reshape(values, shape), data_type.numpy)

    @staticmethod
    def to_tosa(
        t: Emitter, data_type: MLOperandDataType, shape: tuple[int, ...], start: int | float, step: int | float
    ) -> Tensor:
        if data_type.bits == 4:
            fail(FOUR_BITS)
        if step == 0:
            values = np.full(shape, np.asarray(cast_number(start, data_type), _exact(data_type)))
        elif data_type.is_integer:
            values = np.array([int(start) + i * int(step) for i in range(math.prod(shape))], _exact(data_type)).reshape(shape)
        else:
            values = (np.arange(math.prod(shape)) * float(step) + float(start)).reshape(shape)
        return t.data(values.astype(data_type.numpy), data_type)


def _exact(data_type: MLOperandDataType) -> np.dtype:
    """The type to compute in: float64, or integers as wide as the index (32 bits) and the output."""
    if data_type.is_float:
        return np.dtype(np.float64)
    return np.dtype(f"{'int' if data_type.is_signed else 'uint'}{max(data_type.bits, 32)}")


def _scalar(value: int | float, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
    if dtype.kind != "f":
        bits = dtype.itemsize * 8
        value = int(value) % 2**bits
        if dtype.kind == "i" and value >= 2 ** (bits - 1):
            value -= 2**bits
    return lax.full(shape, np.asarray(value, dtype), dtype)


def _element(data_type: MLOperandDataType, index: int, start: int | float, step: int | float) -> int | float:
    if data_type.is_integer:
        return int(start) + index * int(step)
    try:
        return float(start) + index * float(step)
    except OverflowError:  # an integer beyond the range of floats
        return math.inf


def _representable(value: int | float, data_type: MLOperandDataType) -> bool:
    if data_type.is_integer:
        low, high = data_type.integer_range
        return low <= value <= high
    return math.isfinite(cast_number(value, data_type))


def _shown(value: int | float) -> str:
    """Python refuses to print integers of thousands of digits."""
    return str(value) if isinstance(value, float) or value.bit_length() < 200 else f"an integer of {value.bit_length()} bits"
