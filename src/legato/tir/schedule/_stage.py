"""The statements that compute an intermediate buffer, and those that read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.arith.expr import Expr, Var, const
from legato.base.dataclass import dataclass
from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer
from legato.tir.schedule._edit import alloc_path, understood
from legato.tir.stmt import Alloc, Block, Func, Let, Stmt, Store
from legato.tir.walk import buffers_read, buffers_written, loads, loops, statements

__all__ = ["Stage", "find_stage", "without_stage"]

_ZERO, _ONE = const(0), const(1)


@dataclass(frozen=True, slots=True)
class Stage:
    """An Alloc'ed buffer whose body is heads { producers and others in any order }.

    `path` leads to the Alloc. `heads` are the Allocs and Lets directly inside. `axes` says which dimension each
    producer loop over whole dimensions walks along.
    """

    buffer: Buffer
    path: tuple[Stmt, ...]
    heads: tuple[Stmt, ...]
    stmts: tuple[Stmt, ...]
    producers: tuple[Stmt, ...]
    axes: Mapping[Var, int]

    def body(self, stmts: Sequence[Stmt]) -> Stmt:
        """The heads around other statements."""
        body: Stmt = Block(tuple(stmts)) if len(stmts) != 1 else stmts[0]
        for head in reversed(self.heads):
            body = head.with_children((body,))
        return body


def find_stage(func: Func, buffer: Buffer, primitive: str) -> Stage:
    """The stage of `buffer`; ScheduleError where its producers cannot be moved."""
    path = alloc_path(func, buffer)
    alloc = path[-1]
    assert isinstance(alloc, Alloc)
    understood(alloc, primitive)
    if not buffer.layout.is_dense:
        raise ScheduleError(
            f"{primitive}: {buffer.name} has a halo or stride padding", hint="set the layout afterwards"
        )
    heads: list[Stmt] = []
    body = alloc.body
    while isinstance(body, Alloc | Let):
        heads.append(body)
        body = body.body
    stmts = body.stmts if isinstance(body, Block) else (body,)
    producers = tuple(s for s in stmts if buffer in buffers_written(s))
    if not producers:
        raise ScheduleError(f"{primitive}: nothing stores to {buffer.name}")
    for p in producers:
        own = {s.buffer for s in statements(p) if isinstance(s, Alloc)}
        others = [b.name for b in buffers_written(p) if b is not buffer and b not in own]
        if others:
            raise ScheduleError(
                f"{primitive}: what stores to {buffer.name} also stores to {', '.join(others)}",
                hint="take the nest apart with fission, or allocate the buffer where it is used with sink_alloc",
            )
    _check_sources(buffer, stmts, producers, primitive)
    return Stage(buffer, path, tuple(heads), stmts, producers, _axes(buffer, producers, primitive))


def _check_sources(buffer: Buffer, stmts: Sequence[Stmt], producers: Sequence[Stmt], primitive: str) -> None:
    """Refuses if what the producers read is stored to after they began."""
    first = stmts.index(producers[0])
    sources = {b for p in producers for b in buffers_read(p)} - {buffer}
    for s in stmts[first:]:
        changed = [b.name for b in buffers_written(s) if b in sources and s not in producers]
        if changed:
            raise ScheduleError(
                f"{primitive}: {', '.join(changed)}, which {buffer.name} is computed from, changes later"
            )


def _axes(buffer: Buffer, producers: Sequence[Stmt], primitive: str) -> dict[Var, int]:
    """The dimension that each producer loop walks along; every access of a producer must be at plain loop variables."""
    by_var = {f.var: f for p in producers for f in loops(p)}
    found: dict[Var, int] = {}
    places = [s.indices for p in producers for s in statements(p) if isinstance(s, Store) and s.buffer is buffer]
    places += [x.indices for p in producers for x in loads(p) if x.buffer is buffer]
    for place in places:
        for d, index in enumerate(place):
            if index is _ZERO and buffer.shape[d] is _ONE:
                continue
            if not isinstance(index, Var) or index not in by_var or found.setdefault(index, d) != d:
                _refuse(buffer, index, primitive)
            elif by_var[index].extent is not buffer.shape[d]:
                message = f"{primitive}: {index.name} does not run over all of dimension {d} of {buffer.name}"
                raise ScheduleError(message, details=[f"{by_var[index].extent} of {buffer.shape[d]}"])
    for p in producers:
        for alloc in statements(p):
            if isinstance(alloc, Alloc) and any(f.var in found for f in loops(alloc)):
                raise ScheduleError(
                    f"{primitive}: iterations that compute {buffer.name} share {alloc.buffer.name}",
                    hint="sink_alloc gives each iteration its own",
                )
    return found


def _refuse(buffer: Buffer, index: Expr, primitive: str) -> None:
    raise ScheduleError(
        f"{primitive}: {buffer.name} is computed at {index}, wanted a loop over a whole dimension",
        hint="place a stage before its own loops are split, fused or shifted",
    )


def without_stage(stage: Stage) -> list[Stmt]:
    """The statements of the Alloc's body that are not producers."""
    return [s for s in stage.stmts if s not in stage.producers]
