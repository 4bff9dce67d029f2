"""Runs compiled programs. Imports nothing of the compiler: NumPy and `legato.base` are enough."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from legato.base.codes import decode, encode
from legato.runtime.artifact import verify_file
from legato.runtime.binding import cpu_count
from legato.runtime.datatypes import ConstructorInfo, DataInfo, ObjectInfo, TensorField
from legato.runtime.executable import Executable, load
from legato.runtime.parts import constant_offsets
from legato.runtime.program import Constraint, DimInfo, FunctionInfo, HostOpInfo, Program, TensorInfo
from legato.runtime.size import Formula, Size
from legato.runtime.values import Data

if TYPE_CHECKING:
    from legato.runtime.module import Module, enabled, load_module

__all__ = [
    "Constraint",
    "ConstructorInfo",
    "Data",
    "DataInfo",
    "DimInfo",
    "Executable",
    "Formula",
    "FunctionInfo",
    "HostOpInfo",
    "Module",
    "ObjectInfo",
    "Program",
    "Size",
    "TensorField",
    "TensorInfo",
    "constant_offsets",
    "cpu_count",
    "decode",
    "enabled",
    "encode",
    "load",
    "load_module",
    "verify_file",
]


def __getattr__(name: str) -> Any:
    """What only scripts for TVM ask for is imported when they do."""
    if name in ("container", "executor", "vm"):
        return import_module(f"legato.runtime.{name}")
    if name not in ("Module", "enabled", "load_module"):
        raise AttributeError(f"module 'legato.runtime' has no attribute {name!r}")
    from legato.runtime import module

    return getattr(module, name)
