"""One benchmark: prepares the engines, checks that they agree, measures them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from dataclasses import field as dataclass_field
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import legato
from legato._version import __version__
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, LegatoError, MissingError, RunError
from legato.base.precision import Precision
from legato.base.precision import precision as as_precision
from legato.base.target import cpu_name
from legato.base.target import target as as_target
from legato.bench.engines import PEERS, Array, Engine, Feeds, legato_engine, require_installed
from legato.bench.measure import Rounds, measure
from legato.bench.modes import largest
from legato.bench.startup import Startup, compile_twice, load_seconds
from legato.bench.statistics import Ratio, Times, ratio, times, undecided
from legato.runtime.binding import cpu_count
from legato.runtime.executable import Executable
from legato.runtime.fill import Fill, feeds
from legato.runtime.leaves import in_order

if TYPE_CHECKING:
    from legato.ir.module import Module
    from legato.ir.op import Op

__all__ = ["Agreement", "Maker", "Result", "bench", "reason"]

Shapes = Mapping[str, Sequence[int | str | None]] | None
Maker = Callable[[Feeds, int, bool], Engine]  # of an engine: inputs, threads, whether their shapes are all it will see


@dataclass(frozen=True, slots=True)
class Agreement:
    """The largest distance between Legato's outputs and another's, as a share of the output's range.

    ours: where they differ, whether Legato's are near those of the interpreter in float64, so that the other is off;
    None where that was not asked.
    """

    distance: float
    agrees: bool
    ours: bool | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What one benchmark found; times in seconds. `ratios` say how many times as fast as each other Legato is.

    All figures are of those rounds that lie in one mode of the machine: `within` of `rounds`, with the fork-join time
    `fork_join`. Where no mode has a round, `within` is 0 and they are of all rounds, as those are of an engine that has
    none in the mode. fork_joins: before each round and after the last. Not every engine takes part in the last rounds:
    a ratio says of how many it is.
    missing: engines that cannot run the model (Legato may be one), and why.
    """

    model: str
    machine: str
    target: str
    threads: int
    inputs: tuple[str, ...]
    rounds: int
    within: int
    startup: Startup | None
    fork_join: float
    fork_joins: tuple[float, ...]
    versions: Mapping[str, str]
    engines: Mapping[str, Times]
    ratios: Mapping[str, Ratio]
    agreement: Mapping[str, Agreement]
    missing: Mapping[str, str]

    @property
    def agrees(self) -> bool:
        """Whether all engines computed the same."""
        return all(a.agrees for a in self.agreement.values())

    @property
    def is_right(self) -> bool:
        """Whether Legato's outputs are the others', or the others are off."""
        return all(a.agrees or a.ours for a in self.agreement.values())

    def to_json(self) -> dict[str, Any]:
        """The result as JSON data."""
        data = asdict(self)
        for name, found in self.ratios.items():
            data["ratios"][name] |= {"clear": found.clear, "counts": found.counts}
        return data


def bench(
    model: Path,
    *,
    vs: Sequence[str] = (),
    others: Mapping[str, Maker] | None = None,
    threads: int | None = None,
    target: str = "host",
    shapes: Shapes = None,
    constants: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | Sequence[Any] | None = None,
    dims: Mapping[str, int] | None = None,
    how: Fill = "random",
    seed: int = 0,
    rounds: int = 30,
    max_rounds: int | None = None,
    block: float = 0.05,
    lenient: bool = False,
    precision: str | None = None,
    progress: Callable[[str], None] | None = None,
    ops: Iterable[Op] = (),
    custom: Mapping[str, Callable[..., Any]] | None = None,
) -> Result:
    """Runs the model (.onnx, .relay or .legato) in Legato and the engines `vs`, all on `threads` threads.

    vs: names of `engines.PEERS`, of `others`, and `legato-` with a precision: Legato with that.
    others: how to make engines that read no ONNX files, by their name in `vs`.
    constants: values that inputs have for good, by name; other engines are given them with the inputs.
    inputs: arrays by name or in order; else made up as `runtime.fill` does.
    rounds: blocks per engine within one mode of the machine; block: seconds of each. Legato and the fastest of the
    others (all that may be it) go on until the ratio between them counts, up to `max_rounds`: ten times `rounds` where
    it is None.
    lenient: an engine that cannot run the model is told in `missing`. Else RunError for engines that are unknown, not
    installed or cannot run the model; CompileError as `compile` has them. Inputs by name are needed to go on without
    Legato.
    ops, custom: operators and converters of your own, as for `compile`. The model is compiled in this process then, and
    how long that takes is not told.
    """
    tell = progress or (lambda what: None)
    fixed = {name: np.asarray(value) for name, value in (constants or {}).items()}
    own = tuple(ops)
    build = partial(legato.compile, model, target=target, shapes=shapes, constants=fixed, ops=own, custom=custom)
    makers = _makers(model, vs, {**_variants(model, build), **(others or {})}, fixed, lenient)
    with tempfile.TemporaryDirectory(prefix="legato-bench-") as scratch:
        try:
            if (own or custom) and model.suffix != ".legato":
                exe, startup = _made(Path(scratch), partial(build, threads=threads, precision=precision), tell)
            else:
                exe, startup = _ready(model, Path(scratch), threads, target, shapes, fixed, precision, own, tell)
            info = exe.program.functions[exe.function]
            given: Feeds = feeds(info, inputs, how, dims=dims, seed=seed)
            field = _Field(given, exe.threads, not info.dims, exe.target, startup)
            field.add("legato", partial(legato_engine, exe, given, __version__), lenient)
        except LegatoError as error:
            if not lenient or not isinstance(inputs, Mapping):
                raise
            field = _Field(inputs, threads or cpu_count(), True, as_target(target).name)
            field.missing["legato"] = reason(error)
        for name, make in makers.items():
            tell(f"preparing {name}")
            field.add(name, partial(make, field.given, field.threads, field.fixed), lenient)
        tell("comparing outputs")
        agreement = field.agreement()
        if not all(a.agrees for a in agreement.values()) and model.suffix != ".legato":
            from legato.driver import load_model

            tell("interpreting in float64")
            read = load_model(model, shapes=shapes, ops=own, custom=custom, constants=fixed)
            ours = field.is_exact(read, exe)
            agreement = {name: a if a.agrees else replace(a, ours=ours) for name, a in agreement.items()}
        probe = _probe(field.threads)
        limit = 10 * rounds if max_rounds is None else max_rounds

        def told(number: int) -> None:
            tell(f"measuring, round {number} of {rounds if number <= rounds else f'at most {limit}'}")

        found = measure(field.engines, rounds, block, probe, told, most=limit, wanted=_undecided)
    return _result(model, field, agreement, found)


def _undecided(found: Rounds, numbers: Collection[int]) -> Collection[str]:
    """Legato and those whose ratio to it needs more rounds, if there are any; Legato's own variants need none.

    Where the machine has come to be in another mode, there may be no rounds yet of an engine that had enough.
    """
    if "legato" not in found.blocks:
        return ()
    pairs = {name: found.pairs("legato", name, numbers) for name in found.blocks if not name.startswith("legato")}
    unseen = {name for name, (ours, _) in pairs.items() if not ours}
    names = unseen | undecided({name: ratio(*both) for name, both in pairs.items() if name not in unseen})
    return {"legato", *names} if names else ()


def _result(model: Path, field: _Field, agreement: Mapping[str, Agreement], found: Rounds) -> Result:
    """What the rounds of one mode say."""
    within = set(largest(found.fork_join))
    every = range(found.count)
    seen: dict[str, Collection[int]] = {name: within if found.of(name, within) else every for name in found.blocks}
    return Result(
        model=str(model),
        machine=cpu_name(),
        target=field.target,
        threads=field.threads,
        inputs=tuple(f"{name}: {array.dtype}{list(array.shape)}" for name, array in field.given.items()),
        rounds=found.count,
        within=len(within),
        startup=field.startup,
        fork_join=median([found.fork_join[n] for n in within] or found.fork_join),
        fork_joins=tuple(found.fork_join),
        versions={engine.name: engine.version for engine in field.engines},
        engines={name: times(found.of(name, numbers)) for name, numbers in seen.items()},
        ratios={n: ratio(*found.pairs("legato", n, seen[n]), seen[n] is within) for n in agreement},
        agreement=agreement,
        missing=field.missing,
    )


def reason(error: Exception) -> str:
    """The first line of what an error says; of a traceback that some process left, the last."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1] if "Traceback" in lines[0] else lines[0].removeprefix("error: ")


@dataclass(slots=True)
class _Field:
    """The engines that take part, Legato first where it does, and why others do not."""

    given: Feeds
    threads: int
    fixed: bool  # whether shapes are
    target: str
    startup: Startup | None = None
    engines: list[Engine] = dataclass_field(default_factory=list)
    missing: dict[str, str] = dataclass_field(default_factory=dict)

    def add(self, name: str, make: Callable[[], Engine], lenient: bool) -> None:
        """Make an engine and call it once: what refuses to run does so here."""
        try:
            engine = make()
            engine.call()
        except LegatoError as error:
            if not lenient:
                raise
            self.missing[name] = reason(error)
        else:
            self.engines.append(engine)

    def is_exact(self, module: Module, exe: Executable) -> bool:
        """Whether Legato's outputs are near those of the interpreter in float64."""
        from legato.compare.exact import interpret
        from legato.compare.report import nearness
        from legato.transform.infer_types import InferTypes

        exact = interpret(InferTypes()(module), in_order(exe, self.given), float64=True)
        ours = self.engines[0]
        pairs = zip(ours.call(), exact, strict=True)
        with np.errstate(all="ignore"):
            return all(nearness(got, wide.astype(got.dtype), ours.near)[1] for got, wide in pairs)

    def agreement(self) -> dict[str, Agreement]:
        """How near each other engine's outputs are to Legato's, where it takes part."""
        if "legato" in self.missing:
            return {}
        ours, *others = self.engines
        outputs = ours.call()
        return {other.name: _agreement(outputs, other.call(), max(ours.near, other.near)) for other in others}


def _makers(
    model: Path, vs: Sequence[str], others: Mapping[str, Maker], constants: Feeds, lenient: bool
) -> dict[str, Maker]:
    """How to make each engine of `vs`; RunError for unknown ones, for files that they cannot read, and for those that
    are not installed (unless `lenient`). Those that read the model take `constants` as inputs."""

    def peer(name: str, given: Feeds, threads: int, fixed: bool) -> Engine:
        return PEERS[name](model, {**given, **constants}, threads, fixed)

    makers: dict[str, Maker] = {}
    for name in vs:
        if name not in others and name not in PEERS:
            raise RunError(f"unknown engine {name!r}\n  hint: one of {', '.join([*PEERS, *others])}")
        if name not in others and model.suffix != ".onnx":
            raise RunError(f"{name} reads ONNX models only, not {model}\n  hint: give the .onnx file")
        if name not in others and not lenient:
            require_installed(name)
        makers[name] = others[name] if name in others else partial(peer, name)
    return makers


def _variants(model: Path, build: Callable[..., Executable]) -> dict[str, Maker]:
    """Legato with each precision that is not the default, as engines beside it."""

    def compiled(precision: Precision, given: Feeds, threads: int, fixed: bool) -> Engine:
        if model.suffix == ".legato":
            raise RunError(f"{model} is compiled already\n  hint: give the model to compare precisions")
        exe = build(threads=threads, precision=precision.value)
        return legato_engine(exe, given, __version__, f"legato-{precision.value}")

    wanted = (precision for precision in Precision if precision is not Precision.DEFAULT)
    return {f"legato-{precision.value}": partial(compiled, precision) for precision in wanted}


def _made(scratch: Path, build: Callable[[], Executable], tell: Callable[[str], None]) -> tuple[Executable, Startup]:
    """The executable, compiled with operators that other processes do not know, and how long it takes to load it."""
    tell("compiling")
    exe, artifact = build(), scratch / "model.legato"
    exe.save(artifact)
    tell("loading")
    return exe, Startup(None, None, load_seconds(artifact))


def _ready(
    model: Path,
    scratch: Path,
    threads: int | None,
    target: str,
    shapes: Shapes,
    constants: Feeds,
    precision: str | None,
    ops: tuple[Op, ...],
    tell: Callable[[str], None],
) -> tuple[Executable, Startup]:
    """The executable, and how long it took to have it."""
    cold = cached = None
    artifact = model
    if model.suffix == ".legato":
        if shapes or constants or target != "host" or as_precision(precision) is not Precision.DEFAULT:
            raise CompileError(f"{model} is compiled already: shapes, constants, target and precision are for models")
    else:
        import_module("legato.base.compiler")  # a MissingError where its packages are not

        tell("compiling, cold and from the cache")
        artifact = scratch / "model.legato"
        values = None
        if constants:
            np.savez(values := scratch / "constants.npz", **constants)  # type: ignore[arg-type]  # none is allow_pickle
        cold, cached = compile_twice(
            model,
            artifact,
            scratch / "cache",
            shapes=shapes,
            target=target,
            precision=precision,
            constants=values,
        )
    tell("loading")
    startup = Startup(cold, cached, load_seconds(artifact))
    return legato.load(artifact, threads=threads, ops=ops), startup


def _probe(threads: int) -> Callable[[], float]:
    """What gives the fork-join time, by a kernel that is compiled on the spot: 0 where there is no compiler."""
    try:
        from legato.bench.fork_join import fork_join
    except MissingError:
        return lambda: 0.0
    return fork_join(as_target("host"), threads).seconds


def _agreement(ours: Sequence[Array], theirs: Sequence[Array], near: float) -> Agreement:
    from legato.compare.report import nearness

    if len(ours) != len(theirs):
        return Agreement(float("inf"), False)
    pairs = [nearness(a, b, near) for a, b in zip(ours, theirs, strict=True)]
    return Agreement(max((share for share, _ in pairs), default=0.0), all(near for _, near in pairs))
