"""Patterns and rewriting for the language; see `base.rewrite` for rules and how they are applied.

    @rule(is_call(add, wildcard("x"), is_splat(0), commutative=True))
    def add_zero(x):
        return x

Operators are matched by identity, not by name. In A-normal form, `rewrite(…, bindings=bindings_of(body))` lets patterns
look through let-bound variables; what a wildcard binds is then the variable, so nothing is computed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.rewrite import Bound, NodePattern, Pattern, Rule, See, match_all, node, one_of, rule, wildcard
from legato.base.rewrite import rewrite as rewrite_nodes
from legato.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from legato.ir.let import chain
from legato.ir.op import Op

__all__ = ["bindings_of", "is_call", "is_const", "is_get", "is_splat", "is_tuple", "is_var", "one_of", "rewrite",
           "rule", "wildcard"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _CallPattern(Pattern):
    op: Op
    args: tuple[Pattern, ...] | None
    attrs: Callable[[Any], bool] | None
    commutative: bool

    @property
    def head(self) -> Hashable:
        return self.op

    def matches(self, subject: Any, bound: Bound, see: See) -> Iterator[Bound]:
        call = subject if isinstance(subject, Call) else see(subject)
        if not isinstance(call, Call) or call.op is not self.op:
            return
        if self.attrs is not None and not self.attrs(call.attrs):
            return
        if self.args is None:
            yield bound
        else:
            yield from match_all(self.args, call.args, bound, see, self.commutative)


def is_call(op: Op, *args: Pattern, attrs: Callable[[Any], bool] | None = None, commutative: bool = False) -> Pattern:
    """A call of operator `op` whose arguments match `args` (none given: any) and whose attributes pass `attrs`."""
    return _CallPattern(op, args or None, attrs, commutative)


def is_const(test: Callable[[np.ndarray[Any, Any]], bool] | None = None) -> Pattern:
    """A Constant whose array passes `test`."""
    constant = NodePattern(Constant)
    return constant if test is None else constant.where(lambda c: test(c.data))


def is_splat(value: float) -> Pattern:
    """A Constant of at least one element whose elements all equal `value` (0 matches -0.0, too)."""
    return is_const(lambda data: data.size > 0 and bool(np.all(data == value)))


def is_var() -> Pattern:
    """A local variable."""
    return NodePattern(Var)


def is_tuple(*fields: Pattern) -> Pattern:
    """A tuple of exactly these fields."""
    return node(Tuple, *fields) if fields else NodePattern(Tuple, ())


def is_get(value: Pattern, index: int) -> Pattern:
    """Field `index` of what matches `value`."""
    return node(TupleGetItem, value).where(lambda e: e.index == index)


def bindings_of(body: Expr) -> dict[Expr, Expr]:
    """The values of the variables of a let chain."""
    return dict(chain(body)[0])


def rewrite(
    root: Expr,
    rules: Sequence[Rule],
    *,
    bindings: Mapping[Expr, Expr] | None = None,
    counts: Counter[str] | None = None,
) -> Expr:
    """`root` with `rules` applied until none applies; the same object where none did. See `base.rewrite.rewrite`."""
    see = None if not bindings else lambda e: bindings.get(e, e) if isinstance(e, Var) else e
    return rewrite_nodes(root, rules, head=_head, see=see, counts=counts)


def _head(e: Any) -> Hashable:
    kind: Hashable = e.op if isinstance(e, Call) and isinstance(e.op, Op) else e.__class__
    return kind
