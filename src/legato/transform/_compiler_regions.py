"""Regions of a function that annotations mark: what lies between `compiler_begin` and `compiler_end`.

Annotations are looked through: a graph has regions and single nodes, each with those that it is computed from.
"""

from __future__ import annotations

from collections.abc import Iterator

from legato.base.errors import CompileError
from legato.ir.blocks import Point, shared_by_blocks
from legato.ir.expr import Call, Constant, Constructor, Expr, Function, GlobalVar, Var
from legato.ir.op import Op
from legato.ir.scope import operands, post_order
from legato.ops.annotation import compiler_begin, compiler_end
from legato.transform._external import is_closed

__all__ = ["Regions", "is_begin", "is_end"]


def is_begin(e: Expr) -> bool:
    """Whether a value goes into a region here."""
    return isinstance(e, Call) and e.op is compiler_begin


def is_end(e: Expr) -> bool:
    """Whether a value comes out of a region here."""
    return isinstance(e, Call) and e.op is compiler_end


def _is_leaf(e: Expr) -> bool:
    """Whether a node computes nothing; a function that is called as a whole does not, either."""
    return isinstance(e, Var | GlobalVar | Constant | Constructor | Op) or is_closed(e)


class Regions:
    """The regions of `func`; CompileError where annotations do not fit each other.

    order: every node, operands first; compiler: the generator of a region, by the region. A region, and what is a
    single node, is named by a number, `group(node)`.
    """

    def __init__(self, func: Function) -> None:
        self.order = list(post_order(func.body, lambda node: not is_closed(node)))
        self._place = {id(node): n for n, node in enumerate(self.order)}
        self._parent = list(range(len(self.order)))
        self.compiler: dict[int, str] = {}
        self._find_regions()
        self._first: dict[int, int] = {}  # the places of a group's first node and of its last
        self._last: dict[int, int] = {}
        self._before: dict[int, set[int]] = {}  # nodes that a group is computed from, as places
        self._look_around()
        self._at = shared_by_blocks(func).at

    # ------------------------------------------------------------------------------------------------ groups

    def group(self, node: Expr) -> int:
        """The group of a node; that of what it marks, for an annotation."""
        return self._root(self._place[id(_marked(node))])

    def region(self, node: Expr) -> int | None:
        """The region that a node is inside of; None for others."""
        found = self._root(self._place[id(node)])
        return found if found in self.compiler else None

    def _root(self, n: int) -> int:
        parent = self._parent
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    def _join(self, a: int, b: int) -> int:
        a, b = self._root(a), self._root(b)
        self._parent[b] = a
        return a

    def _find_regions(self) -> None:
        owner: dict[int, str] = {}
        for end in self.order:
            if not is_end(end):
                continue
            assert isinstance(end, Call)
            last, compiler = end.args[0], end.attrs.compiler
            if is_begin(last) or is_end(last) or _is_leaf(last):
                raise _misplaced(end, "nothing is computed in front of it")
            for node in _between(last):
                known = owner.setdefault(self._join(self._place[id(last)], self._place[id(node)]), compiler)
                if known != compiler:
                    raise _misplaced(end, f"a region of {known!r} is also one of {compiler!r}")
        for n, compiler in owner.items():
            if self.compiler.setdefault(self._root(n), compiler) != compiler:
                raise _misplaced(self.order[n], "a region of two generators")

    def _look_around(self) -> None:
        for n, node in enumerate(self.order):
            if is_begin(node) or is_end(node) or _is_leaf(node):
                continue
            own = self._root(n)
            self._first.setdefault(own, n)
            self._last[own] = n
            before = self._before.setdefault(own, set())
            for operand in operands(node):
                source = _marked(operand)
                if not _is_leaf(source):
                    before.add(self._place[id(source)])

    # ------------------------------------------------------------------------------------------------ merging

    def merge(self, a: int, b: int) -> bool:
        """Makes one region of two where `b` uses what `a` gives: not if they are evaluated in different places, or a
        way from one to the other leads through something else."""
        if a == b or self._point(a) is not self._point(b) or self._is_around(a, b):
            return False
        compiler = self.compiler[a]
        large, small = (a, b) if len(self._before[a]) >= len(self._before[b]) else (b, a)
        self._join(large, small)
        self._before[large] |= self._before.pop(small)
        self._first[large] = min(self._first[a], self._first[b])
        self._last[large] = max(self._last[a], self._last[b])
        del self.compiler[small]
        self.compiler[large] = compiler
        return True

    def _point(self, group: int) -> Point | None:
        return self._at.get(id(self.order[self._last[group]]))

    def _is_around(self, a: int, b: int) -> bool:
        """Whether `b` is computed from `a` by way of other groups."""
        todo = [g for g in self._groups_before(b) if g != a]
        seen = {a, b, *todo}
        while todo:
            group = todo.pop()
            if self._last[group] < self._first[a]:
                continue  # all that it is computed from lies before `a`
            for other in self._groups_before(group):
                if other == a:
                    return True
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return False

    def _groups_before(self, group: int) -> set[int]:
        found = {self._root(n) for n in self._before[group]}
        found.discard(group)
        return found

    def inside(self) -> dict[int, list[Expr]]:
        """The nodes of every region, operands first."""
        found: dict[int, list[Expr]] = {}
        for node in self.order:
            region = None if is_begin(node) or is_end(node) else self.region(node)
            if region is not None:
                found.setdefault(region, []).append(node)
        return found


def _marked(e: Expr) -> Expr:
    """What annotations mark."""
    while isinstance(e, Call) and e.op in (compiler_begin, compiler_end):
        e = e.args[0]
    return e


def _between(last: Expr) -> Iterator[Expr]:
    """What a value is computed from, itself included, up to where its region begins; leaves aside."""
    todo, seen = [last], {id(last)}
    while todo:
        node = todo.pop()
        yield node
        for operand in operands(node):
            if is_end(operand):
                raise _misplaced(operand, "another region uses it without compiler_begin")
            if id(operand) not in seen and not is_begin(operand) and not _is_leaf(operand):
                seen.add(id(operand))
                todo.append(operand)


def _misplaced(at: Expr, what: str) -> CompileError:
    hint = "every value that a region uses is marked by compiler_begin, every one that it gives by compiler_end"
    return CompileError(f"annotations do not fit: {what}", span=at.span, hint=hint)
