"""What the architectures that come from PyTorch's modules are called with: `torch.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

import torch

from tools.zoo.table import TABLE, Architecture, Input, feeds

__all__ = ["PLANS", "Plan", "arguments", "inputs_of"]

FILE: Final = Path(__file__).with_name("torch.toml")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to call an architecture with. `axes`: the names of inputs' leading axes that are symbolic; `sizes`: their
    extents, a mapping a call."""

    row: Architecture
    axes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sizes: Sequence[Mapping[str, int]] = ({},)


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
