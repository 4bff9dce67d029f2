"""Calls: of operators, of functions of this package that build expressions, of decorated and of inner functions."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from legato.base import dtype as dt
from legato.base.errors import CompileError
from legato.base.node import post_order, rebuild
from legato.ir.expr import Call, Constant, Constructor, Expr, Function, GlobalVar, RefCreate, RefRead, RefWrite, Var
from legato.ir.op import Op
from legato.ir.types import Dim, FuncType
from legato.ops import table
from legato.script.annotations import Tensor
from legato.script.frame import Frame, Keywords
from legato.script.natives import BUILTINS, cast_to
from legato.script.numpy_functions import numpy_function
from legato.script.values import (
    Bound,
    Closure,
    Decorated,
    Missing,
    Native,
    Parts,
    Value,
    describe,
    exprs,
    is_foreign,
    is_number,
    plain,
)

__all__ = ["apply", "is_builder"]

_BUILDERS: Final = "legato.relay"  # the package whose functions build expressions from expressions


def is_builder(function: Value) -> bool:
    """Whether `function` is one of the operator functions and constructors that Relay's users know."""
    name = getattr(function, "__module__", None)
    if isinstance(function, FunctionType) and function.__globals__.get("__name__") != name:
        return False  # a function around one of these, by functools.wraps
    return callable(function) and isinstance(name, str) and f"{name}.".startswith(f"{_BUILDERS}.")


def apply(frame: Frame, function: Value, args: Sequence[Value], keywords: Keywords) -> Value:
    """What the call gives."""
    for value in (*args, *keywords.values()):
        if isinstance(value, Missing):
            raise frame.unsupported(value.why)
    match function:
        case Op():
            return frame.builder.call(function, *(_operand(frame, a) for a in args), **keywords)
        case Expr():
            return _function_value(frame, function, args, keywords)
        case Bound(inner, first):
            return apply(frame, inner, (*first, *args), keywords)
        case Closure():
            return frame.program.inline(frame, function, args, keywords)
        case Decorated():
            return frame.program.call(frame, function, args, keywords)
        case Parts():
            return apply(frame, function.part(frame, "forward"), args, keywords)
    return _python(frame, function, args, keywords)


def _python(frame: Frame, function: Value, args: Sequence[Value], keywords: Keywords) -> Value:
    """The call of an object of Python."""
    native = _native(function)
    if native is not None:
        return _run(frame, native, args, keywords)
    if isinstance(function, type) and issubclass(function, np.generic):
        return _run(frame, Native(function.__name__, partial(_scalar, kind=function)), args, keywords)
    if function is Tensor:
        return _run(frame, Native("Tensor", lambda _, *given, **named: Tensor(*given, **named)), args, keywords)
    if is_builder(function):
        return _built(frame, function, args, keywords)
    raise _unknown(frame, function)


def _native(function: Value) -> Native | None:
    if isinstance(function, Native):
        return function
    if type(function) in (BuiltinFunctionType, type):
        return BUILTINS.get(function)
    return numpy_function(function)


def _run(frame: Frame, native: Native, args: Sequence[Value], keywords: Keywords) -> Value:
    try:
        return native.run(frame, *args, **keywords)
    except (TypeError, ValueError, OverflowError) as error:
        raise frame.wrong(f"{native.name}: {error}") from error


def _unknown(frame: Frame, function: Value) -> CompileError:
    name = describe(function) if is_foreign(function) else getattr(function, "__name__", None) or describe(function)
    module = str(getattr(function, "__module__", None) or "")
    if isinstance(function, ModuleType):
        return frame.unsupported(f"call of the module {name}")
    if module.split(".")[0] == "numpy" or isinstance(function, np.ufunc):
        hint = f"use the operator: relay.{name}" if name in table() else "relay has the operators that there are"
        return frame.unsupported(f"numpy.{name} runs in NumPy, not in Relay", hint)
    if callable(function):
        hint = "put @relay above it, and its calls become calls of a function of the module"
        return frame.unsupported(f"{name} is a Python function that is not decorated", hint)
    return frame.wrong(f"{describe(function)} is called, and is no function")


def _scalar(frame: Frame, *args: Value, kind: Any) -> Value:
    """`np.float32(x)`."""
    if len(args) != 1:
        raise frame.wrong(f"{kind.__name__} takes 1 argument, got {len(args)}")
    if is_number(args[0]) or isinstance(args[0], np.generic):
        return kind(args[0])
    return cast_to(frame, frame.expr(args[0]), dt.dtype(np.dtype(kind)))


def _function_value(frame: Frame, function: Expr, args: Sequence[Value], keywords: Keywords) -> Value:
    if keywords:
        names = ", ".join(keywords)
        raise frame.wrong(f"the names of the arguments {names} are not known where a function is a value")
    wanted: Sequence[Any] = [None] * len(args)
    if isinstance(function.ty, FuncType) and len(function.ty.params) == len(args):
        wanted = function.ty.params
    elif isinstance(function, Var | GlobalVar) and function.ty is not None and not isinstance(function.ty, FuncType):
        raise frame.wrong("call of a value that is no function", details=[f"got : {function.ty}"])
    return frame.builder.apply(function, [frame.expr(a, t) for a, t in zip(args, wanted, strict=True)])


# ------------------------------------------------------------------ functions that build expressions


def _operand(frame: Frame, value: Value) -> Value:
    """An argument as a building function takes it: numbers, shapes and names as they are."""
    if isinstance(value, Closure | Decorated | Bound):
        return frame.expr(value)
    if isinstance(value, np.ndarray | np.generic):
        return frame.program.constant(frame, value)
    if isinstance(value, tuple | list):
        return tuple([_operand(frame, v) for v in value])
    if is_foreign(value):
        raise frame.unsupported(f"{describe(value)} is no tensor", "Relay computes with tensors and functions")
    return value


def _built(frame: Frame, function: Value, args: Sequence[Value], keywords: Keywords) -> Value:
    """The result of one of Relay's own functions, with the place of the call in its nodes."""
    given = [_operand(frame, a) for a in args]
    named = {k: _operand(frame, v) for k, v in keywords.items()}
    if any(isinstance(v, Dim) for v in (*given, *named.values())):
        given, named = _computed(frame, function, given, named)
    try:
        result = function(*given, **named)
    except CompileError:
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        name = getattr(function, "__name__", "the function")
        raise frame.wrong(f"relay.{name}: {error}") from error
    known = {id(n) for v in (*given, *named.values()) for n in exprs(v)}
    return _taken(frame, result, known)


def _computed(
    frame: Frame, function: Value, args: list[Value], keywords: dict[str, Value]
) -> tuple[list[Value], dict[str, Value]]:
    """Arguments with dims as tensors where the operator computes with them; those in its attributes stay dims."""
    record = table().get(getattr(function, "__qualname__", "").removeprefix("relay."))
    if record is None:
        return args, keywords
    attributes = {f.name for f in fields(record.attrs)} if record.attrs is not None else set()
    names = [*inspect.signature(function).parameters, *[""] * len(args)]

    def operand(name: str, given: Value) -> Value:
        return frame.expr(given) if isinstance(given, Dim) and name not in attributes else given

    positional = [operand(n, a) for n, a in zip(names, args, strict=False)]
    return positional, {k: operand(k, v) for k, v in keywords.items()}


def _taken(frame: Frame, result: Value, known: set[int]) -> Value:
    """A result as a value; several results are a tuple."""
    if hasattr(result, "astuple"):
        whole = frame.bind("t", _placed(frame, result.astuple(), known))
        return tuple(frame.builder.get(whole, n) for n in range(len(result)))
    if isinstance(result, Expr):
        return _placed(frame, result, known)
    return tuple([_taken(frame, r, known) for r in result]) if isinstance(result, tuple | list) else plain(result)


def _placed(frame: Frame, root: Expr, known: set[int]) -> Expr:
    """`root` with its new nodes made by this frame's builder: with the place, and the constraints of their types."""
    new: dict[int, Expr] = {}
    for node in post_order([root], lambda n: id(n) not in known and n.span is None):
        new[id(node)] = node if id(node) in known or node.span is not None else _again(frame, rebuild(node, new))
    return new[id(root)]


def _again(frame: Frame, node: Expr) -> Expr:
    match node:
        case Op() | Constructor() | Var() | GlobalVar():
            return node
        case RefCreate() | RefRead() | RefWrite():
            raise frame.unsupported("references have no place in a Python function", "assign to a variable")
        case Call(op=Op() as op):
            return frame.builder.call_op(op, node.args, node.attrs)
        case Call():
            return frame.builder.apply(node.op, node.args)
        case Constant() | Function():
            return replace(node, span=frame.span)
        case _:
            return replace(node, span=frame.span)
