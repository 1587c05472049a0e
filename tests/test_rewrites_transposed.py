"""Transposed convolution by phases: where it happens, where it must not, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Comparison, assert_not_fired, random

import webnn_xla as webnn

RULE = "transposed_as_subpixel"
LAYOUTS = ["iohw", "hwoi", "ohwi"]


def transposed(
    b: Any,
    *,
    batch: int = 2,
    channels: int = 3,
    out: int = 4,
    image: tuple[int, int] = (5, 6),
    size: tuple[int, int] = (4, 4),
    layout: str = "nhwc",
    filter_layout: str = "iohw",
    data_type: str = "float32",
    groups: int = 1,
    bias: bool = True,
    constant: bool = True,
    **options: Any,
) -> dict[str, Any]:
    by_letter = {"n": batch, "c": channels, "h": image[0], "w": image[1]}
    taps = {"i": channels, "o": out, "h": size[0], "w": size[1]}
    shape = [taps[letter] for letter in filter_layout]
    return {
        "y": b.conv_transpose2d(
            b.input("x", [by_letter[letter] for letter in layout], data_type),
            b.constant(random(*shape, data_type=data_type)) if constant else b.input("w", shape, data_type),
            bias=b.constant(random(out * groups, data_type=data_type)) if bias else None,
            input_layout=layout, filter_layout=filter_layout, groups=groups, **{"strides": [2, 2], **options},
        )
    }  # fmt: skip


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("filter_layout", LAYOUTS)
@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((2, 2), {}),
        ((4, 4), {"padding": [1, 1, 1, 1]}),
        ((6, 3), {"strides": [3, 3], "padding": [1, 0, 0, 1], "output_padding": [1, 2]}),
        ((4, 3), {"strides": [2, 3], "padding": [2, 1, 0, 2]}),
        ((3, 2), {"strides": [1, 2]}),
        ((2, 4), {"output_sizes": [11, 15]}),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_phases(
    context: webnn.MLContext, layout: str, filter_layout: str, size: tuple[int, int], options: dict[str, Any], bias: bool
) -> None:
    c = Comparison(
        context, lambda b: transposed(b, size=size, layout=layout, filter_layout=filter_layout, bias=bias, **options), RULE
    )
    assert c.fired == [RULE]
    assert "conv2d" in c.ops
    assert "conv_transpose2d" not in c.ops
    c.check()


def test_float16(context: webnn.MLContext) -> None:
    c = Comparison(context, lambda b: transposed(b, data_type="float16"), RULE)
    assert c.fired == [RULE]
    c.check(ulps=4)


def test_infinite_inputs_stay_where_they_are(context: webnn.MLContext) -> None:
    x = random(1, 5, 6, 3)
    x[0, 2, 3, 1] = np.inf
    for size in (2, 3, 4):
        c = Comparison(context, lambda b, size=size: transposed(b, batch=1, size=(size, size)), RULE)
        got, want = (graph.compute({"x": x})["y"] for graph in (c.rewritten, c.written))
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


@pytest.mark.parametrize(
    "options",
    [
        {"strides": [1, 1]},
        {"groups": 3, "out": 2},
        {"dilations": [2, 1]},
        {"dilations": [1, 2]},
        {"size": (1, 4)},
        {"size": (4, 3)},
        {"constant": False},
        {"size": (2, 2), "padding": [2, 0, 0, 0]},
        {"size": (2, 2), "padding": [0, 4, 0, 0]},
    ],
)
def test_others_stay(context: webnn.MLContext, options: dict[str, Any]) -> None:
    assert_not_fired(context, lambda b: transposed(b, **options), RULE)


def test_side_by_side_is_a_product(context: webnn.MLContext) -> None:
    make = lambda b: transposed(b, batch=1, size=(2, 2), layout="nchw", channels=8)  # noqa: E731
    c = Comparison(context, make, "channels_last", RULE, "pointwise_as_matmul")
    assert "matmul" in c.ops
    assert "conv2d" not in c.ops
    c.check()


def test_with_the_layout(context: webnn.MLContext) -> None:
    c = Comparison(context, lambda b: transposed(b, layout="nchw", channels=8), "channels_last", RULE)
    assert set(c.fired) == {"channels_last", RULE}
    c.check()


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_geometry(context: webnn.MLContext, data: st.DataObject) -> None:
    def pair(low: int, high: int) -> tuple[int, int]:
        return data.draw(st.integers(low, high)), data.draw(st.integers(low, high))

    strides, image = pair(1, 4), pair(1, 5)
    size = tuple(step * data.draw(st.integers(1, 3)) for step in strides)
    spread = [(count - 1) * step + taps for count, step, taps in zip(image, strides, size, strict=True)]
    padding = [0, 0, 0, 0]
    for axis in range(2):
        before = data.draw(st.integers(0, min(spread[axis] - 1, size[axis] - 1)))
        after = data.draw(st.integers(0, min(spread[axis] - 1 - before, size[axis] - 1)))
        padding[2 * axis : 2 * axis + 2] = before, after
    extra = [data.draw(st.integers(0, step - 1)) for step in strides]
    layout = data.draw(st.sampled_from(["nchw", "nhwc"]))
    Comparison(
        context,
        lambda b: transposed(
            b, image=image, size=size, layout=layout, strides=list(strides), padding=padding, output_padding=extra
        ),
        RULE,
    ).check()
