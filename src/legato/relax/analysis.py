"""What programs are: their variables, bindings, functions and dims, under the names that Relax's users know.

Lists are in the order in which things occur first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.arith.expr import Var as DimVar
from legato.base.errors import CompileError
from legato.base.graph import components
from legato.infer.holes import dim_vars
from legato.infer.infer import infer, infer_function
from legato.ir import visit
from legato.ir._dims import free_dims
from legato.ir.expr import Call, Expr, Function, GlobalVar, Let, RefCreate, RefRead, RefWrite, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.types import Type
from legato.ir.verify import verify
from legato.relax.blocks import Binding, BindingBlock, SeqExpr, seq_of
from legato.tir.reshape import is_reshape
from legato.tir.stmt import Func
from legato.transform._call_graph import callees
from legato.transform.to_a_normal import ToANormal
from legato.transform.to_graph import ToGraph

__all__ = ["all_global_vars", "all_vars", "bound_vars", "called_global_vars", "check_well_formed",
           "contains_impure_call", "definable_tir_vars_in_type", "defined_symbolic_vars", "detect_recursion",
           "free_symbolic_vars", "free_vars", "get_var2val", "has_reshape_pattern", "name_to_binding",
           "post_order_visit", "remove_all_unused", "tir_vars_in_type", "udchain", "used_vars",
           "well_formed"]  # fmt: skip


def _module(obj: Any) -> Module:
    found = getattr(obj, "module", obj)
    return found if isinstance(found, Module) else Module.from_expr(found)


def well_formed(obj: Any, check_ty: bool = True) -> None:
    """CompileError with what is wrong in a module or a function; `check_ty`: its types as well."""
    mod = _module(obj)
    verify(infer(mod) if check_ty else mod)


def check_well_formed(obj: Any, check_ty: bool = True) -> bool:
    """Whether nothing is wrong in a module or a function."""
    try:
        well_formed(obj, check_ty)
    except CompileError:
        return False
    return True


# ---------------------------------------------------------------------- variables


def free_vars(expr: Expr) -> list[Var]:
    """The variables that an expression uses and does not bind."""
    return list(visit.free_vars(expr))


def bound_vars(expr: Expr) -> list[Var]:
    """The variables that an expression binds, parameters among them."""
    return list(visit.bound_vars(expr))


def all_vars(expr: Expr) -> list[Var]:
    """The variables that occur in an expression, bound or not."""
    return list(dict.fromkeys([*visit.free_vars(expr), *visit.bound_vars(expr)]))


def used_vars(expr: Expr) -> list[Var]:
    """The variables whose values an expression uses."""
    return list(dict.fromkeys(n for n in post_order(expr) if isinstance(n, Var)))


def all_global_vars(expr: Expr) -> list[GlobalVar]:
    """The functions of the module that an expression names."""
    return list(dict.fromkeys(n for n in post_order(expr) if isinstance(n, GlobalVar)))


called_global_vars = all_global_vars


# ---------------------------------------------------------------------- bindings


def get_var2val(func: Function) -> dict[Var, Expr]:
    """What is bound to each variable in a function, in its branches and in functions inside as well."""
    return {b.var: b.bound for b in _bindings(func.body)}


def name_to_binding(func: Function) -> dict[str, list[Binding]]:
    """The bindings of variables by the names of these."""
    found: dict[str, list[Binding]] = {}
    for b in _bindings(func.body):
        found.setdefault(b.var.name, []).append(b)
    return found


def _bindings(body: Expr) -> list[Binding]:
    todo, found, seen = [seq_of(body)], list[Binding](), set[int]()
    while todo:
        seq = todo.pop()
        own = [b for block in seq.blocks for b in block.bindings]
        found += own
        inside = [p for e in (*(b.value for b in own), seq.body) for n in post_order(e) for p in _bodies(n)]
        todo += [seq_of(p) for p in inside if id(p) not in seen]
        seen.update(map(id, inside))
    return found


def _bodies(node: Expr) -> tuple[Expr, ...]:
    """The expressions of a node that bind for themselves."""
    kids = (node.value,) if isinstance(node, Let) else node.children()
    return tuple(k for k in kids if isinstance(k, Let))


def udchain(dfb: BindingBlock) -> dict[Var, list[Var]]:
    """For each variable of a block, the variables of the block whose values use it."""
    found: dict[Var, list[Var]] = {b.var: [] for b in dfb.bindings}
    for b in dfb.bindings:
        for v in visit.free_vars(b.value):
            found.setdefault(v, []).append(b.var)
    return found


def remove_all_unused(func: Function) -> Function:
    """A typed function without bindings that nothing uses, unless they have effects; in A-normal form."""
    mod = Module.from_expr(func if func.ty is not None else infer_function(func))
    found = ToANormal()(ToGraph()(mod))["main"]
    assert isinstance(found, Function)
    return found


def post_order_visit(expr: Expr | SeqExpr, fvisit: Callable[[Expr], Any]) -> None:
    """Calls `fvisit` of every node, operands first, once each."""
    for node in post_order(expr.to_expr() if isinstance(expr, SeqExpr) else expr):
        fvisit(node)


# ---------------------------------------------------------------------- functions


def contains_impure_call(expr: Expr, own_name: Var | GlobalVar | None = None) -> bool:
    """Whether something in an expression has effects, or calls a function of the module other than `own_name`, of which
    nothing is known here."""
    for node in post_order(expr):
        if isinstance(node, RefCreate | RefRead | RefWrite):
            return True
        callee = node.op if isinstance(node, Call) else None
        if isinstance(callee, Op) and callee.stateful:
            return True
        if isinstance(callee, GlobalVar) and callee != own_name:
            return True
    return False


def detect_recursion(mod: Any) -> list[list[GlobalVar]]:
    """The functions that call themselves, or each other in a circle, together."""
    calls = callees(_module(mod))
    return [c for c in components(calls) if len(c) > 1 or c[0] in calls[c[0]]]


def has_reshape_pattern(func: Func) -> bool:
    """Whether a tensor program is shown to give the elements of its input in the same order."""
    return is_reshape(func)


# ---------------------------------------------------------------------- dims


def tir_vars_in_type(ty: Type) -> list[DimVar]:
    """The dims in a type."""
    return list(dict.fromkeys(dim_vars(ty)))


def definable_tir_vars_in_type(ty: Type) -> list[DimVar]:
    """The dims that a value of a type tells: those that are an extent themselves."""
    return [v for v in tir_vars_in_type(ty) if v in _extents(ty)]


def _extents(ty: Type) -> set[Any]:
    shape = getattr(ty, "shape", None) or getattr(ty, "dims", None) or ()
    return {*shape, *(d for part in ty.children() for d in _extents(part))}


def defined_symbolic_vars(func: Function) -> list[DimVar]:
    """The dims that the parameters of a function tell, and those that its casts bring."""
    told = [v for p in func.params if p.ty is not None for v in dim_vars(p.ty)]
    brought = [v for n in post_order(func.body) if n.ty is not None and hasattr(n, "target") for v in dim_vars(n.ty)]
    return list(dict.fromkeys([*told, *brought]))


def free_symbolic_vars(func: Function) -> list[DimVar]:
    """The dims in a function that nothing in it tells."""
    used = [v for n in post_order(func.body) if n.ty is not None for v in free_dims(n.ty)]
    known = set(defined_symbolic_vars(func))
    return [v for v in dict.fromkeys(used) if v not in known]
