"""Behaviour of tensors: making, writing, reading (also into a buffer, also pending), and the order of dispatches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from imperative import FLOATS, build, new_context, read, tensor

import webnn_xla as webnn
from webnn_xla import mlgraph

BOTH = (TypeError, webnn.InvalidStateError)
"""A destroyed tensor is a TypeError in the specification, and an InvalidStateError in browsers: here both."""


@pytest.fixture
def own() -> Iterator[webnn.MLContext]:
    """A context that the test may destroy."""
    with new_context() as made:
        yield made


@pytest.fixture
def held() -> Iterator[Callable[[], None]]:
    """Reads stay pending until this is called."""
    gate = threading.Event()
    workers = [mlgraph.WORKERS.submit(gate.wait) for _ in range(mlgraph.WORKERS._max_workers)]

    def release() -> None:
        gate.set()
        for worker in workers:
            worker.result(timeout=60)

    yield release
    gate.set()


def fails_as_destroyed(attempt: Callable[[], Any]) -> None:
    for kind in BOTH:
        with pytest.raises(kind, match="destroyed"):
            attempt()


# Making tensors


@pytest.mark.parametrize("data_type", list(webnn.MLOperandDataType))
@pytest.mark.parametrize("shape", [[], [1], [2, 3, 4]])
def test_create_gives_type_and_shape_back(data_type: str, shape: list[int], context: webnn.MLContext) -> None:
    made = context.create_tensor({"data_type": data_type, "shape": shape}, readable=True)
    assert (made.data_type, made.shape, made.readable, made.writable, made.constant) == (data_type, shape, True, False, False)
    data = context.read_tensor(made)
    assert data is not None
    assert (data.dtype, data.shape) == (made.data_type.numpy, tuple(shape))
    assert not data.astype(np.float32).any()


def test_flags_are_off_unless_asked_for(context: webnn.MLContext) -> None:
    made = context.create_tensor([2], "float32")
    assert (made.readable, made.writable) == (False, False)
    with pytest.raises(TypeError, match="readable=True"):
        context.read_tensor(made)
    with pytest.raises(TypeError, match="readable=True"):
        context.read_tensor_async(made)
    with pytest.raises(TypeError, match="writable=True"):
        context.write_tensor(made, [1, 2])
    made = context.create_tensor({"dataType": "float32", "shape": [2], "readable": True, "writable": True})
    assert (made.readable, made.writable) == (True, True)


@pytest.mark.parametrize(
    "shape", [[0], [2, 0, 2], [2**32 - 1] * 3, [2**31], [2**16, 2**16], [-1], [1.5], ["2"], "2", [1] * 9, [True]]
)
def test_wrong_dimensions(shape: Any, context: webnn.MLContext) -> None:
    for attempt in (
        lambda: context.create_tensor({"data_type": "int32", "shape": shape}),
        lambda: context.create_constant_tensor({"data_type": "int32", "shape": shape}, b""),
        lambda: webnn.MLGraphBuilder(context).input("x", shape, "int32"),
    ):
        with pytest.raises(TypeError) as caught:
            attempt()
        assert isinstance(caught.value, webnn.ArgumentError)


def test_tensors_over_the_limit_of_bytes() -> None:
    with webnn.ML().create_context(device_type="cpu", max_tensor_byte_length=1024) as limited:
        assert limited.op_support_limits()["maxTensorByteLength"] == 1024
        limited.create_tensor([1024 // 4], "int32")
        for shape in ([1024 // 4 + 1], [(limited.max_tensor_byte_length + 4) // 4, 1]):
            with pytest.raises(TypeError, match="1024"):
                limited.create_tensor(shape, "int32")
        builder = webnn.MLGraphBuilder(limited)
        x = builder.input("x", [256], "int32")
        with pytest.raises(TypeError, match=r"concat \[big\]: output: got 2048 bytes"):
            builder.concat([x, x], 0, label="big")


def test_destroy_twice(context: webnn.MLContext) -> None:
    made = tensor(context, [1, 2])
    made.destroy()
    made.destroy()
    assert "destroyed" in repr(made)
    fails_as_destroyed(lambda: made.array)
    fails_as_destroyed(lambda: np.from_dlpack(made))


def test_constant_tensors(context: webnn.MLContext) -> None:
    data = np.array([2, 3], np.float32)
    made = context.create_constant_tensor(FLOATS, data)
    data[:] = 9
    assert (made.constant, made.readable, made.writable) == (True, False, False)
    with pytest.raises(TypeError, match="writable"):
        context.write_tensor(made, [1, 2])
    with pytest.raises(TypeError, match="readable"):
        context.read_tensor(made)
    graph = build(context, lambda b, x: b.add(x, b.constant(made)), "x")
    assert graph.compute({"x": [5, 7]})["out"].tolist() == [7, 10]
    with pytest.raises(TypeError, match="constant tensor"):
        context.dispatch(graph, {"x": made}, {"out": tensor(context, [0, 0])})
    with pytest.raises(TypeError, match="create_constant_tensor"):
        webnn.MLGraphBuilder(context).constant(tensor(context, [1, 2]))


def test_a_constant_tensor_destroyed_before_the_build(context: webnn.MLContext) -> None:
    made = context.create_constant_tensor(FLOATS, [2, 3])
    builder = webnn.MLGraphBuilder(context)
    y = builder.add(builder.constant(made), builder.input("x", FLOATS))
    made.destroy()
    fails_as_destroyed(lambda: builder.build({"y": y}))
    fails_as_destroyed(lambda: builder.constant(made))


def test_a_constant_tensor_destroyed_after_the_build(context: webnn.MLContext) -> None:
    made = context.create_constant_tensor({"data_type": "float32", "shape": [4096]}, np.ones(4096, np.float32))
    graph = build(context, lambda b, x: b.add(x, b.constant(made)), "x", shape=[])
    made.destroy()
    assert graph.compute({"x": 1})["out"].tolist() == [2] * 4096


def test_a_constant_tensor_of_another_context(own: webnn.MLContext, context: webnn.MLContext) -> None:
    with pytest.raises(TypeError, match="another context"):
        webnn.MLGraphBuilder(context).constant(own.create_constant_tensor(FLOATS, [2, 3]))


# Reading and writing


def test_the_last_write_is_read(context: webnn.MLContext) -> None:
    made = tensor(context, [1, 2])
    context.write_tensor(made, np.array([3, 4], np.float32))
    assert read(made) == [3, 4]


@pytest.mark.parametrize("data_type", ["float32", "float16", "int32", "uint8", "int64", "uint64"])
def test_scalars_keep_their_rank(data_type: str, context: webnn.MLContext) -> None:
    made = tensor(context, shape=[], data_type=data_type)
    context.write_tensor(made, np.array(7, data_type))
    data = context.read_tensor(made)
    assert data is not None
    assert (data.shape, data.dtype, data.item()) == ((), np.dtype(data_type), 7)


def test_kinds_of_buffers(context: webnn.MLContext) -> None:
    made = tensor(context, shape=[2])
    raw = np.array([1, 2], np.float32)
    for buffer in (
        raw,
        raw.tobytes(),
        bytearray(raw.tobytes()),
        memoryview(raw),
        memoryview(raw.tobytes()),
        raw.view(np.uint8),
        [1, 2],
        (1.0, 2.0),
        np.arange(2, 6, dtype=np.float32)[::2] / 2,
        context.create_constant_tensor(FLOATS, raw),
    ):
        context.write_tensor(made, np.zeros(2, np.float32))
        context.write_tensor(made, buffer)
        assert read(made) == [1, 2], type(buffer)


@pytest.mark.parametrize(
    "buffer",
    [
        b"1234567",
        b"123456789",
        np.zeros(1, np.float32),
        np.zeros(3, np.float32),
        np.zeros((2, 1), np.float32),
        np.zeros(2, np.int32),
        np.zeros(2, np.float64),
        np.zeros(2, ">f4"),
        memoryview(np.zeros(2, np.int32)),
        [1],
        [1, None],
        [1, "2"],
        "12",
        None,
        object(),
        {1, 2},
    ],
)
def test_wrong_buffers_leave_the_tensor_as_it_was(buffer: Any, context: webnn.MLContext) -> None:
    made = tensor(context, [1, 2])
    with pytest.raises(TypeError) as caught:
        context.write_tensor(made, buffer)
    assert isinstance(caught.value, webnn.ArgumentError)
    assert (caught.value.operator, caught.value.operand) == ("write_tensor", "input_data")
    assert read(made) == [1, 2]


def test_a_released_buffer_is_not_written(context: webnn.MLContext) -> None:
    made = tensor(context, [1, 2])
    buffer = memoryview(bytearray(8))
    buffer.release()
    with pytest.raises(TypeError, match="released"):
        context.write_tensor(made, buffer)
    assert read(made) == [1, 2]


def test_a_write_copies(context: webnn.MLContext) -> None:
    made, data = tensor(context, shape=[64]), np.arange(64, dtype=np.float32)
    context.write_tensor(made, data)
    data[0] = 99
    first = context.read_tensor(made)
    assert first is not None
    assert first[0] == 0
    first[0] = 98
    assert read(made)[0] == 0


def test_destroyed_tensors_are_neither_read_nor_written(context: webnn.MLContext) -> None:
    made = tensor(context, [1, 2])
    made.destroy()
    fails_as_destroyed(lambda: context.read_tensor(made))
    fails_as_destroyed(lambda: context.read_tensor(made, np.zeros(2, np.float32)))
    fails_as_destroyed(lambda: context.read_tensor_async(made))
    fails_as_destroyed(lambda: context.write_tensor(made, [1, 2]))


def test_tensors_of_another_context(own: webnn.MLContext, context: webnn.MLContext) -> None:
    made = tensor(own, [1, 2])
    for attempt in (
        lambda: context.read_tensor(made),
        lambda: context.read_tensor_async(made),
        lambda: context.write_tensor(made, [1, 2]),
    ):
        with pytest.raises(TypeError, match="another context"):
            attempt()
    for nothing in (None, 1, np.zeros(2)):
        with pytest.raises(TypeError, match="an MLTensor"):
            context.read_tensor(nothing)  # type: ignore[arg-type]


# Reading into a buffer


def floats(count: int) -> np.ndarray[Any, Any]:
    return np.full(count, 7, np.float32)


@pytest.mark.parametrize("kind", ["array", "bytearray", "view", "typed view", "bytes of an array"])
@pytest.mark.parametrize("count", [2, 3])
def test_read_into_a_buffer_that_may_be_larger(kind: str, count: int, context: webnn.MLContext) -> None:
    array, raw = floats(count), bytearray(floats(count).tobytes())
    buffer: Any = {
        "array": array,
        "bytearray": raw,
        "view": memoryview(raw),
        "typed view": memoryview(array),
        "bytes of an array": array.view(np.uint8),
    }[kind]
    made = tensor(context, [1, 2])
    assert context.read_tensor(made, buffer) is None
    assert np.frombuffer(buffer, np.float32).tolist() == [1, 2, 7][:count]
    assert context.read_tensor_async(made, buffer).result(timeout=60) is None


def test_read_into_an_array_of_the_same_shape(context: webnn.MLContext) -> None:
    made = tensor(context, [[1, 2], [3, 4]])
    matrix = np.zeros((2, 2), np.float32, order="F")
    context.read_tensor(made, matrix)
    assert matrix.tolist() == [[1, 2], [3, 4]]


def test_read_into_wrong_buffers(context: webnn.MLContext) -> None:
    made = tensor(context, [1, 2])
    released = memoryview(bytearray(8))
    released.release()
    frozen = floats(2)
    frozen.flags.writeable = False
    wrong = [
        bytearray(7), floats(1), released, bytes(8), frozen, np.zeros(2, np.int32), np.zeros((1, 2), np.float32), [0, 0], "", 1,
        np.zeros(32, np.uint8)[::2], memoryview(np.zeros(2, np.int32)),
    ]  # fmt: skip
    for buffer in wrong:
        with pytest.raises(TypeError) as caught:
            context.read_tensor(made, buffer)
        assert isinstance(caught.value, webnn.ArgumentError)
        assert (caught.value.operator, caught.value.operand) == ("read_tensor", "output_data")
        failed = context.read_tensor_async(made, buffer).exception(timeout=60)
        assert isinstance(failed, TypeError)


def test_int4_reads_as_numbers_and_as_packed_bytes(context: webnn.MLContext) -> None:
    made = context.create_tensor({"data_type": "int4", "shape": [3]}, readable=True, writable=True)
    context.write_tensor(made, bytes([0x8F, 0x07]))
    data, packed = context.read_tensor(made), bytearray(2)
    assert data is not None
    assert data.astype(int).tolist() == [-1, -8, 7]
    context.read_tensor(made, packed)
    assert packed == bytes([0x8F, 0x07])


# Pending reads


def test_a_read_can_be_awaited(context: webnn.MLContext) -> None:
    async def wait() -> Any:
        return await asyncio.wrap_future(context.read_tensor_async(tensor(context, [1, 2])))

    assert asyncio.run(wait()).tolist() == [1, 2]


def test_pending_reads_fail_when_the_tensor_is_destroyed(held: Callable[[], None], context: webnn.MLContext) -> None:
    made, buffer = tensor(context, [1, 2]), floats(2)
    pending = [context.read_tensor_async(made), context.read_tensor_async(made, buffer)]
    made.destroy()
    for future in pending:
        assert isinstance(future.exception(timeout=0), webnn.InvalidStateError)
    held()
    assert buffer.tolist() == [7, 7]


def test_pending_reads_fail_when_the_context_is_destroyed(held: Callable[[], None], own: webnn.MLContext) -> None:
    pending = own.read_tensor_async(tensor(own, [1, 2]))
    own.destroy()
    assert isinstance(pending.exception(timeout=0), webnn.InvalidStateError)
    held()


def test_a_buffer_released_while_a_read_is_pending(held: Callable[[], None], context: webnn.MLContext) -> None:
    buffer = memoryview(bytearray(8))
    pending = context.read_tensor_async(tensor(context, [1, 2]), buffer)
    buffer.release()
    held()
    assert isinstance(pending.exception(timeout=60), webnn.ArgumentError)


def test_a_cancelled_read_does_no_harm(held: Callable[[], None], context: webnn.MLContext) -> None:
    made = tensor(context, [1, 2])
    assert context.read_tensor_async(made).cancel()
    held()
    assert read(made) == [1, 2]


def test_a_pending_read_does_not_see_what_comes_after(held: Callable[[], None], context: webnn.MLContext) -> None:
    made = tensor(context, [1, 10])
    graph = build(context, lambda b, x: b.add(x, x), "x")
    out = tensor(context, shape=[2])
    context.dispatch(graph, {"x": made}, {"out": out})
    pending = context.read_tensor_async(out)
    context.write_tensor(made, [5, 6])
    context.dispatch(graph, {"x": made}, {"out": out})
    held()
    data = pending.result(timeout=60)
    assert data is not None
    assert data.tolist() == [2, 20]
    assert read(out) == [10, 12]
