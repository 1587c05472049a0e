"""Compiler options of tests that are about meaning, where compiling takes the time. Others compile as for users."""

from webnn_xla.conformance.onnx_nodes import QUICK

__all__ = ["QUICK"]
