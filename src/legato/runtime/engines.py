"""Engines of code generators: what runs the functions of a program that are somebody else's.

A generator is any object with a `name` and a `compile`; an engine is what can be called with one array per tensor of
the function's parameters, in order, tuples taken apart, and gives one array per tensor of its result. For a compiled
program an engine is a packed function, so what it gives is checked against the function's type in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.errors import ArtifactError, GeneratorError, RunError
from legato.base.kinds import require_sequence
from legato.base.spelling import several
from legato.runtime.packed import Packed, leaves
from legato.runtime.parts import Parts
from legato.runtime.program import ExternalInfo

__all__ = ["ENGINE", "FUNCTION", "Engine", "by_name", "loaded", "restored", "with_engines"]

ENGINE: Final = "engine"
FUNCTION: Final = "function"
Run = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Engine(Packed):
    """The engine of a function as programs call it. again: makes it once more, in another process."""

    generator: str = ""
    symbol: str = ""
    again: Callable[[], Engine] | None = None

    @staticmethod
    def of(run: Run, generator: str, symbol: str, again: Callable[[], Engine] | None = None) -> Engine:
        """`run` as the engine of function `symbol`."""
        if not callable(run):
            raise _error(generator, symbol, f": compile gave a {type(run).__name__}, wanted what can be called")
        return Engine(partial(_flat, run), None, True, generator, symbol, again)

    def error(self, name: str, what: str) -> RunError:
        """What is wrong with what the engine did."""
        return _error(self.generator, self.symbol, what)

    def __reduce__(self) -> tuple[Any, ...]:
        assert self.again is not None
        return self.again, ()


def _flat(run: Run, *args: Any) -> Any:
    return run(*leaves(args))


def _error(generator: str, symbol: str, what: str) -> GeneratorError:
    return GeneratorError(f"generator {generator!r}, function @{symbol}{what}")


def by_name(generators: Iterable[Any]) -> dict[str, Any]:
    """The generators by their names; GeneratorError for what is none, and where two have the same."""
    found: dict[str, Any] = {}
    wanted = "code generators, in a list"
    several = (
        (generators,)
        if _is_generator(generators)
        else require_sequence(generators, "generators", wanted, GeneratorError)
    )
    for given in several:
        if not _is_generator(given):
            hint = "an object with a name (text) and a method compile(function)"
            raise GeneratorError(f"generators: a {type(given).__name__} is none\n  hint: wanted {hint}")
        if given.name in ("", "default") or "." in given.name:
            raise GeneratorError(
                f"generators: {given.name!r} is no name for one\n  hint: without dots, and not default"
            )
        if found.setdefault(given.name, given) is not given:
            raise GeneratorError(f"generators: two are called {given.name!r}")
    return found


def _is_generator(value: Any) -> bool:
    try:
        return isinstance(getattr(value, "name", None), str) and callable(getattr(value, "compile", None))
    except Exception:  # of a property of whoever wrote it
        return False


def restored(restore: Callable[[], Any], generator: str, symbol: str, what: str) -> Any:
    """What `restore` gives; GeneratorError, which says `what` the generator was to do, where it fails."""
    try:
        return restore()
    except Exception as error:
        raise _error(generator, symbol, f": {what} failed: {type(error).__name__}: {error}") from error


def loaded(generator: Any, symbol: str, data: bytes) -> Engine:
    """The engine that its generator has stored as `data`."""
    run = restored(partial(generator.load, data), generator.name, symbol, "load")
    return Engine.of(run, generator.name, symbol, partial(loaded, generator, symbol, data))


def with_engines(
    parts: Parts,
    packed: Mapping[str, object] | None,
    generators: Iterable[Any],
    compiled: Callable[[Any, str, bytes], Engine],
) -> Mapping[str, object] | None:
    """`packed` with the engines that the program in `parts` needs; `compiled` makes one of a stored function.

    Nothing in a file chooses who runs it: GeneratorError, with all that are missing, where a generator is not given.
    """
    externals = parts.program.externals
    if not externals:
        return packed
    known = by_name(generators)
    missing = sorted({e.generator for e in externals if e.generator not in known})
    if missing:
        functions = ", ".join(f"@{e.function}" for e in externals if e.generator in missing)
        hint = f"{several('generators')} gives them; what is in the file is run by them"
        names = ", ".join(map(repr, missing))
        raise GeneratorError(f"functions of the program ({functions}) need the generators {names}\n  hint: {hint}")
    found: dict[str, object] = dict(packed or {})
    for info in externals:
        generator, data = known[info.generator], _stored(parts, info)
        if info.stored == ENGINE and not callable(getattr(generator, "load", None)):
            raise _error(info.generator, info.function, ": its engine is stored, and this generator cannot load one")
        made = loaded(generator, info.function, data) if info.stored == ENGINE else None
        found[info.name] = made or compiled(generator, info.function, data)
    return found


def _stored(parts: Parts, info: ExternalInfo) -> bytes:
    for constant in parts.constants:
        if constant.name == info.constant:
            return parts.segment[constant.offset : constant.offset + constant.size].tobytes()
    raise ArtifactError(f"the file has nothing for @{info.function} of generator {info.generator!r}")
