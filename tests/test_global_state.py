"""JAX's configuration and the environment stay as they were, whatever this package does, in either 64-bit mode.

Each check runs in a process of its own: JAX's configuration is read from the environment when it is imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import os, threading, warnings
warnings.simplefilter("error")
import jax
import numpy as np
BIG = 2**32 + 5

def state():
    # Whether a context manager is left open shows in the thread's own value as well.
    values = {name: getattr(jax.config, name, None) for name in jax.config.values}
    return dict(jax.config.values), values, jax.numpy.arange(1).dtype, dict(os.environ), warnings.filters[:]

before = state()
x64 = jax.config.jax_enable_x64
assert x64 == (os.environ.get("JAX_ENABLE_X64") == "1")
import webnn_xla as webnn
context = webnn.ML().create_context(device_type="cpu")
assert state() == before, "import or create_context"

def graph_of(function, data_type="int64", **options):
    builder = webnn.MLGraphBuilder(context)
    graph = builder.build({"y": function(builder, builder.input("x", [2], data_type))}, **options)
    assert state() == before, "build"
    return graph
"""

CHECKS = {
    "compute is exact": """
        graph = graph_of(lambda b, x: b.add(x, b.constant("int64", BIG)))
        y = graph.compute({"x": np.array([BIG, 2**53 + 1])})["y"]
        assert (y.dtype, y.tolist()) == (np.int64, [2 * BIG, 2**53 + 1 + BIG])
        graph = graph_of(lambda b, x: b.identity(x), "uint64")
        assert graph.compute({"x": [2**64 - 1, BIG]})["y"].tolist() == [2**64 - 1, BIG]
    """,
    "constants are exact": """
        graph = graph_of(lambda b, x: b.add(x, b.constant({"data_type": "int64", "shape": [2]}, [2**53 + 1, BIG])))
        assert graph.compute({"x": [0, 0]})["y"].tolist() == [2**53 + 1, BIG]
        big = np.full(4096, 2**53 + 1)
        builder = webnn.MLGraphBuilder(context)
        x = builder.input("x", [], "int64")
        graph = builder.build({"y": builder.add(x, builder.constant(big))})
        assert (graph.compute({"x": BIG})["y"] == 2**53 + 1 + BIG).all()
    """,
    "dispatch and tensors are exact": """
        graph = graph_of(lambda b, x: b.add(x, x))
        x = context.create_tensor([2], "int64", readable=True, writable=True)
        y = context.create_tensor([2], "int64", readable=True)
        context.write_tensor(x, np.array([BIG, -BIG]))
        context.dispatch(graph, {"x": x}, {"y": y})
        context.dispatch(graph, {"x": y}, {"y": x})
        assert context.read_tensor(x).tolist() == [4 * BIG, -4 * BIG]
        assert context.read_tensor_async(y).result(timeout=60).tolist() == [2 * BIG, -2 * BIG]
        assert y.array.dtype == np.int64
        unwritten = context.create_tensor([2], "uint64", readable=True)
        assert context.read_tensor(unwritten).dtype == np.uint64
    """,
    "executables take int64 arrays of JAX outside of x64": """
        graph = graph_of(lambda b, x: b.add(x, x))
        with jax.enable_x64(True):
            array = jax.device_put(np.array([BIG, 1]))
        assert state() == before
        for enabled in (False, True, None):
            if enabled is None:
                y = graph(x=array)["y"]
            else:
                with jax.enable_x64(enabled):
                    y = graph(x=array)["y"]
            assert (y.dtype, np.asarray(y).tolist()) == (np.int64, [2 * BIG, 2])
        assert graph.compute({"x": array})["y"].tolist() == [2 * BIG, 2]
        assert np.asarray(graph(x=np.array([BIG, 1]))["y"]).tolist() == [2 * BIG, 2]
    """,
    "float64 of the user stays as it is": """
        graph = graph_of(lambda b, x: b.mul(x, x), "float32")
        seen = jax.jit(lambda x: x * 2)(np.float64(1)).dtype
        graph.compute({"x": [1, 2]})
        assert seen == jax.jit(lambda x: x * 2)(np.float64(1)).dtype == (np.float64 if x64 else np.float32)
    """,
    "as_function is exact under the user's jit": """
        f = graph_of(lambda b, x: b.add(x, b.constant("int64", BIG))).as_function()
        assert np.asarray(f(x=np.array([BIG, 1]))["y"]).tolist() == [2 * BIG, BIG + 1]
        y = jax.jit(f)({"x": np.array([3, 4])})["y"]
        assert (y.dtype, np.asarray(y).tolist()) == (np.int64, [BIG + 3, BIG + 4])
        with jax.enable_x64(True):
            y = jax.jit(f)({"x": np.array([BIG, 4])})["y"]
        assert np.asarray(y).tolist() == [2 * BIG, BIG + 4]
    """,
    "a failing build leaves the state": """
        from webnn_xla.lowering import OPS
        def broken(a, b):
            raise RuntimeError("broken")
        OPS["add"].lowering = staticmethod(broken)
        builder = webnn.MLGraphBuilder(context)
        x = builder.input("x", [2], "int64")
        for _ in range(2):
            try:
                builder.build({"y": builder.add(x, x, label="sum")})
            except webnn.OperationError as error:
                assert (error.operator, error.operand, error.label) == ("add", "a", "sum")
            except webnn.InvalidStateError:
                pass
            assert state() == before
    """,
    "threads": """
        graph = graph_of(lambda b, x: b.add(x, x))
        problems = []
        def work(value):
            try:
                for _ in range(20):
                    assert graph.compute({"x": [value, BIG]})["y"].tolist() == [2 * value, 2 * BIG]
                    assert state() == before
            except BaseException as error:
                problems.append(repr(error))
        threads = [threading.Thread(target=work, args=(BIG + index,)) for index in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not problems, problems
    """,
    "weights, cost and program text": """
        builder = webnn.MLGraphBuilder(context)
        x = builder.input("x", [2], "int64")
        graph = builder.build({"y": builder.add(x, builder.constant({"data_type": "int64", "shape": [2]}, name="w"))})
        graph.load_weights({"w": np.array([BIG, 2**53 + 1])})
        assert graph.compute({"x": [0, 0]})["y"].tolist() == [BIG, 2**53 + 1]
        assert np.asarray(graph.weights["w"]).tolist() == [BIG, 2**53 + 1]
        graph.cost(), graph.stablehlo()
        assert "i64" in graph.stablehlo()
    """,
    "a graph built inside of x64": """
        with jax.enable_x64(not x64):
            inside = webnn.MLGraphBuilder(context)
            x = inside.input("x", [2], "int64")
            graph = inside.build({"y": inside.add(x, x)})
            assert jax.config.jax_enable_x64 == (not x64)
            assert graph.compute({"x": [BIG, 1]})["y"].tolist() == [2 * BIG, 2]
        assert graph.compute({"x": [BIG, 1]})["y"].tolist() == [2 * BIG, 2]
    """,
}


def run(script: str, x64: str = "0") -> str:
    """What a process says that fails; nothing if it does not."""
    environment = {**os.environ, "JAX_ENABLE_X64": x64, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    return done.stderr[-4000:] if done.returncode else ""


@pytest.mark.parametrize(
    "change", ["jax.config.update('jax_enable_x64', True)", "os.environ['XLA_FLAGS'] = ''", "jax.enable_x64(True).__enter__()"]
)
def test_a_change_is_noticed(change: str) -> None:
    script = PRELUDE.split("import webnn_xla")[0]
    assert run(f"{script}\n{change}\nassert state() == before, 'noticed'").endswith("AssertionError: noticed\n")
    assert not run(f"{script}\nassert state() == before, 'noticed'")


@pytest.mark.parametrize("x64", ["0", "1"])
def test_state_is_untouched(x64: str) -> None:
    parts = [PRELUDE]
    for name, check in CHECKS.items():
        body = textwrap.indent(textwrap.dedent(check), "    ")
        # The broken op of one check must not reach the next.
        parts.append(f"def check():\n{body}\n    assert state() == before, {name!r}\n")
        parts.append("from webnn_xla.lowering import OPS\nlowering = OPS['add'].lowering\ntry:\n    check()\n")
        parts.append(f"except BaseException as error:\n    raise AssertionError({name!r}) from error\n")
        parts.append("finally:\n    OPS['add'].lowering = staticmethod(lowering)\n")
    assert not run("".join(parts), x64)


def test_importing_sets_nothing_up() -> None:
    """No backend starts, no thread runs and no variable is set by the import alone."""
    script = """
import os, threading
import jax
before = dict(os.environ), dict(jax.config.values)
import webnn_xla
from webnn_xla import ML, MLGraphBuilder, MLGraph, load
import webnn_xla.lowering
from jax._src import xla_bridge
assert not xla_bridge._backends
assert (dict(os.environ), dict(jax.config.values)) == before
assert threading.active_count() == 1
"""
    assert not run(script)
