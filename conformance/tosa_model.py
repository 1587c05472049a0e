"""Worker: runs a TOSA flatbuffer in the TOSA reference model of ``tosa-tools``.

The model ends the process on unpredictable behaviour (INTDIV by zero, GATHER out of bounds), hence ``oracle``.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import tosa_reference_model

Array = np.ndarray[Any, Any]


def serve(request: tuple[bytes, list[Array], list[str], bool]) -> list[Array]:
    """``(flatbuffer, arguments, result dtypes, precise)`` → results. ``precise``: floats are computed in float64."""
    flatbuffer, arguments, dtypes, precise = request
    results, status = tosa_reference_model.run(
        flatbuffer, [_to_model(argument) for argument in arguments], precise_mode=int(precise)
    )
    if status != tosa_reference_model.GraphStatus.TOSA_VALID:
        raise RuntimeError(f"the reference model says {status.name}")
    return [_from_model(result, np.dtype(getattr(ml_dtypes, name, name))) for result, name in zip(results, dtypes, strict=True)]


def _to_model(array: Array) -> Array:
    if array.dtype == ml_dtypes.bfloat16:
        return array.view(np.uint16)
    if array.dtype in (ml_dtypes.int4, ml_dtypes.uint4):
        return array.astype(np.int8)
    return array.view(f"i{array.dtype.itemsize}") if array.dtype.kind == "u" else array


def _from_model(array: Array, dtype: np.dtype[Any]) -> Array:
    if dtype == ml_dtypes.bfloat16:
        return array.view(ml_dtypes.bfloat16)
    return array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array.astype(dtype)
