"""LSTM, GRU and plain recurrent layers: one product of the inputs of all steps with the weight, then a scan."""

from __future__ import annotations

from collections.abc import Sequence

from legato.base.dtype import uint8
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter
from legato.frontend.torch.operators._recurrent import GRU, LSTM, RELU, TANH, layers, packed
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr

Tensors = Sequence[Expr]

_LSTM_MODE = 2  # of mkldnn_rnn_layer


@aten("lstm.input", "legato::lstm")
def lstm(
    b: Emitter, input: Expr, hx: Tensors, params: Tensors, has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Expr, ...]:  # fmt: skip
    """Outputs of all steps, and the last hidden and cell states of each layer and direction."""
    _require_no_dropout(dropout, train, num_layers)
    return layers(b, LSTM, input, hx, params, has_biases, num_layers, bidirectional, batch_first)


@aten("gru.input", "legato::gru")
def gru(
    b: Emitter, input: Expr, hx: Expr, params: Tensors, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Expr, ...]:  # fmt: skip
    _require_no_dropout(dropout, train, num_layers)
    return layers(b, GRU, input, (hx,), params, has_biases, num_layers, bidirectional, batch_first)


@aten("rnn_tanh.input", "legato::rnn_tanh")
def rnn_tanh(
    b: Emitter, input: Expr, hx: Expr, params: Tensors, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Expr, ...]:  # fmt: skip
    _require_no_dropout(dropout, train, num_layers)
    return layers(b, TANH, input, (hx,), params, has_biases, num_layers, bidirectional, batch_first)


@aten("rnn_relu.input", "legato::rnn_relu")
def rnn_relu(
    b: Emitter, input: Expr, hx: Expr, params: Tensors, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[Expr, ...]:  # fmt: skip
    _require_no_dropout(dropout, train, num_layers)
    return layers(b, RELU, input, (hx,), params, has_biases, num_layers, bidirectional, batch_first)


@aten("mkldnn_rnn_layer")
def mkldnn_rnn_layer(
    b: Emitter, input: Expr, weight0: Expr, weight1: Expr, weight2: Expr, weight3: Expr, hx_: Expr, cx_: Expr,
    reverse: bool, batch_sizes: Sequence[int], mode: int, hidden_size: int, num_layers: int, has_biases: bool,
    bidirectional: bool, batch_first: bool, train: bool,
) -> tuple[Expr, ...]:  # fmt: skip
    """One direction of one layer of an LSTM, and a workspace, which is of no use here."""
    if mode != _LSTM_MODE or num_layers != 1 or bidirectional or batch_sizes:
        got = f"mode={mode}, num_layers={num_layers}, bidirectional={bidirectional}, batch_sizes={list(batch_sizes)}"
        raise UnsupportedError(got, hint="one direction of one layer of an LSTM is known")
    weights = (weight0, weight1, weight2, weight3) if has_biases else (weight0, weight1)
    found = layers(b, LSTM, input, (hx_, cx_), weights, has_biases, 1, False, batch_first, reverse=reverse)
    return *found, b.zeros_of((b.size(0),), uint8)


# ------------------------------------------------------------------ packed sequences


@aten("lstm.data")
def packed_lstm(
    b: Emitter, data: Expr, batch_sizes: Expr, hx: Tensors, params: Tensors, has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool,
) -> tuple[Expr, ...]:  # fmt: skip
    _require_no_dropout(dropout, train, num_layers)
    return packed(b, LSTM, data, batch_sizes, hx, params, has_biases, num_layers, bidirectional)


@aten("gru.data")
def packed_gru(
    b: Emitter, data: Expr, batch_sizes: Expr, hx: Expr, params: Tensors, has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool,
) -> tuple[Expr, ...]:  # fmt: skip
    _require_no_dropout(dropout, train, num_layers)
    return packed(b, GRU, data, batch_sizes, (hx,), params, has_biases, num_layers, bidirectional)


@aten("rnn_tanh.data")
def packed_rnn_tanh(
    b: Emitter, data: Expr, batch_sizes: Expr, hx: Expr, params: Tensors, has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool,
) -> tuple[Expr, ...]:  # fmt: skip
    _require_no_dropout(dropout, train, num_layers)
    return packed(b, TANH, data, batch_sizes, (hx,), params, has_biases, num_layers, bidirectional)


@aten("rnn_relu.data")
def packed_rnn_relu(
    b: Emitter, data: Expr, batch_sizes: Expr, hx: Expr, params: Tensors, has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool,
) -> tuple[Expr, ...]:  # fmt: skip
    _require_no_dropout(dropout, train, num_layers)
    return packed(b, RELU, data, batch_sizes, (hx,), params, has_biases, num_layers, bidirectional)


def _require_no_dropout(dropout: float, train: bool, count: int) -> None:
    if dropout > 0 and train and count > 1:
        raise UnsupportedError(f"dropout={dropout} between layers", hint="call eval() before, or set it to 0")
