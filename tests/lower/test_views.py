"""Views: parts of a concatenation are written where they belong, blocks are read where they lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.arith.expr import const
from legato.base.errors import UnsupportedError
from legato.interp import evaluate
from legato.ir import expr as ir
from legato.ir.module import Module
from legato.ir.types import TensorType, tensor_type
from legato.lower.places import Place, Places, cut_layout, part_layout, whole_layout
from legato.lower.wholes import JointUse, Wholes
from legato.tir.buffer import Layout
from legato.tir.verify import verify_all
from tests.graphs import leaves
from tests.lower.programs import lowered
from tests.lower.test_plan import simulate
from tests.programs.settings import examples

HEAD = '#[version = "0.0.5"]\n'
DENSE = """def @main(%x: Tensor[(1, 16, 9, 9), float32], %a: Tensor[(16, 16, 3, 3), float32],
              %b: Tensor[(16, 32, 3, 3), float32], %c: Tensor[(16, 48, 1, 1), float32], %s: Tensor[(48, 1, 1), float32],
              %w: Tensor[(16, 16, 1, 1), float32]) {
  %0 = nn.conv2d(%x, %w);
  %1 = nn.conv2d(nn.relu(%0), %a, padding=[1, 1, 1, 1]);
  %2 = nn.relu(concatenate((%0, %1), axis=1));
  %3 = nn.conv2d(%2, %b, padding=[1, 1, 1, 1]);
  %4 = nn.relu(multiply(concatenate((%0, %1, %3), axis=1), %s));
  nn.conv2d(%4, %c)
}"""
FIRE = """def @main(%x: Tensor[(n, 16, 7, 9), float32], %a: Tensor[(16, 16, 1, 1), float32],
             %b: Tensor[(32, 16, 3, 3), float32], %c: Tensor[(16, 48, 3, 3), float32]) {
  %0 = nn.relu(nn.conv2d(%x, %a));
  %1 = concatenate((%0, nn.relu(nn.conv2d(%0, %b, padding=[1, 1, 1, 1]))), axis=1);
  add(nn.conv2d(%1, %c, padding=[1, 1, 1, 1]), nn.conv2d(%1, %c, padding=[1, 1, 1, 1]))
}"""
NESTED = """def @main(%x: Tensor[(1, 16, 5, 5), float32], %a: Tensor[(16, 16, 1, 1), float32]) {
  %0 = nn.conv2d(%x, %a);
  %1 = nn.conv2d(%0, %a);
  %2 = concatenate((%0, %1), axis=1);
  %3 = nn.conv2d(%1, %a);
  %4 = nn.softmax(%2, axis=1);
  concatenate((nn.softmax(concatenate((%2, %3), axis=1), axis=1), %4), axis=1)
}"""
HEADS = """def @main(%x: Tensor[(1, 8, 6), float32], %y: Tensor[(1, 8, 6), float32]) {
  concatenate((nn.softmax(%x), nn.softmax(add(%x, %y)), nn.softmax(%y)), axis=1)
}"""
HALVES = """def @main(%x: Tensor[(n, 32, 5, 6), float32], %w: Tensor[(16, 16, 1, 1), float32]) {
  %0 = split(nn.max_pool2d(%x, pool_size=[2, 2]), indices_or_sections=2, axis=1);
  (add(nn.conv2d(%0.1, %w), nn.conv2d(%0.0, %w)), nn.conv2d(nn.conv2d(%0.1, %w), %w, padding=[1, 1, 1, 1]))
}"""


def parsed(text: str) -> Module:
    return legato.parse(HEAD + text)


def arguments(mod: Module, n: int = 3) -> list[Any]:
    rng = np.random.default_rng(1)
    types = [p.ty for p in mod["main"].params]  # type: ignore[union-attr]
    shapes = [[int(d.value) if hasattr(d, "value") else n for d in t.shape] for t in types if isinstance(t, TensorType)]
    scale = [1.0, *(0.125 for _ in shapes[1:])]  # of weights
    return [(rng.standard_normal(n) * s).astype("float32") for n, s in zip(shapes, scale, strict=True)]


def check(mod: Module) -> str:
    """Requires the compiled module to agree with the interpreter, and with itself for any number of threads, and its
    memory plan to be sound; the lowered text."""
    exe = legato.compile(mod, keep=("lower",))
    for n in (3, 1):
        args = arguments(mod, n)
        got = leaves(exe(*args))
        for g, w in zip(got, leaves(evaluate(mod, args)), strict=True):
            np.testing.assert_allclose(g, w, atol=1e-5 * max(1.0, float(np.abs(w).max())))
        for threads in (1, 4):
            assert [g.tobytes() for g in got] == [o.tobytes() for o in leaves(exe.with_threads(threads)(*args))]
    program = lowered(mod)
    verify_all({**program.kernels, **program.functions}, final=True)
    simulate(program, 3)
    return str(exe.module_after("lower"))


def body(text: str) -> str:
    return text[text.index("def @main") :].split("\nkernel")[0]


@pytest.mark.parametrize(
    ("text", "joins", "parts"),
    [(DENSE, 2, 0), (FIRE, 1, 0), (HALVES, 0, 2), (HEADS, 1, 0)],
    ids=["dense", "fire", "halves", "heads"],
)
@pytest.mark.shared(2)
def test_nothing_is_copied(text: str, joins: int, parts: int) -> None:
    mod = parsed(text)
    main = body(check(mod))
    assert main.count(" join(") == joins
    assert main.count(" part(") == parts
    for name in ("concatenate_", "slice_", "split_", "copy_"):
        assert f"@{name}" not in main
    assert "copy_" not in "".join(lowered(mod).kernels)


def test_a_dense_block_is_one_buffer() -> None:
    """As many kernels as there are convolutions, and what is computed of all that came before."""
    main = body(check(parsed(DENSE)))
    assert main.count("call_tir(") == 4 + 3  # nn.relu of the first is a kernel of its own


def test_joints_of_joints() -> None:
    main = body(check(parsed(NESTED)))
    assert main.count(" join(") == 3  # the largest of them is the result


SHARED = [
    # a result of the function has memory of its own
    """def @main(%x: Tensor[(2, 3, 4), float32]) {
      let %a = nn.softmax(%x); let %b = nn.softmax(%a); (%a, nn.softmax(concatenate((%a, %b), axis=2))) }""",
    # twice the same, and in another order
    """def @main(%x: Tensor[(2, 3, 4), float32]) {
      let %a = nn.softmax(%x); let %b = nn.softmax(%a); let %c = nn.softmax(concatenate((%a, %a, %b), axis=1));
      (nn.softmax(concatenate((%b, %a), axis=1)), nn.softmax(concatenate((%a, %b), axis=1)), %c) }""",
    # parameters, and what is not a result of this block's groups
    """def @main(%x: Tensor[(2, 3, 4), float32], %y: Tensor[(2, 5, 4), float32]) {
      let %a = nn.softmax(%x); nn.softmax(concatenate((%a, %y), axis=1)) }""",
    # along an axis of symbolic extent
    """def @main(%x: Tensor[(n, 4), float32]) {
      let %a = nn.softmax(%x); let %b = nn.softmax(%a); nn.softmax(concatenate((%a, %b), axis=0)) }""",
    # blocks of a parameter, with an outer part of symbolic extent, and of a block
    """def @main(%x: Tensor[(n, 8, 4), float32]) {
      let %a = strided_slice(%x, begin=[2], end=[7], axes=[1]);
      let %b = strided_slice(%a, begin=[1], end=[4], axes=[2]);
      (nn.softmax(%a, axis=1), nn.softmax(%b, axis=1), nn.softmax(%b), nn.softmax(%a)) }""",
    # in branches
    """def @main(%x: Tensor[(2, 3, 4), float32]) {
      let %a = nn.softmax(%x);
      let %b = if (less(sum(%x), 0f)) { nn.softmax(concatenate((%a, nn.softmax(%a)), axis=1)) } else {
        let %c = nn.softmax(%a, axis=1); let %d = nn.softmax(%c); nn.softmax(concatenate((%c, %d), axis=1)) };
      nn.softmax(%b) }""",
]


@pytest.mark.parametrize("text", SHARED)
def test_what_may_not_be_a_view_is_copied(text: str) -> None:
    check(parsed(text))


ASTRAY = """def @main(%x: Tensor[(1, 16, 5, 5), float32], %w: Tensor[(16, 16, 1, 1), float32]) {
  let %b = nn.conv2d(%x, %w);
  let %e = nn.conv2d(%b, %w);
  FIRST
  let %a = cumsum(%x, axis=1);
  let %c = concatenate((%a, %b), axis=1);
  SECOND
  (nn.softmax(%c, axis=1), nn.softmax(concatenate((LAST), axis=1), axis=1), %f)
}"""


@pytest.mark.parametrize("last", ["%c, %e", "%b, %e, %a"])
@pytest.mark.parametrize("place", ["FIRST", "SECOND"])
def test_a_joint_of_what_lies_elsewhere_than_planned_keeps_others_apart(place: str, last: str) -> None:
    """`%a` is not laid out as `%c` wants it: `%c` is a copy, of which `%b` is no part."""
    text = ASTRAY.replace(place, "let %f = nn.softmax(concatenate((%b, %e), axis=1), axis=1);").replace("LAST", last)
    check(parsed(text.replace("FIRST", "").replace("SECOND", "")))


@examples(12)
@given(st.randoms(use_true_random=False))
def test_random_networks(random: Any) -> None:
    """Convolutions, pools and residuals over shared channels, joined and taken apart again."""
    lines: list[str] = []
    known = [("%x", 8)]
    weights: dict[str, str] = {}

    def add(expr: str, channels: int) -> None:
        name = f"%t{len(lines)}"
        lines.append(f"let {name} = {expr};")
        known.append((name, channels))

    for _ in range(10):
        (a, n), kind = random.choice(known[-6:]), random.randrange(6)
        if kind <= 1:
            k, out = random.choice([1, 3]), random.choice([8, 16, 20])
            weights.setdefault(f"%w{out}_{n}_{k}", f"Tensor[({out}, {n}, {k}, {k}), float32]")
            pad = k // 2
            add(f"nn.relu(nn.conv2d({a}, %w{out}_{n}_{k}, padding=[{pad}, {pad}, {pad}, {pad}]))", out)
        elif kind == 2:
            add(f"nn.max_pool2d({a}, pool_size=[3, 3], padding=[1, 1, 1, 1])", n)
        elif kind == 3:
            others = random.sample(known[1:], min(len(known) - 1, random.choice([1, 2, 3])))
            add(f"concatenate(({', '.join([a, *(o for o, _ in others)])}), axis=1)", n + sum(m for _, m in others))
        elif kind == 4:
            first = random.randrange(n - 4)
            add(f"strided_slice({a}, begin=[{first}], end=[{random.randint(first + 1, n)}], axes=[1])", 0)
            known[-1] = (known[-1][0], int(lines[-1].split("end=[")[1].split("]")[0]) - first)
            if known[-1][1] < 5:
                known.pop()
        else:
            same = random.choice([o for o, m in known if m == n])
            add(f"nn.relu(add({a}, {same}))", n)
    params = ", ".join(["%x: Tensor[(n, 8, 5, 6), float32]", *(f"{w}: {ty}" for w, ty in weights.items())])
    results = ", ".join([*random.sample([v for v, _ in known[1:]] or ["%x"], 1), known[-1][0]])
    mod = parsed(f"def @main({params}) {{ {' '.join(lines)} ({results}) }}")
    check(mod)


def test_views_are_what_lowering_makes() -> None:
    text = "def @main(%x: Tensor[(4,), float32]) { join((%x, %x), axis=0) }"
    with pytest.raises(UnsupportedError) as error:
        legato.compile(parsed(text))
    assert "join, which lowering makes" in str(error.value)


def test_lowered_text_is_read_again() -> None:
    for text in (DENSE, HALVES):
        shown = str(legato.compile(parsed(text), keep=("lower",)).module_after("lower"))
        assert " join(" in shown or " part(" in shown
        assert str(legato.parse(shown)).count("call_tir(") == shown.count("call_tir(")


def test_a_part_with_a_halo_lies_in_the_order_of_its_whole_even_if_it_has_one_pixel() -> None:
    parts = [ir.Var(name, ty=tensor_type((1, 16, 1, 1))) for name in "ab"]
    for widths, lie in (((1, 1), False), ((0, 0), True)):
        paddings = {parts[0]: {0.0: [((0, 0), (0, 0), widths, widths)]}} if not lie else {}
        user = ir.Var("c", ty=tensor_type((1, 32, 1, 1)))
        found = Wholes.plan([JointUse(user, 0, tuple(parts), 1, user, False)], paddings)
        for v, order in zip(parts, ((0, 2, 3, 1), (0, 1, 2, 3)), strict=True):
            wanted = found.wanted(v)
            assert wanted is not None
            found.settle(v, replace(wanted, order=order))
        assert (found.view(user, 0) is not None) == lie


def test_places() -> None:
    places: Places[str] = Places()
    whole = places.add([("a", 2), ("b", 3), ("c", 4)], 1)
    assert whole is not None
    assert places.of["c"] == Place(whole.whole, 5, 4)
    front, inner = places.add([("a", 2), ("b", 3)], 1, "d"), places.add([("e", 1), ("f", 3)], 1, "c")
    assert front == Place(whole.whole, 0, 5) == places.of["d"]
    assert inner is not None
    assert places.of["f"] == Place(whole.whole, 6, 3)
    refused = ([("b", 3), ("a", 2)], [("a", 2), ("g", 1)], [("g", 1), ("g", 1)], [("a", 2), ("c", 4)])
    assert all(places.add(parts, 1) is None for parts in refused)
    assert places.add([("a", 2), ("b", 3)], 0) is None


def test_layouts_of_parts() -> None:
    places: Places[str] = Places()
    whole = places.add([("a", 2), ("b", 3)], 1)
    assert whole is not None
    layout = Layout((0, 2, 1), ((0, 0), (0, 0), (1, 1)))
    part = part_layout(layout, places.of["b"])
    assert part == Layout((0, 2, 1), ((0, 0), (0, 0), (1, 1)), pad=(0, 2, 0))
    assert whole_layout(part, places.of["b"]) == layout
    shape = (const(4), const(5), const(6))
    none = (const(0),) * 3
    assert cut_layout(layout, shape, none, (const(4), const(2), const(6))) == part_layout(
        layout, Place(whole.whole, 0, 2)
    )
    assert cut_layout(layout, shape, none, (const(4), const(5), const(3))) is None  # the halo would be cut off
