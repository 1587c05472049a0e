"""Options of the command line that name arrays and sizes; .npy and .npz files. Nothing in a file is run.

NumPy's format has no bfloat16, int4 and uint4: such arrays are stored as raw bytes (dtype ``V2``, ``V1``), and
``array.view(ml_dtypes.bfloat16)`` gives them back.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from webnn_xla.dtypes import Descriptor, MLOperandDataType
from webnn_xla.errors import ArgumentError, DataError, printable

Array = np.ndarray[Any, Any]


def read_inputs(options: Sequence[str], wanted: Mapping[str, Descriptor]) -> dict[str, Array]:
    """The arrays that ``--input`` options name: ``NAME=FILE.npy``, ``NAME=FILE.npz``, or ``FILE.npz``.

    Errors: ArgumentError for an unknown or repeated name; DataError for a file that cannot be read.
    """
    arrays: dict[str, Array] = {}
    for option in options:
        # Names may contain "=" as well, so the split is where the left side is an input.
        splits = [(option[:i], option[i + 1 :]) for i, character in enumerate(option) if character == "="]
        name, file = next(((name, file) for name, file in splits if name in wanted), ("", option))
        if not name and not (option.endswith(".npz") and (not splits or Path(option).exists())):
            raise ArgumentError(
                f"got {printable(option)}; allowed: NAME=FILE.npy, NAME one of {_names(wanted)}; or FILE.npz",
                operator="run",
                operand="--input",
            )
        read = _read(Path(file))
        if name:
            if name not in read and len(read) != 1:
                raise DataError(
                    f"has no array {printable(name)!r}; there are {_names(read)}", operator="run", operand=_shown(file)
                )
            read = {name: read[name] if name in read else next(iter(read.values()))}
        for key, array in read.items():
            if key not in wanted or key in arrays:
                what = "an unknown name" if key not in wanted else "a second array for"
                raise ArgumentError(
                    f"got {what} {printable(key)!r}; allowed: {_names(wanted)}", operator="run", operand="--input"
                )
            arrays[key] = _typed(array, wanted[key].data_type)
    return arrays


def random_inputs(wanted: Mapping[str, Descriptor], seed: int) -> dict[str, Array]:
    """Normal floats, and integers from 0 to 9 (to 1 for uint8, which is also boolean), the same for the same seed."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for name, descriptor in wanted.items():
        kind = descriptor.data_type
        if kind.is_float:
            numbers: Array = np.asarray(rng.standard_normal(descriptor.shape, np.float32))
        else:
            high = 1 if kind is MLOperandDataType.UINT8 else min(9, kind.integer_range[1])
            numbers = np.asarray(rng.integers(0, high, descriptor.shape, np.int8, endpoint=True))
        arrays[name] = numbers.astype(kind.numpy)
    return arrays


def sizes(options: Sequence[str] | None) -> dict[str, int]:
    """The sizes that ``--dim NAME=SIZE`` options give to free dimensions."""
    found: dict[str, int] = {}
    for option in options or ():
        name, equals, size = option.rpartition("=")
        if not equals or not name or not size.isdigit():
            raise ArgumentError(f"got {printable(option)}; allowed: NAME=SIZE", operand="--dim")
        found[name] = int(size)
    return found


def numbers(options: Sequence[str] | None) -> dict[str, float]:
    """The numbers that ``--value NAME=NUMBER`` options fix inputs to."""
    found: dict[str, float] = {}
    for option in options or ():
        name, equals, text = option.rpartition("=")
        try:
            number = float(text)
        except ValueError:
            number, equals = 0.0, ""
        if not equals or not name:
            raise ArgumentError(f"got {printable(option)}; allowed: NAME=NUMBER", operand="--value")
        found[name] = int(number) if number.is_integer() else number
    return found


def write_outputs(path: Path, arrays: Mapping[str, Array]) -> dict[str, Path]:
    """Writes ``path/NAME.npy`` for each array, or all into ``path`` if it ends in .npz; where each is now.

    Characters of names that files should not have are written as ``%XX``. Errors: ArgumentError if a file cannot be written.
    """
    try:
        if path.suffix == ".npz":
            with zipfile.ZipFile(path, "w") as archive:
                for name, array in arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                        np.lib.format.write_array(file, array, allow_pickle=False)
            return dict.fromkeys(arrays, path)
        path.mkdir(parents=True, exist_ok=True)
        written = {}
        for name, array in arrays.items():
            written[name] = path / f"{_file_name(name)}.npy"
            np.save(written[name], array, allow_pickle=False)
        return written
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ArgumentError(f"cannot be written: {reason}", operator="run", operand=_shown(path)) from None


def describe(name: str, array: Array, path: Path | None = None) -> str:
    """One line on an array: its name, type, shape, range, and where it was written."""
    kind = MLOperandDataType.of(array.dtype)
    parts = [f"{printable(name)}: {Descriptor(kind, array.shape)}"]
    numbers = array.astype(np.float64) if kind.is_float else array.astype(kind.carrier)
    finite = numbers[np.isfinite(numbers)]
    if finite.size:
        parts.append(
            f"min {finite.min():.6g} max {finite.max():.6g}" if kind.is_float else f"min {finite.min()} max {finite.max()}"
        )
        if kind.is_float:
            parts.append(f"mean {finite.mean():.6g}")
    if finite.size < numbers.size:
        parts.append(f"not finite {numbers.size - finite.size}")
    if path is not None:
        parts.append(f"→ {path}")
    return "  ".join(parts)


def _read(path: Path) -> dict[str, Array]:
    """All arrays of a .npz file by name, or the one of a .npy file under an empty name."""
    try:
        if not path.is_file():
            raise DataError("no such file", operator="run", operand=_shown(path))
        with path.open("rb") as file:
            magic = file.read(6)
            file.seek(0)
            if magic.startswith(b"PK"):
                return dict(np.load(file, allow_pickle=False))
        if magic != b"\x93NUMPY":
            raise DataError("is not a .npy or .npz file", operator="run", operand=_shown(path))
        # Memory mapping refuses shapes that the file is too short for before anything is allocated.
        return {"": np.load(path, mmap_mode="r", allow_pickle=False)}
    except (OSError, ValueError, EOFError, MemoryError, OverflowError, KeyError, zipfile.BadZipFile) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise DataError(f"cannot be read: {reason or type(error).__name__}", operator="run", operand=_shown(path)) from None


def _typed(array: Array, kind: MLOperandDataType) -> Array:
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize == kind.numpy.itemsize:
        return np.ascontiguousarray(array).view(kind.numpy).reshape(array.shape)
    native = array.dtype.newbyteorder("=")
    return array if array.dtype == native else array.astype(native)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w .,+-]|^\.", lambda found: quote(found[0], safe="", errors="surrogatepass").replace(".", "%2E"), name)


def _names(named: Mapping[str, Any]) -> str:
    return ", ".join(map(printable, named)) or "none"


def _shown(path: Path | str) -> str:
    return printable(str(path), 1000)
