"""What the zoo was found to do: on the terminal, as JSON, and as a table in docs/zoo.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from legato.bench.table import RIVALS, Row, Table
from tools.bench.report import NAMES, cells, milliseconds
from tools.zoo.row import Found
from tools.zoo.table import TABLE

__all__ = ["BEGIN", "END", "Figures", "is_right", "line", "markdown", "summary"]

BEGIN: Final = "<!-- zoo: written by `make bench-zoo` from docs/zoo.json -->"
END: Final = "<!-- end of zoo -->"
ORDER: Final = {name: place for place, name in enumerate(TABLE)}
ENGINES: Final = ("legato", *RIVALS)


@dataclass(frozen=True, slots=True)
class Figures:
    """The rows; of those in which Legato is slower, the kernel that loses most."""

    table: Table
    kernels: Mapping[str, str]

    def with_found(self, found: Found) -> Figures:
        """The figures with those of one more row, or with new ones of it."""
        name = found.row.name
        kernels = {other: kernel for other, kernel in self.kernels.items() if other != name}
        if found.kernel is not None:
            kernels[name] = found.kernel
        versions = {**self.table.versions, **found.versions}
        return Figures(replace(self.table.with_row(found.row, ORDER), versions=versions), kernels)

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON data."""
        return {**self.table.to_json(), "kernels": dict(self.kernels)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Figures:
        """The figures that `to_json` gave."""
        table = Table.from_json(data)
        rows = tuple(row for row in table.rows if row.name in TABLE)
        return Figures(replace(table, rows=rows), data["kernels"])


def is_right(row: Row) -> bool:
    """Whether Legato runs the architecture, and its outputs are those of the others, of which there is one."""
    return "legato" not in row.missing and not row.differ and bool(row.distances)


def line(row: Row) -> str:
    """One row, with what is wrong."""
    times = "  ".join(f"{NAMES[name]} {milliseconds(row.seconds.get(name))}" for name in ENGINES if row.seconds)
    told = f"{row.name:40} {'agrees' if is_right(row) else 'WRONG'}  {times}"
    if row.ratio is not None and row.rival is not None:
        told += f"  {row.ratio.median:.2f}× {NAMES[row.rival]}"
    return "\n".join([told.rstrip(), *(f"{'':40} {why}" for why in troubles(row))])


def troubles(row: Row) -> Iterator[str]:
    """What an engine cannot do, and where outputs differ."""
    for engine, why in row.missing.items():
        yield f"{NAMES[engine]} does not run it: {why}"
    if "legato" not in row.missing and not row.distances:
        yield "nothing else runs it: its outputs are compared with none"
    for engine in row.differ:
        far = row.distances[engine]
        yield f"{NAMES[engine]} has other outputs: {'shapes or infinities' if far is None else f'{far:.1e} of a range'}"


def summary(figures: Figures) -> str:
    """How many agree, the mean, and the slower ones."""
    table = figures.table
    right = [row for row in table.rows if is_right(row)]
    slower = [row for row in table.rows if row.ratio is not None and row.ratio.median < 1]
    lines = [f"{len(table.rows)} architectures: {len(right)} are imported, compiled and agree."]
    if table.mean is not None:
        lines.append(
            f"Geometric mean of the times of the faster of ONNX Runtime and OpenVINO divided by Legato's: "
            f"{table.mean:.2f}× over {len(table.scored)}; Legato is slower in {len(slower)}."
        )
    lines += [f"- {row.name} {_ratio(row)}: {figures.kernels.get(row.name, '')}" for row in slower]
    return "\n".join(lines)


def _ratio(row: Row) -> str:
    found = row.ratio
    return "–" if found is None else f"{found.median:.2f} ({found.low:.2f}–{found.high:.2f})"


def markdown(figures: Figures) -> str:
    """The rows as a table, and what they say together."""
    head = ["architecture", "family", *(NAMES[name] for name in ENGINES), "ratio", "compile"]
    lines = [cells(head), cells(["---", "---", *["--:"] * (len(head) - 2)])]
    for row in figures.table.rows:
        times = [milliseconds(row.seconds.get(name)) for name in ENGINES]
        compiled = "–" if row.cold is None else f"{row.cold:.1f} s"
        lines.append(cells([row.name, row.title, *times, _ratio(row), compiled]))
    wrong = [f"- {row.name}: {'; '.join(troubles(row))}" for row in figures.table.rows if [*troubles(row)]]
    table = figures.table
    versions = ", ".join(f"{NAMES[name]} {version}" for name, version in table.versions.items())
    foot = f"Milliseconds of one call on {table.threads} threads of {table.machine}; {versions}."
    return "\n".join([*lines, "", foot, "", summary(figures), *(["", *wrong] if wrong else [])])
