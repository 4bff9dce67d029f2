"""Calls of the graph as parts of a script: `R.matmul(x, w)`, `R.op.nn.dense(x, w)`, `R.call_tir(…)`, `f(x)`."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from typing import Any

from legato.arith.expr import Const
from legato.arith.expr import Var as DimVar
from legato.base.errors import UnsupportedError
from legato.ir import sugar
from legato.ir._own_ops import op_table
from legato.ir.attr_types import WRONG, field_types, fitted
from legato.ir.call_tir import CALL_TIR
from legato.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Tuple
from legato.ir.op import Op
from legato.ir.packed import CALL_DPS_PACKED, OUTSIDE, PackedAttrs
from legato.ir.types import Dim, FuncType, ShapeType, TensorType, Type, TypeVar, free_type_vars, walk
from legato.script.modules.print_lines import HINT, quoted
from legato.script.modules.print_scalars import tuple_text
from legato.script.modules.print_values import Values
from legato.script.modules.spelling import relax_spelling

__all__ = ["call_text", "operator_text"]

Text = Callable[[Expr], str]


def call_text(node: Call, text: Text, values: Values, variables: Callable[[Constructor], Sequence[TypeVar]]) -> str:
    """A call; `text` gives those of its operands, `variables` the type variables of a constructor's data type."""
    op = node.op
    if not isinstance(op, Op):
        given = [text(a) for a in node.args]
        if not _is_told(node, variables):
            parts = [values.type(t) if isinstance(t, Type) else values.dim(t) for t in node.type_args]
            given.append(f"type_args={tuple_text(parts)}")
        return f"{text(op)}({', '.join(given)})"
    if op is CALL_TIR:
        return _tensor_program(node, text, values)
    spelling = relax_spelling(node)
    if spelling is not None:
        given = [_argument(v, text, values) for v in spelling.values]
        given += [f"{name}={_argument(v, text, values)}" for name, v in spelling.named.items()]
        return f"R.{spelling.name}({', '.join(given)})"
    args = [text(a) for a in node.args]
    if op in OUTSIDE and isinstance(node.args[-1], Tuple) and args[-1].startswith(("(", "R.tuple()")):
        return _outside(node, [*args[:-1], *map(text, node.args[-1].fields)], values)
    for f in () if op.attrs is None else fields(op.attrs):
        value = getattr(node.attrs, f.name)
        default = f.default if f.default is not MISSING else MISSING
        if type(default) is not type(value) or repr(default) != repr(value):
            exact = fitted(_numbers(value), field_types(op.attrs).get(f.name, Any)) is WRONG  # a dim that is a number
            args.append(f"{f.name}={values.value(value, exact=exact)}")
    return f"{operator_text(op)}({', '.join(args)})"


def _numbers(value: Any) -> Any:
    """A value as it is read where its dims that are numbers are written so."""
    if isinstance(value, tuple):
        return tuple(map(_numbers, value))
    return int(value.value) if isinstance(value, Const) else value


def _is_told(node: Call, variables: Callable[[Constructor], Sequence[TypeVar]]) -> bool:
    """Whether the types of the arguments tell the type arguments: each is a part of a parameter's type as it is."""
    if not node.type_args:
        return True
    callee = node.op.ty
    if isinstance(node.op, Constructor):
        wanted: set[Any] = set(variables(node.op))
        params = node.op.inputs
    elif isinstance(callee, FuncType):
        wanted, params = set(callee.type_params), callee.params
    else:
        return False
    found: set[Any] = set()
    for ty, arg in zip(params, node.args, strict=False):
        if not isinstance(arg, Op | Constructor | GlobalVar | Function):  # these have any of several types
            found.update(free_type_vars(ty))
            found.update(d for part in walk(ty) for d in _dims(part) if isinstance(d, DimVar))
    return wanted <= found


def _dims(ty: Type) -> Sequence[Dim]:
    return ty.shape if isinstance(ty, TensorType) else (ty.dims or ()) if isinstance(ty, ShapeType) else ()


def _argument(value: Any, text: Text, values: Values) -> str:
    if isinstance(value, Expr):
        return text(value)
    if isinstance(value, tuple) and value and all(isinstance(v, Expr) for v in value):
        return f"({', '.join(map(text, value))}{',' if len(value) == 1 else ''})"
    return values.value(value)


def _tensor_program(node: Call, text: Text, values: Values) -> str:
    args = [text(a) for a in node.args]
    name = "call_tir_inplace" if node.attrs.inplace else "call_tir"
    args += [repr(list(node.attrs.inplace))] if node.attrs.inplace else []
    out = [values.type(t) for t in node.attrs.out]
    args.append(f"out_sinfo={out[0] if len(out) == 1 else '[' + ', '.join(out) + ']'}")
    if node.attrs.dims:
        args.append(f"tir_vars=[{', '.join(map(values.dim, node.attrs.dims))}]")
    if node.attrs.operators:
        args.append(f"operators={node.attrs.operators!r}")
    return f"R.{name}({', '.join(args)})"


def _outside(node: Call, args: Sequence[str], values: Values) -> str:
    """The call of something outside of the program, whose arguments are written one by one."""
    assert isinstance(node.op, Op)
    name, attrs = node.op.name, node.attrs
    if not isinstance(attrs, PackedAttrs):
        return f"R.{name}({', '.join([*args, *([f'format={quoted(attrs.format)}'] if attrs.format else [])])})"
    types = [
        f'R.Tensor({tuple_text(["None" if d is None else values.dim(d) for d in shape])}, "{kind}")'
        for shape, kind in zip(attrs.dims, attrs.dtypes, strict=True)
    ]
    out = types[0] if len(types) == 1 else f"[{', '.join(types)}]"
    if node.op is CALL_DPS_PACKED:
        return f"R.{name}({quoted(attrs.name)}, {tuple_text(list(args))}, out_sinfo={out})"
    return f"R.{name}({', '.join([quoted(attrs.name), *args, *([f'sinfo_args={out}'] if types else [])])})"


def operator_text(op: Op) -> str:
    """An operator by its own name: `R.op.nn.dense`. UnsupportedError for one that is none of the package."""
    if (sugar.operators().get(op.name) or op_table({}).get(op.name)) is not op:
        raise UnsupportedError(f"the operator {op.name} is none of the package", hint=HINT)
    parts = op.name.split(".")
    plain = all(p.isidentifier() and not keyword.iskeyword(p) and not p.startswith("_") for p in parts)
    return f"R.op.{op.name}" if plain else f"R.op[{op.name!r}]"
