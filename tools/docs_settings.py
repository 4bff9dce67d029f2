"""docs/settings.md: every setting, written from where it is read: the environment, `legato.compile`, the command line.

python -m tools.docs_settings            writes it
python -m tools.docs_settings --check    says whether it is not as it would be written
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import legato
from legato.base.config import TOOLS, Config
from legato.cli import VERBS
from legato.cli._main import make_parser
from tools.docs_ops import cell

__all__ = ["PAGE", "environment", "flags", "main", "options", "page"]

PAGE: Final = Path(__file__).parents[1] / "docs" / "settings.md"
WRITTEN: Final = "<!-- written by `python -m tools.docs_settings` from the sources -->"
_FIELD: Final = re.compile(r"^    (\w+): \w+ = .*?  # (.*)$", re.MULTILINE)
_ENTRY: Final = re.compile(r"(?:^|(?<=[;.]\s)|(?<=\n))([a-z_]+(?:, [a-z_]+)*):\s+")
_ELSEWHERE: Final = {  # what others define, and Legato reads
    "XDG_CACHE_HOME": "the folder in which the kernel cache lies, in `legato`, where `LEGATO_CACHE_DIR` is not set",
    "OMP_PROC_BIND": "and its like (`GOMP_CPU_AFFINITY`, `KMP_AFFINITY`): where OpenMP binds the calling thread, the "
    "pool has the CPUs of all threads of the process ([threads](running.md#threads))",
    "NO_COLOR": "no colours on a terminal",
}


def environment() -> Mapping[str, tuple[str, str]]:
    """The variables LEGATO_…, each with its default and what it means: the comments of `Config`."""
    told = dict(_FIELD.findall(inspect.getsource(Config)))
    return {f"LEGATO_{f.name.upper()}": (_of_environment(f.default), told[f.name]) for f in fields(Config)}


def options() -> Mapping[str, tuple[str, str]]:
    """The options of `legato.compile`, each with its default and what its docstring says."""
    text = inspect.cleandoc(legato.compile.__doc__ or "").partition("\n\nRaises")[0]
    parts = _ENTRY.split(text)
    told = {name: " ".join(what.split()).rstrip(";") for names, what in zip(parts[1::2], parts[2::2], strict=True)
            for name in names.split(", ")}  # fmt: skip
    given = inspect.signature(legato.compile).parameters.values()
    return {p.name: (_default(p.default), told[p.name]) for p in given if p.name != "model"}


def _of_environment(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else _default(value)


def _default(value: Any) -> str:
    return "" if value is None or value == () or value is inspect.Parameter.empty else str(value)


def flags() -> Mapping[tuple[str, str], tuple[str, list[str]]]:
    """The flags of the command line: by how each is written, and what it means, its default and the verbs."""
    found: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for verb, own in _parsers().items():
        for action in own._actions:
            if action.option_strings:
                key = (_written(action), " ".join((action.help or "").replace("%%", "%").split()))
                found.setdefault(key, (_shown(action.default), []))[1].append(verb)
    return found


def _parsers() -> Mapping[str, argparse.ArgumentParser]:
    found = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(next(found).choices)


def _written(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    return f"{names} {action.metavar or ('|'.join(action.choices) if action.choices else action.dest.upper())}"


def _shown(default: Any) -> str:
    return "" if default in (None, False, "", argparse.SUPPRESS) or default == [] else str(default)


def page() -> str:
    """The page."""
    lines = ["# Settings", "", WRITTEN, "", "All settings, by where they are given. What is said in a call or on the "
             "command line comes before the environment.", "", "## Environment", ""]  # fmt: skip
    lines += ["Read once, when they are first needed. A variable `LEGATO_…` that is none of these is an error, as is "
              "a value of another kind.", "", "| variable | default | meaning |", "|---|---|---|"]  # fmt: skip
    lines += [f"| `{name}` | {default and f'`{default}`'} | {cell(what)} |"
              for name, (default, what) in environment().items()]  # fmt: skip
    lines += [f"| `{name}` | | {cell(what)} |" for name, what in _ELSEWHERE.items()]
    tools = ", ".join(f"`LEGATO_{name}`" for name in TOOLS)
    lines += ["", f"Tests and tools, not the package, read {tools}.", "", "## `legato.compile`", ""]
    lines += [_loading(), "", "| option | default | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {default and f'`{default}`'} | {cell(what)} |"
              for name, (default, what) in options().items()]  # fmt: skip
    lines += ["", "Passes have options of their own: `legato opt --list` ([passes](passes.md)).", ""]
    lines += ["## Command line", "", "| flag | default | verbs | meaning |", "|---|---|---|---|"]
    for (written, what), (default, verbs) in sorted(flags().items(), key=lambda item: item[0][0].lstrip("-").lower()):
        where = "all" if len(verbs) == len(VERBS) else ", ".join(f"`{verb}`" for verb in verbs)
        lines.append(f"| `{cell(written)}` | {default and f'`{default}`'} | {where} | {cell(what)} |")
    return "\n".join(lines) + "\n"


def _loading() -> str:
    shared = [f"`{name}`" for name in inspect.signature(legato.load).parameters if name in options()]
    return f"`legato.load` has {', '.join(shared[:-1])} and {shared[-1]}, with the same meaning."


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the page, or with --check says whether it is stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs_settings", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page is not current")
    check, made = parser.parse_args(argv).check, page()
    is_stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made
    if is_stale:
        print(PAGE)
    if is_stale and not check:
        PAGE.write_text(made, encoding="utf-8")
    return int(check and is_stale)


if __name__ == "__main__":
    sys.exit(main())
