"""What is differentiated: a module, a function, or what holds a module, and the same kind of thing back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar, cast

from legato.base.errors import CompileError, UnsupportedError
from legato.base.kinds import integer, require, require_integer, require_sequence
from legato.base.node import transform
from legato.infer.infer import infer
from legato.ir.expr import Call, Constructor, Expr, Function, Tuple, Var, tuple_of
from legato.ir.let import chain, lets
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.types import UNIT, GlobalTypeVar, Type, walk
from legato.transform._gradient.first_order import is_straight_line
from legato.transform._gradient.marked import own_gradients, reached, require_no_local_gradients
from legato.transform._gradient.nodes import is_data
from legato.transform.defuse import Defuse
from legato.transform.eliminate_common import EliminateCommon
from legato.transform.eliminate_dead import EliminateDead
from legato.transform.fold_constant import FoldConstant
from legato.transform.partial_evaluate import PartialEvaluate
from legato.transform.pass_ import Pass, run
from legato.transform.simplify import Simplify
from legato.transform.to_a_normal import ToANormal
from legato.transform.to_graph import ToGraph

__all__ = ["Program", "Wrt", "as_module", "cleaned", "is_one", "like", "live", "main_of", "names_of", "unrolled",
           "with_body", "with_result"]  # fmt: skip

WANTED: Final = "names or positions of parameters"
FUEL: Final = 4_000  # nodes that partial evaluation may add: enough for loops over a few dozen layers or steps
Program = TypeVar("Program", bound=object)
Wrt = str | int | Sequence[str | int] | None

# What leaves of a differentiated program what one would write by hand.
CLEAN: Final[tuple[Pass, ...]] = (
    EliminateDead(),
    ToGraph(),
    Simplify(),
    FoldConstant(growth=8),  # numbers: tensors of ones and zeros stay what they are
    Simplify(),
    EliminateCommon(),
    ToANormal(),
    EliminateDead(),
)


def as_module(f: object) -> Module:
    """The typed module of a program: a Module, a Function, or what has a `module` (a decorated function); without the
    groups that fusion made."""
    held = f if isinstance(f, Module | Function) else getattr(f, "module", None)
    if isinstance(held, Function):
        held = Module.from_expr(held)
    if not isinstance(held, Module):
        raise CompileError(
            f"cannot differentiate a {type(f).__name__}",
            hint="give a Module (legato.parse, legato.from_onnx), a Function or a decorated function",
        )
    return Defuse()(infer(held))


def live(mod: Module) -> Module:
    """`mod` without functions that @main does not lead to, and data types that none of the others names."""
    kept = reached(mod, [mod.var("main")])
    functions = {gv: f for gv, f in mod.functions.items() if gv in kept or not isinstance(f, Function)}
    bodies = (f for f in functions.values() if isinstance(f, Function))
    todo = list({id(ty): ty for f in bodies for node in post_order(f) for ty in _named(node)}.values())
    used = set[GlobalTypeVar]()
    while todo:
        for part in walk(todo.pop()):
            if isinstance(part, GlobalTypeVar) and part not in used and part in mod.types:
                used.add(part)
                todo += [ty for con in mod.types[part].constructors for ty in con.inputs]
    types = {header: data for header, data in mod.types.items() if header in used}
    if len(functions) == len(mod.functions) and len(types) == len(mod.types):
        return mod
    return replace(mod, functions=functions, types=types)


def _named(node: Expr) -> list[Type]:
    """The types that a node names."""
    named: list[Type] = [] if node.ty is None else [node.ty]
    named += [a for a in getattr(node, "type_args", ()) if isinstance(a, Type)]
    return [*named, node.belongs_to] if isinstance(node, Constructor) else named


def main_of(mod: Module) -> Function:
    """@main."""
    main = mod["main"]
    assert isinstance(main, Function)
    return main


def like(f: Program, mod: Module) -> Program:
    """`mod`, or its @main where a function was given. UnsupportedError where that is not enough."""
    if isinstance(f, Function) and (len(mod.functions) > 1 or mod.types):
        raise UnsupportedError(
            "what this function becomes calls functions of its own", span=f.span,
            hint="give a module, Module.from_expr(f): a module comes back",
        )  # fmt: skip
    return cast("Program", main_of(mod) if isinstance(f, Function) else mod)


def is_one(wrt: Wrt) -> bool:
    """Whether one parameter is meant, by its name or position, not several of them."""
    return isinstance(wrt, str) or integer(wrt) is not None


def names_of(main: Function, wrt: Wrt) -> tuple[str, ...]:
    """The names of parameters, given by names or positions; none for None."""
    if wrt is None:
        return ()
    require(not isinstance(wrt, Expr), wrt, "wrt", WANTED)
    listed = (wrt,) if is_one(wrt) else require_sequence(wrt, "wrt", WANTED)
    if not listed:
        raise CompileError("wrt names no parameter", hint="None stands for all that hold floats")
    return tuple(which if isinstance(which, str) else _name(main, which) for which in listed)


def _name(main: Function, which: object) -> str:
    number = require_integer(which, "wrt", WANTED)
    if not 0 <= number < len(main.params):
        raise CompileError(f"there is no parameter {number}", hint=f"there are {len(main.params)}")
    return main.params[number].name


def with_result(mod: Module, make: Callable[[Sequence[Expr]], Expr]) -> Module:
    """`mod`, whose @main is in A-normal form and gives a tuple, with another result made of its fields."""
    bindings, result = chain(main_of(mod).body)
    assert isinstance(result, Tuple)
    return infer(with_body(mod, lets(bindings, make(result.fields))))


def with_body(mod: Module, body: Expr) -> Module:
    """`mod` with another body of @main, untyped."""
    return mod.with_function(mod.var("main"), replace(main_of(mod), body=body, ret_type=None, ty=None))


def _rewritten(mod: Module, body: Expr) -> Module:
    """`mod` with another body of @main, which is of the same type and has types throughout."""
    return mod.with_function(mod.var("main"), replace(main_of(mod), body=body))


def unrolled(mod: Module) -> Module:
    """`mod` with calls, branches, loops and data that are known resolved, where it is not only operators: what is
    straight-line code then is differentiated without cells and closures."""
    normal = ToANormal()(mod)
    if is_straight_line(main_of(normal)):
        return mod
    require_no_local_gradients(f for _, f in normal.graph_functions())  # their calls are about to be resolved
    made = PartialEvaluate(FUEL)(normal)
    own = own_gradients(normal)
    kept = reached(normal, (own[gv] for gv in made.functions if gv in own))
    lost = {gv: f for gv, f in normal.functions.items() if gv in kept and gv not in made}
    return made.with_functions({**made.functions, **lost}) if lost else made


def cleaned(mod: Module) -> Module:
    """`mod`, whose @main is in A-normal form, without what differentiation made and nobody needs.

    Variables keep their names: while the module is cleaned, an operator that must not go takes them all, so that what
    has become of each can be seen.
    """
    mod = EliminateDead()(live(mod))
    bindings, result = chain(main_of(mod).body)
    known = [var for var, _ in bindings if is_data(var.ty)]
    kept = (Var("kept", ty=UNIT), Call(_KEEP, (tuple_of(known),), ty=UNIT))
    mod = run(_rewritten(mod, lets([*bindings, kept], result)), CLEAN)
    bindings, result = chain(main_of(mod).body)
    ((last, call),) = ((var, value) for var, value in bindings if isinstance(value, Call) and value.op is _KEEP)
    names = dict[Expr, str]()
    for was, now in zip(known, _fields(call), strict=True):
        if isinstance(now, Var):
            names.setdefault(now, was.name)
    new = {var: replace(var, name=names[var]) for var, _ in bindings if var in names}
    body = lets([(var, value) for var, value in bindings if var is not last], result)
    body = transform(body, lambda node: new.get(node) if isinstance(node, Var) else None)
    return EliminateDead()(_rewritten(mod, body))


def _fields(call: Expr) -> tuple[Expr, ...]:
    assert isinstance(call, Call)
    (whole,) = call.args
    assert isinstance(whole, Tuple)
    return whole.fields


_KEEP: Final = Op("keep", ("*data",), lambda relation, ty: UNIT, lambda data: (), stateful=True, doc="Nothing.")
