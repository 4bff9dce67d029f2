"""Variables, substitution, copies."""

from __future__ import annotations

from hypothesis import given

from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Function, If, Let, Tuple, Var, constant
from legato.ir.module import Module
from legato.ir.visit import bound_vars, free_vars, nodes, rename_bound, substitute
from tests.ir.programs import BY_NAME, modules
from tests.programs.settings import examples

ADD = BY_NAME["add"]
X, Y, Z = Var("x"), Var("y"), Var("z")


def test_free_and_bound() -> None:
    expr = Let(Y, Call(ADD, (X, Z)), Function((Z,), Tuple((X, Y, Z))))
    assert free_vars(expr) == (X,)
    assert bound_vars(expr) == (Z, Y)
    assert free_vars(Tuple((Y, X, Y))) == (Y, X)


def test_substitute() -> None:
    shared = Call(ADD, (X, Y))
    found = substitute(Function((Y,), If(shared, shared, Z)), {X: Z, Y: constant(1)})
    assert isinstance(found, Function)
    assert isinstance(found.body, If)
    assert found.body.cond is found.body.then  # sharing stays
    assert found.body.cond.children() == (ADD, Z, Y)  # Y is bound
    assert substitute(shared, {Z: X}) is shared


@examples(20, fuzz=False)
@given(modules())
def test_a_copy_binds_other_variables(module: Module) -> None:
    for func in module.functions.values():
        assert isinstance(func, Function)
        copy = rename_bound(func)
        assert alpha_equal(copy, func, map_free_vars=True)
        assert not set(bound_vars(copy)) & set(bound_vars(func))
        assert len(list(nodes(copy))) <= len(list(nodes(func)))
