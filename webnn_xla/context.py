"""ML and MLContext: a device, and the tensors and graphs on it.

Source: https://www.w3.org/TR/webnn/#api-ml and #api-mlcontext. Promises of the specification are plain return values;
``lost`` and ``read_tensor_async`` are ``concurrent.futures.Future`` (``asyncio.wrap_future`` makes them awaitable).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import InvalidStateError as FutureIsDone
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final
from weakref import WeakSet

import jax
import numpy as np
from jax import lax

from webnn_xla import buffers, devices, rewrites
from webnn_xla import cache as caching
from webnn_xla.builder import MLGraphBuilder
from webnn_xla.dtypes import MLOperandDescriptor, carried
from webnn_xla.errors import ArgumentError, InvalidStateError, OperationError, located
from webnn_xla.limits import op_support_limits
from webnn_xla.lowering.op import Target
from webnn_xla.mlgraph import MLGraph
from webnn_xla.tensor import MLTensor, fail

POWER_PREFERENCES = ("default", "high-performance", "low-power")
PRECISIONS = {"highest": lax.Precision.HIGHEST, "high": lax.Precision.HIGH, "default": lax.Precision.DEFAULT}


@dataclass(frozen=True)
class MLContextLostInfo:
    """Why a context was lost."""

    message: str


class ML:
    """Entry point: makes contexts. Stateless."""

    def create_context(
        self,
        *,
        power_preference: str = "default",
        accelerated: bool = True,
        device_type: str | None = None,
        device: jax.Device | None = None,
        precision: str = "highest",
        optimize: rewrites.Optimize = True,
        cache: bool | str | os.PathLike[str] | None = None,
        max_tensor_byte_length: int | None = None,
    ) -> MLContext:
        """A context on one device.

        Arguments:
            power_preference: "default", "high-performance" or "low-power": a hint, as in the specification.
            accelerated: False asks for the CPU; True for the best device that JAX sees.
            device_type: "cpu", "gpu" or "tpu" (extension). Overrides ``accelerated``.
            device: a ``jax.Device`` (extension). Overrides both.
            precision: of float32 matmul and convolution: "highest" (float32), "high" or "default" (what the device
                does fastest: tf32 or bfloat16 on accelerators).
            optimize: False compiles graphs as written, without rewrites and with the canonical lowering; a set of names
                (see ``webnn_xla.rewrites.NAMES``) applies those rewrites only.
            cache: folder of the compilation cache on disk. By default the platform's cache folder, or what the environment
                variable WEBNN_XLA_CACHE says ("off": none); True is the default folder whatever it says, False is none.
            max_tensor_byte_length: limit for one tensor, in bytes. By default the device's memory.

        Errors: NotSupportedError if the device is not there (lists what is); ArgumentError for unknown names.
        Source: https://www.w3.org/TR/webnn/#api-ml-createcontext
        """
        if power_preference not in POWER_PREFERENCES:
            raise ArgumentError(
                f"got {power_preference!r}; allowed: {', '.join(map(repr, POWER_PREFERENCES))}",
                operator="create_context",
                operand="power_preference",
            )
        if not isinstance(precision, str) or precision not in PRECISIONS:
            raise ArgumentError(
                f"got {precision!r}; allowed: {', '.join(map(repr, PRECISIONS))}",
                operator="create_context",
                operand="precision",
            )
        chosen = devices.choose(device_type, device, accelerated)
        return MLContext(
            chosen,
            power_preference=power_preference,
            precision=precision,
            optimize=optimize,
            cache=caching.choose(cache),
            max_tensor_byte_length=max_tensor_byte_length,
        )


ml: Final = ML()
"""The counterpart of a browser's ``navigator.ml``."""


class MLContext:
    """Tensors and graphs on one device. ``with`` destroys it at the end. Made by ``ML.create_context``."""

    def __init__(
        self,
        device: jax.Device,
        *,
        power_preference: str = "default",
        precision: str = "highest",
        optimize: rewrites.Optimize = True,
        cache: caching.Cache | None = None,
        max_tensor_byte_length: int | None = None,
    ) -> None:
        self.device = device
        self.power_preference = power_preference
        self.optimize = optimize
        self.rewrites = rewrites.chosen(optimize)
        self.cache = cache
        self.target = Target(device.platform, PRECISIONS[precision], devices.cores() if device.platform == "cpu" else 1)
        self.portable_target = Target(precision=PRECISIONS[precision])
        if max_tensor_byte_length is None:
            max_tensor_byte_length = devices.memory_limit(device)
        elif not isinstance(max_tensor_byte_length, int) or max_tensor_byte_length < 1:
            raise ArgumentError(
                f"got {max_tensor_byte_length!r}; allowed: an integer from 1",
                operator="create_context",
                operand="max_tensor_byte_length",
            )
        self.max_tensor_byte_length = max_tensor_byte_length
        self._destroyed = False
        self._kinds: dict[MLOperandDescriptor, object] = {}
        self._pending: set[Future[Any]] = set()
        # Tensors and graphs, to release their memory when the context is destroyed.
        self._owned: WeakSet[MLTensor | MLGraph] = WeakSet()
        self._lost: Future[MLContextLostInfo] = Future()

    @property
    def lost(self) -> Future[MLContextLostInfo]:
        """Done when the context is lost, with the reason."""
        return self._lost

    @property
    def accelerated(self) -> bool:
        """True if the device is not a CPU."""
        return bool(self.device.platform != "cpu")

    def create_graph_builder(self) -> MLGraphBuilder:
        """``MLGraphBuilder(self)``."""
        return MLGraphBuilder(self)

    # Tensors

    def create_tensor(
        self, descriptor: Any, data_type: Any = None, *, readable: bool | None = None, writable: bool | None = None
    ) -> MLTensor:
        """A tensor of zeros. ``readable`` and ``writable`` (False by default) may also stand in a mapping descriptor.

        Errors: ArgumentError for dimensions out of range or too many bytes; InvalidStateError if the context is lost.
        Source: https://www.w3.org/TR/webnn/#api-mlcontext-createtensor
        """
        self._check_alive("create_tensor")
        described = self._describe("create_tensor", descriptor, data_type)
        members = descriptor if isinstance(descriptor, Mapping) else {}
        return MLTensor(
            self,
            described,
            None,
            readable=bool(members.get("readable", False)) if readable is None else readable,
            writable=bool(members.get("writable", False)) if writable is None else writable,
        )

    def create_constant_tensor(self, descriptor: Any, input_data: Any) -> MLTensor:
        """A tensor whose data, copied now, never changes; for ``builder.constant(tensor)``.

        Source: https://www.w3.org/TR/webnn/#api-mlcontext-createconstanttensor
        """
        self._check_alive("create_constant_tensor")
        described = self._describe("create_constant_tensor", descriptor)
        return MLTensor(self, described, self._put(input_data, described, "create_constant_tensor"), constant=True)

    def write_tensor(self, tensor: MLTensor, input_data: Any) -> None:
        """Copies ``input_data`` (see ``webnn_xla.buffers``) into the tensor, after all dispatches issued before.

        Errors: ArgumentError for a foreign, constant or not writable tensor, or a buffer of the wrong type or size.
        Source: https://www.w3.org/TR/webnn/#api-mlcontext-writetensor
        """
        self._check_alive("write_tensor")
        self._own(tensor, "write_tensor")
        if not tensor.writable:
            message = "got a tensor that is not writable; create it with writable=True"
            raise ArgumentError(message, operator="write_tensor", operand="tensor")
        tensor._value = self._put(input_data, tensor.descriptor, "write_tensor")

    def read_tensor(self, tensor: MLTensor, output_data: Any = None) -> np.ndarray[Any, Any] | None:
        """The tensor's data as a new NumPy array; or written into ``output_data``, which may be larger, and None.

        Waits for the dispatches that the tensor depends on. Errors: ArgumentError for a foreign or unreadable tensor
        or a small or read-only buffer; OperationError if the computation failed.
        Source: https://www.w3.org/TR/webnn/#api-mlcontext-readtensor
        """
        return self._read(self._readable(tensor), tensor.descriptor, output_data)

    def read_tensor_async(self, tensor: MLTensor, output_data: Any = None) -> Future[np.ndarray[Any, Any] | None]:
        """``read_tensor`` as a Future: destroying the tensor or the context first makes it fail (InvalidStateError)."""
        from webnn_xla.mlgraph import WORKERS

        # Arrays never change, so later dispatches and writes do not matter to this read.
        array, descriptor = self._readable(tensor), tensor.descriptor
        future: Future[np.ndarray[Any, Any] | None] = Future()
        tensor._pending.add(future)
        self._pending.add(future)

        def read() -> None:
            try:
                with suppress(Exception):  # _read says what failed
                    array.block_until_ready()
                if not future.done():
                    result = self._read(array, descriptor, output_data)
                    with suppress(FutureIsDone):
                        future.set_result(result)
            except Exception as error:
                fail(future, error)
            finally:
                tensor._pending.discard(future)
                self._pending.discard(future)

        WORKERS.submit(read)
        return future

    # Running

    def dispatch(self, graph: MLGraph, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]) -> None:
        """Runs ``graph`` on tensors of this context. Returns at once: ``read_tensor`` waits for the results.

        What the outputs held is released before it runs: if it fails they are zeros, as another thread may see them meanwhile.
        Errors: ArgumentError for foreign or constant tensors, a tensor given twice, missing or unknown names, or a
        descriptor that differs; InvalidStateError for a destroyed graph or a lost context; OperationError if it fails to run.
        Source: https://www.w3.org/TR/webnn/#api-mlcontext-dispatch
        """
        if type(graph) is MLGraph and graph._context is self and graph._short(inputs, outputs):
            return
        # Something is wrong, or takes more work.
        self._check_alive("dispatch")
        if not isinstance(graph, MLGraph) or graph.context is not self:
            raise ArgumentError("got no graph of this context", operator="dispatch", operand="graph")
        graph._dispatch(inputs, outputs)

    def compute(self, graph: MLGraph, inputs: Mapping[str, Any], output_names: Any = None) -> dict[str, np.ndarray[Any, Any]]:
        """``graph.compute``: NumPy arrays in, NumPy arrays out, only the outputs asked for (extension)."""
        self._check_alive("compute")
        if not isinstance(graph, MLGraph) or graph.context is not self:
            raise ArgumentError("got no graph of this context", operator="compute", operand="graph")
        return graph.compute(inputs, output_names)

    def op_support_limits(self, *, extensions: bool = False) -> dict[str, Any]:
        """Data types and ranks of every op's operands, as the specification's MLOpSupportLimits (camelCase keys).

        ``extensions`` adds the types and ops that the specification does not have.
        Source: https://www.w3.org/TR/webnn/#api-mlcontext-opsupportlimits-dictionary
        """
        return op_support_limits(self.max_tensor_byte_length, extensions=extensions)

    # Life

    def destroy(self) -> None:
        """Loses the context and releases its tensors and graphs: they fail with InvalidStateError from now on.

        May be called twice.
        """
        if self._destroyed:
            return
        self._destroyed = True
        for future in tuple(self._pending):
            fail(future, InvalidStateError("the context was destroyed", operator="read_tensor"))
        for owned in tuple(self._owned):
            owned.destroy()
        self._lost.set_result(MLContextLostInfo("destroy() was called"))

    def __enter__(self) -> MLContext:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.destroy()

    def __repr__(self) -> str:
        state = " destroyed" if self._destroyed else ""
        return f"<MLContext on {self.device.platform}:{self.device.id} ({self.device.device_kind}){state}>"

    def _check_alive(self, operator: str, label: str = "") -> None:
        if self._destroyed:
            raise InvalidStateError("the context is destroyed", operator=operator, label=label)

    def _own(self, tensor: Any, operator: str) -> None:
        if not isinstance(tensor, MLTensor):
            raise ArgumentError(f"got {type(tensor).__name__}; allowed: an MLTensor", operator=operator, operand="tensor")
        tensor._check(self, operator, "tensor")

    def _readable(self, tensor: Any) -> jax.Array:
        self._check_alive("read_tensor")
        self._own(tensor, "read_tensor")
        if not tensor.readable:
            message = "got a tensor that is not readable; create it with readable=True"
            raise ArgumentError(message, operator="read_tensor", operand="tensor")
        return tensor._array  # type: ignore[no-any-return]

    def _read(self, array: jax.Array, descriptor: MLOperandDescriptor, output_data: Any) -> np.ndarray[Any, Any] | None:
        try:
            host = self._to_host(array, descriptor)
        except Exception as error:
            raise OperationError(f"the computation failed: {error}", operator="read_tensor") from error
        if output_data is None:
            return host
        try:
            buffers.copy_out(host, output_data, descriptor)
        except ArgumentError as error:
            raise located(error, "read_tensor") from None
        return None

    def _describe(self, operator: str, descriptor: Any, data_type: Any = None) -> MLOperandDescriptor:
        try:
            described = MLOperandDescriptor.of(descriptor) if data_type is None else MLOperandDescriptor(data_type, descriptor)
        except ArgumentError as error:
            raise located(error, operator) from None
        problem = described.check_dimensions(self.max_tensor_byte_length)
        if problem:
            raise ArgumentError(problem, operator=operator, operand="descriptor")
        return described

    def _put(self, buffer: Any, descriptor: MLOperandDescriptor, operator: str) -> jax.Array:
        try:
            copied = buffers.copy_in(buffer, descriptor, "input_data")
        except ArgumentError as error:
            raise located(error, operator) from None
        return self._to_device(copied)

    def _to_device(self, array: Any) -> jax.Array:
        """``array`` on the device; aligned host memory that nobody else holds is taken without a copy on CPU."""
        if isinstance(array, np.ndarray):
            array = carried(array)
        with devices.x64():
            put: jax.Array = jax.device_put(array, self.device)
            return put

    @staticmethod
    def _to_host(array: jax.Array, descriptor: MLOperandDescriptor) -> np.ndarray[Any, Any]:
        """A new, writeable NumPy array with the data; waits for it."""
        host = np.array(np.asarray(array), copy=True, order="C")
        return host if host.dtype == descriptor.data_type.numpy else host.astype(descriptor.data_type.numpy)

    def _kind(self, descriptor: MLOperandDescriptor) -> object:
        """One object for each descriptor, and another for each context."""
        return self._kinds.setdefault(descriptor, object())

    def _zeros(self, descriptor: MLOperandDescriptor) -> jax.Array:
        with devices.x64():
            sharding = jax.sharding.SingleDeviceSharding(self.device)
            return lax.full(descriptor.shape, 0, descriptor.data_type.carrier, sharding=sharding)
