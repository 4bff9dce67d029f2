"""A copy of a function for the types, and for the closures, that it is called with.

    @map(fn (%x: int32) { @main_f(%n, %x) }, %xs)      =>      @map_main_f(%n, %xs)

Afterwards no function has type variables, and none is passed to another where it is known which it is: what a closure
holds is passed instead, and the call of the parameter is one of the function. A short function that gives a closure is
written in place of its call, so that the closure is known there. Dims stay parameters. Functions that @main does not
need disappear. What would need endlessly many copies (polymorphic recursion) is an UnsupportedError, and so is a
polymorphic function that is a value; closures nested too deeply, or too many of one function, stay values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.base.graph import components
from legato.base.node import transform
from legato.ir.atoms import is_primitive
from legato.ir.contents import body_nodes
from legato.ir.expr import Call, Expr, Function, GlobalVar, Let, Var
from legato.ir.let import lets
from legato.ir.module import GlobalFunc, Module
from legato.ir.scope import operands, post_order
from legato.ir.types import FuncType, Type, TypeVar, walk
from legato.transform._closures import Names, closure, closure_call, is_closure, without_dead
from legato.transform._copy import Copy
from legato.transform._external import is_external
from legato.transform._inline import Inliner, short_functions
from legato.transform._instances import Held, Key, Requests, held_types
from legato.transform._types import has_function, split
from legato.transform._values import WRAP
from legato.transform.lambda_lift import LambdaLift
from legato.transform.pass_ import Pass
from legato.transform.to_a_normal import ToANormal

__all__ = ["Specialize", "is_polymorphic"]

MAX_ROUNDS: Final = 4  # what is known may make more known
MAX_INSTANCES: Final = 200  # of one function; then closures stay values
MAX_PARTS: Final = 5_000  # of the types that an instance is for
MAX_GROWTH: Final = (
    20_000  # nodes that are copied for closures, besides twice those that there are; then they stay values
)
SHORT: Final = 60  # nodes of a function that gives a closure and is inlined


@dataclass(frozen=True, slots=True)
class Specialize(Pass):
    """Module → module of functions without type variables; see the example above."""

    name = "specialize"

    def __call__(self, mod: Module) -> Module:
        mod = LambdaLift()(mod)
        origins = _Origins(mod)
        for _ in range(MAX_ROUNDS):
            if not _has_work(mod):
                break
            new = _Specializer(mod, origins).run()
            if new is mod:
                break
            mod = new
        _require_no_polymorphic_closure(mod)
        return mod


def is_polymorphic(mod: Module) -> bool:
    """True if a function has type variables."""
    return any(isinstance(p, TypeVar) for _, func in mod.graph_functions() for p in func.type_params)


def _has_work(mod: Module) -> bool:
    """True if a function has type variables, or is called with a closure that is known."""
    if is_polymorphic(mod):
        return True
    for _, func in mod.graph_functions():
        closures: set[Expr] = set()
        calls: list[Call] = []
        for node in body_nodes(func):
            if isinstance(node, Let) and is_closure(node.var, node.value):
                closures.add(node.var)
            elif isinstance(node, Call):
                calls.append(node)
        if closures and any(_is_ready(call, closures, mod) for call in calls):
            return True
    return False


def _is_ready(call: Call, closures: set[Expr], mod: Module) -> bool:
    if not isinstance(call.op, GlobalVar):
        return call.op in closures
    callee = mod.functions.get(call.op)
    return isinstance(callee, Function) and any(a in closures for a in call.args)


class _Origins:
    """Which functions, in the module that is specialized, call each other or make closures of each other; instances
    belong to what they are copies of. `left` is how many nodes may still be copied for the sake of closures."""

    def __init__(self, mod: Module) -> None:
        nodes = {gv: body_nodes(func) for gv, func in mod.graph_functions()}
        uses = {gv: {n for n in found if isinstance(n, GlobalVar) and n in nodes} for gv, found in nodes.items()}
        self._of = {gv: n for n, component in enumerate(components(uses)) for gv in component}
        self.for_closures = set[Expr]()  # instances that were given closures
        self.left = MAX_GROWTH + 2 * sum(map(len, nodes.values()))

    def add(self, instance: GlobalVar, key: Key) -> None:
        """`instance` is the function for `key`."""
        self._of[instance] = self._of[key.gv]
        if any(key.closures) or key.gv in self.for_closures:
            self.for_closures.add(instance)

    def are_one(self, a: GlobalVar, b: GlobalVar) -> bool:
        """True if the functions are of one circle."""
        return self._of[a] == self._of[b]


class _Specializer:
    def __init__(self, mod: Module, origins: _Origins) -> None:
        self._mod = mod
        self._origins = origins
        self._given: dict[GlobalVar, set[Var]] = {}  # the closures of an instance's key, in it
        self._names = Names(mod)
        self._requests = Requests()
        self._inliner = Inliner(short_functions(mod, SHORT), _gives_function)
        self._instances: dict[Key, GlobalVar] = {}
        self._count: Counter[GlobalVar] = Counter()
        self._todo: list[tuple[GlobalVar, Function]] = []
        self._made: dict[GlobalVar, GlobalFunc] = {}

    def run(self) -> Module:
        """The module of instances that its roots need."""
        functions = self._mod.functions
        mains = [gv for gv in functions if gv.name == "main"]
        for gv in mains:
            _require_own_types(functions[gv])
        for gv in mains or functions:
            func = functions[gv]
            if isinstance(func, Function) and not any(isinstance(p, TypeVar) for p in func.type_params):
                numbers = tuple(self._requests.number(n) for n in range(len(func.type_params)))
                self._instance(Key(gv, numbers, (None,) * len(func.params), len(numbers)))
        while self._todo:
            gv, func = self._todo.pop()
            self._made[gv] = func if is_external(func) else self._specialized(gv, func)
        made = {gv: self._made[gv] for gv in self._instances.values()}
        loops = {gv: f for gv, f in functions.items() if not isinstance(f, Function)}
        return self._mod.with_functions({**made, **loops})

    # ------------------------------------------------------------------ instances

    def _instance(self, key: Key) -> GlobalVar:
        """The function that is called for `key`."""
        found = self._instances.get(key)
        if found is not None:
            return found
        func = self._mod.functions[key.gv]
        assert isinstance(func, Function)
        self._count[key.gv] += 1
        self._require_finite(key, func)
        found, given = key.gv, set[Var]()
        if not key.is_plain:
            func, given = self._copied(func, key)
            found = GlobalVar(self._names.new(_name(key)), ty=func.ty, span=func.span)
            self._origins.add(found, key)
        self._given[found] = given
        self._instances[key] = found
        self._todo.append((found, func))
        return found

    def _require_finite(self, key: Key, func: Function) -> None:
        parts = sum(1 for a in key.type_args if isinstance(a, Type) for _ in walk(a))
        if self._count[key.gv] > 2 * MAX_INSTANCES or parts > MAX_PARTS:
            raise UnsupportedError(
                f"@{key.gv.name} is called at ever more types, one from within the other",
                span=func.span,
                hint="polymorphic recursion needs endlessly many copies: give the function types of its own",
            )

    def _copied(self, func: Function, key: Key) -> tuple[Function, set[Var]]:
        """`func` for the types and closures of `key`; what the closures hold are parameters in their place. With it,
        the variables that are bound to these closures."""
        copy = Copy(*split(func.type_params, key.type_args))
        params: list[Var] = []
        bound: list[tuple[Var, Expr]] = []
        for param, held in zip(func.params, key.closures, strict=True):
            own = copy.bind(param)
            if held is None:
                params.append(own)
            else:
                bound.append((own, _unpacked(held, own.ty, params, bound)))
        body = lets(bound, copy.expr(func.body))
        assert isinstance(func.ty, FuncType)
        numbers = tuple(self._requests.number(n) for n in range(key.dims))
        ty = FuncType(tuple(p.ty for p in params if p.ty is not None), copy.type(func.ty.ret), numbers)
        if bound:
            self._origins.left -= sum(1 for _ in post_order(body))
        made = Function(tuple(params), body, ty.ret, numbers, copy.function_attrs(func), ty=ty, span=func.span)
        return made, {var for var, _ in bound}

    # ------------------------------------------------------------------ calls

    def _specialized(self, gv: GlobalVar, func: Function) -> Function:
        """`func` with calls of instances."""
        for _ in range(MAX_ROUNDS):
            inlined = self._inliner(_resolved(func))
            if inlined is func:
                break
            func = ToANormal().function(inlined, self._mod)
        closures = _closures(func)
        of_any_types = {id(c) for v, c in closures.items() if isinstance(v.ty, FuncType) and v.ty.type_params}

        def call(node: Expr) -> Expr | None:
            return self._call(gv, node, closures) if isinstance(node, Call) and id(node) not in of_any_types else None

        body = without_dead(transform(func.body, call))
        self._require_no_polymorphic_value(body)
        return func if body is func.body else replace(func, body=body)

    def _require_no_polymorphic_value(self, body: Expr) -> None:
        """UnsupportedError for a function of the module as a value: one of a single type is a closure by now."""
        for node in post_order(body):
            values = node.args if isinstance(node, Call) else operands(node)
            for kid in values:
                if isinstance(kid, GlobalVar) and isinstance(self._mod.functions.get(kid), Function):
                    raise UnsupportedError(
                        f"@{kid.name}, a polymorphic function, is a value",
                        span=node.span or kid.span,
                        hint=WRAP,
                    )

    def _call(self, caller: GlobalVar, call: Call, closures: Mapping[Var, Call]) -> Call:
        """A call of a function of the module at the instance that it wants."""
        callee = self._mod.functions.get(call.op) if isinstance(call.op, GlobalVar) else None
        if not isinstance(call.op, GlobalVar) or not isinstance(callee, Function):
            return call
        known = self._known(caller, call.op, closures)
        wanted = self._requests.request(call.op, call.type_args, call.args, known)
        gv = self._instance(wanted.key)
        if wanted.key.is_plain:
            return call
        return Call(gv, tuple(wanted.args), None, tuple(wanted.dims), ty=call.ty, span=call.span)

    def _known(self, caller: GlobalVar, callee: GlobalVar, closures: Mapping[Var, Call]) -> Mapping[Var, Call]:
        """The closures that a call takes into account.

        Where a function calls itself, maybe by way of others, with a closure that it makes around functions, every turn
        makes another around the last (a continuation): those stay values.
        """
        if self._count[callee] > MAX_INSTANCES or self._origins.left <= 0:
            return {}
        if not self._origins.are_one(caller, callee):
            return closures
        given = self._given[caller]
        return {v: c for v, c in closures.items() if v in given or not self._holds_function(v, c)}

    def _holds_function(self, var: Var, call: Call) -> bool:
        """True if a closure, the value of `var`, holds a function for its `call`, or did before it was specialized."""
        assert isinstance(var.ty, FuncType)
        held = call.args[: len(call.args) - len(var.ty.params)]
        return call.op in self._origins.for_closures or any(has_function(a.ty) for a in held)


def _require_no_polymorphic_closure(mod: Module) -> None:
    """UnsupportedError for a polymorphic closure that is left: nobody knows what it is where it is called."""
    for _, func in mod.graph_functions():
        for node in body_nodes(func):
            if isinstance(node, Function) and node.type_params and not is_primitive(node):
                raise UnsupportedError(
                    f"a polymorphic function is a value that is not known where it is called: {node.ty}",
                    span=node.span,
                    hint=WRAP,
                )


def _require_own_types(main: GlobalFunc) -> None:
    """UnsupportedError where @main holds for all types: nothing calls it that would say for which."""
    if not isinstance(main, Function):
        return
    found = [p.name for p in main.type_params if isinstance(p, TypeVar)]
    if found:
        raise UnsupportedError(
            f"@main holds for any type {', '.join(found)}: nothing says for which to compile it",
            span=main.span,
            details=[f"@main : {main.ty}"],
            hint="annotate its parameters and its result",
        )


def _closures(func: Function) -> dict[Var, Call]:
    """What the closures in `func` call, by the variables that they are bound to."""
    found: dict[Var, Call] = {}
    for node in post_order(func.body):
        if isinstance(node, Let) and is_closure(node.var, node.value):
            call = closure_call(node.value)
            assert call is not None
            found[node.var] = call
    return found


def _resolved(func: Function) -> Function:
    """`func` with calls of closures that are known as calls of what they call."""
    closures = _closures(func)

    def call(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, Var) or node.op not in closures:
            return None
        known = closures[node.op]
        held = known.args[: len(known.args) - len(node.args)]
        outer = known.type_args[: len(known.type_args) - len(node.type_args)]
        return Call(known.op, (*held, *node.args), None, (*outer, *node.type_args), ty=node.ty, span=node.span)

    body = transform(func.body, call)
    return func if body is func.body else replace(func, body=body)


def _unpacked(held: Held, ty: Type | None, params: list[Var], bound: list[tuple[Var, Expr]]) -> Function:
    """The closure of type `ty` that `held` describes; what it holds is added to the parameters, closures are bound."""
    values: list[Expr] = []
    for n, (part, part_ty) in enumerate(zip(held.held, held_types(held), strict=True)):
        var = Var(f"held{n}", ty=part_ty)
        values.append(var)
        if part is None:
            params.append(var)
        else:
            bound.append((var, _unpacked(part, part_ty, params, bound)))
    assert isinstance(ty, FuncType)
    return closure(held.gv, values, held.type_args, ty, None)


def _gives_function(call: Call) -> bool:
    return isinstance(call.ty, FuncType)


def _name(key: Key) -> str:
    """The name of an instance: of the function, and of the first that it is given."""
    given = next((held.gv.name for held in key.closures if held is not None), None)
    return key.gv.name if given is None else f"{key.gv.name}_{given}"
