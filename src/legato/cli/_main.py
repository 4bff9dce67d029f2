"""Reads the arguments, runs the verb, prints its answer or its error."""

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from legato._version import __version__
from legato.base.errors import InternalError, LegatoError, UnsupportedError
from legato.base.spelling import command_line
from legato.cli import bench, cache, check, compile, completion, doctor, opt, profile, run, show, verify
from legato.cli._answer import BUG, FAULT, INTERRUPTED, NO, YES, Answer
from legato.cli._code import take_code, take_ops
from legato.cli._files import require_own_outputs
from legato.cli._progress import progress

__all__ = ["VERBS", "main", "make_parser"]

VERBS: tuple[ModuleType, ...] = (
    check, compile, run, bench, profile, verify, show, opt, doctor, cache, completion,
)  # fmt: skip
_WAITED_FOR = (compile, bench, verify)  # they say what they are at to pipes and files, too

PLEASE = "\n  this is a bug in Legato; please report it"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code; SystemExit with code 2 for arguments that make no sense."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    _show_everything()
    parser = make_parser("--json" in arguments)
    if not arguments:  # somebody looks what there is
        parser.print_help(sys.stderr)
        return FAULT
    args = parser.parse_args(arguments)
    try:
        code = _run(args)
        if sys.stdout is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads our output has seen enough
        _drop_output()
        return YES
    except OSError as error:
        _drop_output()
        print(f"legato: standard output: {error.strerror or error}", file=sys.stderr)
        return FAULT
    return code


def _show_everything() -> None:
    """What an encoding lacks is shown by its number."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What is left of the output has nowhere to go; Python would try once more at its end."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are JSON, too."""

    def error(self, message: str) -> NoReturn:
        verb = self.prog.partition(" ")[2] or None
        print(_json(verb, FAULT, {"error": {"kind": "UsageError", "message": message}}))
        super().error(message)


def _name(verb: ModuleType) -> str:
    return verb.__name__.rpartition(".")[2]


def make_parser(is_json: bool = False) -> argparse.ArgumentParser:
    """The parser of all arguments; with `is_json` its errors are JSON, too."""
    parser = (_Parser if is_json else argparse.ArgumentParser)(
        prog="legato", description="Deep-learning models become fast native programs.",
        epilog="Exit codes: 0 yes, 1 no, 2 wrong usage or input, 3 a bug in Legato.",
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"legato {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb in VERBS:
        doc = (verb.__doc__ or "").strip()  # python -OO has none
        summary, _, rest = doc.partition("\n")
        own = verbs.add_parser(_name(verb), help=summary, description=f"{summary[:1].upper()}{summary[1:]}. {rest}")
        verb.add_arguments(own)
        own.add_argument("--json", action="store_true", help="print one JSON object")
        own.set_defaults(run=verb.run, parser=own, root=parser, waits=verb in _WAITED_FOR)
    return parser


def _run(args: argparse.Namespace) -> int:
    try:
        with progress(f"legato {args.verb}", quiet=args.json, plain=args.waits) as tell, command_line():
            take_code(args)
            take_ops(args)
            require_own_outputs(args)
            answer: Answer = args.run(args, tell)
    except KeyboardInterrupt:
        return _failed(args, INTERRUPTED, "Interrupted", "interrupted by Ctrl-C")
    except InternalError as error:
        return _failed(args, BUG, "InternalError", f"{error}{PLEASE}")
    except LegatoError as error:
        return _failed(args, NO if isinstance(error, UnsupportedError) else FAULT, type(error).__name__, str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return _failed(args, FAULT, type(error).__name__, what)
    except Exception as error:  # the last resort: whatever else arrives here is our fault, and has its own exit code
        traceback.print_exc()
        return _failed(args, BUG, "InternalError", f"{type(error).__name__}: {error}{PLEASE}")
    print(_json(args.verb, answer.code, answer.data) if args.json else answer.text)
    return answer.code


def _failed(args: argparse.Namespace, code: int, kind: str, message: str) -> int:
    message = message.removeprefix("error: ")
    print(f"legato: {message}", file=sys.stderr)
    if args.json:
        print(_json(args.verb, code, {"error": {"kind": kind, "message": message}}))
    return code


def _json(verb: str | None, code: int, data: dict[str, Any]) -> str:
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    answer = {"legato": __version__, "verb": verb, "exit": code, **data}
    return json.dumps(answer, ensure_ascii=encoding != "utf8")
