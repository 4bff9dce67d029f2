"""Compiles architectures of the zoo from PyTorch's modules, and compares them with eager: `python -m tools.zoo.torch`.

Each is exported by `torch.export`, as its package defines it, compiled, and called; `torch.toml` says which, and which
have symbolic axes: those are called at several sizes. A row says the stage that was reached, and why not a later one.
Rows of others that the JSON file has are kept. Exit code 1 where outputs differ, or fewer agree than must.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
import time
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils import _pytree as pytree

import legato
from legato.base.errors import LegatoError
from legato.base.precision import NEAR
from legato.compare.report import nearness
from legato.frontend.torch import from_torch
from tools.zoo.build import plain
from tools.zoo.table import TABLE, Architecture, Input, feeds

__all__ = ["PLANS", "STAGES", "Found", "Plan", "checked", "inputs_of"]

FILE: Final = Path(__file__).with_name("torch.toml")
MUST: Final = 0.92  # the share of architectures that are to agree
STAGES: Final = ("export", "import", "compile", "run", "compare", "agrees")  # where a row ended
LONGEST: Final = 64  # the range of a symbolic axis ends here
SHOWN: Final = 400  # characters of a reason


@dataclass(frozen=True, slots=True)
class Plan:
    """What to call an architecture with. `axes`: the names of inputs' leading axes that are symbolic; `sizes`: their
    extents, a mapping a call."""

    row: Architecture
    axes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sizes: Sequence[Mapping[str, int]] = ({},)


@dataclass(frozen=True, slots=True)
class Found:
    """How far an architecture came: a stage, why no further, the distance from eager as a share of an output's range at
    each size, and seconds of export, and of import and compilation."""

    name: str
    stage: str
    why: str = ""
    sizes: Sequence[Mapping[str, int]] = ()
    errors: Sequence[float] = ()
    exported: float = 0.0
    compiled: float = 0.0


def _plans() -> Iterator[Plan]:
    told = tomllib.loads(FILE.read_text("utf-8"))
    yield from (Plan(TABLE[name]) for name in told["fixed"])
    for group in told["dynamic"]:
        columns = [[(name, n) for n in extents] for name, extents in group["sizes"].items()]
        sizes = tuple(dict(column) for column in zip(*columns, strict=True))
        yield from (Plan(TABLE[name], group["axes"], sizes) for name in group["names"])


PLANS: Final[Mapping[str, Plan]] = {plan.row.name: plan for plan in _plans()}


def inputs_of(plan: Plan, sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Inputs by name, their symbolic axes of these sizes; masks leave out the ends of all rows but the first."""
    shaped = {name: _sized(of, plan.axes.get(name, ()), sizes) for name, of in plan.row.inputs.items()}
    found = {name: torch.from_numpy(array) for name, array in feeds(shaped).items()}
    if (mask := found.get("attention_mask")) is not None:
        for n in range(1, len(mask)):
            mask[n, -3 * n :] = 0
    return found


def _sized(of: Input, axes: Sequence[str], sizes: Mapping[str, int]) -> Input:
    pairs = zip_longest(axes, of.shape, fillvalue="")
    return replace(of, shape=tuple(sizes[axis] if axis else int(extent) for axis, extent in pairs))


def arguments(plan: Plan, sizes: Mapping[str, int]) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    """The inputs as a user gives them: transformers' by name."""
    inputs = inputs_of(plan, sizes)
    return ((), inputs) if plan.row.package == "transformers" else (tuple(inputs.values()), {})


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


def _stage(name: str, plan: Plan, step: Any) -> Any:
    """What a step gives, or the row that says why it does not."""
    try:
        return step()
    except Exception as error:  # the packages raise whatever they like
        kind = "" if isinstance(error, LegatoError) else f"{type(error).__name__}: "
        return Found(plan.row.name, name, kind + " ".join(str(error).split())[:SHOWN])


def checked(plan: Plan, *, import_only: bool = False) -> Found:
    """How far an architecture comes; import_only: nothing is compiled."""
    module, name = plain(plan.row), plan.row.name
    start = time.perf_counter()
    program = _stage("export", plan, lambda: exported(plan, module))
    if isinstance(program, Found):
        return program
    middle = time.perf_counter()
    if import_only:
        mod = _stage("import", plan, lambda: from_torch(program))
        return mod if isinstance(mod, Found) else Found(name, "compile", "not asked for", exported=middle - start,
                                                        compiled=time.perf_counter() - middle)  # fmt: skip
    net = _stage("compile", plan, lambda: legato.compile(program))
    if isinstance(net, Found):
        mod = _stage("import", plan, lambda: from_torch(program))
        return mod if isinstance(mod, Found) else net
    compiled = time.perf_counter() - middle
    found = _stage("run", plan, lambda: _compared(plan, module, net))
    return found if isinstance(found, Found) and found.stage == "run" else replace(
        found, exported=middle - start, compiled=compiled)  # fmt: skip


def _compared(plan: Plan, module: torch.nn.Module, net: Any) -> Found:
    """The results at every size beside eager's."""
    errors, holds = [], True
    for sizes in plan.sizes:
        args, kwargs = arguments(plan, sizes)
        with torch.no_grad():
            wanted, got = module(*args, **kwargs), net(*args, **kwargs)
        ours, mine = pytree.tree_flatten(got)
        theirs, its = pytree.tree_flatten(wanted)
        if mine != its:
            return Found(plan.row.name, "compare", f"the results are {mine}, in PyTorch {its}"[:SHOWN], plan.sizes)
        pairs = [_distance(a, b) for a, b in zip(ours, theirs, strict=True)]
        errors.append(max(error for error, _ in pairs))
        holds = holds and all(held for _, held in pairs)
    return Found(plan.row.name, "agrees" if holds else "compare", "" if holds else "WRONG", plan.sizes, errors)


def _distance(ours: Any, theirs: Any) -> tuple[float, bool]:
    """The distance as a share of the range, and whether that is near; other dtypes and shapes never are."""
    if not isinstance(theirs, torch.Tensor):
        return 0.0, ours == theirs
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return float("inf"), False
    if not theirs.is_floating_point():
        return 0.0, torch.equal(ours, theirs)
    return nearness(np.asarray(ours), np.asarray(theirs), NEAR)


def line(found: Found) -> str:
    """A row of the table."""
    reached = [f"{stage}s" for stage in ("import", "compile") if STAGES.index(found.stage) > STAGES.index(stage)]
    shares = " ".join(f"{error:.1e}" for error in found.errors)
    dynamic = f" at {len(found.sizes)} sizes" if any(found.sizes) else ""
    told = "agrees" + dynamic if found.stage == "agrees" else f"{found.stage}: {found.why}"
    return f"{found.name:38} {' '.join(reached):17} {found.exported:6.1f} s {found.compiled:6.1f} s  {shares}  {told}"


def summary(rows: Sequence[Found]) -> str:
    """How many of how many came how far."""
    counts = Counter(found.stage for found in rows)
    dynamic = sum(found.stage == "agrees" and any(found.sizes) for found in rows)
    rest = "".join(f"; {counts[stage]} end at {stage}" for stage in STAGES[:-1] if counts[stage])
    return f"{counts['agrees']} of {len(rows)} agree with eager, {dynamic} of them at several sizes{rest}"


def _kept(path: Path | None) -> dict[str, Found]:
    if path is None or not path.exists():
        return {}
    rows = json.loads(path.read_text("utf-8"))["rows"]
    return {row["name"]: Found(**row) for row in rows if row["name"] in PLANS}


def main(given: Sequence[str] | None = None) -> int:
    """Check, print, write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.zoo.torch", description=__doc__)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="PATTERN",
                        help="those in whose package.family.name this is found")  # fmt: skip
    parser.add_argument("--import-only", action="store_true", help="compile nothing")
    parser.add_argument("--missing", action="store_true", help="those that do not agree in the JSON file")
    parser.add_argument("--json", type=Path, help="where rows are written")
    args = parser.parse_args(given)
    warnings.simplefilter("ignore")  # of the packages, about themselves
    rows, asked = _kept(args.json), []
    for name, plan in PLANS.items():
        of = plan.row
        if not args.only.search(f"{of.package}.{of.family}.{name}"):
            continue
        if args.missing and name in rows and rows[name].stage == "agrees":
            continue
        rows[name] = checked(plan, import_only=args.import_only)
        asked.append(rows[name])
        print(line(rows[name]), flush=True)
        if args.json is not None:
            told = {"rows": [asdict(rows[name]) for name in PLANS if name in rows]}
            args.json.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
        gc.collect()
    every = list(rows.values()) if len(rows) == len(PLANS) else asked
    print(summary(every))
    agree = sum(found.stage == "agrees" for found in every)
    return int(any(found.stage == "compare" for found in every) or agree < MUST * len(every))


if __name__ == "__main__":
    sys.exit(main())
