"""Loop programs that somebody wrote, made safe to run: what they mean stays the same, where they mean something.

* Ranges that variables of loops and Lets state are forgotten: they are no proof. Callers see to those of parameters.
* Memory that a kernel allocates holds zeros at first, unless all that is read of it is shown to be stored before.
* A buffer stays in registers only where every subscript is a literal once loops are unrolled, and it is small.
* VerifyError for what would take code generation too long: loops to be unrolled, vectors and nests that are too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from legato.arith.expr import Const, Expr, Var, const, fresh
from legato.arith.substitute import nodes
from legato.base.errors import ScheduleError, VerifyError
from legato.base.node import transform
from legato.tir.accesses import limits
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.schedule._cover import uncovered
from legato.tir.stmt import Alloc, For, Func, If, Let, LoopKind, Stmt, Store, block
from legato.tir.threads import settled
from legato.tir.verify import verify
from legato.tir.walk import bound_buffers, copy_buffer, loops, replace_buffer, statements, substitute

__all__ = ["filled", "sealed"]

_MOST_UNROLLED: Final = 1 << 18  # statements, after unrolling
_MOST_LANES: Final = 1 << 10
_MOST_NESTED: Final = 64  # loops and branches in each other
_MOST_SLOTS: Final = 1 << 10  # elements of a buffer in registers
_EXPANDED = (LoopKind.UNROLL, LoopKind.VECTOR)


def sealed(func: Func) -> Func:
    """`func`, which is any kernel, as described above; VerifyError where it is ill-formed."""
    func = settled(_unstated(func))
    verify(func)
    _require_small(func)
    body = replace_buffer(func.body, {b: _in_memory(b) for b in _misplaced(func)})
    return func.with_body(transform(body, _cleared))


def _unstated(func: Func) -> Func:
    """`func` with variables of loops and Lets that state no range, but that a loop's begins at 0."""
    bound = [(s.var, 0 if isinstance(s, For) else None) for s in statements(func) if isinstance(s, For | Let)]
    new = {v: Var(v.name, v.dtype, lo) for v, lo in bound if v.hi is not None or v.lo not in (None, lo)}

    def rebound(s: Stmt) -> Stmt | None:
        return replace(s, var=new[s.var]) if isinstance(s, For | Let) and s.var in new else None

    return func.with_body(transform(substitute(func.body, new), rebound)) if new else func


def _require_small(func: Func) -> None:
    counts = {id(func.body): (1, 0)}  # how often a statement is emitted, and what it is nested in
    todo, total = [func.body], 0
    while todo:
        s = todo.pop()
        often, depth = counts[id(s)]
        total += often
        if isinstance(s, For) and s.kind is LoopKind.VECTOR and isinstance(s.extent, Const):
            _limit(func, "lanes of a vector loop", int(s.extent.value), _MOST_LANES)
        if isinstance(s, For) and s.kind in _EXPANDED and isinstance(s.extent, Const):
            often *= max(0, int(s.extent.value))
        depth += isinstance(s, For | If)
        _limit(func, "loops and branches in each other", depth, _MOST_NESTED)
        _limit(func, "statements, once loops are unrolled", total + often, _MOST_UNROLLED)
        for child in s.children():
            counts[id(child)] = often, depth
            todo.append(child)


def _limit(func: Func, what: str, got: int, most: int) -> None:
    if got > most:
        raise VerifyError(f"@{func.name} has {got} {what}; {most} is the most", span=func.span)


def _misplaced(func: Func) -> list[Buffer]:
    """Buffers in registers that could not stay there."""
    literal = {s.var for s in loops(func) if s.kind in _EXPANDED and isinstance(s.extent, Const)}
    found: dict[Buffer, None] = {}
    for b in bound_buffers(func):
        elements = b.elements()
        if b.scope is Scope.REGISTER and not (isinstance(elements, Const) and elements.value <= _MOST_SLOTS):
            found[b] = None
    for s in statements(func):
        places = [(x.buffer, x.indices) for x in nodes(*s.exprs()) if isinstance(x, Load)]
        places += [(s.buffer, s.indices)] if isinstance(s, Store) else []
        for b, indices in places:
            if b.scope is Scope.REGISTER and not all(_is_literal(i, literal) for i in indices):
                found[b] = None
    return list(found)


def _is_literal(index: Expr, literal: set[Var]) -> bool:
    return all(n in literal if isinstance(n, Var) else not isinstance(n, Load) for n in nodes(index))


def _in_memory(buffer: Buffer) -> Buffer:
    new = copy_buffer(buffer)
    new.scope = Scope.LOCAL
    return new


def _cleared(s: Stmt) -> Stmt | None:
    if not isinstance(s, Alloc) or _is_stored_first(s):
        return None
    return Alloc(s.buffer, block(filled(s.buffer, const(0, s.buffer.dtype)), s.body))


def _is_stored_first(s: Alloc) -> bool:
    try:
        return uncovered(s.body, (), s.buffer) is None
    except ScheduleError:  # a layout that the proof does not understand
        return False


def filled(buffer: Buffer, value: Expr, outer: LoopKind = LoopKind.SERIAL) -> Stmt:
    """Stores `value` to all of a buffer, halo included; `outer` is the kind of the outermost loop."""
    is_unrolled = buffer.scope is Scope.REGISTER
    indices: Sequence[Var] = [fresh("i") for _ in buffer.shape]
    places = [(v + low, end - low) for v, (low, end) in zip(indices, limits(buffer), strict=True)]
    body: Stmt = Store(buffer, tuple(place for place, _ in places), value)
    for n, (var, (_, extent)) in reversed(list(enumerate(zip(indices, places, strict=True)))):
        kind = LoopKind.UNROLL if is_unrolled else outer if n == 0 else LoopKind.SERIAL
        body = For(var, extent, body, kind)
    return body
