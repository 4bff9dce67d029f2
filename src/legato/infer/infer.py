"""Type inference of whole modules: Hindley-Milner unification with type relations that are asked again.

Functions are typed in the order of the call graph, mutually recursive ones together: a call from inside such a group
sees an annotated function as polymorphic and any other at one type. After a group is typed, what is left open in a
function's type becomes a type parameter; a relation that is still open is an error. The dims that a function's
parameters name are its type parameters; equalities that could not be decided are its attribute `constraints`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.base.errors import TypeCheckError
from legato.base.graph import components
from legato.base.node import post_order
from legato.infer.holes import DimHole, Hole, show
from legato.infer.rebuild import Rebuild
from legato.infer.typer import OpenCall
from legato.infer.walk import Walk
from legato.ir._check_types import agree, has_hole
from legato.ir.expr import Constant, Constructor, Expr, Function, GlobalVar, Var
from legato.ir.kinds import data_kind_fault
from legato.ir.module import GlobalFunc, Module
from legato.ir.op import Op
from legato.ir.purity import Purity, effects_in_dataflow
from legato.ir.scope import bound_twice, misplaced, place
from legato.ir.types import FuncType, GlobalTypeVar, TensorType, Type, TypeData, TypeVar, free_type_vars, walk
from legato.tir.stmt import Func

__all__ = ["infer", "infer_function", "infer_text"]

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def infer(module: Module) -> Module:
    """`module` with every expression typed; the same object if it was so already.

    TypeCheckError names the operator, the argument, what was got and what was wanted; where several independent errors
    are found, the first is raised with the `others`.
    """
    state = Walk(module.types)
    functions = dict(module.graph_functions())
    _raise(_data_type_faults(module.types))
    _open_programs(state, {gv: f for gv, f in module.functions.items() if not isinstance(f, Function)})
    new: dict[GlobalVar, GlobalFunc] = {}
    for group in _groups(functions):
        _infer_group(state, {gv: functions[gv] for gv in group})
    if state.has_blocks:
        state.errors += _effects(functions)
    _raise(state.errors)
    rebuild = Rebuild(state)
    for gv, func in functions.items():
        new[gv] = rebuild.function(func)
    return module.with_functions({gv: new.get(gv, f) for gv, f in module.functions.items()})


def infer_text(module: Module) -> Module:
    """`infer`, of a module as the parser gives it: TypeCheckError where a graph binding states what is not so."""
    typed = infer(module)
    errors = []
    for gv, func in module.graph_functions():
        if func.ty is not None or not any(n.ty is not None for n in _makers(func)):
            continue
        pairs = zip(_makers(func), _makers(typed.functions[gv]), strict=True)  # nothing but types is new
        errors += [_misstated(old.ty, new) for old, new in pairs if old.ty is not None and not _is_so(old.ty, new.ty)]
    _raise(errors)
    return typed


def _makers(func: GlobalFunc) -> Iterable[Expr]:
    """The nodes that make something: a graph binding may state their types."""
    assert isinstance(func, Function)
    return (n for n in post_order([func.body]) if not isinstance(n, Var | GlobalVar | Constant | Constructor | Op))


def _is_so(stated: Type, found: Type | None) -> bool:
    return agree(stated, found) if has_hole(stated) else stated == found


def _misstated(stated: Type, node: Expr) -> TypeCheckError:
    details = [f"stated : {stated}", f"found  : {node.ty}"]
    return TypeCheckError("a graph binding states another type", span=node.span, details=details)


def infer_function(
    func: Function,
    *,
    types: Sequence[TypeData] = (),
    globals_: Mapping[GlobalVar, Type] | None = None,
    programs: Mapping[GlobalVar, Func] | None = None,
) -> Function:
    """`func` typed on its own; `globals_` are the types of the functions that it names, `programs` those that are loop
    programs."""
    state = Walk({t.header: t for t in types})
    state.globals.update(globals_ or {})
    _open_programs(state, programs or {})
    roots: list[Expr] = [func]
    for node in post_order(roots):
        if isinstance(node, GlobalVar) and node not in state.globals and node.ty is not None:
            state.globals[node] = node.ty
    alone = {GlobalVar("function"): func}
    _infer_group(state, alone)
    if state.has_blocks:
        state.errors += _effects(alone)
    _raise(state.errors)
    return Rebuild(state).function(func)


def _open_programs(state: Walk, programs: Mapping[GlobalVar, Func]) -> None:
    for gv, program in programs.items():
        state.globals[gv] = state.solver.hole(gv.name)
        state.programs[gv] = program


def _data_type_faults(types: Mapping[GlobalTypeVar, TypeData]) -> list[TypeCheckError]:
    found = ((data, data_kind_fault(data, types)) for data in types.values())
    return [TypeCheckError(fault.message, span=fault.span) for _, fault in found if fault is not None]


def _effects(functions: Mapping[GlobalVar, Function]) -> Iterable[TypeCheckError]:
    """The errors for effects in dataflow blocks, for each function that of the first."""
    purity = Purity(functions)
    hint = "nothing in a dataflow block has effects: bind this before or behind it"
    for func in functions.values() if purity.any_effects else ():
        *_, first = None, *effects_in_dataflow(place(func), purity)
        if first is not None:
            node, effect = first
            yield TypeCheckError(f"a dataflow block {effect}", span=node.span, hint=hint)


def _infer_group(state: Walk, group: Mapping[GlobalVar, Function]) -> None:
    before = len(state.errors)
    state.errors += [fault for func in group.values() if (fault := _scope_fault(func)) is not None]
    for gv, func in group.items():
        state.globals[gv] = state.open(func, f"@{gv.name}").seen_inside()
    for gv, func in group.items():
        ty = state.function(func)
        if len(group) == 1:
            state.globals[gv] = ty
    _settle(state)
    state.errors += state.demands.pass_on()
    failed = len(state.errors) > before
    if not failed:
        state.errors += _stuck(state)
        failed = len(state.errors) > before
    state.typer.pending.clear()
    state.solver.forget()
    variables: dict[TypeVar, None] = {}
    dims: dict[DimVar, None] = {}
    for func in group.values():
        _close_holes(state, func, variables, failed=failed)
        if not failed:
            _close_dims(state, func, dims)
    for gv, func in group.items():
        state.globals[gv] = _zonked(state, func)
    state.finished.update({gv: state.opened[id(func)] for gv, func in group.items()})


def _scope_fault(func: Function) -> TypeCheckError | None:
    """What is wrong with the scopes of a function that is not typed yet: a variable may be bound twice, and a shared
    node be used outside of what binds its variables."""
    if func.ty is not None:
        return None
    placement = place(func)
    twice = bound_twice(placement)
    if twice is not None:
        var, places = twice
        hint = "bind another variable: each that relay.var makes is one of its own, whatever its name"
        return TypeCheckError(f"variable %{var.name} is bound twice", span=var.span, details=places, hint=hint)
    outside = misplaced(placement)
    if outside is None:
        return None
    hint = "something that depends on it, such as a graph binding, is used outside, too"
    return TypeCheckError(f"%{outside.name} is used outside the scope that binds it", span=outside.span, hint=hint)


def _zonked(state: Walk, func: Function) -> Type:
    try:
        return state.solver.zonk(state.types[id(func)])
    except TypeCheckError as error:
        state.blame(error, func.span)
        return state.solver.failed()


def _settle(state: Walk) -> None:
    """Answers what is left to ask, equations of dims by division where nothing else is known."""
    moved = True
    while moved:
        state.ask_again(None)
        try:
            moved = state.solver.settle()
        except TypeCheckError as error:
            state.errors.append(error)


def _close_holes(state: Walk, func: Function, variables: dict[TypeVar, None], *, failed: bool) -> None:
    """What nothing constrains in the type of `func` becomes a type parameter; after an error, it is not known.

    `variables` are those made for functions of the same group, whose types may have them, too.
    """
    opened = state.opened[id(func)]
    ty = _zonked(state, func)
    own: list[TypeVar] = []
    for part in walk(ty):
        if isinstance(part, Hole) and part.solution is None and not part.failed:
            if failed:
                part.solution = state.solver.failed()
                continue
            part.solution = TypeVar(_LETTERS[len(variables)] if len(variables) < len(_LETTERS) else "T")
            variables[part.solution] = None
        found = state.solver.resolve(part)
        if isinstance(found, TypeVar) and found in variables and found not in own:
            own.append(found)
    if own and isinstance(ty, FuncType):
        opened.type_params = (*own, *opened.type_params)
        zonked = state.solver.zonk(ty)
        assert isinstance(zonked, FuncType)
        state.types[id(func)] = FuncType(opened.params, zonked.ret, opened.type_params)
    escaped = next(free_type_vars(_zonked(state, func)), None)
    if escaped is not None and not failed:
        message = f"type parameter {escaped.name} is used outside the function that has it"
        details = [f"the type of the function around it : {show(_zonked(state, func))}"]
        state.errors.append(TypeCheckError(message, span=func.span, details=details))


def _close_dims(state: Walk, func: Function, made: dict[DimVar, None]) -> None:
    """What nothing constrains of the dims of parameters becomes a dim of the function, which takes any.

    `made` are those of functions of the same group, whose types may have them, too.
    """
    opened = state.opened[id(func)]
    own: dict[DimVar, None] = {}
    for ty in opened.params:
        for part in walk(state.solver.zonk(ty)):
            for d in part.shape if isinstance(part, TensorType) else ():
                if isinstance(d, DimHole) and d.solution is None:
                    d.solution = fresh("d")
                    made[d.solution] = None
                found = state.solver.dim(d)
                if isinstance(found, DimVar) and found in made:
                    own[found] = None
    if own:
        opened.scope.dims.update(own)
        opened.type_params = (*opened.type_params, *own)
        ty = state.solver.zonk(state.types[id(func)])
        assert isinstance(ty, FuncType)
        state.types[id(func)] = FuncType(opened.params, ty.ret, opened.type_params)


def _stuck(state: Walk) -> list[TypeCheckError]:
    """The errors for questions that were never given enough.

    There is none for what waits for the answer of another, nor for what waits for the same as another does.
    """
    solver, pending = state.solver, list(state.typer.pending.values())
    blamed = {id(solver.resolve(call.result)) for call in pending}
    errors = []
    for call in pending:
        open_ = [p for t in call.types for p in walk(solver.zonk(t)) if isinstance(p, Hole)]
        if not any(id(h) in blamed for h in open_):
            blamed.update(map(id, open_))
            errors.append(_unanswered(state, call, open_))
    return errors or [_unanswered(state, call, ()) for call in pending[:1]]


def _unanswered(state: Walk, call: OpenCall, holes: Sequence[Hole]) -> TypeCheckError:
    names = " and ".join(dict.fromkeys(h.name for h in holes if h.name.startswith("%")))
    hint = f"annotate {names}" if names else "annotate the parameters that it depends on"
    types = [show(state.solver.zonk(t)) for t in call.types]
    if call.op is None:
        return TypeCheckError("field of a tuple whose type cannot be inferred", span=call.span, hint=hint)
    details = [f"{name.lstrip('*')} : {ty}" for name, ty in zip(call.op.args, types, strict=True)]
    message = f"{call.op.name}: the types of its arguments cannot be inferred"
    return TypeCheckError(message, span=call.span, details=details, hint=hint)


def _raise(errors: Sequence[TypeCheckError]) -> None:
    if errors:
        raise errors[0].with_others(errors[1:])


def _groups(functions: Mapping[GlobalVar, Function]) -> Iterable[list[GlobalVar]]:
    """The functions that call each other in a circle, together; callees first."""
    return components({gv: [n for n in _names(f) if n in functions] for gv, f in functions.items()})


def _names(func: Expr) -> Iterable[GlobalVar]:
    """The global variables in `func`, each once."""
    return dict.fromkeys(node for node in post_order([func]) if isinstance(node, GlobalVar))
