"""The ONNX file of a row, made once for each way to make it."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch

from tools.zoo.build import built
from tools.zoo.table import Architecture

__all__ = ["ExportError", "exported"]

OPSET: Final = 18
REVISION: Final = 1  # of how modules are built and exported: a new number makes all files again


class ExportError(Exception):
    """PyTorch, or the package, cannot make the file."""


def exported(row: Architecture, folder: Path) -> Path:
    """The file of a row in `folder`, which is made where it is not there; ExportError where it cannot be."""
    recipe = hashlib.sha256(repr((row, torch.__version__, OPSET, REVISION)).encode()).hexdigest()[:12]
    path = folder / f"{row.name}.{recipe}.onnx"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{row.name}.*"):
        old.unlink()
    unfinished = path.with_suffix(".part")
    try:
        _export(row, unfinished)
    except Exception as error:  # whatever exporters raise
        unfinished.unlink(missing_ok=True)
        first = str(error).strip().partition("\n")[0]
        raise ExportError(f"{type(error).__name__}: {first}") from error
    return unfinished.rename(path)


def _export(row: Architecture, path: Path) -> None:
    module, inputs = built(row)
    common: dict[str, Any] = {"input_names": list(row.inputs), "opset_version": OPSET, "verbose": False}
    more: dict[str, Any] = {"external_data": False} if row.exporter == "dynamo" else {}
    with warnings.catch_warnings(), _plain_attention(), torch.no_grad():
        warnings.simplefilter("ignore")  # what exporters say of their future
        torch.onnx.export(module, tuple(inputs.values()), path, dynamo=row.exporter == "dynamo", **common, **more)


@contextlib.contextmanager
def _plain_attention() -> Iterator[None]:
    """nn.MultiheadAttention by the operators that it is defined by: its fast path has no ONNX operator."""
    was = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was)
