"""Training: optimizers, schedules and clipping as parts of programs, one program for a whole step (docs/training.md).

To read in this order:

    schedules    learning rates over the number of a step
    clipping     bounds of gradients
    optimizers   what becomes of one parameter, given its gradient
    step         the program of a whole step: value and gradients of a loss, and the update
    initial      first values of parameters
    trainer      the arrays of a training run, and the compiled step
    checkpoint   these arrays as a file
"""

from __future__ import annotations

from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not
from legato.optim.clipping import ByNorm, ByValue, Clipping
from legato.optim.initial import Initializer, he, initial, normal, ones, uniform, xavier, zeros
from legato.optim.optimizers import SGD, Adam, AdamW, Optimizer
from legato.optim.schedules import Constant, Cosine, Schedule, StepDecay, WarmUp
from legato.optim.step import TrainingStep, training_step
from legato.optim.trainer import Trainer

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "ByNorm",
    "ByValue",
    "Clipping",
    "Constant",
    "Cosine",
    "Initializer",
    "Optimizer",
    "Schedule",
    "StepDecay",
    "Trainer",
    "TrainingStep",
    "WarmUp",
    "he",
    "initial",
    "normal",
    "ones",
    "training_step",
    "uniform",
    "xavier",
    "zeros",
]
