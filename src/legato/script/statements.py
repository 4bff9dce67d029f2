"""Statements: each block gives the value of what follows it, so that a `return` inside a branch is the branch's value.

An `if` that no path leaves gives the variables that it sets; where a path does leave (return, break, continue), what
follows the `if` belongs to the other paths, once: if several reach it, it becomes a function of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from functools import partial

from legato.base.dataclass import dataclass
from legato.ir.expr import Expr
from legato.ir.types import Dim, TupleType, Type
from legato.script import operators
from legato.script.expressions import assign, taken, value
from legato.script.frame import Env, Frame
from legato.script.joins import condition, either, unpack
from legato.script.lifting import Lifted
from legato.script.names import (
    Later,
    breaks,
    falls,
    jumps,
    live_at_loop,
    live_before,
    reads,
    returns,
    writes,
)
from legato.script.source import Code
from legato.script.subscript import fields
from legato.script.values import LONGEST, Closure, Missing, Value

__all__ = ["Flow", "block"]

Next = Callable[[Frame, Env], Value]


@dataclass(frozen=True, slots=True)
class Flow:
    """Where a block goes on: behind its end, at `return`, at `break` and at `continue`."""

    end: Next
    returned: Callable[[Frame, Value], Value]
    broken: Next | None = None
    continued: Next | None = None
    later: Later = field(default_factory=Later)


def block(frame: Frame, body: list[ast.stmt], env: Env, flow: Flow) -> Value:
    """The value of the function from `body` on; `env` is changed."""
    rest = list(body)
    while rest:
        s, rest = rest[0], rest[1:]
        match s:
            case ast.Return(value=returned):
                with frame.at(s):
                    return flow.returned(frame, () if returned is None else value(frame, env, returned))
            case ast.Break() | ast.Continue():
                with frame.at(s):
                    follow = flow.broken if isinstance(s, ast.Break) else flow.continued
                    if follow is None:
                        raise frame.unsupported("break and continue have no meaning in a loop over a tuple")
                    return follow(frame, env)
            case ast.If():
                cond = _test(frame, env, s.test)
                if isinstance(cond, bool):
                    rest = [*(s.body if cond else s.orelse), *rest]
                elif jumps([*s.body, *s.orelse]):
                    return _leaving(frame, s, cond, env, rest, flow)
                else:
                    _branches(frame, s, cond, env, live_before(rest, flow.later))
            case ast.For():
                rest = [*_for(frame, s, env), *rest]
            case ast.While():
                with frame.at(s):
                    if returns(s.body):
                        return _loop_inside(frame, s, env, rest, flow)
                    _loop(frame, s, env, live_before(rest, flow.later))
            case _:
                _simple(frame, s, env)
    return flow.end(frame, env)


def _go_on(rest: list[ast.stmt], flow: Flow, frame: Frame, env: Env) -> Value:
    """The value from the statements `rest` on."""
    return block(frame, rest, env, flow)


def _is_short(rest: list[ast.stmt]) -> bool:
    """Whether statements compute nothing, so that each path may have its own."""
    return all(
        isinstance(s, ast.Return | ast.Break | ast.Continue) and _is_plain(getattr(s, "value", None)) for s in rest
    )


def _is_plain(e: ast.expr | None) -> bool:
    if isinstance(e, ast.Tuple):
        return all(map(_is_plain, e.elts))
    return e is None or isinstance(e, ast.Name | ast.Constant) or (isinstance(e, ast.UnaryOp) and _is_plain(e.operand))


def _test(frame: Frame, env: Env, test: ast.expr) -> bool | Expr:
    with frame.at(test):
        return condition(frame, value(frame, env, test))


# ------------------------------------------------------------------ statements that change variables only


def _simple(frame: Frame, s: ast.stmt, env: Env) -> None:
    match s:
        case ast.Assign(targets=targets, value=given):
            found = value(frame, env, given)
            with frame.at(s):
                for target in targets:
                    assign(frame, env, target, found)
                    found = env[target.id] if isinstance(target, ast.Name) else found
        case ast.AnnAssign(target=target, value=annotated):
            if annotated is not None:
                assign(frame, env, target, value(frame, env, annotated))
        case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=given):
            before = value(frame, env, ast.copy_location(ast.Name(name, ast.Load()), target))
            with frame.at(s):
                assign(frame, env, target, operators.binary(frame, op, before, value(frame, env, given)))
        case ast.FunctionDef():
            _define(frame, s, env)
        case ast.Assert():
            _assert(frame, s, env)
        case ast.Expr(value=given) if not isinstance(given, ast.Constant):
            frame.bind("unused", value(frame, env, given))


def _define(frame: Frame, s: ast.FunctionDef, env: Env) -> None:
    """An inner function: it is translated where it is called. One that calls itself becomes a function at once."""
    closure = Closure(Code(s, frame.code.source, frame.code.outer), taken(frame, env, s))
    env[s.name] = closure
    if s.name in reads(*s.body):
        with frame.at(s):
            env[s.name] = frame.program.closure(frame, closure, None)


def _assert(frame: Frame, s: ast.Assert, env: Env) -> None:
    cond = _test(frame, env, s.test)
    with frame.at(s):
        if isinstance(cond, Expr):
            hint = "Relay has no exceptions; one name for both dims in the annotations says that they are equal"
            raise frame.unsupported("the assertion depends on what is known only when the program runs", hint)
        if not cond:
            said = value(frame, env, s.msg) if s.msg is not None else None
            raise frame.wrong("the assertion fails" + (f": {said}" if isinstance(said, str) else ""))


# ------------------------------------------------------------------ branches


def _branches(frame: Frame, s: ast.If, cond: Expr, env: Env, live: frozenset[str]) -> None:
    """An `if` that no path leaves: the variables that it sets, of those needed later."""
    names = sorted(writes([*s.body, *s.orelse]) & live)

    def side(body: list[ast.stmt]) -> Value:
        inner = dict(env)
        flow = Flow(_ended, lambda f, v: v, later=Later(live))
        block(frame, body, inner, flow)
        line = f"`{{}}` has no value on a path through the if in line {s.lineno}"
        return tuple(inner.get(n, Missing(line.format(n))) for n in names)

    with frame.at(s):
        if not names:
            return
        found = either(frame, cond, lambda: side(s.body), lambda: side(s.orelse), names)
        for name, given in zip(names, found, strict=True):
            env[name] = frame.bind(name, given)


def _ended(frame: Frame, env: Env) -> Value:
    return None


def _leaving(frame: Frame, s: ast.If, cond: Expr, env: Env, rest: list[ast.stmt], flow: Flow) -> Value:
    """An `if` that some path leaves: what follows belongs to the paths that do not."""
    live = live_before(rest, flow.later)

    end: Next = partial(_go_on, rest, flow)
    if falls(s.body) and falls(s.orelse) and not _is_short(rest):
        with frame.at(s):
            end = _shared("rest", live, writes([*s.body, *s.orelse]), end)
    inner = replace(flow, end=end, later=Later(live, flow.later.broken, flow.later.continued))
    with frame.at(s):
        return either(
            frame,
            cond,
            lambda: block(frame, s.body, dict(env), inner),
            lambda: block(frame, s.orelse, dict(env), inner),
        )


def _shared(name: str, live: frozenset[str], varying: frozenset[str], end: Next) -> Next:
    """`end` as a function of its own, made when the first path reaches it."""
    made: list[Lifted] = []

    def call(f: Frame, e: Env) -> Value:
        if not made:
            made.append(Lifted(f, name, e, [n for n in e if n in live], varying & live))
            why = "`{}` has no value on a path that leads here"
            made[0].env.update({n: Missing(why.format(n)) for n in sorted(varying & live) if n not in e})
            made[0].build(end, f.result if not f.inlined else None)
        return made[0].call(f, e)

    return call


# ------------------------------------------------------------------ loops


def _for(frame: Frame, s: ast.For, env: Env) -> list[ast.stmt]:
    """`for` as statements: over a range a `while`, over a tuple its body for each field."""
    call = s.iter
    if isinstance(call, ast.Call) and value(frame, env, call.func) is range:
        return _ranged(frame, s, call, env)
    items = value(frame, env, call)
    with frame.at(call):
        listed = fields(frame, items)
        if len(listed) > LONGEST:
            raise frame.unsupported(f"a loop over {len(listed)} fields", "loop over a range")
    if breaks(s.body, ast.Break | ast.Continue):
        with frame.at(s):
            raise frame.unsupported("break and continue in a loop over a tuple", "use if, or loop over a range")
    done: list[ast.stmt] = []
    for item in listed:
        done += [_given(s.target, item), *s.body]
    return done


def _given(target: ast.expr, given: Value) -> ast.stmt:
    """An assignment of a value that is known to the translator."""
    made = ast.Assign([target], ast.copy_location(ast.Constant(given), target))
    return ast.copy_location(made, target)


def _ranged(frame: Frame, s: ast.For, call: ast.Call, env: Env) -> list[ast.stmt]:
    """`for i in range(a, b, c): …` as `at = a; while at < b: i = at; at = at + c; …`."""
    with frame.at(call):
        bounds = [value(frame, env, a) for a in call.args]
        if call.keywords or not 1 <= len(bounds) <= 3:
            raise frame.wrong(f"range takes 1 to 3 arguments, got {len(bounds) + len(call.keywords)}")
        start, stop, step = [0, *bounds, 1] if len(bounds) == 1 else [*bounds, 1][:3]
        if not isinstance(step, int) or step == 0:
            what = "0" if isinstance(step, int) else "computed when the program runs"
            raise frame.unsupported(f"the step of a range is {what}", "loop with while")
        first = frame.expr(start, stop.ty if isinstance(stop, Expr) else None)
        last = frame.bind("stop", frame.expr(stop, first.ty) if isinstance(stop, Dim) else stop)
    shown = s.target.id if isinstance(s.target, ast.Name) else "i"
    at, end = f".{shown}.{s.lineno}.{s.col_offset}", f".stop.{s.lineno}.{s.col_offset}"
    env[at], env[end] = frame.bind("i", first), last

    counter: ast.expr = ast.Name(at, ast.Load())
    test = ast.Compare(counter, [ast.Lt() if step > 0 else ast.Gt()], [ast.Name(end, ast.Load())])
    take = ast.Assign([s.target], counter)
    turn = ast.Assign([ast.Name(at, ast.Store())], ast.BinOp(counter, ast.Add(), ast.Constant(step)))
    for made in (test, take, turn):
        ast.fix_missing_locations(ast.copy_location(made, call))
    loop = ast.While(test, [take, turn, *s.body], [])
    return [ast.copy_location(loop, s)]


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop as a function that calls itself last: its parameters are the variables that live across a turn."""

    node: ast.While
    lifted: Lifted
    head: frozenset[str]  # names needed where a turn begins
    after: frozenset[str]  # names needed behind the loop
    missing: Env  # names that it sets and that had no value before

    @staticmethod
    def of(frame: Frame, s: ast.While, env: Env, after: frozenset[str]) -> _Loop:
        """The loop `s`, whose body is not translated yet."""
        head = live_at_loop(s, after)
        lifted = Lifted(frame, "while", env, [n for n in env if n in head], writes(s.body) & head, repeats=True)
        why = f"`{{}}` may have no value: the loop in line {s.lineno} may take no turn"
        missing = {n: Missing(why.format(n)) for n in sorted(writes(s.body)) if n not in env}
        lifted.env.update({n: v for n, v in missing.items() if n in head})
        return _Loop(s, lifted, head, after, missing)

    def turn(self, leave: Next, returned: Callable[[Frame, Value], Value], frame: Frame, env: Env) -> Value:
        """The value of the function: another turn, or what `leave` gives."""
        s, again = self.node, self.lifted.call
        flow = Flow(again, returned, leave, again, Later(self.head, self.after, self.head))
        cond = _test(frame, env, s.test)
        if isinstance(cond, bool):
            return block(frame, s.body, env, flow) if cond else leave(frame, env)
        return either(frame, cond, lambda: block(frame, s.body, dict(env), flow), lambda: leave(frame, dict(env)))


def _loop_inside(frame: Frame, s: ast.While, env: Env, rest: list[ast.stmt], flow: Flow) -> Value:
    """A loop with a return in it: what follows the loop is in its function, too."""
    loop = _Loop.of(frame, s, env, live_before(rest, flow.later))
    leave: Next = partial(_go_on, rest, flow)
    if breaks(s.body) and not _is_short(rest):
        leave = _shared("after", loop.after, loop.lifted.varying, leave)
    if not (frame.inlined or loop.lifted.dims):
        loop.lifted.declare(frame.result)
    loop.lifted.build(partial(loop.turn, leave, flow.returned), frame.result)
    return loop.lifted.call(frame, env)


def _loop(frame: Frame, s: ast.While, env: Env, after: frozenset[str]) -> None:
    """A loop without: it gives the variables that it sets, of those needed later, which are changed in `env`."""
    loop = _Loop.of(frame, s, env, after)
    lifted = loop.lifted
    out = [n for n in lifted.names if n in lifted.varying & after and not isinstance(env[n], Missing)]
    types = [t for n in out for t in lifted.types[n]]
    result = types[0] if len(types) == 1 else _tuple_type(types)
    lifted.declare(result)

    def leave(f: Frame, e: Env) -> Value:
        found: list[Expr] = []
        for name in out:
            lifted.collect(f, name, e[name], lifted.env[name], found)
        return found[0] if len(found) == 1 else tuple(found)

    lifted.build(partial(loop.turn, leave, lambda f, v: v), result, result=result)
    parts = iter(unpack(frame, lifted.call(frame, env), len(types), "loop") if out else [])
    for name in writes(s.body):
        env.pop(name, None)
    env.update(loop.missing)
    for name in out:
        env[name] = frame.bind(name, _restored(lifted.env[name], parts))


def _tuple_type(types: list[Type | None]) -> Type | None:
    known = tuple(t for t in types if t is not None)
    return TupleType(known) if len(known) == len(types) else None


def _restored(template: Value, parts: Iterator[Expr]) -> Value:
    """A value of the structure of `template`, of the next expressions."""
    if isinstance(template, tuple):
        return tuple([_restored(t, parts) for t in template])
    return next(parts)
