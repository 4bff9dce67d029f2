"""One architecture in Legato, ONNX Runtime and OpenVINO, in a process of its own: who crashes takes no other with it.

`python -m tools.zoo.row JOB OUTPUT`, where JOB is what `Job` holds, as JSON; what was found is written to OUTPUT.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Final

import numpy as np

import legato
from legato._version import __version__
from legato.base.errors import LegatoError, RunError
from legato.bench.engines import PEERS, Array, Engine, Feeds, legato_engine
from legato.bench.measure import Rounds, measure
from legato.bench.run import reason
from legato.bench.statistics import Ratio, ratio
from legato.bench.table import RIVALS, Row
from legato.compare.report import nearness
from legato.profile import profile
from legato.runtime.executable import Executable
from tools.zoo.table import TABLE, feeds

__all__ = ["Found", "Job", "failed", "measured"]

ROOT: Final = Path(__file__).parents[2]
PROFILED: Final = 0.3  # seconds


@dataclass(frozen=True, slots=True)
class Job:
    """What to do: the row's name, its file, threads of all engines, rounds (0: compare only), seconds of a block."""

    name: str
    path: str
    threads: int
    rounds: int
    block: float


@dataclass(frozen=True, slots=True)
class Found:
    """A row of the benchmark; kernel: where Legato is slower, the kernel that loses most; versions of the engines."""

    row: Row
    kernel: str | None
    versions: dict[str, str]


def measured(job: Job) -> Found:
    """What a process of its own finds; if it ends early, only that."""
    with tempfile.TemporaryDirectory(prefix="legato-zoo-") as folder:
        output = Path(folder, "row.json")
        command = [sys.executable, "-m", "tools.zoo.row", json.dumps(asdict(job)), str(output)]
        code = subprocess.run(command, cwd=ROOT).returncode
        if code:
            return failed(job.name, f"the process that measures it ended with code {code}")
        told = json.loads(output.read_text("utf-8"))
    return Found(Row.from_json(told["row"]), told["kernel"], told["versions"])


def failed(name: str, why: str) -> Found:
    """What is said of a row that Legato cannot run."""
    return Found(_row(name, {}, {}, {"legato": why}, {}, 0, None), None, {})


def here(job: Job) -> Found:
    """The row, in this process."""
    start = time.perf_counter()
    try:
        exe = legato.compile(job.path, threads=job.threads)
        seconds = time.perf_counter() - start
        given = {i.name: feeds(TABLE[job.name].inputs)[i.name] for i in exe.arguments}
        ours = legato_engine(exe, given, __version__)
        outputs = [np.copy(array) for array in ours.call()]
    except LegatoError as error:
        return failed(job.name, reason(error))
    engines, missing = _peers(job, given)
    distances = {engine.name: _distance(outputs, engine.call(), engine.near) for engine in engines}
    every = [ours, *engines]
    rounds = measure(every, job.rounds, job.block, lambda: 0.0, most=job.rounds) if job.rounds else None
    row = _row(job.name, *_times(rounds), missing, distances, job.rounds, seconds)
    slow = row.ratio is not None and row.ratio.median < 1
    return Found(row, _kernel(exe, given) if slow else None, {engine.name: engine.version for engine in every})


def _peers(job: Job, given: Feeds) -> tuple[list[Engine], dict[str, str]]:
    """The rivals that run the model, and why others do not; where nothing is timed, one is enough to compare with."""
    engines, missing = list[Engine](), dict[str, str]()
    for name in RIVALS:
        if engines and not job.rounds:
            break
        try:
            engine = PEERS[name](Path(job.path), given, job.threads, True)
            engine.call()
        except RunError as error:
            missing[name] = reason(error)
        else:
            engines.append(engine)
    return engines, missing


def _distance(ours: Sequence[Array], theirs: Sequence[Array], near: float) -> tuple[float, bool]:
    """The largest distance as a share of an output's range, and whether all outputs are near."""
    pairs = [nearness(a, b, near) for a, b in zip(ours, theirs, strict=True)]
    return max((share for share, _ in pairs), default=0.0), all(holds for _, holds in pairs)


def _times(rounds: Rounds | None) -> tuple[dict[str, float], dict[str, Ratio]]:
    """Seconds of a call, by engine, and how many times as fast as each rival Legato is."""
    if rounds is None:
        return {}, {}
    every = range(rounds.count)
    seconds = {name: float(np.median([np.median(b) for b in rounds.of(name, every)])) for name in rounds.blocks}
    rivals = [name for name in rounds.blocks if name != "legato"]
    return seconds, {name: ratio(*rounds.pairs("legato", name, every)) for name in rivals}


def _row(
    name: str,
    seconds: dict[str, float],
    ratios: dict[str, Ratio],
    missing: dict[str, str],
    distances: dict[str, tuple[float, bool]],
    rounds: int,
    compiled: float | None,
) -> Row:
    of = TABLE[name]
    return Row(
        name,
        f"{of.package}, {of.family}",
        True,
        seconds,
        ratios,
        missing,
        {engine: far if isfinite(far) else None for engine, (far, _) in distances.items()},
        tuple(engine for engine, (_, holds) in distances.items() if not holds),
        rounds,
        rounds,
        0.0,
        (),
        compiled,
        None,
        None,
    )


def _kernel(exe: Executable, given: Feeds) -> str:
    """The kernel that loses most against what the machine can do: its operators, their place, its share of the time."""
    found = profile(exe, given, seconds=PROFILED)
    worst = found.kernels[0]
    reached = "" if worst.share is None else f", {worst.share:.0%} of what the machine can do"
    return f"{worst.made_of}: {worst.seconds / found.seconds:.0%} of the time{reached}"


def main(job: str, output: str) -> None:
    """Measure, and write what was found."""
    found = here(Job(**json.loads(job)))
    told = {"row": found.row.to_json(), "kernel": found.kernel, "versions": found.versions}
    Path(output).write_text(json.dumps(told), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
