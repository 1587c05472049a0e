"""The compilation cache: hits and misses, and that nothing on the disk can make a build wrong or fail."""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webnn_xla as webnn
from webnn_xla.cache import SUFFIX, Cache, choose

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def build(folder: Path, *, factor: float = 2.0, size: int = 3, limit: int = 2**30, **options: Any) -> webnn.MLGraph:
    context = webnn.ML().create_context(device_type="cpu")
    context.cache = Cache(folder, worth_seconds=0, limit_bytes=limit)
    builder = webnn.MLGraphBuilder(context)
    x = builder.input("x", [2, size], "float32")
    w = builder.constant({"data_type": "float32", "shape": [size]}, name="w")
    graph = builder.build({"y": builder.softmax(x * factor + w, 1)}, **options)
    graph.load_weights({"w": np.zeros(size, np.float32)})
    return graph


def check(graph: webnn.MLGraph, factor: float = 2.0) -> None:
    e = np.exp(X * factor - (X * factor).max(1, keepdims=True))
    np.testing.assert_allclose(graph.compute({"x": X})["y"], e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    os.chmod(tmp_path / "cache", 0o700) if (tmp_path / "cache").exists() else None


def test_the_second_build_is_a_hit(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "webnn_xla"):
        first, second = build(folder), build(folder)
    assert (first.cache_hit, second.cache_hit) == (False, True)
    assert [record.getMessage().split()[-1] for record in caplog.records] == ["miss", "hit"]
    assert second.build_seconds["compile"] == 0
    for graph in (first, second):
        check(graph)
    assert second.cost().flops == first.cost().flops
    assert "stablehlo" in second.stablehlo()
    assert oct(folder.stat().st_mode & 0o777) == "0o700"


def test_other_literals_shapes_and_options_are_other_entries(folder: Path) -> None:
    build(folder)
    assert not build(folder, factor=3.0).cache_hit
    assert not build(folder, size=4).cache_hit
    assert not build(folder, optimize=False).cache_hit
    check(build(folder, factor=3.0), 3.0)
    assert len(list(folder.iterdir())) == 4


@pytest.mark.parametrize(
    "damage", [b"", b"webnn-xla 1\n", lambda raw: raw[:-10], lambda raw: raw[:60] + bytes([raw[60] ^ 1]) + raw[61:]]
)
def test_a_damaged_entry_is_compiled_again(folder: Path, damage: Any, caplog: pytest.LogCaptureFixture) -> None:
    build(folder)
    (entry,) = folder.iterdir()
    entry.write_bytes(damage(entry.read_bytes()) if callable(damage) else damage)
    graph = build(folder)
    assert not graph.cache_hit
    assert "damaged" in caplog.text
    check(graph)
    assert build(folder).cache_hit


def test_an_entry_that_is_whole_but_no_executable_is_compiled_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    build(folder)
    (entry,) = folder.iterdir()
    Cache(folder).store(entry.name.removesuffix(SUFFIX), b"nothing of use")
    graph = build(folder)
    assert not graph.cache_hit
    assert "damaged" in caplog.text
    check(graph)


def test_a_folder_that_others_can_write_to_is_not_read(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    build(folder)
    folder.chmod(0o777)
    assert not build(folder).cache_hit
    assert "0700" in caplog.text


def test_a_folder_that_cannot_be_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    check(build(blocked / "cache"))
    assert "cannot be written" in caplog.text


def test_a_full_disk(folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    check(build(folder))
    assert "No space left" in caplog.text
    assert list(folder.iterdir()) == []


def test_the_least_recently_used_entries_go_first(folder: Path) -> None:
    cache = Cache(folder, limit_bytes=3500)
    for index in range(3):
        assert cache.store(f"entry{index}", bytes(1000))
        os.utime(folder / f"entry{index}{SUFFIX}", (index, index))
    assert cache.load("entry0", bytes) is not None
    cache.store("entry3", bytes(1000))
    assert cache.load("entry1", bytes) is None
    assert all(cache.load(f"entry{index}", bytes) is not None for index in (0, 2, 3))


def test_half_written_files_of_killed_processes_go(folder: Path) -> None:
    cache = Cache(folder)
    cache.store("a", b"1")
    old, new = folder / "b.0.tmp", folder / "c.0.tmp"
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    cache.store("d", b"2")
    assert not old.exists()
    assert new.exists()


def _store(folder: str, count: int) -> None:
    cache = Cache(Path(folder), limit_bytes=50_000)
    for index in range(count):
        cache.store(f"entry{index % 7}", bytes([index % 7]) * 10_000)
        found = cache.load(f"entry{(index + 3) % 7}", bytes)
        assert found is None or found == bytes([(index + 3) % 7]) * 10_000


def test_threads_and_processes_at_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_store, args=(str(folder), 100))
    process.start()
    threads = [threading.Thread(target=_store, args=(str(folder), 100)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    process.join()
    assert process.exitcode == 0
    assert "damaged" not in caplog.text


def test_choice_of_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert choose(None) is None, "tests run with WEBNN_XLA_CACHE=off"
    assert choose(False) is None
    monkeypatch.setenv("WEBNN_XLA_CACHE", str(tmp_path))
    found = choose(None)
    assert found is not None
    assert found.folder == tmp_path
    monkeypatch.delenv("WEBNN_XLA_CACHE")
    standard = choose(True)
    assert standard is not None
    assert standard.folder.name == "webnn-xla"
    given = choose(tmp_path / "own")
    assert given is not None
    assert given.folder.name == "own"
