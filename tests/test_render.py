"""Graphs as SVG and text: whatever the names are, with Graphviz and without."""

from __future__ import annotations

import shutil
from typing import Any
from xml.dom import minidom

import graphviz
import numpy as np
import pytest

import webnn_xla as webnn
from webnn_xla import render
from webnn_xla.graph import Graph

NASTY = '<b>&"x\\n\\l{|}\u202e\n\ud800\0</b>'


@pytest.fixture
def graph(builder: webnn.MLGraphBuilder) -> Graph:
    x = builder.input(NASTY, [2, 3], "float32")
    weight = builder.constant(np.ones((2, 3), np.float32), name="<weight>")
    total = builder.add(x, weight, label=NASTY)
    clamped = builder.clamp(total * 2.5, min_value=float("-inf"))
    first, second = builder.split(clamped, [1, 1])
    return builder._graph({"<<TABLE>": first, "y": builder.concat([second, second], 1), NASTY: builder.neg(clamped)})


@pytest.fixture(params=["dot", "plain"])
def drawing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Graphviz's program if it is there, and without."""
    if request.param == "dot" and shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed")
    if request.param == "plain":

        def missing(*_: Any, **__: Any) -> None:
            raise graphviz.ExecutableNotFound(["dot"])

        monkeypatch.setattr(graphviz.Digraph, "pipe", missing)


def texts(svg: str) -> list[str]:
    return [node.firstChild.data for node in minidom.parseString(svg).getElementsByTagName("text")]


@pytest.mark.usefixtures("drawing")
def test_operations_labels_and_shapes_are_shown(graph: Graph) -> None:
    shown = texts(render.svg(graph))
    for text in ("add", "mul", "clamp", "split", "concat", "neg", "b: <weight> float32[2, 3]", "b: 2.5 float32[]", "<<TABLE>"):
        assert text in shown
    assert shown.count("float32[2, 3]") == 2  # the input, and one output
    assert "→ float32[1, 3], float32[1, 3]" in shown
    escaped = '<b>&"x\\n\\l{|}\\u202e\\n\\ud800\\x00</b>'
    assert shown.count(escaped) == 3  # input, label, output


@pytest.mark.usefixtures("drawing")
def test_large_graphs_are_summarised(builder: webnn.MLGraphBuilder) -> None:
    values = [builder.input(f"x{i}", [2], "float32") for i in range(30)]
    while len(values) < 400:
        values.append(builder.add(values[-1], values[-30]))
    shown = texts(render.svg(builder._graph({"y": values[-1]})))
    assert "370 operations" in shown
    assert "370 × add" in shown
    assert "… 10 more" in shown
    assert len(shown) < 60


def test_boxes_of_the_plain_layout_do_not_overlap(graph: Graph) -> None:
    places = render._layout(render._boxes(graph))
    for index, a in enumerate(places):
        assert a.x > 0
        assert a.y > 0
        for b in places[:index]:
            assert a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y


def test_notebooks_get_it(context: webnn.MLContext) -> None:
    builder = webnn.MLGraphBuilder(context)
    built = builder.build({"y": builder.neg(builder.input("x", [2], "float32"))})
    assert "<svg" in (built._repr_svg_() or "")


def test_text(graph: Graph) -> None:
    lines = render.summary(graph)
    assert lines[0] == "1 inputs, 2 constants, 6 operations, 3 outputs"
    assert "  <weight>  float32[2, 3]  24 bytes" in lines
    assert "  %2  2.5 float32[]  4 bytes" in lines
    assert "  clamp input=%4 min_value=-inf → %5 float32[2, 3]" in lines
    assert "  split input=%5 splits=[1, 1] axis=0 → %6 float32[1, 3], %7 float32[1, 3]" in lines
    assert "  concat inputs=[%7, %7] axis=1 → %8 float32[1, 6]" in lines
    assert all(line.isprintable() for line in lines)
