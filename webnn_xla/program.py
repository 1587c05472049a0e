"""The executable of a graph: rewritten, prepared, compiled; and the arguments that its weights become.

A program is a flat function: packs of small weights, then large weights, then inputs; it returns the outputs. Every
argument costs time at each call, so the small ones of a data type travel as one array and are sliced inside.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import jax
import numpy as np
from jax import Array, lax
from jax.experimental import serialize_executable

from webnn_xla import cache as caching
from webnn_xla import devices, host, preparation, rewrites
from webnn_xla.compile import INLINE_BYTES, Lowered, as_function, compile_stage, lower, split_constants, struct
from webnn_xla.dtypes import carried
from webnn_xla.graph import Constant, Graph, Value
from webnn_xla.lowering.op import Target
from webnn_xla.options import candidates, compiler_options

log = logging.getLogger("webnn_xla")

PACK_BYTES: Final = 16384
"""Weights up to this size are packed."""

TUNE_SECONDS: Final = 0.5
"""Time that autotune runs each candidate for."""

Payloads = Mapping[Value, Any]
"""Data of constants: NumPy or JAX arrays."""


@dataclass(frozen=True)
class Arguments:
    """How the parameters of a graph are passed: ``packs`` (each of one data type), then ``single`` ones."""

    packs: tuple[tuple[Value, ...], ...]
    single: tuple[Value, ...]

    @classmethod
    def of(cls, parameters: Sequence[Value]) -> Arguments:
        groups: dict[Any, list[Value]] = {}
        single: list[Value] = []
        for value in parameters:
            if value.descriptor.byte_length <= PACK_BYTES:
                groups.setdefault(value.descriptor.data_type, []).append(value)
            else:
                single.append(value)
        packs = tuple(tuple(group) for group in groups.values() if len(group) > 1)
        single += [group[0] for group in groups.values() if len(group) == 1]
        return cls(packs, tuple(single))

    @property
    def count(self) -> int:
        return len(self.packs) + len(self.single)

    def structs(self, device: jax.Device) -> list[jax.ShapeDtypeStruct]:
        packs = [
            struct(pack[0].descriptor.with_shape((sum(value.descriptor.element_count for value in pack),)), device)
            for pack in self.packs
        ]
        return packs + [struct(value.descriptor, device) for value in self.single]

    def pack(self, data: Payloads, put: Callable[[Any], Array]) -> list[Array]:
        """The arguments, on the device."""
        packs = []
        for values in self.packs:
            packs.append(put(np.concatenate([carried(np.asarray(data[value]).reshape(-1)) for value in values])))
        return packs + [data[value] if isinstance(data[value], Array) else put(data[value]) for value in self.single]

    def unpack(self, arguments: Sequence[Array]) -> dict[Value, Array]:
        """The parameters, within a traced program."""
        found: dict[Value, Array] = {}
        for values, flat in zip(self.packs, arguments, strict=False):
            start = 0
            for value in values:
                stop = start + value.descriptor.element_count
                found[value] = lax.reshape(lax.slice(flat, (start,), (stop,)), value.descriptor.shape)
                start = stop
        found.update(zip(self.single, arguments[len(self.packs) :], strict=True))
        return found


class Program:
    """A graph compiled for one device.

    ``optimized`` is the graph after rewrites, ``main`` the part of it that runs at every call; ``fired`` says which
    rewrites did what.
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        device: jax.Device,
        *,
        names: frozenset[str] = frozenset(),
        options: Mapping[str, Any] | None = None,
        cache: caching.Cache | None = None,
        alias: Mapping[str, str] | None = None,
    ) -> None:
        self.alias = dict(alias or {})
        self.cache, self.cache_hit = cache, False
        self.compile_seconds = 0.0
        self.target, self.device = target, device
        # What is written in place is not written in parts.
        optimized, self.fired = rewrites.apply(graph, target, names - {"images_in_turn"} if self.alias else names)
        parts = preparation.split(optimized)
        self._preparations: dict[Graph, tuple[Lowered, Any]] = {}
        fixed = {} if parts.fixed is None else self._prepare(parts.fixed)
        # The owner of this program keeps the data of the graph's constants; here only literals and what was made of them.
        self.optimized = _without_data(optimized)
        self._loaded = None if parts.loaded is None else _without_data(parts.loaded)
        made = {value: item.data for value, item in optimized.constants.items() if value not in graph.constants}
        self._known = {**made, **fixed}
        self.main = _without_data(parts.with_fixed({value: Constant(array) for value, array in fixed.items()}))
        self.parameters, self._function = as_function(self.main, target)
        self.arguments = Arguments.of(self.parameters)
        self._given_options = dict(options or {})
        self.options = compiler_options(self.main, target) | self._given_options
        self.executable: Any = None

    # Compiling

    @cached_property
    def stage(self) -> Any:
        """``jax.stages.Lowered``: StableHLO, before XLA."""
        inputs = [struct(self.main.whole(value), self.device) for value in self.main.inputs.values()]
        donated = tuple(self.arguments.count + list(self.main.inputs).index(name) for name in self.alias.values())
        with devices.x64():
            jitted = jax.jit(self._ordered, keep_unused=True, donate_argnums=donated)
            return jitted.lower(*self.arguments.structs(self.device), *inputs)

    def _ordered(self, *arguments: Array) -> tuple[Array, ...]:
        """``flat`` with aliased outputs first, in the order of their inputs: so JAX pairs them as asked, not by type alone."""
        results = self.flat(*arguments)
        return results if self.output_order is None else tuple(results[index] for index in self._program_order)

    @cached_property
    def _program_order(self) -> list[int]:
        """For each output of the program, the index of the graph's output."""
        inputs, outputs = list(self.main.inputs), list(self.main.outputs)
        first = sorted(self.alias, key=lambda name: inputs.index(self.alias[name]))
        return [outputs.index(name) for name in (*first, *(name for name in outputs if name not in self.alias))]

    @cached_property
    def output_order(self) -> list[int] | None:
        """For each output of the graph, the index of the program's output; None where they are the same."""
        order = self._program_order
        return None if order == sorted(order) else [order.index(index) for index in range(len(order))]

    def flat(self, *arguments: Array) -> tuple[Array, ...]:
        """The pure function that is compiled: packs, single parameters, inputs → outputs."""
        found = self.arguments.unpack(arguments[: self.arguments.count])
        return tuple(self._function([found[value] for value in self.parameters], arguments[self.arguments.count :]))

    def compile(self, *, autotune: bool = False) -> None:
        """Makes ``executable``: from the cache if it is there, else with XLA, and then into the cache."""
        store = self.cache
        if autotune:
            self._tune()
        if store is None:
            self.executable = self.executable or self._compile()
            return
        if self.executable is not None:
            return
        key = caching.key(self.main, self.target, self.device, self.options, self._layout(), list(self.alias.items()))
        self.executable = store.load(key, self._deserialize)
        self.cache_hit = self.executable is not None
        log.info("graph of %d ops: cache %s", len(self.main.nodes), "hit" if self.cache_hit else "miss")
        if self.executable is None:
            self.executable = self._compile()
            if self.compile_seconds >= store.worth_seconds:
                try:
                    contents, _, _ = serialize_executable.serialize(self.executable)
                except Exception as error:  # what XLA cannot serialize is compiled again next time
                    log.info("not cached: %s", error)
                else:
                    store.store(key, contents)

    def _tune(self) -> None:
        """Sets ``options`` to the fastest of the candidates, measured here or remembered by the cache."""
        choices = [choice | self._given_options for choice in candidates(self.main, self.target)]
        key = caching.key(self.main, self.target, self.device, "autotune", choices, self._layout())
        known = None if self.cache is None else self.cache.load(key, lambda raw: choices[int(raw)])
        if known is not None:
            self.options = known
            return
        times = []
        for choice in choices:
            self.options = choice
            times.append(self._seconds(self._compile()))
        best = times.index(min(times))
        self.options = choices[best]
        log.info(
            "autotune: %s",
            ", ".join(f"{choice} {seconds * 1e3:.2f} ms" for choice, seconds in zip(choices, times, strict=True)),
        )
        if self.cache is not None:
            self.cache.store(key, str(best).encode())

    def _seconds(self, executable: Any) -> float:
        """The fastest of several runs on arrays of ones."""
        with devices.x64():
            inputs = [self.main.whole(value) for value in self.main.inputs.values()]
            structs = self.arguments.structs(self.device)
            structs += [struct(item, self.device) for item in inputs]
            best, spent, runs = float("inf"), 0.0, 0
            resident = [jax.device_put(np.ones(item.shape, item.dtype), self.device) for item in structs]
            while runs < 3 or (spent < TUNE_SECONDS and runs < 100):
                arguments = [item.copy() for item in resident] if self.alias else resident
                started = time.perf_counter()
                jax.block_until_ready(executable(*arguments))
                taken = time.perf_counter() - started
                # The first run pays for memory.
                best, spent, runs = min(best, taken) if runs else best, spent + taken, runs + 1
        return best

    def _compile(self) -> Any:
        stage = self.stage
        started = time.perf_counter()
        executable = compile_stage(self.main, stage, self.options)
        self.compile_seconds = time.perf_counter() - started
        return executable

    def _layout(self) -> object:
        """Which constants are passed in which argument."""
        order = {value: index for index, value in enumerate(self.main.constants)}
        return [[order[value] for value in pack] for pack in self.arguments.packs], [
            order[value] for value in self.arguments.single
        ]

    def _deserialize(self, contents: bytes) -> Any:
        count = self.arguments.count + len(self.main.inputs)
        with devices.x64():
            return serialize_executable.deserialize_and_load(
                contents,
                jax.tree.structure(((0,) * count, {})),
                jax.tree.structure((0,) * len(self.main.outputs)),
                backend=self.device.client,
                execution_devices=[self.device],
            )

    # Weights

    @cached_property
    def resident(self) -> frozenset[Value]:
        """Constants that the program takes as they are, each as an argument of its own."""
        return frozenset(self.arguments.single)

    def bind(self, data: Payloads, put: Callable[[Any], Array]) -> list[Array]:
        """The program's arguments for these constants of ``graph``: runs what depends on named ones."""
        known: dict[Value, Any] = {**data, **self._known}
        if self._loaded is not None:
            known.update(self._compute(self._loaded, known))
        return self.arguments.pack(known, put)

    def _prepare(self, graph: Graph) -> dict[Value, Any]:
        """The results of ``fixed``: small ones on the host, to become literals."""
        results = self._compute(graph, {value: constant.data for value, constant in graph.constants.items()})
        return {
            value: np.asarray(array).astype(value.descriptor.data_type.numpy)
            if value.descriptor.byte_length <= INLINE_BYTES
            else array
            for value, array in results.items()
        }

    def _compute(self, graph: Graph, data: Payloads) -> Mapping[Value, Any]:
        if host.can_run(graph):
            return host.run(graph, data)
        if graph not in self._preparations:
            lowered = lower(graph, self.target, self.device)
            self._preparations[graph] = lowered, compile_stage(graph, lowered.stage)
        return _run(*self._preparations[graph], data)


def _without_data(graph: Graph) -> Graph:
    """``graph`` without the payloads of its parameters; literals stay."""
    return graph.replace_constants(dict.fromkeys(split_constants(graph)[0]))


def _run(lowered: Lowered, executable: Any, data: Payloads) -> dict[Value, Array]:
    with devices.x64():
        results = executable([carried(data[value]) for value in lowered.parameters], [])
    return dict(zip(lowered.graph.outputs.values(), results, strict=True))
