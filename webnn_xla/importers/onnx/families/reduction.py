"""Reductions, arg-min/max and cumulative operators."""

from __future__ import annotations

from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import INT64, is_signed
from webnn_xla.importers.onnx.values import Tensor

_METHODS = {
    "ReduceSum": "reduce_sum",
    "ReduceMean": "reduce_mean",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_product",
    "ReduceL1": "reduce_l1",
    "ReduceL2": "reduce_l2",
    "ReduceLogSum": "reduce_log_sum",
    "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceSumSquare": "reduce_sum_square",
}


@onnx_op(*_METHODS)
def reduce(n: Node) -> Tensor:
    x = n[0]
    method = _METHODS[n.op]
    axes = n.ints_of("axes", 1, 13 if n.op == "ReduceSum" else 18)
    keep = bool(n.attr("keepdims", 1))
    if not axes:
        if n.attr("noop_with_empty_axes", 0):
            # Nothing is summed, but the function still applies to each element.
            return n.call(method, x, axes=[], keep_dimensions=keep)
        axes = list(range(x.rank))
    chosen = n.axes(axes, x.rank)
    if method == "reduce_l1" and not is_signed(x.dtype):
        method = "reduce_sum"
    return n.call(method, x, axes=chosen, keep_dimensions=keep)


@onnx_op("ArgMax", "ArgMin")
def arg(n: Node) -> Tensor:
    x = n[0]
    axis, keep = n.axis(n.attr("axis", 0), x.rank), bool(n.attr("keepdims", 1))
    method = "arg_max" if n.op == "ArgMax" else "arg_min"
    if not n.attr("select_last_index", 0):
        return n.call(method, x, axis, keep_dimensions=keep, output_data_type="int64")
    found = n.call(method, n.reverse(x, axes=[axis]), axis, keep_dimensions=keep, output_data_type="int64")
    return n.sub(n.const(x.shape[axis] - 1, INT64), found)


@onnx_op("CumSum", since=11)
def cumulative_sum(n: Node) -> Tensor:
    x = n[0]
    axis = n.axis(n.known_int(1, "the axis"), x.rank)
    return n.cumulative_sum(x, axis, exclusive=bool(n.attr("exclusive", 0)), reversed=bool(n.attr("reverse", 0)))


@onnx_op("CumProd", since=26)
def cumulative_product(n: Node) -> Tensor:
    x = n[0]
    axis = n.axis(n.known_int(1, "the axis"), x.rank)
    backward, size = bool(n.attr("reverse", 0)), x.shape[axis]

    def shifted(y: Tensor, by: int) -> Tensor:
        """``y`` moved along the axis, ones moving in."""
        kept = n.cut(y, axis, by if backward else 0, size - by)
        before, after = [0] * x.rank, [0] * x.rank
        (after if backward else before)[axis] = by
        return n.pad(kept, before, after, value=1)

    y, reach = x, 1
    while reach < size:
        y = n.mul(y, shifted(y, reach))
        reach *= 2
    if n.attr("exclusive", 0):
        y = shifted(y, 1) if size > 1 else n.broadcast(n.const(1, x), x.shape)
    return y
