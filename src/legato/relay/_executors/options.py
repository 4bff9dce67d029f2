"""`Executor("graph")` and `Runtime("cpp")`: options of `relay.build`. All of them are the one compiled program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError

__all__ = ["Executor", "Runtime"]

_EXECUTORS: Final = ("graph", "aot")
# Options with what they ask for that holds anyway: weights are in the program, which is called as the original's was.
_HOLDS: Final[Mapping[str, tuple[Any, ...]]] = {
    "link-params": (True, False), "interface-api": ("packed",), "unpacked-api": (False,), "system-lib": (False,),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Executor:
    """How programs shall be run: "graph" or "aot", which are the same here. CompileError for others, and for options
    that cannot be followed."""

    name: str
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.name not in _EXECUTORS:
            raise CompileError(f"there is no executor {self.name!r}", hint=f"there are {', '.join(_EXECUTORS)}")
        _require_options("executor", self.options)


@dataclass(frozen=True, slots=True)
class Runtime:
    """What runs programs: "cpp". CompileError for others, and for options that cannot be followed."""

    name: str
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.name != "cpp":
            raise CompileError(f"there is no runtime {self.name!r}", hint="there is cpp")
        _require_options("runtime", self.options)


def _require_options(what: str, options: Mapping[str, Any] | None) -> None:
    for name, value in (options or {}).items():
        if value not in _HOLDS.get(name, ()):
            hint = f"options with an effect are none; {', '.join(_HOLDS)} may say what holds anyway"
            raise CompileError(f"{what} option {name}={value!r} cannot be followed", hint=hint)
