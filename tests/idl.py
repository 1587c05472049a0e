"""The WebNN IDL as plain values, for the test that everything in it exists here."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import widlparser


@dataclass(frozen=True)
class Member:
    """A member of a dictionary, or an argument of a method. ``default`` is None where there is none."""

    name: str
    type: str
    required: bool
    default: Any = None


@dataclass(frozen=True)
class Method:
    name: str
    returns: str
    arguments: Sequence[Member]


@dataclass
class Idl:
    """Partial definitions are merged, and dictionaries have the members that they inherit."""

    dictionaries: dict[str, dict[str, Member]] = field(default_factory=dict)
    attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    methods: dict[str, list[Method]] = field(default_factory=dict)
    enums: dict[str, list[str]] = field(default_factory=dict)
    typedefs: dict[str, str] = field(default_factory=dict)


def read(path: Path) -> Idl:
    """Reads an IDL file. Fails on any construct that it does not know, so that nothing is left out unseen."""
    idl = Idl()
    parents: dict[str, str] = {}
    for construct in widlparser.Parser(path.read_text()).constructs:
        name = construct.name
        if construct.idl_type == "dictionary":
            members = idl.dictionaries.setdefault(name, {})
            members.update({member.name: _member(member) for member in construct.members})
            if construct.inheritance:
                parents[name] = str(construct.inheritance).strip(" :")
        elif construct.idl_type == "interface":
            for member in construct.members:
                if member.idl_type == "attribute":
                    idl.attributes.setdefault(name, {})[member.name] = str(member.member.attribute.type).strip()
                else:
                    assert member.idl_type == "method", member
                    idl.methods.setdefault(name, []).append(_method(member))
        elif construct.idl_type == "enum":
            idl.enums[name] = [ast.literal_eval(str(value.value).strip()) for value in construct.enum_values]
        elif construct.idl_type == "typedef":
            idl.typedefs[name] = str(construct.type).strip()
        else:
            assert construct.idl_type == "includes", construct
    for name, parent in parents.items():
        idl.dictionaries[name] = {**idl.dictionaries[parent], **idl.dictionaries[name]}
    return idl


def _method(member: Any) -> Method:
    returns = getattr(member.member, "return_type", None)
    return Method(
        member.name, str(returns).strip(), [_member(argument, argument.required) for argument in member.arguments or ()]
    )


def _member(member: Any, required: Any = None) -> Member:
    default = None if member.default is None else str(member.default).strip(" =")
    value = {"true": True, "false": False, "{}": None, None: None}.get(default, default)
    if isinstance(value, str):
        value = ast.literal_eval(value)
    return Member(member.name, str(member.type).strip(), bool(member.required if required is None else required), value)
