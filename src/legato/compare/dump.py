"""Tensors as files: a .npy file for each, and a manifest that says what they are.

    manifest.json      {"format": "legato tensors", "version": 1, "inputs": […], "tensors": […], "outputs": […]}
    0003-x2.npy        an entry's "file"; others: "name", "type", of tensors "operators", "inputs", "place"

Files of type bfloat16, and of those of less than 16 bits, hold float32, which has all their values: NumPy would write
bytes of nothing in particular.
The manifest is written last: where there is one, everything that it names is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from legato.base.dtype import BY_NAME, dtype
from legato.base.errors import CompileError
from legato.base.files import replace_file
from legato.base.strings import as_stored
from legato.compare.tensors import Step

__all__ = ["MANIFEST", "require_new", "write_dump"]

MANIFEST: Final = "manifest.json"
_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST: Final = 80  # characters of a tensor's name in that of its file


def require_new(folder: Path) -> None:
    """CompileError where `folder` is there and has something in it, which would be mixed with what is written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CompileError(f"{folder} is there already", hint="name a folder that is new, or empty")


def write_dump(
    folder: Path,
    inputs: Mapping[str, Any],
    steps: Sequence[Step],
    tensors: Mapping[str, np.ndarray[Any, Any]],
    outputs: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Writes inputs, tensors and outputs of one call into a folder; the entries of the tensors.

    Values of data types have no files. OSError where writing fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    count = 0

    def entry(name: str, value: Any) -> dict[str, Any]:
        nonlocal count
        array = np.asarray(value)
        kind = array.dtype if array.dtype.kind == "V" else dtype(array.dtype)
        count += 1
        file = f"{count:04d}-{_ODD.sub('_', name)[:_LONGEST]}.npy"
        readable = _readable(array, name)
        with open(folder / file, "wb") as out:
            np.save(out, readable, allow_pickle=False)
        return {"name": name, "type": f"{kind}{list(array.shape)}", "file": file}

    given = [entry(name, value) for name, value in inputs.items() if isinstance(value, np.ndarray)]
    between = [
        {
            **entry(t.name, tensors[t.name]),
            "operators": list(step.operators),
            "inputs": [i.name for i in step.inputs],
            "place": step.place,
        }
        for step in steps
        for t in step.outputs
    ]
    results = [entry(name, value) for name, value in outputs.items() if isinstance(value, np.ndarray)]
    manifest = {"format": "legato tensors", "version": 1, "inputs": given, "tensors": between, "outputs": results}
    text = json.dumps(manifest, indent=1)
    replace_file(folder / MANIFEST, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return between


def _readable(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """`array` in a dtype that NumPy's files know."""
    found = BY_NAME.get(array.dtype.name)
    is_narrow = found is not None and found.kind in ("bfloat", "storage")
    return array.astype(np.float32) if is_narrow else as_stored(array, name)
