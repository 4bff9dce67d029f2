"""Patterns: sets of expressions, with parts that match has found.

    pattern = ExprPattern(expr)                        this expression (an operator above all)
            | VarPattern(name)                         a local variable
            | ConstantPattern()
            | WildcardPattern()                        any expression
            | CallPattern(op, args)                    args None: any; add and multiply match in both orders
            | FunctionPattern(params, body)            params None: any
            | LetPattern(var, value, body)
            | IfPattern(cond, then, orelse)
            | TuplePattern(fields)                     fields None: any
            | TupleGetItemPattern(value, index)        index None: any
            | AltPattern(left, right)                  written left | right
            | AttrPattern(pattern, attrs)              with these attributes, and any others
            | TypePattern(pattern, type)               of this type; dims are equal where they are proven so
            | ShapePattern(pattern, shape)
            | DataTypePattern(pattern, dtype)
            | DominatorPattern(parent, path, child)    child, which all paths from parent lead to over path

Patterns are immutable and compared by identity: a pattern that occurs twice in another one stands for the same
expression at both places. `patterns.search` finds out what stands for what.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import CompileError
from legato.base.immutable import Immutable
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops import table
from legato.patterns.facts import has_attrs, same_shape, same_type
from legato.patterns.match import Match, match
from legato.patterns.partition import partition
from legato.patterns.search import Bound, Search

__all__ = ["AltPattern", "AttrPattern", "CallPattern", "ConstantPattern", "DataTypePattern", "DominatorPattern",
           "ExprPattern", "FunctionPattern", "IfPattern", "LetPattern", "Pattern", "ShapePattern",
           "TupleGetItemPattern", "TuplePattern", "TypePattern", "VarPattern", "Way", "WildcardPattern"]  # fmt: skip

Way = Sequence[tuple["Pattern", Expr]]  # what has to match for a pattern to match, in the order in which it is tried
Attrs = Mapping[str, Any]
Parts = tuple["Pattern", ...]

_COMMUTATIVE: Final = ("add", "multiply")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pattern(Immutable, ABC):
    """A set of expressions; see the module's grammar.

    opens: its parts match what an expression is made of, rather than the expression itself.
    """

    opens: ClassVar[bool] = False

    @property
    def asks(self) -> bool:
        """Whether a constant that this stands for is part of the pattern, rather than an operand of what matches."""
        return False

    def parts(self) -> Parts:
        """The patterns that this one is made of."""
        return ()

    @property
    def head(self) -> Op | None:
        """The operator that all that matches is a call of; None: not known, or not so."""
        return None

    @abstractmethod
    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        """The ways in which `e` may match, best first: all of what one lists has to match. None: it does not match."""

    def between(self, bound: Bound, search: Search) -> Iterator[tuple[Expr, Bound]]:
        """The nodes that a path in this pattern leads over in a match, with what its parts stand for at each."""
        return iter(())

    def match(self, expr: Expr, values: Mapping[Var, Expr] | None = None, module: Module | None = None) -> Match | None:
        """What the parts of this stand for in `expr`; None if it does not match. See `patterns.match`."""
        return match(self, expr, values, module)

    def partition(
        self,
        expr: Expr,
        attrs: Attrs | None = None,
        check: Callable[[Expr], bool] = lambda e: True,
        module: Module | None = None,
    ) -> Expr:
        """`expr` with functions called for what matches; see `patterns.partition`."""
        return partition(self, expr, attrs, check, module)

    def __call__(self, *args: Any) -> CallPattern:
        """A call of what matches this, with such arguments; `None` alone: with any arguments."""
        return CallPattern(self, None if args == (None,) else args)

    def __or__(self, other: Pattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: Any) -> CallPattern:
        return _call_of("add", self, other)

    def __sub__(self, other: Any) -> CallPattern:
        return _call_of("subtract", self, other)

    def __mul__(self, other: Any) -> CallPattern:
        return _call_of("multiply", self, other)

    def __truediv__(self, other: Any) -> CallPattern:
        return _call_of("divide", self, other)

    def optional(self, option: Callable[[Pattern], Pattern]) -> AltPattern:
        """This pattern, or what `option` makes of it."""
        return AltPattern(self, option(self))

    def has_attr(self, attrs: Attrs) -> AttrPattern:
        """What of this has these attributes, and any others."""
        return AttrPattern(self, attrs)

    def has_type(self, ty: Type) -> TypePattern:
        """What of this has this type."""
        return TypePattern(self, ty)

    def has_dtype(self, dtype: DType | str) -> DataTypePattern:
        """What of this is a tensor of this dtype."""
        return DataTypePattern(self, dt.dtype(dtype))

    def has_shape(self, shape: Sequence[Dim | int]) -> ShapePattern:
        """What of this is a tensor of this shape."""
        return ShapePattern(self, dims(shape))

    def dominates(self, parent: Pattern, path: Pattern | None = None) -> DominatorPattern:
        """This, where all paths from `parent` lead to it, over what matches `path` (None: anything)."""
        return DominatorPattern(parent, WildcardPattern() if path is None else path, self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def as_pattern(part: Any) -> Pattern:
    """A pattern, or that of an expression; CompileError for anything else."""
    if isinstance(part, Pattern):
        return part
    if isinstance(part, Expr):
        return ExprPattern(part)
    hint = "patterns are made of patterns and expressions: write a number as is_expr(const(1.0))"
    raise CompileError(f"no pattern: {part!r}", hint=hint)


def _patterns(parts: Iterable[Any]) -> Parts:
    return tuple(map(as_pattern, parts))


def _set(made: Pattern, /, **values: Any) -> None:
    """Sets fields of a pattern that is being made."""
    for name, value in values.items():
        object.__setattr__(made, name, value)


def _call_of(name: str, *args: Any) -> CallPattern:
    return CallPattern(ExprPattern(table()[name]), args)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WildcardPattern(Pattern):
    """Any expression."""

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        yield ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExprPattern(Pattern):
    """An expression that is alpha-equal to `expr`."""

    expr: Expr

    @property
    def asks(self) -> bool:
        return True

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        if e is self.expr or (not isinstance(self.expr, Op) and alpha_equal(self.expr, e)):
            yield ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VarPattern(Pattern):
    """A local variable, called `name` if that is given."""

    name: str = ""

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        if isinstance(e, Var) and self.name in ("", e.name):
            yield ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConstantPattern(Pattern):
    """A constant."""

    @property
    def asks(self) -> bool:
        return True

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        if isinstance(e, Constant):
            yield ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CallPattern(Pattern):
    """A call. Those of add and multiply match in both orders."""

    op: Pattern
    args: tuple[Pattern, ...] | None = None
    opens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _set(self, op=as_pattern(self.op), args=None if self.args is None else _patterns(self.args))

    @property
    def head(self) -> Op | None:
        return self.op.expr if isinstance(self.op, ExprPattern) and isinstance(self.op.expr, Op) else None

    def parts(self) -> Parts:
        return (self.op, *(self.args or ()))

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        if not isinstance(e, Call):
            return
        callee = (self.op, e.op)
        if self.args is None:
            yield (callee,)
        elif len(self.args) == len(e.args):
            yield (callee, *zip(self.args, e.args, strict=True))
            if self._commutes() and len(self.args) == 2:
                yield (callee, *zip(self.args, reversed(e.args), strict=True))

    def _commutes(self) -> bool:
        return self.head is not None and self.head.name in _COMMUTATIVE


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FunctionPattern(Pattern):
    """A function."""

    params: tuple[Pattern, ...] | None
    body: Pattern
    opens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _set(self, params=None if self.params is None else _patterns(self.params), body=as_pattern(self.body))

    def parts(self) -> Parts:
        return (*(self.params or ()), self.body)

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        if not isinstance(e, Function):
            return
        if self.params is None:
            yield ((self.body, e.body),)
        elif len(self.params) == len(e.params):
            yield (*zip(self.params, e.params, strict=True), (self.body, e.body))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LetPattern(Pattern):
    """`let var = value; body`."""

    var: Pattern
    value: Pattern
    body: Pattern
    opens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _set(self, var=as_pattern(self.var), value=as_pattern(self.value), body=as_pattern(self.body))

    def parts(self) -> Parts:
        return (self.var, self.value, self.body)

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        if isinstance(e, Let):
            yield ((self.var, e.var), (self.value, e.value), (self.body, e.body))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IfPattern(Pattern):
    """`if (cond) { then } else { orelse }`."""

    cond: Pattern
    then: Pattern
    orelse: Pattern
    opens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _set(self, cond=as_pattern(self.cond), then=as_pattern(self.then), orelse=as_pattern(self.orelse))

    @property
    def true_branch(self) -> Pattern:
        """`then`, as Relay calls it."""
        return self.then

    @property
    def false_branch(self) -> Pattern:
        """`orelse`, as Relay calls it."""
        return self.orelse

    def parts(self) -> Parts:
        return (self.cond, self.then, self.orelse)

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        if isinstance(e, If):
            yield ((self.cond, e.cond), (self.then, e.then), (self.orelse, e.orelse))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TuplePattern(Pattern):
    """A tuple with these fields, or with any."""

    fields: tuple[Pattern, ...] | None = None
    opens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _set(self, fields=None if self.fields is None else _patterns(self.fields))

    def parts(self) -> Parts:
        return self.fields or ()

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        if isinstance(e, Tuple) and (self.fields is None or len(self.fields) == len(e.fields)):
            yield () if self.fields is None else tuple(zip(self.fields, e.fields, strict=True))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleGetItemPattern(Pattern):
    """Field `index` of a tuple, or any field."""

    value: Pattern
    index: int | None = None
    opens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _set(self, value=as_pattern(self.value))

    @property
    def tuple(self) -> Pattern:
        """`value`, as Relay calls it."""
        return self.value

    def parts(self) -> Parts:
        return (self.value,)

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        if isinstance(e, TupleGetItem) and self.index in (None, e.index):
            yield ((self.value, e.value),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AltPattern(Pattern):
    """What one of two patterns matches; the left one is tried first."""

    left: Pattern
    right: Pattern

    def __post_init__(self) -> None:
        _set(self, left=as_pattern(self.left), right=as_pattern(self.right))

    @property
    def asks(self) -> bool:
        return self.left.asks or self.right.asks

    def parts(self) -> Parts:
        return (self.left, self.right)

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        yield ((self.left, e),)
        yield ((self.right, e),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConditionPattern(Pattern):
    """What of `pattern` meets a condition."""

    pattern: Pattern

    def __post_init__(self) -> None:
        _set(self, pattern=as_pattern(self.pattern))

    @property
    def head(self) -> Op | None:
        return self.pattern.head

    def parts(self) -> Parts:
        return (self.pattern,)

    @abstractmethod
    def holds(self, e: Expr, search: Search) -> bool:
        """Whether `e` meets the condition."""

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        if self.holds(e, search):
            yield ((self.pattern, e),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttrPattern(ConditionPattern):
    """What of `pattern` has these attributes: a call its record's, a function its own, an operator "TOpPattern"."""

    attrs: Attrs

    def __post_init__(self) -> None:
        ConditionPattern.__post_init__(self)
        _set(self, attrs=MappingProxyType(dict(self.attrs)))

    def holds(self, e: Expr, search: Search) -> bool:
        return has_attrs(e, self.attrs)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TypePattern(ConditionPattern):
    """What of `pattern` has type `type`."""

    type: Type

    def holds(self, e: Expr, search: Search) -> bool:
        ty = search.graph.type_of(e)
        return ty is not None and same_type(ty, self.type)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShapePattern(ConditionPattern):
    """What of `pattern` is a tensor of this shape."""

    shape: tuple[Dim, ...]

    def __post_init__(self) -> None:
        ConditionPattern.__post_init__(self)
        _set(self, shape=dims(self.shape))

    def holds(self, e: Expr, search: Search) -> bool:
        ty = search.graph.type_of(e)
        return isinstance(ty, TensorType) and same_shape(ty.shape, self.shape)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DataTypePattern(ConditionPattern):
    """What of `pattern` is a tensor of this dtype."""

    dtype: DType

    def __post_init__(self) -> None:
        ConditionPattern.__post_init__(self)
        _set(self, dtype=dt.dtype(self.dtype))

    def holds(self, e: Expr, search: Search) -> bool:
        ty = search.graph.type_of(e)
        return isinstance(ty, TensorType) and ty.dtype == self.dtype


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DominatorPattern(Pattern):
    """What `child` matches and `parent` leads to: a region of the graph with one way in and one way out.

    All paths from the parent to the result of the program lead through the child, all that the child is computed from
    leads through the parent, but for variables and constants beside, and every node between the two matches `path`:
    each by itself, so the parts of `path` may stand for many expressions.
    """

    parent: Pattern
    path: Pattern
    child: Pattern
    opens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _set(self, parent=as_pattern(self.parent), path=as_pattern(self.path), child=as_pattern(self.child))

    def parts(self) -> Parts:
        return (self.parent, self.path, self.child)

    def ways(self, e: Expr, search: Search) -> Iterator[Way]:
        for parent in search.parents(e, self):
            yield ((self.child, e), (self.parent, parent))

    def between(self, bound: Bound, search: Search) -> Iterator[tuple[Expr, Bound]]:
        for node in search.graph.between(bound[self.parent], bound[self]):
            found = search.first(self.path, node)
            assert found is not None
            yield node, found
