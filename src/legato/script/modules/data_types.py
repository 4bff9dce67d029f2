"""Data types of a module: what `List = R.data_type({"Nil": (), "Cons": (…)}, (R.TypeVar("A"),))` defines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.base.errors import TypeCheckError
from legato.ir.expr import Constructor
from legato.ir.types import GlobalTypeVar, Type, TypeData, TypeVar
from legato.script.modules.names import DataType
from legato.script.modules.types import DataForm, DataTypeForm, TypeVarForm, type_of, unnamed
from legato.tir.scalars import as_index

__all__ = ["data_types"]


def data_types(forms: Mapping[str, DataTypeForm]) -> dict[str, DataType]:
    """The data types by their names in the script; they may name each other.

    TypeCheckError for a type that is none, and for two that have one name.
    """
    headers = {form.name or name: GlobalTypeVar(form.name or name) for name, form in forms.items()}
    if len(headers) < len(forms):
        raise TypeCheckError("two data types have one name")
    return {name: _Data(form, headers).define(headers[form.name or name]) for name, form in forms.items()}


class _Data:
    """Makes one data type."""

    def __init__(self, form: DataTypeForm, headers: Mapping[str, GlobalTypeVar]) -> None:
        self.form = form
        self.headers = headers
        self.variables = {v.name: TypeVar(v.name, v.kind) for v in form.type_params}
        self.dims: dict[str, DimVar] = {}  # of values: each has its own

    def define(self, header: GlobalTypeVar) -> DataType:
        """The definition of `header`."""
        constructors = tuple(
            Constructor(
                self.form.names.get(name, name), tuple(type_of(t, self._dim, self._named) for t in held), header, tag
            )
            for tag, (name, held) in enumerate(self.form.constructors.items())
        )
        data = TypeData(header, tuple(self.variables.values()), constructors, self.form.extern)
        return DataType(data, dict(zip(self.form.constructors, constructors, strict=True)))

    def _dim(self, d: Any) -> Dim:
        if not isinstance(d, str):
            return as_index(d, "a dim")
        if not d.isidentifier():
            raise TypeCheckError(f"the dim {d!r} of a data type, wanted a name or a number")
        return self.dims.setdefault(d, DimVar(d, dt.index, *self.form.bounds.get(d, (0, None))))

    def _named(self, form: TypeVarForm | DataForm) -> Type:
        found = self.headers.get(form.name) if isinstance(form, DataForm) else self.variables.get(form.name)
        return unnamed(form) if found is None else found
