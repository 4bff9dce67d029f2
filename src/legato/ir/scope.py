"""Where each node of an expression is evaluated: the innermost scope that all of its uses share.

An expression is a graph whose nodes may be used in several places; a node used twice is computed once. Scopes are
opened by functions, let bindings, branches, match clauses and dataflow blocks:

    Function   one, with the parameters            Let        one, with the variable: value and body
    If         two: then, orelse                   Match      one per clause, with the pattern's variables
    Dataflow   one, with the bound variables

Linear in the size of the graph up to a logarithm: scopes know a far ancestor each, so common ancestors are found by
jumps even in a let chain of 50,000 bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar
from legato.ir.expr import Dataflow, Expr, Function, If, Let, Match, Var

__all__ = ["Placement", "Scope", "binders", "bound_twice", "misplaced", "operands", "pattern_vars", "place",
           "post_order", "slots", "with_pattern_vars"]  # fmt: skip


class Scope:
    """A scope; `depth` counts its ancestors. Compared by identity."""

    __slots__ = ("_jump", "depth", "parent")
    parent: Scope | None
    depth: int
    _jump: Scope

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        if parent is None:
            self.depth, self._jump = 0, self
            return
        self.depth = parent.depth + 1
        # Skew-binary jumps: two equal jumps in a row are joined to one (Myers, "An applicative random-access stack").
        far = parent._jump
        same = parent.depth - far.depth == far.depth - far._jump.depth
        self._jump = far._jump if same else parent

    def common(self, other: Scope) -> Scope:
        """The innermost scope that encloses both (or is one of them)."""
        a, b = (self, other) if self.depth >= other.depth else (other, self)
        while a.depth > b.depth:
            a = a._jump if a._jump.depth >= b.depth else a._up()
        while a is not b:
            a, b = (a._up(), b._up()) if a._jump is b._jump else (a._jump, b._jump)
        return a

    def encloses(self, other: Scope) -> bool:
        """True if `other` is this scope or lies inside it."""
        return self.common(other) is self

    def _up(self) -> Scope:
        return self if self.parent is None else self.parent


@dataclass(frozen=True, slots=True)
class Placement:
    """order: every node, children first; of: a node's scope, inner: the scopes that it opens, uses: its number of uses,

    all by id(node). The root counts as used once, in scope `root`. Variables at their binders are not uses.
    """

    order: list[Expr]
    root: Scope
    of: dict[int, Scope]
    inner: dict[int, tuple[Scope, ...]]
    uses: dict[int, int]


def operands(node: Expr) -> tuple[Expr, ...]:
    """The sub-expressions of a node, in evaluation order; unlike `children`, without the variables it binds."""
    match node:
        case Let(_, value, body):
            return (value, body)
        case Function():
            return (node.body,)
        case Dataflow(bindings, outputs):
            return (*(value for _, value in bindings), *outputs)
        case _:
            return node.children()


def slots(node: Expr) -> tuple[int, ...]:
    """For each operand, where it is evaluated: the index of a scope that the node opens, or -1 for the node's own."""
    match node:
        case Function():
            return (0,)
        case Let():
            return (0, 0)
        case If():
            return (-1, 0, 1)
        case Match(_, clauses):
            return (-1, *range(len(clauses)))
        case Dataflow():
            return (0,) * (len(node.bindings) + len(node.outputs))
        case _:
            return (-1,) * len(operands(node))


def binders(node: Expr) -> tuple[tuple[Var, ...], ...]:
    """The variables that each scope opened by the node binds."""
    match node:
        case Function(params):
            return (params,)
        case Let(var):
            return ((var,),)
        case If():
            return ((), ())
        case Match(_, clauses):
            return tuple(tuple(pattern_vars(c.pattern)) for c in clauses)
        case Dataflow(bindings):
            return (tuple(var for var, _ in bindings),)
        case _:
            return ()


def pattern_vars(pattern: Pattern) -> Iterator[Var]:
    """The variables of a pattern, left to right."""
    stack = [pattern]
    while stack:
        top = stack.pop()
        if isinstance(top, PatternVar):
            yield top.var
        stack += reversed(top.children())


def with_pattern_vars(pattern: Pattern, new: Callable[[Var], Var]) -> Pattern:
    """`pattern` with `new(v)` for its variables; the same object where none differs (patterns nest shallowly)."""
    match pattern:
        case PatternVar(var):
            made = new(var)
            return pattern if made is var else replace(pattern, var=made)
        case PatternConstructor() | PatternTuple():
            parts = tuple(with_pattern_vars(p, new) for p in pattern.patterns)
            same = all(a is b for a, b in zip(parts, pattern.patterns, strict=True))
            return pattern if same else replace(pattern, patterns=parts)
        case _:
            return pattern


def place(root: Expr) -> Placement:
    """The placement of every node reachable from `root`."""
    order = list(post_order(root))
    outermost = Scope()
    of: dict[int, Scope] = {id(root): outermost}
    inner: dict[int, tuple[Scope, ...]] = {}
    uses: dict[int, int] = {id(root): 1}
    for node in reversed(order):  # parents first: when a node is met, every use of it is known
        own = of[id(node)]
        kids = operands(node)
        opened = tuple(Scope(own) for _ in binders(node))
        if opened:
            inner[id(node)] = opened
        for kid, slot in zip(kids, slots(node), strict=True):
            scope = own if slot < 0 else opened[slot]
            known = of.get(id(kid))
            of[id(kid)] = scope if known is None or known is scope else known.common(scope)
            uses[id(kid)] = uses.get(id(kid), 0) + 1
    return Placement(order, outermost, of, inner, uses)


def misplaced(placement: Placement) -> Var | None:
    """A variable that is used outside the scope that binds it; None where there is none, or it is bound nowhere."""
    home: dict[Var, Scope] = {}
    for node in placement.order:
        for scope, variables in zip(placement.inner.get(id(node), ()), binders(node), strict=True):
            home.update(dict.fromkeys(variables, scope))
    for node in placement.order:
        if isinstance(node, Var) and node in home and not home[node].encloses(placement.of[id(node)]):
            return node
    return None


def bound_twice(placement: Placement) -> tuple[Var, list[str]] | None:
    """A variable that is bound in two places, and these in words; None where there is none."""
    homes: dict[Var, str] = {}
    for node in reversed(placement.order):  # outer binders first
        for var in (v for variables in binders(node) for v in variables):
            here = _binder_name(node, var)
            first = homes.setdefault(var, here)
            if first is not here:
                return var, [f"first : {first}", f"again : {here}"]
    return None


def _binder_name(node: Expr, var: Var) -> str:
    what = {Function: "a parameter of a function", Let: "a let", Match: "a pattern of a match"}
    span = var.span or node.span
    return f"{what.get(type(node), 'a let of a dataflow block')}{'' if span is None else f' at {span}'}"


def post_order(root: Expr, enter: Callable[[Expr], bool] | None = None) -> Iterator[Expr]:
    """Every node reachable from `root`, operands first, left to right, each once; binders are not visited, nor operands
    of a node where `enter(node)` is false."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            kids = operands(node) if enter is None or enter(node) else ()
            stack.append((node, True))
            stack += [(kid, False) for kid in reversed(kids) if id(kid) not in seen]
