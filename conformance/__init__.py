"""Comparison against others' truth: WPT vectors, reference interpreters, other runtimes."""

if __name__ == "conformance":
    raise ImportError(
        "the folder conformance/ is the package webnn_xla.conformance: write `import webnn_xla.conformance` "
        "(`pip install -e .` first)"
    )

from typing import Any

__all__ = ["interpret"]


def __getattr__(name: str) -> Any:
    # Imported on use: the command line's start should not pay for what it does not run.
    if name == "interpret":
        from webnn_xla.conformance.interpreter import interpret

        return interpret
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
