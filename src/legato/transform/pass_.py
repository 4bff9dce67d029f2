"""Passes: named functions from module to module, and what watches them run."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import ClassVar

from legato.base.config import Config, config
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, InternalError, RunError, VerifyError
from legato.base.tally import Tally
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.transform._external import is_own
from legato.transform._options import require_options

__all__ = ["FunctionPass", "Observer", "Pass", "run"]


class Pass(ABC):
    """A transformation of modules. Subclasses are frozen dataclasses whose fields are the options: one of another kind
    than its annotation is a CompileError.

    A pass never mutates, prints or times; it returns the same module where nothing changed.

    rounds: sums and products of floats are formed otherwise than the program says, so that rounding, overflow and
    underflow differ. Other passes keep every bit of what the interpreter computes.
    keeps_meaning: False for a pass that makes another program on purpose (a gradient): only a user asks for it.
    """

    name: ClassVar[str]
    rounds: ClassVar[bool] = False
    keeps_meaning: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_options(self)
        self.check_options()

    def check_options(self) -> None:  # noqa: B027  # most have nothing to say
        """CompileError for options that mean nothing; each of them is of its kind."""

    @abstractmethod
    def __call__(self, mod: Module) -> Module:
        """The transformed module."""


class FunctionPass(Pass):
    """A pass that treats each graph-level function on its own; those of other code generators are left alone."""

    def prepared(self, mod: Module) -> Module:
        """`mod` in the form that `function` expects."""
        return mod

    @abstractmethod
    def function(self, func: Function, mod: Module) -> Function:
        """The transformed function; the same object where nothing changed."""

    def __call__(self, mod: Module) -> Module:
        mod = self.prepared(mod)
        return mod.with_functions({gv: self.function(f, mod) if is_own(f) else f for gv, f in mod.functions.items()})


@dataclass(slots=True)
class Observer:
    """Watches a pipeline: times, verifies, prints, dumps and keeps modules as `config` and the caller ask; `rules`, if
    given, counts how often each rule was applied."""

    settings: Config = field(default_factory=config)
    keep: frozenset[str] = frozenset()  # names of passes whose output is kept; "*" keeps all
    progress: Callable[[str], None] | None = None
    times: dict[str, float] = field(default_factory=dict)
    kept: dict[str, Module] = field(default_factory=dict)
    rules: Tally | None = None
    _count: int = 0
    _verified: Module | None = None  # the last that was found to be well-formed

    def before(self, name: str, mod: Module) -> None:
        """Called before pass `name`, which is given `mod`."""
        if self.progress is not None:
            self.progress(name)
        if _is_named(name, self.settings.print_before):
            print(f"// before {name}\n{mod}", file=sys.stderr)
        if self.rules is not None:
            self.rules.begin()

    def after(self, name: str, old: Module, new: Module, seconds: float) -> None:
        """Called after pass `name`."""
        if self.rules is not None:
            self.rules.end(name)
        self._count += 1
        self.times[name] = self.times.get(name, 0.0) + seconds
        if name in self.keep or "*" in self.keep:
            self.kept[name] = new
        if self.settings.verify and new is not self._verified:
            _verify(name, new)
            self._verified = new
        self._print(name, old, new, seconds)

    def _print(self, name: str, old: Module, new: Module, seconds: float) -> None:
        s = self.settings
        if s.time_passes:
            print(f"{name:24s} {seconds * 1e3:9.2f} ms{' (unchanged)' if new is old else ''}", file=sys.stderr)
        if _is_named(name, s.print_after):
            print(f"// after {name}{' (unchanged)' if new is old else ''}\n{new}", file=sys.stderr)
        if s.dump_dir:
            folder = Path(s.dump_dir)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{self._count:02d}_{name}.txt").write_text(str(new), encoding="utf-8")

    def close(self) -> None:
        """Called when all passes have run, or one has failed."""
        if self.rules is not None:
            self.rules.close()


def _is_named(name: str, wanted: str) -> bool:
    """Whether a setting, names with commas between them or "all", means this pass."""
    return wanted == "all" or name in wanted.split(",")


def _verify(name: str, mod: Module) -> None:
    from legato.ir.verify import verify  # only where it is asked for

    try:
        verify(mod)
    except VerifyError as error:
        raise InternalError(f"pass {name} made a malformed program: {error}") from error


def run(mod: Module, passes: Sequence[Pass], observer: Observer | None = None) -> Module:
    """`mod` after `passes` in order. An InternalError names the pass that broke, and those that ran before it."""
    observer = observer or Observer()
    try:
        return _run(mod, passes, observer)
    finally:
        observer.close()


def _run(mod: Module, passes: Sequence[Pass], observer: Observer) -> Module:
    done: list[str] = []
    for p in passes:
        observer.before(p.name, mod)
        start = time.perf_counter()
        try:
            new = p(mod)
        except (CompileError, RunError, MemoryError):
            raise
        except Exception as error:  # whatever it is, it is a bug of this pass
            history = f" after {', '.join(done)}" if done else ""
            kind = "" if isinstance(error, InternalError) else f"{type(error).__name__}: "
            raise InternalError(f"pass {p.name} failed{history}: {kind}{error}") from error
        observer.after(p.name, mod, new, time.perf_counter() - start)
        mod = new
        done.append(p.name)
    return mod
