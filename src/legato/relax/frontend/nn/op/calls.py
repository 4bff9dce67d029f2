"""Calls of tensor programs, of functions that make tensor expressions, and what calls what is outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from legato.base.errors import TypeCheckError, UnsupportedError
from legato.ir.expr import Expr, Shape
from legato.relax.frontend.nn.scope import as_shape_dim, current
from legato.relax.frontend.nn.tensor import Tensor, expr_of, wrap_nested
from legato.relax.op.calls import call_tir_inplace
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
    return _called(_program(func), name_hint, tensors, dims, out)


def tensor_ir_inplace_op(
    func: Func, name_hint: str, args: Any, inplace_indices: int | Sequence[int], out: Any
) -> Any:  # fmt: skip
    """The call of a program that stores to some of the tensors: result number i is what it makes of tensor number
    `inplace_indices[i]`, or memory of its own where that is -1. The tensors themselves stay as they are."""
    tensors, dims = _split(args)
    places = tuple(inplace_indices) if not isinstance(inplace_indices, int) else (inplace_indices,)
    if len(places) != len(_listed(out)):
        raise TypeCheckError(f"{name_hint}: {len(_listed(out))} results for {len(places)} of inplace_indices")
    return _called(_program(func), name_hint, tensors, dims, out, places)


def _called(
    func: Func, name: str, tensors: Sequence[Expr], dims: Sequence[Any], out: Any, places: Sequence[int] = ()
) -> Any:
    gvar = current().builder.add_func(func, name)
    types = [_type_of(t, name) for t in _listed(out)]
    call = call_tir_inplace(gvar, tensors, places or [-1] * len(types), types, dims)
    return wrap_nested(call, name)


def _program(func: Any) -> Func:
    if not isinstance(func, Func):
        raise TypeCheckError(f"{func!r} is no tensor program", hint="a function under @T.prim_func")
    return func


def _listed(out: Any) -> Sequence[Any]:
    return out if isinstance(out, list | tuple) else (out,)


def _type_of(out: Any, name: str) -> Any:
    if not isinstance(out, Tensor):
        raise TypeCheckError(f"{name} gives {out!r}", hint='nn.Tensor.placeholder(shape, "float32", "out")')
    return out._ty


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


def _refused(name: str, reason: str) -> Callable[..., NoReturn]:
    def build(*_: object, **__: object) -> NoReturn:
        raise UnsupportedError(f"there is no nn.op.{name}: {reason}")

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Not here: {reason}."
    return build


_OUTSIDE, _ONE = "programs do not call what is outside of them", "programs run on one machine"
_SAMPLED = "nn.op.tensor_expr_op and tensor_ir_op make programs of one's own"

extern = _refused("extern", _OUTSIDE)
debug_func = _refused("debug_func", _OUTSIDE)
print_ = _refused("print_", "programs do not print while they run; return the tensor")
ccl_allgather = _refused("ccl_allgather", _ONE)
ccl_allreduce = _refused("ccl_allreduce", _ONE)
ccl_broadcast_from_worker0 = _refused("ccl_broadcast_from_worker0", _ONE)
multinomial_from_uniform = _refused("multinomial_from_uniform", _SAMPLED)
renormalize_top_p_top_k_prob = _refused("renormalize_top_p_top_k_prob", _SAMPLED)
sample_top_p_top_k_from_sorted_prob = _refused("sample_top_p_top_k_from_sorted_prob", _SAMPLED)
