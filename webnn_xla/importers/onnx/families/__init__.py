"""Handlers of ONNX operators, by family. Importing this fills the table."""

from importlib import import_module

FAMILIES = (
    "activation",
    "attention",
    "bitwise",
    "contrib",
    "control",
    "convolution",
    "elementwise",
    "image",
    "indexing",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "sequence",
    "signal",
    "sorting",
)

for _name in FAMILIES:
    import_module(f"{__name__}.{_name}")
