"""Who may import whom, and that lowerings use nothing of JAX but ``lax``: the rules hold, and they can fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINT_IMPORTS = "from importlinter.cli import lint_imports_command as run; run()"


def lint_imports(config: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LINT_IMPORTS, "--no-cache", str(config)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_imports_go_downwards_only() -> None:
    done = lint_imports(ROOT / "pyproject.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (
            ('"lowering",\n    "dtypes",', '"dtypes",\n    "lowering",'),
            "webnn_xla.lowering is not allowed to import webnn_xla.dtypes",
        ),
        (('    "graph",\n', ""), "- webnn_xla.graph"),
    ],
)
def test_the_rule_can_fail(layers: tuple[str, str], words: str, tmp_path: Path) -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert layers[0] in text
    (tmp_path / "pyproject.toml").write_text(text.replace(*layers))
    done = lint_imports(tmp_path / "pyproject.toml")
    assert done.returncode == 1
    assert words in done.stdout


def ruff(code: str, file: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--no-cache", "--stdin-filename", file, "-"]
    return subprocess.run(command, cwd=ROOT, input=code, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "code",
    [
        "import jax.numpy as jnp\n",
        "from jax import numpy\n",
        "from jax.numpy import add\n",
        "import jax\nx = jax.numpy.add\n",
        "from jax import nn\n",
        "import jax\nx = jax.nn.relu\n",
    ],
)
def test_lowerings_may_not_use_jax_numpy(code: str) -> None:
    done = ruff(code, "lowering/probe.py")
    assert done.returncode == 1
    assert "lowering is written with jax.lax only" in done.stdout
    for other in ("tests/probe.py", "examples/probe.py", "notebooks/probe.ipynb.py"):
        assert ruff(code, other).returncode == 0


def test_lowerings_do_not_use_jax_numpy() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--no-cache", "lowering"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
