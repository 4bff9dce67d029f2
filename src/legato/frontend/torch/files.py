"""PyTorch's files: programs of torch.export (.pt2), and modules of TorchScript (.pt, .pth).

A .pt2 file is checked, then read here (`archive`). PyTorch's reader of TorchScript is C++ that is not made for files of
strangers: it runs in a process of its own (`reader`), within limits of time and memory, and what comes back is Legato's
JSON with weights beside. Pickles are refused, whatever their names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from legato.base import errors
from legato.base.errors import CompileError, ImportModelError, UnsupportedError
from legato.base.files import open_regular
from legato.base.span import Span
from legato.frontend.torch import limits
from legato.ir.files import load_json_file

if TYPE_CHECKING:
    from legato.ir.module import Module
    from legato.ir.op import Op

__all__ = ["load_file"]

_KINDS: Final = {"ImportModelError": ImportModelError, "UnsupportedError": UnsupportedError}


def load_file(
    path: Path,
    *,
    shapes: Mapping[str, Sequence[int | str | None]] | None,
    custom: Mapping[str, Callable[..., Any]] | None,
    ops: Mapping[str, Op],
) -> Module:
    """The module of a file, its weights constants. `shapes`: of the arguments of a module of TorchScript, by name; the
    last entry may be a dtype (float32 otherwise)."""
    if find_spec("torch") is None:
        raise ImportModelError(
            f"{path} is a file of PyTorch, which is not installed", hint='pip install "legato[torch]"'
        )
    try:
        open_regular(path).close()
    except OSError as error:
        raise ImportModelError(f"{path}: {error.strerror or error}") from None
    if path.suffix == ".pt2":
        from legato.frontend.torch.archive import load_program
        from legato.frontend.torch.exported import import_program

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of PyTorch's code, to itself
            return import_program(load_program(path), custom=custom, frozen=True)[0]
    if custom:
        raise CompileError("converters of your own are for exported programs", hint="export the module to a .pt2 file")
    with tempfile.TemporaryDirectory(prefix="legato-") as folder:
        _read(path, shapes or {}, Path(folder))
        return load_json_file(Path(folder) / "module.json", ops=ops)


def _read(path: Path, shapes: Mapping[str, Any], folder: Path) -> None:
    """Has a process write `module.json` into a folder; raises what it says instead."""
    command = [sys.executable, "-P", "-m", "legato.frontend.torch.reader", os.path.abspath(path), str(folder)]
    request = json.dumps({"shapes": {k: list(v) for k, v in shapes.items()}, "memory": limits.MAX_MEMORY})
    try:
        done = subprocess.run(
            command, input=request, capture_output=True, text=True, timeout=limits.MAX_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ImportModelError(f"{path}: reading it takes more than {limits.MAX_SECONDS} s") from None
    if done.returncode == 0 and (folder / "module.json").exists():
        return
    try:
        fault = json.loads((folder / "fault.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        raise ImportModelError(f"{path}: the process that reads it ended: {last:.200}") from None
    kind = _KINDS.get(fault["kind"], errors.ImportModelError)
    span = None if fault["at"] is None else Span(*fault["at"])
    raise kind(f"{path}: {fault['message']}", span=span, hint=fault["hint"])
