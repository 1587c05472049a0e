"""Compiler options of tests that are about meaning, where compiling takes the time. Others compile as for users."""

from webnn_xla.conformance import onnx_nodes

QUICK = {**onnx_nodes.QUICK, "xla_cpu_use_fusion_emitters": False}
"""With XLA's older code generator as well, which takes half the time. ONNX's node tests use the one that users get."""
