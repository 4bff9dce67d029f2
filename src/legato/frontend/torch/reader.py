"""Reads a file of TorchScript, in a process of its own: `python -m legato.frontend.torch.reader FILE FOLDER`.

Standard input has, in JSON, the shapes of the arguments and the limit of memory. Into the folder goes `module.json`,
with the weights beside it, or `fault.json`: why there is none.
"""

from __future__ import annotations

import ctypes
import json
import resource
import signal
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from legato.base.dtype import BY_NAME
from legato.base.errors import CompileError, ImportModelError, UnsupportedError

__all__ = ["main"]

_SET_PARENT_DEATH_SIGNAL = 1


def main(path: str, folder: str) -> None:
    """Writes the module of a file, or why there is none."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    request = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from legato.ir.files import save_json_file

    try:
        save_json_file(_module(path, request["shapes"]), Path(folder) / "module.json")
    except CompileError as error:
        span = error.span
        fault = {
            "kind": "UnsupportedError" if isinstance(error, UnsupportedError) else "ImportModelError",
            "message": error.message,
            "at": None if span is None else [span.source, span.line, span.column],
            "hint": error.hint,
        }
        Path(folder, "fault.json").write_text(json.dumps(fault), encoding="utf-8")


def _module(path: str, shapes: Mapping[str, Sequence[Any]]) -> Any:
    import torch

    from legato.frontend.torch.script.importer import import_script

    if not _is_script(path):
        raise _refusal(path)
    try:
        script = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise ImportModelError(f"PyTorch does not read it: {first:.200}") from None
    names = [v.debugName().partition(".")[0] for v in list(script.graph.inputs())[1:]]
    if set(names) != set(shapes):
        given = f"{', '.join(shapes)} are given" if shapes else "none are given"
        example = " ".join(f"--shape {name}=1,3" for name in names)
        hint = f"the arguments are {', '.join(names)}: {example}; behind the dims may be a dtype, as in ids=1,8,int64"
        raise ImportModelError(f"the file does not have the shapes of its arguments, and {given}", hint=hint)
    return import_script(script, [(name, _info(name, shapes[name])) for name in names])


def _info(name: str, dims: Sequence[Any]) -> Any:
    """The shape and the dtype that a list says."""
    *before, last = dims or [None]
    dtype, shape = (last, before) if isinstance(last, str) and last in BY_NAME else ("float32", list(dims))
    if any(d is None or (isinstance(d, str) and not d.isidentifier()) for d in shape):
        raise ImportModelError(f"the shape of {name}: wanted numbers and names of dims, got {list(dims)}")
    return tuple(shape), dtype


def _is_script(path: str) -> bool:
    """Whether a file has code of TorchScript."""
    try:
        with zipfile.ZipFile(path) as archive:
            inner = {name.partition("/")[2] for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError):
        return False
    return "constants.pkl" in inner and any(name.startswith("code/") for name in inner)


def _refusal(path: str) -> UnsupportedError:
    """Why a file without a program is refused. Only tensors in plain containers are read, to say so."""
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:
        hint = "if you trust it: legato.compile(torch.load(path, weights_only=False).eval(), args=…)"
        return UnsupportedError("a pickle, or no file of PyTorch: a pickle could run code when it is read", hint=hint)
    what = f"{len(found)} entries" if isinstance(found, dict) else f"a {type(found).__name__}"
    hint = (
        "make the module, module.load_state_dict(torch.load(path, weights_only=True)), "
        "then legato.compile(module.eval(), args=…)"
    )
    return UnsupportedError(f"weights without a program ({what})", hint=hint)


if __name__ == "__main__":
    main(*sys.argv[1:])
