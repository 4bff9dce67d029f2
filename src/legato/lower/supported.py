"""What compiled code can do: everything that a program has beyond it is listed in one error."""

from __future__ import annotations

from collections.abc import Iterator

from legato.arith.substitute import variables
from legato.base.errors import UnsupportedError
from legato.base.node import post_order
from legato.ir.call_tir import CALL_TIR
from legato.ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
)
from legato.ir.module import GlobalFunc, Module
from legato.ir.op import Op
from legato.ir.types import Dim, TensorType, TupleType, Type
from legato.ir.views import VIEWS

__all__ = ["reachable", "require_shallow", "require_supported"]

MAX_NESTING = 100  # blocks inside each other: passes and lowering recurse on them, and on nothing else


def reachable(mod: Module, name: str = "main") -> Module:
    """`mod` with those functions only that function `name` may call; CompileError if there is no such function."""
    todo, found = [mod.var(name)], set[GlobalVar]()
    while todo:
        gv = todo.pop()
        if gv in found or gv not in mod.functions:
            continue
        found.add(gv)
        func = mod.functions[gv]
        if isinstance(func, Function):
            todo += [node for node in post_order([func.body]) if isinstance(node, GlobalVar)]
    return mod.with_functions({gv: f for gv, f in mod.functions.items() if gv in found})


def require_shallow(mod: Module) -> None:
    """UnsupportedError if branches, clauses or closures of `mod` nest more than MAX_NESTING deep."""
    for gv, func in mod.graph_functions():
        depth: dict[int, int] = {}
        for node in post_order([func.body]):
            own = isinstance(node, If | Match | Function)
            depth[id(node)] = own + max([depth[id(c)] for c in node.children()], default=0)
            if depth[id(node)] > MAX_NESTING:
                raise UnsupportedError(
                    f"@{gv.name}: branches nest more than {MAX_NESTING} deep",
                    span=node.span,
                    hint="put some of them into a function of their own",
                )


def require_supported(mod: Module) -> None:
    """UnsupportedError, with a line for each reason, if `mod` (typed) has what compiled code cannot do yet."""
    reasons: dict[str, None] = {}
    for gv, func in mod.graph_functions():
        for node, what in _in_function(func, mod):
            where = f" at {node.span}" if node.span is not None else ""
            reasons[f"@{gv.name}: {what}{where}"] = None
    if reasons:
        raise UnsupportedError("the program uses what compiled code cannot do yet", details=tuple(reasons))


def _in_function(func: Function, mod: Module) -> Iterator[tuple[Expr, str]]:
    known = set(func.type_params)
    for param in func.params:
        if not _is_data(param.ty):
            yield param, f"parameter %{param.name} is no tensor: {param.ty}"
    if not _is_data(func.body.ty):
        yield func.body, f"the result is no tensor: {func.body.ty}"
    for node in post_order([func.body]):
        what = _reason(node, mod)
        if what is not None:
            yield node, what
        elif isinstance(node, Call) and any(not known.issuperset(variables(d)) for d in _dims(node.ty)):
            yield node, f"an extent of the result of {_callee(node)} that depends on data: {node.ty}"


def _reason(node: Expr, mod: Module) -> str | None:
    """Why `node`, its operands aside, cannot be compiled; None if it can."""
    match node:
        case Function() if "Primitive" not in node.attrs:
            return "a function as a value"
        case Match() | Constructor():
            return "data types"
        case RefCreate() | RefRead() | RefWrite():
            return "references"
        case MatchCast():
            return "match_cast"
        case Shape():
            return "a shape as a value"
        case Call():
            return _call_reason(node, mod)
        case _:
            return None


def _call_reason(call: Call, mod: Module) -> str | None:
    args = call.args[1:] if call.op is CALL_TIR else call.args
    if any(isinstance(a, GlobalVar) for a in args):
        return "a function as an argument"
    if isinstance(call.op, GlobalVar):
        callee: GlobalFunc | None = mod.functions.get(call.op)
        return None if isinstance(callee, Function) else f"a direct call of the loop program @{call.op.name}"
    if call.op in VIEWS:
        return f"{_callee(call)}, which lowering makes"
    if isinstance(call.op, Op | Constructor | Function):
        return None
    return "a call of a function that is a value"


def _callee(call: Call) -> str:
    return getattr(call.op, "name", "a function")


def _is_data(ty: Type | None) -> bool:
    return isinstance(ty, TensorType) or (isinstance(ty, TupleType) and all(map(_is_data, ty.fields)))


def _dims(ty: Type | None) -> tuple[Dim, ...]:
    if isinstance(ty, TensorType):
        return ty.shape
    return tuple(d for f in ty.fields for d in _dims(f)) if isinstance(ty, TupleType) else ()
