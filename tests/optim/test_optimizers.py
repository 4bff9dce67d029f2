"""Optimizers, schedules and clipping against those of PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import optim
from legato.base.errors import CompileError
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.types import tensor_type
from tests.optim.losses import batch, params, squares

torch = pytest.importorskip("torch")

Given = dict[str, Any]
OPTIMIZERS: dict[str, tuple[optim.Optimizer, Callable[[Any], Any]]] = {
    "sgd": (optim.SGD(0.01), lambda p: torch.optim.SGD(p, 0.01)),
    "sgd, decay": (optim.SGD(0.01, weight_decay=0.1), lambda p: torch.optim.SGD(p, 0.01, weight_decay=0.1)),
    "momentum": (
        optim.SGD(0.01, 0.9, dampening=0.3, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.01, 0.9, 0.3, 0.1),
    ),
    "nesterov": (optim.SGD(0.01, 0.8, nesterov=True), lambda p: torch.optim.SGD(p, 0.01, 0.8, nesterov=True)),
    "adam": (optim.Adam(), lambda p: torch.optim.Adam(p)),
    "adam, decay": (
        optim.Adam(0.02, (0.7, 0.95), 1e-3, 0.1, True),
        lambda p: torch.optim.Adam(p, 0.02, (0.7, 0.95), 1e-3, 0.1, True),
    ),
    "adamw": (optim.AdamW(0.02), lambda p: torch.optim.AdamW(p, 0.02)),
    "adamw, amsgrad": (
        optim.AdamW(0.02, (0.3, 0.6), 1e-6, 0.2, True),
        lambda p: torch.optim.AdamW(p, 0.02, (0.3, 0.6), 1e-6, 0.2, amsgrad=True),
    ),
}
CLIPPINGS: dict[str, tuple[optim.Clipping, Callable[[Any], object]]] = {
    "by norm": (optim.ByNorm(1.5), lambda p: torch.nn.utils.clip_grad_norm_(p, 1.5)),
    "by a norm that is not reached": (optim.ByNorm(1e6), lambda p: torch.nn.utils.clip_grad_norm_(p, 1e6)),
    "by value": (optim.ByValue(0.25), lambda p: torch.nn.utils.clip_grad_value_(p, 0.25)),
}


def trained(
    make: Callable[[Any], Any], steps: int, dtype: str = "float64", between: Callable[[Any], object] = lambda _: None
) -> tuple[Given, list[float]]:
    """Parameters after so many steps of PyTorch, and the losses."""
    given = {name: torch.tensor(value, requires_grad=True) for name, value in params(dtype).items()}
    optimizer, losses = make(list(given.values())), []
    for number in range(steps):
        x, y = map(torch.from_numpy, batch(number, dtype))
        hidden = torch.tanh(x @ given["w"].T + given["b"])
        loss = ((hidden @ given["v"].T - y) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        between(list(given.values()))
        optimizer.step()
        losses.append(loss.item())
    return {name: value.detach().numpy() for name, value in given.items()}, losses


def check(trainer: optim.Trainer, steps: int, wanted: tuple[Given, list[float]], tolerance: float) -> None:
    losses = [float(trainer.step(*batch(number))) for number in range(steps)]
    np.testing.assert_allclose(losses, wanted[1], rtol=tolerance)
    for name, value in trainer.params.items():
        assert np.abs(value - wanted[0][name]).max() <= tolerance * np.abs(wanted[0][name]).max(), name
    assert trainer.steps == steps


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.shared(2)
def test_fifty_steps_are_those_of_pytorch(name: str) -> None:
    ours, theirs = OPTIMIZERS[name]
    check(optim.Trainer(squares(), ours, params()), 50, trained(theirs, 50), 1e-10)


@pytest.mark.parametrize("name", CLIPPINGS)
def test_gradients_are_clipped_as_by_pytorch(name: str) -> None:
    ours, theirs = CLIPPINGS[name]
    wanted = trained(lambda p: torch.optim.SGD(p, 0.05), 8, between=theirs)
    check(optim.Trainer(squares(), optim.SGD(0.05), params(), clip=ours), 8, wanted, 1e-10)


def test_a_schedule_acts_in_a_step() -> None:
    def theirs(p: Any) -> Any:
        optimizer = torch.optim.SGD(p, 0.02, 0.9)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
        optimizer.register_step_post_hook(lambda *_: schedule.step())
        return optimizer

    ours = optim.SGD(optim.StepDecay(0.02, 3, 0.5), 0.9)
    check(optim.Trainer(squares(), ours, params()), 10, trained(theirs, 10), 1e-10)


def rates(schedule: optim.Schedule, steps: int) -> list[float]:
    """The rates of the first steps."""
    b = Builder()
    step = b.var("step", tensor_type((), "float64"))
    mod = legato.ir.module.Module.from_expr(b.function([step], lambda n: schedule.at(b, n)))
    return [float(evaluate(mod, [np.float64(n)])) for n in range(steps)]  # type: ignore[arg-type]


def theirs(make: Callable[[Any], Any], steps: int) -> list[float]:
    """The rates of the first steps of one of PyTorch's schedules, from 0.1 on."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)
    schedule, found = make(optimizer), []
    for _ in range(steps):
        found.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return found


def test_schedules_are_those_of_pytorch() -> None:
    schedules = torch.optim.lr_scheduler
    assert rates(optim.Constant(0.1), 3) == [0.1] * 3
    decay = theirs(lambda o: schedules.StepLR(o, 4, 0.3), 12)
    np.testing.assert_allclose(rates(optim.StepDecay(0.1, 4, 0.3), 12), decay, rtol=1e-12)
    cosine = theirs(lambda o: schedules.CosineAnnealingLR(o, 9, 0.01), 10)
    np.testing.assert_allclose(rates(optim.Cosine(0.1, 9, 0.01), 14), [*cosine, *[0.01] * 4], rtol=1e-12)
    both = theirs(
        lambda o: schedules.SequentialLR(
            o, [schedules.LinearLR(o, 0.2, 1.0, 5), schedules.CosineAnnealingLR(o, 9)], milestones=[5]
        ),
        14,
    )
    warm = rates(optim.WarmUp(optim.Cosine(0.1, 9), 5, 0.2), 14)
    np.testing.assert_allclose(warm, both, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_updates_of_small_floats_are_rounded_once(dtype: str) -> None:
    """A step from float32 copies of everything, rounded at its end, is the step."""
    from legato.base.dtype import BY_NAME

    small = BY_NAME[dtype].numpy
    text = """
    #[version = "0.0.5"]
    def @main(%w: Tensor[(64,), DTYPE], %x: Tensor[(64,), DTYPE]) { sum(%w * %x) }
    """
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(2, 64)).astype(np.float32).astype(small)
    trainer = optim.Trainer(legato.parse(text.replace("DTYPE", dtype)), optim.AdamW(0.02), {"w": w})
    wide = optim.Trainer(legato.parse(text.replace("DTYPE", "float32")), optim.AdamW(0.02), {"w": w.astype(np.float32)})
    trainer.step(x)
    wide.step(x.astype(np.float32))
    np.testing.assert_array_equal(trainer.params["w"], wide.params["w"].astype(small))
    np.testing.assert_array_equal(trainer.state["w_square"], wide.state["w_square"].astype(small))


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "a rate": (lambda: optim.SGD(-1.0), "rate is -1.0, wanted a number from 0 on"),
    "no rate": (lambda: optim.Adam("fast"), "rate is 'fast'"),  # type: ignore[arg-type]
    "nesterov": (lambda: optim.SGD(nesterov=True), "nesterov, wanted momentum beside it"),
    "betas": (lambda: optim.AdamW(betas=(0.9, 1.0)), "one of betas is 1.0, wanted a number from 0 below 1"),
    "a number": (lambda: optim.Adam(betas=0.9), "betas is 0.9, wanted a pair"),  # type: ignore[arg-type]
    "a bound": (lambda: optim.ByNorm(0.0), "the bound is 0.0, wanted a positive number"),
    "steps": (lambda: optim.Cosine(0.1, 0), "steps is 0, wanted a positive number of steps"),
    "no schedule": (lambda: optim.WarmUp(0.1, 5), "then is 0.1, wanted a schedule"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BAD)
def test_settings_that_mean_nothing_are_refused(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(CompileError, match=re.escape(message)):
        make()
