"""Inlining: what is computed where it is read, and how much is made for it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Expr, Var, lt
from legato.arith.substitute import nodes, rewrite, substitute
from legato.base import dtype as dt
from legato.te import inline as module
from legato.te import math as te
from legato.te.inline import inline, loads
from legato.te.tensor import Stage, Tensor, compute, placeholder, reduce
from legato.tir.expr import Load
from tests.programs.settings import examples


def reference(e: Expr, keep: frozenset[Tensor] = frozenset()) -> Expr:
    """Inlining as it is defined, each time anew."""

    def step(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or not isinstance(node.buffer, Tensor) or node.buffer in keep:
            return None
        stage = node.buffer.stage
        if not isinstance(stage, Stage) or stage.reduction is not None:
            return None
        at = {a.var: i for a, i in zip(stage.axes, node.indices, strict=True)}
        return reference(substitute(stage.body, at), keep)

    return rewrite(e, step)


def body(tensor: Tensor) -> Expr:
    """What the stage of `tensor` computes."""
    assert isinstance(tensor.stage, Stage)
    return tensor.stage.body


@st.composite
def programs(draw: st.DrawFn) -> list[Tensor]:
    """Tensors of which each is computed from those before it: shifted, gathered, doubled or summed."""
    found = [placeholder("x", (8, 8), "float32"), placeholder("y", (8, 8), "float32")]
    where = placeholder("k", (8,), dt.index)
    for _ in range(draw(st.integers(1, 6))):
        a, b = draw(st.sampled_from(found)), draw(st.sampled_from(found))
        match draw(st.integers(0, 4)):
            case 0:
                found.append(compute((8, 8), lambda i, j, a=a, b=b: a[i, j] + b[j, i]))
            case 1:
                found.append(compute((8, 8), lambda i, j, a=a, b=b: te.exp(a[7 - i, j]) * b[i, (j + 1) % 8]))
            case 2:
                found.append(compute((8, 8), lambda i, j, a=a: a[i, where[j] % 8]))
            case 3:
                found.append(reduce("sum", (8, 8), (8,), lambda i, j, r, a=a, b=b: a[i, r] * b[r, j]))
            case _:
                found.append(compute((8, 8), lambda i, j, a=a, b=b: te.select(lt(i, j), a[i, j], b[i, 0])))
    return found


@examples(60, fuzz=False)
@given(programs(), st.data())
def test_it_is_its_definition(found: list[Tensor], data: st.DataObject) -> None:
    keep = frozenset(data.draw(st.sets(st.sampled_from(found))))
    for tensor in found:
        e = tensor[tuple(Var(f"i{n}") for n in range(2))]
        assert inline(e, keep) is reference(e, keep)


def test_an_index_that_is_read_from_a_stage() -> None:
    x, k = placeholder("x", (4,), "float32"), placeholder("k", (4,), dt.index)
    back = compute((4,), lambda i: 3 - k[i])
    doubled = compute((4,), lambda i: x[i] + x[i])
    i = Var("i")
    read = x[3 - k[i]]
    assert inline(doubled[back[i]]) is read + read


def test_nothing_to_inline_gives_the_same_object() -> None:
    x = placeholder("x", (4,), "float32")
    e = te.exp(x[Var("i")])
    assert inline(e) is e


def test_work_grows_as_the_stages_do(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0

    def counted(e: Expr, mapping: Mapping[Var, Expr]) -> Expr:
        nonlocal seen
        seen += len(list(nodes(e)))
        return substitute(e, mapping)

    monkeypatch.setattr(module, "substitute", counted)
    work: list[int] = []
    for length in (100, 200):
        seen, tensor = 0, placeholder("x", (8,), "float32")
        for _ in range(length):
            tensor = compute((8,), lambda i, t=tensor: te.exp(t[i]) + t[i])
        inline(body(tensor))
        work.append(seen)
    assert work[1] < 2.1 * work[0]


def test_deep_chains() -> None:
    tensor = placeholder("x", (8,), "float32")
    for _ in range(5_000):
        tensor = compute((8,), lambda i, t=tensor: -te.exp(t[i]))
    (read,) = loads(inline(body(tensor)))
    assert read.buffer.name == "x"
