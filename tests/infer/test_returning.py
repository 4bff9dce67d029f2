"""Typed programs come back from their texts: dims that only a node of the graph has, branches that are instances."""

from __future__ import annotations

import pytest

import legato
from legato.base.errors import ParseError, TypeCheckError, VerifyError
from legato.ir.expr import Function, If, Var
from legato.ir.module import Module
from legato.ir.types import FuncType, TypeVar, scalar_type
from legato.ir.verify import verify
from tests.programs.returning import check_returning

SOME = "def @f(%t: Tensor[(?,), float32]) -> Tensor[(?,), float32] { concatenate((%t, %t)) }\n"
PAIR = "def @f(%t: Tensor[(?,), float32]) -> (Tensor[(?,), float32], int32) { (concatenate((%t, %t)), 1) }\n"
PROGRAMS = {
    "closure": "def @main(%x: Tensor[(k,), float32]) "
    "{ let %f = fn (%t: Tensor[(?,), float32]) -> Tensor[(?,), float32] { concatenate((%t, %x)) }; %f(%f(%x)) }",
    "function": SOME + "def @main(%x: Tensor[(k,), float32]) { @f(@f(%x)) }",
    "field": PAIR + "def @main(%x: Tensor[(k,), float32]) { @f(@f(%x).0) }",
    "branches": SOME + "def @main(%x: Tensor[(k,), float32], %c: bool) { @f(if (%c) { %x } else { @f(%x) }) }",
    "in a branch": SOME + "def @main(%x: Tensor[(k,), float32], %c: bool) { if (%c) { @f(@f(%x)) } else { @f(%x) } }",
    "in a closure": SOME + "def @main(%x: Tensor[(k,), float32]) { let %g = fn () { @f(@f(%x)) }; %g() }",
    "closure over it": SOME + "def @main(%x: Tensor[(k,), float32]) { %0 = @f(%x); "
    "let %g = fn (%t: Tensor[(2, k), float32]) { @f(%0) }; %g(zeros(shape=[2, k])) }",
    "in a dataflow block": SOME + "def @main(%x: Tensor[(k,), float32]) "
    "{ dataflow { %0 = @f(%x); let %y = @f(%0); output(@f(%y)) } }",
    "match_cast": SOME + "def @main(%x: Tensor[(k,), float32]) { @f(match_cast(@f(%x), Tensor[(2 * j,), float32])) }",
    "polymorphic orelse": "def @main(%c: bool) { let %u = if (%c) { fn (%a: int32) { %a } } else { @id }; %u(6) }",
    "polymorphic then": "def @main(%c: bool) { let %u = if (%c) { @id } else { fn (%a: int32) { %a } }; %u(6) }",
    "polymorphic in a tuple": "def @main(%o: Option[int32]) "
    "{ match (%o) { None => (@id, 1), Some(%x) => (fn (%a: int32) { %a }, %x) }.0(6) }",
    "polymorphic in data": "def @main(%c: bool) "
    "{ let %u = if (%c) { Cons(fn (%a: int32) { %a }, Nil) } else { Cons(@id, Nil) }; @hd(%u)(1) }",
    "constructor": "def @main(%c: bool) { let %u = if (%c) { Some } else { fn (%a: int32) { None } }; %u(6) }",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_typed_programs_come_back(name: str) -> None:
    check_returning(legato.parse(f'#[version = "0.0.5"]\n{PROGRAMS[name]}'))


def test_a_stated_type_names_dims() -> None:
    text = "def @main(%x: Tensor[(k,), float32]) { %0: Tensor[(j,), float32] = @f(%x); (%0, zeros(shape=[j, k])) }"
    assert "%0: Tensor[(j,), float32] = @f[k](%x);" in str(legato.parse(f'#[version = "0.0.5"]\n{SOME}{text}'))


@pytest.mark.parametrize("ty", ["Tensor[(k + 1,), float32]", "Tensor[(3,), float32]", "float32", "Tensor[(?,), int8]"])
def test_a_stated_type_is_that_of_the_node(ty: str) -> None:
    text = f"def @main(%x: Tensor[(k,), float32]) {{ %0: {ty} = tanh(%x); %0 }}"
    with pytest.raises(TypeCheckError, match="a graph binding states another type"):
        legato.parse(f'#[version = "0.0.5"]\n{text}')


@pytest.mark.parametrize("value", ["%x", "%0", "(%0)", "3f", "@main", "tanh"])
def test_another_name_of_a_node_has_no_type_of_its_own(value: str) -> None:
    text = f"def @main(%x: float32) {{ %0 = tanh(%x); %1: float32 = {value}; %1 }}"
    with pytest.raises(ParseError, match="`%1` is another name of a node, and states a type"):
        legato.parse(f'#[version = "0.0.5"]\n{text}')


def test_branches_serve_as_the_type_of_the_whole() -> None:
    """A branch may be a polymorphic function of which the whole is an instance, but no other."""
    a, int32, bool_ = TypeVar("A"), scalar_type("int32"), scalar_type("bool")
    c, f = Var("c", ty=bool_), Var("f", ty=FuncType((a, a), a, (a,)))

    def module(*params: object, ret: object) -> Module:
        ty = FuncType(tuple(params), ret)  # type: ignore[arg-type]
        return Module.from_expr(Function((c, f), If(c, f, f, ty=ty)))

    verify(module(int32, int32, ret=int32))
    for wrong in (module(int32, bool_, ret=int32), module(int32, ret=int32), module(int32, int32, ret=bool_)):
        with pytest.raises(VerifyError, match="does not fit its parts"):
            verify(wrong)
