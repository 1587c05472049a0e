"""From an ONNX graph to WebNN ops: walks the nodes, looks up their handlers, and collects every problem.

Nodes are visited in the model's order, which ONNX requires to be one where values come before their use. A node that
cannot be imported leaves gaps, and the walk goes on, so that one error lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx

from webnn_xla.builder import MLGraphBuilder, MLOperand
from webnn_xla.errors import DataError, NotSupportedError, WebNNError, printable
from webnn_xla.importers.onnx import table
from webnn_xla.importers.onnx.errors import (
    InvalidModelError,
    Malformed,
    NeedsValue,
    Problem,
    Unsupported,
    UnsupportedModelError,
)
from webnn_xla.importers.onnx.model import OLDEST_OPSET, Model
from webnn_xla.importers.onnx.node import Node, attribute_value
from webnn_xla.importers.onnx.types import Array, DType, storage_of, to_storage
from webnn_xla.importers.onnx.values import GAP, Gap, Tensor, Value
from webnn_xla.importers.onnx.weights import read_tensor

MAX_DEPTH: Final = 48
"""Nesting of subgraphs and functions."""

MAX_STEPS: Final = 500_000
"""Nodes visited, unrolled loops included, and WebNN ops recorded."""


class Skip(Exception):  # noqa: N818  (internal)
    """A node depends on a gap, whose problem is recorded already."""


class TooLarge(Exception):  # noqa: N818  (internal)
    """Unrolling does not end in reason."""


@dataclass(eq=False)
class Env:
    """Values by name in a graph; a subgraph sees those of the graph around it, a function does not."""

    opsets: Mapping[str, int]
    path: str = ""
    depth: int = 0
    parent: Env | None = None
    attributes: Mapping[str, onnx.AttributeProto] | None = None
    scope: tuple[str, ...] = ()
    """Where the graph stands in the model: the same for every iteration of a loop, so that its weights are read once."""
    values: dict[str, Value | Gap] = field(default_factory=dict)

    def find(self, name: str) -> Value | Gap | None:
        env: Env | None = self
        while env is not None:
            if name in env.values:
                return env.values[name]
            env = env.parent
        return None


class Importer:
    """Records one model into one builder, for given shapes of its inputs and values of some of them."""

    def __init__(
        self,
        model: Model,
        builder: MLGraphBuilder,
        shapes: Mapping[str, tuple[int, ...]],
        values: Mapping[str, Array] | None = None,
        progress: Callable[[int, int], None] | None = None,
        prefix: str = "",
        specialize: bool = False,
    ) -> None:
        self.model = model
        self.builder = builder
        self.shapes = shapes
        self.fixed = dict(values or {})
        self.problems: list[Problem] = []
        self.values: Mapping[str, Value | Gap] = {}
        """Values of the main graph by the names of the model, after ``run``."""
        self.weights: dict[str, Callable[[], Array]] = {}
        self._names: set[str] = set()
        self._tensors: dict[tuple[str, ...], Tensor] = {}
        self._steps = 0
        self._progress = progress
        self.specialize = specialize
        """Ask for the values of single numbers that branches depend on, rather than compute both branches."""
        self.prefix = prefix
        """Put before the names of inputs and weights, so that several models can share a builder."""

    def run(self) -> dict[str, Tensor]:
        """Imports the main graph. Raises one error with every problem, if there is any."""
        env = Env(self.model.opsets)
        self.values = env.values
        graph = self.model.proto.graph
        for port in self.model.inputs:
            if port.dtype is None:
                self.problems.append(Problem(port.name, "graph input", self._opset(), port.problem))
                env.values[port.name] = GAP
            else:
                env.values[port.name] = self._input(port.name, port.dtype, self.shapes[port.name])
        try:
            outputs = self.graph(graph, env, top=True)
        except TooLarge:
            self.problems.append(Problem(graph.name, "graph", self._opset(), f"more than {MAX_STEPS} steps of unrolling"))
            outputs = []
        results: dict[str, Tensor] = {}
        for info, value in zip(graph.output, outputs, strict=False):
            if isinstance(value, Tensor):
                results[info.name] = value
            elif not isinstance(value, Gap):
                self.problems.append(Problem(info.name, "graph output", self._opset(), "not a tensor"))
        if self.problems:
            kind = InvalidModelError if all(problem.malformed for problem in self.problems) else UnsupportedModelError
            raise kind(self.problems)
        return results

    def _opset(self) -> int:
        return self.model.opsets.get("", 0)

    def _input(self, name: str, dtype: DType, shape: tuple[int, ...]) -> Tensor:
        sources = frozenset({name})
        if name in self.fixed:
            return Tensor(dtype, self.fixed[name].shape, self.fixed[name], name=name)
        if 0 in shape:
            return Tensor(dtype, shape, np.zeros(shape, dtype), name=name)
        operand = self.builder.input(self.prefix + name, {"data_type": storage_of(dtype), "shape": shape})
        return Tensor(dtype, shape, operand=operand, name=name, sources=sources)

    # Graphs

    def graph(self, graph: onnx.GraphProto, env: Env, *, top: bool = False) -> list[Value | Gap]:
        """Imports initializers and nodes of ``graph`` into ``env``; the values of its outputs."""
        if env.depth > MAX_DEPTH:
            raise Malformed(f"subgraphs and functions nest more than {MAX_DEPTH} deep")
        for proto in graph.initializer:
            try:
                env.values.setdefault(proto.name, self.tensor(proto, env, proto.name, env.path + proto.name))
            except WebNNError as error:
                self._gap(env, proto.name, "initializer", error)
        for sparse in graph.sparse_initializer:
            self._gap(env, sparse.values.name, "sparse initializer", NotSupportedError("WebNN has no sparse tensors"))
        self.nodes(graph.node, {info.name for info in graph.output}, env, top=top)
        return [self._output(info.name, env) for info in graph.output]

    def tensor(self, proto: onnx.TensorProto, env: Env, name: str, label: str) -> Tensor:
        """A tensor of the model, the same one however often its graph is imported."""
        key = (*env.scope, name)
        if key not in self._tensors:
            self._tensors[key] = read_tensor(proto, self.model.folder, label)
        return self._tensors[key]

    def _gap(self, env: Env, name: str, what: str, error: Exception) -> None:
        self.problems.append(Problem(name, what, self._opset(), str(error), malformed=isinstance(error, DataError)))
        env.values[name] = GAP

    def _output(self, name: str, env: Env) -> Value | Gap:
        value = env.find(name)
        if value is None:
            self.problems.append(Problem(name, "output", self._opset(), "nothing makes this output", malformed=True))
            return GAP
        return value

    def nodes(self, nodes: Sequence[onnx.NodeProto], wanted: set[str], env: Env, *, top: bool = False) -> None:
        """Imports the nodes that ``wanted`` depends on."""
        needed = set(wanted)
        live: list[onnx.NodeProto] = []
        for node in reversed(nodes):
            if needed.intersection(node.output):
                live.append(node)
                needed.update(_uses(node))
        for index, node in enumerate(reversed(live)):
            self._node(node, env)
            if top and self._progress is not None:
                self._progress(index + 1, len(live))

    def function(self, function: onnx.FunctionProto, n: Node, env: Env, opsets: Mapping[str, int]) -> list[Value | Gap]:
        """Imports the body of a function in place of a call."""
        attributes = {a.name: a for a in function.attribute_proto}
        attributes.update({a.name: a for a in n.attributes.get("", ())})
        # The body of an operator's function may depend on shapes, which change from step to step: so its label, step included.
        inner = Env(opsets, f"{n.label}/", env.depth + 1, None, attributes, (*env.scope, n.label, _first_of(n.outputs)))
        if inner.depth > MAX_DEPTH:
            raise Malformed(f"subgraphs and functions nest more than {MAX_DEPTH} deep")
        for name, value in zip(function.input, n.inputs, strict=False):
            if value is not None:
                inner.values[name] = value
        missing = set(function.input[len(n.inputs) :]) | {
            name for name, value in zip(function.input, n.inputs, strict=False) if value is None
        }
        wanted = {name for index, name in enumerate(function.output) if n.wants(index)}
        for name in missing:
            inner.values.setdefault(name, _NOTHING)
        self.nodes(function.node, wanted, inner)
        return [self._output(name, inner) if name in wanted else GAP for name in function.output]

    # Nodes

    def _node(self, proto: onnx.NodeProto, env: Env) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise TooLarge
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        opset = env.opsets.get(domain, 1 if domain else self._opset())
        label = env.path + (proto.name or f"{proto.op_type}({proto.output[0] if proto.output else ''})")
        reason, inputs, malformed = "", frozenset[str](), False
        try:
            results = self._apply(proto, domain, opset, label, env)
            for name, value in zip(proto.output, results, strict=False):
                if name:
                    env.values[name] = value if value is not None else GAP
            return
        except Skip:
            if self._supported(domain, proto.op_type, opset) is None:
                reason = self._missing(domain, proto.op_type, opset)
        except NeedsValue as error:
            reason, inputs = str(error), error.sources
        except (Unsupported, NotSupportedError) as error:
            reason = str(error)
        except Malformed as error:
            reason, malformed = str(error), True
        except TooLarge:
            raise
        except WebNNError as error:
            reason, malformed = str(error), isinstance(error, DataError)
        except Exception as error:
            reason, malformed = f"malformed: {type(error).__name__}: {error}", True
        if reason:
            # The error of a builder names op and label again; the problem has them already.
            reason = reason.replace(f" [{printable(label)}]", "")
            self.problems.append(Problem(label, proto.op_type, opset, reason, tuple(sorted(inputs)), malformed))
        for name in proto.output:
            if name:
                env.values[name] = GAP

    def _apply(self, proto: onnx.NodeProto, domain: str, opset: int, label: str, env: Env) -> Sequence[Value | Gap | None]:
        function = self.model.functions.get((domain, proto.op_type))
        if not domain and opset < OLDEST_OPSET and function is None and not _unchanged(proto.op_type, opset):
            raise Unsupported(f"opset {opset} has another {proto.op_type} than {OLDEST_OPSET}; onnx.version_converter converts")
        entry = table.find(domain, proto.op_type, opset) if function is None else None
        inputs: list[Value | None] = []
        for name in proto.input:
            value = env.find(name) if name else _NOTHING
            if value is None:
                raise Malformed(f"input {printable(name)!r} is not defined: a missing initializer, a cycle, or a wrong order")
            if isinstance(value, Gap):
                if value is _NOTHING:
                    inputs.append(None)
                    continue
                raise Skip
            inputs.append(value)
        attributes = self._attributes(proto, env)
        n = Node(self, proto.op_type, domain, opset, inputs, attributes, list(proto.output), label)
        n.env = env
        if entry is not None:
            result = entry.handler(n)
            return result if isinstance(result, Sequence) else [result]
        if function is not None:
            n.attributes[""] = [self._resolved(a, env) for a in proto.attribute if self._resolved(a, env) is not None]
            opsets = {("" if e.domain == "ai.onnx" else e.domain): int(e.version) for e in function.opset_import}
            return self.function(function, n, env, {**env.opsets, **opsets})
        body = self._schema_function(domain, proto, opset, n)
        if body is None:
            raise Unsupported(self._missing(domain, proto.op_type, opset))
        n.attributes[""] = [self._resolved(a, env) for a in proto.attribute if self._resolved(a, env) is not None]
        for name, default in _defaults(domain, proto.op_type, opset).items():
            if all(a.name != name for a in n.attributes[""]):
                n.attributes[""].append(default)
        opsets = {("" if e.domain == "ai.onnx" else e.domain): int(e.version) for e in body.opset_import}
        return self.function(body, n, env, {**env.opsets, **opsets})

    def _attributes(self, proto: onnx.NodeProto, env: Env) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        for attribute in proto.attribute:
            resolved = self._resolved(attribute, env)
            if resolved is not None:
                attributes[attribute.name] = attribute_value(resolved)
        return attributes

    @staticmethod
    def _resolved(attribute: onnx.AttributeProto, env: Env) -> onnx.AttributeProto | None:
        """An attribute, where it refers to one of the enclosing function's call replaced by that."""
        if not attribute.ref_attr_name:
            return attribute
        scope: Env | None = env
        while scope is not None and scope.attributes is None:
            scope = scope.parent
        found = (scope.attributes or {}).get(attribute.ref_attr_name) if scope is not None else None
        if found is None:
            return None
        copy = onnx.AttributeProto()
        copy.CopyFrom(found)
        copy.name = attribute.name
        return copy

    # Functions that ONNX itself defines operators by

    def _supported(self, domain: str, op: str, opset: int) -> bool | None:
        if (domain, op) in self.model.functions or table.find(domain, op, opset) is not None:
            return True
        schema = _schema(domain, op, opset)
        if schema is not None and (schema.has_function or schema.has_context_dependent_function):
            return True
        return None

    @staticmethod
    def _missing(domain: str, op: str, opset: int) -> str:
        where = f"operator {printable(domain or 'ai.onnx')}.{printable(op)}"
        if table.TABLE.get((domain, op)):
            return f"{where} is not supported in opset {opset}"
        if _schema(domain, op, opset) is None:
            return f"{where} is unknown"
        return f"{where} is not supported"

    @staticmethod
    def _schema_function(domain: str, proto: onnx.NodeProto, opset: int, n: Node) -> onnx.FunctionProto | None:
        schema = _schema(domain, proto.op_type, opset)
        if schema is None:
            return None
        if schema.has_context_dependent_function:
            types = []
            for value in n.inputs:
                info = onnx.TypeProto()
                if isinstance(value, Tensor):
                    info = onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                types.append(info.SerializeToString())
            versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
            resolved = onnx.NodeProto()
            resolved.CopyFrom(proto)
            del resolved.attribute[:]
            resolved.attribute.extend(a for a in (Importer._resolved(a, n.env) for a in proto.attribute) if a is not None)
            raw = schema.get_context_dependent_function_with_opset_version(
                max(versions, default=opset), resolved.SerializeToString(), types
            )
        elif schema.has_function:
            versions = [v for v in schema.function_opset_versions if v <= opset]
            raw = schema.get_function_with_opset_version(max(versions, default=opset))
        else:
            return None
        if not raw:
            return None
        function = onnx.FunctionProto()
        function.ParseFromString(raw)
        return function

    # Emission

    def emit(self, op: str, operands: list[Any], arguments: dict[str, Any], label: str) -> Any:
        """Records one WebNN op."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise TooLarge
        method = getattr(self.builder, op)
        return method(*operands, **arguments, label=label)

    def operand(self, x: Tensor, label: str) -> MLOperand:
        """The operand of a tensor; a constant, named if it is a weight, the first time a known one is used."""
        if x.operand is None:
            if x.size == 0:
                raise Unsupported(f"an empty tensor ({x}) is used where WebNN needs elements")
            storage = storage_of(x.dtype)
            if x.data is not None:
                x.operand = self.builder.constant(
                    {"data_type": storage, "shape": x.shape},
                    np.ascontiguousarray(to_storage(np.asarray(x.data))).reshape(x.shape),
                )
            else:
                assert x.weight is not None
                name = base = self.prefix + (x.name or "weight")
                count = 1
                while name in self._names:
                    count += 1
                    name = f"{base}#{count}"
                self._names.add(name)
                x.operand = self.builder.constant({"data_type": storage, "shape": x.shape}, name=name)
                self.weights[name] = x.weight
        return x.operand


class _Nothing(Gap):
    """An input that a node leaves out."""


_NOTHING = _Nothing()


def _first_of(names: Sequence[str]) -> str:
    return next((name for name in names if name), "")


def _uses(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, those that its subgraphs capture included."""
    names = set(node.input)
    stack = [g for a in node.attribute for g in ([a.g] if a.HasField("g") else []) + list(a.graphs)]
    while stack:
        graph = stack.pop()
        names.update(info.name for info in graph.output)
        for inner in graph.node:
            names.update(inner.input)
            stack.extend(g for a in inner.attribute for g in ([a.g] if a.HasField("g") else []) + list(a.graphs))
    return names


def _schema(domain: str, op: str, opset: int) -> Any:
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


def _unchanged(op: str, opset: int) -> bool:
    """Whether an operator of an old opset is still the same in the oldest that handlers are written for."""
    old, known = _schema("", op, opset), _schema("", op, OLDEST_OPSET)
    return old is not None and known is not None and old.since_version == known.since_version


def _defaults(domain: str, op: str, opset: int) -> dict[str, onnx.AttributeProto]:
    schema = _schema(domain, op, opset)
    return {name: a.default_value for name, a in schema.attributes.items() if a.default_value.name} if schema else {}
