"""Matches: one look at the tag, then the fields of the object by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from legato.arith.expr import const, fresh
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.infer.replace import replace_vars
from legato.ir import expr as ir
from legato.ir.clauses import Pattern, PatternConstructor, PatternVar, PatternWildcard
from legato.ir.types import Type
from legato.lower.hosts.body import Body
from legato.lower.hosts.cells import Cell, constructor_cell, data_type
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.objects import fields
from legato.lower.hosts.ownership import handle
from legato.lower.hosts.values import flat, told
from legato.lower.supported import DEFAULT_PASSES
from legato.tir.buffer import Buffer
from legato.tir.expr import Tag
from legato.tir.stmt import Check, Stmt, Switch

__all__ = ["lower_match"]

LowerBlock = Callable[[ir.Expr, Body], None]  # appends the statements of a block that gives the result of a match


@dataclass(slots=True)
class _Cases:
    """The clauses so far, by tag, and what is done otherwise."""

    by_tag: dict[int, Stmt] = field(default_factory=dict)
    default: Stmt | None = None


def lower_match(frame: Frame, value: ir.Match, lower: LowerBlock, out: Body) -> None:
    """Appends the statements of a flat match."""
    assert isinstance(value.data.ty, Type)
    (place,) = flat(frame.atom(value.data))
    data = data_type(value.data.ty, frame.lowered.module.types)
    cases = _Cases()
    for clause in value.clauses:
        if cases.default is not None or len(cases.by_tag) == len(data.constructors):
            break
        side, known = Body(), frame.known
        tag = _bind(frame, clause.pattern, value.data, place, side)
        if tag not in cases.by_tag:
            lower(clause.body, side)
        frame.known = known
        if tag in cases.by_tag:
            continue
        if tag is None:
            cases.default = side.done()
        else:
            cases.by_tag[tag] = side.done()
    if len(cases.by_tag) == len(data.constructors) and cases.by_tag:
        cases.default = cases.by_tag.popitem()[1]  # every tag has its clause: the last one needs no look
    if cases.default is None:
        where = "" if value.span is None else f" at {value.span}"
        code = frame.program.check(f"no clause of match{where} fits the value")
        cases.default = Check(const(False, dt.bool_), code)
    if cases.by_tag:
        out.append(Switch(Tag(handle(place)), tuple(cases.by_tag.items()), cases.default))
    else:
        out.append(cases.default)


def _bind(frame: Frame, pattern: Pattern, data: ir.Expr, place: Buffer, out: Body) -> int | None:
    """Gives the variables of a pattern their values; the tag that it fits, None for any."""
    match pattern:
        case PatternWildcard():
            return None
        case PatternVar():
            frame.env[pattern.var] = place
            return None
        case PatternConstructor():
            _bind_fields(frame, pattern, data, place, out)
            return pattern.constructor.tag
        case _:
            raise UnsupportedError(f"{type(pattern).__name__} in compiled code", span=pattern.span, hint=DEFAULT_PASSES)


def _bind_fields(frame: Frame, pattern: PatternConstructor, data: ir.Expr, place: Buffer, out: Body) -> None:
    con = pattern.constructor
    assert data.ty is not None
    cell = constructor_cell(con, data.ty, frame.lowered.module.types)
    own = {d: fresh(d.name, d.lo, d.hi) for d in cell.dims}  # those of this value
    cell = Cell.of(tuple(replace_vars(t, {}, own) for t in cell.fields), tuple(own.values()))
    named = {n: p.var for n, p in enumerate(pattern.patterns) if isinstance(p, PatternVar)}
    values = fields(frame, con.name.lower(), cell, named, place, out, owned=False)
    for n, var in named.items():
        assert var.ty is not None
        frame.bring(told([(var.ty, cell.fields[n])], frame.late(var.ty), data), out)
    frame.env.update(zip(named.values(), values, strict=True))
