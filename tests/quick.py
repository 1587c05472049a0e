"""Compiler options of tests that are about meaning, where compiling takes the time. Others compile as for users."""

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""A quarter of the time: without LLVM's optimizations, and with XLA's older code generator."""
