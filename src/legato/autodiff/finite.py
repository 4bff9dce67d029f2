"""Where a gradient stops being finite.

Each operator's result, and each parameter, gets a probe: the identity, whose gradient is another one that carries its
name. The interpreter, which sees every value, meets these in the order in which cotangents are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from legato.autodiff.program import Wrt, as_module, main_of, names_of
from legato.base.dataclass import dataclass
from legato.base.errors import RunError
from legato.base.node import post_order, rebuild
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Expr, Function, Let, Tuple, Var
from legato.ir.let import Binding, lets
from legato.ir.module import Module
from legato.ir.op import Op, Relation
from legato.ir.types import TensorType, Type
from legato.ir.visit import substitute
from legato.transform._external import is_own
from legato.transform.gradient import Gradient

__all__ = ["check_finite"]


@dataclass(frozen=True, slots=True)
class _ProbeAttrs(Attrs):
    """What the probed value is called in messages."""

    of: str = ""


def _same(relation: Relation, x: Type, attrs: _ProbeAttrs) -> Type:
    return x


_COTANGENT: Final = Op("cotangent", ("dy",), _same, lambda dy, attrs: dy, attrs=_ProbeAttrs)
_PROBE: Final = Op(
    "probe", ("x",), _same, lambda x, attrs: x, attrs=_ProbeAttrs,
    grad=lambda b, call, dy: [b.call_op(_COTANGENT, [dy], call.attrs)],
)  # fmt: skip


def check_finite(f: object, *args: Any, wrt: Wrt = None) -> None:
    """RunError where a gradient of `f`, whose result may be of any shape, is not finite at `args`.

    It names the first value, on the way back from the result, whose gradient is NaN or infinite, its place, and the
    operators that use the value: the gradient of one of these is what gives it. The program is interpreted.

    f, wrt: as for `legato.grad`; args: a value for each parameter.
    """
    mod = as_module(f)
    made = Gradient(names_of(main_of(mod), wrt))(_probed(mod))

    def look(node: Expr, value: Any) -> None:
        if isinstance(node, Call) and node.op is _COTANGENT and not np.isfinite(value).all():
            bad = np.asarray(value)[~np.isfinite(value)].flat[0]
            place = "" if node.span is None else f"\n  at {node.span}"
            raise RunError(f"the gradient by {node.attrs.of} is not finite: it has {bad}{place}")

    evaluate(made, args, observe=look)


def _probed(mod: Module) -> Module:
    """The module with probes in its functions."""
    main = mod.var("main")
    functions = {gv: _with_probes(f, of_parameters=gv == main) for gv, f in mod.graph_functions() if is_own(f)}
    return infer(mod.with_functions({**mod.functions, **functions}))


def _with_probes(func: Function, of_parameters: bool) -> Function:
    nodes = list(post_order([func.body]))
    users = _users(nodes)
    new: dict[int, Expr] = {}
    for node in nodes:
        fresh = rebuild(node, new)
        if isinstance(node, Call) and isinstance(node.op, Op):
            fresh = _probe(fresh, f"the result of {node.op.name}", users.get(id(node), ()))
        new[id(node)] = fresh
    body, probes = new[id(func.body)], list[Binding]()
    for p in func.params if of_parameters else ():
        probe = _probe(p, f"the parameter {p.name}", users.get(id(p), ()))
        if probe is not p:
            own = Var(p.name, ty=p.ty, span=p.span)
            probes.append((own, probe))
            body = substitute(body, {p: own})
    return replace(func, body=lets(probes, body))


def _probe(value: Expr, name: str, users: Iterable[str]) -> Expr:
    """A probe of a tensor of floats; other values as they are."""
    if not isinstance(value.ty, TensorType) or not value.ty.dtype.is_float:
        return value
    used = ", ".join(dict.fromkeys(users))
    attrs = _ProbeAttrs(f"{name}, used by {used}," if used else name)
    return Call(_PROBE, (value,), attrs, ty=value.ty, span=value.span)


def _users(nodes: Iterable[Expr]) -> dict[int, list[str]]:
    """The operators that use each value, which may have a name, or be in a tuple."""
    bound = {node.var: node.value for node in nodes if isinstance(node, Let)}
    found: dict[int, list[str]] = {}
    for node in nodes:
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            continue
        todo = list(node.args)
        while todo:
            top = todo.pop()
            if isinstance(top, Tuple):
                todo += top.fields
            else:
                value = bound.get(top, top) if isinstance(top, Var) else top
                found.setdefault(id(value), []).append(node.op.name)
    return found
