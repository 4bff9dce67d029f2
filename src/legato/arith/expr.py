"""The one scalar language of shapes, subscripts and loop bodies.

    expr = Const(value, dtype)              a literal
         | Var(name, dtype, lo, hi)         a dim, loop variable or scalar; compared by identity
         | Binary(op, a, b)                 op is a member of `Op`
         | Select(cond, a, b)               a where cond, else b; lazy: a Load on the other side is not performed
    tir adds Cast, Load and Call: opaque atoms here.

Two arithmetics share the nodes. On dtype `index` integers are unbounded, so terms may be reordered and cancelled; on
every other dtype the operators are the machine's: integers wrap, floats round (IEEE 754), and only identities that
hold bit for bit are applied. `floordiv` and `floormod` round towards minus infinity; on machine integers division by
zero gives 0 and `floormod(a, 0)` gives 0, so every expression is total.

Nodes are immutable and interned: structurally equal expressions are the same object, so `is`, dicts and sets work.
Build with the functions below (`add`, `mul`, …) or Python's operators, which fold constants and trivial identities.
"""

from __future__ import annotations

import itertools
from threading import Lock
from typing import ClassVar, Final, Self
from weakref import WeakValueDictionary, ref

from legato.arith.fold import COMPARISONS, Op, fold, wrap
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError, TypeCheckError
from legato.base.immutable import Immutable
from legato.base.limits import MAX_NUMBER

__all__ = ["Binary", "Const", "Expr", "ExprLike", "Op", "Select", "Var", "add", "bitand", "bitor", "bitxor", "cdiv",
           "clamped", "const", "eq", "expr", "floordiv", "floormod", "fresh", "ge", "gt", "interned", "land", "le",
           "lnot", "lor", "lt", "max_", "min_", "mul", "ne", "select", "shl", "shr", "sub", "truediv"]  # fmt: skip


_TOO_LARGE: Final = 10**MAX_NUMBER
_KEPT: Final = 1 << 10


class _Interned(WeakValueDictionary[tuple[object, ...], "Expr"]):
    """The live nodes by their fields; of two threads that make the same node at once, one gets the other's."""

    _lock = Lock()

    def setdefault(self, key: tuple[object, ...], default: Expr) -> Expr:
        with self._lock:
            return super().setdefault(key, default)


_interned = _Interned()
# The references themselves: nodes are looked up millions of times, and `get` is written in Python.
_live: Final[dict[tuple[object, ...], ref[Expr]]] = _interned.data  # type: ignore[attr-defined]


class Expr(Immutable):
    """A scalar expression; see the module's grammar."""

    __slots__ = ("__weakref__", "dtype")
    dtype: DType

    def children(self) -> tuple[Expr, ...]:
        return ()

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return self

    def limits(self) -> tuple[int | None, int | None]:
        """The least and largest value of an index node that is not defined here; None where unknown."""
        return None, None

    def pieces(self) -> tuple[object, ...]:
        """How the printer writes a node that is not defined here: text, operands, and things that have a name."""
        raise InternalError(f"{type(self).__name__} does not say how it is printed")

    def __add__(self, other: ExprLike) -> Expr:
        return add(self, expr(other, self.dtype))

    def __radd__(self, other: ExprLike) -> Expr:
        return add(expr(other, self.dtype), self)

    def __sub__(self, other: ExprLike) -> Expr:
        return sub(self, expr(other, self.dtype))

    def __rsub__(self, other: ExprLike) -> Expr:
        return sub(expr(other, self.dtype), self)

    def __mul__(self, other: ExprLike) -> Expr:
        return mul(self, expr(other, self.dtype))

    def __rmul__(self, other: ExprLike) -> Expr:
        return mul(expr(other, self.dtype), self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return truediv(self, expr(other, self.dtype))

    def __floordiv__(self, other: ExprLike) -> Expr:
        return floordiv(self, expr(other, self.dtype))

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return floordiv(expr(other, self.dtype), self)

    def __mod__(self, other: ExprLike) -> Expr:
        return floormod(self, expr(other, self.dtype))

    def __neg__(self) -> Expr:
        return sub(const(0, self.dtype), self)

    def __str__(self) -> str:
        from legato.arith.printer import show  # the printer walks the nodes defined here

        return show(self)

    def __repr__(self) -> str:
        return f"<{self}>"


ExprLike = Expr | float


def interned(cls: type, *fields: object) -> Expr | None:
    """The live node of `cls` with these fields, if there is one."""
    return _interned.get((cls, *fields))


class Const(Expr):
    """A literal: int for integer and index types, float for floats, bool for bool; equal to a number of its value."""

    __slots__ = ("value",)
    value: float | bool

    def __new__(cls, value: float | bool, dtype: DType = dt.index) -> Self:
        # Floats are told apart by repr: 0.0 and -0.0 are equal, and NaN is not equal to itself.
        key = (cls, repr(value) if isinstance(value, float) else value, type(value), dtype.name)
        known = _live.get(key)
        found = None if known is None else known()
        if found is None:
            found = object.__new__(cls)
            found.value, found.dtype = value, dtype
            found = _interned.setdefault(key, found)
        assert isinstance(found, cls)
        return found

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, int | float) and self.value == other)

    __hash__ = Expr.__hash__  # that of the object: it is interned

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        if isinstance(self.value, int):
            return int(self.value)
        raise TypeError(f"{self.value} is not an integer")


class Var(Expr):
    """A variable. Two variables are the same only if they are the same object; `name` is a hint for printing.

    `lo` and `hi` (inclusive, None if unknown) bound its value: a dim has lo = 0, or its declared range.
    """

    __slots__ = ("hi", "lo", "name", "uid")
    name: str
    lo: int | None
    hi: int | None
    uid: int
    _ids: ClassVar = itertools.count()

    def __init__(self, name: str, dtype: DType = dt.index, lo: int | None = None, hi: int | None = None) -> None:
        self.name, self.dtype, self.lo, self.hi = name, dtype, lo, hi
        self.uid = next(Var._ids)


class Binary(Expr):
    """`a op b`; comparisons and AND/OR give bool, everything else the operands' dtype."""

    __slots__ = ("a", "b", "op")
    op: Op
    a: Expr
    b: Expr

    def __new__(cls, op: Op, a: Expr, b: Expr) -> Self:
        key = (cls, op, a, b)
        known = _live.get(key)
        found = None if known is None else known()
        if found is None:
            if a.dtype != b.dtype:
                dtypes = f"{a.dtype} and {b.dtype}"
                raise InternalError(f"operands of {op.value} differ in dtype: {dtypes} in {a} {op.value} {b}")
            found = object.__new__(cls)
            found.op, found.a, found.b = op, a, b
            found.dtype = dt.bool_ if op in COMPARISONS else a.dtype
            found = _interned.setdefault(key, found)
        assert isinstance(found, cls)
        return found

    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return binary(self.op, *children)


class Select(Expr):
    """`a` where `cond` (bool) holds, else `b`. Lazy: a Load on the side not chosen is not performed (a guard)."""

    __slots__ = ("a", "b", "cond")
    cond: Expr
    a: Expr
    b: Expr

    def __new__(cls, cond: Expr, a: Expr, b: Expr) -> Self:
        key = (cls, cond, a, b)
        known = _live.get(key)
        found = None if known is None else known()
        if found is None:
            if a.dtype != b.dtype or cond.dtype != dt.bool_:
                raise InternalError(f"select({cond.dtype}, {a.dtype}, {b.dtype}): wanted (bool, T, T)")
            found = object.__new__(cls)
            found.cond, found.a, found.b, found.dtype = cond, a, b, a.dtype
            found = _interned.setdefault(key, found)
        assert isinstance(found, cls)
        return found

    def children(self) -> tuple[Expr, ...]:
        return (self.cond, self.a, self.b)

    def with_children(self, children: tuple[Expr, ...]) -> Expr:
        return select(*children)


_small: dict[int, Const] = {}  # most of the literals of dtype index that are asked for, kept


def const(value: float | bool, dtype: DType = dt.index) -> Const:
    """The literal `value` of `dtype`; integers wrap to the type's width.

    An index is unbounded in meaning, but what texts cannot hold, a number of more than 400 digits, is a TypeCheckError:
    products of products would be beyond all time and memory.
    """
    if dtype.is_float or dtype.is_storage:
        return Const(float(value), dtype)
    if dtype.is_bool:
        return Const(bool(value), dtype)
    value = wrap(int(value), dtype)
    if not -_TOO_LARGE < value < _TOO_LARGE:
        raise TypeCheckError(f"a number in a dim has more than {MAX_NUMBER} digits")
    made = Const(value, dtype)
    if dtype is dt.index and -_KEPT < value < _KEPT:
        _small[value] = made
    return made


def fresh(name: str, lo: int | None = 0, hi: int | None = None) -> Var:
    """A new dim variable (lo = 0 unless told otherwise)."""
    return Var(name, dt.index, lo, hi)


def expr(value: ExprLike, dtype: DType = dt.index) -> Expr:
    """`value` as an expression; Python numbers become literals of `dtype`."""
    return value if isinstance(value, Expr) else const(value, dtype)


def binary(op: Op, a: Expr, b: Expr) -> Expr:
    """`a op b` with literals folded and identities applied that hold bit for bit on the dtype."""
    if isinstance(a, Const):
        value = fold(op, a.value, b.value, a.dtype) if isinstance(b, Const) else None
        if value is not None:
            return const(value, dt.bool_ if op in COMPARISONS else a.dtype)
    elif (op is Op.ADD or op is Op.MUL) and not isinstance(b, Const):
        return Binary(op, a, b)  # no identity without a literal
    if not a.dtype.is_float:
        short = _identity(op, a, b)
        if short is not None:
            return short
    return Binary(op, a, b)


def _is(e: Expr, value: int) -> bool:
    return isinstance(e, Const) and e.value == value and not e.dtype.is_float


def _identity(op: Op, a: Expr, b: Expr) -> Expr | None:
    """Identities of integers, index and bool."""
    if op is Op.ADD:
        return b if _is(a, 0) else a if _is(b, 0) else None
    if op is Op.SUB:
        return a if _is(b, 0) else const(0, a.dtype) if a is b and not a.dtype.is_bool else None
    if op is Op.MUL:
        if _is(a, 0) or _is(b, 1):
            return a
        return b if _is(b, 0) or _is(a, 1) else None
    if op is Op.FLOORDIV and _is(b, 1):
        return a
    if op is Op.FLOORMOD and _is(b, 1):
        return const(0, a.dtype)
    if op in (Op.MIN, Op.MAX) and a is b:
        return a
    return _logic_identity(op, a, b)


def _logic_identity(op: Op, a: Expr, b: Expr) -> Expr | None:
    if op in (Op.EQ, Op.LE) and a is b:
        return const(True, dt.bool_)
    if op in (Op.NE, Op.LT) and a is b:
        return const(False, dt.bool_)
    if op is Op.AND:
        return b if _is(a, 1) or _is(b, 0) else a if _is(b, 1) or _is(a, 0) or a is b else None
    if op is Op.OR:
        return b if _is(a, 0) or _is(b, 1) else a if _is(b, 0) or _is(a, 1) or a is b else None
    return None


def add(a: Expr, b: Expr) -> Expr:
    """a + b."""
    return binary(Op.ADD, a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """a - b."""
    return binary(Op.SUB, a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """a * b."""
    return binary(Op.MUL, a, b)


def truediv(a: Expr, b: Expr) -> Expr:
    """a / b on floats."""
    if not a.dtype.is_float:
        raise InternalError(f"true division needs floats, got {a.dtype}; use // or cast")
    return binary(Op.DIV, a, b)


def floordiv(a: Expr, b: Expr) -> Expr:
    """a // b, rounding towards minus infinity; 0 where b is 0."""
    return binary(Op.FLOORDIV, a, b)


def floormod(a: Expr, b: Expr) -> Expr:
    """a % b with the sign of b; 0 where b is 0."""
    return binary(Op.FLOORMOD, a, b)


def cdiv(a: Expr, b: ExprLike) -> Expr:
    """a / b rounded up, for index and positive b."""
    b = expr(b, a.dtype)
    return floordiv(a + b - 1, b)


def min_(a: Expr, b: Expr) -> Expr:
    """The smaller of both (NaN if either is NaN)."""
    return binary(Op.MIN, a, b)


def clamped(e: Expr, v: Var) -> tuple[Expr, ...]:
    """`e` clamped to each bound that `v` states: all of them equal `e` where it is in that range, and there alone."""
    least = () if v.lo is None else (max_(e, const(v.lo)),)
    return least if v.hi is None else (*least, min_(e, const(v.hi)))


def max_(a: Expr, b: Expr) -> Expr:
    """The larger of both (NaN if either is NaN)."""
    return binary(Op.MAX, a, b)


def shl(a: Expr, b: Expr) -> Expr:
    """a << (b mod width)."""
    return binary(Op.SHL, a, b)


def shr(a: Expr, b: Expr) -> Expr:
    """a >> (b mod width); arithmetic on signed types."""
    return binary(Op.SHR, a, b)


def bitand(a: Expr, b: Expr) -> Expr:
    """Bitwise and."""
    return binary(Op.BITAND, a, b)


def bitor(a: Expr, b: Expr) -> Expr:
    """Bitwise or."""
    return binary(Op.BITOR, a, b)


def bitxor(a: Expr, b: Expr) -> Expr:
    """Bitwise exclusive or."""
    return binary(Op.BITXOR, a, b)


def lt(a: Expr, b: ExprLike) -> Expr:
    """a < b."""
    return binary(Op.LT, a, expr(b, a.dtype))


def le(a: Expr, b: ExprLike) -> Expr:
    """a <= b."""
    return binary(Op.LE, a, expr(b, a.dtype))


def gt(a: Expr, b: ExprLike) -> Expr:
    """a > b, as b < a."""
    return binary(Op.LT, expr(b, a.dtype), a)


def ge(a: Expr, b: ExprLike) -> Expr:
    """a >= b, as b <= a."""
    return binary(Op.LE, expr(b, a.dtype), a)


def eq(a: Expr, b: ExprLike) -> Expr:
    """a == b."""
    return binary(Op.EQ, a, expr(b, a.dtype))


def ne(a: Expr, b: ExprLike) -> Expr:
    """a != b."""
    return binary(Op.NE, a, expr(b, a.dtype))


def land(a: Expr, b: Expr) -> Expr:
    """Logical and of bools."""
    return binary(Op.AND, a, b)


def lor(a: Expr, b: Expr) -> Expr:
    """Logical or of bools."""
    return binary(Op.OR, a, b)


def lnot(a: Expr) -> Expr:
    """Logical negation of a bool, as a == False."""
    return eq(a, const(False, dt.bool_))


def select(cond: Expr, a: Expr, b: Expr) -> Expr:
    """`a` where `cond`, else `b`; a literal condition chooses at once."""
    if isinstance(cond, Const):
        return a if cond.value else b
    return a if a is b else Select(cond, a, b)
