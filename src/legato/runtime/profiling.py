"""What each kernel of a call takes, as TVM's profilers report it: `report.table()`, `.csv()`, `.json()`, `.calls`.

(`legato profile` compares the times with what the machine can do.)
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.errors import RunError
from legato.runtime.executable import Executable
from legato.runtime.recorder import Recorder

__all__ = ["Report", "profiled", "require_no_collectors"]

_COLUMNS: Final = ("Name", "Operators", "Duration (us)", "Percent", "Count")
_RUNS: Final = 10


@dataclass(frozen=True, slots=True)
class Report:
    """The launches of one call in order: the median of several calls of each. `total` is that of whole calls, in
    microseconds, with what is between the launches."""

    launches: tuple[tuple[str, str, float], ...]  # name, operators, microseconds
    total: float

    @property
    def calls(self) -> list[dict[str, Any]]:
        """A row for each launch, by column."""
        return [self._row(name, operators, taken, 1) for name, operators, taken in self.launches]

    def _row(self, name: str, operators: str, taken: float, count: int) -> dict[str, Any]:
        percent = 100 * taken / self.total if self.total else 0.0
        return dict(zip(_COLUMNS, (name, operators, taken, percent, count), strict=True))

    def rows(self, sort: bool = True, aggregate: bool = True) -> list[dict[str, Any]]:
        """The rows of a table: those of one kernel together, the costliest first, unless told otherwise."""
        found = self.calls
        if aggregate:
            together: dict[tuple[str, str], list[float]] = {}
            for name, operators, taken in self.launches:
                together.setdefault((name, operators), []).append(taken)
            found = [self._row(*key, sum(taken), len(taken)) for key, taken in together.items()]
        return sorted(found, key=lambda row: -row["Duration (us)"]) if sort else found

    def table(self, sort: bool = True, aggregate: bool = True, col_sums: bool = True) -> str:
        """The rows as text; with `col_sums`, their sum and the whole call below."""
        cells = [_COLUMNS, *(_shown(row) for row in self.rows(sort, aggregate))]
        if col_sums:
            cells.append(_shown(self._row("Sum", "", sum(taken for _, _, taken in self.launches), len(self.launches))))
            cells.append(_shown(self._row("Total", "", self.total, 1)))
        widths = [max(len(row[n]) for row in cells) for n in range(len(_COLUMNS))]
        lines = (
            "  ".join(c.ljust(w) if n < 2 else c.rjust(w) for n, (c, w) in enumerate(zip(row, widths, strict=True)))
            for row in cells
        )
        return "\n".join(line.rstrip() for line in lines)

    def csv(self) -> str:
        """The launches as lines of values."""
        lines = [_COLUMNS, *(_shown(row) for row in self.calls)]
        return "\n".join(",".join(f'"{cell}"' if "," in cell else cell for cell in line) for line in lines) + "\n"

    def json(self) -> str:
        """Everything as JSON."""
        return json.dumps({"calls": self.calls, "total (us)": self.total})

    def __str__(self) -> str:
        return self.table()


def _shown(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values())


def require_no_collectors(collectors: object) -> None:
    """RunError where somebody wants something else to be measured than times."""
    if collectors:
        raise RunError("there are no collectors\n  hint: what is measured is the time of each kernel")


def profiled(exe: Executable, inputs: Mapping[str, object], runs: int = _RUNS) -> Report:
    """The report of `exe` on inputs by name, from so many calls, behind one more that brings it into the caches."""
    recorder = Recorder(exe)
    _, *found = recorder.runs(inputs, 0.0, runs + 1, runs + 1)
    order = [launch.kernel for launch in found[0].launches]
    alike = [run for run in found if [launch.kernel for launch in run.launches] == order]

    def median(nanoseconds: Sequence[int]) -> float:
        return statistics.median(nanoseconds) / 1e3

    launches = []
    for n, kernel in enumerate(order):
        if kernel >= 0:
            name, operators = recorder.kernels[kernel].name, ", ".join(recorder.kernels[kernel].operators)
        else:
            name = operators = exe.program.host_ops[-1 - kernel].op
        launches.append((name, operators, median([run.launches[n].nanoseconds for run in alike])))
    return Report(tuple(launches), median([run.end - run.start for run in alike]))
