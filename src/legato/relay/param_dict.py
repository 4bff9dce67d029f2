"""Parameters as bytes: named arrays, in the safetensors format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from legato.base.errors import ArtifactError

__all__ = ["load_param_dict", "save_param_dict"]

Array = np.ndarray[Any, Any]


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Named arrays as bytes. (Another format than TVM's, whose files cannot be read.)"""
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(value) for name, value in params.items()})


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, Array]:
    """The arrays that `save_param_dict` wrote; ArtifactError for other bytes."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(bytes(param_bytes))
    except SafetensorError as error:
        raise ArtifactError(f"these bytes hold no parameters: {error}") from error
