"""Choice of device, and JAX's 64-bit mode around everything that touches it."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any

import jax

from webnn_xla.errors import ArgumentError, NotSupportedError

DEVICE_TYPES = ("cpu", "gpu", "tpu")


def x64() -> AbstractContextManager[None]:
    """64-bit types for this thread, for the length of a ``with``; ``jax.config`` stays as it is."""
    context: AbstractContextManager[None] = jax.enable_x64(True)
    return context


def choose(device_type: str | None, device: Any, accelerated: bool) -> jax.Device:
    """The device for a context: the one given, the first of a type, else the best that JAX sees.

    Errors: NotSupportedError, listing the devices that are there.
    """
    if device is not None:
        if not isinstance(device, jax.Device):
            raise ArgumentError(
                f"got {type(device).__name__}; allowed: a jax.Device", operator="create_context", operand="device"
            )
        return device
    if device_type is not None:
        if device_type not in DEVICE_TYPES:
            raise ArgumentError(
                f"got {device_type!r}; allowed: {', '.join(map(repr, DEVICE_TYPES))}",
                operator="create_context",
                operand="device_type",
            )
        try:
            return jax.devices(device_type)[0]
        except RuntimeError:
            raise NotSupportedError(
                f"no {device_type} here; there is: {available()}", operator="create_context", operand="device_type"
            ) from None
    if not accelerated:
        return jax.devices("cpu")[0]
    return jax.devices()[0]


def available() -> str:
    """The devices that JAX sees, for messages."""
    seen = {device.id: device for device in jax.devices()}
    shown = [f"{device.platform} ({device.device_kind})" for device in seen.values()]
    if all(device.platform != "cpu" for device in seen.values()):
        shown.append("cpu")
    return ", ".join(shown)


def memory_limit(device: jax.Device) -> int:
    """Bytes that one tensor may take at most: the device's memory, or 2**53 - 1 where it does not tell."""
    stats = device.memory_stats() or {}
    return int(stats.get("bytes_limit") or 2**53 - 1)


def cores() -> int:
    """Cores that this process may use, as XLA counts them when it starts."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
