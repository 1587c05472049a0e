"""Worker: runs a TOSA flatbuffer in the TOSA reference model of ``tosa-tools``.

The model ends the process on unpredictable behaviour (INTDIV by zero, GATHER out of bounds), hence ``oracle``.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import tosa_reference_model
from tosa.TosaGraph import TosaGraph

from webnn_xla.tosa import find_tool

Array = np.ndarray[Any, Any]

MAX_RANK = 6
"""Of TOSA's tensors; those of more dimensions travel flat, as the exporter has them."""


def serve(request: tuple[bytes, list[Array], list[str], bool]) -> list[Array]:
    """``(flatbuffer, arguments, result dtypes, precise)`` → results. ``precise``: floats are computed in float64.

    Arguments of rank 7 and more are made flat; such results stay flat.
    """
    flatbuffer, arguments, dtypes, precise = request
    run = _precise if precise else _plain
    results = run(flatbuffer, [_to_model(argument) for argument in arguments])
    return [_from_model(result, np.dtype(getattr(ml_dtypes, name, name))) for result, name in zip(results, dtypes, strict=True)]


def _plain(flatbuffer: bytes, arguments: list[Array]) -> list[Array]:
    results, status = tosa_reference_model.run(flatbuffer, arguments)
    if status != tosa_reference_model.GraphStatus.TOSA_VALID:
        raise RuntimeError(f"the reference model says {status.name}")
    return list(results)


def _precise(flatbuffer: bytes, arguments: list[Array]) -> list[Array]:
    """Through the program: the Python function returns empty arrays in this mode."""
    block = TosaGraph.GetRootAs(flatbuffer).Regions(0).Blocks(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "graph.tosa").write_bytes(flatbuffer)
        for index, argument in enumerate(arguments):
            # Here bfloat16 goes by that name, and not as its bits.
            named = argument.view(ml_dtypes.bfloat16) if argument.dtype == np.uint16 else argument
            np.save(path / f"in{index}.npy", np.ascontiguousarray(named))
        outputs = [f"out{index}.npy" for index in range(block.OutputsLength())]
        description = {
            "tosa_file": "graph.tosa",
            "ifm_name": [block.Inputs(index).decode() for index in range(block.InputsLength())],
            "ifm_file": [f"in{index}.npy" for index in range(len(arguments))],
            "ofm_name": [block.Outputs(index).decode() for index in range(block.OutputsLength())],
            "ofm_file": outputs,
            "expected_return_code": 0,
        }
        (path / "desc.json").write_text(json.dumps(description))
        command = [find_tool("tosa_reference_model"), f"--test_desc={path / 'desc.json'}", "-p", "1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
        if done.returncode:
            lines = (done.stderr + done.stdout).strip().splitlines()
            raise RuntimeError(f"the reference model ended with status {done.returncode}: {' '.join(lines[:2])[:500]}")
        return [np.load(path / name) for name in outputs]


def _to_model(array: Array) -> Array:
    if array.ndim > MAX_RANK:
        array = array.reshape(-1)
    if array.dtype == ml_dtypes.bfloat16:
        return array.view(np.uint16)
    if array.dtype in (ml_dtypes.int4, ml_dtypes.uint4):
        return array.astype(np.int8)
    return array.view(f"i{array.dtype.itemsize}") if array.dtype.kind == "u" else array


def _from_model(array: Array, dtype: np.dtype[Any]) -> Array:
    if dtype == ml_dtypes.bfloat16 and array.dtype.itemsize == 2:
        return array.view(ml_dtypes.bfloat16)
    return array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array.astype(dtype)
