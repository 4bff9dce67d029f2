"""the kernel cache: what is in it, or empty it"""

from __future__ import annotations

import argparse
from pathlib import Path

from legato.cli._answer import Answer, Tell, counted, size

__all__ = ["add_arguments", "entries", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do."""
    parser.add_argument("action", choices=("ls", "clear"), help="ls: how much is there; clear: remove all of it")


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """Counts the kernels, and removes them if so told."""
    from legato.base.config import config

    folder, found = config().kernel_cache, entries()
    total = sum(entry.stat().st_size for entry in found)
    if args.action == "clear":
        for entry in found:
            entry.unlink(missing_ok=True)
    verb = "removed" if args.action == "clear" else "holds"
    data = {"folder": str(folder), "kernels": len(found), "bytes": total, "action": args.action}
    return Answer(data, f"{folder}: {verb} {counted(len(found), 'kernel')}, {size(total)}")


def entries() -> list[Path]:
    """The files of the cache."""
    from legato.base.config import config

    return sorted(config().kernel_cache.glob("*.bin"))
