"""Oracles in processes of their own: they may crash, hang or be missing without taking this one down.

A worker is a Python module with a function ``serve(request) -> response``; requests and responses are pickled between
parent and child over the child's pipes. A worker that dies or overruns its time is replaced at the next request.
"""

from __future__ import annotations

import importlib
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import IO, Any, Final

from webnn_xla.errors import OperationError

_HEADER: Final = struct.Struct("<Q")


class OracleError(OperationError):
    """An oracle crashed, overran its time, rejected its input, or is not installed. The message says which."""


class Oracle:
    """One worker process that runs ``module``'s ``serve``. Starts on first use; ``close`` or ``with`` ends it."""

    def __init__(self, module: str, *, timeout: float = 60.0) -> None:
        self.module = module
        self.timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def ask(self, request: Any, *, timeout: float | None = None) -> Any:
        """The worker's response. OracleError if it fails, dies or takes longer than ``timeout`` seconds."""
        process = self._process if self._process and self._process.poll() is None else self._start()
        assert process.stdin is not None
        try:
            _write(process.stdin, pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL))
            kind, value = pickle.loads(self._read(process, timeout or self.timeout))
        except (BrokenPipeError, EOFError):
            process.wait()
            raise OracleError(f"{self._name} crashed ({self._cause(process)})", operator=self._name) from None
        if kind == "error":
            raise OracleError(value, operator=self._name)
        return value

    def close(self) -> None:
        """Ends the worker."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._errors):
                if stream is not None:
                    stream.close()
            self._process = None

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _name(self) -> str:
        return self.module.rpartition(".")[2]

    def _start(self) -> subprocess.Popen[bytes]:
        self.close()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the worker)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "webnn_xla.conformance.oracle", self.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        return self._process

    def _read(self, process: subprocess.Popen[bytes], timeout: float) -> bytes:
        assert process.stdout is not None
        deadline = time.monotonic() + timeout
        stream = process.stdout.fileno()

        def take(count: int) -> bytes:
            chunks = []
            while count:
                ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
                if not ready:
                    self.close()
                    raise OracleError(f"{self._name} took longer than {timeout:g} s", operator=self._name)
                # Unbuffered: select sees what read leaves.
                chunk = process.stdout.raw.read(count) if hasattr(process.stdout, "raw") else process.stdout.read(count)  # type: ignore[union-attr]
                if not chunk:
                    raise EOFError
                chunks.append(chunk)
                count -= len(chunk)
            return b"".join(chunks)

        return take(_HEADER.unpack(take(_HEADER.size))[0])

    def _cause(self, process: subprocess.Popen[bytes]) -> str:
        code = process.returncode
        cause = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        last = ""
        if self._errors is not None:
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            last = lines[-1] if lines else ""
        return f"{cause}: {last}" if last else cause


def _write(stream: IO[bytes], payload: bytes) -> None:
    stream.write(_HEADER.pack(len(payload)) + payload)
    stream.flush()


def main() -> None:
    """The child: serves requests until its input ends."""
    # Responses have the real standard output to themselves: what a library prints, from C++ too, goes to standard error.
    output, source = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer
    os.dup2(2, 1)
    try:
        serve = importlib.import_module(sys.argv[1]).serve
        failure = ""
    except ImportError as error:
        failure = f"not installed: {error}"
    while header := source.read(_HEADER.size):
        request = pickle.loads(source.read(_HEADER.unpack(header)[0]))
        if failure:
            response = ("error", failure)
        else:
            try:
                response = ("ok", serve(request))
            except Exception as error:
                response = ("error", f"{type(error).__name__}: {error}")
        _write(output, pickle.dumps(response, protocol=pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main()
