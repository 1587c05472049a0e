"""The usual normalizations, as one call of ``mean_variance_normalization`` each.

They show that layer, instance, batch and group normalization are one operation that differs in which dimensions it takes the
mean and variance over, and whether these are given. Inputs have the layout [batch, channels, ...] and any rank:

| | mean and variance | shape of scale and bias |
|-|-|-|
| layer | over all dimensions from ``first_axis`` on | input.shape[first_axis:] |
| instance | over all dimensions after the channels | [channels] |
| batch | given, or over all dimensions but ``feature_axis`` | [input.shape[feature_axis]] |
| group | over the channels of a group and what follows them | [channels] or [groups] |

Errors: ArgumentError for wrong shapes, and axes or groups out of range.
"""

from __future__ import annotations

from collections.abc import Sequence

from webnn_xla.builder import MLGraphBuilder, MLOperand
from webnn_xla.errors import ArgumentError


def layer_normalization(
    builder: MLGraphBuilder,
    input: MLOperand,
    scale: MLOperand | None = None,
    bias: MLOperand | None = None,
    *,
    first_axis: int = 1,
    epsilon: float = 1e-5,
    label: str = "",
) -> MLOperand:
    """Normalizes over all dimensions from ``first_axis`` on."""
    axes = list(range(first_axis, input.rank))
    affine = _spread(builder, "layer_normalization", label, input.shape, axes, scale=scale, bias=bias)
    return builder.mean_variance_normalization(input, **affine, axes=axes, epsilon=epsilon, label=label)


def instance_normalization(
    builder: MLGraphBuilder,
    input: MLOperand,
    scale: MLOperand | None = None,
    bias: MLOperand | None = None,
    *,
    epsilon: float = 1e-5,
    label: str = "",
) -> MLOperand:
    """Normalizes every channel of every element of the batch by itself."""
    affine = _spread(builder, "instance_normalization", label, input.shape, [1], scale=scale, bias=bias)
    return builder.mean_variance_normalization(input, **affine, axes=range(2, input.rank), epsilon=epsilon, label=label)


def batch_normalization(
    builder: MLGraphBuilder,
    input: MLOperand,
    mean: MLOperand | None = None,
    variance: MLOperand | None = None,
    scale: MLOperand | None = None,
    bias: MLOperand | None = None,
    *,
    feature_axis: int = 1,
    epsilon: float = 1e-5,
    label: str = "",
) -> MLOperand:
    """Normalizes every feature by the mean and variance given, or else by its own over the whole batch."""
    operands = {"mean": mean, "variance": variance, "scale": scale, "bias": bias}
    spread = _spread(builder, "batch_normalization", label, input.shape, [feature_axis], **operands)
    axes = [axis for axis in range(input.rank) if axis != feature_axis]
    return builder.mean_variance_normalization(input, **spread, axes=axes, epsilon=epsilon, label=label)


def group_normalization(
    builder: MLGraphBuilder,
    input: MLOperand,
    scale: MLOperand | None = None,
    bias: MLOperand | None = None,
    *,
    groups: int,
    epsilon: float = 1e-5,
    label: str = "",
) -> MLOperand:
    """Normalizes every group of channels of every element of the batch by itself.

    ``groups`` must divide the channels. Scale and bias have one number a channel, or one a group.
    """
    if input.rank < 2 or groups < 1 or input.shape[1] % groups:
        raise ArgumentError(
            f"got {groups}; allowed: a number that divides the channels of shape {list(input.shape)}",
            operator="group_normalization",
            operand="groups",
            label=label,
        )
    channels, spatial = input.shape[1], input.shape[2:]
    grouped = [input.shape[0], groups, channels // groups, *spatial]
    affine: dict[str, MLOperand | None] = {}
    for name, operand in (("scale", scale), ("bias", bias)):
        if operand is None or operand.shape == [groups]:
            affine |= _spread(builder, "group_normalization", label, grouped, [1], **{name: operand})
        else:
            checked = _spread(builder, "group_normalization", label, input.shape, [1], **{name: operand})[name]
            affine[name] = checked and builder.reshape(checked, [1, *grouped[1:3], *(1 for _ in spatial)])
    normalized = builder.mean_variance_normalization(
        builder.reshape(input, grouped), **affine, axes=range(2, len(grouped)), epsilon=epsilon, label=label
    )
    return builder.reshape(normalized, input.shape)


def _spread(
    builder: MLGraphBuilder, operator: str, label: str, shape: Sequence[int], axes: Sequence[int], **operands: MLOperand | None
) -> dict[str, MLOperand | None]:
    """The operands, whose shape is that of ``axes`` in ``shape``, with 1 in all other dimensions, so that they broadcast."""
    outside = [axis for axis in axes if not 0 <= axis < len(shape)]
    if outside:
        raise ArgumentError(
            f"got {outside[0]}; allowed: 0 to {len(shape) - 1}, as the input has rank {len(shape)}",
            operator=operator,
            operand="axis",
            label=label,
        )
    wanted = [shape[axis] for axis in axes]
    spread: dict[str, MLOperand | None] = {}
    for name, operand in operands.items():
        if operand is not None and operand.shape != wanted:
            got = f"got shape {list(operand.shape)}; allowed: shape {wanted}"
            raise ArgumentError(got, operator=operator, operand=name, label=label)
        kept = [size if axis in axes else 1 for axis, size in enumerate(shape)]
        spread[name] = None if operand is None else builder.reshape(operand, kept)
    return spread
