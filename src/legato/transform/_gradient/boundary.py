"""Data at the boundary of a differentiated program: what is passed to it, and what comes back.

let %convert = fn (%t: Tree) -> Tree_dual {
  match (%t) { Leaf(%x) => Leaf_dual((%x, …)), Node(%l, %r) => Node_dual(%convert(%l), %convert(%r)) }
};
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from legato.base.errors import UnsupportedError
from legato.infer.builder import Builder
from legato.infer.replace import replace_vars
from legato.ir.clauses import Clause, PatternConstructor, PatternVar
from legato.ir.expr import Call, Constructor, Expr, Function, Match, Var, tuple_of
from legato.ir.let import lets
from legato.ir.types import FuncType, GlobalTypeVar, TensorType, TupleType, Type, TypeCall, TypeData
from legato.transform._gradient.dual_types import DualTypes, is_float

__all__ = ["Conversion"]


class Conversion:
    """Values of one program as values of the other; every tensor of floats is converted by `leaf`.

    inwards: data become data of the twins, otherwise those of the twins become the original ones; `rest` converts
    tensors without floats, outwards.
    """

    def __init__(
        self,
        types: DualTypes,
        data: Mapping[GlobalTypeVar, TypeData],
        leaf: Callable[[Builder, Expr], Expr],
        *,
        inwards: bool,
        rest: Callable[[Builder, Expr], Expr] = lambda b, x: x,
    ) -> None:
        self._types, self._data, self._leaf, self._rest, self._inwards = types, data, leaf, rest, inwards
        self._functions: dict[Type, Var] = {}  # those in whose bodies the code is that is written

    def __call__(self, b: Builder, value: Expr, ty: Type) -> Expr:
        """`value`, whose type in the original program is `ty`, converted; bound by `b`."""
        if is_float(ty):
            return self._leaf(b, value)
        if isinstance(ty, TensorType):
            return self._rest(b, value)
        if isinstance(ty, TupleType):
            return tuple_of([self(b, b.let("p", b.get(value, n)), t) for n, t in enumerate(ty.fields)])
        if self._types.type(ty) is ty:
            return value
        if not isinstance(ty, GlobalTypeVar | TypeCall):
            raise UnsupportedError(
                f"a program that is differentiated takes and gives tensors and data, not a value of type {ty}",
                hint="functions and cells can be made and used inside",
            )
        convert = self._functions.get(ty) or self._bound(b, ty)
        return b.let("t", Call(convert, (value,), ty=self._to(ty)))

    def _from(self, ty: Type) -> Type:
        return ty if self._inwards else self._types.type(ty)

    def _to(self, ty: Type) -> Type:
        return self._types.type(ty) if self._inwards else ty

    def _bound(self, b: Builder, ty: Type) -> Var:
        """The variable of the function for one type, bound here."""
        function = self._function(b, ty)
        return b.let(self._functions.pop(ty), function)

    def _function(self, b: Builder, ty: Type) -> Function:
        """The function for one type, which names itself by `_functions`; those of types inside are inside."""
        header, args = (ty.func, ty.args) if isinstance(ty, TypeCall) else (ty, ())
        assert isinstance(header, GlobalTypeVar)
        data = self._data[header]
        own = FuncType((self._from(ty),), self._to(ty))
        self._functions[ty] = Var("convert", ty=own)
        value = Var("t", ty=own.params[0])
        stands = dict(zip(data.type_vars, args, strict=True))
        clauses = tuple(self._clause(b, con, [replace_vars(t, stands, {}) for t in con.inputs], args)
                        for con in data.constructors)  # fmt: skip
        return Function((value,), Match(value, clauses, ty=own.ret), own.ret, ty=own)

    def _clause(self, b: Builder, con: Constructor, inputs: list[Type], args: tuple[Type, ...]) -> Clause:
        twin = self._types.constructor(con)
        old, new = (con, twin) if self._inwards else (twin, con)
        fields = [Var("f", ty=self._from(ty)) for ty in inputs]
        with b.bindings() as bound:
            made = tuple(self(b, field, ty) for field, ty in zip(fields, inputs, strict=True))
            result = b.let("t", Call(new, made, None, tuple(map(self._to, args))))
        return Clause(PatternConstructor(old, tuple(map(PatternVar, fields))), lets(bound, result))
