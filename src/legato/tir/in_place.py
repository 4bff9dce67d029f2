"""Which outputs of a kernel may lie where one of its inputs lies.

    for i in n: y[i] = max(x[i], 0)        y may be x: each element is read before it is stored, and by nobody else

An input that dies in a kernel then needs no memory beside the output's. That is so where every Load of the input is in
the value of a Store to the output at the same indices, and no element is stored twice: shown from the subscripts.
"""

from __future__ import annotations

from collections.abc import Mapping

from legato.arith.expr import Expr, Var, fresh
from legato.arith.substitute import nodes, substitute
from legato.base.dataclass import dataclass
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.schedule._dependence import Access, Agreement, Dependence
from legato.tir.stmt import For, Func, Let, Stmt, Store, While
from legato.tir.walk import buffers_read, buffers_written

__all__ = ["in_place"]


@dataclass(frozen=True, slots=True)
class _Site:
    """A statement that stores to or reads the buffers in question, with the variables of the loops around it; Lets are
    expanded."""

    stmt: Stmt
    exprs: tuple[Expr, ...]
    loops: tuple[Var, ...]


def in_place(func: Func) -> tuple[tuple[int, int], ...]:
    """Pairs (input, output) of places among the parameters of kernel `func`: that output may be given the memory of
    that input."""
    read, written = set(buffers_read(func.body)), set(buffers_written(func.body))
    buffers = [(n, p) for n, p in enumerate(func.params) if isinstance(p, Buffer)]
    inputs = [(n, b) for n, b in buffers if b in read and b not in written]
    outputs = [(n, b) for n, b in buffers if b in written and b not in read]
    pairs = [(i, o) for i in inputs for o in outputs if _is_alike(i[1], o[1])]
    if not pairs:
        return ()
    sites = _sites(func.body)
    return tuple((i[0], o[0]) for i, o in pairs if _is_safe(func, sites, i[1], o[1]))


def _is_alike(a: Buffer, b: Buffer) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.layout == b.layout and a.rank > 0


def _sites(body: Stmt) -> list[_Site]:
    found: list[_Site] = []
    stack: list[tuple[Stmt, tuple[Var, ...], Mapping[Var, Expr]]] = [(body, (), {})]
    while stack:
        s, loops, lets = stack.pop()
        exprs = tuple(substitute(e, lets) for e in s.exprs()) if lets else s.exprs()
        if exprs:
            found.append(_Site(s, exprs, loops))
        if isinstance(s, For):
            loops = (*loops, s.var)
        elif isinstance(s, While):
            loops = (*loops, fresh("turn"))  # which no subscript tells apart
        elif isinstance(s, Let):
            lets = {**lets, s.var: exprs[0]}
        stack += [(child, loops, lets) for child in reversed(s.children())]
    return found


def _is_safe(func: Func, sites: list[_Site], source: Buffer, target: Buffer) -> bool:
    stores = [s for s in sites if isinstance(s.stmt, Store) and s.stmt.buffer is target]
    readers = [s for s in sites if not isinstance(s.stmt, Let) and _loads(s, source)]
    for site in readers:
        if site not in stores or any(x.indices != site.exprs[:-1] for x in _loads(site, source)):
            return False
    return bool(readers) and all(
        _stores_once(func, site) and all(other is site or _apart(func, site, other) for other in stores)
        for site in readers
    )


def _loads(site: _Site, buffer: Buffer) -> list[Load]:
    return [x for x in nodes(*site.exprs) if isinstance(x, Load) and x.buffer is buffer]


def _stores_once(func: Func, site: _Site) -> bool:
    """Whether iterations that store the same element are the same."""
    assert isinstance(site.stmt, Store)
    access = Access(site.stmt.buffer, site.exprs[:-1], True)
    return Dependence(func.body, (), site.loops).agreeing(access, access) >= set(site.loops)


def _apart(func: Func, a: _Site, b: _Site) -> bool:
    """Whether two statements never store the same element."""
    known = Dependence(func.body, (), ())
    agreement = Agreement(known.shared, known.inner, known.bounds, known.volatile)
    agreement.solve(a.exprs[:-1], b.exprs[:-1])
    return agreement.disjoint
