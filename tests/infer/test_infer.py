"""Whole-module inference: programs as text, and the types or errors that they get."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from textwrap import dedent

import pytest

from legato.arith.broadcast import broadcast
from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.base.errors import TypeCheckError
from legato.infer.infer import infer
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Expr, Function, GlobalVar, Let, TupleGetItem, Var
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.types import FuncType, TensorType, tensor_type
from legato.ops import table
from tests.heavy import amount
from tests.steps import steps

VERSION = '#[version = "0.0.5"]\n'


def read(text: str) -> Module:
    """The module of a text without its version line."""
    return parse(VERSION + dedent(text), ops=table())


def signature(module: Module, name: str = "main") -> str:
    """The type of a function as text."""
    return str(module.var(name) and module[name].ty)  # type: ignore[union-attr]


SIGNATURES = {
    "dims of parameters that nothing determines are any": (
        """
        type T { A(Tensor[(?, 2), float32]), B }
        def @f(%x, %n: int32) -> T { if (%n == 0) { A(%x) } else { @g(%x, %n - 1) } }
        def @g(%x, %n: int32) -> T { if (%n == 0) { B } else { @f(%x, %n - 1) } }
        def @main(%a: Tensor[(3, 2), float32], %b: Tensor[(k, 2), float32], %c) {
          (@f(%a, 2), @g(%b, 3), nn.relu(%c), A(%c))
        }
        """,
        "fn [k: ShapeVar, d: ShapeVar](Tensor[(3, 2), float32], Tensor[(k, 2), float32], Tensor[(d, 2), float32]) -> "
        "(T, T, Tensor[(d, 2), float32], T)",
    ),
    "the relation of dense gives the weight its type": (
        "def @main(%x: Tensor[(2, 4), float32], %w) { nn.dense(%x, %w, units=8) }",
        "fn (Tensor[(2, 4), float32], Tensor[(8, 4), float32]) -> Tensor[(2, 8), float32]",
    ),
    "a relation is asked again when its arguments are known": (
        """def @main(%x: Tensor[(1, 3, 8, 8), float32], %w, %b) {
             nn.relu(nn.bias_add(nn.conv2d(%x, %w, channels=16, kernel_size=[3, 3]), %b))
           }""",
        "fn (Tensor[(1, 3, 8, 8), float32], Tensor[(16, 3, 3, 3), float32], Tensor[(16,), float32]) "
        "-> Tensor[(1, 16, 6, 6), float32]",
    ),
    "a dim of a parameter is a type parameter": (
        "def @main(%x: Tensor[(?, 4), float32]) { nn.relu(%x) }",
        "fn [d: ShapeVar](Tensor[(d, 4), float32]) -> Tensor[(d, 4), float32]",
    ),
    "what is not constrained is generalised": (
        "def @main(%x) { (%x, 1) }",
        "fn [A](A) -> (A, int32)",
    ),
    "a recursive function without annotation": (
        """def @main(%i: int32, %acc: Tensor[(?,), float32]) {
             if (equal(%i, 0)) { %acc } else { @main(subtract(%i, 1), add(%acc, 1f)) }
           }""",
        "fn [d: ShapeVar](int32, Tensor[(d,), float32]) -> Tensor[(d,), float32]",
    ),
    "a recursive let": (
        """def @main(%n: int32) {
             let %loop = fn (%i: int32, %a: int32) {
               if (less(%i, 1)) { %a } else { %loop(subtract(%i, 1), add(%a, %i)) }
             };
             %loop(%n, 0)
           }""",
        "fn (int32) -> int32",
    ),
    "a closure sees the dims around it": (
        """def @main(%x: Tensor[(?, 4), float32]) {
             let %f = fn (%y: Tensor[(1, 4), float32]) { add(%x, %y) };
             %f
           }""",
        "fn [d: ShapeVar](Tensor[(d, 4), float32]) -> fn (Tensor[(1, 4), float32]) -> Tensor[(d, 4), float32]",
    ),
    "cells": (
        """def @main(%x: float32) {
             let %r = ref(%x);
             let %u = ref_write(%r, add(ref_read(%r), 1f));
             (%r, ref_read(%r))
           }""",
        "fn (float32) -> (ref(float32), float32)",
    ),
    "branches of different extent have one new dim": (
        "def @main(%c: bool, %x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) { if (%c) { %x } else { %y } }",
        "fn [d: ShapeVar, d_1: ShapeVar](bool, Tensor[(d, 4), float32], Tensor[(d_1, 4), float32]) "
        "-> Tensor[(d_2, 4), float32]",
    ),
    "an annotation may forget a dim": (
        "def @main(%x: Tensor[(3, 4), float32]) -> Tensor[(?, 4), float32] { %x }",
        "fn (Tensor[(3, 4), float32]) -> Tensor[(d, 4), float32]",
    ),
    "arithmetic on dims": (
        "def @main(%x: Tensor[(?, 4), float32]) { concatenate((reshape(%x, newshape=[-1]), ones(shape=[2]))) }",
        "fn [d: ShapeVar](Tensor[(d, 4), float32]) -> Tensor[(4 * d + 2,), float32]",
    ),
}


@pytest.mark.parametrize("what", SIGNATURES)
def test_signature(what: str) -> None:
    text, expected = SIGNATURES[what]
    module = infer(read(text))
    assert signature(module).replace("d * 4", "4 * d") == expected


@pytest.mark.parametrize("what", SIGNATURES)
def test_inference_is_idempotent_and_survives_text(what: str) -> None:
    module = infer(read(SIGNATURES[what][0]))
    assert infer(module) is module
    assert alpha_equal(infer(parse(str(module), ops=table())), module)


def test_mutual_recursion_and_order() -> None:
    module = infer(
        read("""
        def @main(%n: int32) { (@even(%n), @id(%n), @id(1f)) }
        def @id(%x) { %x }
        def @even(%i: int32) { if (equal(%i, 0)) { True } else { @odd(subtract(%i, 1)) } }
        def @odd(%i: int32) { if (equal(%i, 0)) { False } else { @even(subtract(%i, 1)) } }
        """)
    )
    assert signature(module) == "fn (int32) -> (bool, int32, float32)"
    assert signature(module, "odd") == "fn (int32) -> bool"
    assert signature(module, "id") == "fn [A](A) -> A"


def test_each_call_of_a_polymorphic_function_has_its_own_dims() -> None:
    module = infer(
        read("""
        def @double(%x: Tensor[(?,), float32]) { concatenate((%x, %x)) }
        def @main(%x: Tensor[(3,), float32], %y: Tensor[(?,), float32]) { (@double(%x), @double(%y)) }
        """)
    )
    assert signature(module) == (
        "fn [d: ShapeVar](Tensor[(3,), float32], Tensor[(d,), float32]) "
        "-> (Tensor[(6,), float32], Tensor[(2 * d,), float32])"
    ).replace("2 * d", _doubled(module))


def _doubled(module: Module) -> str:
    text = signature(module)
    return text[text.rindex("Tensor[(") + 8 : text.rindex(",), float32]")]


def test_unknown_result_dims_differ_between_calls() -> None:
    module = infer(
        read("""
        def @f(%x: Tensor[(?,), float32]) -> Tensor[(?,), float32] { %x }
        def @main(%x: Tensor[(3,), float32]) { (@f(%x), @f(%x)) }
        """)
    )
    ty = module["main"].ty  # type: ignore[union-attr]
    assert isinstance(ty, FuncType)
    first, second = ty.ret.children()
    assert isinstance(first, TensorType)
    assert isinstance(second, TensorType)
    assert first.shape != second.shape


def test_data_types() -> None:
    module = infer(
        read("""
        type List[A] { Cons(A, List[A]), Nil, }
        def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
          match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil, }
        }
        def @main(%x: float32) { @map(fn (%y: float32) { greater(%y, 2f) }, Cons(%x, Nil)) }
        """)
    )
    assert signature(module) == "fn (float32) -> List[bool]"
    assert infer(module) is module


def test_undecided_equalities_become_constraints() -> None:
    module = infer(read("def @main(%x: Tensor[(?,), float32], %y: Tensor[(?,), float32]) { add(%x, %y) }"))
    func = module["main"]
    assert isinstance(func, Function)
    (constraint,) = func.attrs["constraints"]
    n, m = func.type_params
    assert isinstance(n, DimVar)
    assert isinstance(m, DimVar)
    assert (constraint.a, constraint.b) == (broadcast(n, m), broadcast(m, n))
    assert constraint.what == "add: broadcast dim -1"


def test_a_closure_does_not_rebind_a_dim_around_it() -> None:
    n = fresh("n")
    x, y = Var("x", ty=tensor_type((n,))), Var("y", ty=tensor_type((n,)))
    inner = Function((y,), Call(table()["add"], (x, y)), type_params=(n,))
    func = infer(Module.from_expr(Function((x,), inner)))["main"]
    assert isinstance(func, Function)
    assert func.type_params == (n,)
    assert isinstance(func.body, Function)
    assert func.body.type_params == ()


def test_tuple_of_a_function_that_is_typed_later() -> None:
    pair = Var("p")
    x = Var("x", ty=tensor_type((2,)))
    first = Call(table()["exp"], (TupleGetItem(pair, 0),))
    func = Function((x,), Let(Var("f"), Function((pair,), first), x))
    with pytest.raises(TypeCheckError, match="cannot be inferred"):
        infer(Module.from_expr(func))


# ------------------------------------------------------------------ errors

ERRORS = {
    "shapes do not broadcast": (
        "def @main(%x: Tensor[(3,), float32], %y: Tensor[(4,), float32]) { add(%x, %y) }",
        """\
        type error: add: the shapes do not broadcast: dim -1 is 3 and 4
          at <text>:2:67
          lhs : Tensor[(3,), float32]
          rhs : Tensor[(4,), float32]""",
    ),
    "dtypes": (
        "def @main(%x: Tensor[(3,), float32], %y: Tensor[(3,), int32]) { add(%x, %y) }",
        """\
        type error: add: the dtypes differ, float32 and int32
          at <text>:2:65
          lhs : Tensor[(3,), float32]
          rhs : Tensor[(3,), int32]
          hint: use cast on one of them""",
    ),
    "arguments of a function": (
        """\
        def @f(%x: float32) { %x }
        def @main(%x: int32) { @f(%x) }""",
        """\
        type error: argument 1 of @f: the dtypes differ, int32 and float32
          at <text>:3:24
          got    : int32
          wanted : float32""",
    ),
    "number of arguments": (
        """\
        def @f(%x: float32) { %x }
        def @main(%x: int32) { @f(%x, %x) }""",
        """\
        type error: call of @f: got 2 arguments, wanted 1
          at <text>:3:24
          @f : fn (float32) -> float32""",
    ),
    "branches": (
        "def @main(%c: bool, %x: Tensor[(3,), float32]) { if (%c) { %x } else { 1f } }",
        """\
        type error: the branches of if: the ranks differ, 0 and 1
          at <text>:2:72
          got    : float32
          wanted : Tensor[(3,), float32]""",
    ),
    "condition": (
        "def @main(%x: float32) { if (%x) { 1 } else { 2 } }",
        """\
        type error: the condition of if: the dtypes differ, float32 and bool
          at <text>:2:26
          got    : float32
          wanted : bool""",
    ),
    "not enough annotations": (
        "def @main(%x, %y) { add(%x, %y) }",
        """\
        type error: add: the types of its arguments cannot be inferred
          at <text>:2:21
          lhs : _
          rhs : _
          hint: annotate %x and %y""",
    ),
    "a type that contains itself": (
        "def @main(%x) { %x(%x) }",
        """\
        type error: the call of %x: the type would contain itself
          at <text>:2:17
          got    : _
          wanted : fn (_) -> _""",
    ),
    "several": (
        """\
        def @main(%x: Tensor[(3,), float32], %y: Tensor[(4,), float32]) {
          let %a = add(%x, %y);
          let %b = squeeze(%x, axis=[1]);
          (%a, %b)
        }""",
        """\
        type error: add: the shapes do not broadcast: dim -1 is 3 and 4
          at <text>:3:12
          lhs : Tensor[(3,), float32]
          rhs : Tensor[(4,), float32]
        type error: squeeze: axis 1 is out of range for rank 1
          at <text>:4:12
          data : Tensor[(3,), float32]
          hint: from -1 to 0""",
    ),
}


@pytest.mark.parametrize("what", ERRORS)
def test_error(what: str) -> None:
    text, expected = ERRORS[what]
    with pytest.raises(TypeCheckError) as caught:
        infer(read(text))
    assert str(caught.value) == dedent(expected)


def test_unbound_variable() -> None:
    with pytest.raises(TypeCheckError, match="%y is not bound here"):
        infer(Module.from_expr(Function((), Call(table()["exp"], (Var("y"),)))))
    with pytest.raises(TypeCheckError, match="@f is not a function of the module"):
        infer(Module.from_expr(Function((), Call(GlobalVar("f"), ()))))
    with pytest.raises(TypeCheckError, match="%f is not bound here"):
        infer(read("def @main() { let %f: fn () -> int32 = %f; %f() }"))


# ------------------------------------------------------------------ size


def chain(length: int) -> Function:
    """exp applied `length` times, untyped."""
    x = Var("x", ty=tensor_type((fresh("n"), 4)))
    e: Expr = x
    for _ in range(length):
        e = Call(table()["exp"], (e,))
    return Function((x,), e)


def let_chain(length: int) -> Function:
    """A let for each of `length` calls, untyped."""
    names = [Var("x", ty=tensor_type((2,))), *(Var("v") for _ in range(length))]
    e: Expr = names[-1]
    for n in range(length, 0, -1):
        e = Let(names[n], Call(table()["exp"], (names[n - 1],)), e)
    return Function((names[0],), e)


@pytest.mark.sized
def test_long_programs() -> None:
    module = infer(Module.from_expr(chain(amount(20_000, 100_000))))
    assert signature(module) == "fn [n: ShapeVar](Tensor[(n, 4), float32]) -> Tensor[(n, 4), float32]"
    module = infer(Module.from_expr(let_chain(amount(5_000, 20_000))))
    assert signature(module) == "fn (Tensor[(2,), float32]) -> Tensor[(2,), float32]"


@pytest.mark.parametrize(("program", "each"), [(chain, 250), (let_chain, 650)])
def test_work_is_linear(program: Callable[[int], Function], each: int) -> None:
    short, long = (steps(partial(infer, Module.from_expr(program(n)))) for n in (500, 2_000))
    assert long < each * 2_000
    assert long < 4.2 * short
