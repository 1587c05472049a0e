"""The short way of a dispatch: its checks and its call as one straight line of Python, written for one graph.

Loops over names took a fifth of the dispatch of a tiny graph. What such a function does not take, it leaves to the way
that looks closer, and that says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from webnn_xla.errors import OperationError
from webnn_xla.tensor import MLTensor

Short = Callable[[Mapping[str, MLTensor], Mapping[str, MLTensor]], bool]
"""(inputs, outputs) → True if it ran; False, and nothing was done, where someone must look closer."""

MOST: Final = 200
"""Tensors up to which a function is written: the time to write it grows with them, and what it saves does not matter."""


def closer(inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]) -> bool:
    """The short way of a graph that has none (yet)."""
    return False


def straight(
    call: Callable[..., Any],
    arguments: Sequence[Any],
    given: Mapping[str, object],
    taken: Mapping[str, tuple[object, int]],
    alias: Mapping[str, str],
) -> Short:
    """A function that runs ``call(*arguments, *inputs)`` and binds its results.

    ``given``: the kind (``MLTensor._kind``) of each input, in the program's order; ``taken``: that of each output, and the
    index of its result; ``alias``: outputs that are to be the tensor of an input.
    """
    if len(given) + len(taken) > MOST:
        return lambda inputs, outputs: False
    inputs = {name: f"a{index}" for index, name in enumerate(given)}
    outputs = {name: f"r{index}" for index, name in enumerate(taken)}
    known: dict[str, Any] = {"call": call, "arguments": tuple(arguments), "OperationError": OperationError}
    tests = [f"len(inputs) != {len(given)}", f"len(outputs) != {len(taken)}"]
    for variables, kinds in ((inputs, given.values()), (outputs, (kind for kind, _ in taken.values()))):
        for variable, kind in zip(variables.values(), kinds, strict=True):
            known[f"{variable}_kind"] = kind
            tests.append(f"{variable}._kind is not {variable}_kind")
    tests += [f"{inputs[source]} is not {outputs[result]}" for result, source in alias.items()]
    tensors = [*inputs.values(), *(variable for name, variable in outputs.items() if name not in alias)]
    if len(tensors) == 2:
        tests.append(f"{tensors[0]} is {tensors[1]}")
    elif tensors:
        tests.append(f"len({{{', '.join(tensors)}}}) != {len(tensors)}")
    values = [f"{variable}_value" for variable in inputs.values()]
    lines = [
        "def dispatch(inputs, outputs):",
        "    try:",
        *(f"        {variable} = inputs[{name!r}]" for name, variable in inputs.items()),
        *(f"        {variable} = outputs[{name!r}]" for name, variable in outputs.items()),
        f"        if {' or '.join(tests)}:",
        "            return False",
        *(f"        {variable}_value = {variable}._value" for variable in inputs.values()),
        # A tensor that was never written has no array yet.
        *(f"        if {value} is None: return False" for value in values),
        "    except (KeyError, TypeError, IndexError, AttributeError):",
        "        return False",
        # What the outputs hold is released first: the results then lie where it lay, in memory that is there and in the cache.
        *(f"    {variable}._value = None" for variable in outputs.values()),
        "    try:",
        f"        results = call({', '.join(['*arguments'] * bool(arguments) + values)})",
        "    except Exception as error:",
        "        raise OperationError(f'running the graph failed: {error}', operator='dispatch') from error",
        *(f"    {outputs[name]}._value = results[{index}]" for name, (_, index) in taken.items()),
        "    return True",
    ]
    exec("\n".join(lines), known)
    function: Short = known["dispatch"]
    return function
