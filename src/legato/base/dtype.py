"""Element types of tensors and scalars."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.base.formats import FORMATS, Format, IntFormat

__all__ = ["ALL_DTYPES", "BY_NAME", "STORAGE_DTYPES", "DType", "bfloat16", "bool_", "dtype", "float16", "float32",
           "float64", "handle", "index", "int8", "int16", "int32", "int64", "string", "uint8", "uint16", "uint32",
           "uint64"]  # fmt: skip


class _Facts:
    """What follows from the fields of a dtype, and is none of them: asked for millions of times while a program is
    compiled, where properties would take three times as long."""

    __slots__ = ("bytes", "is_bool", "is_float", "is_int", "is_storage")
    bytes: int  # size of one element in memory
    is_float: bool
    is_int: bool  # signed and unsigned integers, not bool
    is_bool: bool
    is_storage: bool  # what only holds numbers, in less than 16 bits: int4, float8_e4m3fn…


@dataclass(frozen=True, slots=True, eq=False)
class DType(_Facts):
    """An element type: `kind` is one of float, bfloat, int, uint, bool, storage, string; `bits` its width in memory.

    What a dtype of storage has is moved, compared and converted, and never computed with: an element of it is the code
    of a number (`format`) in a byte of its own.

    Equal to its name as well: `ty.dtype == "float32"`; and NumPy takes one wherever it takes a dtype.
    """

    name: str
    kind: str
    bits: int

    def __post_init__(self) -> None:
        facts = {
            "bytes": self.bits // 8,
            "is_float": self.kind in ("float", "bfloat"),
            "is_int": self.kind in ("int", "uint"),
            "is_bool": self.kind == "bool",
            "is_storage": self.kind == "storage",
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[type[DType], tuple[str, str, int]]:
        return DType, (self.name, self.kind, self.bits)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self.name == (other.name if isinstance(other, DType) else other)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """`numpy`: the attribute by which NumPy recognizes what has a dtype."""
        return self.numpy

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DType({self.name})"

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float", "bfloat")

    @property
    def format(self) -> Format:
        """What the codes of a dtype of storage stand for."""
        return FORMATS[self.name]

    @property
    def width(self) -> int:
        """The bits that say what an element is: all of them, or those of a code. A bool counts as a byte."""
        return self.format.width if self.is_storage else self.bits

    @property
    def is_string(self) -> bool:
        return self.kind == "string"

    @property
    def is_computed(self) -> bool:
        """False for what is only moved, compared and converted: what stores, and strings."""
        return self.kind not in ("storage", "string")

    @property
    def min(self) -> int:
        """Smallest value of an integer or bool type."""
        if self.is_storage and isinstance(self.format, IntFormat):
            return self.format.min
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def max(self) -> int:
        """Largest value of an integer or bool type."""
        if self.kind == "bool":
            return 1
        if self.is_storage and isinstance(self.format, IntFormat):
            return self.format.max
        return (1 << (self.bits - 1)) - 1 if self.kind == "int" else (1 << self.bits) - 1

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype; of strings that of objects, Python's; of bfloat16 and what only stores that of ml_dtypes, or
        `codes` where that is not installed."""
        return _numpy(self.name)

    @property
    def codes(self) -> np.dtype[np.generic]:
        """Of what NumPy has no dtype for: records of one field, called as the dtype, which is an element's bits. They
        need nothing but NumPy, and are taken for no numbers."""
        return np.dtype([(self.name, "<u2" if self.bits == 16 else "u1")])

    @property
    def stored(self) -> np.dtype[np.generic]:
        """The NumPy dtype of what lies in a compiled program's memory: `numpy`, but numbers in place of strings."""
        return _numpy("int64" if self.kind == "string" else self.name)


@cache
def _numpy(name: str) -> np.dtype[np.generic]:
    if name == "bfloat16" or name in FORMATS:
        try:
            import ml_dtypes  # imported on use: it costs start-up time
        except ImportError:  # what was compiled runs without it
            return BY_NAME[name].codes
        found: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, name))
        return found
    return np.dtype("int64" if name in ("handle", "index") else "object" if name == "string" else name)


bool_ = DType("bool", "bool", 8)
float16 = DType("float16", "float", 16)
float32 = DType("float32", "float", 32)
float64 = DType("float64", "float", 64)
bfloat16 = DType("bfloat16", "bfloat", 16)
int8 = DType("int8", "int", 8)
int16 = DType("int16", "int", 16)
int32 = DType("int32", "int", 32)
int64 = DType("int64", "int", 64)
uint8 = DType("uint8", "uint", 8)
uint16 = DType("uint16", "uint", 16)
uint32 = DType("uint32", "uint", 32)
uint64 = DType("uint64", "uint", 64)

# Scalars that count and address: 64 bits, never overflows by construction. The type of dims, loop variables and
# subscripts; no tensor holds it. Only here may the simplifier reason as if integers were unbounded.
index = DType("index", "index", 64)

# What refers to an object of a running program (`tir.stmt`): a word that is copied, compared and taken apart, never
# computed with. No tensor of the language holds it.
handle = DType("handle", "handle", 64)

# Text. In arrays an element is a Python str; in a compiled program it is the number of one in the call's table
# (`runtime.strings`), where equal ones have one number. There it is moved and compared; what looks into it runs in
# Python.
string = DType("string", "string", 64)

# What is computed with.
ALL_DTYPES = (bool_, float16, float32, float64, bfloat16, int8, int16, int32, int64, uint8, uint16, uint32, uint64)
STORAGE_DTYPES = tuple([DType(name, "storage", 8) for name in FORMATS])
BY_NAME = {d.name: d for d in (*ALL_DTYPES, *STORAGE_DTYPES, string)}


def dtype(name: str | DType | np.dtype[np.generic] | type) -> DType:
    """The DType called `name` (a string, a DType, or what NumPy takes as a dtype); TypeCheckError if there is none.

    NumPy's dtypes of text, and of objects, are that of strings.
    """
    if isinstance(name, DType):
        return name
    text = name if isinstance(name, str) else _numpy_name(name)
    found = BY_NAME.get(text)
    if found is None:
        raise TypeCheckError(f"unknown dtype {text!r}", hint="one of " + ", ".join(BY_NAME))
    return found


def _numpy_name(given: Any) -> str:
    """The name of what NumPy takes as a dtype; None, which it takes for float64, is none."""
    try:
        if given is not None:
            found = np.dtype(given)
            is_text = found.kind in "UT" or (found.kind == "O" and (given is object or isinstance(given, np.dtype)))
            return "string" if is_text else _record_name(found) or str(found.name)
    except (TypeError, ValueError):
        pass
    raise TypeCheckError(f"a {type(given).__name__} is no dtype", hint="one of " + ", ".join(BY_NAME))


def _record_name(found: np.dtype[Any]) -> str | None:
    """The name of the dtype whose `codes` these records are, where they are its arrays'."""
    kind = None if found.names is None else BY_NAME.get(found.names[0])
    return kind.name if kind is not None and kind.numpy == found else None
