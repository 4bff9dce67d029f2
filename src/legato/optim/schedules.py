"""Learning rates: functions of the number of steps done, written with the builder as parts of a program.

All of them are computed in float64, as PyTorch's are, and rounded to the parameters' dtype where they are used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isfinite, pi
from typing import TypeGuard

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.infer.builder import Builder
from legato.ir.expr import Expr

__all__ = [
    "Constant",
    "Cosine",
    "Schedule",
    "StepDecay",
    "WarmUp",
    "as_schedule",
    "is_number",
    "require",
    "require_size",
]


def require(holds: bool, what: str, wanted: str) -> None:
    """CompileError where a setting is not what is wanted."""
    if not holds:
        raise CompileError(f"{what}, wanted {wanted}")


def is_number(value: object) -> TypeGuard[float]:
    """Whether a setting is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def require_size(name: str, value: object) -> None:
    """CompileError unless a setting is a finite number that is not negative."""
    require(is_number(value) and isfinite(value) and value >= 0, f"{name} is {value!r}", "a number from 0 on")


def _require_count(name: str, value: object) -> None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    require(is_count, f"{name} is {value!r}", "a positive number of steps")


class Schedule(ABC):
    """A learning rate that depends on how many steps have been done."""

    __slots__ = ()

    @abstractmethod
    def at(self, b: Builder, step: Expr) -> Expr:
        """The rate of the next step, after `step` of them; both are scalars of float64."""


@dataclass(frozen=True, slots=True)
class Constant(Schedule):
    """The same rate always."""

    rate: float

    def __post_init__(self) -> None:
        require_size("rate", self.rate)

    def at(self, b: Builder, step: Expr) -> Expr:
        return b.constant(self.rate, "float64")


@dataclass(frozen=True, slots=True)
class StepDecay(Schedule):
    """rate · factor^⌊step / every⌋."""

    rate: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        require_size("rate", self.rate)
        _require_count("every", self.every)
        require_size("factor", self.factor)

    def at(self, b: Builder, step: Expr) -> Expr:
        times = b.floor_divide(step, float(self.every))
        return b.multiply(b.power(b.constant(self.factor, "float64"), times), self.rate)


@dataclass(frozen=True, slots=True)
class Cosine(Schedule):
    """From `rate` to `least` in so many steps along half a cosine, and `least` from there on."""

    rate: float
    steps: int
    least: float = 0.0

    def __post_init__(self) -> None:
        require_size("rate", self.rate)
        _require_count("steps", self.steps)
        require_size("least", self.least)

    def at(self, b: Builder, step: Expr) -> Expr:
        angle = b.multiply(b.minimum(step, float(self.steps)), pi / self.steps)
        rate = b.multiply(b.add(b.cos(angle), 1.0), (self.rate - self.least) / 2)
        return b.add(rate, self.least) if self.least else rate


@dataclass(frozen=True, slots=True)
class WarmUp(Schedule):
    """`then`, which begins after so many steps; in these its first rate, times what grows evenly from `start` to 1."""

    then: Schedule
    steps: int
    start: float = 0.0

    def __post_init__(self) -> None:
        require(isinstance(self.then, Schedule), f"then is {self.then!r}", "a schedule")
        _require_count("steps", self.steps)
        require_size("start", self.start)

    def at(self, b: Builder, step: Expr) -> Expr:
        done = b.minimum(b.divide(step, float(self.steps)), 1.0)
        factor = b.add(b.multiply(done, 1 - self.start), self.start) if self.start else done
        rest = b.maximum(b.subtract(step, float(self.steps)), 0.0)
        return b.multiply(self.then.at(b, rest), factor)


def as_schedule(rate: float | Schedule) -> Schedule:
    """A number as a constant schedule."""
    return rate if isinstance(rate, Schedule) else Constant(rate)
