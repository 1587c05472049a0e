"""MLTensor: data on a device, rebound by writes and dispatches. Source: https://www.w3.org/TR/webnn/#api-mltensor."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import InvalidStateError as FutureIsDone
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import jax

from webnn_xla.dtypes import MLOperandDataType, MLOperandDescriptor, Shape
from webnn_xla.errors import ArgumentError, DestroyedObjectError, InvalidStateError

if TYPE_CHECKING:
    from webnn_xla.context import MLContext


class MLTensor:
    """A tensor of one context. Made by ``create_tensor`` and ``create_constant_tensor`` only.

    ``array`` and ``__dlpack__`` give the data to JAX and others without a copy; what they hold never changes under
    them, since writes and dispatches bind a new array.
    """

    __slots__ = (
        "__weakref__",
        "_constant",
        "_context",
        "_descriptor",
        "_destroyed",
        "_kind",
        "_pending",
        "_readable",
        "_value",
        "_writable",
    )

    def __init__(
        self,
        context: MLContext,
        descriptor: MLOperandDescriptor,
        array: jax.Array | None,
        *,
        readable: bool = False,
        writable: bool = False,
        constant: bool = False,
    ) -> None:
        self._context = context
        self._value = array
        self._destroyed = False
        self._pending: set[Future[Any]] = set()
        self._descriptor = descriptor
        self._readable = readable
        self._writable = writable
        self._constant = constant
        # One object for all tensors of the context that a dispatch may bind in each other's place, so that it can tell
        # with one comparison; None if it may not bind this one.
        self._kind = None if constant else context._kind(descriptor)
        context._owned.add(self)

    @property
    def descriptor(self) -> MLOperandDescriptor:
        return self._descriptor

    @property
    def readable(self) -> bool:
        return self._readable

    @property
    def writable(self) -> bool:
        return self._writable

    @property
    def constant(self) -> bool:
        """True for a tensor of ``create_constant_tensor``."""
        return self._constant

    @property
    def data_type(self) -> MLOperandDataType:
        return self._descriptor.data_type

    @property
    def shape(self) -> Shape:
        return self._descriptor.shape

    @property
    def context(self) -> MLContext:
        return self._context

    @property
    def array(self) -> jax.Array:
        """The current data as a JAX array on the context's device, without a copy. Immutable."""
        # A destroyed tensor has no value, and all tensors of a destroyed context are.
        if self._value is not None:
            return self._value
        self._context._check_alive("MLTensor")
        if self._destroyed:
            raise DestroyedObjectError("the tensor is destroyed", operator="MLTensor", operand="array")
        return self._array

    @property
    def _array(self) -> jax.Array:
        if self._value is None:
            # Never written: zeros, made on first use, so that outputs cost no memory before they are bound.
            self._value = self._context._zeros(self.descriptor)
        return self._value

    def destroy(self) -> None:
        """Releases the data, and rejects reads that are pending. May be called twice."""
        self._destroyed = True
        self._kind = self._value = None
        for future in tuple(self._pending):
            fail(future, InvalidStateError("the tensor was destroyed before it was read", operator="read_tensor"))
        self._pending.clear()

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[Any, int]:
        device: tuple[Any, int] = self.array.__dlpack_device__()  # type: ignore[attr-defined]
        return device

    def _check(self, context: MLContext, operator: str, operand: str) -> None:
        if self._context is not context:
            raise ArgumentError(
                "got a tensor of another context; allowed: one of this context", operator=operator, operand=operand
            )
        if self._destroyed:
            raise DestroyedObjectError("got a destroyed tensor", operator=operator, operand=operand)

    def __repr__(self) -> str:
        flags = [name for name in ("readable", "writable", "constant") if getattr(self, name)]
        state = "destroyed" if self._destroyed else " ".join(flags)
        return f"<MLTensor {self.descriptor} {state}>".replace(" >", ">")


def fail(future: Future[Any], error: Exception) -> None:
    """Ends a future with an error, unless it has ended: its result may come from another thread at any time."""
    with suppress(FutureIsDone):
        future.set_exception(error)
