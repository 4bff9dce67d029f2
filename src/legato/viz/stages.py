"""A program at every stage of its compilation: after each pass that changed something, and lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.driver import CompileOptions, lower_module
from legato.ir.module import Module
from legato.transform.pass_ import Observer, run

__all__ = ["Stage", "Stages", "stages"]


@dataclass(frozen=True, slots=True)
class Stage:
    """The program after a pass: one that runs several times is numbered from the second time on."""

    name: str
    module: Module


@dataclass(frozen=True, slots=True)
class Stages:
    """note: why compilation ends after the last stage, where it does not go on to machine code."""

    stages: list[Stage]
    note: str = ""


@dataclass(slots=True)
class _Watch(Observer):
    """Keeps what every pass made that changed something."""

    made: list[Stage] = field(default_factory=list)

    def after(self, name: str, old: Module, new: Module, seconds: float) -> None:
        """Called after pass `name`."""
        Observer.after(self, name, old, new, seconds)
        if new is not old:
            self.made.append(Stage(name, new))


def stages(mod: Module, options: CompileOptions, *, progress: Callable[[str], None] | None = None) -> Stages:
    """`mod` as it was imported, after each pass of `options` that changed it, and lowered: as far as it gets."""
    watch = _Watch(progress=progress)
    note = ""
    lowered: list[Stage] = []
    try:
        last = run(mod, options.pipeline, watch)
        if progress is not None:
            progress("lower")
        lowered.append(Stage("lower", lower_module(last, options, Observer())[0]))
    except CompileError as error:
        note = str(error).removeprefix("error: ")
    return Stages(_numbered([Stage("imported", mod), *watch.made, *lowered]), note)


def _numbered(found: Sequence[Stage]) -> list[Stage]:
    counts: dict[str, int] = {}
    named = []
    for stage in found:
        count = counts[stage.name] = counts.get(stage.name, 0) + 1
        named.append(replace(stage, name=f"{stage.name} ({count})") if count > 1 else stage)
    return named
