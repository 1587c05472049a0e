"""Executes the notebooks in this folder: ``python -m notebooks.run [--save] [NAME …]``. An error in a cell fails."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def run(path: Path, *, save: bool = False) -> nbformat.NotebookNode:
    """Executes one notebook from the repository's root; raises CellExecutionError for an error in a cell."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FOLDER.parent)}}).execute()
    if save:
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
        nbformat.write(notebook, path)
    return notebook


def main() -> None:
    """Runs those named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="notebooks to run (default: all)")
    parser.add_argument("--save", action="store_true", help="write the outputs into the files")
    options = parser.parse_args()
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not options.names or path.stem in options.names:
            run(path, save=options.save)
            sys.stdout.write(f"{path.name}: ran\n")


if __name__ == "__main__":
    main()
