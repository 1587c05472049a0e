"""Comparison against others' truth: WPT vectors, reference interpreters, other runtimes."""

if __name__ == "conformance":
    raise ImportError(
        "the folder conformance/ is the package webnn_xla.conformance: write `import webnn_xla.conformance` "
        "(`pip install -e .` first)"
    )
