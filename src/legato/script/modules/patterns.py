"""Cases of a match as patterns.

match xs:
    case cls.List.Cons(head, (a, _)):        Cons(%head, (%a, _))
        head: R.Tensor(("k",), "float32")    states the type of a variable, whose dims have names then
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from legato.base.errors import UnsupportedError
from legato.infer.replace import replace_vars
from legato.ir._dims import free_dims
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from legato.ir.expr import Constructor, Var
from legato.ir.types import TupleType, Type, TypeCall

if TYPE_CHECKING:
    from legato.script.modules.graph import GraphReader

__all__ = ["read_pattern"]


def read_pattern(reader: GraphReader, case: ast.match_case, ty: Type | None) -> Pattern:
    """The pattern of a case, for values of type `ty` where that is known."""
    if case.guard is not None:
        raise reader.error(case.guard, "a case has no condition", "write an if in its body", kind=UnsupportedError)
    stated = {}
    for s in case.body:
        if isinstance(s, ast.AnnAssign) and s.value is None and isinstance(s.target, ast.Name):
            with reader.at(s.annotation):
                stated[s.target.id] = reader.type(reader.value(s.annotation))
    return _Patterns(reader, stated).read(case.pattern, ty)


class _Patterns:
    """Reads one pattern; patterns nest shallowly."""

    def __init__(self, reader: GraphReader, stated: Mapping[str, Type]) -> None:
        self.reader = reader
        self.stated = stated

    def read(self, node: ast.pattern, ty: Type | None) -> Pattern:
        """A pattern, or a part of it."""
        span = self.reader.source.span(node)
        match node:
            case ast.MatchAs(pattern=None, name=None):
                return PatternWildcard(span=span)
            case ast.MatchAs(pattern=None, name=str(name)):
                return PatternVar(Var(name, ty=self.stated.get(name, ty), span=span), span=span)
            case ast.MatchSequence(patterns=parts):
                types = ty.fields if isinstance(ty, TupleType) and len(ty.fields) == len(parts) else [None] * len(parts)
                return PatternTuple(tuple(map(self.read, parts, types)), span=span)
            case ast.MatchClass(cls=named, patterns=parts, kwd_attrs=[]):
                constructor = self.reader.value(named)
                if not isinstance(constructor, Constructor):
                    raise self.reader.error(named, "a case names a constructor", "case cls.List.Cons(head, tail):")
                fields = self._fields(constructor, ty, len(parts))
                return PatternConstructor(constructor, tuple(map(self.read, parts, fields)), span=span)
        hint = "a constructor with its parts, a tuple, a name, or _"
        raise self.reader.error(node, "a case has no such pattern", hint, kind=UnsupportedError)

    def _fields(self, constructor: Constructor, ty: Type | None, count: int) -> Sequence[Type | None]:
        """The types of the parts, where the type of the value tells them; not of one that has dims of its own."""
        header, args = (ty.func, ty.args) if isinstance(ty, TypeCall) else (ty, ())
        variables = next((d.type_vars for d in self.reader.members.types.values() if d.header == header), ())
        if header != constructor.belongs_to or len(variables) != len(args) or count != len(constructor.inputs):
            return [None] * count
        known = dict(zip(variables, args, strict=True))
        return [None if free_dims(t) else replace_vars(t, known, {}) for t in constructor.inputs]
