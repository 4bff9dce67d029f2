"""An unrolled GRU: the body of its cell, once for each step."""

from __future__ import annotations

from typing import Any

from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.ir.types import TensorType, tensor_type
from legato.ir.visit import substitute
from legato.testing.init import create_workload
from legato.testing.layers import Layers

__all__ = ["get_net", "get_workload", "gru_cell"]


def gru_cell(num_hidden: int, batch_size: int = 1, dtype: str = "float32", name: str = "") -> Function:
    """(x, h, i2h_weight, i2h_bias, h2h_weight, h2h_bias) to the next h.

    Gates are in the order reset, update, new; x and h are (batch, num_hidden).
    """
    b = Layers().b
    state = tensor_type((batch_size, num_hidden), dtype)
    x, h = b.var("inputs", state), b.var("state", state)
    params = [b.var(f"{name}{n}", ty) for n, ty in _weights(num_hidden, dtype)]
    of_x = b.nn.bias_add(b.nn.dense(x, params[0], units=3 * num_hidden), params[1], axis=-1)
    of_h = b.nn.bias_add(b.nn.dense(h, params[2], units=3 * num_hidden), params[3], axis=-1)
    parts = [b.split(gates, indices_or_sections=3, axis=1) for gates in (of_x, of_h)]
    reset, update = (b.sigmoid(b.add(b.get(parts[0], n), b.get(parts[1], n))) for n in (0, 1))
    new = b.tanh(b.add(b.get(parts[0], 2), b.multiply(reset, b.get(parts[1], 2))))
    kept, added = b.multiply(update, h), b.multiply(b.subtract(b.constant(1.0, dtype), update), new)
    return b.function([x, h, *params], b.add(added, kept))


def _weights(num_hidden: int, dtype: str) -> list[tuple[str, TensorType]]:
    weight, bias = tensor_type((3 * num_hidden, num_hidden), dtype), tensor_type((3 * num_hidden,), dtype)
    return [("i2h_weight", weight), ("i2h_bias", bias), ("h2h_weight", weight), ("h2h_bias", bias)]


def get_net(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> Function:
    """(iterations, batch, num_hidden) and the cell's weights to the last state (batch, num_hidden).

    The state begins as zeros.
    """
    net = Layers()
    b = net.b
    data = net.data((iterations, batch_size, num_hidden), dtype)
    params = [b.var(n, ty) for n, ty in _weights(num_hidden, dtype)]
    cell = gru_cell(num_hidden, batch_size, dtype)
    state: Expr = b.zeros(shape=(batch_size, num_hidden), dtype=dtype)
    for step in range(iterations):
        x = b.take(data, b.constant(step), axis=0)
        state = substitute(cell.body, dict(zip(cell.params, (x, state, *params), strict=True)))
    return b.function([data, *params], state)


def get_workload(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> tuple[Module, dict[str, Any]]:
    """The typed module, and random parameters."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
