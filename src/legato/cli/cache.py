"""the kernel cache: what is in it, or empty it"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from legato.cli._answer import Answer, Tell, counted, size

__all__ = ["add_arguments", "entries", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do."""
    parser.add_argument("action", choices=("ls", "clear"), help="ls: how much is there; clear: remove all of it")


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """Counts the kernels, and removes them if so told."""
    folder, problem = where()
    found = entries()
    total = sum(found.values())
    if args.action == "clear":
        for entry in [*found, *_files("*.tmp")]:
            entry.unlink(missing_ok=True)
    verb = "removed" if args.action == "clear" else "holds"
    data = {"folder": folder, "problem": problem, "kernels": len(found), "bytes": total, "action": args.action}
    return Answer(data, f"{problem or folder}: {verb} {counted(len(found), 'kernel')}, {size(total)}")


def where() -> tuple[str | None, str | None]:
    """The folder of the cache, and why it is not used, if it is not."""
    from legato.base.config import config
    from legato.codegen.cache import objection

    folder = config().kernel_cache
    if folder is None:
        return None, "no kernel cache: there is no home folder, and LEGATO_CACHE_DIR names none"
    problem = objection(folder)
    return str(folder), None if problem is None else f"the kernel cache is not used: {problem}"


def entries() -> dict[Path, int]:
    """The files of the cache, and the bytes of each. Other processes may remove them at any time."""
    found = {}
    for entry in _files("*.bin"):
        with suppress(FileNotFoundError):
            found[entry] = entry.stat().st_size
    return found


def _files(pattern: str) -> list[Path]:
    from legato.base.config import config

    folder = config().kernel_cache
    return [] if folder is None else sorted(folder.glob(pattern))
