"""The op table: every WebNN operator, declared once, beside its lowering to ``jax.lax``.

One family of ops a file; ``op.py`` has the vocabulary of a declaration. ``OPS`` maps snake_case names to ops.
"""

if __name__ == "lowering":
    raise ImportError(
        "the folder lowering/ is the package webnn_xla.lowering: write `import webnn_xla.lowering` (`pip install -e .` first)"
    )

from webnn_xla.lowering import (
    activation,
    arithmetic,
    composite,
    convolution,
    elementwise,
    fast_convolution,
    indexing,
    logical,
    matmul,
    movement,
    normalization,
    pooling,
    quantization,
    recurrent_gru,
    recurrent_lstm,
    reduction,
    resampling,
    shaping,
)
from webnn_xla.lowering.op import OPS, Op, Target

__all__ = [
    "OPS",
    "Op",
    "Target",
    "activation",
    "arithmetic",
    "composite",
    "convolution",
    "elementwise",
    "fast_convolution",
    "indexing",
    "logical",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "recurrent_gru",
    "recurrent_lstm",
    "reduction",
    "resampling",
    "shaping",
]
