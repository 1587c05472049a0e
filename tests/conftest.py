"""Fixtures of all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import webnn_xla as webnn

# Tests leave nothing in the user's cache folder.
os.environ["WEBNN_XLA_CACHE"] = "off"


@pytest.fixture(scope="session")
def context() -> Iterator[webnn.MLContext]:
    """One context on the CPU for all tests that only compute."""
    with webnn.ML().create_context(device_type="cpu") as made:
        yield made


@pytest.fixture
def builder(context: webnn.MLContext) -> webnn.MLGraphBuilder:
    return webnn.MLGraphBuilder(context)
