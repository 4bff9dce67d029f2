"""The arrays of a training run as a safetensors file, under their names in the step's program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from legato.base.errors import ArtifactError, ParseError
from legato.base.files import open_regular, replace_file
from legato.ir.files import tensor_bytes, tensors_of

__all__ = ["read", "write"]

Array = np.ndarray[Any, Any]


def write(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes `arrays`, replacing the file only when all is on the disk; ArtifactError if that fails."""
    data = tensor_bytes(arrays)
    try:
        replace_file(path, lambda temporary: temporary.write_bytes(data))
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error


def read(path: Path, like: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays that `write` wrote, as many and of the same names, dtypes and shapes as those of `like`.

    ArtifactError for any other file.
    """
    try:
        with open_regular(path) as file:
            found = tensors_of(file.read(), path)
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from error
    except ParseError as error:
        raise ArtifactError(error.message) from error
    missing, others = sorted(like.keys() - found.keys()), sorted(found.keys() - like.keys())
    if missing or others:
        parts = [f"{what} {', '.join(names)}" for what, names in (("lacks", missing), ("has", others)) if names]
        raise ArtifactError(f"{path} is of another training: it {' and '.join(parts)}")
    for name in like:
        array = found[name]
        if (array.dtype, array.shape) != (like[name].dtype, like[name].shape):
            raise ArtifactError(
                f"{path} is of another training: {name} is {array.dtype}{list(array.shape)} there, "
                f"{like[name].dtype}{list(like[name].shape)} here"
            )
    return {name: found[name].copy() for name in like}
