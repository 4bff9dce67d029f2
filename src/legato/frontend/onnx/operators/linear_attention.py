"""Attention whose keys and values are held in a state, and the convolution before it that goes on from a state."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

from legato.arith.expr import Const, const, eq, select
from legato.arith.prove import provably_different, prove_equal
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError
from legato.frontend.dims import cut
from legato.frontend.heads import head_scale
from legato.frontend.onnx.causal import causal_conv
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.frames import Captures
from legato.frontend.onnx.loops import Loop, Stack
from legato.ir.expr import Expr
from legato.ir.types import Dim

_RULES = {"linear": set[str](), "gated": {"decay"}, "delta": {"beta"}, "gated_delta": {"beta", "decay"}}


def linear_attention(
    b: Emitter,
    query: Expr,
    key: Expr,
    value: Expr,
    past_state: Expr | None = None,
    decay: Expr | None = None,
    beta: Expr | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Expr, Expr]:
    """What queries find in a state [batch, heads, key, value] to which each step adds its key and value; and the state
    after the last. `chunk_size` says how others compute it."""
    given = {name for name, x in (("beta", beta), ("decay", decay)) if x is not None}
    if given != _RULES.get(update_rule):
        rules = "; ".join(f"{rule}: {' and '.join(sorted(names)) or 'neither'}" for rule, names in _RULES.items())
        got = f"update_rule is {update_rule!r}, with {' and '.join(sorted(given)) or 'neither beta nor decay'}"
        raise ImportModelError(got, hint=f"what there is with each rule: {rules}")
    if min(q_num_heads, kv_num_heads) < 1 or max(q_num_heads, kv_num_heads) % min(q_num_heads, kv_num_heads):
        raise ImportModelError(f"{q_num_heads} heads of queries and {kv_num_heads} of keys: neither divides the other")
    q, k, v = _steps(b, query, q_num_heads), _steps(b, key, kv_num_heads), _steps(b, value, kv_num_heads)
    q = _shared(b, b.multiply(q, head_scale(b, q, scale or None)), kv_num_heads)
    parts = {"q": q, "k": b.expand_dims(k, axis=3), "v": b.expand_dims(v, axis=3)}
    parts |= {} if decay is None else {"decay": _factors(b, decay, k, kv_num_heads)}
    parts |= {} if beta is None else {"beta": _rates(b, beta, kv_num_heads)}
    shape = (*b.dims_of(k)[1:], b.dims_of(v)[3])
    first = b.full(b.like(0, q), shape=shape) if past_state is None else _state(b, past_state, shape)
    y, last = _run(b, _Scan(b, parts), first, b.dims_of(query)[1])
    steps, n, *inner = b.dims_of(y)
    y = b.reshape(b.transpose(y, axes=(1, 0, 2, 3, 4)), newshape=(n, steps, b.product(inner)), allowzero=True)
    return b.to(y, b.dtype(query)), b.to(last, b.dtype(query if past_state is None else past_state))


def _steps(b: Emitter, x: Expr, heads: int) -> Expr:
    """[steps, batch, heads, size] in the dtype to compute in, of [batch, steps, heads · size]."""
    return b.transpose(cut(b, b.wide(x), heads), axes=(1, 0, 2, 3))


def _shared(b: Emitter, q: Expr, heads: int) -> Expr:
    """Queries [steps, batch, heads of keys, queries of each, size]."""
    steps, n, own, size = b.dims_of(q)
    count = int(own.value) if isinstance(own, Const) else heads
    if count < heads:
        q, count = b.repeat(q, repeats=heads // count, axis=2), heads
    return b.reshape(q, newshape=(steps, n, heads, count // heads, size), allowzero=True)


def _factors(b: Emitter, decay: Expr, k: Expr, heads: int) -> Expr:
    """What states decay by [steps, batch, heads, size of keys or 1, 1]: each head, or each element of its keys."""
    exponents = _stretched(b, _steps(b, decay, heads), 3, b.dims_of(k)[3], "decay")
    return b.exp(b.expand_dims(exponents, axis=4))


def _rates(b: Emitter, beta: Expr, heads: int) -> Expr:
    """What values are taken on by [steps, batch, heads or 1, 1, 1]."""
    rates = _stretched(b, _steps(b, beta, 1), 3, const(heads), "beta")
    return b.transpose(b.expand_dims(rates, axis=4), axes=(0, 1, 3, 2, 4))


def _stretched(b: Emitter, x: Expr, axis: int, wanted: Dim, what: str) -> Expr:
    """`x` with a dim that is 1 or `wanted`, in a call if it is not known here."""
    own = b.dims_of(x)[axis]
    if b.is_one(own) or prove_equal(own, wanted):
        return x
    if isinstance(own, Const) and provably_different(own, wanted):
        raise ImportModelError(f"{what} has {own} numbers for each head or key, wanted 1 or {wanted}")
    b.require(simplify(select(eq(own, const(1)), wanted, own)), wanted, f"numbers of {what}, if there is not one")
    places = b.arange(start=const(0), stop=wanted, step=1, dtype=dt.int64)
    last = b.subtract(b.extent(own, dt.int64), b.constant(1, dt.int64))
    return b.take(x, b.minimum(places, last), axis=axis, mode="fast")


def _state(b: Emitter, state: Expr, shape: tuple[Dim, ...]) -> Expr:
    """The state before the first step."""
    if b.rank(state) != 4:
        raise ImportModelError(f"a state {state.ty}, wanted one of rank 4")
    for own, wanted in zip(b.dims_of(state), shape, strict=True):
        b.require(own, wanted, "an extent of the state")
    return b.wide(state)


@dataclass(frozen=True, slots=True)
class _Scan:
    """What the steps are of: queries, keys and values, and what there is of decay and beta, steps first."""

    b: Emitter
    given: Mapping[str, Expr]

    def step(self, state: Expr, part: Mapping[str, Expr]) -> tuple[Expr, Expr]:
        """What a step gives, and the state after it."""
        b, value = self.b, part["v"]
        if "decay" in part:
            state = b.multiply(state, part["decay"])
        if "beta" in part:
            value = b.multiply(part["beta"], b.subtract(value, b.matmul(part["k"], state)))
        state = b.add(state, b.multiply(b.transpose(part["k"], axes=(0, 1, 3, 2)), value))
        return b.matmul(part["q"], state), state


def _run(b: Emitter, scan: _Scan, first: Expr, steps: Dim) -> tuple[Expr, Expr]:
    """What all steps give, and the last state. A single step needs no loop."""
    if b.is_one(steps):
        y, last = scan.step(first, {name: b.squeeze(x, axis=(0,)) for name, x in scan.given.items()})
        return b.expand_dims(y, axis=0), last
    outside, captures = b.dims_here(), Captures(ChainMap(), b.named)
    i, state = b.var("i", (), "int64"), b.var("state", b.type_of(first))
    with b.bindings() as bound:
        parts = {name: b.take(captures.kept(x, name), i, axis=0, mode="fast") for name, x in scan.given.items()}
        y, after = scan.step(state, parts)
        after = b.let("after", after)
        y = b.let("y", y)
    loop = Loop(b, "steps", [state], set(), captures, b.extent(steps, dt.int64), i, None, outside)
    last, made = loop.close([after], None, [(Stack(steps), y)], [first], None, bound)
    return made, last


def causal_conv_with_state(
    b: Emitter,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    past_state: Expr | None = None,
    *,
    activation: str = "none",
) -> tuple[Expr, Expr]:
    """A convolution of each channel of x [batch, channels, length] with a window that ends at each place; and what the
    next call needs of the input."""
    return causal_conv(b, x, weight, bias, past_state, activation=activation)
