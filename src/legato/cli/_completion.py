"""What can be completed: the tree of arguments as data, with the values that each may have."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.errors import MissingError
from legato.base.precision import Precision

__all__ = ["ANY", "Argument", "Values", "Verb", "verbs"]

ANY: Final = ("*",)  # files of any name
_SCRIPTS: Final = ("py",)
_MODELS: Final = ("onnx", "pt2", "pt", "pth", "relay", "rly", "relax", "json", "py")
_FILES: Final[Mapping[str, tuple[str, ...]]] = {  # the ends of names of files, by argument
    "input": ("npz", "npy"),
    "ops": _SCRIPTS,
    "use": _SCRIPTS,
    "generators": _SCRIPTS,
    "trace": ("json",),
    "html": ("html",),
    "svg": ("svg",),
    "dot": ("dot", "gv"),
}
_OUTPUTS: Final[Mapping[str, tuple[str, ...]]] = {  # of -o, by verb
    "compile": ("legato",),
    "run": ("npz",),
    "bench": ("json",),
    "verify": ("relay",),
    "opt": ("relay", "relax", "json"),
}
_COMPILED: Final = ("run", "bench", "profile", "verify", "show")  # verbs that take compiled programs, too


@dataclass(frozen=True, slots=True)
class Values:
    """What an argument may be: one of `words`, a file whose name ends in one of `ends`, a folder; nothing of these:
    whatever the user makes up."""

    words: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class Argument:
    """A flag by its `names`, or, where it has none, what stands at its place. `values`: None for a flag that takes
    none."""

    names: tuple[str, ...]
    what: str
    values: Values | None
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb, what it does, and its arguments."""

    name: str
    what: str
    arguments: tuple[Argument, ...]

    @property
    def flags(self) -> tuple[Argument, ...]:
        """The arguments that have names."""
        return tuple(a for a in self.arguments if a.names)

    @property
    def places(self) -> tuple[Argument, ...]:
        """The arguments that have none, in order."""
        return tuple(a for a in self.arguments if not a.names)


def verbs(parser: argparse.ArgumentParser) -> tuple[Verb, ...]:
    """The verbs of the command line, as its parser has them."""
    words = _words()
    return tuple(_verb(name, what, own, words) for name, what, own in _subparsers(parser))


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, own in action.choices.items():
                yield name, told.get(name, ""), own


def _verb(name: str, what: str, parser: argparse.ArgumentParser, words: Mapping[str, tuple[str, ...]]) -> Verb:
    return Verb(name, what, tuple(_argument(name, action, words) for action in parser._actions))


def _argument(verb: str, action: argparse.Action, words: Mapping[str, tuple[str, ...]]) -> Argument:
    is_plain = action.nargs == 0
    what = " ".join((action.help or "").replace("%%", "%").split())
    is_repeated = isinstance(action, argparse._AppendAction)
    values = None if is_plain else _values(verb, action, words)
    return Argument(tuple(action.option_strings), what, values, is_repeated)


def _values(verb: str, action: argparse.Action, words: Mapping[str, tuple[str, ...]]) -> Values:
    name = action.dest
    if action.choices is not None:
        return Values(tuple(map(str, action.choices)))
    if name == "model":
        return Values(ends=(*_MODELS, "legato") if verb in _COMPILED else _MODELS)
    if name == "output":
        return Values(ends=_OUTPUTS.get(verb, ANY))
    if name == "dump":
        return Values(is_folder=True)
    if action.type is Path and name not in _FILES:
        return Values(ends=ANY)
    return Values(words.get(name, ()), _FILES.get(name, ()))


def _words() -> dict[str, tuple[str, ...]]:
    """The values of arguments that are no choices of the parser's, by argument: stages, passes, machines, engines.
    Where the compiler is not installed, those that loaded programs know."""
    from legato.base.target import TARGETS
    from legato.bench.engines import PEERS
    from legato.cli._generators import KNOWN

    engines = (f"legato-{p.value}" for p in Precision if p is not Precision.DEFAULT)
    found = {"target": ("host", *TARGETS), "vs": (*PEERS, *engines), "generators": tuple(KNOWN)}
    try:
        return {**found, **_passes()}
    except MissingError:
        return found


def _passes() -> dict[str, tuple[str, ...]]:
    from legato.cli.show import BELOW
    from legato.pipelines import BY_PRECISION
    from legato.transform import table

    names = (*table(), "all")
    return {
        "after": (*dict.fromkeys(p.name for steps in BY_PRECISION.values() for p in steps), *BELOW),
        "passes": (*table(), *BY_PRECISION),
        "print_after": names,
        "print_before": names,
    }
