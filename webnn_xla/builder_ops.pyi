# Written by `python -m webnn_xla.codegen` from the op table: change that, not this file.
import inspect
from collections.abc import Sequence
from typing import Any, Literal

from webnn_xla.builder import MLOperand
from webnn_xla.dtypes import DataTypeLike
from webnn_xla.lowering.op import Op

SPEC_URL: str

def signature(op: type[Op]) -> inspect.Signature: ...
def docstring(op: type[Op]) -> str: ...

class OpMethods:
    def _emit(self, op: type[Op], operands: dict[str, Any], attributes: dict[str, Any], label: Any) -> Any: ...
    def elu(self, input: MLOperand, *, alpha: float = 1.0, label: str = "") -> MLOperand:
        """Exponential linear unit: ``max(0, x) + alpha * (exp(min(0, x)) - 1)``."""
    def gelu(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Gaussian error linear unit: ``0.5 * x * (1 + erf(x / sqrt(2)))``.

        The error is a few ulp of ``x``; for numbers below -1 that is more than a few ulp of the result. Of -infinity it is
        NaN, as the expression says.
        """
    def hard_sigmoid(self, input: MLOperand, *, alpha: float = 0.2, beta: float = 0.5, label: str = "") -> MLOperand:
        """``max(0, min(1, alpha * x + beta))``."""
    def hard_swish(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``x * max(0, min(6, x + 3)) / 6``. Of -infinity it is NaN, as the expression says."""
    def leaky_relu(self, input: MLOperand, *, alpha: float = 0.01, label: str = "") -> MLOperand:
        """``x`` where it is not negative, else ``alpha * x``."""
    def linear(self, input: MLOperand, *, alpha: float = 1.0, beta: float = 0.0, label: str = "") -> MLOperand:
        """``alpha * x + beta``."""
    def prelu(self, input: MLOperand, slope: MLOperand, *, label: str = "") -> MLOperand:
        """``x`` where it is not negative, else ``slope * x``, the two broadcast. Integers wrap."""
    def relu(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``max(0, x)``. NaN stays NaN."""
    def sigmoid(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Logistic function, ``1 / (exp(-x) + 1)``."""
    def softplus(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``log(1 + exp(x))``. For large x it is x, not infinity."""
    def softsign(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """``x / (1 + abs(x))``. Of infinities it is NaN, as the expression says."""
    def tanh(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Hyperbolic tangent."""
    def softmax(self, input: MLOperand, axis: int, *, label: str = "") -> MLOperand:
        """``exp(x - max) / sum(exp(x - max))`` along ``axis``. All -infinity, any +infinity and any NaN give NaN there."""
    def add(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Sum of two tensors. Integers wrap."""
    def sub(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Difference of two tensors. Integers wrap."""
    def mul(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Product of two tensors. Integers wrap."""
    def div(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Quotient. Integers truncate toward zero; x / 0 is -1 (unsigned: the largest value), MIN / -1 is MIN."""
    def max(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Greater of two tensors. NaN in either gives NaN; max(-0, 0) is 0."""
    def min(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Lesser of two tensors. NaN in either gives NaN; min(-0, 0) is -0."""
    def pow(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """``a`` to the power ``b``. Integers wrap; to a negative power they are 0, 1 or -1."""
    def abs(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Absolute value. Of the smallest integer it is that integer."""
    def neg(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Negation. Of the smallest integer it is that integer."""
    def sign(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """-1, 0 or 1. NaN stays NaN, and zeros keep their sign."""
    def ceil(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Smallest integer not below."""
    def floor(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Largest integer not above."""
    def round_even(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Nearest integer, halves to the even one."""
    def cos(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Cosine of radians."""
    def sin(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Sine of radians."""
    def tan(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Tangent of radians."""
    def erf(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Gauss error function."""
    def exp(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """e to the power of the value."""
    def log(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Natural logarithm. Of 0 it is -infinity, of negative numbers NaN."""
    def reciprocal(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """1 / x. Of zeros it is an infinity of the same sign."""
    def sqrt(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """Square root. Of negative numbers it is NaN; of -0 it is -0."""
    def identity(self, input: MLOperand, *, label: str = "") -> MLOperand:
        """The input, unchanged. The only way to make an input or a constant an output."""
    def matmul(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """Matrix product of the last two dimensions; the others broadcast.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-matmul.
        """
    def gemm(
        self,
        a: MLOperand,
        b: MLOperand,
        *,
        c: MLOperand | None = None,
        alpha: float = 1.0,
        beta: float = 1.0,
        a_transpose: bool = False,
        b_transpose: bool = False,
        label: str = "",
    ) -> MLOperand:
        """General matrix multiplication: ``alpha * a @ b + beta * c``.

        ``alpha`` and ``beta`` are cast to the data type of ``a`` first. Source:
        https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gemm.
        """
    def conv2d(
        self,
        input: MLOperand,
        filter: MLOperand,
        *,
        padding: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        groups: int = 1,
        input_layout: Literal["nchw", "nhwc"] = "nchw",
        bias: MLOperand | None = None,
        filter_layout: Literal["oihw", "hwio", "ohwi", "ihwo"] = "oihw",
        label: str = "",
    ) -> MLOperand:
        """2-D convolution: each output is the sum of products of the filter and the window of the input under it.

        Output size of an axis: floor((input + padding - (filter - 1) * dilation - 1) / stride) + 1.
        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-conv2d.
        """
    def conv_transpose2d(
        self,
        input: MLOperand,
        filter: MLOperand,
        *,
        padding: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        groups: int = 1,
        input_layout: Literal["nchw", "nhwc"] = "nchw",
        bias: MLOperand | None = None,
        filter_layout: Literal["iohw", "hwoi", "ohwi"] = "iohw",
        output_padding: Sequence[int] | None = None,
        output_sizes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """2-D transposed convolution: each input spreads over a window of the output, weighted by the filter; overlaps add.

        Output size of an axis: (input - 1) * stride + (filter - 1) * dilation + 1 - padding + output_padding. Padding crops
        the output, output_padding uncrops its end: what spreads there is in it, the rest is 0 (plus the bias).
        Input channels that groups do not divide pass the checks of the specification, but have no meaning: building the graph
        fails with OperationError.
        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-convtranspose2d.
        """
    def cast(self, input: MLOperand, data_type: DataTypeLike, *, label: str = "") -> MLOperand:
        """Converts to another data type.

        Float to integer truncates toward zero, saturates, and turns NaN into 0. Integer to integer wraps. To a narrower
        float it rounds to the nearest, ties to even. Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-cast, which
        leaves out-of-range conversions to implementations.
        """
    def clamp(
        self,
        input: MLOperand,
        *,
        min_value: int | float | None = None,
        max_value: int | float | None = None,
        label: str = "",
    ) -> MLOperand:
        """Limits values to ``min_value`` … ``max_value``. Bounds are cast to the input's type; NaN inputs stay NaN.

        Bounds may be infinite. One that is NaN is rejected: the specification lets it pass, with no meaning that backends
        share. Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-clamp.
        """
    def where(self, condition: MLOperand, true_value: MLOperand, false_value: MLOperand, *, label: str = "") -> MLOperand:
        """``true_value`` where ``condition`` is not 0, else ``false_value``, all three broadcast.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-where.
        """
    def elementwise_if(
        self,
        condition: MLOperand,
        true_value: MLOperand,
        false_value: MLOperand,
        *,
        label: str = "",
    ) -> MLOperand:
        """The name that ``where`` had when it was proposed."""
    def gather(self, input: MLOperand, indices: MLOperand, *, axis: int = 0, label: str = "") -> MLOperand:
        """Slices of the input at ``indices`` along ``axis``: the shape of the indices takes the place of that dimension.

        Negative indices count from the end, then all are clamped to the dimension.
        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gather.
        """
    def gather_elements(self, input: MLOperand, indices: MLOperand, *, axis: int = 0, label: str = "") -> MLOperand:
        """Elements of the input at ``indices`` along ``axis``, and at the position of the index along all other dimensions.

        Negative indices count from the end, then all are clamped to the dimension.
        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gatherelements.
        """
    def gather_nd(self, input: MLOperand, indices: MLOperand, *, label: str = "") -> MLOperand:
        """Elements of the input, or slices of its trailing dimensions, at the coordinates in the last dimension of ``indices``.

        Negative indices count from the end, then all are clamped to their dimension.
        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gathernd.
        """
    def scatter_elements(
        self,
        input: MLOperand,
        indices: MLOperand,
        updates: MLOperand,
        *,
        axis: int = 0,
        label: str = "",
    ) -> MLOperand:
        """A copy of the input with ``updates`` in place of the elements at ``indices`` along ``axis``.

        Negative indices count from the end, then all are clamped. Where indices repeat, the element is one of the updates.
        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-scatterelements.
        """
    def scatter_nd(self, input: MLOperand, indices: MLOperand, updates: MLOperand, *, label: str = "") -> MLOperand:
        """A copy of the input with ``updates`` in place of elements or slices, at the coordinates in ``indices``.

        Negative indices count from the end, then all are clamped. Where coordinates repeat, the element is one of the updates.
        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-scatternd.
        """
    def triangular(self, input: MLOperand, *, upper: bool = True, diagonal: int = 0, label: str = "") -> MLOperand:
        """The upper or lower triangle of each matrix in the last two dimensions; the rest is 0.

        Upper keeps column - row >= diagonal, lower keeps column - row <= diagonal.
        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-triangular.
        """
    def triangular_matrix(self, input: MLOperand, *, upper: bool = True, diagonal: int = 0, label: str = "") -> MLOperand:
        """The name that ``triangular`` had when it was proposed."""
    def equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """1 where ``a == b``, else 0. NaN equals nothing."""
    def not_equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """1 where ``a != b``, else 0. NaN differs from everything."""
    def greater(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """1 where ``a > b``, else 0. Comparison with NaN is 0."""
    def greater_or_equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """1 where ``a >= b``, else 0. Comparison with NaN is 0."""
    def lesser(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """1 where ``a < b``, else 0. Comparison with NaN is 0."""
    def lesser_or_equal(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """1 where ``a <= b``, else 0. Comparison with NaN is 0."""
    def logical_and(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """1 where both are not 0, else 0: any value but 0 is true."""
    def logical_or(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """1 where either is not 0, else 0: any value but 0 is true."""
    def logical_xor(self, a: MLOperand, b: MLOperand, *, label: str = "") -> MLOperand:
        """1 where exactly one is not 0, else 0: any value but 0 is true."""
    def logical_not(self, a: MLOperand, *, label: str = "") -> MLOperand:
        """1 where the value is 0, else 0."""
    def is_nan(self, a: MLOperand, *, label: str = "") -> MLOperand:
        """1 where the value is NaN, else 0. Integers, which the table of limits allows, never are."""
    def is_infinite(self, a: MLOperand, *, label: str = "") -> MLOperand:
        """1 where the value is an infinity of either sign, else 0. Integers, which the limits allow, never are."""
    def concat(self, inputs: Sequence[MLOperand], axis: int, *, label: str = "") -> MLOperand:
        """Joins tensors along ``axis``; all other dimensions are equal.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-concat.
        """
    def expand(self, input: MLOperand, new_shape: Sequence[int], *, label: str = "") -> MLOperand:
        """Broadcasts to ``new_shape``: dimensions of size 1 repeat, and leading dimensions are added.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-expand.
        """
    def pad(
        self,
        input: MLOperand,
        beginning_padding: Sequence[int],
        ending_padding: Sequence[int],
        *,
        mode: Literal["constant", "edge", "reflection"] = "constant",
        value: int | float = 0,
        label: str = "",
    ) -> MLOperand:
        """Adds elements before and after each dimension: a ``value``, the nearest edge, or the reflection about the edge.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pad.
        """
    def reshape(self, input: MLOperand, new_shape: Sequence[int], *, label: str = "") -> MLOperand:
        """The same elements, in row-major order, in another shape.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reshape-method.
        """
    def reverse(self, input: MLOperand, *, axes: Sequence[int] | None = None, label: str = "") -> MLOperand:
        """Reverses the order of the elements along ``axes``.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reverse-method.
        """
    def slice(
        self,
        input: MLOperand,
        starts: Sequence[int],
        sizes: Sequence[int],
        *,
        strides: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """A window of the input: from ``starts``, ``sizes`` elements of each dimension, of which every stride-th is taken.

        An output dimension is ceil(size / stride). Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-slice.
        """
    def split(self, input: MLOperand, splits: int | Sequence[int], *, axis: int = 0, label: str = "") -> list[MLOperand]:
        """Parts of the input along ``axis``: ``splits`` equal ones, or one of each size in ``splits``. Returns a list.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-split.
        """
    def tile(self, input: MLOperand, repetitions: Sequence[int], *, label: str = "") -> MLOperand:
        """Repeats the whole input along each dimension.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-tile.
        """
    def transpose(self, input: MLOperand, *, permutation: Sequence[int] | None = None, label: str = "") -> MLOperand:
        """Permutes the dimensions: output dimension i is input dimension ``permutation[i]``.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-transpose.
        """
    def batch_normalization(
        self,
        input: MLOperand,
        mean: MLOperand,
        variance: MLOperand,
        *,
        scale: MLOperand | None = None,
        bias: MLOperand | None = None,
        axis: int = 1,
        epsilon: float = 1e-05,
        label: str = "",
    ) -> MLOperand:
        """``(input - mean) / sqrt(variance + epsilon) * scale + bias``, with one number of each for every index along ``axis``.

        The shape of ``mean``, ``variance``, ``scale`` and ``bias`` is [input.shape[axis]].
        """
    def instance_normalization(
        self,
        input: MLOperand,
        *,
        scale: MLOperand | None = None,
        bias: MLOperand | None = None,
        epsilon: float = 1e-05,
        layout: Literal["nchw", "nhwc"] = "nchw",
        label: str = "",
    ) -> MLOperand:
        """Normalizes every channel of every image over its height and width, then multiplies by ``scale`` and adds ``bias``.

        The shape of ``scale`` and ``bias`` is [channels].
        """
    def layer_normalization(
        self,
        input: MLOperand,
        *,
        scale: MLOperand | None = None,
        bias: MLOperand | None = None,
        axes: Sequence[int] | None = None,
        epsilon: float = 1e-05,
        label: str = "",
    ) -> MLOperand:
        """Normalizes over ``axes``, then multiplies by ``scale`` and adds ``bias``, whose dimension i belongs to ``axes[i]``.

        Over no axes, which is the default for scalars and vectors, every element is its own mean: the result is the bias, or 0.
        """
    def mean_variance_normalization(
        self,
        input: MLOperand,
        *,
        mean: MLOperand | None = None,
        variance: MLOperand | None = None,
        scale: MLOperand | None = None,
        bias: MLOperand | None = None,
        epsilon: float = 1e-05,
        axes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """``(input - mean) / sqrt(variance + epsilon) * scale + bias``, what all other normalizations are made of.

        A mean or variance that is left out is taken over ``axes`` of the input; the variance is that of the input less the mean,
        given or not. Operands broadcast to the input's shape, dimensions aligned at the last. Over no axes every element is
        its own mean. ``webnn_xla.normalizations`` has layer, instance, batch and group normalization in terms of it.
        """
    def average_pool2d(
        self,
        input: MLOperand,
        *,
        window_dimensions: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        layout: Literal["nchw", "nhwc"] = "nchw",
        output_shape_rounding: Literal["floor", "ceil"] = "floor",
        output_sizes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """Mean of each window. Padding is not counted: of ones it is one everywhere; 0 where a window is all padding.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pool2d-average.
        """
    def l2_pool2d(
        self,
        input: MLOperand,
        *,
        window_dimensions: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        layout: Literal["nchw", "nhwc"] = "nchw",
        output_shape_rounding: Literal["floor", "ceil"] = "floor",
        output_sizes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """Square root of the sum of squares of each window. 0 where a window is all padding.

        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pool2d-l2.
        """
    def max_pool2d(
        self,
        input: MLOperand,
        *,
        window_dimensions: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        layout: Literal["nchw", "nhwc"] = "nchw",
        output_shape_rounding: Literal["floor", "ceil"] = "floor",
        output_sizes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """Greatest value of each window. NaN in a window gives NaN; max(-0, 0) is 0.

        Where a window is all padding it is -infinity, or the smallest integer.
        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pool2d-max.
        """
    def quantize_linear(self, input: MLOperand, scale: MLOperand, zero_point: MLOperand, *, label: str = "") -> MLOperand:
        """``clamp(round_even(input / scale) + zero_point)`` to the range of the zero point's type, in which the result is.

        The quotient is that of float32. Halves round to the even number, before the zero point is added. Infinities saturate; NaN
        gives 0, as in cast.
        """
    def dequantize_linear(self, input: MLOperand, scale: MLOperand, zero_point: MLOperand, *, label: str = "") -> MLOperand:
        """``(input - zero_point) * scale``, in the type of ``scale``."""
    def gru_cell(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        hidden_state: MLOperand,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        reset_after: bool = True,
        layout: Literal["zrn", "rzn"] = "zrn",
        activations: Sequence[Literal["relu", "sigmoid", "tanh"]] | None = None,
        label: str = "",
    ) -> MLOperand:
        """One step of a gated recurrent unit: ``z * h + (1 - z) * n``."""
    def gru(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        steps: int,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        initial_hidden_state: MLOperand | None = None,
        reset_after: bool = True,
        return_sequence: bool = False,
        direction: Literal["forward", "backward", "both"] = "forward",
        layout: Literal["zrn", "rzn"] = "zrn",
        activations: Sequence[Literal["relu", "sigmoid", "tanh"]] | None = None,
        label: str = "",
    ) -> list[MLOperand]:
        """Gated recurrent units over time.

        Returns the state after the last step, and with ``return_sequence`` the states after all steps, in the order of time
        also for a backward network, whose last step is the first in time.
        """
    def lstm_cell(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        hidden_state: MLOperand,
        cell_state: MLOperand,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        peephole_weight: MLOperand | None = None,
        layout: Literal["iofg", "ifgo"] = "iofg",
        activations: Sequence[Literal["relu", "sigmoid", "tanh"]] | None = None,
        label: str = "",
    ) -> list[MLOperand]:
        """One step of long short-term memory: ``c = f * c + i * g`` and ``h = o * tanh(c)``. Returns h and c."""
    def lstm(
        self,
        input: MLOperand,
        weight: MLOperand,
        recurrent_weight: MLOperand,
        steps: int,
        hidden_size: int,
        *,
        bias: MLOperand | None = None,
        recurrent_bias: MLOperand | None = None,
        peephole_weight: MLOperand | None = None,
        initial_hidden_state: MLOperand | None = None,
        initial_cell_state: MLOperand | None = None,
        return_sequence: bool = False,
        direction: Literal["forward", "backward", "both"] = "forward",
        layout: Literal["iofg", "ifgo"] = "iofg",
        activations: Sequence[Literal["relu", "sigmoid", "tanh"]] | None = None,
        label: str = "",
    ) -> list[MLOperand]:
        """Long short-term memory over time.

        Returns the hidden and the cell state after the last step, and with ``return_sequence`` the hidden states after all
        steps, in the order of time also for a backward network, whose last step is the first in time.
        """
    def reduce_l1(
        self,
        input: MLOperand,
        *,
        axes: Sequence[int] | None = None,
        keep_dimensions: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Sum of the magnitudes."""
    def reduce_l2(
        self,
        input: MLOperand,
        *,
        axes: Sequence[int] | None = None,
        keep_dimensions: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Square root of the sum of squares. The squares of float16 values are float32: [200] * 4 gives 400."""
    def reduce_log_sum(
        self,
        input: MLOperand,
        *,
        axes: Sequence[int] | None = None,
        keep_dimensions: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Natural logarithm of the sum. Of a sum of 0 it is -infinity, of a negative one NaN."""
    def reduce_log_sum_exp(
        self,
        input: MLOperand,
        *,
        axes: Sequence[int] | None = None,
        keep_dimensions: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Natural logarithm of the sum of exponentials, exact in range: of [1000, 1000] it is 1000.6931.

        Where all values are -infinity it is -infinity.
        """
    def reduce_max(
        self,
        input: MLOperand,
        *,
        axes: Sequence[int] | None = None,
        keep_dimensions: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Greatest value."""
    def reduce_mean(
        self,
        input: MLOperand,
        *,
        axes: Sequence[int] | None = None,
        keep_dimensions: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Average."""
    def reduce_min(
        self,
        input: MLOperand,
        *,
        axes: Sequence[int] | None = None,
        keep_dimensions: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Least value."""
    def reduce_product(
        self,
        input: MLOperand,
        *,
        axes: Sequence[int] | None = None,
        keep_dimensions: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Product of all values. Integers wrap."""
    def reduce_sum(
        self,
        input: MLOperand,
        *,
        axes: Sequence[int] | None = None,
        keep_dimensions: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Sum. Integers wrap."""
    def reduce_sum_square(
        self,
        input: MLOperand,
        *,
        axes: Sequence[int] | None = None,
        keep_dimensions: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Sum of squares. Integers wrap."""
    def arg_min(
        self,
        input: MLOperand,
        axis: int,
        *,
        keep_dimensions: bool = False,
        output_data_type: DataTypeLike = "int32",
        select_last_index: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Position of the least value along ``axis``: of equal ones the first. NaN counts as the least."""
    def arg_max(
        self,
        input: MLOperand,
        axis: int,
        *,
        keep_dimensions: bool = False,
        output_data_type: DataTypeLike = "int32",
        select_last_index: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Position of the greatest value along ``axis``: of equal ones the first. NaN counts as the greatest."""
    def cumulative_sum(
        self,
        input: MLOperand,
        axis: int,
        *,
        exclusive: bool = False,
        reversed: bool = False,
        label: str = "",
    ) -> MLOperand:
        """Sum of all elements along ``axis`` up to each one. Integers wrap.

        Of [1, 2, 3, 4] it is [1, 3, 6, 10]; exclusive [0, 1, 3, 6]; reversed [10, 9, 7, 4]; both [9, 7, 4, 0].
        """
    def resample2d(
        self,
        input: MLOperand,
        *,
        mode: Literal["nearest-neighbor", "linear"] = "nearest-neighbor",
        scales: Sequence[float] | None = None,
        sizes: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        label: str = "",
    ) -> MLOperand:
        """Resizes two axes, without antialiasing: each output takes the nearest input, or interpolates its two neighbours.

        An output lies at (position + 0.5) * input size / output size - 0.5, clamped to the input. Half-way between two inputs,
        the nearest is the one before. Linear results of integers are exact, rounded half to even; a neighbour whose weight
        is 0 still counts where it is infinite or NaN. An axis whose size stays is not touched.
        Source: https://www.w3.org/TR/webnn/#api-mlgraphbuilder-resample2d-method.
        """
    def squeeze(self, input: MLOperand, *, axes: Sequence[int] | None = None, label: str = "") -> MLOperand:
        """Removes dimensions of size 1: those in ``axes``, or all of them.

        Source: https://github.com/webmachinelearning/webnn/issues/375.
        """
    def unsqueeze(self, input: MLOperand, axes: Sequence[int], *, label: str = "") -> MLOperand:
        """Inserts dimensions of size 1, which are ``axes`` of the output.

        Source: https://github.com/webmachinelearning/webnn/issues/375.
        """
    def flatten_to_2d(self, input: MLOperand, axis: int, *, label: str = "") -> MLOperand:
        """Flattens the dimensions before ``axis`` into one, and the others into a second.

        Source: https://github.com/webmachinelearning/webnn/issues/375.
        """
    def fill_sequence(
        self,
        data_type: DataTypeLike,
        shape: Sequence[int],
        start: int | float,
        step: int | float,
        *,
        label: str = "",
    ) -> MLOperand:
        """A tensor of ``start + index * step``, the index counting its elements in row-major order.

        Integers are exact; floats are computed in float64 and rounded once. With a step of 0 the tensor is filled with
        ``start``, cast as a scalar constant is, and only then may ``start`` be infinite or NaN. Otherwise every element must
        be a number of the data type: integer types take whole numbers only, and nothing may overflow.
        Source: https://github.com/webmachinelearning/webnn/issues/492.
        """
