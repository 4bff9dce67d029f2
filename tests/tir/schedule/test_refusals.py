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
