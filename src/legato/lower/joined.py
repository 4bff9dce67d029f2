"""Groups that become one before they are lowered: a contraction, and the windows of one channel each that alone read
its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from legato.arith.expr import Const
from legato.ir import expr as ir
from legato.ir.atoms import is_primitive
from legato.ir.let import Binding
from legato.ir.types import FuncType, TensorType
from legato.ir.visit import free_vars, substitute

__all__ = ["with_cascades"]

FEW = 49  # weights of a channel that may be a window's: 7 × 7

IsCascade = Callable[[ir.Function, Sequence[bool]], bool]  # a group, and which of its arguments are constants


def with_cascades(bindings: Sequence[Binding], result: ir.Expr, is_cascade: IsCascade) -> list[Binding]:
    """`bindings` with groups joined that are better computed by one kernel, which `is_cascade` tells."""
    users = Counter(v for e in (*(value for _, value in bindings), result) for v in free_vars(e))
    done: dict[ir.Var, ir.Expr] = {}
    for var, value in bindings:
        done[var] = value
        if isinstance(value, ir.Call) and isinstance(value.op, ir.Function) and is_primitive(value.op):
            for n, arg in enumerate(value.args):
                first = done.get(arg) if isinstance(arg, ir.Var) and users[arg] == 1 else None
                joined = _joined(first, value, n, is_cascade) if isinstance(first, ir.Call) else None
                if isinstance(arg, ir.Var) and joined is not None:
                    done[var] = joined
                    del done[arg]
                    break
    return list(done.items())


def _joined(first: ir.Call, second: ir.Call, n: int, is_cascade: IsCascade) -> ir.Call | None:
    """The call of both groups as one, where `second` takes what `first` computes as argument `n`; None if they are no
    such cascade."""
    if not isinstance(first.op, ir.Function) or not _may_be(first, second, n):
        return None
    call = _composed(first, second, n)
    assert isinstance(call.op, ir.Function)
    return call if is_cascade(call.op, [isinstance(a, ir.Constant) for a in call.args]) else None


def _may_be(first: ir.Call, second: ir.Call, n: int) -> bool:
    """Whether the arguments leave it open: tensors, and weights, of which the second has few for each channel."""
    between, out = first.ty, second.ty
    args = (*first.args, *second.args)
    if not all(isinstance(a.ty, TensorType) for a in args) or not is_primitive(first.op):
        return False
    if first.op is second.op or sum(a is second.args[n] for a in second.args) != 1:
        return False
    if not isinstance(between, TensorType) or not isinstance(out, TensorType):
        return False
    channels = {int(d.value) for d in between.shape if isinstance(d, Const) and d in out.shape}
    weights = [a.data for a in second.args if isinstance(a, ir.Constant) and a.data.ndim > 1]
    few = any(c > 1 and w.size <= FEW * c for w in weights for c in channels.intersection(w.shape))
    return few and any(isinstance(a, ir.Constant) and a.data.ndim > 1 for a in first.args)


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
