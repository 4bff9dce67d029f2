"""Counts of kernels, against loops that are run in the head, and in Python."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.evaluate import evaluate
from legato.arith.expr import Var
from legato.tir._count import Count, as_expr
from legato.tir.cost import Cost, kernel_cost
from legato.tir.parser import parse_func
from legato.tir.stmt import Func
from tests.programs.settings import examples

VECTOR = 64  # bytes


def cost_of(text: str) -> Cost:
    return kernel_cost(parse_func(text), VECTOR)


def value(count: Count, func: Func, **dims: int) -> int:
    """The count for these values of the dims."""
    names = {p.name: p for p in func.params if isinstance(p, Var)}
    return int(evaluate(as_expr(count), {names[n]: v for n, v in dims.items()}))


def bytes_of(cost: Cost) -> dict[str, tuple[Count, Count]]:
    return {b.name: (b.read, b.written) for b in cost.buffers}


DENSE = """
kernel @dense(x: Buffer[(6, 32), float32], w: Buffer[(32, 64), float32], y: Buffer[(6, 64), float32]) {
  parallel p in 0..4 {
    alloc acc: Buffer[(6, 16), float32, scope=register];
    vector l: index[0..15] in 0..16 {
      unroll m in 0..6 { acc[m, l] = 0f; }
      for k in 0..32 {
        unroll m_1 in 0..6 {
          let a = x[m_1, k];
          acc[m_1, l] = fma(a, w[k, p * 16 + l], acc[m_1, l]);
        }
      }
      unroll m_2 in 0..6 { y[m_2, p * 16 + l] = max(acc[m_2, l], 0f); }
    }
  }
}"""


def test_a_contraction() -> None:
    cost = cost_of(DENSE)
    assert cost.flops == 2 * 6 * 32 * 64 + 6 * 64
    assert cost.slots == 4 * (6 * 32 * 64 + 6 * 64)
    assert (cost.masked, cost.narrow, cost.scalar) == (0, 0, 0)
    assert cost.parallel == 4
    assert cost.loads == 4 * 32 * 6 + 4 * 32  # x[m, k] for each row, w[k, …] once for all rows
    assert cost.stores == 4 * 6
    assert bytes_of(cost) == {"x": (4 * 6 * 32, 0), "w": (4 * 32 * 64, 0), "y": (0, 4 * 6 * 64)}


def test_what_a_loop_does_not_change_counts_once() -> None:
    cost = cost_of("""
kernel @norm(x: Buffer[(8, 100), float32], s: Buffer[(8,), float32], y: Buffer[(8, 100), float32]) {
  for i in 0..8 {
    for j in 0..100 { y[i, j] = x[i, j] * (1f / sqrt(s[i])); }
  }
}""")
    assert cost.calls == {"sqrt": 8}
    assert cost.flops == 8 * 100 + 8


def test_what_a_loop_stores_to_is_read_again() -> None:
    cost = cost_of("""
kernel @sum(x: Buffer[(8, 100), float32], y: Buffer[(8,), float32]) {
  for i in 0..8 {
    y[i] = 0f;
    for j in 0..100 { y[i] = y[i] + x[i, j]; }
  }
}""")
    assert cost.flops == 800
    assert cost.loads == 1600
    assert cost.scalar == 800 * 60
    assert bytes_of(cost)["y"] == (32, 32)


def test_gathers_and_rows() -> None:
    cost = cost_of("""
kernel @take(t: Buffer[(1000, 16), float32], i: Buffer[(5,), int64], y: Buffer[(5, 16), float32]) {
  for r in 0..5 {
    vector l: index[0..15] in 0..16 { y[r, l] = t[index(i[r]), l]; }
  }
}""")
    assert bytes_of(cost) == {"t": (5 * 16 * 4, 0), "i": (40, 0), "y": (0, 320)}
    assert (cost.loads, cost.gathered) == (10, 0)
    cost = cost_of("""
kernel @transpose(x: Buffer[(16, 32), float32], y: Buffer[(32, 16), float32]) {
  for r in 0..32 {
    vector l: index[0..15] in 0..16 { y[r, l] = x[l, r]; }
  }
}""")
    assert (cost.loads, cost.gathered, cost.stores) == (512, 512, 32)


def test_what_lies_within_a_vector_is_no_gather() -> None:
    cost = cost_of("""
kernel @pairs(x: Buffer[(32, 2), float32], y: Buffer[(32, 16), float32]) {
  for r in 0..32 {
    vector l: index[0..15] in 0..16 { y[r, l] = x[r, l % 2]; }
  }
}""")
    assert (cost.loads, cost.gathered) == (32, 0)


def test_gathers_are_lanes_that_are_far_apart() -> None:
    """For every small step, wrap and offset: neither neighbours, nor one element, nor all of them in one vector."""
    for step, wrap, offset in product(range(5), (3, 4, 16, 17, 40), (0, 7)):
        places = [(lane * step + offset) % wrap for lane in range(16)]
        is_one_load = len(set(places)) == 1 or max(places) - min(places) < 16
        cost = cost_of(f"""
        kernel @f(x: Buffer[(5, 40), float32], y: Buffer[(5, 16), float32]) {{
          for r in 0..5 {{ vector l: index[0..15] in 0..16 {{ y[r, l] = x[r, (l * {step} + {offset}) % {wrap}]; }} }}
        }}""")
        assert cost.gathered == (0 if is_one_load else 5 * 16), (step, wrap, offset)
        assert cost.loads == (5 if is_one_load else 5 * 16)


@pytest.mark.parametrize(
    ("extents", "wanted"), [(("4", "6"), 6), (("6", "4"), 6), (("n", "4"), "n"), (("4", "n"), 4), (("0", "n"), "n")]
)
def test_the_widest_parallel_loop_counts(extents: tuple[str, str], wanted: int | str) -> None:
    """If that can be told, else the first that is not empty."""
    loops = "\n".join(f"parallel {v} in 0..{e} {{ y[{v}] = {v}; }}" for v, e in zip("ij", extents, strict=True))
    cost = cost_of(f"kernel @f(y: Buffer[(n + 6,), index], n: index) {{ {loops} }}")
    assert str(as_expr(cost.parallel)) == str(wanted)


def test_products_of_pairs() -> None:
    cost = cost_of("""
kernel @dots(x: Buffer[(64,), bfloat16], w: Buffer[(32, 16, 2), bfloat16], y: Buffer[(16,), float32]) {
  alloc acc: Buffer[(16,), float32, scope=register];
  vector l: index[0..15] in 0..16 {
    acc[l] = 0f;
    for k in 0..32 {
      acc[l] = dot2(acc[l], pair(x[k * 2], x[k * 2 + 1]), pair(w[k, l, 0], w[k, l, 1]));
    }
    y[l] = acc[l];
  }
}""")
    assert cost.calls == {"dot2": 32 * 16}
    assert cost.flops == 3 * 32 * 16  # and one more for the call
    assert (cost.loads, cost.gathered, cost.slots) == (2 * 32, 0, 0)
    assert bytes_of(cost) == {"x": (128, 0), "w": (2 * 32 * 16 * 2, 0), "y": (0, 64)}


def test_narrow_vectors() -> None:
    cost = cost_of("""
kernel @half(x: Buffer[(10, 8), float32], y: Buffer[(10, 8), float32]) {
  for i in 0..10 {
    vector l: index[0..7] in 0..8 { y[i, l] = x[i, l] + 1f; }
  }
}""")
    assert (cost.slots, cost.narrow, cost.masked) == (320, 320, 0)


def test_loops_that_depend_on_data_count_once() -> None:
    cost = cost_of("""
kernel @data(n: Buffer[(), int64], y: Buffer[(100,), float32]) {
  for i in 0..index(n[]) { y[i] = y[i] + 1f; }
}""")
    assert cost.flops == 1


@pytest.mark.parametrize("extent", ["min(16, 100 - i * 16)", "16 - i"])
def test_loops_that_depend_on_loops_count_their_longest_run(extent: str) -> None:
    cost = cost_of(f"""
kernel @inner(y: Buffer[(1000,), float32]) {{
  for i in 0..7 {{
    for j in 0..{extent} {{ y[i * 16 + j] = y[i * 16 + j] + 1f; }}
  }}
}}""")
    assert cost.flops == 7 * 16


@pytest.mark.parametrize(
    ("k", "past_l1", "past_l2"),
    [
        (32, 0, 0),  # all of a panel stays in the first cache
        (256, 3 * 4 * 4 * 256 * 64, 0),  # a panel of 64 KiB is read again by each of 4 rows
        (8192, 3 * 4 * 4 * 8192 * 64, 3 * 4 * 4 * 8192 * 64),  # one of 2 MiB is not even in the second
    ],
)
def test_what_is_read_again(k: int, past_l1: int, past_l2: int) -> None:
    cost = cost_of(f"""
kernel @panels(x: Buffer[(4, {k}), float32], w: Buffer[(4, {k}, 64), float32], y: Buffer[(4, 4, 64), float32]) {{
  parallel p in 0..4 {{
    for row in 0..4 {{
      alloc acc: Buffer[(64,), float32, scope=register];
      for i in 0..{k} {{
        vector l: index[0..63] in 0..64 {{ acc[l] = fma(x[row, i], w[p, i, l], acc[l]); }}
      }}
      vector m: index[0..63] in 0..64 {{ y[p, row, m] = acc[m]; }}
    }}
  }}
}}""")
    rows = 3 * 4 * 4 * k  # and the rows by each of 4 panels
    assert cost.past_l1 == past_l1 + (rows if past_l1 else 0)
    assert cost.past_l2 == past_l2 + (rows if past_l2 else 0)


@pytest.mark.parametrize(
    ("n", "barrier", "stepped"),
    [
        (64, True, 0),  # 16 KiB of weights and what goes with them stay in the first cache
        (256, True, 9 * (4 * 256 * 256 * (260 - 32) // 260 + 3 * (4 * 256 * (260 - 32) // 260))),
        (256, False, 0),  # the steps may be done in another order
    ],
)
def test_steps_touch_again_what_no_order_saves(n: int, barrier: bool, stepped: int) -> None:
    """Of 260 KiB that a step touches, 32 may still be in the first cache; weights, state (read and written) and s come
    in every step, rows of y just once."""
    cost = cost_of(f"""
kernel @steps(w: Buffer[({n}, {n}), float32], h: Buffer[({n},), float32], s: Buffer[({n},), float32],
    y: Buffer[(10, {n}), float32]) {{
  for t in 0..10 {{
    parallel p in 0..{n} {{
      for k in 0..{n} {{ y[t, p] = fma(h[k], w[p, k], y[t, p]); }}
    }}
    {"barrier;" if barrier else ""}
    parallel q in 0..{n} {{ h[q] = y[t, q] + s[q]; }}
    {"barrier;" if barrier else ""}
  }}
}}""")
    assert cost.stepped == stepped
    assert cost.step == (260 << 10 if stepped else 0)


# ------------------------------------------------------------------ guards

GUARDED = """
kernel @guarded(x: Buffer[({size},), float32], y: Buffer[({size},), float32], n: index[0..]) {{
  for i in 0..{a} {{
    for j in 0..{b} {{
      {kind} l: index[0..{last}] in 0..{c} {{
        if {cond} {{
          y[(i * {b} + j) * {c} + l] = x[(i * {b} + j) * {c} + l] + 1f;
        }} else {{
          y[(i * {b} + j) * {c} + l] = x[(i * {b} + j) * {c} + l] + 1f + 2f + 3f;
        }}
      }}
    }}
  }}
}}"""
CONDITIONS: dict[str, Callable[[int, int, int, int, int, int], bool]] = {
    "i * {b} * {c} + j * {c} + l < n": lambda i, j, k, n, b, c: i * b * c + j * c + k < n,
    "j * {c} + l < n": lambda i, j, k, n, b, c: j * c + k < n,
    "l + 2 <= n": lambda i, j, k, n, b, c: k + 2 <= n,
    "j * 3 < n": lambda i, j, k, n, b, c: j * 3 < n,
}
UNKNOWN: dict[str, Callable[[int, int, int, int, int, int], bool]] = {
    "n < 7": lambda i, j, k, n, b, c: n < 7,
    "j * {c} % {c} + l < n": lambda i, j, k, n, b, c: k < n,
    "i + j < n": lambda i, j, k, n, b, c: i + j < n,
    "i * {b} + j < n and l < 5": lambda i, j, k, n, b, c: i * b + j < n and k < 5,
}


@examples(80, fuzz=False)
@given(
    cond=st.sampled_from([*CONDITIONS, *UNKNOWN]),
    sizes=st.tuples(*[st.integers(1, 5)] * 2, st.integers(1, 16)),
    n=st.integers(0, 40),
    kind=st.sampled_from(["for", "vector"]),
)
def test_guards(cond: str, sizes: tuple[int, int, int], n: int, kind: str) -> None:
    a, b, c = sizes
    condition = cond.format(b=b, c=c)
    func = parse_func(GUARDED.format(a=a, b=b, c=c, last=c - 1, kind=kind, size=a * b * c, cond=condition))
    cost = kernel_cost(func, VECTOR)
    holds = (CONDITIONS | UNKNOWN)[cond]
    points = list(product(range(a), range(b), range(c)))
    true = sum(holds(*point, n, b, c) for point in points)
    exact = true + 3 * (len(points) - true)
    got = value(cost.flops, func, n=n)
    assert got == exact if cond in CONDITIONS else exact <= got <= true + 3 * len(points) or got == 4 * len(points)
    assert value(cost.masked, func, n=n) >= 0


@examples(60, fuzz=False)
@given(
    outer=st.integers(1, 6),
    inner=st.integers(1, 5),
    n=st.integers(0, 40),
    first=st.sampled_from(["p % {i} < 2", "p // {i} < 2", "p < 3", "p % {i} * 8 + l < 9"]),
    symbolic=st.booleans(),
)
def test_guards_in_guards(outer: int, inner: int, n: int, first: str, symbolic: bool) -> None:
    """A loop over tiles and rows at once, whose last tile is cut off."""
    extent = f"n * {inner}" if symbolic else f"{outer * inner}"
    first = first.format(i=inner)
    func = parse_func(f"""
kernel @tiles(y: Buffer[(10000,), float32], n: index[0..]) {{
  for p in 0..{extent} {{
    vector l: index[0..7] in 0..8 {{
      if {first} {{
        y[p * 8 + l] = y[p * 8 + l] + 1f;
      }} else {{
        if p % {inner} * 8 + l < 11 {{
          y[p * 8 + l] = y[p * 8 + l] + 1f + 2f;
        }}
      }}
    }}
  }}
}}""")
    points = list(product(range((n if symbolic else outer) * inner), range(8)))
    holds = eval(f"lambda p, l: {first}")
    exact = sum(1 if holds(p, k) else 2 * (p % inner * 8 + k < 11) for p, k in points)
    got = value(kernel_cost(func, VECTOR).flops, func, n=n)
    assert got == exact if not symbolic else exact <= got <= 3 * len(points)


@pytest.mark.parametrize("n", [*range(8), 31, 48])
def test_one_of_several_branches_of_a_symbolic_loop(n: int) -> None:
    """What is left over of n is one tile or two of 1 to 3 rows: each row counts once, whatever branch it is in."""
    text = """
kernel @rest(y: Buffer[(n,), float32], n: index[0..]) {
  for m in 0..(n % 6 + 2) // 3 {
    let height: index[1..3] = (n % 6 + ((n % 6 + 2) // 3 - 1 - m)) // ((n % 6 + 2) // 3);
    if height < 3 {
      if height < 2 {
        for i in 0..1 { y[m + i] = y[m + i] + 1f; }
      } else {
        for i_1 in 0..2 { y[m + i_1] = y[m + i_1] + 1f; }
      }
    } else {
      for i_2 in 0..3 { y[m + i_2] = y[m + i_2] + 1f; }
    }
  }
}"""
    func = parse_func(text)
    assert value(kernel_cost(func, VECTOR).flops, func, n=n) == n % 6
