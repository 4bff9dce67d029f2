"""An unrolled LSTM: the body of its cell, once for each step."""

from __future__ import annotations

from typing import Any

from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType, tensor_type
from legato.ir.visit import substitute
from legato.testing.init import create_workload
from legato.testing.layers import Layers

__all__ = ["get_net", "get_workload", "lstm_cell"]


def lstm_cell(num_hidden: int, batch_size: int = 1, dtype: str = "float32", name: str = "") -> Function:
    """(x, (h, c), i2h_weight, i2h_bias, h2h_weight, h2h_bias) to (h, (h, c)).

    Gates are in the order input, forget, cell, output; x and h are (batch, num_hidden).
    """
    b = Layers().b
    state = tensor_type((batch_size, num_hidden), dtype)
    weight, bias = tensor_type((4 * num_hidden, num_hidden), dtype), tensor_type((4 * num_hidden,), dtype)
    x, states = b.var("inputs", state), b.var("states", TupleType((state, state)))
    params = [b.var(f"{name}{n}", ty) for n, ty in _weights(weight, bias)]
    gates = b.add(
        b.nn.bias_add(b.nn.dense(x, params[0], units=4 * num_hidden), params[1], axis=-1),
        b.nn.bias_add(b.nn.dense(b.get(states, 0), params[2], units=4 * num_hidden), params[3], axis=-1),
    )
    parts = b.split(gates, indices_or_sections=4, axis=1)
    enter, forget, new, leave = (b.get(parts, n) for n in range(4))
    cell = b.add(
        b.multiply(b.sigmoid(forget), b.get(states, 1)),
        b.multiply(b.sigmoid(enter), b.tanh(new)),
    )
    hidden = b.multiply(b.sigmoid(leave), b.tanh(cell))
    return b.function([x, states, *params], b.tuple_([hidden, b.tuple_([hidden, cell])]))


def _weights(weight: TensorType, bias: TensorType) -> list[tuple[str, TensorType]]:
    return [("i2h_weight", weight), ("i2h_bias", bias), ("h2h_weight", weight), ("h2h_bias", bias)]


def get_net(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> Function:
    """(iterations, batch, num_hidden) and the cell's weights to the last hidden state (batch, num_hidden).

    The states begin as zeros.
    """
    net = Layers()
    b = net.b
    data = net.data((iterations, batch_size, num_hidden), dtype)
    weight, bias = tensor_type((4 * num_hidden, num_hidden), dtype), tensor_type((4 * num_hidden,), dtype)
    params = [b.var(n, ty) for n, ty in _weights(weight, bias)]
    cell = lstm_cell(num_hidden, batch_size, dtype)
    zero = b.zeros(shape=(batch_size, num_hidden), dtype=dtype)
    states: Expr = b.tuple_([zero, zero])
    hidden: Expr = zero
    for step in range(iterations):
        x = b.take(data, b.constant(step), axis=0)
        result = substitute(cell.body, dict(zip(cell.params, (x, states, *params), strict=True)))
        hidden, states = b.get(result, 0), b.get(result, 1)
    return b.function([data, *params], hidden)


def get_workload(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
