"""What functions demand of their callers: equalities of dims that calls pass on, and those that they cannot."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from legato.base.errors import RunError, TypeCheckError
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.constraint import demanded
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ops import table

F32 = np.float32
ADD = "def @add(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) { %x + %y }"


def read(text: str) -> Module:
    """The typed module of a text without its version line."""
    module = infer(parse('#[version = "0.0.5"]\n' + dedent(text), ops=table()))
    assert infer(module) is module
    return module


def demands(module: Module, name: str = "main") -> list[str]:
    """The equalities that a function checks."""
    func = module[name]
    assert isinstance(func, Function)
    found = [(*demanded(c.a, c.b), c.what) for c in func.attrs.get("constraints", ())]
    return [f"{a} == {b}{otherwise}, {what}" for a, b, otherwise, what in found]


def test_a_caller_demands_what_it_cannot_promise() -> None:
    module = read(f"""
    {ADD}
    def @twice(%x: Tensor[(a,), float32], %y: Tensor[(2 * b,), float32]) {{ @add(concatenate((%x, %x)), %y) }}
    def @main(%x: Tensor[(k,), float32], %y: Tensor[(2 * j,), float32]) {{ let %f = @twice; %f(%x, %y) }}
    """)
    assert demands(module, "add") == ["n == m, or one of them 1, add: broadcast dim -1"]
    assert demands(module, "twice") == ["a * 2 == b * 2, add: broadcast dim -1"]
    assert demands(module) == ["k * 2 == j * 2, add: broadcast dim -1"]
    assert evaluate(module, [np.ones(2, F32), np.ones(4, F32)]).tolist() == [2] * 4
    with pytest.raises(RunError, match=r"^add: broadcast dim -1: k \* 2 = 4 and j \* 2 = 6 must be equal$"):
        evaluate(module, [np.ones(2, F32), np.ones(6, F32)])


@pytest.mark.parametrize(
    "body",
    [
        "@add(%x, exp(%x))",
        "(@add(%x, %y), %x + %y, @add(%y, %x))",
        "let %f = fn (%a: Tensor[(k,), float32], %b) { @add(%a, %b) + %y }; (%f(%x, %y), %x + %y)",
    ],
)
def test_what_is_promised_or_demanded_already_is_not_demanded_again(body: str) -> None:
    module = read(f"{ADD}\ndef @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) {{ {body} }}")
    assert len(demands(module)) == ("%y" in body)


def test_that_no_extent_is_negative_is_no_demand() -> None:
    """Differences of dims are extents as others are: nothing is left to check where one meets a callee's dim."""
    module = read("""
    def @f(%x: Tensor[(n,), float32]) { exp(%x) }
    def @main(%x: Tensor[(k, j), float32], %y: Tensor[(k - 2, j - k), float32]) {
      let %g = fn (%z: Tensor[(m,), float32]) { @f(%z) };
      (@f(sum(%y, axis=[0])), @f(sum(%y, axis=[1])), %g(sum(%y, axis=[0])))
    }
    """)
    assert demands(module) == []


def test_dims_that_are_new_in_a_function_are_its_own_business() -> None:
    module = read("""
    def @fit(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) {
      let %z = match_cast(%y, Tensor[(k,), float32]);
      %x + %z
    }
    def @main(%x: Tensor[(a,), float32], %y: Tensor[(b,), float32]) { @fit(%x, %y) }
    """)
    assert demands(module, "fit") == ["n == k, or one of them 1, add: broadcast dim -1"]
    assert demands(module) == []
    with pytest.raises(RunError, match=r"^add: broadcast dim -1: n = 2 and k = 3 must be equal, or one of them 1$"):
        evaluate(module, [np.ones(2, F32), np.ones(3, F32)])


def test_recursive_calls_are_checked_when_they_run() -> None:
    module = read("""
    def @main(%i: int32, %x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) -> Tensor[(n,), float32] {
      if (%i == 0) { %x + %y } else { @main(%i - 1, concatenate((%x, %x)), %y); %x }
    }""")
    assert demands(module) == ["n == m, or one of them 1, add: broadcast dim -1", "d == n, the result of the function"]
    assert evaluate(module, [np.int32(0), np.ones(2, F32), np.ones(2, F32)]).tolist() == [2, 2]
    with pytest.raises(RunError, match=r"^add: broadcast dim -1: n = 4 and m = 2 must be equal, or one of them 1$"):
        evaluate(module, [np.int32(1), np.ones(2, F32), np.ones(2, F32)])


def test_each_wrong_call_is_one_error() -> None:
    text = """
    def @f(%x: Tensor[(n, k), float32], %y: Tensor[(m, j), float32]) { %x + %y }
    def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(4, 5), float32]) { (@f(%x, %y), @f(%x, %x), @f(%y, %x)) }
    """
    with pytest.raises(TypeCheckError) as caught:
        read(text)
    found = [caught.value.message, *(e.message for e in caught.value.others if isinstance(e, TypeCheckError))]
    assert found == ["call of @f: the dims differ, n = 2 and m = 4", "call of @f: the dims differ, n = 4 and m = 2"]


def test_demands_do_not_grow_without_end() -> None:
    """Each function calls the one before on two pairs of dims: all demands together would double every time."""
    head = "(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32], %z: Tensor[(k,), float32])"
    lines = [f"def @f0{head} {{ %x + %y; %y + %z; %x }}"]
    for k in range(1, 12):
        first = f"@f{k - 1}(%x, concatenate((%y, %z)), %z)"
        lines.append(f"def @f{k}{head} {{ {first}; @f{k - 1}(%y, %x, concatenate((%z, %x))); %x }}")
    module = read("\n".join(lines))
    assert len(demands(module, "f1")) == 4
    assert len(demands(module, "f11")) <= 32


def test_the_result_of_a_local_function_that_is_known_late() -> None:
    """What waits for an argument's type is typed for each call, with the dims of that call."""
    module = read("""
    def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) {
      let %f = fn (%a: Tensor[(k,), float32], %b) { concatenate((%a, %b)) };
      %f(%x, %y)
    }""")
    main = module["main"]
    assert isinstance(main, Function)
    assert str(main.body.ty) == "Tensor[(n + m,), float32]"
