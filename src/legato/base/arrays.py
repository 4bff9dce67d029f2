"""Arrays from outside: what NumPy makes of a value, where nothing that the value says is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from legato.base.dtype import BY_NAME, DType, bfloat16
from legato.base.errors import LegatoError, RunError

__all__ = ["as_array", "kind_of", "materialized", "viewed"]

Error = Callable[[str], LegatoError]  # the error of a message, a class of errors above all
_PROTOCOLS: Final = ("__array_interface__", "__array_struct__", "__array__")


def as_array(value: Any, what: str = "an argument", error: Error = RunError) -> np.ndarray[Any, Any]:
    """`value` (an array, a number, a tensor of another library) as an array, without a copy where that is possible.

    As `materialized` has it; an `error` that begins with `what` for what NumPy refuses, too.
    """
    value = materialized(value, what, error)
    try:
        return np.asarray(value)
    except Exception as reason:  # of whoever made the value
        raise error(f"{what} is no array, but a {type(value).__name__}: {reason}") from reason


def viewed(value: Any, what: str, error: Error = RunError) -> np.ndarray[Any, Any] | None:
    """`value` as an array over the same memory, by DLPack or NumPy's protocols; None if it is no array of any library,
    as lists and numbers, which have no dtype of their own.

    As `materialized` has it; an `error` that begins with `what` where it gives none, too.
    """
    value = materialized(value, what, error)
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, type):
        return None
    if hasattr(value, "__dlpack__"):
        narrow = _torch_dtype(value)
        try:
            return np.from_dlpack(value) if narrow is None else np.from_dlpack(_bits(value)).view(narrow.numpy)
        except Exception as reason:  # of whoever made it
            raise error(f"{what}: this {kind_of(value)} gives no CPU array by DLPack: {reason}") from reason
    if not any(hasattr(value, protocol) for protocol in _PROTOCOLS):
        return None
    try:
        return np.asarray(value)
    except Exception as reason:
        raise error(f"{what}: this {kind_of(value)} gives no array: {reason}") from reason


def _torch_dtype(value: Any) -> DType | None:
    """The dtype of a tensor of torch, if NumPy's DLPack does not have it: bfloat16 and the floats of 8 bits."""
    tensor_class = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor_class is None or not isinstance(value, tensor_class):
        return None
    found = BY_NAME.get(str(value.dtype).removeprefix("torch."))
    return found if found is not None and (found.is_storage or found is bfloat16) else None


def _bits(tensor: Any) -> Any:
    """A tensor's memory as integers; BufferError for one that gradients flow through, as PyTorch has it for others."""
    torch = sys.modules["torch"]
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    return tensor.view(torch.int16 if tensor.dtype.itemsize == 2 else torch.uint8)


def kind_of(value: object) -> str:
    """What a value is, in short: the library and the class."""
    cls = type(value)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__.partition('.')[0]}.{cls.__name__}"


def materialized(value: Any, what: str, error: Error = RunError) -> Any:
    """`value` with all that it stands for: tensors of torch that are negated or conjugated lazily have their values.

    An `error` that begins with `what` for arrays with masked elements, whose mask NumPy would drop, and for tensors
    whose class keeps their data elsewhere, or has none: there NumPy would take whatever lies at an address.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise error(f"{what} has masked elements, which an array has not; x.filled(0) gives them values")
    tensor_class = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor_class is None or not isinstance(value, tensor_class):
        return value
    if type(value).__torch_dispatch__ is not tensor_class.__torch_dispatch__:
        raise error(f"{what} is a {type(value).__name__}, which only stands for a tensor: it has no data of its own")
    return value.resolve_conj().resolve_neg()
