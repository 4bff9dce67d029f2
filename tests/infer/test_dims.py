"""Which dims are equal: only those that are proven or checked to be, whatever an annotation calls them."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest

from legato.base.errors import RunError, TypeCheckError
from legato.base.node import transform
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Expr, Function, If
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ops import table

F32 = np.float32
TYPES = """
type Box { Box(Tensor[(a,), float32]), Empty }
type Pair { Pair(Tensor[(a,), float32], Tensor[(b,), float32]) }
def @any(%x: Tensor[(?,), float32]) -> Tensor[(?,), float32] { %x }
"""


def read(text: str) -> Module:
    """The typed module of a text behind TYPES."""
    return infer(parse('#[version = "0.0.5"]\n' + TYPES + dedent(text), ops=table()))


@pytest.mark.parametrize(
    "text",
    [
        "match (%b) { Box(%x: Tensor[(n,), float32]) => %x + %y, Empty => %y }",
        "match ((%b, %y)) { (Box(%x: Tensor[(k,), float32]), %z: Tensor[(k,), float32]) => %x + %z, _ => %y }",
        "match (Pair(%y, @any(%y))) { Pair(%p: Tensor[(k,), float32], %q: Tensor[(k,), float32]) => %p + %q }",
    ],
)
def test_the_dims_of_a_value_are_its_own(text: str) -> None:
    """A pattern names them by new names, each by one."""
    with pytest.raises(TypeCheckError, match="a dim of the value is its own"):
        read(f"def @main(%b: Box, %y: Tensor[(n,), float32]) {{ {text} }}")


def test_each_clause_names_dims_of_its_own() -> None:
    module = read("""
    type Either { Left(Tensor[(a,), float32]), Right(Tensor[(a, 2), float32]) }
    def @main(%e: Either) {
      match (%e) {
        Left(%x: Tensor[(k,), float32]) => (%x + zeros(shape=[k]), shape[k]),
        Right(%x: Tensor[(k, 2), float32]) => (sum(%x + zeros(shape=[k, 2]), axis=[1]), shape[k])
      }
    }
    """)
    assert infer(module) is module


@pytest.mark.parametrize(
    "text",
    [
        "let %a = match (%b) { Box(%x: Tensor[(k,), float32]) => sum(%x), Empty => 0f }; shape[k]",
        "let %a = if (%c) { sum(match_cast(%y, Tensor[(k,), float32])) } else { 0f }; shape[k]",
        "let %s = shape[k]; let %a: Tensor[(k,), float32] = @any(%y); %s",
    ],
)
def test_a_dim_is_used_where_it_is_bound(text: str) -> None:
    with pytest.raises(TypeCheckError, match="dim k is not bound here"):
        read(f"def @main(%b: Box, %y: Tensor[(n,), float32], %c: bool) {{ {text} }}")


def test_a_stated_type_equates_no_dims() -> None:
    """That of an `if`, as JSON may carry it: a new dim is called as there, unless that is another's name."""
    module = read("""
    def @main(%c: bool, %x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) {
      let %z = if (%c) { %x } else { %y };
      %z + %x
    }
    """)
    main = module["main"]
    assert isinstance(main, Function)
    stated = transform(main.body, lambda e: replace(e, ty=main.params[1].ty) if isinstance(e, If) else None)
    again = infer(
        module.with_function(module.var("main"), replace(main, body=_untyped(stated), ret_type=None, ty=None))
    )
    args = [np.True_, np.ones(6, F32), np.ones(3, F32)]
    assert evaluate(again, args).shape == (6,)
    with pytest.raises(RunError, match="must be equal"):
        evaluate(again, [np.False_, *args[1:]])


def _untyped(e: Expr) -> Expr:
    """`e` with the types of `if` alone."""
    return transform(e, lambda n: None if isinstance(n, If) or n.ty is None else n.with_type(None))
