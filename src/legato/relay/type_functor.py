"""Visitors and mutators of types and patterns, to be subclassed. Both nest shallowly, so these recurse."""

from __future__ import annotations

from typing import Any, Final

from legato.base.errors import TypeCheckError
from legato.ir import clauses as ic
from legato.ir import types as it
from legato.ir.clauses import Pattern
from legato.ir.expr import Var
from legato.ir.types import Type

__all__ = ["PatternFunctor", "PatternMutator", "PatternVisitor", "TypeFunctor", "TypeMutator",
           "TypeVisitor"]  # fmt: skip

_TYPES: Final[dict[type, str]] = {
    it.TypeVar: "visit_type_var",
    it.HoleType: "visit_incomplete_type",
    it.TensorType: "visit_tensor_type",
    it.FuncType: "visit_func_type",
    it.TupleType: "visit_tuple_type",
    it.RefType: "visit_ref_type",
    it.GlobalTypeVar: "visit_global_type_var",
    it.TypeCall: "visit_type_call",
    it.TypeData: "visit_type_data",
    it.ShapeType: "visit_shape_type",
}
_PATTERNS: Final[dict[type, str]] = {
    ic.PatternWildcard: "visit_pattern_wildcard",
    ic.PatternVar: "visit_pattern_var",
    ic.PatternConstructor: "visit_pattern_constructor",
    ic.PatternTuple: "visit_pattern_tuple",
}


class TypeFunctor:
    """Calls the method of each type's kind. Subclass it and write them: here each raises NotImplementedError."""

    def visit(self, typ: Type) -> Any:
        """What the method for `typ` returns; TypeCheckError for what is not a type."""
        name = _TYPES.get(type(typ))
        if name is None:
            raise TypeCheckError(f"visited a {type(typ).__name__}, which is not a type")
        return getattr(self, name)(typ)

    def _missing(self, typ: Any, /) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.{_TYPES[type(typ)]}")

    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_func_type = visit_tuple_type = _missing
    visit_ref_type = visit_global_type_var = visit_type_call = visit_type_data = visit_shape_type = _missing


class TypeVisitor(TypeFunctor):
    """Visits every part of a type: of functions and data types also the type variables that they bind."""

    def visit_leaf(self, typ: Any, /) -> Any:
        """Nothing to go on to."""

    def visit_children(self, typ: Any, /) -> Any:
        """Visits the parts of `typ`."""
        for part in typ.children():
            self.visit(part)

    def visit_func_type(self, ft: it.FuncType, /) -> Any:
        self.visit_children(ft)
        for param in ft.type_params:
            if isinstance(param, it.TypeVar):
                self.visit(param)

    def visit_type_data(self, td: it.TypeData, /) -> Any:
        self.visit(td.header)
        for var in td.type_vars:
            self.visit(var)
        for constructor in td.constructors:
            for ty in constructor.inputs:
                self.visit(ty)

    visit_tuple_type = visit_ref_type = visit_type_call = visit_children
    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_global_type_var = visit_shape_type = visit_leaf


class TypeMutator(TypeFunctor):
    """Rebuilds types: each method returns what takes the type's place."""

    def visit_leaf(self, typ: Any, /) -> Any:
        """The type itself."""
        return typ

    def visit_children(self, typ: Any, /) -> Any:
        """`typ` with its parts rebuilt."""
        return typ.with_children(tuple([self.visit(part) for part in typ.children()]))

    def visit_func_type(self, ft: it.FuncType, /) -> Any:
        own = tuple([self.visit(p) if isinstance(p, it.TypeVar) else p for p in ft.type_params])
        return it.FuncType(tuple([self.visit(p) for p in ft.params]), self.visit(ft.ret), own)

    def visit_type_data(self, td: it.TypeData, /) -> Any:
        """The definition itself: it has identity, and constructors belong to it."""
        return td

    visit_tuple_type = visit_ref_type = visit_type_call = visit_children
    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_global_type_var = visit_shape_type = visit_leaf


class PatternFunctor:
    """Calls the method of each pattern's kind. Subclass it and write them: here each raises NotImplementedError."""

    def visit_pattern(self, pattern: Pattern) -> Any:
        """What the method for `pattern` returns; TypeCheckError for what is not a pattern."""
        name = _PATTERNS.get(type(pattern))
        if name is None:
            raise TypeCheckError(f"visited a {type(pattern).__name__}, which is not a pattern")
        return getattr(self, name)(pattern)

    def _missing(self, pattern: Any, /) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.{_PATTERNS[type(pattern)]}")

    visit_pattern_wildcard = visit_pattern_var = visit_pattern_constructor = visit_pattern_tuple = _missing


class PatternVisitor(PatternFunctor):
    """Visits every part of a pattern, and by `visit_var` the variables that it binds."""

    def visit_var(self, var: Var, /) -> Any:
        """A variable that the pattern binds."""

    def visit_pattern_wildcard(self, pattern: ic.PatternWildcard, /) -> Any:
        pass

    def visit_pattern_var(self, pattern: ic.PatternVar, /) -> Any:
        self.visit_var(pattern.var)

    def visit_pattern_constructor(self, pattern: ic.PatternConstructor, /) -> Any:
        for part in pattern.patterns:
            self.visit_pattern(part)

    def visit_pattern_tuple(self, pattern: ic.PatternTuple, /) -> Any:
        for part in pattern.patterns:
            self.visit_pattern(part)


class PatternMutator(PatternFunctor):
    """Rebuilds patterns: each method returns what takes the pattern's place, `visit_var` another variable."""

    def visit_var(self, var: Var, /) -> Any:
        """The variable itself."""
        return var

    def visit_pattern_wildcard(self, pattern: ic.PatternWildcard, /) -> Any:
        return pattern

    def visit_pattern_var(self, pattern: ic.PatternVar, /) -> Any:
        return ic.PatternVar(self.visit_var(pattern.var))

    def visit_pattern_constructor(self, pattern: ic.PatternConstructor, /) -> Any:
        return ic.PatternConstructor(pattern.constructor, tuple([self.visit_pattern(p) for p in pattern.patterns]))

    def visit_pattern_tuple(self, pattern: ic.PatternTuple, /) -> Any:
        return ic.PatternTuple(tuple([self.visit_pattern(p) for p in pattern.patterns]))
