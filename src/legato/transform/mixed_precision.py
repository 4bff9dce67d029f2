"""Programs of float32 that compute in 16 bits where that is said to be safe, by lists of operators.

    nn.softmax(add(nn.dense(%x, W), %b))
        =>
    %0 = nn.dense(cast(%x, dtype="float16"), W16, out_dtype="float16");
    nn.softmax(cast(add(%0, cast(%b, dtype="float16")), dtype="float32"))

An operator computes in 16 bits always, never, or if its operands of float32 are in 16 bits already (it follows);
parameters, and constants within the range of the narrow dtype, are for a cast. Sums of products are formed in float32
in any case, and rounded once. What control flow, closures and other functions hand on keeps its type.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import CompileError, UnsupportedError
from legato.base.node import rebuild
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.effects import brought_dims
from legato.ir.expr import Call, Constant, Expr, Function, GlobalVar, Let, Tuple, TupleGetItem, Var, tuple_of
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.types import TensorType, TupleType, Type, walk
from legato.ops.select import cast
from legato.transform._external import is_own
from legato.transform._mixed_lists import ALWAYS, FOLLOW, FREE, NEVER
from legato.transform._narrow import in_dtype, is_float32, narrowed, widened
from legato.transform.pass_ import Pass

__all__ = ["NARROW", "Category", "MixedPrecision", "Rule", "listed", "mixed"]


class Category(enum.IntEnum):
    """When an operator computes in 16 bits."""

    ALWAYS = 0
    FOLLOW = 1  # where its operands are in 16 bits
    NEVER = 2


# What a call does: its category, the dtype that it computes in, and that of its result.
Rule = Callable[[Call], tuple[Category, DType, DType]]
NARROW: Final = {"float16": dt.float16, "bfloat16": dt.bfloat16}


@dataclass(frozen=True, slots=True)
class MixedPrecision(Pass):
    """Typed module → typed module.

    dtype: float16 or bfloat16. narrow_output: results of @main that are computed in 16 bits stay in them. strict: an
    operator of no list is a CompileError; else it stays in float32.
    """

    name = "mixed-precision"
    rounds = True
    dtype: str = "float16"
    narrow_output: bool = False
    strict: bool = False

    def check_options(self) -> None:
        if self.dtype not in NARROW:
            raise UnsupportedError(f"mixed precision of {self.dtype}", hint=f"there are {' and '.join(NARROW)}")

    def __call__(self, mod: Module) -> Module:
        return mixed(mod, NARROW[self.dtype], partial(listed, NARROW[self.dtype], self.strict), not self.narrow_output)


def listed(dtype: DType, strict: bool, call: Call) -> tuple[Category, DType, DType]:
    """What the lists say. CompileError for an operator that is in none, if `strict`."""
    name = getattr(call.op, "name", "")
    if name in ALWAYS:
        return Category.ALWAYS, dtype, dtype
    if name in FOLLOW:
        return Category.FOLLOW, dtype, dtype
    if strict and name not in NEVER and name not in FREE:
        hint = "leave strict out: it stays in float32 then"
        raise CompileError(f"operator {name} is in no list of mixed precision", span=call.span, hint=hint)
    return Category.NEVER, dtype, dtype


def mixed(mod: Module, dtype: DType, rule: Rule, keep_output: bool) -> Module:
    """`mod` with calls computed in `dtype` as `rule` has it."""
    used = {n for _, f in mod.graph_functions() for n in post_order(f.body) if isinstance(n, GlobalVar)}
    changed = {}
    for gv, func in mod.functions.items():
        if not isinstance(func, Function) or not is_own(func):
            continue
        keeps = keep_output or gv.name != "main" or gv in used
        new = _Narrowed(func, dtype, rule).run(keeps)
        if new is not func:
            changed[gv] = new
    return mod if not changed else infer(mod.with_functions({**mod.functions, **changed}))


class _Narrowed:
    """A function's nodes, operands first: `new` has what became of each, in the types that it is computed in now."""

    def __init__(self, func: Function, dtype: DType, rule: Rule) -> None:
        self.func, self.dtype, self.rule = func, dtype, rule
        self.order = list(post_order(func.body))
        self.values = {n.var: n.value for n in self.order if isinstance(n, Let)}  # what lets bind
        self.new: dict[int, Expr] = {}
        self.casts: dict[tuple[int, DType], Expr] = {}
        self.kept: list[Expr] = []  # ids are keys, so the nodes they name must live

    def run(self, keeps: bool) -> Function:
        """The function, whose result keeps its type if `keeps`."""
        func = self.func
        for node in self.order:
            self.new[id(node)] = self.made(node)
        body = self.of(func.body)
        body = self.result(body) if keeps and body is not func.body else body
        if body is func.body:
            return func
        return replace(func, body=body, ret_type=func.ret_type if keeps else None, ty=func.ty if keeps else None)

    def result(self, body: Expr) -> Expr:
        """The body with its result in the type that it had, within all lets."""
        lets = []
        while isinstance(body, Let):
            lets.append(body)
            body = body.body
        body = self.as_type(body, self.func.body.ty)
        for let in reversed(lets):
            body = replace(let, body=body, ty=body.ty)
        return body

    def made(self, node: Expr) -> Expr:
        """What `node` becomes."""
        if isinstance(node, Var):
            return self.variable(node)
        if isinstance(node, Let):
            var = self.new.get(id(node.var)) or self.variable(node.var)
            value, body = self.of(node.value), self.of(node.body)
            new = rebuild(node, {id(node.var): var, id(node.value): value, id(node.body): body})
            return new if new is node else replace(new, ty=body.ty)
        if isinstance(node, Tuple):
            fields = [self.of(f) for f in node.fields]
            is_same = all(a is b for a, b in zip(fields, node.fields, strict=True))
            return node if is_same else replace(tuple_of(fields), span=node.span)
        if isinstance(node, TupleGetItem):
            value = self.of(node.value)
            assert isinstance(value.ty, TupleType)
            return node if value is node.value else replace(node, value=value, ty=value.ty.fields[node.index])
        if isinstance(node, Call) and isinstance(node.op, Op) and any(map(_has_float32, node.args)):
            return self.call(node, node.op)
        return rebuild(node, {id(c): self.wide(c) for c in node.children()})

    def call(self, node: Call, op: Op) -> Expr:
        """A call, computed in 16 bits or as before."""
        category, inside, result = self.rule(node)
        if category is Category.FOLLOW:
            is_ready = all(map(self.is_ready, node.args)) and (
                op is not cast or not _has_float32(self.of(node.args[0]))
            )
            category = Category.ALWAYS if is_ready else Category.NEVER
        if (
            category is Category.NEVER
            or brought_dims(node)
            or getattr(node.attrs, "out_dtype", "") not in ("", "float32")
        ):
            return rebuild(node, {id(a): self.wide(a) for a in node.args})
        attrs = replace(node.attrs, out_dtype=inside) if hasattr(node.attrs, "out_dtype") else node.attrs
        args = [self.narrow(self.of(a)) for a in node.args]
        new = Builder(span=node.span).call_op(op, args, attrs)
        is_wider = result is not inside and isinstance(new.ty, TensorType) and new.ty.dtype is inside
        return self.cast(new, result) if is_wider else new

    def of(self, node: Expr) -> Expr:
        """What `node` has become; a variable that is bound where it stands is itself."""
        return self.new.get(id(node), node)

    def variable(self, var: Var) -> Var:
        """A variable, of another type where a let binds it to a value that has one now."""
        value = self.values.get(var)
        if value is None or isinstance(value, Function) or self.of(value).ty == value.ty:
            return var
        return Var(var.name, ty=self.of(value).ty, span=var.span)

    def is_ready(self, arg: Expr) -> bool:
        """Whether an operand is in 16 bits, as far as it is of floats, or cheap to have in them."""
        if isinstance(arg, Tuple):
            return all(map(self.is_ready, arg.fields))
        if isinstance(arg, Constant):
            return self.fits(arg)
        if isinstance(arg, Var) and arg not in self.values:
            return not isinstance(arg.ty, TupleType)
        if isinstance(arg, Call) and getattr(arg.op, "name", "") in FREE:
            return all(map(self.is_ready, arg.args))
        return not _has_float32(self.of(arg))

    def fits(self, x: Constant) -> bool:
        """Whether all finite elements are finite in 16 bits, and none becomes 0."""
        if not _has_float32(x):
            return True
        with np.errstate(over="ignore"):
            narrow = x.data.astype(self.dtype.numpy)
            return bool(((np.isfinite(narrow) == np.isfinite(x.data)) & ((narrow == 0) == (x.data == 0))).all())

    def narrow(self, x: Expr) -> Expr:
        """`x` with its tensors of float32 in 16 bits."""
        return self.as_type(x, narrowed(x.ty, self.dtype))

    def wide(self, node: Expr) -> Expr:
        """`node` in the type that it had."""
        new = self.of(node)
        return new if new is node else self.as_type(new, node.ty)

    def as_type(self, x: Expr, ty: Type | None) -> Expr:
        """`x` with its tensors cast to what they are in `ty`."""
        if x.ty == ty:
            return x
        if isinstance(ty, TupleType):
            fields = x.fields if isinstance(x, Tuple) else [_field(x, n) for n in range(len(ty.fields))]
            return tuple_of(self.as_type(f, t) for f, t in zip(fields, ty.fields, strict=True))
        assert isinstance(ty, TensorType)
        return self.cast(x, ty.dtype)

    def cast(self, x: Expr, dtype: DType) -> Expr:
        """`x` in another dtype, once for all its users."""
        found = widened(x, dtype) if dtype is self.dtype else None
        if found is not None:
            return found
        found = self.casts.get((id(x), dtype))
        if found is None:
            found = self.casts[id(x), dtype] = in_dtype(x, dtype)
            self.kept.append(x)
        return found


def _field(x: Expr, index: int) -> Expr:
    assert isinstance(x.ty, TupleType)
    return TupleGetItem(x, index, ty=x.ty.fields[index], span=x.span)


def _has_float32(x: Expr) -> bool:
    """Whether a tensor of float32 is in it."""
    return x.ty is not None and any(map(is_float32, walk(x.ty)))
