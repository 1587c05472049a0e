"""Compiler options of tests that are about meaning, where compiling takes the time. Others compile as for users."""

QUICK = {"xla_backend_optimization_level": 0}
