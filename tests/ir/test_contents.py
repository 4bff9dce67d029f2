"""Nodes of functions are found once, and known no longer than their functions live."""

import gc
import weakref

from legato.ir import expr as ir
from legato.ir.contents import body_nodes, called_operators
from legato.ir.scope import post_order
from legato.ops import table
from legato.prelude import parse

TEXT = """
def @main(%x: Tensor[(4,), float32], %c: Tensor[(), bool]) {
  let %f = fn (%y: Tensor[(4,), float32]) { exp(%y) };
  if (%c) { add(%f(%x), %x) } else { tanh(%x) }
}
"""


def main() -> ir.Function:
    """A function with a branch and a function inside it."""
    func = parse(TEXT, ops=table())["main"]
    assert isinstance(func, ir.Function)
    return func


def test_nodes_are_those_of_a_walk() -> None:
    func = main()
    assert list(map(id, body_nodes(func))) == list(map(id, post_order(func.body)))
    assert body_nodes(func) is body_nodes(func)


def test_operators_are_those_that_calls_name_inside_and_outside() -> None:
    assert called_operators(main()) == {table()[name] for name in ("exp", "add", "tanh")}


def test_an_operator_as_a_value_is_not_called() -> None:
    func = parse("def @main(%x: Tensor[(4,), float32]) { (fn (%f) { %f(%x) })(exp) }", ops=table())["main"]
    assert isinstance(func, ir.Function)
    assert called_operators(func) == frozenset()
    assert table()["exp"] in body_nodes(func)


def test_what_is_known_dies_with_the_function() -> None:
    func = main()
    called_operators(func)
    seen = weakref.ref(func)
    del func
    gc.collect()
    assert seen() is None
