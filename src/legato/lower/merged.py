"""Axes that lie together in memory, looped over as one: a batch of sequences is one long run of rows.

Register tiles then go on from one sequence to the next, and only behind the last are there fewer rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from legato.arith.expr import Var, const
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.lower.access import extent_of, lie_together
from legato.lower.rules.nest import unfused
from legato.lower.rules.tile_job import TileJob
from legato.te.tensor import Axis

__all__ = ["merged"]


def merged(job: TileJob, most: int) -> TileJob:
    """`job` with the axes around its row axis as part of that: as many as lie together in memory with it, or else one,
    if several of its rows fit in a tile of `most`."""
    *rest, channel = job.order
    if job.row is None or rest[-1] is not job.row:
        return job
    together = [rest.pop()]
    while rest and _lie_together(job, rest[-1], together[0]):
        together.insert(0, rest.pop())
    if len(together) > 1:
        return _as_one(job, rest, together, channel)
    unit = extent_of(job.row.extent)
    if not rest or extent_of(rest[-1].extent) is None or unit is None or 2 * unit > most:
        return job
    return replace(_as_one(job, rest[:-1], (rest[-1], job.row), channel), unit=unit)


def _as_one(job: TileJob, rest: Sequence[Axis], together: Sequence[Axis], channel: Axis) -> TileJob:
    """`job` with the axes `together` as its row axis."""
    assert job.row is not None
    row = Axis(Var(job.row.var.name, lo=0), simplify(math.prod((a.extent for a in together), start=const(1))))
    places = unfused(row.var, [a.extent for a in together])
    env = {a.var: place for a, place in zip(together, places, strict=True)}
    return replace(
        job,
        order=(*rest, row, channel),
        row=row,
        index=tuple(substitute(i, env) for i in job.index),
        body=substitute(job.body, env),
        epilogue=lambda total: substitute(job.epilogue(total), env),
        last=None if job.last is None else (substitute(job.last[0], env), job.last[1]),
        reduction=replace(
            job.reduction, init=None if job.reduction.init is None else substitute(job.reduction.init, env)
        ),
    )


def _lie_together(job: TileJob, outer: Axis, inner: Axis) -> bool:
    values = [job.body, job.epilogue(const(0, job.dtype))]
    values += [] if job.last is None else [job.last[0]]
    values += [] if job.reduction.init is None else [job.reduction.init]
    return lie_together((job.out, job.index), values, outer, inner)
