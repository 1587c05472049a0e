"""Compiled programs on disk: a build that was done before takes a fraction of its time.

An entry is one file, named by the digest of all that the program depends on: the graph after rewrites, the versions and
sources of the compiler, its options, and the device. Files are written beside and renamed, so that a reader sees a whole
entry or none, whatever other processes do; each begins with the digest of its contents, and one that does not match is
removed, with a warning, and compiled again. Whatever goes wrong with the folder, a build only takes longer.

The folder is the user's own (mode 0700), and only such a folder is read: executables are code.

It is the platform's cache folder, or ``WEBNN_XLA_CACHE``; the value ``off`` turns the cache off.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import jax
import jaxlib.version
import numpy as np
import platformdirs

from webnn_xla import devices
from webnn_xla.dtypes import Descriptor
from webnn_xla.graph import Graph, Value
from webnn_xla.lowering.op import Target

log = logging.getLogger("webnn_xla.cache")

VARIABLE: Final = "WEBNN_XLA_CACHE"
LIMIT_BYTES: Final = 2**30
"""The least recently used entries are removed beyond this."""

WORTH_SECONDS: Final = 0.3
"""Programs that compile faster are not stored."""

MAGIC: Final = b"webnn-xla 1\n"
SUFFIX: Final = ".executable"
STALE_SECONDS: Final = 3600
"""Age at which a half-written file belongs to a process that was killed."""


class Cache:
    """Entries in one folder. Every method is safe beside other processes, and none raises for what is on the disk."""

    def __init__(self, folder: Path, *, limit_bytes: int = LIMIT_BYTES, worth_seconds: float = WORTH_SECONDS) -> None:
        self.folder, self.limit_bytes, self.worth_seconds = folder, limit_bytes, worth_seconds

    def __repr__(self) -> str:
        return f"<Cache {self.folder}>"

    def load(self, key: str, read: Callable[[bytes], Any]) -> Any:
        """``read`` of the entry's contents, or None if there is no such entry, or a damaged one."""
        path = self.folder / (key + SUFFIX)
        try:
            if not self._is_private():
                return None
            raw = path.read_bytes()
        except OSError:
            return None
        head = len(MAGIC) + hashlib.sha256().digest_size
        contents = raw[head:]
        try:
            if raw[:head] != MAGIC + hashlib.sha256(contents).digest():
                raise ValueError("its contents do not match their digest")
            result = read(contents)
        except Exception as error:
            log.warning("cache entry %s is damaged (%s); compiling again", path, error)
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)
        return result

    def store(self, key: str, contents: bytes) -> bool:
        """Writes an entry. False, and a line in the log, if it could not be written."""
        temporary = self.folder / f"{key}.{secrets.token_hex(4)}.tmp"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_private():
                log.warning("the cache folder %s is not yours alone (mode 0700); not used", self.folder)
                return False
            with open(temporary, "xb") as file:
                file.write(MAGIC + hashlib.sha256(contents).digest() + contents)
            os.replace(temporary, self.folder / (key + SUFFIX))
        except OSError as error:
            log.warning("the cache folder %s cannot be written (%s)", self.folder, error.strerror or error)
            with suppress(OSError):
                temporary.unlink()
            return False
        self._trim()
        return True

    def _is_private(self) -> bool:
        """True for a folder of this user that nobody else can write to."""
        if os.name != "posix":
            return True
        status = os.stat(self.folder)
        return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o022

    def _trim(self) -> None:
        """Removes the least recently used entries beyond the limit, and what killed processes left."""
        entries: list[tuple[float, int, Path]] = []
        with suppress(OSError):
            for item in os.scandir(self.folder):
                with suppress(OSError):
                    status = item.stat()
                    if item.name.endswith(SUFFIX):
                        entries.append((status.st_mtime, status.st_size, Path(item.path)))
                    elif item.name.endswith(".tmp") and time.time() - status.st_mtime > STALE_SECONDS:
                        os.unlink(item.path)
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit_bytes:
                break
            with suppress(OSError):
                path.unlink()
            total -= size


def choose(given: bool | str | os.PathLike[str] | Cache | None) -> Cache | None:
    """The cache that ``create_context(cache=…)`` asks for: None is the default folder, False is none."""
    if isinstance(given, Cache):
        return given
    if given is False:
        return None
    if isinstance(given, (str, os.PathLike)):
        return Cache(Path(given))
    folder = os.environ.get(VARIABLE, "")
    if folder == "off" and given is None:
        return None
    return Cache(Path(folder) if folder not in ("", "off") else platformdirs.user_cache_path("webnn-xla", appauthor=False))


def key(graph: Graph, target: Target, device: jax.Device, *rest: object) -> str:
    """Digest of all that the executable of ``graph`` depends on; ``rest`` has options and how arguments are passed."""
    digest = hashlib.sha256()

    def add(*items: object) -> None:
        digest.update(repr(items).encode())

    numbers: dict[Value, int] = {}

    def number(value: Value) -> int:
        return numbers.setdefault(value, len(numbers))

    add(environment(), device.platform, device.device_kind, device.client.platform_version, device.id, target, rest)
    add(graph.turns, graph.abreast)
    for kind, named in (("input", graph.inputs), ("output", graph.outputs)):
        add(
            kind,
            [(name if kind == "input" else "", number(value), _described(value.descriptor)) for name, value in named.items()],
        )
    for value, constant in graph.constants.items():
        add("constant", number(value), _described(value.descriptor), constant.data is None)
        if constant.data is not None:
            digest.update(np.ascontiguousarray(constant.data).tobytes())
    for node in graph.nodes:
        operands = [
            (name, [number(item) for item in operand] if isinstance(operand, tuple) else number(operand))
            for name, operand in node.operands.items()
        ]
        outputs = [(number(value), _described(value.descriptor)) for value in node.outputs]
        add(node.op.name, operands, list(node.attributes.items()), outputs)
    return digest.hexdigest()


def _described(descriptor: Descriptor) -> str:
    return str(descriptor)


@cache
def environment() -> str:
    """Versions, the sources of this package's compiler, and the processor."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in _sources(here):
        digest.update(path.read_bytes())
    return f"{jax.__version__} {jaxlib.version.__version__} {digest.hexdigest()} {_processor()}"


def _sources(here: Path) -> Iterable[Path]:
    return (
        *sorted((here / "lowering").glob("*.py")),
        *(here / name for name in ("compile.py", "program.py", "preparation.py")),
    )


def _processor() -> str:
    """What the machine code may use. XLA compiles for the processor that it runs on, and for its number of cores."""
    import platform

    flags = ""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {platform.processor()} {hashlib.sha256(flags.encode()).hexdigest()} {devices.cores()}"
