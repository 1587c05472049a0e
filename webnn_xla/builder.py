"""MLGraphBuilder and MLOperand: the API that records a graph.

The methods for ops are generated from the op table (``builder_ops``). Source:
https://www.w3.org/TR/webnn/#api-mlgraphbuilder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from webnn_xla import buffers
from webnn_xla.builder_ops import OpMethods
from webnn_xla.dtypes import Descriptor, MLOperandDataType, MLOperandDescriptor, Shape, cast_number
from webnn_xla.errors import ArgumentError, InvalidStateError, Rejected, located, printable
from webnn_xla.graph import Constant, Graph, Node, Value
from webnn_xla.lowering.kinds import NUMBER
from webnn_xla.lowering.op import Op, Operand, OperandList, OptionalOperand, Same, SameRank, Types

if TYPE_CHECKING:
    from webnn_xla.context import MLContext
    from webnn_xla.mlgraph import MLGraph
    from webnn_xla.tensor import MLTensor


class MLOperand:
    """A tensor of a graph under construction. Made by a builder's methods only.

    ``+ - * / @ **`` and unary ``-`` build the ops of those names; a Python number becomes a scalar constant of the
    operand's data type, which must be able to hold it.
    """

    __slots__ = ("_builder", "_name", "_value")

    __array_ufunc__ = None
    """NumPy leaves ``array * operand`` to the operand, instead of multiplying element by element."""

    def __init__(self, builder: MLGraphBuilder, value: Value, name: str = "") -> None:
        self._builder = builder
        self._value = value
        self._name = name

    @property
    def data_type(self) -> MLOperandDataType:
        return self._value.descriptor.data_type

    @property
    def shape(self) -> Shape:
        return self._value.descriptor.shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def name(self) -> str:
        """Name of an input or a named constant; empty for others."""
        return self._name

    def __repr__(self) -> str:
        producer = self._builder._producers.get(self._value)
        if producer is not None:
            source = producer.op.name + (f" [{printable(producer.label)}]" if producer.label else "")
        else:
            source = "constant" if self._value in self._builder._constants else "input"
            source += f" '{printable(self._name)}'" if self._name else ""
        return f"<MLOperand {self._value.descriptor} of {source}>"

    def _lift(self, other: object) -> MLOperand | None:
        if isinstance(other, MLOperand):
            return other
        if isinstance(other, (int, float, np.integer, np.floating)) and not isinstance(other, bool):
            if self.data_type.is_integer and cast_number(NUMBER.convert(other, "value"), self.data_type) != other:
                raise ArgumentError(f"got {other!r}; allowed: a number of type {self.data_type}", operand="operand")
            return self._builder.constant(self.data_type, other)
        return None

    def __add__(self, other: object) -> MLOperand:
        return NotImplemented if (b := self._lift(other)) is None else self._builder.add(self, b)

    def __radd__(self, other: object) -> MLOperand:
        return NotImplemented if (a := self._lift(other)) is None else self._builder.add(a, self)

    def __sub__(self, other: object) -> MLOperand:
        return NotImplemented if (b := self._lift(other)) is None else self._builder.sub(self, b)

    def __rsub__(self, other: object) -> MLOperand:
        return NotImplemented if (a := self._lift(other)) is None else self._builder.sub(a, self)

    def __mul__(self, other: object) -> MLOperand:
        return NotImplemented if (b := self._lift(other)) is None else self._builder.mul(self, b)

    def __rmul__(self, other: object) -> MLOperand:
        return NotImplemented if (a := self._lift(other)) is None else self._builder.mul(a, self)

    def __truediv__(self, other: object) -> MLOperand:
        return NotImplemented if (b := self._lift(other)) is None else self._builder.div(self, b)

    def __rtruediv__(self, other: object) -> MLOperand:
        return NotImplemented if (a := self._lift(other)) is None else self._builder.div(a, self)

    def __pow__(self, other: object) -> MLOperand:
        return NotImplemented if (b := self._lift(other)) is None else self._builder.pow(self, b)

    def __rpow__(self, other: object) -> MLOperand:
        return NotImplemented if (a := self._lift(other)) is None else self._builder.pow(a, self)

    def __matmul__(self, other: object) -> MLOperand:
        return self._builder.matmul(self, other) if isinstance(other, MLOperand) else NotImplemented

    def __neg__(self) -> MLOperand:
        return self._builder.neg(self)


class MLGraphBuilder(OpMethods):
    """Records operands and ops, and builds them into one graph, once.

    Errors: InvalidStateError if the context is lost, or the builder was used up by ``build``.
    """

    def __init__(self, context: MLContext) -> None:
        from webnn_xla.context import MLContext

        if not isinstance(context, MLContext):
            raise ArgumentError(
                f"got {type(context).__name__}; allowed: an MLContext", operator="MLGraphBuilder", operand="context"
            )
        context._check_alive("MLGraphBuilder")
        self._context = context
        self._built = False
        self._inputs: dict[str, Value] = {}
        self._constants: dict[Value, Constant] = {}
        self._constant_names: set[str] = set()
        self._constant_tensors: dict[Value, MLTensor] = {}
        self._nodes: list[Node] = []
        self._producers: dict[Value, Node] = {}

    @property
    def context(self) -> MLContext:
        return self._context

    def __repr__(self) -> str:
        state = "built" if self._built else "open"
        return f"<MLGraphBuilder {state}, {len(self._inputs)} inputs, {len(self._nodes)} ops>"

    # Inputs and constants

    def input(self, name: str, descriptor: Any, data_type: Any = None) -> MLOperand:
        """A graph input.

        ``descriptor`` is an ``MLOperandDescriptor`` or a mapping; or a shape, followed by the data type.
        Errors: ArgumentError for an empty or repeated name, or dimensions that are out of range.
        """
        self._check_open("input")
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"got {name!r}; allowed: a string that is not empty", operator="input", operand="name")
        if name in self._inputs:
            raise ArgumentError(f"got '{printable(name)}' a second time; allowed: a new name", operator="input", operand="name")
        described = self._describe("input", descriptor, data_type)
        value = self._inputs[name] = Value(described)
        return MLOperand(self, value, name)

    def constant(
        self, descriptor: Any, buffer: Any = None, *, start: Any = None, step: Any = None, name: str = ""
    ) -> MLOperand:
        """A constant. The data is copied.

        - ``constant(descriptor, buffer)``: the specification's; see ``webnn_xla.buffers`` for what a buffer may be;
        - ``constant(data_type, value)``: a scalar, cast as the specification says;
        - ``constant(tensor)``: from a constant MLTensor of the same context;
        - ``constant(array)``: a NumPy array in its own type and shape (extension);
        - ``constant(descriptor, start=…, step=…)``: ``start + index * step`` (extension, see ``fill_sequence``);
        - ``constant(descriptor, name=…)``: no data yet; ``graph.load_weights`` brings it after the build (extension).

        With ``name=`` a constant that has data can be replaced by ``graph.load_weights`` as well; sequences have no name.
        """
        from webnn_xla.tensor import MLTensor

        self._check_open("constant")
        if not isinstance(name, str):
            raise ArgumentError(f"got {name!r}; allowed: a string", operator="constant", operand="name")
        if isinstance(descriptor, MLTensor):
            descriptor._check(self._context, "constant", "tensor")
            if not descriptor.constant:
                raise ArgumentError(
                    "got a tensor of create_tensor; allowed: one of create_constant_tensor",
                    operator="constant",
                    operand="tensor",
                )
            operand = self._add_constant(descriptor.descriptor, descriptor._array, name)
            self._constant_tensors[operand._value] = descriptor
            return operand
        if isinstance(descriptor, np.ndarray) and buffer is None:
            described = self._describe("constant", {"data_type": descriptor.dtype, "shape": descriptor.shape})
            return self._add_constant(described, buffers.copy_in(descriptor, described), name)
        if isinstance(descriptor, (str, MLOperandDataType, type, np.dtype)):
            return self._scalar(descriptor, buffer, name)
        described = self._describe("constant", descriptor)
        if start is not None or step is not None:
            if buffer is not None:
                raise ArgumentError("got a buffer and start/step; allowed: one of them", operator="constant", operand="buffer")
            if name:
                raise ArgumentError("got a name and start/step; allowed: one of them", operator="constant", operand="name")
            return self.fill_sequence(
                described.data_type, described.shape, 0 if start is None else start, 0 if step is None else step
            )
        if buffer is None:
            if not name:
                raise ArgumentError(
                    "got no data; allowed: a buffer, start/step, or a name for load_weights",
                    operator="constant",
                    operand="buffer",
                )
            return self._add_constant(described, None, name)
        try:
            data = buffers.copy_in(buffer, described)
        except ArgumentError as error:
            raise located(error, "constant", name) from None
        return self._add_constant(described, data, name)

    def _scalar(self, data_type: Any, value: Any, name: str) -> MLOperand:
        try:
            kind = MLOperandDataType.of(data_type)
            number = NUMBER.convert(value, "value")
        except (ArgumentError, Rejected) as error:
            raise located(error, "constant", name) from None
        data = np.asarray(cast_number(number, kind))
        if kind.bits != 64 or kind.is_float:
            data = data.astype(kind.numpy)
        return self._add_constant(Descriptor(kind, ()), data.astype(kind.numpy), name)

    def _add_constant(self, descriptor: Descriptor, data: Any, name: str) -> MLOperand:
        if name in self._constant_names:
            raise ArgumentError(
                f"got '{printable(name)}' a second time; allowed: a new name", operator="constant", operand="name"
            )
        value = Value(descriptor)
        self._constants[value] = Constant(data, name)
        if name:
            self._constant_names.add(name)
        return MLOperand(self, value, name)

    # Building

    def build(
        self,
        outputs: Mapping[str, MLOperand],
        *,
        optimize: bool | Iterable[str] | None = None,
        alias: Mapping[str, str] | None = None,
        autotune: bool = False,
        decompose: bool = False,
        compiler_options: Mapping[str, Any] | None = None,
    ) -> MLGraph:
        """Validates, lowers and compiles the graph that ``outputs`` depend on. The builder cannot be used afterwards.

        Arguments:
            outputs: operands by name.
            optimize: False compiles the graph as written; names of rewrites apply only those. By default as the context says.
            alias: output name → input name (extension): the output is written over the input, in place where the device can. A
                dispatch may then bind one tensor as both (a KV cache), which the specification does not allow; arrays that were
                taken from that tensor before are gone. Where they are two tensors, the input is copied and keeps its data.
            autotune: measures the few compiler options that are worth trying on the device, and keeps the fastest; with a cache
                on disk, for later builds too.
            decompose: ops that the specification emulates by simpler ops become those (extension): a second opinion, slower and
                less exact than the lowerings.
            compiler_options: XLA's, by name (extension); they go before those chosen by rule or ``autotune``.

        Errors: ArgumentError for no outputs, an empty name, a foreign operand, or an input or constant as an output
        (use ``identity``): the builder stays usable. OperationError if XLA fails; it names the op and its label, or the
        option that XLA does not know.
        """
        self._check_open("build")
        graph = self._graph(outputs)
        from webnn_xla.mlgraph import MLGraph

        MLGraph._check_alias(graph, alias)
        for name, value in (compiler_options or {}).items():
            if not isinstance(name, str) or not isinstance(value, (str, bool, int, float)):
                raise ArgumentError(
                    f"got {name!r}: {value!r}; allowed: XLA's names of options, with strings, booleans or numbers",
                    operator="build",
                    operand="compiler_options",
                )
        if decompose:
            from webnn_xla.rewrites.decompose import decompose as rewrite

            graph = rewrite(graph)
        self._built = True
        return MLGraph._build(self._context, graph, optimize=optimize, alias=alias, autotune=autotune, options=compiler_options)

    def _graph(self, outputs: Mapping[str, MLOperand]) -> Graph:
        if not isinstance(outputs, Mapping) or not outputs:
            raise ArgumentError("got no outputs; allowed: a mapping of names to operands", operator="build", operand="outputs")
        for name, operand in outputs.items():
            if not isinstance(name, str) or not name:
                raise ArgumentError(
                    f"got the name {name!r}; allowed: a string that is not empty", operator="build", operand="outputs"
                )
            self._own(operand, "build", f"outputs['{printable(name)}']", "")
            if operand._value not in self._producers:
                raise ArgumentError(
                    f"got {operand!r}; allowed: the result of an op (identity passes an input or constant on)",
                    operator="build",
                    operand=f"outputs['{printable(name)}']",
                )
        values = {name: operand._value for name, operand in outputs.items()}
        graph = Graph(dict(self._inputs), dict(self._constants), tuple(self._nodes), values).reachable()
        for value, tensor in self._constant_tensors.items():
            if value in graph.constants:
                tensor._check(self._context, "build", "constant tensor")
        return graph

    # Ops: called by the generated methods

    def _emit(self, op: type[Op], operands: dict[str, Any], attributes: dict[str, Any], label: Any) -> Any:
        """Checks one call against its declaration, and records it. Nothing is recorded if anything is wrong."""
        if not isinstance(label, str):
            raise ArgumentError(f"got {label!r}; allowed: a string", operator=op.name, operand="label")
        self._check_open(op.name, label)
        try:
            return self._record(op, operands, attributes, label)
        except Rejected as error:
            raise located(error, op.name, label) from None

    def _record(self, op: type[Op], operands: dict[str, Any], attributes: dict[str, Any], label: str) -> Any:
        values: dict[str, Value | tuple[Value, ...]] = {}
        descriptors: dict[str, Any] = {}
        converted: dict[str, Any] = {}
        for name, argument in op.arguments.items():
            if isinstance(argument, (Operand, OptionalOperand)):
                given = operands.get(name)
                if given is None and isinstance(argument, OptionalOperand):
                    descriptors[name] = None
                    continue
                value = self._own(given, op.name, name, label)
                values[name], descriptors[name] = value, value.descriptor
                self._check_limits(name, value.descriptor, argument, descriptors)
            elif isinstance(argument, OperandList):
                items: Any = operands.get(name)
                if isinstance(items, (MLOperand, str)) or not hasattr(items, "__iter__"):
                    raise Rejected(name, type(items).__name__, "a sequence of operands")
                group = tuple(self._own(item, op.name, f"{name}[{i}]", label) for i, item in enumerate(items))
                values[name], descriptors[name] = group, [value.descriptor for value in group]
                for i, value in enumerate(group):
                    self._check_limits(f"{name}[{i}]", value.descriptor, argument, descriptors)
            else:
                given = attributes.get(name)
                converted[name] = None if given is None and name in _OPTIONAL[op] else argument.kind.convert(given, name)
        if op.rule is None:
            first = next(iter(values.values()))
            results = [first.descriptor] if isinstance(first, Value) else []
        else:
            inferred = op.rule(**descriptors, **converted)
            results = [inferred] if isinstance(inferred, Descriptor) else list(inferred)
        for index, result in enumerate(results):
            problem = result.check_dimensions(self._context.max_tensor_byte_length)
            if problem:
                raise ArgumentError(
                    problem, operator=op.name, operand="output" if len(results) == 1 else f"output{index}", label=label
                )
        outputs = tuple(Value(result) for result in results)
        node = Node(op, values, converted, outputs, label)
        self._nodes.append(node)
        for value in outputs:
            self._producers[value] = node
        made = [MLOperand(self, value) for value in outputs]
        return made[0] if isinstance(op.rule is None or inferred, (bool, Descriptor)) else made

    def _check_limits(
        self, name: str, given: Descriptor, declared: Operand | OperandList | OptionalOperand, seen: Mapping[str, Any]
    ) -> None:
        if isinstance(declared.types, Same):
            other = seen[declared.types.operand]
            if given.data_type is not other.data_type:
                raise Rejected(name, f"{given}", f"{other.data_type}, the data type of {declared.types.operand}")
        else:
            allowed: Types = declared.types + declared.extensions
            if given.data_type not in allowed:
                raise Rejected(name, f"{given}", f"data types {', '.join(allowed)}")
        if isinstance(declared.ranks, SameRank):
            other = seen[declared.ranks.operand]
            if given.rank != other.rank:
                raise Rejected(name, f"{given} of rank {given.rank}", f"rank {other.rank}, that of {declared.ranks.operand}")
            return
        low, high = declared.ranks
        if given.rank < low or (high is not None and given.rank > high):
            wanted = f"rank {low}" if low == high else f"rank {low} or more" if high is None else f"rank {low} to {high}"
            raise Rejected(name, f"{given} of rank {given.rank}", wanted)

    # Helpers

    def _own(self, operand: Any, operator: str, name: str, label: str) -> Value:
        if not isinstance(operand, MLOperand):
            raise ArgumentError(
                f"got {type(operand).__name__}; allowed: an MLOperand of this builder",
                operator=operator,
                operand=name,
                label=label,
            )
        if operand._builder is not self:
            raise ArgumentError(
                f"got {operand!r} of another builder; allowed: an operand of this builder",
                operator=operator,
                operand=name,
                label=label,
            )
        return operand._value

    def _describe(self, operator: str, descriptor: Any, data_type: Any = None) -> Descriptor:
        try:
            described = MLOperandDescriptor.of(descriptor) if data_type is None else Descriptor(data_type, descriptor)
        except ArgumentError as error:
            raise located(error, operator) from None
        problem = described.check_dimensions(self._context.max_tensor_byte_length)
        if problem:
            raise ArgumentError(problem, operator=operator, operand="descriptor")
        return described

    def _check_open(self, operator: str, label: str = "") -> None:
        self._context._check_alive(operator, label)
        if self._built:
            raise InvalidStateError(
                "this builder has built its graph; make a new MLGraphBuilder for another", operator=operator, label=label
            )


class _Optional(dict[type[Op], frozenset[str]]):
    """Options whose default is None, by op."""

    def __missing__(self, op: type[Op]) -> frozenset[str]:
        names = frozenset(name for name, arg in op.arguments.items() if getattr(arg, "default", 0) is None)
        self[op] = names
        return names


_OPTIONAL = _Optional()
