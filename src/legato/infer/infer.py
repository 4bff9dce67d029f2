"""Type inference of whole modules: Hindley-Milner unification with type relations that are asked again.

Functions are typed in the order of the call graph, mutually recursive ones together: a call from inside such a group
sees an annotated function as polymorphic and any other at one type. After a group is typed, what is left open in a
function's type becomes a type parameter; a relation that is still open is an error. The dims that a function's
parameters name are its type parameters; equalities that could not be decided are its attribute `constraints`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from legato.base.errors import TypeCheckError
from legato.base.node import post_order
from legato.infer.holes import Hole, show
from legato.infer.rebuild import Rebuild
from legato.infer.walk import Walk
from legato.ir.expr import Call, Expr, Function, GlobalVar
from legato.ir.module import GlobalFunc, Module
from legato.ir.op import Op
from legato.ir.types import FuncType, Type, TypeData, TypeVar, walk

__all__ = ["infer", "infer_function"]


def infer(module: Module) -> Module:
    """`module` with every expression typed; the same object if it was so already.

    TypeCheckError names the operator, the argument, what was got and what was wanted; where several independent errors
    are found, the first is raised and its details list the others.
    """
    state = Walk(module.types)
    functions = dict(module.graph_functions())
    for gv in module.functions:
        if gv not in functions:
            state.globals[gv] = state.solver.hole(gv.name)  # a loop program: named by call_tir only, never applied
    new: dict[GlobalVar, GlobalFunc] = {}
    for group in _groups(functions):
        _infer_group(state, {gv: functions[gv] for gv in group})
    _raise(state.errors)
    rebuild = Rebuild(state)
    for gv, func in functions.items():
        new[gv] = rebuild.function(func)
    return module.with_functions({gv: new.get(gv, f) for gv, f in module.functions.items()})


def infer_function(
    func: Function, *, types: Sequence[TypeData] = (), globals_: Mapping[GlobalVar, Type] | None = None
) -> Function:
    """`func` typed on its own; `globals_` are the types of the global functions that it names."""
    state = Walk({t.header: t for t in types})
    state.globals.update(globals_ or {})
    roots: list[Expr] = [func]
    for node in post_order(roots):
        if isinstance(node, GlobalVar) and node not in state.globals and node.ty is not None:
            state.globals[node] = node.ty
    _infer_group(state, {GlobalVar("function"): func})
    _raise(state.errors)
    return Rebuild(state).function(func)


def _infer_group(state: Walk, group: Mapping[GlobalVar, Function]) -> None:
    for gv, func in group.items():
        state.globals[gv] = state.open(func).seen_inside()
    for gv, func in group.items():
        ty = state.function(func)
        if len(group) == 1:
            state.globals[gv] = ty
    try:
        state.solver.run()
    except TypeCheckError as error:
        state.errors.append(error)
    for func in group.values():
        _generalize(state, func)
    for gv, func in group.items():
        state.globals[gv] = state.solver.zonk(state.need(func))
    if state.typer.pending and not state.errors:
        state.errors += [_stuck(state, node) for node in state.typer.pending.values()]
    state.typer.pending.clear()


def _generalize(state: Walk, func: Function) -> None:
    """What no relation constrains in the type of `func` becomes a type parameter."""
    if state.typer.pending:
        return
    opened = state.opened[id(func)]
    names = iter("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    made: list[TypeVar] = []
    for ty in opened.params:
        for part in walk(state.solver.zonk(ty)):
            if isinstance(part, Hole) and part.solution is None:
                made.append(TypeVar(next(names, "T")))
                part.solution = made[-1]
    if made:
        opened.type_params = (*made, *opened.type_params)
        ret = state.solver.zonk(state.need(func)).children()[-1]
        state.types[id(func)] = FuncType(opened.params, ret, opened.type_params)


def _stuck(state: Walk, node: Expr) -> TypeCheckError:
    """The error for a relation that was never given enough."""
    name = node.op.name if isinstance(node, Call) and isinstance(node.op, Op) else "this expression"
    details = []
    if isinstance(node, Call) and isinstance(node.op, Op):
        pairs = zip(node.op.args, node.args, strict=True)
        details = [f"{arg.lstrip('*')} : {show(state.solver.zonk(state.need(value)))}" for arg, value in pairs]
    message = f"{name}: the types of its arguments cannot be inferred"
    return TypeCheckError(message, span=node.span, details=details, hint="annotate the parameters that it depends on")


def _raise(errors: Sequence[TypeCheckError]) -> None:
    if not errors:
        return
    first, others = errors[0], errors[1:]
    if not others:
        raise first
    details = [*first.details]
    for other in others:
        place = "" if other.span is None else f" at {other.span}"
        details.append(f"also{place}: {other.message}")
    raise TypeCheckError(
        first.message, span=first.span, hint=first.hint, details=details, source_line=first.source_line
    )


def _groups(functions: Mapping[GlobalVar, Function]) -> Iterable[list[GlobalVar]]:
    """The strongly connected components of the call graph, callees first (Tarjan 1972, iterative)."""
    if len(functions) == 1:
        return [list(functions)]
    calls = {gv: [n for n in _names(f) if n in functions] for gv, f in functions.items()}
    order: dict[GlobalVar, int] = {}
    low: dict[GlobalVar, int] = {}
    path: list[GlobalVar] = []
    on_path: set[GlobalVar] = set()
    groups: list[list[GlobalVar]] = []
    for root in functions:
        work = [] if root in order else [(root, 0)]
        while work:
            gv, n = work.pop()
            if gv not in order:
                order[gv] = low[gv] = len(order)
                path.append(gv)
                on_path.add(gv)
            for i, callee in enumerate(calls[gv][n:], n):
                if callee not in order:
                    work += [(gv, i), (callee, 0)]
                    break
                if callee in on_path:
                    low[gv] = min(low[gv], low[callee])
            else:
                if low[gv] == order[gv]:
                    at = path.index(gv)
                    groups.append(path[at:])
                    on_path.difference_update(path[at:])
                    del path[at:]
    return groups


def _names(func: Expr) -> Iterable[GlobalVar]:
    """The global variables in `func`, each once."""
    return dict.fromkeys(node for node in post_order([func]) if isinstance(node, GlobalVar))
