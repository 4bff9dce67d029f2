"""Modules as scripts, with what they are called on: the texts of this folder.

== name
-- n=3, m=4; n=1, m=2                sizes of dims, for each run; none for a module without symbolic dims
-- k in 0..5                         the numbers of an integer parameter (-4..4 where nothing is said), or of a float
-- not: reason                       what keeps TVM from giving the same
@I.ir_module …
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from legato.arith.expr import Const, Expr, Var, const
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.infer.holes import dim_vars
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.types import ShapeType, TensorType, TupleType, Type
from tests.script.modules.tvm.peer import Extents

FOLDER = Path(__file__).parent
Value = Any  # an array, Extents, or a tuple of values


@dataclass(frozen=True)
class Case:
    """A module, the sizes of each run, and the least and largest number of parameters by name."""

    name: str
    script: str
    runs: tuple[Mapping[str, int], ...] = ({},)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    reason: str | None = None


def cases() -> dict[str, Case]:
    """All of them, by name."""
    found: dict[str, Case] = {}
    for path in sorted(FOLDER.glob("*.txt")):
        for block in re.split(r"^== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            case = _case(block)
            assert case.name not in found, case.name
            found[case.name] = case
    return found


def _case(block: str) -> Case:
    name, *lines = block.rstrip().splitlines()
    runs: tuple[Mapping[str, int], ...] = ({},)
    ranges: dict[str, tuple[int, int]] = {}
    reason = None
    while lines[0].startswith("-- "):
        line = lines.pop(0)[3:]
        if line.startswith("not: "):
            reason = line[5:]
        elif found := re.fullmatch(r"(\w+) in (-?\d+)\.\.(-?\d+)", line):
            ranges[found[1]] = (int(found[2]), int(found[3]))
        else:
            runs = tuple({k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", run)} for run in line.split(";"))
    return Case(name, "\n".join(lines) + "\n", runs, ranges, reason)


def arguments(case: Case, module: Module) -> Iterator[list[Value]]:
    """What `main` is called on, for each run: the same in each process."""
    main = module["main"]
    assert isinstance(main, Function)
    params = [(p.name, p.ty) for p in main.params if p.ty is not None]
    for n, sizes in enumerate(case.runs):
        rng = np.random.default_rng(crc32(f"{case.name} {n}".encode()))
        dims = {v: const(sizes[v.name]) for _, ty in params for v in dim_vars(ty)}
        yield [_value(ty, dims, rng, case.ranges.get(name)) for name, ty in params]


def _value(ty: Type, dims: Mapping[Var, Expr], rng: np.random.Generator, limits: tuple[int, int] | None) -> Value:
    match ty:
        case TupleType(fields=fields):
            return tuple(_value(f, dims, rng, limits) for f in fields)
        case ShapeType(dims=extents) if extents is not None:
            return Extents(_extent(d, dims) for d in extents)
        case TensorType(shape=shape, dtype=dtype):
            extents = tuple(_extent(d, dims) for d in shape)
            if dtype.is_bool:
                return rng.integers(0, 2, extents).astype(bool)
            if dtype.is_float:
                lo, hi = limits or (-2, 2)
                return np.asarray(rng.uniform(lo, hi, extents)).astype(dtype.numpy)
            lo, hi = limits or (-4 if dtype.min else 0, 4)
            return np.asarray(rng.integers(lo, hi, extents, endpoint=True)).astype(dtype.numpy)
    raise AssertionError(f"no value of {ty}")


def _extent(d: Expr, dims: Mapping[Var, Expr]) -> int:
    found = simplify(substitute(d, dims))
    assert isinstance(found, Const)
    return int(found.value)
