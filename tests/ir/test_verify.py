"""What the verifier accepts and refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from legato.arith.expr import const
from legato.base.errors import VerifyError
from legato.ir.call_tir import call_tir
from legato.ir.clauses import Clause, PatternConstructor, PatternWildcard
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    RefCreate,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from legato.ir.module import Module
from legato.ir.types import GlobalTypeVar, HoleType, Kind, TupleType, TypeData, TypeVar, tensor_type
from legato.ir.verify import Stage, verify
from tests.ir.programs import BY_NAME, CONS, TYPES, Attrs, modules
from tests.programs.settings import examples

ADD, RELU = BY_NAME["add"], BY_NAME["nn.relu"]
X, Y = Var("x"), Var("y")
_A = TypeVar("A")


def _module(body: Expr, *params: Var) -> Module:
    return Module({GlobalVar("main"): Function(params, body)}, TYPES)


def _message(module: Module, stage: Stage | None = None) -> str:
    with pytest.raises(VerifyError) as caught:
        verify(module, stage)
    return str(caught.value)


@examples(30, fuzz=False)
@given(modules())
def test_random_programs_are_well_formed(module: Module) -> None:
    verify(module)


def test_a_long_let_chain_with_far_uses() -> None:
    first = Call(ADD, (X, X))
    body: Expr = first
    for _ in range(50_000):
        body = Let(Var("v"), Call(ADD, (first, X)), body)
    verify(_module(body, X))


_SHARED = Call(ADD, (Y, Y))
_CONS_OF_OTHER = Constructor("Cons", CONS.inputs, CONS.belongs_to, 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (Y, "@main: variable %y is not bound"),
        (Function((X,), X), "@main: variable %x is bound twice\n"
         "  first : a parameter of a function\n  again : a parameter of a function"),
        (Tuple((Let(Y, X, _SHARED), _SHARED)), "@main: variable %y is used outside the scope that binds it"),
        (If(X, Let(Y, X, Y), Y), "@main: variable %y is used outside the scope that binds it"),
        (GlobalVar("f"), "@main: function @f is not defined"),
        (Call(ADD, (X,)), "@main: add has 1 arguments, wanted 2: a, b"),
        (Call(RELU, (X,)), "@main: nn.relu has attributes of class NoneType, wanted Attrs"),
        (Call(X, (X,), Attrs(axis=1)), "@main: only operators take attributes, got Attrs(axis=1, epsilon=1e-05, "
         "keep=False, name='', padding=(), out=None, out_dtype=None)"),
        (Call(Function((Y,), Y, type_params=(_A,)), (X,), type_args=(const(3),)),
         "@main: type parameter A of <Function> is given 3, wanted a type"),
        (TupleGetItem(Var("x", uid=X.uid, ty=TupleType(())), 0), "@main: there is no field 0 in a tuple of type ()"),
        (TupleGetItem(X, -1), "@main: there is no field -1 in a tuple of type None"),
        (Match(X, (Clause(PatternConstructor(CONS, (PatternWildcard(),)), X),)),
         "@main: a pattern of constructor Cons has 1 parts, wanted 2"),
        (_CONS_OF_OTHER, "@main: constructor Cons of List is not one of the module's"),
        (Constant(np.zeros(2, "float32")),
         "@main: a constant's array can be written\n  build constants with ir.constant"),
        (replace(constant(np.ones(2, "float32")), ty=tensor_type((3,))),
         "@main: the type of <Constant: Tensor[(3,), float32]> does not fit its parts\n"
         "  it carries   Tensor[(3,), float32]\n  its parts say Tensor[(2,), float32]"),
        (Dataflow(((Y, RefCreate(X)),), (Y,)), "@main: a dataflow block makes a cell\n  it evaluates <RefCreate>"),
        (Dataflow(((Y, Call(Function((), RefCreate(X)), ())),), (Y,)),
         "@main: a dataflow block calls a function, which has effects\n  it evaluates <Call>"),
        (Var("x", uid=X.uid, ty=GlobalTypeVar("T")), "@main: data type T is not defined"),
        (Var("x", uid=X.uid, ty=TypeVar("n", Kind.SHAPE_VAR)),
         "@main: type variable n has kind ShapeVar, wanted Type"),
        (Tuple((constant(1.0),), ty=TupleType(())),
         "@main: the type of <Tuple: ()> does not fit its parts\n  it carries   ()\n  its parts say (float32,)"),
        (call_tir(GlobalVar("main"), (), [tensor_type((1,))]), "@main: function @main is not defined"),
    ],
)  # fmt: skip
def test_refused(body: Expr, message: str) -> None:
    assert _message(_module(body, X)) == f"malformed program: {message}"


def test_effects_of_a_variable_that_is_bound_to_itself() -> None:
    f = Var("f")
    block = Dataflow(((Y, Call(f, ())),), (Y,))
    assert _message(_module(Let(f, f, Tuple((Function((), RefCreate(X)), block))), X)) == (
        "malformed program: @main: a dataflow block calls %f, which may have effects\n  it evaluates <Call>"
    )


def test_two_types_of_a_variable() -> None:
    param = Var("x", ty=tensor_type((2,)))
    use = Var("x", uid=param.uid, ty=tensor_type((2,), "int8"))
    assert _message(_module(use, param)) == (
        "malformed program: @main: variable %x has two types\n"
        "  bound with Tensor[(2,), float32]\n  used with  Tensor[(2,), int8]"
    )


def test_call_tir_needs_a_program() -> None:
    gv = GlobalVar("main")
    module = Module({gv: Function((), call_tir(gv, (), [tensor_type((1,))]))})
    wanted = "call_tir needs a tensor program of the module, got <GlobalVar name='main'>"
    assert _message(module) == f"malformed program: @main: {wanted}"


def test_inputs_of_call_tir_are_typed_if_all_are() -> None:
    typed, untyped = Var("x", ty=tensor_type((2,))), Var("y")
    for args, ty in (((typed,), TupleType((tensor_type((2,)),))), ((typed, untyped), None), ((), TupleType(()))):
        assert call_tir(GlobalVar("k"), args, [tensor_type((2,))]).args[1].ty == ty


def test_data_types() -> None:
    header = GlobalTypeVar("T")
    nil = Constructor("Nil", (), header, 1)
    assert _message(Module({}, {header: TypeData(header, (), (nil,))})) == (
        "malformed program: constructor 0 of data type T is Nil of T with tag 1"
    )


def test_stage_typed() -> None:
    typed = Var("x", ty=tensor_type((2,)))
    verify(_module(typed, typed), None)
    assert _message(_module(X, X), Stage.TYPED) == "malformed program: @main: <Var name='x'> has no type"
    hole = Var("x", ty=HoleType())
    assert _message(_module(hole, hole), Stage.TYPED) == "malformed program: @main: type _ has holes"


def test_stage_a_normal() -> None:
    call = Call(ADD, (X, X))
    verify(_module(Let(Y, call, Tuple((Y, Tuple((X, Y))))), X), Stage.A_NORMAL)
    wanted = "an operand of <Call> is no atom: <Call>"
    assert _message(_module(Call(ADD, (call, X)), X), Stage.A_NORMAL) == f"malformed program: @main: {wanted}"
