"""Equality and hash up to the names of what is bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from legato.arith.expr import fresh
from legato.ir.equal import alpha_equal, structural_hash
from legato.ir.expr import (
    Call,
    Constant,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    Let,
    MatchCast,
    RefCreate,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from legato.ir.module import Module
from legato.ir.types import FuncType, GlobalTypeVar, RefType, Type, TypeVar, scalar_type, tensor_type
from legato.ir.visit import rename_bound
from legato.tir.parser import parse_func
from tests.ir.programs import BY_NAME, Attrs, modules
from tests.programs.settings import examples

ADD, SUB, RELU = BY_NAME["add"], BY_NAME["subtract"], BY_NAME["nn.relu"]
X, Y = Var("x"), Var("y")


def _same(a: Expr | Type | Module, b: Expr | Type | Module) -> bool:
    assert alpha_equal(a, b) == alpha_equal(b, a)
    if alpha_equal(a, b):
        assert structural_hash(a) == structural_hash(b)
    return alpha_equal(a, b)


@examples(30, fuzz=False)
@given(modules())
def test_a_renamed_copy_is_equal(module: Module) -> None:
    copy = {gv: rename_bound(f) for gv, f in module.functions.items() if isinstance(f, Function)}
    other = Module({GlobalVar(gv.name): f for gv, f in copy.items()}, module.types, module.attrs, module.constants)
    # Globals inside the copies still belong to the first module: they correspond by name.
    assert _same(module, other)


def test_bound_variables() -> None:
    assert _same(Function((X,), X), Function((Y,), Y))
    assert _same(Let(X, constant(1), X), Let(Y, constant(1), Y))
    assert not _same(Function((X, Y), X), Function((X, Y), Y))
    assert not _same(Function((X,), Y), Function((Y,), Y))
    assert not _same(Function((X,), constant(1)), Function((Var("x", ty=scalar_type("int8")),), constant(1)))


def test_free_variables() -> None:
    assert _same(X, Var("other", uid=X.uid))
    assert not _same(X, Y)
    assert alpha_equal(Call(ADD, (X, Y)), Call(ADD, (Y, X)), map_free_vars=True)
    assert not alpha_equal(Call(ADD, (X, X)), Call(ADD, (Y, X)), map_free_vars=True)


def test_constants_by_bits() -> None:
    assert _same(constant(float("nan")), constant(float("nan")))
    assert not _same(constant(0.0), constant(-0.0))
    assert not _same(constant(1), constant(1, "int64"))
    assert not _same(constant(np.zeros((1, 2))), constant(np.zeros((2, 1))))
    odd = np.array(0x7FC00001, "uint32").view("float32")
    assert not _same(Constant(odd), constant(float("nan")))


def test_attributes_by_value() -> None:
    def relu(**attrs: object) -> Call:
        return Call(RELU, (X,), Attrs(**attrs))  # type: ignore[arg-type]  # fields of all kinds

    assert _same(relu(epsilon=float("nan"), padding=(1, 2)), relu(epsilon=float("nan"), padding=[1, 2]))
    assert not _same(relu(epsilon=0.0), relu(epsilon=-0.0))
    assert not _same(relu(out=1), relu(out=True))
    assert not _same(relu(out=1), relu(out=1.0))
    assert not _same(relu(), Call(BY_NAME["concatenate"], (X,), Attrs()))


def test_what_computes_is_shared_alike() -> None:
    call = Call(ADD, (X, X))
    assert not _same(Tuple((call, call)), Tuple((call, Call(ADD, (X, X)))))
    cell = RefCreate(X)
    assert not _same(Tuple((cell, cell)), Tuple((cell, RefCreate(X))))
    pair = Tuple((call, X))
    assert _same(Tuple((pair, pair)), Tuple((pair, Tuple((call, X)))))
    item = TupleGetItem(X, 0)
    assert _same(Call(ADD, (item, item)), Call(ADD, (item, TupleGetItem(X, 0))))


def test_dims_of_functions() -> None:
    def func(first: str, second: str, *, swap: bool = False, hi: int | None = None) -> Function:
        n, m = fresh(first, 0, hi), fresh(second)
        x = Var("x", ty=tensor_type((n, m)))
        return Function((x,), Shape((m, n) if swap else (n, m)))

    assert _same(func("n", "m"), func("a", "b"))
    assert not _same(func("n", "m"), func("n", "m", swap=True))
    assert not _same(func("n", "m"), func("n", "m", hi=5))


def test_listed_and_unlisted_dims_are_the_same() -> None:
    n, m = fresh("n"), fresh("m")
    x, y = Var("x", ty=tensor_type((n,))), Var("x", ty=tensor_type((m,)))
    assert _same(Function((x,), x, None, (n,)), Function((y,), y))


def test_free_dims() -> None:
    n, m = fresh("n"), fresh("m")
    assert not _same(Shape((n,)), Shape((m,)))
    assert _same(Shape((n + 1,)), Shape((n + 1,)))
    assert not _same(tensor_type((n,)), tensor_type((m,)))
    assert alpha_equal(tensor_type((n, n)), tensor_type((m, m)), map_free_vars=True)
    assert not alpha_equal(tensor_type((n, n)), tensor_type((n, m)), map_free_vars=True)


def test_dims_that_a_body_introduces() -> None:
    def body(name: str) -> Expr:
        k = fresh(name)
        return Let(Var("y"), MatchCast(X, tensor_type((k,))), Shape((k,)))

    assert _same(body("k"), body("j"))


def test_types() -> None:
    def poly(name: str) -> FuncType:
        a, n = TypeVar(name), fresh("n")
        return FuncType((a, tensor_type((n,))), RefType(a), (a, n))

    assert _same(poly("A"), poly("B"))
    assert not _same(TypeVar("A"), TypeVar("A"))
    assert _same(GlobalTypeVar("T"), GlobalTypeVar("T"))
    assert not _same(scalar_type("int8"), scalar_type("uint8"))


def test_dataflow() -> None:
    def flow(name: str) -> Dataflow:
        v = Var(name)
        return Dataflow(((v, Call(ADD, (X, X))),), (v,))

    assert _same(flow("a"), flow("b"))


def test_modules_with_tensor_programs() -> None:
    def module(variable: str, extent: int) -> Module:
        text = f"""kernel @copy(a: Buffer[(8,), float32], b: Buffer[(8,), float32]) {{
            for {variable} in 0..{extent} {{ b[{variable}] = a[{variable}]; }}
        }}"""
        return Module({GlobalVar("copy"): parse_func(text)})

    assert _same(module("i", 8), module("j", 8))
    assert not _same(module("i", 8), module("i", 7))


@pytest.mark.parametrize("extra", ["attrs", "constants", "functions"])
def test_facts_of_modules(extra: str) -> None:
    functions = {GlobalVar("f"): Function((), constant(1))}
    parts = {"attrs": {"a": 1}, "constants": {"w": np.zeros(2)}, "functions": functions}
    assert not _same(Module(), Module(**{extra: parts[extra]}))  # type: ignore[arg-type]  # one mapping of several
