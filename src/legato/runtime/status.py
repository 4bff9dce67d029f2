"""What a status that native code has returned stands for, as an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.errors import InternalError, InterruptError, LegatoError, RunError, no_room
from legato.runtime.program import Program
from legato.runtime.violation import violation
from legato.runtime.workspace import Failure

__all__ = ["MEMORY", "Room", "error_of"]

# lg_status
MEMORY: Final = 1
_INTERRUPT, _HOST_OP, _DEPTH, _CHECK = 2, 3, 4, 256
_INTERRUPTED: Final = "interrupted by Ctrl-C"


@dataclass(frozen=True, slots=True)
class Room:
    """The memory of a call, in bytes: what was `refused` `beside` what was in use, what was planned, and the limit (0:
    none)."""

    refused: int
    beside: int
    planned: int
    limit: int

    @property
    def message(self) -> str:
        """What there was no room for."""
        need = f"out of memory: no room for {self.refused} bytes of workspace beside {self.beside} in use"
        if self.planned and self.planned != self.refused:
            need += f"; {self.planned} were planned"
        if not self.limit:
            return need
        return f"{need}; memory_limit is {self.limit}\n  hint: smaller inputs, or a higher limit"


def error_of(
    status: int, program: Program, room: Room, failure: Failure | None, report: Sequence[int]
) -> BaseException:
    """The error of a call of `program` that ended with `status`. failure: of an operator that Python ran; report: what
    a test of an access has left."""
    checks, tests = program.checks, program.tests
    if status == _INTERRUPT:
        return InterruptError(_INTERRUPTED)
    if status == _HOST_OP and failure is not None:
        return _host_error(*failure)
    if status == MEMORY:
        return RunError(room.message) if room.limit else no_room(room.message)
    if status == _DEPTH:
        return RunError("calls nest too deeply: the recursion of the program does not end, or too late")
    if _CHECK <= status < _CHECK + len(checks):
        return RunError(checks[status - _CHECK])
    if _CHECK + len(checks) <= status < _CHECK + len(checks) + len(tests):
        return violation(tests, status - _CHECK - len(checks), report)
    return InternalError(f"native code returned the unknown status {status}")


def _host_error(what: str | None, failure: BaseException) -> BaseException:
    if what is None or not isinstance(failure, Exception | KeyboardInterrupt):
        return failure  # SystemExit and the like: who raised it knows what for
    kind = "" if isinstance(failure, LegatoError) else f"{type(failure).__name__}: "
    is_interrupt = isinstance(failure, KeyboardInterrupt)
    error = InterruptError(_INTERRUPTED) if is_interrupt else RunError(f"{what} failed: {kind}{failure}")
    error.__cause__ = failure
    return error
