"""Calls of tensor programs, of functions that make tensor expressions, and of what is outside of the program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from legato.arith.expr import Expr as DimExpr
from legato.base.errors import CompileError, TypeCheckError, UnsupportedError
from legato.infer.builder import Builder
from legato.ir.expr import Expr, Shape
from legato.ir.types import TensorType
from legato.relax.expr import prim_value
from legato.relax.frontend.nn.scope import as_shape_dim, current
from legato.relax.frontend.nn.tensor import Tensor, expr_of, wrap_nested
from legato.relax.op.calls import call_dps_packed, call_packed, call_tir, call_tir_inplace
from legato.relax.op.calls import print as print_values
from legato.tir.stmt import Func

__all__ = ["ccl_allgather", "ccl_allreduce", "ccl_broadcast_from_worker0", "debug_func", "extern",
           "multinomial_from_uniform", "print_", "renormalize_top_p_top_k_prob",
           "sample_top_p_top_k_from_sorted_prob", "tensor_expr_op", "tensor_ir_inplace_op",
           "tensor_ir_op"]  # fmt: skip


def tensor_expr_op(
    tensor_expr_func: Callable[..., Any], name_hint: str, args: Sequence[Any], *,
    attrs: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """What a function of te tensors gives for these: as a tensor program, which is called like `name_hint`."""
    builder = current().builder
    call = builder.call_te(tensor_expr_func, *map(expr_of, args), primfunc_name_hint=name_hint, primfunc_attrs=attrs)
    return wrap_nested(call, name_hint)


def tensor_ir_op(func: Func, name_hint: str, args: Any, out: Any) -> Any:
    """The call of a tensor program, which is called like `name_hint`, on tensors, and dims behind these.

    out: what it gives: `Tensor.placeholder(shape, dtype, name)`, or several of them.
    """
    tensors, dims = _split(args)
    gvar = current().builder.add_func(_program(func), name_hint)
    return _wrapped(call_tir(gvar, tensors, _types(out, name_hint), dims), name_hint, out)


def tensor_ir_inplace_op(
    func: Func, name_hint: str, args: Any, inplace_indices: int | Sequence[int], out: Any
) -> Any:  # fmt: skip
    """The call of a program that stores to some of the tensors: result number i is what it makes of tensor number
    `inplace_indices[i]`, or memory of its own where that is -1. The tensors themselves stay as they are."""
    tensors, dims = _split(args)
    gvar = current().builder.add_func(_program(func), name_hint)
    call = call_tir_inplace(gvar, tensors, inplace_indices, _types(out, name_hint), dims)
    return _wrapped(call, name_hint, out)


def extern(name: str, args: Any, out: Any) -> Any:
    """The call of the packed function `name`, without effects, on tensors, dims (as shapes of one) and numbers (as
    scalars of int64, float64 and bool).

    out: what it fills, which it is given behind these: `Tensor.placeholder(shape, dtype, name)`, or several of them.
    Whoever compiles the program says what function that is: `relax.build(mod, packed={name: function})`.
    """
    call = call_dps_packed(name, _passed(args, name), _types(out, name))
    return _wrapped(call, name, out)


def debug_func(name: str, *args: Any, _line_info: str | None = None) -> None:
    """Calls the packed function `name` for its effects, with `export_tvm(debug=True)`; see `extern` for arguments."""
    _effect(f"nn.op.debug_func of {name}", call_packed(name, *_passed(args, name)))


def print_(tensor: Tensor) -> None:
    """Prints a tensor when the program runs: with `export_tvm(debug=True)`."""
    _effect("nn.op.print_", print_values(tensor._expr))


def _effect(what: str, call: Expr) -> None:
    scope = current(what)
    if not scope.has_effects:
        raise CompileError(f"{what} in a method without effects", hint="export_tvm(spec, debug=True)")
    scope.builder.emit(call)


def _passed(args: Any, name: str) -> list[Expr]:
    """What is passed to the packed function `name`."""
    return [_argument(a, name) for a in _listed(args)]


def _argument(value: Any, name: str) -> Expr:
    if isinstance(value, Tensor | Expr):
        found: Expr = expr_of(value)
        return found
    if isinstance(value, DimExpr):
        return Builder().shape([value])
    if isinstance(value, bool | int | float):
        return prim_value(value)
    raise TypeCheckError(f"{name} of {value!r}", hint="tensors, dims and numbers are passed")


def _wrapped(call: Expr, name: str, out: Any) -> Any:
    """The tensors that a call gives: several where `out` is a list or tuple."""
    found = wrap_nested(call, re.sub(r"\W", "_", name))
    return (found,) if isinstance(out, list | tuple) and len(out) == 1 else found


def _program(func: Any) -> Func:
    if not isinstance(func, Func):
        raise TypeCheckError(f"{func!r} is no tensor program", hint="a function under @T.prim_func")
    return func


def _listed(out: Any) -> Sequence[Any]:
    return out if isinstance(out, list | tuple) else (out,)


def _types(out: Any, name: str) -> list[TensorType]:
    """The types of what `name` gives."""
    listed = _listed(out)
    for t in listed:
        if not isinstance(t, Tensor):
            raise TypeCheckError(f"{name} gives {t!r}", hint='nn.Tensor.placeholder(shape, "float32", "out")')
    return [t._ty for t in listed]


def _split(args: Any) -> tuple[list[Expr], list[Any]]:
    """Tensors as expressions, and the dims behind them. TypeCheckError for a tensor behind a dim."""
    tensors: list[Expr] = []
    dims: list[Any] = []
    for arg in _listed(args):
        if isinstance(arg, Tensor):
            if dims:
                raise TypeCheckError("a tensor behind a dim", hint="tensors come first")
            tensors.append(arg._expr)
        else:
            dims += arg.dims if isinstance(arg, Shape) else [as_shape_dim(arg)]
    return tensors, dims


# ---------------------------------------------------------------------- not there


def _refused(name: str, reason: str, hint: str) -> Callable[..., NoReturn]:
    def build(*_: object, **__: object) -> NoReturn:
        raise UnsupportedError(f"there is no nn.op.{name}: {reason}", hint=hint)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Not here: {reason}."
    return build


_ONE = "programs run on one machine", "leave it out: of one machine it gives what it is given"
_SAMPLED = "samples are drawn outside", "nn.op.tensor_expr_op and tensor_ir_op make programs of one's own"

ccl_allgather = _refused("ccl_allgather", *_ONE)
ccl_allreduce = _refused("ccl_allreduce", *_ONE)
ccl_broadcast_from_worker0 = _refused("ccl_broadcast_from_worker0", *_ONE)
multinomial_from_uniform = _refused("multinomial_from_uniform", *_SAMPLED)
renormalize_top_p_top_k_prob = _refused("renormalize_top_p_top_k_prob", *_SAMPLED)
sample_top_p_top_k_from_sorted_prob = _refused("sample_top_p_top_k_from_sorted_prob", *_SAMPLED)
