"""Optimizers: what becomes of a parameter and of what is kept for it, given its gradient.

They mean what those of `torch.optim` of the same names do, and have their defaults. An optimizer is a frozen value that
writes a part of a program; it holds no arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Expr
from legato.optim.schedules import Schedule, as_schedule, is_number, require, require_size

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]


class Optimizer(ABC):
    """Writes the update of parameters. One of your own says what it keeps and computes what it likes."""

    __slots__ = ()

    @property
    @abstractmethod
    def slots(self) -> tuple[str, ...]:
        """Names of what is kept for every parameter from step to step: arrays of its shape, zeros at first."""

    @abstractmethod
    def numbers(self, b: Builder, step: Expr) -> Mapping[str, Expr]:
        """What all parameters need in the step after `step` of them: scalars of float64, as `step` is."""

    @abstractmethod
    def update(
        self, b: Builder, param: Expr, gradient: Expr, kept: Sequence[Expr], numbers: Mapping[str, Expr]
    ) -> tuple[Expr, Sequence[Expr]]:
        """The parameter after the step, and what is kept then. All have one dtype, float32 or float64."""


def _require_fraction(name: str, value: object, *, one: bool = False) -> None:
    holds = is_number(value) and (0 <= value < 1 or (one and value == 1))
    require(holds, f"{name} is {value!r}", f"a number from 0 {'to' if one else 'below'} 1")


def _require_flag(name: str, value: object) -> None:
    require(isinstance(value, bool), f"{name} is {value!r}", "true or false")


@dataclass(frozen=True, slots=True)
class SGD(Optimizer):
    """Gradient descent; with momentum, along v ← momentum · v + (1 − dampening) · gradient (the first time: gradient).

    nesterov: along gradient + momentum · v instead. weight_decay: this multiple of the parameter is added to its
    gradient before.
    """

    lr: float | Schedule = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        as_schedule(self.lr)
        require_size("momentum", self.momentum)
        _require_fraction("dampening", self.dampening, one=True)
        require_size("weight_decay", self.weight_decay)
        _require_flag("nesterov", self.nesterov)
        is_plain = self.momentum > 0 and self.dampening == 0
        require(is_plain or not self.nesterov, "nesterov", "momentum beside it, and no dampening")

    @property
    def slots(self) -> tuple[str, ...]:
        return ("momentum",) if self.momentum else ()

    def numbers(self, b: Builder, step: Expr) -> Mapping[str, Expr]:
        rate = {"lr": as_schedule(self.lr).at(b, step)}
        if not self.momentum or not self.dampening:
            return rate
        return {**rate, "share": b.where(b.equal(step, 0.0), 1.0, b.constant(1 - self.dampening, "float64"))}

    def update(
        self, b: Builder, param: Expr, gradient: Expr, kept: Sequence[Expr], numbers: Mapping[str, Expr]
    ) -> tuple[Expr, Sequence[Expr]]:
        if self.weight_decay:
            gradient = b.add(gradient, b.multiply(param, self.weight_decay))
        if self.momentum:
            share = numbers.get("share")
            new = gradient if share is None else b.multiply(gradient, share)
            kept = [b.let("v", b.add(b.multiply(kept[0], self.momentum), new))]
            gradient = b.add(gradient, b.multiply(kept[0], self.momentum)) if self.nesterov else kept[0]
        return b.subtract(param, b.multiply(gradient, numbers["lr"])), kept


def _require_adam(optimizer: Adam | AdamW) -> None:
    as_schedule(optimizer.lr)
    betas: object = optimizer.betas
    require(isinstance(betas, tuple) and len(betas) == 2, f"betas is {betas!r}", "a pair of numbers")
    for beta in optimizer.betas:
        _require_fraction("one of betas", beta)
    require_size("eps", optimizer.eps)
    _require_flag("amsgrad", optimizer.amsgrad)
    require_size("weight_decay", optimizer.weight_decay)


def _adam_slots(optimizer: Adam | AdamW) -> tuple[str, ...]:
    return ("mean", "square", "largest") if optimizer.amsgrad else ("mean", "square")


def _adam_numbers(optimizer: Adam | AdamW, b: Builder, step: Expr) -> dict[str, Expr]:
    """lr; what the mean is multiplied by, `stride`; what the root of the square is divided by, `root`."""
    lr = b.let("lr", as_schedule(optimizer.lr).at(b, step))
    count = b.add(step, 1.0)
    of_mean, of_square = (b.subtract(1.0, b.power(b.constant(beta, "float64"), count)) for beta in optimizer.betas)
    return {"lr": lr, "stride": b.divide(lr, of_mean), "root": b.sqrt(of_square)}


def _adam_update(
    optimizer: Adam | AdamW, b: Builder, param: Expr, gradient: Expr, kept: Sequence[Expr], numbers: Mapping[str, Expr]
) -> tuple[Expr, Sequence[Expr]]:
    first, second = optimizer.betas
    mean = b.let("mean", b.add(kept[0], b.multiply(b.subtract(gradient, kept[0]), 1 - first)))
    square = b.let("square", b.add(b.multiply(kept[1], second), b.multiply(b.multiply(gradient, gradient), 1 - second)))
    new, largest = [mean, square], square
    if optimizer.amsgrad:
        largest = b.let("largest", b.maximum(kept[2], square))
        new.append(largest)
    below = b.add(b.divide(b.sqrt(largest), numbers["root"]), optimizer.eps)
    return b.subtract(param, b.multiply(b.divide(mean, below), numbers["stride"])), new


@dataclass(frozen=True, slots=True)
class Adam(Optimizer):
    """Kingma and Ba, "Adam: a method for stochastic optimization", 2015, without bias of the means.

    weight_decay: this multiple of the parameter is added to its gradient before. amsgrad: divides by the root of the
    largest mean of squares so far (Reddi, Kale and Kumar, "On the convergence of Adam and beyond", 2018).
    """

    lr: float | Schedule = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    amsgrad: bool = False

    def __post_init__(self) -> None:
        _require_adam(self)

    @property
    def slots(self) -> tuple[str, ...]:
        return _adam_slots(self)

    def numbers(self, b: Builder, step: Expr) -> Mapping[str, Expr]:
        return _adam_numbers(self, b, step)

    def update(
        self, b: Builder, param: Expr, gradient: Expr, kept: Sequence[Expr], numbers: Mapping[str, Expr]
    ) -> tuple[Expr, Sequence[Expr]]:
        if self.weight_decay:
            gradient = b.add(gradient, b.multiply(param, self.weight_decay))
        return _adam_update(self, b, param, gradient, kept, numbers)


@dataclass(frozen=True, slots=True)
class AdamW(Optimizer):
    """Adam whose weight decay is apart: parameters are multiplied by 1 − lr · weight_decay before the step.

    Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
    """

    lr: float | Schedule = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01
    amsgrad: bool = False

    def __post_init__(self) -> None:
        _require_adam(self)

    @property
    def slots(self) -> tuple[str, ...]:
        return _adam_slots(self)

    def numbers(self, b: Builder, step: Expr) -> Mapping[str, Expr]:
        found = _adam_numbers(self, b, step)
        return {**found, "rest": b.subtract(1.0, b.multiply(found["lr"], self.weight_decay))}

    def update(
        self, b: Builder, param: Expr, gradient: Expr, kept: Sequence[Expr], numbers: Mapping[str, Expr]
    ) -> tuple[Expr, Sequence[Expr]]:
        if self.weight_decay:
            param = b.multiply(param, numbers["rest"])
        return _adam_update(self, b, param, gradient, kept, numbers)
