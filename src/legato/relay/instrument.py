"""Instruments of passes, by the names of `tvm.instrument`: `with PassContext(instruments=[PassTimingInstrument()]): …`.

An instrument is any object with some of the methods of `PassInstrument`. `Sequential`, a pass that is called by itself,
and `relay.build` tell those of the current context.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from legato.base.errors import CompileError, InternalError, VerifyError
from legato.base.tally import Tally
from legato.ir.verify import verify
from legato.relay._passes import PassInfo
from legato.relay.module import IRModule

__all__ = ["DumpIR", "PassInstrument", "PassPrintingInstrument", "PassTimingInstrument", "PrintAfterAll",
           "PrintBeforeAll", "RuleStatistics", "VerifyInstrument", "WellFormedInstrument",
           "pass_instrument"]  # fmt: skip


_DUMP: Final = re.compile(r"\d{2,}_\w+\.txt")  # 01_FoldConstant.txt


class PassInstrument:
    """What watches passes: subclasses have what they need of these methods. Each is told the module and the pass."""

    def enter_pass_ctx(self) -> None:
        """The context is entered."""

    def exit_pass_ctx(self) -> None:
        """The context is left, whatever happened in it."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Whether the pass may run."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """The pass is about to run."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """The pass has run, and gave `mod`."""

    def run_failed_pass(self, mod: IRModule, info: PassInfo) -> None:
        """The pass, given `mod`, has raised. (Relay's instruments are not told.)"""


def pass_instrument(cls: type | None = None) -> Any:
    """A decorator: a class with some of the methods of `PassInstrument`. CompileError for one with none of them."""
    if cls is None:
        return pass_instrument
    names = [name for name in vars(PassInstrument) if not name.startswith("_")]
    if not any(hasattr(cls, name) for name in names):
        raise CompileError(f"{cls.__name__} has no method of an instrument", hint=f"one of {', '.join(names)}")
    return cls


class PassTimingInstrument(PassInstrument):
    """Times passes: `render()`, within the context or behind it, is a table of all that ran, those that failed too."""

    def __init__(self) -> None:
        self.profiles: list[tuple[int, str, float]] = []  # depth, name, seconds
        self._open: list[tuple[int, float]] = []

    def enter_pass_ctx(self) -> None:
        self.profiles.clear()
        self._open.clear()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.profiles.append((len(self._open), info.name, 0.0))
        self._open.append((len(self.profiles) - 1, time.perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        at, start = self._open.pop()
        depth, name, _ = self.profiles[at]
        self.profiles[at] = depth, name, time.perf_counter() - start

    run_failed_pass = run_after_pass  # what it took is taken

    def render(self) -> str:
        """A line for each pass, those that others ran behind them and indented, in milliseconds."""
        total = sum(seconds for depth, _, seconds in self.profiles if depth == 0)
        lines = [f"{'  ' * depth}{name}: {seconds * 1e3:.2f} ms" for depth, name, seconds in self.profiles]
        return "\n".join([*lines, f"all: {total * 1e3:.2f} ms", ""])


class PassPrintingInstrument(PassInstrument):
    """Prints modules before and after passes of these names, to standard output."""

    def __init__(self, print_before_pass_names: Iterable[str] = (), print_after_pass_names: Iterable[str] = ()) -> None:
        self.before, self.after = frozenset(print_before_pass_names), frozenset(print_after_pass_names)

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self.before:
            _print("before", mod, info)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self.after:
            _print("after", mod, info)


class PrintBeforeAll(PassInstrument):
    """Prints the module before each pass."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        _print("before", mod, info)


class PrintAfterAll(PassInstrument):
    """Prints the module after each pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        _print("after", mod, info)


def _print(when: str, mod: IRModule, info: PassInfo) -> None:
    print(f"// {when} {info.name}\n{mod.module}", file=sys.stdout)


class DumpIR(PassInstrument):
    """Writes the module after each pass to a file of `dump_dir`: 01_FoldConstant.txt, ….

    refresh: what is in the folder is removed first; CompileError where it holds anything but such files.
    """

    def __init__(self, dump_dir: str | Path, refresh: bool = False) -> None:
        self.folder, self._count = Path(dump_dir), 0
        if self.folder.exists() and not self.folder.is_dir():
            raise CompileError(f"{self.folder} is no folder")
        if refresh and self.folder.exists():
            found = list(self.folder.iterdir())
            other = [path.name for path in found if not _DUMP.fullmatch(path.name) or not path.is_file()]
            if other:
                raise CompileError(f"{self.folder} has files that are no dumps", hint=f"among them {min(other)}")
            for path in found:
                path.unlink()

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._count += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{self._count:02d}_{info.name}.txt").write_text(str(mod.module), encoding="utf-8")


class VerifyInstrument(PassInstrument):
    """Verifies the module after each pass: InternalError with the name of the pass that made it malformed."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        try:
            verify(mod.module)
        except VerifyError as error:
            raise InternalError(f"pass {info.name} made a malformed program: {error}") from error


WellFormedInstrument = VerifyInstrument  # what Relax calls it


class RuleStatistics(PassInstrument):
    """Counts how often each rule of a pass was applied: `rows` of (pass, rule, times), of which `rule.at` is the line
    of source that makes it; `render()` is the table."""

    def __init__(self) -> None:
        self._tally = Tally()

    @property
    def rows(self) -> list[tuple[str, Any, int]]:
        """What has been counted."""
        return self._tally.rows

    def exit_pass_ctx(self) -> None:
        self._tally.close()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._tally.begin()

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._tally.end(info.name)

    run_failed_pass = run_after_pass

    def render(self) -> str:
        """A line for each rule: times, pass, rule, line of source."""
        return "\n".join("  ".join(line) for line in self._tally.lines())
