"""Groups that become one before they are lowered: a contraction, and the windows of one channel each that alone read
its result (depthwise convolutions, pooling)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np

from legato.arith.expr import Const
from legato.ir import expr as ir
from legato.ir.atoms import is_primitive
from legato.ir.let import Binding
from legato.ir.types import FuncType, TensorType
from legato.ir.visit import free_vars, substitute

__all__ = ["is_group", "with_cascades"]

FEW = 49  # weights of a channel that may be a window's: 7 × 7

IsCascade = Callable[[ir.Function, Sequence[bool]], bool]  # a group, and which of its arguments are constants


def is_group(value: ir.Expr) -> TypeGuard[ir.Call]:
    """True for the call of a primitive function."""
    return isinstance(value, ir.Call) and is_primitive(value.op)


def with_cascades(bindings: Sequence[Binding], result: ir.Expr, is_cascade: IsCascade) -> list[Binding]:
    """`bindings` with groups joined that are better computed by one kernel, which `is_cascade` tells."""
    uses = Counter(v for e in (*_readers(bindings), result) for v in free_vars(e))
    done: dict[ir.Var, ir.Expr] = {}
    for var, value in bindings:
        found = _with_first(value, done, uses, is_cascade) if is_group(value) else None
        if found is not None:
            first, value = found
            del done[first]
        done[var] = value
    return list(done.items())


def _with_first(
    second: ir.Call, done: Mapping[ir.Var, ir.Expr], uses: Mapping[ir.Var, int], is_cascade: IsCascade
) -> tuple[ir.Var, ir.Call] | None:
    """One of the groups `done` whose result only `second` reads, and both as one; None where no such is a cascade."""
    for n, arg in enumerate(second.args):
        first = done.get(arg) if isinstance(arg, ir.Var) and uses[arg] == 1 else None
        if isinstance(arg, ir.Var) and first is not None and is_group(first):
            joined = _joined(first, second, n, is_cascade)
            if joined is not None:
                return arg, joined
    return None


def _readers(bindings: Sequence[Binding]) -> Iterator[ir.Expr]:
    """What reads variables; the arguments alone of groups, whose functions are closed."""
    for _, value in bindings:
        yield from value.args if is_group(value) else (value,)


def _joined(first: ir.Call, second: ir.Call, n: int, is_cascade: IsCascade) -> ir.Call | None:
    """The call of both groups as one, where only `second` reads what `first` computes, as argument `n`; None if they
    are no such cascade."""
    if not _may_be(first, second):
        return None
    call = _composed(first, second, n)
    assert isinstance(call.op, ir.Function)
    return call if is_cascade(call.op, [isinstance(a, ir.Constant) for a in call.args]) else None


def _may_be(first: ir.Call, second: ir.Call) -> bool:
    """Whether the arguments leave it open: tensors, and weights, of which the second has few for each channel or
    none."""
    between, out = first.ty, second.ty
    if not isinstance(between, TensorType) or not isinstance(out, TensorType) or first.op is second.op:
        return False
    if not all(isinstance(a.ty, TensorType) for a in (*first.args, *second.args)):
        return False
    return next(_weights(first), None) is not None and (_is_thinned(between, out) or _has_few(second, between, out))


def _is_thinned(between: TensorType, out: TensorType) -> bool:
    """True if `out` has fewer places along two dimensions, as windows without padding, or of steps, leave them."""
    pairs = [(a, b) for a, b in zip(between.shape, out.shape, strict=False) if a != b]
    fewer = [isinstance(a, Const) and isinstance(b, Const) and a.value > b.value for a, b in pairs]
    return len(between.shape) == len(out.shape) and len(pairs) == 2 and all(fewer)


def _has_few(second: ir.Call, between: TensorType, out: TensorType) -> bool:
    """True if `second` has weights that may be those of windows of one channel each."""
    channels = {int(d.value) for d in between.shape if isinstance(d, Const) and d in out.shape}
    return any(c > 1 and w.size <= FEW * c for w in _weights(second) for c in channels.intersection(w.shape))


def _weights(call: ir.Call) -> Iterator[np.ndarray[Any, Any]]:
    return (a.data for a in call.args if isinstance(a, ir.Constant) and a.data.ndim > 1)


def _composed(first: ir.Call, second: ir.Call, n: int) -> ir.Call:
    a, b = first.op, second.op
    assert isinstance(a, ir.Function)
    assert isinstance(b, ir.Function)
    assert b.ret_type is not None
    params = (*a.params, *b.params[:n], *b.params[n + 1 :])
    types = tuple(p.ty for p in params if p.ty is not None)
    body = substitute(b.body, {b.params[n]: a.body})
    func = replace(b, params=params, body=body, ty=FuncType(types, b.ret_type))
    return replace(second, op=func, args=(*first.args, *second.args[:n], *second.args[n + 1 :]))
