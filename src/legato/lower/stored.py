"""Lowered groups as data, with nothing in them of the program that they come from: they are kept between processes.

A group's values are numbered: its inputs, then the constants that are packed, then what its kernels store, in order.
Symbolic dims are numbered as its description numbers them. `encode` writes a group and the machine code of its kernels
as bytes: the length of a JSON text, that text, the objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from legato.arith.expr import Expr
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.lower.expr_data import from_data, to_data
from legato.lower.facts import KernelFacts
from legato.tir.buffer import Buffer, Layout

__all__ = ["Found", "Matrix", "StoredGroup", "StoredKernel", "StoredPacking", "StoredTensor", "decode", "encode"]

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A kernel whose machine code is at hand: an object with one function. `layouts` are those of its outputs."""

    layouts: tuple[Layout, ...]
    facts: KernelFacts
    code: bytes


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A buffer; its shape is data (`expr_data`) over the group's dims."""

    name: str
    shape: tuple[Any, ...]
    dtype: DType
    layout: Layout

    @staticmethod
    def of(buffer: Buffer, number: Callable[[Any], int]) -> StoredTensor:
        """A buffer as data, with dims by their numbers."""
        return StoredTensor(buffer.name, tuple(to_data(d, number) for d in buffer.shape), buffer.dtype, buffer.layout)

    def dims(self, values: Sequence[Expr]) -> tuple[Expr, ...]:
        """The shape for these values of the group's dims."""
        return tuple(from_data(d, values) for d in self.shape)

    def to_json(self) -> list[Any]:
        """The fields as JSON."""
        order = self.layout
        return [self.name, self.shape, self.dtype.name, [order.order, order.halo, order.halo_value, order.pad]]

    @staticmethod
    def from_json(data: Sequence[Any]) -> StoredTensor:
        """The tensor that `to_json` gave."""
        name, shape, dtype, (order, halo, halo_value, pad) = data
        layout = Layout(tuple(order), tuple((before, after) for before, after in halo), halo_value, tuple(pad))
        return StoredTensor(name, tuple(shape), dt.dtype(dtype), layout)


@dataclass(frozen=True, slots=True)
class StoredPacking:
    """Constant `source` (an input, or packed already) as an array with these `extents`.

    Its dimensions are multiplied by `matrices`, if there are any; else each element is `body`, data over the element's
    indices (variables) and `source` (buffer 0).
    """

    source: int
    extents: tuple[int, ...]
    matrices: tuple[tuple[int, Matrix], ...] = ()
    body: Any = None

    @staticmethod
    def from_json(data: Sequence[Any]) -> StoredPacking:
        """The packing whose fields are `data`."""
        source, extents, matrices, body = data
        known = tuple((dim, tuple(map(tuple, rows))) for dim, rows in matrices)
        return StoredPacking(source, tuple(extents), known, body)


@dataclass(frozen=True, slots=True)
class StoredKernel:
    """A kernel: `digest` is that of its program, `inputs` are numbers of values, `outputs` what it stores."""

    name: str
    digest: str
    inputs: tuple[int, ...]
    outputs: tuple[StoredTensor, ...]
    dims: tuple[int, ...]
    facts: KernelFacts

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return {
            "name": self.name,
            "digest": self.digest,
            "inputs": self.inputs,
            "outputs": [o.to_json() for o in self.outputs],
            "dims": self.dims,
            "facts": self.facts.to_json(),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> StoredKernel:
        """The kernel that `to_json` gave."""
        return StoredKernel(
            data["name"],
            data["digest"],
            tuple(data["inputs"]),
            tuple(StoredTensor.from_json(o) for o in data["outputs"]),
            tuple(data["dims"]),
            KernelFacts.from_json(data["facts"]),
        )


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """What lowering makes of a group; `outputs` are the numbers of the values that it returns."""

    packings: tuple[StoredPacking, ...]
    kernels: tuple[StoredKernel, ...]
    outputs: tuple[int, ...]


def encode(group: StoredGroup, code: Sequence[bytes]) -> bytes:
    """The group and the objects of its kernels."""
    data = {
        "packings": [[p.source, p.extents, p.matrices, p.body] for p in group.packings],
        "kernels": [k.to_json() for k in group.kernels],
        "outputs": group.outputs,
        "code": [len(c) for c in code],
    }
    text = json.dumps(data, separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *code])


def decode(data: bytes) -> tuple[StoredGroup, list[bytes]] | None:
    """The group and the objects that `encode` wrote; None for other bytes."""
    end = 8 + int.from_bytes(data[:8], "little")
    try:
        found = json.loads(data[8:end])
        group = StoredGroup(
            tuple(StoredPacking.from_json(p) for p in found["packings"]),
            tuple(StoredKernel.from_json(k) for k in found["kernels"]),
            tuple(found["outputs"]),
        )
        sizes = [int(size) for size in found["code"]]
    except (KeyError, TypeError, ValueError):
        return None
    code: list[bytes] = []
    for size in sizes:
        code.append(data[end : end + size])
        end += size
    return (group, code) if end == len(data) and len(code) == len(group.kernels) else None
