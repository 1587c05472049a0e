"""Everything in the WebNN IDL and in the specification's tables of limits exists here, member by member.

The IDL and the tables are not in this repository: ``../shared/spec`` beside it, or where WEBNN_SPEC says.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from idl import Idl, Member, Method
from idl import read as read_idl

import webnn_xla as webnn
from webnn_xla.context import POWER_PREFERENCES
from webnn_xla.dtypes import EXTENSION_TYPES, MAX_RANK, SPEC_TYPES
from webnn_xla.lowering import OPS
from webnn_xla.lowering.kinds import BOOL, DATA_TYPE, DOUBLE, INT32, NUMBER, SINGLES, SPLITS, UINT32, UINT32S, choice, list_of
from webnn_xla.lowering.op import (
    Limits,
    Operand,
    OperandList,
    Option,
    OptionalOperand,
    Output,
    OutputList,
    Param,
    Same,
    SameRank,
)
from webnn_xla.naming import to_camel, to_snake

SPEC = Path(os.environ.get("WEBNN_SPEC", Path(__file__).parents[2] / "shared" / "spec"))
pytestmark = pytest.mark.skipif(not SPEC.is_dir(), reason=f"no specification at {SPEC} (set WEBNN_SPEC)")


def read_limits(path: Path) -> dict[str, Any]:
    """The tables of limits, in the IDL's names: there it is "inputs's items" and "outputs[1]* if returnSequence is true"."""
    text = path.read_text().replace("'s items\"", '"')
    limits: dict[str, Any] = json.loads(re.sub(r"outputs\[(\d)\][^\"]*", r"output\1", text))
    return limits


IDL = read_idl(SPEC / "webnn.idl") if SPEC.is_dir() else Idl()
LIMITS = read_limits(SPEC / "op-limits.json") if SPEC.is_dir() else {}

WEBGPU = {("MLContext", "createExportableTensor"), ("MLContext", "exportToGPU"), ("ML", "createContext", "gpuDevice")}
"""What a browser has and this package does not: DLPack is the counterpart. There are no other exemptions."""

NOT_OPS = ("constructor", "input", "constant", "build")
OP_METHODS = [method for method in IDL.methods.get("MLGraphBuilder", ()) if method.name not in NOT_OPS]
IDS = [method.name for method in OP_METHODS]

KINDS = {
    "unsigned long": UINT32,
    "long": INT32,
    "boolean": BOOL,
    "double": DOUBLE,
    "MLNumber": NUMBER,
    "MLOperandDataType": DATA_TYPE,
    "sequence<[EnforceRange] unsigned long>": UINT32S,
    "sequence<unsigned long>": UINT32S,
    "sequence<float>": SINGLES,
    "([EnforceRange] unsigned long or sequence<[EnforceRange] unsigned long>)": SPLITS,
}
KINDS |= {name: choice(*values) for name, values in IDL.enums.items() if name not in KINDS}
KINDS |= {f"sequence<{name}>": list_of(KINDS[name]) for name in IDL.enums}


def test_the_idl_is_read_whole() -> None:
    assert len(OP_METHODS) == len(set(IDS)) == 95
    assert set(IDS) == set(LIMITS)
    assert {name for name, _ in IDL.methods.items()} == {"ML", "MLContext", "MLGraph", "MLGraphBuilder", "MLTensor"}


# The builder's methods for ops


def test_ops_are_those_of_the_idl() -> None:
    assert {to_camel(op.name) for op in OPS.values() if not op.extension} == set(IDS)


@pytest.mark.parametrize("method", OP_METHODS, ids=IDS)
def test_op(method: Method) -> None:
    op = OPS[to_snake(method.name)]
    assert not op.extension
    positional, *rest = [m for m in method.arguments if m.required], *[m for m in method.arguments if not m.required]
    (options,) = rest
    assert options.name == "options"
    members = dict(IDL.dictionaries[options.type])
    assert members.pop("label") == Member("label", "USVString", False, "")

    signature = inspect.signature(getattr(webnn.MLGraphBuilder, op.name))
    keywords = {n: p for n, p in signature.parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert signature.parameters["label"].default == ""
    assert [n for n in signature.parameters if n not in keywords] == ["self", *(to_snake(m.name) for m in positional)]
    for member in positional:
        declared = op.arguments[to_snake(member.name)]
        if member.type == "MLOperand":
            assert isinstance(declared, Operand)
        elif member.type == "sequence<MLOperand>":
            assert isinstance(declared, OperandList)
        else:
            assert isinstance(declared, Param)
            assert declared.kind == KINDS[member.type]
    for member in members.values():
        name = to_snake(member.name)
        declared = op.arguments[name]
        if member.type == "MLOperand":
            assert isinstance(declared, OptionalOperand)
        else:
            assert isinstance(declared, Option)
            assert not declared.extension
            assert declared.kind == KINDS[member.type]
            assert declared.default == member.default
            assert type(declared.default) is type(member.default) or declared.kind in (DOUBLE, NUMBER, DATA_TYPE)
        assert keywords[name].default == member.default
    extra = keywords.keys() - {to_snake(name) for name in members} - {"label"}
    assert all(getattr(op.arguments[name], "extension", False) for name in extra)

    outputs = list(op.outputs.values())
    if method.returns == "MLOperand":
        assert len(outputs) == 1
        assert isinstance(outputs[0], Output)
    else:
        assert method.returns == "sequence<MLOperand>"
        assert len(outputs) > 1 or isinstance(outputs[0], OutputList)
    assert op.doc


def test_only_the_listed_options_are_extensions() -> None:
    found = {(op.name, name) for op in OPS.values() for name, arg in op.arguments.items() if getattr(arg, "extension", False)}
    assert found == {("arg_min", "select_last_index"), ("arg_max", "select_last_index")}


# Limits


@pytest.mark.parametrize("op", LIMITS)
def test_limits_are_those_of_the_tables(op: str, context: webnn.MLContext) -> None:
    declared = OPS[to_snake(op)]
    tensors: dict[str, Limits] = {
        to_camel(name): tensor for name, tensor in {**declared.operands(), **declared.outputs}.items()
    }
    assert set(tensors) == set(LIMITS[op]) == set(IDL.dictionaries[IDL.dictionaries["MLOpSupportLimits"][op].type])
    reported = context.op_support_limits()[op]
    assert reported.keys() == tensors.keys()
    for name, tensor in tensors.items():
        wanted = LIMITS[op][name]
        types, ranks = wanted["allowedDataTypes"], wanted["allowedRanks"]
        if isinstance(types, dict):
            assert tensor.types == Same(to_snake(types["sameTypeAs"])), name
            types = resolve(op, name, "allowedDataTypes", "sameTypeAs")
        else:
            assert same(tensor.types, types), name
        if isinstance(ranks, dict):
            assert tensor.ranks == SameRank(to_snake(ranks["sameRankAs"])), name
            ranks = resolve(op, name, "allowedRanks", "sameRankAs")
        else:
            assert list(tensor.ranks) == ranks, name
        assert same(tensor.required, wanted["requiredDataTypes"]), name
        assert list(tensor.required_ranks) == wanted["requiredRanks"], name
        assert same(reported[name]["dataTypes"], types), name
        assert reported[name]["rankRange"] == {"min": ranks[0], "max": MAX_RANK if ranks[1] is None else ranks[1]}, name


def resolve(op: str, name: str, key: str, same_as: str) -> Any:
    value = LIMITS[op][name][key]
    return resolve(op, value[same_as], key, same_as) if isinstance(value, dict) else value


def same(got: Any, wanted: list[str]) -> bool:
    return len(got) == len(wanted) and set(map(str, got)) == set(wanted)


def test_support_limits_have_every_member(context: webnn.MLContext) -> None:
    limits = context.op_support_limits()
    assert set(limits) == set(IDL.dictionaries["MLOpSupportLimits"])
    assert limits["preferredInputLayout"] in IDL.enums["MLInputOperandLayout"]
    assert isinstance(limits["maxTensorByteLength"], int)
    tensors = [limits[name] for name in ("input", "constant", "output")] + [limits["where"]["condition"]]
    for tensor in tensors:
        assert set(tensor) == set(IDL.dictionaries["MLTensorLimits"])
        assert set(tensor["rankRange"]) == set(IDL.dictionaries["MLRankRange"])
    assert limits["input"]["dataTypes"] == IDL.enums["MLOperandDataType"]
    json.dumps(limits)


def test_support_limits_with_extensions(context: webnn.MLContext) -> None:
    plain, extended = context.op_support_limits(), context.op_support_limits(extensions=True)
    assert set(extended) - set(plain) == {to_camel(op.name) for op in OPS.values() if op.extension}
    assert extended["input"]["dataTypes"] == [*SPEC_TYPES, *EXTENSION_TYPES]
    assert "bfloat16" in extended["cast"]["output"]["dataTypes"]
    assert "bfloat16" not in plain["cast"]["output"]["dataTypes"]


def test_support_limits_are_a_new_value_each_time(context: webnn.MLContext) -> None:
    context.op_support_limits()["input"]["dataTypes"].clear()
    assert context.op_support_limits()["input"]["dataTypes"]
    assert context.op_support_limits()["constant"]["dataTypes"]


# Interfaces, dictionaries, enums


@pytest.mark.parametrize("interface", list(IDL.methods))
def test_methods(interface: str) -> None:
    here = getattr(webnn, interface)
    for method in IDL.methods[interface]:
        names = [member.name for member in method.arguments]
        if (interface, method.name) in WEBGPU or (interface, method.name, *names) in WEBGPU:
            continue
        if interface == "MLGraphBuilder" and method.name not in NOT_OPS:
            continue  # test_op
        function = here.__init__ if method.name == "constructor" else getattr(here, to_snake(method.name))
        parameters = list(inspect.signature(function).parameters)[1:]
        if method.name == "createContext":
            continue  # test_options_of_a_context
        if method.name == "constant":
            assert parameters[:2] == ["descriptor", "buffer"]  # and test_constant_overloads
            continue
        assert parameters[: len(names)] == [to_snake(name) for name in names], method


@pytest.mark.parametrize("interface", list(IDL.attributes))
def test_attributes(interface: str, context: webnn.MLContext) -> None:
    made = webnn.MLGraphBuilder(context).input("x", [2], "float32")
    owners: dict[str, Any] = {
        "NavigatorML": webnn,
        "MLContext": context,
        "MLOperand": made,
        "MLTensor": context.create_tensor([2], "float32"),
    }
    for name in IDL.attributes[interface]:
        value = getattr(owners[interface], to_snake(name))
        if interface != "NavigatorML":
            with pytest.raises(AttributeError):
                setattr(owners[interface], to_snake(name), value)


def test_exemptions_are_in_the_idl() -> None:
    known = {(interface, method.name) for interface, methods in IDL.methods.items() for method in methods}
    assert {exempt[:2] for exempt in WEBGPU} <= known


def test_options_of_a_context() -> None:
    parameters = inspect.signature(webnn.ML.create_context).parameters
    for member in IDL.dictionaries["MLContextOptions"].values():
        assert parameters[to_snake(member.name)].default == member.default
    assert list(POWER_PREFERENCES) == IDL.enums["MLPowerPreference"]


def test_data_types() -> None:
    assert [str(data_type) for data_type in SPEC_TYPES] == IDL.enums["MLOperandDataType"]
    assert all(hasattr(webnn.MLOperandDataType, name.upper()) for name in IDL.enums["MLOperandDataType"])


def test_every_enum_is_an_options_kind() -> None:
    kinds = {
        argument.kind for op in OPS.values() for argument in op.arguments.values() if isinstance(argument, (Param, Option))
    }
    for name in IDL.enums:
        if name not in ("MLPowerPreference", "MLOperandDataType"):
            assert kinds & {KINDS[name], KINDS[f"sequence<{name}>"]}, name


def test_descriptors(context: webnn.MLContext) -> None:
    names = [to_snake(name) for name in IDL.dictionaries["MLOperandDescriptor"]]
    assert list(inspect.signature(webnn.MLOperandDescriptor).parameters) == names
    parameters = inspect.signature(context.create_tensor).parameters
    members = IDL.dictionaries["MLTensorDescriptor"]
    made = context.create_tensor(
        {name: {"dataType": "float32", "shape": [2]}.get(name, members[name].default) for name in members}
    )
    for name, member in members.items():
        assert to_snake(name) in parameters or name in IDL.dictionaries["MLOperandDescriptor"]
        if not member.required:
            assert (
                getattr(made, to_snake(name))
                == getattr(context.create_tensor([2], "float32"), to_snake(name))
                == member.default
            )
    assert set(IDL.dictionaries["MLContextLostInfo"]) == set(inspect.signature(webnn.MLContextLostInfo).parameters)


def test_constant_overloads(context: webnn.MLContext) -> None:
    overloads = [[m.type for m in method.arguments] for method in IDL.methods["MLGraphBuilder"] if method.name == "constant"]
    assert overloads == [["MLOperandDescriptor", "AllowSharedBufferSource"], ["MLOperandDataType", "MLNumber"], ["MLTensor"]]
    builder = webnn.MLGraphBuilder(context)
    described = builder.constant({"dataType": "int64", "shape": [1]}, bytes(8))
    scalar = builder.constant("uint64", 2**64 - 1)
    tensor = builder.constant(context.create_constant_tensor({"dataType": "int8", "shape": [1]}, b"\1"))
    assert [(made.data_type, made.shape) for made in (described, scalar, tensor)] == [
        ("int64", [1]),
        ("uint64", []),
        ("int8", [1]),
    ]
