"""Benchmarks of many models as one table: what each row says, whether it counts, and the mean over rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from math import exp, isfinite, log
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.bench.run import Result
from legato.bench.statistics import ENOUGH, Ratio

__all__ = ["RIVALS", "Row", "Table", "row_of"]

RIVALS: Final = ("onnxruntime", "openvino")  # Legato is compared with the faster of them


@dataclass(frozen=True, slots=True)
class Row:
    """One model. Times in seconds, by engine: medians within one mode of the machine.

    scored: whether it enters the mean over the table. within: how many of `rounds` lie in the mode; `fork_join` is the
    mode's time, `fork_joins` are all that were measured. missing: engines that cannot run the model, and why.
    distances: of other engines' outputs from Legato's, as a share of their range, None where they have other shapes or
    infinities; differ: engines whose outputs are too far away.
    cold, cached: seconds to compile, in a fresh process, with an empty and with a full kernel cache.
    """

    name: str
    title: str
    scored: bool
    seconds: Mapping[str, float]
    ratios: Mapping[str, Ratio]
    missing: Mapping[str, str]
    distances: Mapping[str, float | None]
    differ: tuple[str, ...]
    rounds: int
    within: int
    fork_join: float
    fork_joins: tuple[float, ...]
    cold: float | None
    cached: float | None
    load: float | None

    @property
    def rival(self) -> str | None:
        """The faster of the rivals that ran: by its ratio to Legato, which no drift between rounds has a part in."""
        ran = [name for name in RIVALS if name in self.seconds]
        return min(ran, key=lambda n: self.ratios[n].median if n in self.ratios else self.seconds[n], default=None)

    @property
    def ratio(self) -> Ratio | None:
        """How many times as fast as its rival Legato is; None where one of them did not run."""
        return None if self.rival is None else self.ratios.get(self.rival)

    @property
    def counts(self) -> bool:
        """Whether the outputs agree, and enough rounds of one mode give a narrow interval of the ratio."""
        ratio = self.ratio
        return ratio is not None and ratio.counts and self.within >= ENOUGH and self.rival not in self.differ

    @property
    def reached(self) -> bool:
        """Whether Legato is at least as fast as its rival, as far as the rounds can tell."""
        return self.counts and self.ratio is not None and self.ratio.high >= 1

    def to_json(self) -> dict[str, Any]:
        """The row as JSON data, with what follows from it."""
        return asdict(self) | {"rival": self.rival, "counts": self.counts, "reached": self.reached}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Row:
        """The row that `to_json` gave."""
        fields = {name: data[name] for name in Row.__dataclass_fields__}
        fields["ratios"] = {name: Ratio(**ratio) for name, ratio in data["ratios"].items()}
        return Row(**fields | {"differ": tuple(data["differ"]), "fork_joins": tuple(data["fork_joins"])})


def row_of(result: Result, name: str, title: str, scored: bool) -> Row:
    """The row of one benchmark."""
    startup = result.startup
    return Row(
        name,
        title,
        scored,
        seconds={engine: found.median for engine, found in result.engines.items()},
        ratios=result.ratios,
        missing=result.missing,
        distances={
            engine: found.distance if isfinite(found.distance) else None for engine, found in result.agreement.items()
        },
        differ=tuple(engine for engine, found in result.agreement.items() if not found.agrees),
        rounds=result.rounds,
        within=result.within,
        fork_join=result.fork_join,
        fork_joins=result.fork_joins,
        cold=None if startup is None else startup.cold,
        cached=None if startup is None else startup.cached,
        load=None if startup is None else startup.load,
    )


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that were measured on one machine, with as many threads, by the same versions of engines."""

    machine: str
    target: str
    threads: int
    versions: Mapping[str, str]
    rows: tuple[Row, ...] = ()

    def with_row(self, row: Row, order: Mapping[str, int]) -> Table:
        """The table with the row in place of the one of its name; `order` has the place of each name."""
        kept = [other for other in self.rows if other.name != row.name]
        return replace(self, rows=tuple(sorted([*kept, row], key=lambda r: order.get(r.name, len(order)))))

    def fits(self, other: Table) -> bool:
        """Whether rows of both may stand side by side."""
        return (self.machine, self.threads) == (other.machine, other.threads)

    @property
    def scored(self) -> tuple[Ratio, ...]:
        """The ratios that the mean is taken over."""
        return tuple(row.ratio for row in self.rows if row.scored and row.ratio is not None)

    @property
    def mean(self) -> float | None:
        """The geometric mean of the scored ratios; None where there are none."""
        logs = [log(ratio.median) for ratio in self.scored]
        return exp(sum(logs) / len(logs)) if logs else None

    def to_json(self) -> dict[str, Any]:
        """The table as JSON data."""
        rows = [row.to_json() for row in self.rows]
        return {name: getattr(self, name) for name in Table.__dataclass_fields__} | {"mean": self.mean, "rows": rows}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Table:
        """The table that `to_json` gave."""
        fields = {name: data[name] for name in Table.__dataclass_fields__}
        return Table(**fields | {"rows": tuple(map(Row.from_json, data["rows"]))})
