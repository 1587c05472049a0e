"""StableHLO's own test data through XLA, so that an upgrade of jaxlib is known to be safe.

    webnn-xla conformance stablehlo-testdata DIRECTORY

The files are those of ``stablehlo/testdata`` in a checkout of openxla/stablehlo: modules whose ``main`` calls ``inputs`` and
``expected``, computes, and compares with custom calls ``check.expect_close``, ``check.expect_almost_eq`` and
``check.expect_eq``. XLA has no such custom calls: ``main`` is changed to return what they compare. Cases with dynamic shapes
or quantized types, and files that only test serialization, are skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from jax.extend import backend
from jax.interpreters import mlir
from jaxlib import xla_client
from jaxlib.mlir import ir

from webnn_xla.errors import DataError

Array = np.ndarray[Any, Any]

CLOSE: Final = {2: 1e-2, 4: 1e-4, 8: 1e-9}
"""Relative and absolute tolerance of ``expect_close``, by bytes of the (real) element: results of another machine."""

_TENSOR: Final = r"(tensor<[^<>]*(?:<[^<>]*>)?[^<>]*>)"
_CHECK: Final = re.compile(
    r"^\s*(?:stablehlo\.custom_call @check\.|check\.)(expect_\w+)\s*\(?\s*(%[\w#]+), (%[\w#]+)\)?.*?"
    rf":\s*\(?{_TENSOR}, {_TENSOR}\)?.*$",
    re.M,
)


@dataclass
class TestdataReport:
    """Files that passed, failed (with the reason) and were skipped (with the reason)."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": "webnn-xla-testdata-report/1",
            "passed": len(self.passed),
            "failed": self.failed,
            "skipped": self.skipped,
        }

    def __str__(self) -> str:
        why = ", ".join(f"{reason}: {count}" for reason, count in Counter(self.skipped.values()).most_common())
        skipped = f"{len(self.skipped)} skipped" + (f" ({why})" if why else "")
        return f"{len(self.passed)} passed, {len(self.failed)} failed, {skipped}"


def run(directory: Path, progress: Callable[[str, int, int], None] | None = None) -> TestdataReport:
    """Runs all ``*.mlir`` files below ``directory`` (a checkout, or the folder itself). DataError if there are none."""
    directory = Path(directory)
    inner = directory / "stablehlo" / "testdata"
    root = inner if inner.is_dir() else directory
    files = sorted(root.rglob("*.mlir"))
    if not files:
        raise DataError(f"{directory}: there are no .mlir files here or in stablehlo/testdata")
    report = TestdataReport()
    for index, path in enumerate(files):
        name = path.relative_to(root).as_posix()
        if progress:
            progress(path.stem, index, len(files))
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
            reason = skip_reason(text)
            if reason:
                report.skipped[name] = reason
                continue
            problem = run_case(text)
        except Exception as error:  # whatever it is, it is a failure of this file and not the end of the run
            problem = f"{type(error).__name__}: {error}"
        if problem:
            report.failed[name] = problem[:500]
        else:
            report.passed.append(name)
    return report


def skip_reason(text: str) -> str:
    """Why a file is not a static case; empty if it is one."""
    if "@check.expect_" not in text and "check.expect_" not in text:
        return "compares nothing"
    if "!quant." in text:
        return "quantized types"
    if re.search(r"tensor<[^>]*\?", text) or "stablehlo.dynamic_reshape" in text:
        return "dynamic shapes"
    return ""


def run_case(text: str) -> str:
    """What differs, in words; empty if nothing does."""
    with mlir.make_ir_context():
        printed = str(ir.Module.parse(text))
    changed, checks = returning(printed)
    with jax.enable_x64(True):
        client = backend.get_backend("cpu")
        devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
        executable = client.compile_and_load(changed, devices, xla_client.CompileOptions())
        results = [np.asarray(array[0]) for array in executable.execute_sharded([]).disassemble_into_single_device_arrays()]
    for index, kind in enumerate(checks):
        problem = compare(kind, results[2 * index], results[2 * index + 1])
        if problem:
            return problem
    return ""


def returning(text: str) -> tuple[str, list[str]]:
    """The module with ``main`` returning the pairs that its checks compare, and the checks' kinds. DataError if it has none."""
    start = re.search(r"func\.func (?:public )?@main\(.*?\)(?: -> .*?)?(?: attributes \{.*?\})? \{\n", text)
    if start is None:
        raise DataError("there is no @main")
    end = text.index("\n  }", start.end())
    body = text[start.end() : end]
    checks = _CHECK.findall(body)
    if not checks:
        raise DataError("there is no check in @main")
    values = [value for check in checks for value in check[1:3]]
    types = [kind for check in checks for kind in check[3:5]]
    body = re.sub(r"^\s*(?:func\.)?return\b.*$", "", _CHECK.sub("", body), flags=re.M)
    body += f"\n    return {', '.join(values)} : {', '.join(types)}"
    head = f"func.func public @main() -> ({', '.join(types)}) {{\n"
    return text[: start.start()] + head + body + text[end:], [check[0] for check in checks]


def compare(kind: str, got: Array, want: Array) -> str:
    """Compares as the check of that name does."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"got {got.dtype}{list(got.shape)}, wanted {want.dtype}{list(want.shape)}"
    if kind == "expect_eq" or got.dtype.kind in "biu" or got.dtype.itemsize == 1:
        equal = got == want
        if got.dtype.kind not in "biu":
            equal |= (got != got) & (want != want)
    else:
        real = np.empty(0, got.dtype).real.dtype.itemsize
        tolerance = 1e-4 if kind == "expect_almost_eq" else CLOSE[real]
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        equal = np.isclose(got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True)
    if equal.all():
        return ""
    index = tuple(int(i) for i in np.argwhere(~equal)[0])
    counted = f"{int((~equal).sum())} of {got.size} elements differ"
    return f"{kind}: {counted}; element {list(index)}: got {got[index]!r}, wanted {want[index]!r}"
