"""Interleaved timing: all runtimes of a case take turns in one process, so that a busy machine is busy for all of them."""

from __future__ import annotations

import gc
import random
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

clock: Callable[[], float] = time.perf_counter
"""What is measured. ``time.process_time`` on one core is what to look at where others use the machine."""

WARM_SECONDS = 0.5
TURN_SECONDS = 2e-3
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Timing:
    """Seconds of one call."""

    median: float
    low: float
    high: float
    rounds: int

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def interleave(
    runs: Mapping[str, Callable[[], Any]], *, seconds: float = 2.0, rounds: int = 200, warm: int = 5
) -> dict[str, Timing]:
    """Median, minimum and maximum of each, over five turns at least; short calls are repeated within a turn, for 2 ms.

    Each turn begins with a call that is not timed: it finds the threads asleep, and the data of another runtime in the caches.
    """
    repeats: dict[str, int] = {}
    for name, run in runs.items():
        fastest, end = float("inf"), time.perf_counter() + WARM_SECONDS
        for _ in range(warm):
            started = clock()
            run()
            fastest = min(fastest, clock() - started)
            if time.perf_counter() > end:
                break
        repeats[name] = max(1, int(TURN_SECONDS / max(fastest, 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    order, shuffle = list(runs), random.Random(0).shuffle
    gc.collect()
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        for turn in range(rounds):
            # In another order each time: who runs after whom must not matter.
            shuffle(order)
            for name in order:
                run, count = runs[name], repeats[name]
                run()
                started = clock()
                for _ in range(count):
                    run()
                times[name].append((clock() - started) / count)
            if time.perf_counter() > end and turn >= 4:
                break
    finally:
        gc.enable()
    return {name: Timing(float(np.median(taken)), min(taken), max(taken), len(taken)) for name, taken in times.items()}


def memory() -> tuple[int, int]:
    """Bytes that this process holds now, and the most that it ever held.

    ``ru_maxrss`` is not enough: a new process starts with what its parent held. Where there is no /proc it is all there is.
    """
    if not STATUS.exists():
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return most, most
    fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    held, most = (int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return held, most
