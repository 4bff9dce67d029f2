"""Accumulations: statements of the form x = x op e."""

from __future__ import annotations

from legato.arith.expr import Binary, Expr, Op
from legato.arith.substitute import nodes
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.tir.buffer import Buffer
from legato.tir.expr import Call, Load
from legato.tir.stmt import Stmt, Store
from legato.tir.walk import statements

__all__ = ["Update", "as_update", "commutes", "is_exact"]

_ASSOCIATIVE = frozenset({Op.ADD, Op.MUL, Op.MIN, Op.MAX, Op.BITAND, Op.BITOR, Op.BITXOR, Op.AND, Op.OR})
_SELECTING = frozenset({Op.MIN, Op.MAX, Op.AND, Op.OR})


@dataclass(frozen=True, slots=True)
class Update:
    """`place = place op value` with an associative and commutative `op`; `value` does not read the place's buffer."""

    store: Store
    op: Op
    value: Expr


def as_update(store: Store) -> Update | None:
    """`store` as an accumulation, or None. `x = fma(a, b, x)` counts as x = x + a·b with the product unrounded."""
    place, value = Load(store.buffer, store.indices), store.value
    found: Update | None = None
    if isinstance(value, Binary) and value.op in _ASSOCIATIVE:
        if value.a is place:
            found = Update(store, value.op, value.b)
        elif value.b is place:
            found = Update(store, value.op, value.a)
    elif isinstance(value, Call) and value.name == "fma" and value.args[2] is place:
        found = Update(store, Op.ADD, value.args[0] * value.args[1])
    if found is None or any(isinstance(n, Load) and n.buffer is store.buffer for n in nodes(found.value)):
        return None
    return found


def commutes(stmt: Stmt, buffer: Buffer) -> Op | None:
    """The operator, if all that `stmt` does with `buffer` is to accumulate with one: the order is free then."""
    ops: set[Op] = set()
    for s in statements(stmt):
        read = s.exprs()  # a statement that is no accumulation sees what has been accumulated so far
        if isinstance(s, Store) and s.buffer is buffer:
            update = as_update(s)
            if update is None:
                return None
            ops.add(update.op)
            read = s.indices
        if any(isinstance(n, Load) and n.buffer is buffer for n in nodes(*read)):
            return None
    return ops.pop() if len(ops) == 1 else None


def is_exact(op: Op, dtype: DType) -> bool:
    """True if the order of operands changes no bit of the result."""
    return op in _SELECTING or not dtype.is_float
