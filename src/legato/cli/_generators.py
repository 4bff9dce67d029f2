"""Code generators of others on the command line: by name, or made by a file of code."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from legato.base.errors import CompileError
from legato.cli import _arguments
from legato.cli._code import run_file

if TYPE_CHECKING:
    from legato.ir.module import Module

__all__ = ["KNOWN", "add_generators", "take_generators"]

KNOWN: Final = {"c": "CSource", "onnxruntime": "OnnxRuntime"}


def add_generators(parser: argparse.ArgumentParser) -> None:
    """Who compiles, and runs, parts of the model."""
    parser.add_argument(
        "--generators", action="append", default=[], metavar="G",
        help="what this code generator takes of the model, it compiles and runs: c, onnxruntime, or FILE.py, code to "
        "run that makes some; may be given several times: the first that takes a call gets it",
    )  # fmt: skip


def take_generators(args: argparse.Namespace) -> tuple[Any, ...]:
    """The generators of --generators, in order. Where there are some, the model, cut for them, is put into
    `args.program`, with shapes and constants as the arguments say; sizes of dims are left in `args.shape`.

    CompileError for a name that there is not, and a file without any.
    """
    if not args.generators:
        return ()
    from legato.driver import split_shapes
    from legato.runtime.engines import by_name

    found = tuple(by_name([made for given in args.generators for made in _made(given)]).values())
    if not _arguments.is_artifact(args.model):
        shapes, sizes = split_shapes(_arguments.program(args), _arguments.shapes(args))
        args.program = _cut(_arguments.loaded(args, shapes), found)
        args.shape, args.constant = list(sizes.items()), []
    return found


def _made(given: str) -> Sequence[Any]:
    if given in KNOWN:
        from legato import generators

        return [getattr(generators, KNOWN[given])()]
    if not given.endswith(".py"):
        raise CompileError(f"there is no code generator {given!r}", hint=f"{', '.join(KNOWN)}, or FILE.py")
    values = vars(run_file(Path(given))).values()
    found = {id(v): v for v in values if not isinstance(v, type | ModuleType) and _is_generator(v)}
    if not found:
        hint = "an object with a name (text) and a method compile(function)"
        raise CompileError(f"{given} makes no code generator", hint=hint)
    return list(found.values())


def _is_generator(value: Any) -> bool:
    return isinstance(getattr(value, "name", None), str) and callable(getattr(value, "compile", None))


def _cut(mod: Module, generators: Sequence[Any]) -> Module:
    """`mod` cut into what the generators take and the rest; as it is where it is cut already."""
    from legato.generators import partition
    from legato.ir.scope import post_order
    from legato.transform._external import is_external
    from legato.transform.infer_types import InferTypes

    nodes = (node for _, f in mod.graph_functions() for node in (f, *post_order(f.body)))
    return mod if any(map(is_external, nodes)) else partition(InferTypes()(mod), generators)
