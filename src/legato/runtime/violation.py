"""What the tests of a bounds-checked program say when they fail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.errors import InternalError, LegatoError, RunError

__all__ = ["REPORT", "AccessInfo", "violation"]

REPORT: Final = "report"  # the argument word of where failing tests leave their number and what they tell
_PLACE: Final = re.compile(r"\{([0-9]{1,4})\}")
_HINT: Final = "\n  hint: this is a bug of ours; please report it, with the program"


@dataclass(frozen=True, slots=True)
class AccessInfo:
    """A test: `{0}`, `{1}` … in its message stand for the words of its report. `is_ours`: what it tests was generated
    and not written by the user."""

    message: str
    is_ours: bool


def violation(tests: Sequence[AccessInfo], number: int, report: Sequence[int]) -> LegatoError:
    """The error of a call that test `number` has ended, with the report that there is."""
    test, (told, *values) = tests[number], report
    # Threads that fail at the same time share the report: another's numbers would be wrong.
    words = [str(v) if told == number else "?" for v in values]
    message = _PLACE.sub(lambda m: words[int(m[1])] if int(m[1]) < len(words) else "?", test.message)
    return InternalError(message + _HINT) if test.is_ours else RunError(message)
