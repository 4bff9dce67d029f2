"""How far an architecture came, and whether its results are those of eager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from torch.utils import _pytree as pytree

from legato.base.errors import LegatoError
from legato.base.precision import NEAR
from legato.compare.report import nearness
from tools.zoo._torch_plans import Plan, arguments

__all__ = ["STAGES", "Backed", "Found", "Verdict", "attempt", "beside_eager", "summary"]

STAGES: Final = ("export", "import", "compile", "run", "compare", "agrees")  # where a row ended
SHOWN: Final = 400  # characters of a reason
Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far calls came: a stage, why no further, and the distance from eager as a share of an output's range at each
    size."""

    stage: str
    why: str = ""
    errors: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """How far an architecture came that was exported: a `Verdict`, the sizes of its calls, and seconds of export, and
    of import and compilation."""

    name: str
    stage: str
    why: str = ""
    sizes: Sequence[Mapping[str, int]] = ()
    errors: Sequence[float] = ()
    exported: float = 0.0
    compiled: float = 0.0

    def __str__(self) -> str:
        reached = [f"{s}s" for s in ("import", "compile") if STAGES.index(self.stage) > STAGES.index(s)]
        return f"{self.name:38} {' '.join(reached):17} {self.exported:6.1f} s {self.compiled:6.1f} s  {_told(self)}"


@dataclass(frozen=True, slots=True)
class Backed:
    """How far an architecture came through `torch.compile`. `seconds`: of the first call; `graphs`: how many PyTorch
    made, of these `again` for code that had one; `programs`: what they became; `operators`: of all graphs, `native` of
    them in programs; `eager`: why which others are not; `breaks`: why graphs end."""

    name: str
    stage: str
    why: str = ""
    sizes: Sequence[Mapping[str, int]] = ()
    errors: Sequence[float] = ()
    seconds: float = 0.0
    graphs: int = 0
    again: int = 0
    programs: int = 0
    operators: int = 0
    native: int = 0
    eager: Mapping[str, str] = field(default_factory=dict)
    breaks: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        made = f"{self.graphs} graphs ({self.again} again), {self.programs} programs"
        rest = [f"{operator} in eager: {why}" for operator, why in self.eager.items()]
        rest += [f"{times} breaks: {why}" for why, times in self.breaks.items()]
        share = f"{self.native} of {self.operators} operators"
        return "; ".join([f"{self.name:38} {self.seconds:6.1f} s  {made}, {share}  {_told(self)}", *rest])


def _told(row: Found | Backed) -> str:
    shares = " ".join(f"{error:.1e}" for error in row.errors)
    dynamic = f" at {len(row.sizes)} sizes" if any(row.sizes) else ""
    return f"{shares}  " + ("agrees" + dynamic if row.stage == "agrees" else f"{row.stage}: {row.why}")


def attempt(stage: str, step: Callable[[], Any]) -> Any:
    """What a step gives, or the verdict that says why it does not."""
    try:
        return step()
    except Exception as error:  # the packages raise whatever they like
        kind = "" if isinstance(error, LegatoError) else f"{type(error).__name__}: "
        return Verdict(stage, kind + " ".join(str(error).split())[:SHOWN])


def beside_eager(plan: Plan, module: torch.nn.Module, net: Call, given: Any = arguments) -> Verdict:
    """The results of `net` at every size beside the module's. `given`: the arguments for a plan and sizes."""
    errors, holds = list[float](), True
    for sizes in plan.sizes:
        args, kwargs = given(plan, sizes)
        with torch.no_grad():
            wanted, got = module(*args, **kwargs), net(*args, **kwargs)
        ours, mine = pytree.tree_flatten(got)
        theirs, its = pytree.tree_flatten(wanted)
        if mine != its:
            return Verdict("compare", f"the results are {mine}, in PyTorch {its}"[:SHOWN], errors)
        pairs = [_distance(a, b) for a, b in zip(ours, theirs, strict=True)]
        errors.append(max(error for error, _ in pairs))
        holds = holds and all(held for _, held in pairs)
    return Verdict("agrees" if holds else "compare", "" if holds else "WRONG", errors)


def _distance(ours: Any, theirs: Any) -> tuple[float, bool]:
    """The distance as a share of the range, and whether that is near; other dtypes and shapes never are."""
    if not isinstance(theirs, torch.Tensor):
        return 0.0, ours == theirs
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return float("inf"), False
    if not theirs.is_floating_point():
        return 0.0, torch.equal(ours, theirs)
    return nearness(np.asarray(ours), np.asarray(theirs), NEAR)


def summary(rows: Sequence[Found | Backed]) -> str:
    """How many of how many came how far."""
    counts = Counter(found.stage for found in rows)
    dynamic = sum(found.stage == "agrees" and any(found.sizes) for found in rows)
    rest = "".join(f"; {counts[stage]} end at {stage}" for stage in STAGES[:-1] if counts[stage])
    return f"{counts['agrees']} of {len(rows)} agree with eager, {dynamic} of them at several sizes{rest}"
