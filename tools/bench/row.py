"""One row, measured in a process of its own: a model or an engine that crashes takes no other row with it.

`python -m tools.bench.row JOB`, where JOB is what `Job` holds, as JSON; the row is written to its file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from legato.base.target import cpu_name, host
from legato.bench.run import bench
from legato.bench.table import Row, Table, row_of
from tools.bench.entries import Entry, entry

__all__ = ["Job", "measured"]

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Job:
    """What to measure: the model's name, engines beside Legato, rounds in one mode and at most, seconds of a block,
    threads."""

    name: str
    vs: tuple[str, ...]
    rounds: int
    max_rounds: int
    block: float
    threads: int


def measured(job: Job) -> Table:
    """The table of one row; if the process that measures it ends early, the row says only that."""
    with tempfile.TemporaryDirectory(prefix="legato-row-") as folder:
        output = Path(folder, "row.json")
        command = [sys.executable, "-m", "tools.bench.row", json.dumps(asdict(job)), str(output)]
        code = subprocess.run(command, cwd=ROOT).returncode
        if code == 0:
            return Table.from_json(json.loads(output.read_text(encoding="utf-8")))
    return alone(job, crashed(entry(job.name), f"the process that measures it ended with code {code}"), {})


def alone(job: Job, row: Row, versions: Mapping[str, str]) -> Table:
    """A table of one row."""
    return Table(cpu_name(), host().name, job.threads, versions, (row,))


def crashed(entry: Entry, why: str) -> Row:
    """The row of a model of which nothing is known but `why`."""
    return Row(
        entry.name, entry.title, entry.scored, {}, {}, {"legato": why}, {}, (), 0, 0, 0.0, (), None, None, None
    )  # fmt: skip


def tell(what: str) -> None:
    """Progress, for whoever looks on."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="\r", file=sys.stderr, flush=True)


def measure(job: Job) -> Table:
    """One model in all engines, here and now; an engine that cannot run it is noted."""
    chosen = entry(job.name)
    model = chosen.model
    result = bench(
        model.path(),
        vs=job.vs,
        others=chosen.others(),
        threads=job.threads,
        shapes=model.static_shapes() if model.symbolic else None,
        inputs=model.cases()[0],
        rounds=job.rounds,
        max_rounds=job.max_rounds,
        block=job.block,
        lenient=True,
        progress=lambda what: tell(f"{job.name}: {what}"),
    )
    tell("")
    return alone(job, row_of(result, chosen.name, chosen.title, chosen.scored), result.versions)


def main(job: str, output: str) -> None:
    """Measure, and write the table of one row."""
    given: dict[str, Any] = json.loads(job)
    Path(output).write_text(json.dumps(measure(Job(**given)).to_json()), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
