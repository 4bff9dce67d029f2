"""Calls of tensor programs of the module, and of packed functions outside of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.arith.expr import Expr as Dim
from legato.base.errors import TypeCheckError
from legato.infer.builder import Builder
from legato.ir.call_tir import call_tir as call_program
from legato.ir.expr import Call, Expr, GlobalVar
from legato.ir.types import TensorType, TupleType, Type
from legato.relax.expr import as_expr
from legato.relax.ty import as_dim, as_type
from legato.script.modules import packed_calls as forms
from legato.script.modules.tir_calls import in_place, out_types, stated
from legato.script.modules.types import TensorForm, TupleForm
from legato.te.scalar import plain

__all__ = ["assert_op", "call_dps_packed", "call_packed", "call_pure_packed", "call_tir", "call_tir_inplace", "print"]


def call_tir(gvar: GlobalVar, args: Any, out_ty: Any = None, tir_vars: Any = None, *, out_sinfo: Any = None) -> Call:
    """The call of the tensor program `gvar`; outputs, of type `out_ty`, are allocated and are its result.

    Dims among `args`, or `tir_vars`, are the values of its first index parameters.
    """
    return _called(gvar, args, out_types(out_ty if out_sinfo is None else out_sinfo, as_type), tir_vars)


def call_tir_inplace(
    gvar: GlobalVar, args: Any, inplace_indices: int | Sequence[int], out_ty: Any = None, tir_vars: Any = None, *,
    out_sinfo: Any = None,
) -> Call:  # fmt: skip
    """The call of a tensor program that stores to some of `args`: output number i is what it makes of argument number
    `inplace_indices[i]`, or memory of its own where that is -1. The arguments themselves stay as they are."""
    out = out_types(out_ty if out_sinfo is None else out_sinfo, as_type)
    return _called(gvar, args, out, tir_vars, in_place(inplace_indices, out))


def _called(
    gvar: GlobalVar, args: Any, out: Sequence[TensorType], tir_vars: Any, places: Sequence[int] = ()
) -> Call:  # fmt: skip
    if not isinstance(gvar, GlobalVar):
        raise TypeCheckError(f"{gvar!r} is no function of a module", hint='bb.add_func(program, "name") makes it one')
    dims = tuple(map(as_dim, stated(tir_vars)))
    if isinstance(args, Expr) and isinstance(args.ty, TupleType):  # the tuple of them
        return call_program(gvar, args, out, dims, inplace=places)
    given: Sequence[Any] = [plain(a) for a in (args if isinstance(args, list | tuple) else (args,))]
    first = tuple(as_dim(a) for a in given if isinstance(a, Dim))
    tensors = [as_expr(a) for a in given if not isinstance(a, Dim)]
    return call_program(gvar, tensors, out, (*first, *dims), inplace=places)


# ---------------------------------------------------------------------- packed functions


class _Reader:
    """What the forms of scripts ask of who reads them: here, where the dims of arguments, and of `types`, are known."""

    def __init__(self, args: Sequence[Any], types: Sequence[Type] = ()) -> None:
        self.b = Builder()
        for ty in (*(a.ty for a in args if isinstance(a, Expr)), *types):
            if ty is not None:
                self.b.var("known", ty)

    expr, dim, described = staticmethod(as_expr), staticmethod(as_dim), staticmethod(repr)


def _form(given: Any) -> Any:
    """A type as the form of a script that says it."""
    if isinstance(given, list | tuple):
        return [_form(g) for g in given]
    if isinstance(given, TensorType):
        return TensorForm(given.shape, given.dtype)
    return TupleForm(tuple(map(_form, given.fields))) if isinstance(given, TupleType) else given


def _packed(form: Callable[..., Any], name: str, doc: str) -> Callable[..., Expr]:
    def function(func: str, *args: Any, ty_args: Any = None, sinfo_args: Any = None) -> Expr:
        reader: Any = _Reader(args)
        made: Expr = form(reader, func, *args, ty_args=_form(sinfo_args if ty_args is None else ty_args))
        return made

    function.__name__, function.__doc__ = name, doc
    return function


call_packed = _packed(
    forms.call_packed_form, "call_packed",
    "The call of the packed function of this name, which may have effects; it gives tensors of types `ty_args`.",
)  # fmt: skip
call_pure_packed = _packed(
    forms.call_pure_packed_form, "call_pure_packed", "The call of a packed function without effects."
)  # fmt: skip


def call_dps_packed(func: str, args: Any, out_ty: Any = None, *, out_sinfo: Any = None) -> Expr:
    """The call of a packed function that fills tensors of types `out_ty`, which it is given behind its arguments."""
    given = args if isinstance(args, list | tuple) else (args,)
    form = out_ty if out_sinfo is None else out_sinfo
    reader: Any = _Reader(given, [] if form is None else out_types(form, as_type))
    return forms.call_dps_packed_form(reader, func, given, _form(form))


def print(*values: Any, format: str = "") -> Expr:
    """Prints values, when the program runs."""
    reader: Any = _Reader(values)
    return forms.print_form(reader, *values, format=format)


def assert_op(condition: Any, *format_args: Any, format: str = "") -> Expr:
    """Ends the program, with a message that shows values, unless the condition holds."""
    reader: Any = _Reader(format_args)
    return forms.assert_form(reader, condition, *format_args, format=format)
