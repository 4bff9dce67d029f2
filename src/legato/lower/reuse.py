"""Groups that were lowered before, here or by another process, are not lowered again.

What a group is lowered to depends on its description and on what is asked of it: where its operands lie, which of them
are constants, and how its results shall lie; on the target, and on the compiler itself. All of that is the key, and
whatever else comes to matter (another argument of `schedule`) must become part of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from legato.arith.expr import Var
from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.base.precision import Precision
from legato.base.target import Target
from legato.ir import expr as ir
from legato.ir.op import Op
from legato.lower.describe import Description, describe
from legato.lower.facts import kernel_facts
from legato.lower.moves import Moves
from legato.lower.pack import stored_packing
from legato.lower.stored import StoredGroup, StoredKernel, StoredPacking, StoredTensor, decode
from legato.tir.buffer import Buffer, Layout
from legato.tir.equal import program_key
from legato.tir.stmt import Func

if TYPE_CHECKING:
    from legato.lower.group import Group
    from legato.lower.schedule import Schedule
    from legato.te.tensor import Tensor

__all__ = ["Asked", "Fresh", "Groups", "Lowered", "Shelf", "Structure"]

Widths = tuple[tuple[int, int], ...]
Paddings = tuple[tuple[int, float, Widths], ...]  # of a group: number of the input, filled with, (before, after)


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where earlier results are looked up: `find` gives the bytes under a key, or None.

    `compiler` tells everything apart that lowers or generates code differently; `operators` are those that it covers,
    by their names.
    """

    find: Callable[[bytes], bytes | None]
    compiler: str
    operators: Mapping[str, Op]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a group: layouts of its inputs, which of them are constants, layouts of its outputs (None: free;
    without order: free but for halo and padding), and of each of its joints the layout of the whole, if that is in
    memory (None: its parts are)."""

    layouts: tuple[Layout, ...]
    constants: tuple[bool, ...]
    wanted: tuple[Layout | None, ...]
    joined: tuple[Layout | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Structure:
    """What is known of a group before it is lowered: how it pads what it reads, and what in it only moves elements."""

    paddings: Paddings
    moves: Moves

    def to_json(self) -> list[Any]:
        """The fields as JSON."""
        return [self.paddings, self.moves.to_json()]

    @staticmethod
    def read(data: bytes | None) -> Structure | None:
        """The structure that was kept as `data`; None for other bytes."""
        try:
            paddings, moved = json.loads(data or b"")
            found = tuple(
                (int(n), float(fill), tuple((int(b), int(a)) for b, a in widths)) for n, fill, widths in paddings
            )
            return Structure(found, Moves.from_json(moved))
        except (TypeError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Lowered:
    """A lowered group with its kernels: programs, or objects that were found."""

    group: StoredGroup
    kernels: tuple[Func | bytes, ...]


@dataclass(frozen=True, slots=True)
class Fresh:
    """Something that was not found: its key, and the group that belongs there or what else does."""

    key: bytes
    value: StoredGroup | bytes


@dataclass(slots=True)
class Groups:
    """Every group of a module: equal ones are lowered once. `fresh` gathers what may be kept for other processes.
    assign_layouts: results lie in memory as suits their kernels, else in row-major order."""

    target: Target
    precision: Precision
    assign_layouts: bool
    shelf: Shelf | None = None
    fresh: list[Fresh] = field(default_factory=list)
    _known: dict[str, Lowered] = field(default_factory=dict)
    _structures: dict[str, Structure] = field(default_factory=dict)
    _cascades: dict[str, bool] = field(default_factory=dict)
    _stages: dict[ir.Function, Group] = field(default_factory=dict)  # not scheduled yet; each has dims of its own

    def describe(self, func: ir.Function) -> Description:
        """The description by which the group `func` is known here."""
        return describe(func, {} if self.shelf is None else self.shelf.operators)

    def structure(self, func: ir.Function, description: Description) -> Structure:
        """What is known of the group before it is lowered."""
        found = self._structures.get(description.text)
        if found is None:
            key = self._key("structure", description, "")
            found = Structure.read(self._find(key)) or self._find_structure(func, description, key)
            self._structures[description.text] = found
        return found

    def _find_structure(self, func: ir.Function, description: Description, key: bytes | None) -> Structure:
        from legato.lower.find_moves import moves  # only for what was never lowered
        from legato.lower.group import te_group
        from legato.lower.paddings import paddings

        group = self._stages[func] = te_group(func)
        found = Structure(paddings(group), moves(group, description.number))
        if key is not None:
            self.fresh.append(Fresh(key, json.dumps(found.to_json()).encode()))
        return found

    def is_cascade(self, func: ir.Function, constants: Sequence[bool]) -> bool:
        """Whether the group, arguments of which are `constants`, is a cascade that is better computed by one kernel."""
        description, request = self.describe(func), f"{list(constants)}"
        text = f"{description.text}\n{request}"
        if text not in self._cascades:
            key = self._key("cascade", description, request)
            kept = self._find(key)
            if kept is None:
                kept = b"yes" if _is_cascade(func, constants, self.target, self.assign_layouts) else b"no"
                if key is not None:
                    self.fresh.append(Fresh(key, kept))
            self._cascades[text] = kept == b"yes"
        return self._cascades[text]

    def lowered(self, func: ir.Function, description: Description, asked: Asked) -> Lowered:
        """The kernels of group `func`, for what is asked."""
        request = f"{asked.layouts}\n{asked.constants}\n{asked.wanted}\n{asked.joined}"
        text = f"{description.text}\n{request}"
        found = self._known.get(text)
        if found is None:
            key = self._key("group", description, request)
            found = self._known[text] = self._read(key) or self._lower(func, description, asked, key)
        return found

    def copied(self, source: Buffer, result: Buffer, description: Description) -> Lowered:
        """The kernel that copies `source` to `result`; `description` is that of the copy."""
        text = f"copy\n{description.text}"
        found = self._known.get(text)
        if found is None:
            key = self._key("copy", description, "")
            found = self._known[text] = self._read(key) or self._copy(source, result, description, key)
        return found

    def _copy(self, source: Buffer, result: Buffer, description: Description, key: bytes | None) -> Lowered:
        from legato.lower.copy import copy_kernel  # only for what was never lowered

        func = copy_kernel(source, result, self.target)
        dims = [p for p in func.params if isinstance(p, Var)]
        kernel = _stored(func, (0,), [result], dims, description, self.target)
        group = StoredGroup((), (kernel,), (1,))
        if key is not None:
            self.fresh.append(Fresh(key, group))
        return Lowered(group, (func,))

    def _key(self, kind: str, description: Description, request: str) -> bytes | None:
        if self.shelf is None or not description.lasts:
            return None
        head = f"{kind}\n{self.shelf.compiler}\n{self.target}\n{self.precision.value}\n{self.assign_layouts}"
        return f"{head}\n{description.text}\n{request}".encode()

    def _read(self, key: bytes | None) -> Lowered | None:
        kept = self._find(key)
        parts = None if kept is None else decode(kept)
        return None if parts is None else Lowered(parts[0], tuple(parts[1]))

    def _find(self, key: bytes | None) -> bytes | None:
        return None if key is None or self.shelf is None else self.shelf.find(key)

    def _lower(self, func: ir.Function, description: Description, asked: Asked, key: bytes | None) -> Lowered:
        from legato.lower.find_moves import joints  # only for what was never lowered
        from legato.lower.group import te_group
        from legato.lower.schedule import schedule

        group = self._stages.pop(func, None) or te_group(func)
        for tensor, layout in zip(group.inputs, asked.layouts, strict=True):
            tensor.layout = layout
        constants = [t for t, is_constant in zip(group.inputs, asked.constants, strict=True) if is_constant]
        if any(asked.joined):
            group = _joined(group, list(joints(group)), asked.joined)
        done = schedule(group, constants, asked.wanted, self.target, self.precision, self.assign_layouts)
        stored = _Numbers(group, description, self.target).stored(done)
        if key is not None:
            self.fresh.append(Fresh(key, stored))
        return Lowered(stored, tuple(k.func for k in done.kernels))


def _is_cascade(func: ir.Function, constants: Sequence[bool], target: Target, assign_layouts: bool) -> bool:
    from legato.lower.cascaded import plan_cascade  # only for what was never lowered
    from legato.lower.group import te_group

    group = te_group(func)
    known = {t for t, is_constant in zip(group.inputs, constants, strict=True) if is_constant}
    return len(group.outputs) == 1 and plan_cascade(group.outputs[0], known, (), target, assign_layouts) is not None


def _joined(group: Group, found: Sequence[Tensor], layouts: Sequence[Layout | None]) -> Group:
    """`group` with those of its joints that are in memory, with these layouts, as inputs behind the others."""
    wholes: list[Tensor] = []
    for tensor, layout in zip(found, layouts, strict=True):
        if layout is not None:
            tensor.stage, tensor.layout = None, layout
            wholes.append(tensor)
    return replace(group, inputs=(*group.inputs, *wholes))


class _Numbers:
    """Numbers the values of a scheduled group."""

    def __init__(self, group: Group, description: Description, target: Target) -> None:
        self.group, self.description, self.target = group, description, target
        self.values: dict[Buffer, int] = {t: n for n, t in enumerate(group.inputs)}

    def stored(self, done: Schedule) -> StoredGroup:
        """The group as data."""
        packings: list[StoredPacking] = []
        for packing in done.packings:
            packings.append(stored_packing(packing, self.values[packing.source]))
            self.values[packing.packed] = len(self.values)
        kernels: list[StoredKernel] = []
        for kernel in done.kernels:
            inputs = tuple(self.values[b] for b in kernel.inputs)
            stored = _stored(kernel.func, inputs, kernel.outputs, kernel.dims, self.description, self.target)
            kernels.append(stored)
            for b in kernel.outputs:
                self.values[b] = len(self.values)
        missing = [t for t in self.group.outputs if t not in self.values]
        if missing:
            raise InternalError(f"no kernel stores {missing}")
        return StoredGroup(tuple(packings), tuple(kernels), tuple(self.values[t] for t in self.group.outputs))


def _stored(
    func: Func,
    inputs: tuple[int, ...],
    outputs: Sequence[Buffer],
    dims: Sequence[Var],
    description: Description,
    target: Target,
) -> StoredKernel:
    """A kernel as data."""
    return StoredKernel(
        name=func.name,
        digest=hashlib.sha256(program_key(func).encode()).hexdigest(),
        inputs=inputs,
        outputs=tuple(StoredTensor.of(b, description.number) for b in outputs),
        dims=tuple(description.number(d) for d in dims),
        facts=kernel_facts(func, target),
    )
