"""Comparison of numbers: by value, type and shape; in ulp where it matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from webnn_xla.dtypes import MLOperandDataType

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """The worst element of a comparison: flat index, what was got and wanted, and how far apart in ``unit``."""

    index: int
    got: Any
    want: Any
    distance: float
    unit: str = "ulp"

    def __str__(self) -> str:
        return f"element {self.index}: got {self.got!r}, wanted {self.want!r}, distance {self.distance:g} {self.unit}"


def ulp_size(values: Array, data_type: MLOperandDataType) -> Array:
    """The distance between neighbouring numbers of ``data_type`` at each of ``values`` (float64)."""
    info = ml_dtypes.finfo(data_type.numpy)
    magnitude = np.clip(np.abs(values), float(info.smallest_normal), float(info.max))
    return np.asarray(2.0 ** np.floor(np.log2(magnitude)) * float(info.eps))


def ulp_distances(got: Array, want: Array, data_type: MLOperandDataType, scale: Array | None = None) -> Array:
    """How far ``got`` (of ``data_type``) is from ``want`` (float64, or exact integers), element by element.

    Floats: in ulp at ``want``, or at ``scale`` where that is larger. NaN equals NaN; an infinity equals itself and what
    rounds to it; results below the smallest normal number count as equal to zero (backends may flush them).
    Integers: the plain difference.
    """
    if data_type.is_integer:
        differences = [abs(int(a) - int(b)) for a, b in zip(got.flat, want.flat, strict=True)]
        return np.array(differences, np.float64).reshape(got.shape)
    with np.errstate(all="ignore"):
        exact = np.asarray(want, np.float64)
        rounded = exact.astype(data_type.numpy).astype(np.float64)
        wide = np.asarray(got).astype(np.float64)
        unit = ulp_size(np.where(np.isfinite(exact), exact, 0), data_type)
        if scale is not None:
            unit = np.maximum(unit, ulp_size(np.where(np.isfinite(scale), scale, 0), data_type))
        distance = np.abs(wide - exact) / unit
        tiny = float(ml_dtypes.finfo(data_type.numpy).smallest_normal)
        same = (wide == rounded) | (np.isnan(wide) & np.isnan(exact)) | ((np.abs(exact) < tiny) & (np.abs(wide) <= tiny))
        return np.where(same, 0.0, np.where(np.isfinite(distance), distance, np.inf))


def worst(got: Array, want: Array, data_type: MLOperandDataType, scale: Array | None = None) -> Difference | None:
    """The element that is furthest off, or None if all are equal."""
    distances = ulp_distances(got, want, data_type, scale).reshape(-1)
    if not distances.size or not distances.max() > 0:
        return None
    index = int(distances.argmax())
    return Difference(index, got.reshape(-1)[index], np.asarray(want).reshape(-1)[index], float(distances[index]))
