"""Programs for some sizes of their dims: what sizes are asked for, and the function for each combination of them.

{"n": [1, 8, "1..512"], "m": 64}        =>        n = 1, m = 64;  n = 8, m = 64;  1 <= n <= 512, m = 64
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

from legato.arith.expr import Const, Var, const
from legato.arith.simplify import simplify
from legato.base.errors import CompileError
from legato.base.spelling import option, written
from legato.ir.constraint import demanded
from legato.ir.expr import Function, GlobalVar
from legato.ir.module import Module
from legato.ir.types import Dim
from legato.ir.visit import rename_globals
from legato.transform._closures import Names
from legato.transform.narrow_dims import is_main_called, with_dims

__all__ = ["Combination", "Range", "combinations", "for_sizes", "hull", "is_choice", "without_calls_of_main"]

MAX_COMBINATIONS: Final = 32
Range = tuple[int, int | None]  # both ends included; no upper end: any
Combination = Mapping[str, Range]

_RANGE = re.compile(r"\s*(\d*)\s*\.\.\s*(\d*)\s*")


def is_choice(value: object) -> bool:
    """True if `value` may stand for sizes of a dim: a number, a range such as "1..512", or a sequence of these."""
    items = [value] if isinstance(value, int | str) or not isinstance(value, Sequence) else value
    return all(isinstance(i, int) or (isinstance(i, str) and _RANGE.fullmatch(i)) for i in items)


def combinations(sizes: Mapping[str, object]) -> tuple[Combination, ...]:
    """Every combination of the sizes of each dim, in order, the last dim's changing fastest; CompileError for what are
    no sizes, and for more than MAX_COMBINATIONS."""
    choices = {name: _choices(name, value) for name, value in sizes.items()}
    count = math.prod(map(len, choices.values()))
    if count > MAX_COMBINATIONS:
        raise CompileError(
            f"{option('shapes')}: {count} combinations of sizes, but {MAX_COMBINATIONS} at most are compiled into one "
            "program",
            hint="a range serves all sizes in it",
        )
    return tuple(dict(zip(choices, found, strict=True)) for found in product(*choices.values()))


def _choices(name: str, value: object) -> list[Range]:
    items = [value] if isinstance(value, int | str) or not isinstance(value, Sequence) else list(value)
    if not items:
        hint = f"give sizes and ranges, as in {written('shapes', name, [1, 8, '1..512'])}"
        raise CompileError(f"{option('shapes', name)}: no size is given", hint=hint)
    return [_range(name, item) for item in items]


def _range(name: str, item: object) -> Range:
    if isinstance(item, int) and not isinstance(item, bool) and item >= 0:
        return item, item
    match = _RANGE.fullmatch(item) if isinstance(item, str) else None
    if match is None:
        raise CompileError(f"{option('shapes', name)}: got {item!r}, wanted a size or a range such as '1..512'")
    lo, hi = match.groups()
    if hi and int(hi) < int(lo or 0):
        raise CompileError(f"{option('shapes', name)}: the range {item!r} is empty")
    return int(lo or 0), int(hi) if hi else None


def hull(found: Sequence[Combination]) -> Combination:
    """The least ranges that hold those of all combinations."""
    ends = {name: [c[name] for c in found] for name in found[0]}
    return {name: (min(lo for lo, _ in ranges), _greatest([hi for _, hi in ranges])) for name, ranges in ends.items()}


def _greatest(ends: Sequence[int | None]) -> int | None:
    known = [e for e in ends if e is not None]
    return max(known) if len(known) == len(ends) else None


def without_calls_of_main(mod: Module) -> Module:
    """`mod` (typed), in which a copy of @main stands for it wherever it is called: with sizes of its own, maybe others
    than those of the call that comes from outside."""
    if not is_main_called(mod):
        return mod
    main = mod.var("main")
    inner = GlobalVar(Names(mod).new("main_inside"), ty=main.ty)

    functions = {gv: rename_globals(func, {main: inner}) for gv, func in mod.functions.items()}
    return mod.with_functions({**functions, inner: functions[main]})


def for_sizes(main: Function, sizes: Combination, by: str = "shapes") -> Function:
    """`main` (typed) for dims of these sizes, fixed where a range is one number.

    CompileError for dims that it does not have, and for sizes that its own ranges or constraints exclude; `by` is the
    option that has said them.
    """
    by_name: dict[str, Var] = {}
    for v in (p for p in main.type_params if isinstance(p, Var)):
        by_name.setdefault(v.name, v)
    for name in sizes:
        if name not in by_name:
            hint = f"its dims: {', '.join(by_name) or 'none'}"
            if any(p.name == name for p in main.params):
                raise CompileError("shapes are given for ONNX models; a program in Relay has its own", hint=hint)
            raise CompileError(f"{option('shapes')}: the program has no input and no dim {name!r}", hint=hint)
    made = with_dims(main, {by_name[name]: _dim(by_name[name], ends, by) for name, ends in sizes.items()})
    for c in made.attrs.get("constraints", ()):
        if isinstance(simplify(c.a - c.b), Const):
            given = ", ".join(f"{name} = {lo}" for name, (lo, hi) in sizes.items() if lo == hi)
            a, b, otherwise = demanded(c.a, c.b)
            fault = f"{simplify(a)} and {simplify(b)} must be equal{otherwise}"
            raise CompileError(f"{option(by)}: {given}: {c.what}: {fault}")
    return made


def _dim(v: Var, ends: Range, by: str) -> Dim:
    lo, hi = ends
    own = v.lo or 0, v.hi
    lo = lo if lo == hi else max(lo, own[0])
    hi = hi if lo == hi or own[1] is None else own[1] if hi is None else min(hi, own[1])
    if lo < own[0] or (own[1] is not None and lo > own[1]) or (hi is not None and hi < lo):
        limit = f"{own[0]} <= {v.name}" + ("" if own[1] is None else f" <= {own[1]}")
        wanted = str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}..{'' if ends[1] is None else ends[1]}"
        raise CompileError(f"{option(by, v.name)}: {wanted} is out of the program's own range, {limit}")
    return const(lo) if lo == hi else Var(v.name, v.dtype, lo, hi)
