"""One benchmark: prepares the engines, checks that they agree, measures them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from legato._version import __version__
from legato.base.errors import RunError
from legato.base.target import cpu_name
from legato.base.target import target as as_target
from legato.bench.engines import PEERS, Engine, legato_engine
from legato.bench.fork_join import fork_join_seconds
from legato.bench.measure import measure
from legato.bench.startup import Startup, compile_twice, load_seconds
from legato.bench.statistics import Ratio, Times, ratio, times
from legato.compare.report import nearness
from legato.driver import host_runner
from legato.runtime.executable import Executable, load
from legato.runtime.fill import Fill, feeds

__all__ = ["Agreement", "Result", "bench"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """The largest distance between Legato's outputs and another's, as a share of the output's range."""

    distance: float
    agrees: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What one benchmark found; times in seconds. `ratios` say how many times as fast as each other Legato is."""

    model: str
    machine: str
    target: str
    threads: int
    inputs: tuple[str, ...]
    rounds: int
    startup: Startup
    fork_join: float
    versions: Mapping[str, str]
    engines: Mapping[str, Times]
    ratios: Mapping[str, Ratio]
    agreement: Mapping[str, Agreement]

    @property
    def agrees(self) -> bool:
        """Whether all engines computed the same."""
        return all(a.agrees for a in self.agreement.values())

    def to_json(self) -> dict[str, Any]:
        """The result as JSON data."""
        data = asdict(self)
        for name, found in self.ratios.items():
            data["ratios"][name]["clear"] = found.clear
        return data


def bench(
    model: Path,
    *,
    vs: Sequence[str] = (),
    threads: int | None = None,
    target: str = "host",
    shapes: Mapping[str, Sequence[object]] | None = None,
    inputs: Mapping[str, Any] | Sequence[Any] | None = None,
    dims: Mapping[str, int] | None = None,
    how: Fill = "random",
    seed: int = 0,
    rounds: int = 12,
    block: float = 0.25,
    progress: Callable[[str], None] | None = None,
) -> Result:
    """Runs the model (.onnx, .relay or .legato) in Legato and the engines `vs`, all on `threads` threads.

    inputs: arrays by name or in order; else made up as `runtime.fill` does.
    rounds: blocks per engine; block: seconds of each.
    RunError for engines that are unknown, not installed or cannot run the model; CompileError as `compile` has them.
    """
    tell = progress or (lambda what: None)
    _check_peers(model, vs)
    with tempfile.TemporaryDirectory(prefix="legato-bench-") as scratch:
        exe, startup = _ready(model, Path(scratch), threads, target, shapes, tell)
        given = feeds(exe.program.functions[exe.function], inputs, how, dims=dims, seed=seed)
        engines = [legato_engine(exe, given, __version__)]
        for name in vs:
            tell(f"preparing {name}")
            engines.append(PEERS[name](model, given, exe.threads))
        tell("comparing outputs")
        agreement = {engine.name: _agreement(engines[0], engine) for engine in engines[1:]}
        blocks = measure(engines, rounds, block, lambda done: tell(f"measuring, round {done} of {rounds}"))
        fork_join = fork_join_seconds(as_target("host"), exe.threads)
    ours = blocks["legato"]
    return Result(
        model=str(model),
        machine=cpu_name(),
        target=exe.target,
        threads=exe.threads,
        inputs=tuple(f"{name}: {array.dtype}{list(array.shape)}" for name, array in given.items()),
        rounds=rounds,
        startup=startup,
        fork_join=fork_join,
        versions={engine.name: engine.version for engine in engines},
        engines={name: times(taken) for name, taken in blocks.items()},
        ratios={name: ratio(ours, theirs) for name, theirs in blocks.items() if name != "legato"},
        agreement=agreement,
    )


def _check_peers(model: Path, vs: Sequence[str]) -> None:
    for name in vs:
        if name not in PEERS:
            raise RunError(f"unknown engine {name!r}\n  hint: one of {', '.join(PEERS)}")
        if model.suffix != ".onnx":
            raise RunError(f"{name} reads ONNX models only, not {model}\n  hint: give the .onnx file")


def _ready(
    model: Path,
    scratch: Path,
    threads: int | None,
    target: str,
    shapes: Mapping[str, Sequence[object]] | None,
    tell: Callable[[str], None],
) -> tuple[Executable, Startup]:
    """The executable, and how long it took to have it."""
    cold = cached = None
    artifact = model
    if model.suffix != ".legato":
        tell("compiling, cold and from the cache")
        artifact = scratch / "model.legato"
        cold, cached = compile_twice(model, artifact, scratch / "cache", shapes=shapes, target=target)
    tell("loading")
    startup = Startup(cold, cached, load_seconds(artifact))
    return load(artifact, threads=threads, host_ops=host_runner()), startup


def _agreement(ours: Engine, theirs: Engine) -> Agreement:
    pairs = [nearness(a, b) for a, b in zip(ours.call(), theirs.call(), strict=True)]
    return Agreement(max(share for share, _ in pairs), all(near for _, near in pairs))
