"""A training run: the arrays that a step changes, and the compiled step."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from legato.arith.expr import Const
from legato.base.arrays import as_array
from legato.base.config import config
from legato.base.errors import LegatoError, RunError
from legato.base.kinds import require_mapping
from legato.base.precision import precision as as_precision
from legato.base.target import target as as_target
from legato.driver import CompileOptions, compile_module, main_function
from legato.ir.types import TensorType
from legato.optim import checkpoint
from legato.optim.clipping import Clipping
from legato.optim.optimizers import Optimizer
from legato.optim.step import TrainingStep, training_step
from legato.pipelines import as_passes
from legato.runtime.executable import Executable

__all__ = ["Trainer"]

Array = np.ndarray[Any, Any]


class Trainer:
    """Holds the arrays of a training run and calls the step, which changes them where they lie.

        trainer = Trainer(loss, Adam(1e-3), params)
        for x, y in batches:
            value = trainer.step(x, y)
        trainer.save("run.safetensors")

    loss, optimizer, carry, clip: as for `training_step`; `params` and `carry` map names to first values, which are
    copied. threads, target, precision, passes: as for `legato.compile`.

    One thread uses a trainer at a time.
    """

    program: TrainingStep
    executable: Executable

    def __init__(
        self,
        loss: object,
        optimizer: Optimizer,
        params: Mapping[str, object],
        *,
        carry: Mapping[str, object] | None = None,
        clip: Clipping | None = None,
        threads: int | None = None,
        target: str = "host",
        precision: str | None = None,
        passes: object = None,
    ) -> None:
        wanted = "first values, by names of parameters"
        require_mapping(params, "params", wanted)
        carry = {} if carry is None else require_mapping(carry, "carry", wanted)
        given = {**params, **carry}
        self.program = training_step(loss, optimizer, params, carry=carry, clip=clip)
        types = {p.name: p.ty for p in main_function(self.program.module).params}
        held = {name: _copy(name, value, types[name]) for name, value in given.items()}
        slots = {name: np.zeros_like(held[param]) for name, param in self.program.slots.items()}
        held |= {**slots, "step": np.zeros((), np.int64)}
        self._held = {name: held[name] for name in self.program.held}
        self._is_whole = True
        options = CompileOptions(
            as_target(target),
            threads,
            passes=as_passes(passes),
            precision=as_precision(precision),
            bounds=config().bounds,
            donate=self.program.held,
        )
        self.executable = compile_module(self.program.module, options).executable

    @property
    def steps(self) -> int:
        """How many steps have been done."""
        return int(self._whole()["step"])

    @property
    def params(self) -> dict[str, Array]:
        """Copies of the parameters, by name."""
        return self._copies(self.program.params)

    @property
    def carry(self) -> dict[str, Array]:
        """Copies of what the loss hands on from step to step."""
        return self._copies(self.program.carry)

    @property
    def state(self) -> dict[str, Array]:
        """Copies of what the optimizer keeps."""
        return self._copies(tuple(self.program.slots))

    def step(self, *batch: object, **named: object) -> Any:
        """One step with a batch, in the order of `program.batch` or by name: the loss, or a tuple of all `results`.

        A call that is refused leaves everything as it was. One that fails while it runs, or is interrupted, leaves the
        arrays half changed: only `load` helps then.
        """
        inputs = {**self._whole(), **self._batch(batch, named)}
        self._is_whole = False
        try:
            made = self.executable.run(inputs)
        except LegatoError as error:
            self._is_whole = not error.begun
            raise
        self._held = {name: made[name] for name in self.program.held}
        self._is_whole = True
        results = tuple(made[name] for name in self.program.results)
        return results if len(results) > 1 else results[0]

    def save(self, path: str | Path) -> None:
        """Writes all that the next step depends on beside its batch into a safetensors file: parameters, what the
        optimizer keeps, what is carried, and the number of steps, by their names in the program."""
        checkpoint.write(_path(path), self._whole())

    def load(self, path: str | Path) -> None:
        """Goes on where `save` was called, with the same bits; ArtifactError for a file of another training, and then
        everything is as it was."""
        self._held = checkpoint.read(_path(path), self._held)
        self._is_whole = True

    def _batch(self, batch: tuple[object, ...], named: Mapping[str, object]) -> dict[str, object]:
        names = self.program.batch
        if len(batch) > len(names):
            raise RunError(f"step: got {len(batch)} values, wanted {len(names)}: {', '.join(names)}")
        given = dict(zip(names, batch, strict=False))
        if bad := [name for name in named if name not in names or name in given]:
            raise RunError(f"step: {', '.join(bad)} given twice, or not in the batch: {', '.join(names)}")
        return {**given, **named}

    def _copies(self, names: tuple[str, ...]) -> dict[str, Array]:
        held = self._whole()
        return {name: held[name].copy() for name in names}

    def _whole(self) -> dict[str, Array]:
        if not self._is_whole:
            raise RunError("the last step ended midway: parameters may be half changed\n  hint: load a checkpoint")
        return self._held


def _path(path: object) -> Path:
    if not isinstance(path, str | PathLike):
        raise RunError(f"a checkpoint is a file: got {path!r:.80}, wanted its path")
    return Path(path)


def _copy(name: str, value: object, ty: object) -> Array:
    """A value of a parameter as an array of our own; RunError unless it has the dtype and the shape of its type."""
    assert isinstance(ty, TensorType)
    array = as_array(value, f"{name!r}")
    fits = len(ty.shape) == array.ndim and all(
        not isinstance(d, Const) or d.value == n for d, n in zip(ty.shape, array.shape, strict=True)
    )
    if array.dtype != ty.dtype.numpy or not fits:
        raise RunError(f"{name!r}: got {array.dtype} of shape {array.shape}, wanted {ty}")
    return np.array(array, order="C", copy=True)
