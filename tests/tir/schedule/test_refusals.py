"""Why a primitive refuses: the whole message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from legato.base.errors import ScheduleError
from legato.tir import schedule as s
from legato.tir.stmt import Func
from tests.tir.schedule.samples import BLUR, COPY, SCAN, SCRATCH, SUM, TRANSPOSE, parts


def reversed_reduction(f: Func, v: dict[str, Any]) -> Func:
    """Tries to sum the tiles of a reduction in another order."""
    f, outer, inner = s.split(f, v["r"], 8)
    return s.reorder(f, [inner, outer])


MEETING = """
kernel @f(a: Buffer[(n,), float32], n: index) {
  for t in 0..3 {
    parallel i in 0..n { a[i] = float32(t); }
    barrier;
  }
}
"""

WATCHED = """
kernel @f(a: Buffer[(1,), int32], b: Buffer[(2,), int32]) {
  for i in 0..2 {
    for j in 0..2 {
      a[0] = a[0] + int32(i);
      b[i] = a[0];
    }
  }
}
"""

TRIANGLE = """
kernel @f(x: Buffer[(4,), int32], y: Buffer[(1,), int32]) {
  for i in 0..4 {
    for j in 0..i + 1 { y[0] = y[0] + x[j]; }
  }
}
"""

# Program, what is tried on it, and the lines of the message: what is wrong, then, indented, what else there is to say.
REFUSALS: dict[str, tuple[str, Callable[[Func, dict[str, Any]], object], *tuple[str, ...]]] = {
    "nested_parallel_with_barrier": (
        MEETING,
        lambda f, v: s.parallel(f, v["t"]),
        "parallel: t and i are nested; one of them can be parallel",
    ),
    "barrier": (
        MEETING.replace("parallel i", "for i"),
        lambda f, v: s.parallel(f, v["t"]),
        "parallel: threads wait for each other in the loop",
        "hint: schedule loops without barriers",
    ),
    "no_loop": (
        COPY,
        lambda f, v: s.split(f, v["n"], 4),
        "f has no loop n",
        "its loops: i",
    ),
    "factor": (
        COPY,
        lambda f, v: s.split(f, v["i"], 0),
        "split: a factor of 0, wanted at least 1",
    ),
    "symbolic_balanced": (
        COPY,
        lambda f, v: s.split_balanced(f, v["i"], 4),
        "split_balanced: the extent of i is n, wanted a literal",
        "hint: split the loop first",
    ),
    "symbolic_vector": (
        COPY,
        lambda f, v: s.vectorize(f, v["i"]),
        "vectorize: the extent of i is n, wanted a literal",
        "hint: split the loop first",
    ),
    "vector_reduction": (
        SUM,
        lambda f, v: s.vectorize(f, v["r"]),
        "vectorize: iterations of r may depend on each other through y",
        "hint: rfactor gives each lane of a reduction its own accumulator",
    ),
    "parallel_reduction": (
        SUM,
        lambda f, v: s.parallel(f, v["r"]),
        "parallel: iterations of r may depend on each other through y",
    ),
    "parallel_scan": (
        SCAN,
        lambda f, v: s.parallel(f, v["j"]),
        "parallel: iterations of j may depend on each other through y",
    ),
    "parallel_scratch": (
        SCRATCH,
        lambda f, v: s.parallel(f, v["i"]),
        "parallel: t (local) is stored inside i but allocated outside",
        "hint: each thread would have its own; allocate it inside with sink_alloc or compute_at",
    ),
    "parallel_twice": (
        BLUR,
        lambda f, v: s.parallel(s.parallel(f, v["j"]), v["o"]),
        "parallel: o and the parallel loop j may both touch elements of t",
        "hint: threads do not wait between the loops: bring them together with compute_at, or make two kernels",
    ),
    "parallel_nested": (
        TRANSPOSE,
        lambda f, v: s.parallel(s.parallel(f, v["i"]), v["j"]),
        "parallel: j and i are nested; one of them can be parallel",
    ),
    "reorder_imperfect": (
        SUM,
        lambda f, v: s.reorder(f, [v["r"], v["i"]]),
        "reorder: the nest of i is not perfect: a Block is inside i",
        "hint: take it apart with fission, or move allocations with lift_alloc",
    ),
    "reorder_apart": (
        BLUR,
        lambda f, v: s.reorder(f, [v["j"], v["i"]]),
        "reorder: j is not in one nest with i",
    ),
    "reorder_sums": (
        SUM,
        reversed_reduction,
        "reorder: the order of ro, ri decides how sums in y (float32) are rounded",
        "hint: reassociate=True allows other roundings",
    ),
    "reorder_sums_that_are_watched": (
        WATCHED,
        lambda f, v: s.reorder(f, [v["j"], v["i"]]),
        "reorder: iterations of i, j depend on each other through a",
    ),
    "fuse_apart": (
        SUM,
        lambda f, v: s.fuse(f, v["i"], v["r"]),
        "fuse: r is not directly inside i",
        "hint: reorder brings loops together",
    ),
    "fission_one": (
        COPY,
        lambda f, v: s.fission(f, v["i"]),
        "fission: i has 1 statements, got at=1",
    ),
    "fission_scratch": (
        SCRATCH,
        lambda f, v: s.fission(f, v["i"]),
        "fission: both parts use t in different iterations of i",
    ),
    "compute_at_self": (
        BLUR,
        lambda f, v: s.compute_at(f, v["t"], v["j"]),
        "compute_at: j is a loop of what computes t",
    ),
    "compute_at_param": (
        BLUR,
        lambda f, v: s.compute_at(f, v["y"], v["o"]),
        "f does not allocate y",
        "hint: only intermediate buffers can move",
    ),
    "compute_at_split": (
        BLUR,
        lambda f, v: s.compute_at(s.split(f, v["j"], 4)[0], v["t"], v["o"]),
        "compute_at: t is computed at jo * 4 + ji, wanted a loop over a whole dimension",
        "hint: place a stage before its own loops are split, fused or shifted",
    ),
    "inline_reduction": (
        SCRATCH,
        lambda f, v: s.inline(f, v["t"]),
        "inline: what stores to t also stores to y",
        "hint: take the nest apart with fission, or allocate the buffer where it is used with sink_alloc",
    ),
    "cache_read_stored": (
        SCAN,
        lambda f, v: s.cache_read(f, v["y"], v["i"]),
        "cache_read: i stores to y",
    ),
    "cache_write_first": (
        SUM,
        lambda f, v: s.cache_write(f, v["y"], v["r"]),
        "cache_write: r reads y[i] before it stores it",
        "hint: put the initialisation inside the loop as well",
    ),
    "rfactor_scan": (
        SCAN,
        lambda f, v: s.rfactor(f, v["j"]),
        "rfactor: j does not end in a single update x = x op e",
    ),
    "rfactor_triangle": (
        TRIANGLE,
        lambda f, v: s.rfactor(f, v["j"]),
        "rfactor: the extent of j, i + 1, depends on another loop",
    ),
    "partition_unknown": (
        TRANSPOSE,
        lambda f, v: s.partition(f, v["i"], v["j"]),
        "partition: the boundary j of i uses j, which is not known there",
    ),
    "overlap_sum": (
        SUM,
        lambda f, v: s.overlap_tail(f, v["i"], 4),
        "overlap_tail: iterations of i read y, which they store to",
        "hint: accumulate in a tile with cache_write",
    ),
    "overlap_short": (
        TRANSPOSE,
        lambda f, v: s.overlap_tail(f, v["i"], 5),
        "overlap_tail: i has 4 iterations, wanted at least 5",
    ),
    "pack_collides": (
        TRANSPOSE,
        lambda f, v: s.pack(f, v["x"], s.index_map((4, 4), 2, lambda i, j: (i, j % 4))),
        "pack: elements of x may collide at [i0, i1 % 4]",
        "not determined: i1",
    ),
    "pack_stored": (
        TRANSPOSE,
        lambda f, v: s.pack(f, v["y"], s.index_map((4, 6), 2, lambda i, j: (j, i))),
        "pack: y is stored to or has a halo",
    ),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
def test_refusals_say_why(case: tuple[Any, ...]) -> None:
    before, edit, problem, *more = case
    func, names = parts(before)
    with pytest.raises(ScheduleError) as error:
        edit(func, names)
    assert str(error.value).splitlines() == [f"schedule error: {problem}", *(f"  {line}" for line in more)]
