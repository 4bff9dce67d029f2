"""`--on ssh://HOST`: what a verb does with a program on another machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from legato.base.errors import RunError
from legato.cli import _arguments
from legato.cli._answer import Tell
from legato.remote.place import Place, place

if TYPE_CHECKING:
    from legato.remote import Connection, Reply

__all__ = ["add_on", "done_there"]


def add_on(parser: argparse.ArgumentParser) -> None:
    """Where to do it."""
    parser.add_argument(
        "--on",
        type=_place,
        metavar="URL",
        help="on another Linux machine with x86-64, by ssh: ssh://HOST, ssh://USER@HOST:PORT, or with a Python there "
        "that has NumPy, ssh://HOST/opt/venv/bin/python3; a model is compiled here, --target host being that machine",
    )


def _place(text: str) -> Place:
    try:
        return place(text)
    except RunError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def done_there(args: argparse.Namespace, tell: Tell, **job: Any) -> tuple[Reply, dict[str, Any]]:
    """What the machine of --on answers, and facts about it: its name, its CPU, what the program was compiled for.

    job: `rounds` and `block` of a measurement, none for a call.
    """
    from legato.remote import Connection
    from legato.runtime.artifact import target_of

    given = None if args.input is None else _arguments.read_arrays(args.input)
    if _arguments.is_artifact(args.model):
        _arguments.refuse(args, f"{args.model} is compiled already", *_arguments.OF_MODELS)
        _arguments.refuse(args, "--on sends the program alone", "ops")
        target_of(args.model)  # no artifact: an error before anybody is called
    wanted = {"fill": args.fill, "dims": dict(args.dim), "seed": args.seed, "threads": args.threads}
    tell(f"calling {args.on}")
    with TemporaryDirectory(prefix="legato-on-") as folder, Connection(args.on) as there:
        artifact = _artifact(args, there, Path(folder), tell)
        facts = {"on": str(args.on), "machine": there.cpu, "target": target_of(artifact)}
        return there.run(artifact, {"rounds": 0, "block": 0.0, **wanted, **job}, given, tell), facts


def _artifact(args: argparse.Namespace, there: Connection, folder: Path, tell: Tell) -> Path:
    """The file of a program that runs there: the one that was given, or that of the model, compiled here."""
    from legato.base.target import target
    from legato.runtime.artifact import target_of

    if _arguments.is_artifact(args.model):
        there.require_target(target_of(args.model), args.model)
        return Path(args.model)
    name = there.target.name if args.target == "host" else target(args.target).name
    there.require_target(name, args.model)
    args.target = name
    path = folder / f"{Path(args.model).stem}.legato"
    _arguments.executable(args, tell).save(path)
    return path
