"""One attempt to evaluate a module: its fuel, its functions, and what earlier attempts have learned.

An attempt ends when no function is left to be written, or with `OutOfFuel`. What it finds to be a loop, the next one
does not begin to unroll; of what has used up the fuel, nothing is unrolled any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.ir._dims import free_dims, parameters
from legato.ir.effects import Effect, Effects
from legato.ir.expr import NO_ATTRS, Call, Constant, Constructor, Expr, Function, GlobalVar, Var
from legato.ir.module import GlobalFunc, Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.types import Dim, FuncType, GlobalTypeVar, Type, TypeData, TypeVar
from legato.ir.visit import free_vars
from legato.transform._call_graph import reachable_from
from legato.transform._closures import Names
from legato.transform._partial.code import Block, Code, Writer, run
from legato.transform._partial.conform import Conform
from legato.transform._partial.evaluate import OPAQUE, Active, Evaluator
from legato.transform._partial.scope import Activation
from legato.transform._partial.special import Flat, Special
from legato.transform._partial.values import Closure, Keys, Known, Literal, Unknown, Value

__all__ = ["Attempt", "Lessons", "OutOfFuel", "entries"]

MAX_BLAME: Final = 3  # calls of one function that may use up the fuel
OFTEN: Final = 64  # calls of a function


class OutOfFuel(Exception):
    """The fuel is used up. To blame are these functions; where it is one, its call of `key` if that is not None."""

    def __init__(self, functions: Sequence[Function], key: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.functions = tuple(functions)
        self.key = key


@dataclass(eq=False, slots=True)
class Lessons:
    """What attempts have learned of a module: `loops` has, for functions and what is known of their arguments, which of
    these to specialise them for; `refused` are functions that are not to be unrolled. What is `known` of the original
    program, and what its functions read, is worked out once."""

    keys: Keys = field(default_factory=Keys)
    loops: dict[tuple[Function, tuple[int, ...]], tuple[bool, ...]] = field(default_factory=dict)
    refused: set[Function] = field(default_factory=set)
    blamed: Counter[Function] = field(default_factory=Counter)
    known: dict[Expr, Value] = field(default_factory=dict)
    reads: dict[Function, tuple[Var, ...]] = field(default_factory=dict)

    def blame(self, error: OutOfFuel) -> None:
        """What has used up the fuel is not unrolled any more: that call, in the end all calls of the function."""
        self.blamed.update(error.functions)
        if error.key is None or any(self.blamed[f] > MAX_BLAME for f in error.functions):
            self.refused.update(error.functions)
        else:
            self.loops.update(((f, error.key), (False,) * (len(error.key) - 1)) for f in error.functions)

    def local_loops(self, mod: Module) -> set[Function]:
        """The loops of which something is known, and which are no functions of the module `mod`."""
        outer = {f for f in mod.functions.values() if isinstance(f, Function)}
        return {func for (func, _), mask in self.loops.items() if any(mask) and func not in outer}

    def without_calls(self, mod: Module) -> Lessons:
        """These lessons, where no function is unrolled or specialised."""
        return Lessons(self.keys, {}, set(_functions(mod.functions)))


class Attempt:
    """Evaluates the functions of a module in A-normal form that `entries` need."""

    def __init__(self, mod: Module, fuel: int, lessons: Lessons) -> None:
        self.functions = mod.functions
        self.types: Mapping[GlobalTypeVar, TypeData] = mod.types
        self.keys = lessons.keys
        self._lessons = lessons
        self.fuel = fuel
        self._calls: Counter[Function] = Counter()
        self._nested: Counter[Function] = Counter()
        self._sizes: dict[Function, int] = {}
        self._names = Names(mod)
        self._specials: dict[Any, Special] = {}
        self._new: dict[GlobalVar, Special] = {}
        self._mod = mod
        self._effects: Effects | None = None
        self.conform = Conform(_late_dims(mod), self.keys)

    def run(self, entries: Sequence[GlobalVar]) -> dict[GlobalVar, Function]:
        """The functions of the new module. OutOfFuel where they take more than there is."""
        found: dict[GlobalVar, Function] = {}
        todo = list(reversed(entries))
        while todo:
            gv = todo.pop()
            func = self.functions.get(gv)
            if gv in found or not (gv in self._new or isinstance(func, Function)):
                continue
            if gv in self._new:
                made = self._special(self._new[gv])
            else:
                assert isinstance(func, Function)
                made = func if any(name in func.attrs for name in OPAQUE) else self._as_it_is(gv, func)
            found[gv] = made
            todo += reversed(list(dict.fromkeys(n for n in post_order(made) if isinstance(n, GlobalVar))))
        return found

    # ------------------------------------------------------------------ what rules ask

    def known(self, expr: Constant | Op | Constructor | GlobalVar) -> Value:
        """The value of an atom that says all of it."""
        found = self._lessons.known.get(expr)
        if found is None:
            made = Literal(expr, self.keys) if isinstance(expr, Constant) else Known(expr, self.keys)
            found = self._lessons.known[expr] = made
        return found

    def reads(self, func: Function) -> tuple[Var, ...]:
        """The variables around it that a function reads."""
        found = self._lessons.reads.get(func)
        if found is None:
            found = self._lessons.reads[func] = free_vars(func)
        return found

    def is_refused(self, func: Function) -> bool:
        """True for a function that is never evaluated in place of its call."""
        return func in self._lessons.refused or any(name != "constraints" for name in func.attrs)

    def loop(self, func: Function, key: tuple[int, ...]) -> tuple[bool, ...] | None:
        """For a loop, which arguments to specialise it for; None for what is none, as far as is known."""
        return self._lessons.loops.get((func, key))

    def note_loop(self, func: Function, key: tuple[int, ...], mask: tuple[bool, ...]) -> None:
        """Remembers a loop."""
        before = self._lessons.loops.get((func, key), mask)
        self._lessons.loops[func, key] = tuple(a and b for a, b in zip(before, mask, strict=True))

    def spend(self, func: Function, active: Mapping[Function, Sequence[Active]]) -> None:
        """Pays for evaluating the body of `func` once more, where `active` functions are being evaluated."""
        size = self._sizes.get(func)
        if size is None:
            size = self._sizes[func] = sum(1 for _ in post_order(func))
        self.fuel -= size
        self._calls[func] += 1
        if active.get(func):
            self._nested[func] += size
        if self.fuel < 0:
            raise self._blame(active)

    def _blame(self, active: Mapping[Function, Sequence[Active]]) -> OutOfFuel:
        """A recursion that has used most of the fuel, in the outermost of its calls; without one, what was called
        often."""
        if not self._nested:
            often = [f for f, n in self._calls.items() if n >= OFTEN]
            return OutOfFuel(often or [self._calls.most_common(1)[0][0]])
        func = self._nested.most_common(1)[0][0]
        calls = [a for a in active.get(func, ()) if a.level >= 0]
        return OutOfFuel([func], calls[0].key if calls else None)

    def may_write(self, call: Call) -> bool:
        """True if a call of the original program may change what is in cells."""
        if self._effects is None:
            self._effects = Effects(next(f for _, f in self._mod.graph_functions()), self._mod)
        return bool(self._effects.own(call) & Effect.CELLS)

    # ------------------------------------------------------------------ functions

    def specialised(
        self, gv: GlobalVar, args: Sequence[Value], mask: Sequence[bool], type_args: Sequence[Type | Dim]
    ) -> Call | None:
        """The call of a specialisation of `gv` for those of its arguments that are in the mask; None where
        they have too many parts, or the function checks its arguments."""
        func = self.functions[gv]
        assert isinstance(func, Function)
        if func.attrs:
            return None
        flat = Flat.of([a if kept else None for a, kept in zip(args, mask, strict=True)], args, type_args, self.keys)
        if flat is None:
            return None
        key = (func, *flat.signature)
        special = self._specials.get(key)
        if special is None:
            self.spend(func, {})
            new = GlobalVar(self._names.new(gv.name))
            special = self._specials[key] = Special(new, gv, func, tuple(args), tuple(mask), tuple(type_args), flat)
            self._new[new] = special
        return Call(special.gv, flat.leaves, None, flat.type_args)

    def _special(self, special: Special) -> Function:
        """The function that a specialisation is."""
        func, evaluator, block = special.func, Evaluator(self), Block()
        opened = special.open(self.keys, block)
        env = Activation()
        env.types.update(opened.types)
        env.dims.update(opened.dims)
        for param, value in zip(func.params, opened.args, strict=True):
            evaluator.store.leak(value)
            env.vars[param] = evaluator.conform(value, param.ty, env, block)
        key = (Known(special.origin, self.keys).key, *(v.key for v in opened.args))
        evaluator.active[func] = [Active(key, sum(v.size for v in opened.args), -1)]
        ret = _result_type(func)
        code = run(evaluator.code(func.body, ret, env, block))
        body = self._writer().expr(code)
        made_ret = None if ret is None else env.type(ret)
        return Function(opened.params, body, made_ret, opened.type_params, span=func.span)

    def _as_it_is(self, gv: GlobalVar, func: Function) -> Function:
        """A function for arguments of which nothing is known."""
        env, evaluator = Activation(own=True), Evaluator(self)
        for p in parameters(func):
            if isinstance(p, TypeVar):
                env.types[p] = p
            else:
                env.dims[p] = p
        for param in func.params:
            env.vars[param] = Unknown(param)
        key = (Known(gv, self.keys).key, *(0 for _ in func.params))
        evaluator.active[func] = [Active(key, 0, -1)]
        code = run(evaluator.code(func.body, _result_type(func), env, Block()))
        return replace(func, body=self._writer().expr(code), ty=None)

    def _writer(self) -> Writer:
        return Writer(self._closure, _attrs)

    def _closure(self, closure: Closure) -> Code:
        """The body of a closure that is a value of the new program."""
        func, evaluator = closure.function, Evaluator(self)
        env = Activation(closure.env, own=closure.env.own)
        for p in func.type_params:
            if isinstance(p, TypeVar):
                env.types[p] = p
            else:
                env.dims[p] = p
        params = []
        for param in func.params:
            made = Var(param.name, ty=None if param.ty is None else env.type(param.ty), span=param.span)
            env.vars[param] = Unknown(made)
            params.append(made)
        closure.params, closure.inner = tuple(params), env
        for value in (closure, *closure.captured):
            evaluator.store.leak(value)
        evaluator.active[func] = [Active((closure.key, *(0 for _ in params)), closure.size, -1)]
        code = run(evaluator.code(func.body, _result_type(func), env, Block()))
        assert isinstance(code, Code)
        return code


def entries(mod: Module) -> list[GlobalVar]:
    """The functions that are called from outside: @main, those that no other function names, and of functions that only
    name each other the first."""
    names = {gv: [n for n in post_order(f.body) if isinstance(n, GlobalVar)] for gv, f in mod.graph_functions()}
    calls = {gv: [n for n in named if n in names] for gv, named in names.items()}
    named = {n for gv, called in calls.items() for n in called if n != gv}
    found = [gv for gv in calls if gv.name == "main" or gv not in named]
    reached = reachable_from(found, calls)
    for gv in calls:
        if gv not in reached:
            found.append(gv)
            reached |= reachable_from([gv], calls)
    return found


def _result_type(func: Function) -> Type | None:
    return func.ty.ret if isinstance(func.ty, FuncType) else func.ret_type


def _attrs(closure: Closure) -> Mapping[str, Any]:
    """The attributes of a closure, its equalities over the dims of the new program."""
    attrs, env = closure.function.attrs, closure.inner
    old = attrs.get("constraints", ())
    if not old or env is None:
        return attrs or NO_ATTRS
    return {**attrs, "constraints": tuple(replace(c, a=env.dim(c.a), b=env.dim(c.b)) for c in old)}


def _late_dims(mod: Module) -> frozenset[DimVar]:
    """The dims in equalities of functions that no parameter of theirs tells: what brings them is checked then."""
    return frozenset(d for f in _functions(mod.functions) for d in _waited_for(f))


def _functions(functions: Mapping[GlobalVar, GlobalFunc]) -> Iterator[Function]:
    nodes: Iterator[Expr] = (n for f in functions.values() if isinstance(f, Function) for n in post_order(f))
    return (n for n in nodes if isinstance(n, Function))


def _waited_for(func: Function) -> Iterator[DimVar]:
    constraints = func.attrs.get("constraints", ())
    if constraints:
        told = {d for p in func.params if p.ty is not None for d in free_dims(p.ty)}
        yield from (d for c in constraints for d in variables(c.a, c.b) if d not in told)
