"""Calls: operators on constants are computed, functions that are known are evaluated in place or specialised.

A function is evaluated in place of its call, with three exceptions, where the call stays, of the function or of a
specialisation of it:

* fuel: one that used up what there is is called as it is (`attempt`);
* loops: behind a choice that is not known, a function that is being evaluated already is followed only where less is
  to be done than then. Otherwise it is a loop: what differs between the two calls is not known in its specialisation,
  and the outer call becomes a call of that as well (in the next attempt);
* what its caller cannot check: its equalities of dims, where nobody can tell that they hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from legato.arith.expr import Expr as Dim
from legato.arith.prove import prove_equal
from legato.arith.substitute import variables
from legato.infer.builder import Builder
from legato.ir.attrs import default_attrs, is_symbolic
from legato.ir.expr import Call, Constructor, Function, GlobalVar, Var, constant
from legato.ir.op import Op
from legato.ir.types import FuncType, TensorType, TupleType, Type
from legato.ir.updates import UPDATES
from legato.runtime.floats import float_environment
from legato.transform._partial.code import Block, Later, Steps
from legato.transform._partial.scope import Activation
from legato.transform._partial.values import Closure, Fields, Keys, Known, Literal, Made, Value
from legato.transform._types import arguments, split

if TYPE_CHECKING:
    from legato.transform._partial.evaluate import Evaluator

__all__ = ["Calls"]

MAX_GROWTH: Final = 1 << 12  # bytes by which a constant may exceed what it is computed from


class Calls:
    """The rules of calls."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._attempt = evaluator.attempt
        self._keys = evaluator.keys

    def call(self, node: Call, var: Var, env: Activation, block: Block) -> Value | Steps:
        """The value of a call, or the work that finds it."""
        operand = self._evaluator.operand
        args = [operand(a, env) for a in node.args]
        if isinstance(node.op, Op):
            return self._operator(node, args, var, env, block)
        callee = operand(node.op, env)
        match callee:
            case Known(function=Op() as op):
                applied = Call(op, node.args, default_attrs(op), ty=node.ty, span=node.span)
                return self._operator(applied, args, var, env, block)
            case Known(function=Constructor() as con):
                return self._made(con, node, args, var, env, block)
            case Known(function=GlobalVar() as gv):
                func = self._attempt.functions.get(gv)
                if isinstance(func, Function):
                    return self._function(callee, func, node, args, var, env, block)
            case Closure(function=func):
                return self._function(callee, func, node, args, var, env, block)
        return self._stays(callee, node, args, var, env, block)

    def _made(
        self, con: Constructor, node: Call, args: Sequence[Value], var: Var, env: Activation, block: Block
    ) -> Value:
        ty = None if node.ty is None else env.type(node.ty)
        made = Made(con, args, Var(var.name, ty=ty, span=node.span), self._keys)
        block.entries.append(Later(made))
        return made

    # ------------------------------------------------------------------ operators

    def _operator(self, node: Call, args: Sequence[Value], var: Var, env: Activation, block: Block) -> Value:
        op = node.op
        assert isinstance(op, Op)
        new = () if node.ty is None else env.new_dims(node.ty)
        atoms = tuple(a.atom for a in args)
        known = all(map(_is_known, args))
        if new and any(map(_is_known, args)):
            made = env.node(node, (op, *atoms), None)
            assert isinstance(made, Call)
            ty = Builder(types=tuple(self._attempt.types.values())).call_op(op, atoms, made.attrs).ty
            ty = env.type(node.ty) if ty is None and node.ty is not None else ty
        else:
            ty = None if node.ty is None else env.type(node.ty)
        made = env.node(node, (op, *atoms), ty)
        assert isinstance(made, Call)
        if known and not op.stateful and (op.compute is not None or op in UPDATES):
            folded = _folded(made, args, self._keys)
            if folded is not None:
                return folded
        return self._evaluator.bind(var, made, block)

    # ------------------------------------------------------------------ functions

    def _function(
        self,
        callee: Value,
        func: Function,
        node: Call,
        args: Sequence[Value],
        var: Var,
        env: Activation,
        block: Block,
    ) -> Value | Steps:
        attempt, level = self._attempt, self._evaluator.level
        key = (callee.key, *(a.key for a in args))
        mask = attempt.loop(func, key)
        if mask is not None:
            return self._stays(callee, node, args, var, env, block, mask)
        if attempt.is_refused(func):
            return self._stays(callee, node, args, var, env, block)
        size = callee.size + sum(a.size for a in args)
        active = self._evaluator.active.get(func, ())
        if active and level > active[-1].level and size >= active[-1].size:
            before = active[-1].key
            mask = tuple(a == b != 0 and before[0] == key[0] for a, b in zip(before[1:], key[1:], strict=True))
            attempt.note_loop(func, before, mask)
            attempt.note_loop(func, key, mask)
            return self._stays(callee, node, args, var, env, block, mask)
        inner = self._entered(callee, func, node, args, env)
        if inner is None:
            return self._stays(callee, node, args, var, env, block)
        attempt.spend(func, self._evaluator.active)
        for param, arg in zip(func.params, args, strict=True):
            inner.vars[param] = self._evaluator.conform(arg, param.ty, inner, block)
        return self._evaluator.inside(func, key, size, inner, block)

    def _entered(
        self, callee: Value, func: Function, node: Call, args: Sequence[Value], env: Activation
    ) -> Activation | None:
        """An activation of `func` in which its type parameters have values; None where nothing tells them, or where
        equalities that it asks for are not certain."""
        inner = Activation(callee.env if isinstance(callee, Closure) else None)
        type_args = self._type_args(callee, func.type_params, node, args, env)
        if len(type_args) != len(func.type_params):
            return None
        types, dims = split(func.type_params, type_args)
        inner.types.update(types)
        inner.dims.update(dims)
        for c in func.attrs.get("constraints", ()):
            if not all(map(inner.is_bound, variables(c.a, c.b))) or not prove_equal(inner.dim(c.a), inner.dim(c.b)):
                return None
        return inner

    def _type_args(
        self, callee: Value, params: Sequence[Any], node: Call, args: Sequence[Value], env: Activation
    ) -> tuple[Type | Dim, ...]:
        """What the type parameters of a callee stand for; () where nothing tells that."""
        if not params:
            return ()
        if len(node.type_args) == len(params):
            return tuple(env.argument(a) for a in node.type_args)
        types = tuple(a.ty for a in args if a.ty is not None)
        if not isinstance(callee.ty, FuncType) or len(types) != len(args) or node.ty is None:
            return ()
        return arguments(callee.ty, FuncType(types, env.type(node.ty))) or ()

    # ------------------------------------------------------------------ calls that stay

    def _stays(
        self,
        callee: Value,
        node: Call,
        args: Sequence[Value],
        var: Var,
        env: Activation,
        block: Block,
        mask: Sequence[bool] = (),
    ) -> Value:
        """The call, as it stands or (`mask`: the arguments of which something is known) of a specialisation."""
        evaluator = self._evaluator
        for value in (callee, *args):
            evaluator.store.leak(value)
        params = callee.ty.type_params if isinstance(callee.ty, FuncType) else ()
        type_args = self._type_args(callee, params, node, args, env)
        made: Call | None = None
        gv = callee.function if isinstance(callee, Known) else None
        if any(mask) and isinstance(gv, GlobalVar) and len(type_args) == len(params):
            made = self._attempt.specialised(gv, args, mask, type_args)
        if made is None:
            made = Call(callee.atom, tuple(a.atom for a in args), None, type_args, span=node.span)
        ty = None if node.ty is None else env.type(node.ty)
        value = evaluator.bind(var, made.with_type(ty), block)
        if self._attempt.may_write(node):
            evaluator.store.forget()
        return value


def _is_known(value: Value) -> bool:
    """True for a constant, or a tuple of constants."""
    todo = [value]
    while todo:
        top = todo.pop()
        if isinstance(top, Fields):
            todo += top.fields
        elif not isinstance(top, Literal):
            return False
    return True


# ------------------------------------------------------------------ constants


def _folded(call: Call, args: Sequence[Value], keys: Keys) -> Value | None:
    """The value of an operator on constants; None where it is large, or not certain."""
    op, wanted = call.op, _bytes(call.ty)
    assert isinstance(op, Op)
    if wanted is None or wanted > sum(_bytes(a.ty) or 0 for a in args) + MAX_GROWTH or is_symbolic(op, call.attrs):
        return None
    try:
        with float_environment():
            found = op.reference(*map(_array, args), *op.tail(call.attrs))
    except Exception:  # the program has this error when it runs
        return None
    return _literal(found, call.ty, keys)


def _array(value: Value) -> Any:
    if isinstance(value, Fields):
        return tuple(map(_array, value.fields))
    assert isinstance(value, Literal)
    return value.constant.data


def _literal(found: Any, ty: Type | None, keys: Keys) -> Value | None:
    if isinstance(ty, TupleType):
        fields = [_literal(f, t, keys) for f, t in zip(found, ty.fields, strict=True)]
        known = [f for f in fields if f is not None]
        return Fields(known, keys, ty) if len(known) == len(fields) else None
    if not isinstance(ty, TensorType) or np.shape(found) != ty.static_shape():
        return None
    return Literal(constant(np.asarray(found), ty.dtype), keys)


def _bytes(ty: Type | None) -> int | None:
    """The size of a value of `ty`; None unless every shape is static."""
    if isinstance(ty, TupleType):
        parts = [_bytes(f) for f in ty.fields]
        return None if None in parts else sum(p for p in parts if p is not None)
    if not isinstance(ty, TensorType) or not ty.is_static or any(n < 0 for n in ty.static_shape()):
        return None
    return math.prod(ty.static_shape()) * ty.dtype.bytes
