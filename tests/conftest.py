"""Fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import webnn_xla as webnn


@pytest.fixture(scope="session")
def context() -> Iterator[webnn.MLContext]:
    """One context on the CPU for all tests that only compute."""
    with webnn.ML().create_context(device_type="cpu") as made:
        yield made


@pytest.fixture
def builder(context: webnn.MLContext) -> webnn.MLGraphBuilder:
    return webnn.MLGraphBuilder(context)
