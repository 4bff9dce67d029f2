"""Runs compiled programs. Imports nothing of the compiler: NumPy and `legato.base` are enough."""

from legato.runtime.artifact import verify_file
from legato.runtime.binding import cpu_count
from legato.runtime.datatypes import ConstructorInfo, DataInfo, ObjectInfo, TensorField
from legato.runtime.executable import Executable, load
from legato.runtime.parts import constant_offsets
from legato.runtime.program import Constraint, DimInfo, FunctionInfo, HostOpInfo, Program, TensorInfo
from legato.runtime.size import Formula, Size
from legato.runtime.values import Data

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
    "ObjectInfo",
    "Program",
    "Size",
    "TensorField",
    "TensorInfo",
    "constant_offsets",
    "cpu_count",
    "load",
    "verify_file",
]
