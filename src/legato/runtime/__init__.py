"""Runs compiled programs. Imports nothing of the compiler: NumPy and `legato.base` are enough."""

from legato.runtime.artifact import verify_file
from legato.runtime.binding import cpu_count
from legato.runtime.executable import Executable, load
from legato.runtime.parts import constant_offsets
from legato.runtime.program import Constraint, DimInfo, FunctionInfo, HostOpInfo, Program, TensorInfo
from legato.runtime.size import Formula, Size

__all__ = [
    "Constraint",
    "DimInfo",
    "Executable",
    "Formula",
    "FunctionInfo",
    "HostOpInfo",
    "Program",
    "Size",
    "TensorInfo",
    "constant_offsets",
    "cpu_count",
    "load",
    "verify_file",
]
