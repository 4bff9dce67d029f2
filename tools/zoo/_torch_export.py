"""An architecture from its module: exported, compiled ahead of time, called."""

from __future__ import annotations

import time
from typing import Any, Final

import torch

import legato
from legato.frontend.torch import from_torch
from tools.zoo._torch_plans import Plan, arguments
from tools.zoo._torch_rows import Found, Verdict, attempt, beside_eager
from tools.zoo.build import plain

__all__ = ["checked", "exported"]

LONGEST: Final = 64  # the range of a symbolic axis ends here


def exported(plan: Plan, module: torch.nn.Module) -> Any:
    """The module as a program, traced with inputs of the first sizes."""
    args, kwargs = arguments(plan, plan.sizes[0])
    shapes: Any = None
    if plan.axes:
        dims = {name: torch.export.Dim(name, max=LONGEST) for name in plan.sizes[0]}
        by_name = {
            name: {n: dims[axis] for n, axis in enumerate(plan.axes.get(name, ())) if axis} for name in plan.row.inputs
        }
        shapes = by_name if kwargs else tuple(by_name.values())
    return torch.export.export(module, args, kwargs, dynamic_shapes=shapes)


def checked(plan: Plan, *, import_only: bool = False) -> Found:
    """How far an architecture comes; import_only: nothing is compiled."""
    module, start = plain(plan.row), time.perf_counter()
    program = attempt("export", lambda: exported(plan, module))
    middle = time.perf_counter()
    if isinstance(program, Verdict):
        return _row(plan, program, middle - start)
    made: Any = from_torch if import_only else legato.compile
    net = attempt("import" if import_only else "compile", lambda: made(program))
    compiled = time.perf_counter() - middle
    if not isinstance(net, Verdict):
        return _row(plan, Verdict("compile", "not asked for") if import_only else
                    attempt("run", lambda: beside_eager(plan, module, net)), middle - start, compiled)  # fmt: skip
    if not import_only and isinstance(mod := attempt("import", lambda: from_torch(program)), Verdict):
        net = mod
    return _row(plan, net, middle - start, compiled)


def _row(plan: Plan, verdict: Verdict, exported: float, compiled: float = 0.0) -> Found:
    sizes = plan.sizes if verdict.stage in ("compare", "agrees") else ()
    return Found(plan.row.name, verdict.stage, verdict.why, sizes, verdict.errors, exported, compiled)
