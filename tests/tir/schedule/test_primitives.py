"""Each primitive: the program before and after, as text, and why it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from legato.arith.expr import const
from legato.base.errors import ScheduleError
from legato.tir import schedule as s
from legato.tir.buffer import Layout, Scope
from legato.tir.parser import parse_func
from legato.tir.printer import show
from legato.tir.stmt import Func
from legato.tir.walk import bound_buffers, loops

COPY = """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  for i in 0..n {
    y[i] = x[i] + 1f;
  }
}
"""
TRANSPOSE = """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    for j in 0..6 {
      y[j, i] = x[i, j];
    }
  }
}
"""
SUM = """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    y[i] = 0f;
    for r in 0..32 {
      y[i] = y[i] + x[i, r];
    }
  }
}
"""
BLUR = """
kernel @f(x: Buffer[(12,), float32], y: Buffer[(10,), float32]) {
  alloc t: Buffer[(11,), float32];
  for j in 0..11 {
    t[j] = x[j] + x[j + 1];
  }
  for o in 0..3 {
    for i in 0..4 {
      if o * 4 + i < 10 {
        y[o * 4 + i] = t[o * 4 + i] + t[o * 4 + i + 1];
      }
    }
  }
}
"""
SCAN = """
kernel @f(x: Buffer[(2, 8), float32], y: Buffer[(2, 8), float32]) {
  for i in 0..2 {
    for j in 0..8 {
      y[i, j] = select(0 < j, y[i, j - 1], 0f) + x[i, j];
    }
  }
}
"""
SCRATCH = """
kernel @f(x: Buffer[(4,), float32], y: Buffer[(4,), float32]) {
  alloc t: Buffer[(1,), float32, scope=local];
  for i in 0..4 {
    t[0] = x[i];
    y[i] = t[0] * t[0];
  }
}
"""


def parts(text: str) -> tuple[Func, dict[str, Any]]:
    """The function, and its loop variables and buffers by name."""
    func = parse_func(text)
    names: dict[str, Any] = {f.var.name: f.var for f in loops(func)}
    names |= {b.name: b for b in [*func.params, *bound_buffers(func)]}
    return func, names


def reversed_reduction(f: Func, v: dict[str, Any]) -> Func:
    """Tries to sum the tiles of a reduction in another order."""
    f, outer, inner = s.split(f, v["r"], 8)
    return s.reorder(f, [inner, outer])


BEFORE_AFTER = [
    pytest.param(
        COPY,
        lambda f, v: s.split(f, v["i"], 4)[0],
        """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  for io in 0..(n + 3) // 4 {
    for ii in 0..4 {
      if io * 4 + ii < n {
        y[io * 4 + ii] = x[io * 4 + ii] + 1f;
      }
    }
  }
}
""",
        id="split",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.split(f, v["j"], 3)[0],
        """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    for jo in 0..2 {
      for ji in 0..3 {
        y[jo * 3 + ji, i] = x[i, jo * 3 + ji];
      }
    }
  }
}
""",
        id="split_divides",
    ),
    pytest.param(
        COPY,
        lambda f, v: s.split_peeled(f, v["i"], 4)[0],
        """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  for io in 0..n // 4 {
    for ii in 0..4 {
      y[io * 4 + ii] = x[io * 4 + ii] + 1f;
    }
  }
  for i in 0..n % 4 {
    y[n // 4 * 4 + i] = x[n // 4 * 4 + i] + 1f;
  }
}
""",
        id="split_peeled",
    ),
    pytest.param(
        SUM,
        lambda f, v: s.split_balanced(f, v["r"], 12)[0],
        """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    y[i] = 0f;
    for ro in 0..2 {
      for ri in 0..11 {
        y[i] = y[i] + x[i, ro * 11 + ri];
      }
    }
    for ro_1 in 0..1 {
      for ri_1 in 0..10 {
        y[i] = y[i] + x[i, ro_1 * 10 + ri_1 + 22];
      }
    }
  }
}
""",
        id="split_balanced",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.reorder(f, [v["j"], v["i"]]),
        """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for j in 0..6 {
    for i in 0..4 {
      y[j, i] = x[i, j];
    }
  }
}
""",
        id="reorder",
    ),
    pytest.param(
        BLUR,
        lambda f, v: s.reorder(f, [v["i"], v["o"]]),
        """
kernel @f(x: Buffer[(12,), float32], y: Buffer[(10,), float32]) {
  alloc t: Buffer[(11,), float32];
  for j in 0..11 {
    t[j] = x[j] + x[j + 1];
  }
  for i in 0..4 {
    for o in 0..3 {
      if o * 4 + i < 10 {
        y[o * 4 + i] = t[o * 4 + i] + t[o * 4 + i + 1];
      }
    }
  }
}
""",
        id="reorder_guard",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.fuse(f, v["i"], v["j"])[0],
        """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for ij in 0..24 {
    y[ij % 6, ij // 6] = x[ij // 6, ij % 6];
  }
}
""",
        id="fuse",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.unroll(f, v["j"]),
        """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    unroll j in 0..6 {
      y[j, i] = x[i, j];
    }
  }
}
""",
        id="unroll",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.vectorize(f, v["j"]),
        """
kernel @f(x: Buffer[(4, 6), float32], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    vector j in 0..6 {
      y[j, i] = x[i, j];
    }
  }
}
""",
        id="vectorize",
    ),
    pytest.param(
        COPY,
        lambda f, v: s.parallel(f, v["i"]),
        """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  parallel i in 0..n {
    y[i] = x[i] + 1f;
  }
}
""",
        id="parallel",
    ),
    pytest.param(
        SUM,
        lambda f, v: s.fission(f, v["i"])[0],
        """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    y[i] = 0f;
  }
  for i_1 in 0..4 {
    for r in 0..32 {
      y[i_1] = y[i_1] + x[i_1, r];
    }
  }
}
""",
        id="fission",
    ),
    pytest.param(
        BLUR,
        lambda f, v: s.compute_at(f, v["t"], v["o"], Scope.LOCAL)[0],
        """
kernel @f(x: Buffer[(12,), float32], y: Buffer[(10,), float32]) {
  for o in 0..3 {
    alloc t: Buffer[(5,), float32, scope=local];
    for j in 0..5 {
      if o * 4 + j < 11 {
        t[j] = x[o * 4 + j] + x[o * 4 + j + 1];
      }
    }
    for i in 0..4 {
      if o * 4 + i < 10 {
        y[o * 4 + i] = t[i] + t[i + 1];
      }
    }
  }
}
""",
        id="compute_at",
    ),
    pytest.param(
        BLUR,
        lambda f, v: s.inline(f, v["t"]),
        """
kernel @f(x: Buffer[(12,), float32], y: Buffer[(10,), float32]) {
  for o in 0..3 {
    for i in 0..4 {
      if o * 4 + i < 10 {
        y[o * 4 + i] = x[o * 4 + i] + x[o * 4 + i + 1] + (x[o * 4 + i + 1] + x[o * 4 + i + 1 + 1]);
      }
    }
  }
}
""",
        id="inline",
    ),
    pytest.param(
        BLUR,
        lambda f, v: s.cache_read(f, v["t"], v["o"])[0],
        """
kernel @f(x: Buffer[(12,), float32], y: Buffer[(10,), float32]) {
  alloc t: Buffer[(11,), float32];
  for j in 0..11 {
    t[j] = x[j] + x[j + 1];
  }
  for o in 0..3 {
    alloc t_local: Buffer[(5,), float32, scope=local];
    for t0 in 0..5 {
      if o * 4 + t0 < 11 {
        t_local[t0] = t[o * 4 + t0];
      }
    }
    for i in 0..4 {
      if o * 4 + i < 10 {
        y[o * 4 + i] = t_local[i] + t_local[i + 1];
      }
    }
  }
}
""",
        id="cache_read",
    ),
    pytest.param(
        SUM,
        lambda f, v: s.cache_write(f, v["y"], v["i"], Scope.REGISTER)[0],
        """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    alloc y_tile: Buffer[(1,), float32, scope=register];
    y_tile[0] = 0f;
    for r in 0..32 {
      y_tile[0] = y_tile[0] + x[i, r];
    }
    y[i] = y_tile[0];
  }
}
""",
        id="cache_write",
    ),
    pytest.param(
        SUM,
        lambda f, v: s.cache_write(f, v["y"])[0],
        """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  alloc y_tile: Buffer[(4,), float32, scope=local];
  for i in 0..4 {
    y_tile[i] = 0f;
    for r in 0..32 {
      y_tile[i] = y_tile[i] + x[i, r];
    }
  }
  for i_1 in 0..4 {
    y[i_1] = y_tile[i_1];
  }
}
""",
        id="cache_write_all",
    ),
    pytest.param(
        SUM,
        lambda f, v: s.rfactor(f, v["r"])[0],
        """
kernel @f(x: Buffer[(4, 32), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    y[i] = 0f;
    alloc y_parts: Buffer[(32,), float32, scope=local];
    for r in 0..32 {
      y_parts[r] = 0f;
    }
    for r_1 in 0..32 {
      y_parts[r_1] = y_parts[r_1] + x[i, r_1];
    }
    for r_2 in 0..32 {
      y[i] = y[i] + y_parts[r_2];
    }
  }
}
""",
        id="rfactor",
    ),
    pytest.param(
        COPY,
        lambda f, v: s.partition(f, v["i"], 3)[0],
        """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  for i in 0..min(n, 3) {
    y[i] = x[i] + 1f;
  }
  for i_1 in 0..n - min(n, 3) {
    y[min(n, 3) + i_1] = x[min(n, 3) + i_1] + 1f;
  }
}
""",
        id="partition",
    ),
    pytest.param(
        COPY,
        lambda f, v: s.overlap_tail(f, v["i"], 4)[0],
        """
kernel @f(x: Buffer[(n,), float32], y: Buffer[(n,), float32], n: index) {
  if 4 <= n {
    for io in 0..(n + 3) // 4 {
      let ib: index[0..] = min(io * 4, n - 4);
      for ii in 0..4 {
        y[ib + ii] = x[ib + ii] + 1f;
      }
    }
  } else {
    for i in 0..n {
      y[i] = x[i] + 1f;
    }
  }
}
""",
        id="overlap_tail",
    ),
    pytest.param(
        SCRATCH,
        lambda f, v: s.sink_alloc(f, v["t"], v["i"]),
        """
kernel @f(x: Buffer[(4,), float32], y: Buffer[(4,), float32]) {
  for i in 0..4 {
    alloc t: Buffer[(1,), float32, scope=local];
    t[0] = x[i];
    y[i] = t[0] * t[0];
  }
}
""",
        id="sink_alloc",
    ),
    pytest.param(
        SCRATCH,
        lambda f, v: s.set_scope(f, v["t"], Scope.REGISTER)[0],
        """
kernel @f(x: Buffer[(4,), float32], y: Buffer[(4,), float32]) {
  alloc t: Buffer[(1,), float32, scope=register];
  for i in 0..4 {
    t[0] = x[i];
    y[i] = t[0] * t[0];
  }
}
""",
        id="set_scope",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.set_layout(f, v["x"], Layout((1, 0), pad=(2, 0)))[0],
        """
kernel @f(x: Buffer[(4, 6), float32, order=(1, 0), pad=(2, 0)], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    for j in 0..6 {
      y[j, i] = x[i, j];
    }
  }
}
""",
        id="set_layout",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.pack(f, v["x"], s.index_map((3, 4, 2), 2, lambda i, j: (j // 2, i, j % 2)))[0],
        """
kernel @f(x: Buffer[(3, 4, 2), float32], y: Buffer[(6, 4), float32]) {
  for i in 0..4 {
    for j in 0..6 {
      y[j, i] = x[j // 2, i, j % 2];
    }
  }
}
""",
        id="pack",
    ),
]


@pytest.mark.parametrize(("before", "edit", "after"), BEFORE_AFTER)
def test_before_and_after(before: str, edit: Callable[..., Func], after: str) -> None:
    func, names = parts(before)
    assert show(edit(func, names)).strip() == after.strip()


MEETING = """
kernel @f(a: Buffer[(n,), float32], n: index) {
  for t in 0..3 {
    parallel i in 0..n { a[i] = float32(t); }
    barrier;
  }
}
"""

REFUSALS = [
    pytest.param(
        MEETING,
        lambda f, v: s.parallel(f, v["t"]),
        [
            "schedule error: parallel: t and i are nested; one of them can be parallel",
        ],
        id="nested_parallel_with_barrier",
    ),
    pytest.param(
        MEETING.replace("parallel i", "for i"),
        lambda f, v: s.parallel(f, v["t"]),
        [
            "schedule error: parallel: threads wait for each other in the loop",
            "  hint: schedule loops without barriers",
        ],
        id="barrier",
    ),
    pytest.param(
        COPY,
        lambda f, v: s.split(f, v["n"], 4),
        [
            "schedule error: f has no loop n",
            "  its loops: i",
        ],
        id="no_loop",
    ),
    pytest.param(
        COPY,
        lambda f, v: s.split(f, v["i"], 0),
        [
            "schedule error: split: a factor of 0, wanted at least 1",
        ],
        id="factor",
    ),
    pytest.param(
        COPY,
        lambda f, v: s.split_balanced(f, v["i"], 4),
        [
            "schedule error: split_balanced: the extent of i is n, wanted a literal",
            "  hint: split the loop first",
        ],
        id="symbolic_balanced",
    ),
    pytest.param(
        COPY,
        lambda f, v: s.vectorize(f, v["i"]),
        [
            "schedule error: vectorize: the extent of i is n, wanted a literal",
            "  hint: split the loop first",
        ],
        id="symbolic_vector",
    ),
    pytest.param(
        SUM,
        lambda f, v: s.vectorize(f, v["r"]),
        [
            "schedule error: vectorize: iterations of r may depend on each other through y",
            "  hint: rfactor gives each lane of a reduction its own accumulator",
        ],
        id="vector_reduction",
    ),
    pytest.param(
        SUM,
        lambda f, v: s.parallel(f, v["r"]),
        [
            "schedule error: parallel: iterations of r may depend on each other through y",
        ],
        id="parallel_reduction",
    ),
    pytest.param(
        SCAN,
        lambda f, v: s.parallel(f, v["j"]),
        [
            "schedule error: parallel: iterations of j may depend on each other through y",
        ],
        id="parallel_scan",
    ),
    pytest.param(
        SCRATCH,
        lambda f, v: s.parallel(f, v["i"]),
        [
            "schedule error: parallel: t (local) is stored inside i but allocated outside",
            "  hint: each thread would have its own; allocate it inside with sink_alloc or compute_at",
        ],
        id="parallel_scratch",
    ),
    pytest.param(
        BLUR,
        lambda f, v: s.parallel(s.parallel(f, v["j"]), v["o"]),
        [
            "schedule error: parallel: o and the parallel loop j may both touch elements of t",
            "  hint: threads do not wait between the loops: bring them together with compute_at, or make two kernels",
        ],
        id="parallel_twice",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.parallel(s.parallel(f, v["i"]), v["j"]),
        [
            "schedule error: parallel: j and i are nested; one of them can be parallel",
        ],
        id="parallel_nested",
    ),
    pytest.param(
        SUM,
        lambda f, v: s.reorder(f, [v["r"], v["i"]]),
        [
            "schedule error: reorder: the nest of i is not perfect: a Block is inside i",
            "  hint: take it apart with fission, or move allocations with lift_alloc",
        ],
        id="reorder_imperfect",
    ),
    pytest.param(
        BLUR,
        lambda f, v: s.reorder(f, [v["j"], v["i"]]),
        [
            "schedule error: reorder: j is not in one nest with i",
        ],
        id="reorder_apart",
    ),
    pytest.param(
        SUM,
        lambda f, v: reversed_reduction(f, v),
        [
            "schedule error: reorder: the order of ro, ri decides how sums in y (float32) are rounded",
            "  hint: reassociate=True allows other roundings",
        ],
        id="reorder_sums",
    ),
    pytest.param(
        SUM,
        lambda f, v: s.fuse(f, v["i"], v["r"]),
        [
            "schedule error: fuse: r is not directly inside i",
            "  hint: reorder brings loops together",
        ],
        id="fuse_apart",
    ),
    pytest.param(
        COPY,
        lambda f, v: s.fission(f, v["i"]),
        [
            "schedule error: fission: i has 1 statements, got at=1",
        ],
        id="fission_one",
    ),
    pytest.param(
        SCRATCH,
        lambda f, v: s.fission(f, v["i"]),
        [
            "schedule error: fission: both parts use t in different iterations of i",
        ],
        id="fission_scratch",
    ),
    pytest.param(
        BLUR,
        lambda f, v: s.compute_at(f, v["t"], v["j"]),
        [
            "schedule error: compute_at: j is a loop of what computes t",
        ],
        id="compute_at_self",
    ),
    pytest.param(
        BLUR,
        lambda f, v: s.compute_at(f, v["y"], v["o"]),
        [
            "schedule error: f does not allocate y",
            "  hint: only intermediate buffers can move",
        ],
        id="compute_at_param",
    ),
    pytest.param(
        BLUR,
        lambda f, v: s.compute_at(s.split(f, v["j"], 4)[0], v["t"], v["o"]),
        [
            "schedule error: compute_at: t is computed at jo * 4 + ji, wanted a loop over a whole dimension",
            "  hint: place a stage before its own loops are split, fused or shifted",
        ],
        id="compute_at_split",
    ),
    pytest.param(
        SCRATCH,
        lambda f, v: s.inline(f, v["t"]),
        [
            "schedule error: inline: what stores to t also stores to y",
            "  hint: take the nest apart with fission, or allocate the buffer where it is used with sink_alloc",
        ],
        id="inline_reduction",
    ),
    pytest.param(
        SCAN,
        lambda f, v: s.cache_read(f, v["y"], v["i"]),
        [
            "schedule error: cache_read: i stores to y",
        ],
        id="cache_read_stored",
    ),
    pytest.param(
        SUM,
        lambda f, v: s.cache_write(f, v["y"], v["r"]),
        [
            "schedule error: cache_write: r reads y[i] before it stores it",
            "  hint: put the initialisation inside the loop as well",
        ],
        id="cache_write_first",
    ),
    pytest.param(
        SCAN,
        lambda f, v: s.rfactor(f, v["j"]),
        [
            "schedule error: rfactor: j does not end in a single update x = x op e",
        ],
        id="rfactor_scan",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.partition(f, v["i"], v["j"]),
        [
            "schedule error: partition: the boundary j of i uses j, which is not known there",
        ],
        id="partition_unknown",
    ),
    pytest.param(
        SUM,
        lambda f, v: s.overlap_tail(f, v["i"], 4),
        [
            "schedule error: overlap_tail: iterations of i read y, which they store to",
            "  hint: accumulate in a tile with cache_write",
        ],
        id="overlap_sum",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.overlap_tail(f, v["i"], 5),
        [
            "schedule error: overlap_tail: i has 4 iterations, wanted at least 5",
        ],
        id="overlap_short",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.pack(f, v["x"], s.index_map((4, 4), 2, lambda i, j: (i, j % 4))),
        [
            "schedule error: pack: elements of x may collide at [i0, i1 % 4]",
            "  not determined: i1",
        ],
        id="pack_collides",
    ),
    pytest.param(
        TRANSPOSE,
        lambda f, v: s.pack(f, v["y"], s.index_map((4, 6), 2, lambda i, j: (j, i))),
        [
            "schedule error: pack: y is stored to or has a halo",
        ],
        id="pack_stored",
    ),
]


@pytest.mark.parametrize(("before", "edit", "message"), REFUSALS)
def test_refusals_say_why(before: str, edit: Callable[..., object], message: list[str]) -> None:
    func, names = parts(before)
    with pytest.raises(ScheduleError) as error:
        edit(func, names)
    assert str(error.value).splitlines() == message


def test_packing_an_array() -> None:
    """Channels 0–4 and 5 in blocks of 4: gaps hold zeros."""
    w = np.arange(12, dtype=np.float32).reshape(6, 2)
    packed = s.apply_index_map(w, s.index_map((2, 2, 4), 2, lambda o, r: (o // 4, r, o % 4)))
    want = np.zeros((2, 2, 4), np.float32)
    for o in range(6):
        want[o // 4, :, o % 4] = w[o]
    np.testing.assert_array_equal(packed, want)


def test_lift_alloc_undoes_sink_alloc() -> None:
    func, v = parts(SCRATCH)
    assert show(s.lift_alloc(s.sink_alloc(func, v["t"], v["i"]), v["t"], v["i"])).strip() == SCRATCH.strip()


def test_copies_have_names() -> None:
    """What a primitive copies can be scheduled through the names that it returns."""
    func, v = parts(BLUR)
    func, tiles = s.split_balanced(func, v["i"], 3)
    assert [p.inner.name for p in tiles] == ["ii"]
    func, names = s.compute_at(func, v["t"], v["o"], Scope.LOCAL)
    assert names[v["t"]].shape == (const(5),)
    assert names[v["j"]] in [f.var for f in loops(func)]
    func, _, _, rest = s.split_peeled(func, names[v["j"]], 2)
    assert rest is not None
    assert rest[names[v["j"]]] in [f.var for f in loops(func)]
