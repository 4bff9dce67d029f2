"""What verbs write: files that appear complete or not at all, and never in the place of what was read."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from legato.base.errors import CompileError
from legato.base.files import open_regular, replace_file
from legato.cli._arguments import is_artifact

if TYPE_CHECKING:
    import numpy as np

__all__ = ["require_apart", "require_artifact_or_nothing", "require_own_outputs", "write_arrays", "write_text"]

_OUTPUTS = ("output", "trace", "html", "dot", "svg")  # arguments that name files to write


def require_own_outputs(args: argparse.Namespace) -> None:
    """CompileError where a file that would be written is one that is read, and for a page on standard output."""
    for name in _OUTPUTS:
        output = getattr(args, name, None)
        if output is not None:
            require_apart(output, args)
        if name == "html" and str(output) == "-":
            raise CompileError("--html - would be a file called -: a page is not printed", hint="--html page.html")


def require_apart(output: Path, args: argparse.Namespace) -> None:
    """CompileError where `output` is a file that is read: under this name, or another."""
    for path in _read(args):
        if _is_same(output, path) or _is_same(output, Path(f"{path}.safetensors")):
            raise CompileError(f"{output} is read: it would be replaced", hint="name another file")
    if isinstance(model := getattr(args, "model", None), Path) and output.is_file():
        _require_no_weights(output, model)


def _require_no_weights(output: Path, model: Path) -> None:
    """CompileError where the file `output` has weights of a model in ONNX. A model that cannot be read says so later,
    before anything is written."""
    if is_artifact(model):
        return
    from legato.driver import is_onnx

    if not is_onnx(model):
        return
    from legato.frontend.onnx.reader import data_files

    if any(_is_same(output, model.parent / name) for name in data_files(model)):
        raise CompileError(f"{output} has weights of {model}: it would be replaced", hint="name another file")


def _read(args: argparse.Namespace) -> Iterator[Path]:
    """The files that are read."""
    for name in ("model", "input"):
        if isinstance(path := getattr(args, name, None), Path):
            yield path
    for name in ("ops", "use"):
        yield from getattr(args, name, ())
    yield from (Path(given) for given in getattr(args, "generators", ()) if given.endswith(".py"))  # others are names
    yield from (Path(value) for _, value in getattr(args, "constant", ()) if isinstance(value, str))


def _is_same(a: Path, b: Path) -> bool:
    try:
        return a.is_file() and os.path.samefile(a, b)
    except (OSError, ValueError):
        return False


def require_artifact_or_nothing(output: Path) -> None:
    """CompileError where `output` is a file of another kind, such as one that a model keeps its weights in."""
    from legato.runtime.artifact import MAGIC

    if not os.path.isfile(output) or not os.path.getsize(output):
        return
    with open_regular(output) as file:
        if file.read(len(MAGIC)) == MAGIC:
            return
    hint = "remove it, or name another file"
    raise CompileError(f"{output} is no compiled program: it would be replaced by one", hint=hint)


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8; OSError where that fails."""
    replace_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a .npz file (under exactly this name), codes as bytes; OSError where that fails,
    RunError for strings that such a file would change."""
    import numpy as np

    from legato.base.codes import stored

    known = {name: stored(array, name) for name, array in arrays.items()}

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **known)

    replace_file(path, write)
