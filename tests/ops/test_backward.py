"""Gradients of recurrent layers: PyTorch's, of any extents, compiled as interpreted, and of second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato import autodiff
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.expr import Expr, Function
from legato.ir.let import lets
from legato.ir.module import Module
from tests.ops.test_ops import type_of

torch = pytest.importorskip("torch")

STEPS, BATCH, INPUTS, UNITS = 5, 3, 4, 6
GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}  # where PyTorch has the gates of ours
LENGTHS = np.array([3, 5, 1])


def rows(x: Any, kind: str) -> Any:
    """PyTorch's gates in our order."""
    return np.concatenate([np.split(x, len(GATES[kind]))[n] for n in GATES[kind]])


def layer(kind: str) -> Any:
    torch.manual_seed(3)
    return getattr(torch.nn, kind)(INPUTS, UNITS).double()


def program(kind: str, values: list[Any], **attrs: Any) -> Module:
    """The layer of x, weights, biases, states (and lengths), as PyTorch computes it, in our order of gates."""
    b = Builder()
    params = [b.var(f"x{n}", type_of(v)) for n, v in enumerate(values)]
    x, w, r, bw, br, *rest = params
    count = len(GATES[kind])
    bias: Expr = b.add(bw, br)
    more = rest[(2 if kind == "LSTM" else 1) :]
    if kind == "GRU":
        parts = [b.split(v, indices_or_sections=3) for v in (bw, br)]
        first = [b.add(b.get(parts[0], n), b.get(parts[1], n)) for n in (0, 1)]
        bias = b.concatenate(*first, b.get(parts[0], 2), axis=0)
        more = [b.get(parts[1], 2), *more]
        attrs["reset_after"] = True
    flat = b.nn.dense(b.reshape(x, newshape=(-1, INPUTS)), w)
    gates = b.add(b.reshape(flat, newshape=(-1, BATCH, count * UNITS)), bias)
    states = rest[: 2 if kind == "LSTM" else 1]
    out = b.call(f"nn.{kind.lower()}_scan", gates, r, *states, *more, **attrs)
    return Module.from_expr(Function(tuple(params), out))


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("how", ["plain", "reverse", "lengths", "both"])
def test_gradients_are_torchs(kind: str, how: str) -> None:
    module, rng = layer(kind), np.random.default_rng(5)
    states = [rng.normal(size=(BATCH, UNITS)) for _ in range(2 if kind == "LSTM" else 1)]
    x = rng.normal(size=(STEPS, BATCH, INPUTS))
    weights = [p.detach().numpy() for p in module.parameters()]
    attrs = {"reverse": how in ("reverse", "both"), "lengths": how in ("lengths", "both")}
    values = [x, *(rows(w, kind) for w in weights), *states, *([LENGTHS] if attrs["lengths"] else [])]
    given = [torch.tensor(x, requires_grad=True), *(torch.tensor(s, requires_grad=True) for s in states)]
    ends = LENGTHS if attrs["lengths"] else np.full(BATCH, STEPS)
    outs, last = [], []
    for n, end in enumerate(ends):  # each sequence alone, as long as it is
        begun = [s[None, n : n + 1] for s in given[1:]]
        data = given[0][:end, n : n + 1]
        y, after = module(data.flip(0) if attrs["reverse"] else data, tuple(begun) if kind == "LSTM" else begun[0])
        outs.append(torch.nn.functional.pad(y.flip(0) if attrs["reverse"] else y, (0, 0, 0, 0, 0, STEPS - end)))
        last.append(after if kind == "LSTM" else (after,))
    results = [torch.cat(outs, 1), *(torch.cat(s, 1)[0] for s in zip(*last, strict=True))]
    dy = tuple(rng.normal(size=tuple(r.shape)) for r in results)
    torch.autograd.backward(results, [torch.tensor(d) for d in dy])
    y, grads = evaluate(autodiff.vjp(program(kind, values, **attrs)), [*values, dy])
    for got, wanted in zip(y, results, strict=True):
        np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=0, atol=1e-12)
    peers = [given[0].grad, *(p.grad for p in module.parameters()), *(s.grad for s in given[1:])]
    wanted = [p.numpy() if n in (0, *range(5, 9)) else rows(p.numpy(), kind) for n, p in enumerate(peers)]
    for g, w in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=1e-10 * np.abs(w).max())


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.shared(2)
def test_compiled_for_any_extents(kind: str) -> None:
    """Steps, batch and units are symbols: one program, with and without steps."""
    count, states = len(GATES[kind]), 2 if kind == "LSTM" else 1
    params = ", ".join(f"%h{n}: Tensor[(b, u), float32]" for n in range(states))
    names = "".join(f"%h{n}, " for n in range(states))
    text = f"""
    #[version = "0.0.5"]
    def @main(%x: Tensor[(t, b, {count} * u), float32], %w: Tensor[({count} * u, u), float32], {params}) {{
      let %y = nn.{kind.lower()}_scan(%x, %w, {names.rstrip(", ")}, reverse=True);
      sum(%y.0 * %y.0) + sum(%y.1 * %y.1)
    }}
    """
    mod = autodiff.value_and_grad(legato.parse(text))
    exe = legato.compile(mod)
    rng = np.random.default_rng(2)
    for t, b, u in ((4, 2, 5), (1, 1, 1), (0, 2, 3)):
        shapes = ((t, b, count * u), (count * u, u), *((b, u) for _ in range(states)))
        values = [rng.normal(size=s).astype(np.float32) for s in shapes]
        got, wanted = exe(*values), evaluate(mod, values)
        np.testing.assert_allclose(np.asarray(got[0]), wanted[0], rtol=1e-5)
        for g, w in zip(got[1], wanted[1], strict=True):
            np.testing.assert_allclose(np.asarray(g), w, rtol=0, atol=1e-5 * max(1, np.abs(w).max(initial=0)))


@pytest.mark.parametrize("kind", ["LSTM", "RNN"])
def test_second_order(kind: str) -> None:
    """The gradient of a sum of squares of gradients, against differences."""
    module, rng = layer(kind), np.random.default_rng(6)
    states = [rng.normal(size=(BATCH, UNITS)) for _ in range(2 if kind == "LSTM" else 1)]
    values = [rng.normal(size=(2, BATCH, INPUTS)), *(rows(p.detach().numpy(), kind) for p in module.parameters()),
              *states]  # fmt: skip
    b = Builder()
    params = [b.var(f"x{n}", type_of(v)) for n, v in enumerate(values)]
    main = program(kind, values)["main"]
    assert isinstance(main, Function)
    loss = Function(params, b.sum(b.multiply(first(b, main, params), first(b, main, params))))
    grads = autodiff.grad(loss)
    assert isinstance(grads, Function)
    flat = [b.var(f"x{n}", type_of(v)) for n, v in enumerate(values)]
    with b.bindings() as bound:
        found = b.let("g", b.apply(grads, flat))
        squares = [b.sum(b.multiply(b.get(found, n), b.get(found, n))) for n in range(len(values))]
        total = squares[0]
        for s in squares[1:]:
            total = b.add(total, s)
    second = Module.from_expr(Function(tuple(flat), lets(bound, total)))
    wanted_by = [rng.normal(size=v.shape) for v in values]
    step = 1e-6
    upper, lower = (
        evaluate(second, [v + s * d for v, d in zip(values, wanted_by, strict=True)]) for s in (step, -step)
    )
    wanted = (upper - lower) / (2 * step)
    got = evaluate(autodiff.grad(second), values)
    inner = sum(float(np.sum(g * d)) for g, d in zip(got, wanted_by, strict=True))
    assert abs(inner - wanted) <= 1e-5 * max(1.0, abs(wanted))


def first(b: Builder, main: Function, params: list[Any]) -> Expr:
    """The states of every step."""
    return b.get(b.apply(main, params), 0)


@pytest.mark.parametrize("reverse", ["True", "False"])
def test_what_stands_behind_the_ends_does_not_count(reverse: str) -> None:
    mod = autodiff.grad(
        legato.parse(f"""
    #[version = "0.0.5"]
    def @main(%x: Tensor[(3, 2, 8), float64], %w: Tensor[(8, 2), float64], %h: Tensor[(2, 2), float64],
              %n: Tensor[(2,), int32]) {{
      sum(nn.lstm_scan(%x, %w, %h, %h, %n, lengths=True, reverse={reverse}).0)
    }}
    """)
    )
    rng = np.random.default_rng(8)
    x, w, h = rng.normal(size=(3, 2, 8)), rng.normal(size=(8, 2)), rng.normal(size=(2, 2))
    n = np.array([2, 1], np.int32)
    wanted = evaluate(mod, [x, w, h, n])
    x[2:, 0], x[1:, 1] = np.nan, np.inf
    for g, v in zip(evaluate(mod, [x, w, h, n]), wanted, strict=True):
        np.testing.assert_array_equal(g, v)
