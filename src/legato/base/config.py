"""The one frozen configuration and the only reader of the environment."""

from __future__ import annotations

import os
from dataclasses import fields
from functools import cache
from pathlib import Path

from legato.base.dataclass import dataclass
from legato.base.errors import LegatoError

__all__ = ["Config", "config"]


def _cache_dir() -> Path | None:
    """Where caches are kept; None where nobody says: a user without a home."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    home = Path(os.path.expanduser("~"))
    folder = named if named.is_absolute() else home / ".cache"
    return folder / "legato" if folder.is_absolute() else None


@dataclass(frozen=True, slots=True)
class Config:
    """Settings; each field is read from `LEGATO_<NAME>` once per process."""

    cache_dir: str = ""  # where compiled kernels are kept; empty: legato in $XDG_CACHE_HOME or ~/.cache
    cache_bytes: int = 1 << 30  # the kernel cache is pruned to this size; 0 turns it off
    threads: int = 0  # threads of the pool; 0: from affinity and the cgroup quota
    jobs: int = 0  # compile workers; 0: as many as cores
    target: str = ""  # what "host" stands for; empty: the best that this machine runs
    verify: bool = False  # verify the module after every pass
    bounds: bool = False  # every access of compiled programs is tested when they run; one outside is an InternalError
    time_passes: bool = False  # print the time of every pass to stderr
    print_before: str = ""  # comma-separated pass names whose input is printed to stderr; "all" for every pass
    print_after: str = ""  # comma-separated pass names whose output is printed to stderr; "all" for every pass
    dump_dir: str = ""  # write the IR after every pass there

    @property
    def kernel_cache(self) -> Path | None:
        """The folder of the kernel cache; None if there is none."""
        return Path(self.cache_dir) if self.cache_dir else _cache_dir()


# Names behind LEGATO_ that tests and tools read, not the package.
TOOLS = ("FUZZ", "HEAVY", "MODELS", "MUTANTS", "SANITIZED")
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


def _read(name: str, kind: type, default: object) -> object:
    text = os.environ.get(f"LEGATO_{name.upper()}")
    if text is None:
        return default
    if kind is bool and text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    if kind is int and text.strip().isdigit():
        return int(text)
    if kind is str:
        return text
    wanted = "0 or 1" if kind is bool else "a non-negative integer"
    raise LegatoError(f"environment variable LEGATO_{name.upper()}: got {text!r}, wanted {wanted}")


def _require_known() -> None:
    """LegatoError for a setting that there is not: one that is misspelt would do nothing."""
    known = {*(f.name.upper() for f in fields(Config)), *TOOLS}
    for name in os.environ:
        own = name.removeprefix("LEGATO_")
        if own != name and own not in known:
            from difflib import get_close_matches  # only for mistakes

            close = get_close_matches(own, known, 1)
            hint = (
                f"did you mean LEGATO_{close[0]}?" if close else f"there are LEGATO_{', LEGATO_'.join(sorted(known))}"
            )
            raise LegatoError(f"environment variable {name}: there is no such setting\n  hint: {hint}")


@cache
def config() -> Config:
    """The configuration of this process; LegatoError for a setting with another value than it may have, or unknown."""
    _require_known()
    return Config(**{f.name: _read(f.name, type(f.default), f.default) for f in fields(Config)})  # type: ignore[arg-type]  # _read keeps each field's type
