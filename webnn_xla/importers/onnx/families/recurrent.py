"""LSTM, GRU and RNN: WebNN's own ops where they can say it, else one step after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from webnn_xla.importers.onnx.errors import Malformed, Unsupported
from webnn_xla.importers.onnx.node import Node
from webnn_xla.importers.onnx.table import onnx_op
from webnn_xla.importers.onnx.types import INT32
from webnn_xla.importers.onnx.values import Tensor

MAX_STEPS = 1024
"""Steps that are written out where WebNN's op does not have what the node asks for."""

_WEBNN = {"relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh"}
_DIRECTIONS = {"forward": "forward", "reverse": "backward", "bidirectional": "both"}

Activation = Callable[[Tensor], Tensor]


class Setup:
    """What the three operators share: inputs in [steps, batch, size], directions, activations, lengths."""

    def __init__(self, n: Node, gates: int, defaults: list[str]) -> None:
        self.n = n
        self.batch_first = bool(n.attr("layout", 0))
        x = n[0]
        if x.rank != 3:
            raise Malformed(f"the input {x} is not of rank 3")
        self.x = n.permuted(x, [1, 0, 2]) if self.batch_first else x
        self.steps, self.batch = self.x.shape[:2]
        self.w, self.r, self.b = n[1], n[2], n.get(3)
        self.direction = n.attr("direction", "forward")
        if self.direction not in _DIRECTIONS:
            raise Malformed(f"direction {self.direction!r}")
        self.directions = 2 if self.direction == "bidirectional" else 1
        self.hidden = n.attr("hidden_size", self.r.shape[-1])
        if self.w.shape[:2] != (self.directions, gates * self.hidden) or self.r.rank != 3:
            raise Malformed(f"weights {self.w} do not fit {self.directions} directions of {gates} × {self.hidden}")
        names = [a.lower() for a in n.attr("activations", defaults * self.directions)]
        if len(names) != len(defaults) * self.directions:
            raise Malformed(f"activations {names} do not fit {self.directions} directions")
        self.names = names
        self.per_direction = len(defaults)
        self.clip = n.attr("clip", 0.0)
        self.lengths = self._lengths(n.get(4))
        self.half = gates * self.hidden

    def _lengths(self, given: Tensor | None) -> Tensor | None:
        """None where every sequence has all steps."""
        if given is None or (given.data is not None and np.all(given.data == self.steps)):
            return None
        return self.n.cast_to(given, INT32)

    @property
    def plain(self) -> bool:
        """Whether WebNN's op has all that is asked for."""
        first = self.names[: self.per_direction]
        return (
            not self.clip
            and self.lengths is None
            and all(name in _WEBNN for name in self.names)
            and self.names == first * self.directions
            and not any(self.n.attributes.get(k) for k in ("activation_alpha", "activation_beta"))
            and "float" in self.x.dtype.name
        )

    def state(self, index: int) -> Tensor | None:
        """An initial state as [directions, batch, hidden]."""
        given = self.n.get(index)
        return given if given is None or not self.batch_first else self.n.permuted(given, [1, 0, 2])

    def biases(self) -> tuple[Tensor | None, Tensor | None]:
        if self.b is None:
            return None, None
        return self.n.cut(self.b, 1, 0, self.half), self.n.cut(self.b, 1, self.half, self.half)

    def activation(self, direction: int, index: int) -> Activation:
        """An activation with its alpha and beta, after clipping."""
        n, place = self.n, direction * self.per_direction + index
        name = self.names[place]

        def parameter(which: str, default: float) -> float:
            values = n.attributes.get(which) or []
            return float(values[place]) if place < len(values) else default

        alpha = {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "elu": 1.0, "hardsigmoid": 0.2, "affine": 1.0, "scaledtanh": 1.0}
        a, b = (
            parameter("activation_alpha", alpha.get(name, 1.0)),
            parameter("activation_beta", 0.5 if name == "hardsigmoid" else 1.0),
        )
        functions: dict[str, Activation] = {
            "relu": lambda x: n.relu(x),
            "tanh": lambda x: n.tanh(x),
            "sigmoid": lambda x: n.sigmoid(x),
            "leakyrelu": lambda x: n.leaky_relu(x, alpha=a),
            "thresholdedrelu": lambda x: n.where(n.greater_or_equal(x, a), x, n.const(0, x)),
            "scaledtanh": lambda x: n.mul(n.tanh(n.mul(x, b)), a),
            "hardsigmoid": lambda x: n.hard_sigmoid(x, alpha=a, beta=b),
            "elu": lambda x: n.elu(x, alpha=a),
            "softsign": lambda x: n.softsign(x),
            "softplus": lambda x: n.softplus(x),
            "affine": lambda x: n.add(n.mul(x, a), parameter("activation_beta", 0.0)),
        }
        if name not in functions:
            raise Unsupported(f"activation {name!r}")
        function = functions[name]
        if not self.clip:
            return function
        return lambda x: function(n.clamp(x, min_value=-self.clip, max_value=self.clip))

    def unrolled(self, states: int, cell: Callable[[int, Tensor, list[Tensor]], list[Tensor]]) -> tuple[Tensor, list[Tensor]]:
        """Runs ``cell(direction, x·Wᵀ + b at a step, states)``; all outputs, stacked
        as [steps, directions, batch, hidden], and the last states."""
        n = self.n
        if self.steps > MAX_STEPS:
            raise Unsupported(f"{self.steps} steps of a cell that WebNN does not have; at most {MAX_STEPS}")
        outputs, finals = [], []
        bias, _ = self.biases()
        for d in range(self.directions):
            backward = self.direction == "reverse" or d == 1
            current = []
            for k in range(states):
                given = self.state(5 + k)
                zero = n.const(np.zeros((self.batch, self.hidden)), self.x)
                current.append(zero if given is None else n.squeezed(n.cut(given, 0, d, 1), [0]))
            weights = n.permuted(n.squeezed(n.cut(self.w, 0, d, 1), [0]), [1, 0])
            inputs = n.matmul(self.x, n.to(weights, [1, *weights.shape]) if self.x.rank == 3 else weights)
            if bias is not None:
                inputs = n.add(inputs, n.squeezed(n.cut(bias, 0, d, 1), [0]))
            made: list[Tensor] = [current[0]] * self.steps
            for t in reversed(range(self.steps)) if backward else range(self.steps):
                following = cell(d, n.squeezed(n.cut(inputs, 0, t, 1), [0]), current)
                result = following[0]
                if self.lengths is not None:
                    inside = n.to(n.greater(self.lengths, t), [self.batch, 1])
                    following = [n.where(inside, new, old) for new, old in zip(following, current, strict=True)]
                    result = n.where(inside, result, n.const(0, result))
                current, made[t] = following, result
            outputs.append(
                n.to(n.concat([n.unsqueezed(m, [0]) for m in made], axis=0), [self.steps, 1, self.batch, self.hidden])
            )
            finals.append(current)
        last = [n.joined([n.unsqueezed(f[k], [0]) for f in finals], 0) for k in range(states)]
        return n.joined(outputs, 1), last

    def results(self, sequence: Tensor | None, finals: list[Tensor]) -> list[Tensor | None]:
        n = self.n
        if self.batch_first:
            sequence = None if sequence is None else n.permuted(sequence, [2, 0, 1, 3])
            finals = [n.permuted(f, [1, 0, 2]) for f in finals]
        return [sequence, *finals]


def _direction_part(n: Node, x: Tensor, d: int) -> Tensor:
    return n.squeezed(n.cut(x, 0, d, 1), [0])


@onnx_op("LSTM", since=7)
def lstm(n: Node) -> list[Tensor | None]:
    s = Setup(n, 4, ["Sigmoid", "Tanh", "Tanh"])
    peephole = n.get(7)
    coupled = bool(n.attr("input_forget", 0))
    if s.plain and not coupled:
        bias, recurrent = s.biases()
        results = n.lstm(
            s.x,
            s.w,
            s.r,
            s.steps,
            s.hidden,
            bias=bias,
            recurrent_bias=recurrent,
            peephole_weight=peephole,
            initial_hidden_state=s.state(5),
            initial_cell_state=s.state(6),
            return_sequence=n.wants(0),
            direction=_DIRECTIONS[s.direction],
            layout="iofg",
            activations=[_WEBNN[name] for name in s.names[:3]],
        )
        return s.results(results[2] if n.wants(0) else None, results[:2])
    _, recurrent = s.biases()
    h = s.hidden

    def cell(d: int, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        hidden, memory = states
        gates = n.add(x, n.matmul(hidden, n.permuted(_direction_part(n, s.r, d), [1, 0])))
        if recurrent is not None:
            gates = n.add(gates, _direction_part(n, recurrent, d))
        i, o, f, c = (n.cut(gates, 1, k * h, h) for k in range(4))
        first, second, third = (s.activation(d, k) for k in range(3))
        if peephole is not None:
            p = _direction_part(n, peephole, d)
            i = n.add(i, n.mul(n.cut(p, 0, 0, h), memory))
            f = n.add(f, n.mul(n.cut(p, 0, 2 * h, h), memory))
        i = first(i)
        f = n.sub(1.0, i) if coupled else first(f)
        memory = n.add(n.mul(f, memory), n.mul(i, second(c)))
        if peephole is not None:
            o = n.add(o, n.mul(n.cut(_direction_part(n, peephole, d), 0, h, h), memory))
        return [n.mul(first(o), third(memory)), memory]

    sequence, finals = s.unrolled(2, cell)
    return s.results(sequence, finals)


@onnx_op("GRU", since=7)
def gru(n: Node) -> list[Tensor | None]:
    s = Setup(n, 3, ["Sigmoid", "Tanh"])
    after = bool(n.attr("linear_before_reset", 0))
    bias, recurrent = s.biases()
    if s.plain:
        results = n.gru(
            s.x,
            s.w,
            s.r,
            s.steps,
            s.hidden,
            bias=bias,
            recurrent_bias=recurrent,
            initial_hidden_state=s.state(5),
            reset_after=after,
            return_sequence=n.wants(0),
            direction=_DIRECTIONS[s.direction],
            layout="zrn",
            activations=[_WEBNN[name] for name in s.names[:2]],
        )
        return s.results(results[1] if n.wants(0) else None, results[:1])
    h = s.hidden

    def cell(d: int, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        (hidden,) = states
        weights = _direction_part(n, s.r, d)
        rb = n.const(np.zeros(3 * h), x) if recurrent is None else _direction_part(n, recurrent, d)
        first, second = s.activation(d, 0), s.activation(d, 1)

        def product(y: Tensor, start: int, count: int) -> Tensor:
            return n.matmul(y, n.permuted(n.cut(weights, 0, start * h, count * h), [1, 0]))

        both = n.add(n.add(n.cut(x, 1, 0, 2 * h), product(hidden, 0, 2)), n.cut(rb, 0, 0, 2 * h))
        z, r = first(n.cut(both, 1, 0, h)), first(n.cut(both, 1, h, h))
        rest = n.cut(rb, 0, 2 * h, h)
        inner = n.mul(r, n.add(product(hidden, 2, 1), rest)) if after else n.add(product(n.mul(r, hidden), 2, 1), rest)
        new = second(n.add(n.cut(x, 1, 2 * h, h), inner))
        return [n.add(n.mul(n.sub(1.0, z), new), n.mul(z, hidden))]

    sequence, finals = s.unrolled(1, cell)
    return s.results(sequence, finals)


@onnx_op("RNN", since=7)
def rnn(n: Node) -> list[Tensor | None]:
    s = Setup(n, 1, ["Tanh"])
    _, recurrent = s.biases()

    def cell(d: int, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        total = n.add(x, n.matmul(states[0], n.permuted(_direction_part(n, s.r, d), [1, 0])))
        if recurrent is not None:
            total = n.add(total, _direction_part(n, recurrent, d))
        return [s.activation(d, 0)(total)]

    sequence, finals = s.unrolled(1, cell)
    return s.results(sequence, finals)
