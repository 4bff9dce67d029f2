"""Parameters as bytes: named arrays, in the safetensors format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from legato.base.arrays import as_array
from legato.base.errors import ArtifactError, ParseError
from legato.ir._json_checks import Bad
from legato.ir._relay_metadata import arrays_of, is_params
from legato.ir.files import tensors_of

__all__ = ["load_param_dict", "save_param_dict"]

Array = np.ndarray[Any, Any]


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Named arrays as bytes; ArtifactError for what is not an array of numbers.

    (Another format than TVM's, which is read, too.)
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save

    try:
        return save(
            {
                name: np.asarray(as_array(value, f"parameter {name!r}", ArtifactError), order="C")
                for name, value in params.items()
            }
        )
    except SafetensorError as error:
        raise ArtifactError(f"these parameters cannot be saved: {error}") from error


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, Array]:
    """The arrays that `save_param_dict` wrote, here or in TVM; ArtifactError for other bytes."""
    raw = bytes(param_bytes)
    try:
        return arrays_of(raw) if is_params(raw) else tensors_of(raw, "the data")
    except (ParseError, Bad) as error:
        raise ArtifactError(f"these bytes hold no parameters: {error}") from error
