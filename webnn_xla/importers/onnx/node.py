"""A node under import, as its handler sees it: inputs, attributes, outputs, and the WebNN ops that it emits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import onnx

from webnn_xla.importers.onnx.emitter import Emitter
from webnn_xla.importers.onnx.errors import Malformed, NeedsValue, Unsupported
from webnn_xla.importers.onnx.types import Array
from webnn_xla.importers.onnx.values import Tensor, TensorList, Value

if TYPE_CHECKING:
    from webnn_xla.importers.onnx.importer import Env, Importer


class Node(Emitter):
    """What a handler gets. ``n[0]`` is an input that must be there, ``n.get(2)`` one that may not."""

    env: Env

    def __init__(
        self,
        importer: Importer,
        op: str,
        domain: str,
        opset: int,
        inputs: Sequence[Value | None],
        attributes: dict[str, Any],
        outputs: Sequence[str],
        label: str,
    ) -> None:
        self.importer = importer
        self.op = op
        self.domain = domain
        self.opset = opset
        self.inputs = list(inputs)
        self.attributes = attributes
        self.outputs = list(outputs)
        self.label = label

    # Inputs and attributes

    def __getitem__(self, index: int) -> Tensor:
        value = self.value(index)
        if not isinstance(value, Tensor):
            raise Unsupported(f"input {index} is a {type(value).__name__.lower()}, not a tensor")
        return value

    def value(self, index: int) -> Value:
        """An input of any kind that must be there."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise Malformed(f"input {index} is missing")
        return value

    def get(self, index: int) -> Tensor | None:
        """A tensor that may be left out."""
        value = self.inputs[index] if index < len(self.inputs) else None
        return None if value is None else self[index]

    def tensors(self) -> list[Tensor]:
        """All inputs, of which there is at least one."""
        if not self.inputs:
            raise Malformed("no inputs")
        return [self[index] for index in range(len(self.inputs))]

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute's value; ``default`` where it is left out. Malformed if it is of another kind than the default."""
        value = self.attributes.get(name)
        if value is None:
            return default
        if isinstance(default, bool):
            return bool(value)
        if isinstance(default, float) and isinstance(value, int):
            return float(value)
        if default is not None and not isinstance(value, type(default)):
            raise Malformed(f"attribute {name} is {value!r}, not of type {type(default).__name__}")
        return value

    def need(self, name: str, kind: type) -> Any:
        """An attribute that must be there."""
        value = self.attributes.get(name)
        if not isinstance(value, kind):
            raise Malformed(f"attribute {name} is {'missing' if value is None else f'{value!r}, not of type {kind.__name__}'}")
        return value

    def ints(self, name: str, default: Sequence[int] | None = None) -> list[int] | None:
        """A list attribute of integers."""
        value = self.attributes.get(name)
        if value is None:
            return None if default is None else list(default)
        if not isinstance(value, list) or not all(isinstance(v, int) for v in value):
            raise Malformed(f"attribute {name} is {value!r}, not a list of integers")
        return value

    def wants(self, index: int) -> bool:
        """Whether output ``index`` is asked for."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def known(self, x: Tensor, what: str) -> Array:
        """The value of a tensor, which has to be known on import."""
        if x.data is not None:
            return x.data
        if x.weight is not None:
            return x.weight()
        raise NeedsValue(what, x.sources)

    def known_input(self, index: int, what: str) -> Array:
        return self.known(self[index], f"{what} (input {index})")

    def known_ints(self, index: int, what: str) -> list[int]:
        """The elements of an integer input that has to be known."""
        data = self.known_input(index, what)
        if "int" not in data.dtype.name:
            raise Malformed(f"{what} (input {index}) is of type {data.dtype.name}, not an integer type")
        return [int(v) for v in data.reshape(-1)]

    def known_int(self, index: int, what: str) -> int:
        values = self.known_ints(index, what)
        if len(values) != 1:
            raise Malformed(f"{what} (input {index}) has {len(values)} elements, not one")
        return values[0]

    def ints_of(self, name: str, index: int, since: int, what: str | None = None) -> list[int] | None:
        """Integers that are an attribute before opset ``since`` and an optional input from it on."""
        if self.opset < since:
            return self.ints(name)
        return None if self.get(index) is None else self.known_ints(index, what or name)

    @staticmethod
    def axis(axis: int, rank: int, what: str = "axis") -> int:
        """A checked axis, counted from 0."""
        if not -rank <= axis < max(rank, 1):
            raise Malformed(f"{what} {axis} is out of range for rank {rank}")
        return axis % rank if rank else 0

    @classmethod
    def axes(cls, axes: Iterable[int], rank: int, what: str = "axes") -> list[int]:
        checked = [cls.axis(axis, rank, what) for axis in axes]
        if len(set(checked)) != len(checked):
            raise Malformed(f"{what} {list(axes)} repeats an axis")
        return checked

    def listed(self, index: int) -> TensorList:
        value = self.value(index)
        if not isinstance(value, TensorList):
            raise Malformed(f"input {index} is not a sequence")
        return value


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """An attribute as Python data; strings decoded, lists as lists, graphs and tensors as protobuf messages."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS, onnx.AttributeProto.STRINGS):
        return [item.decode("utf-8", "replace") if isinstance(item, bytes) else item for item in value]
    return value
