"""Buffers in registers: every element slot is an SSA value; loops and branches join them with phis."""

from __future__ import annotations

from collections.abc import Sequence

from legato.base.errors import InternalError
from legato.codegen.affine import Resolved
from legato.codegen.builder import Builder
from legato.codegen.memory import privatised
from legato.codegen.value import TYPES, Value, boolean, vector_type
from legato.tir.buffer import Buffer

__all__ = ["Registers"]


class Registers:
    """The slots of one REGISTER buffer: `width` consecutive elements each.

    Any access is possible; one that is a whole slot costs nothing. A buffer that lives inside a vector loop of
    `private` lanes has one copy per lane, the lanes being innermost.
    """

    def __init__(self, buffer: Buffer, elements: int, width: int, private: int) -> None:
        if private > 1:
            elements, width = elements * private, private
        self.buffer, self.width, self.private = buffer, width, private
        self.size = elements
        self.ty = TYPES[buffer.dtype.name]
        self.slots = [Value("poison", self.ty, width, 0)] * -(-elements // width)

    @property
    def slot_type(self) -> str:
        """The LLVM type of a slot."""
        return vector_type(self.ty, self.width)

    def _offsets(self, r: Resolved) -> tuple[int, tuple[int, ...] | None]:
        if r.terms or r.vectors:
            raise InternalError(f"an index of the register buffer {self.buffer.name} is not a literal after unrolling")
        if self.private > 1:
            r = privatised(r, self.private)
        return r.const, r.lanes

    def _whole_slot(self, first: int, lanes: tuple[int, ...]) -> int | None:
        start = first + lanes[0]
        if len(lanes) != self.width or start % self.width or not 0 <= start < self.size:
            return None
        return start // self.width if lanes == tuple(range(lanes[0], lanes[0] + len(lanes))) else None

    def read(self, builder: Builder, r: Resolved) -> Value:
        """The elements at offset `r`: a scalar if all lanes read one."""
        first, lanes = self._offsets(r)
        if lanes is None:
            return self._element(builder, first)
        slot = self._whole_slot(first, lanes)
        if slot is not None:
            return self.slots[slot]._replace(level=builder.here)
        places = [first + x for x in lanes]
        used = sorted({x // self.width for x in places})
        inside = used[0] >= 0 and max(places) < self.size
        if self.width > 1 and inside and (len(used) <= 2 or len(lanes) == self.width):
            return self._shuffled(builder, places, used)
        full, text = f"<{len(lanes)} x {self.ty}>", "poison"
        for n, x in enumerate(lanes):
            if 0 <= first + x < self.size:  # lanes that a guard excludes may lie outside
                element = self._element(builder, first + x)
                rhs = f"insertelement {full} {text}, {self.ty} {element.text}, i64 {n}"
                text = builder.inline(rhs, self.ty, len(lanes)).text
        return Value(text, self.ty, len(lanes), builder.here)

    def _shuffled(self, builder: Builder, places: Sequence[int], used: Sequence[int]) -> Value:
        """The elements at `places`, all in the slots `used`: one shuffle of two slots, and one more for each other."""
        total, width = self.slots[used[0]], self.width
        at = [x % width if x // width == used[0] else 0 for x in places]  # where in `total` each lane is
        for slot in used[1:] or used:
            picks = [width + x % width if x // width == slot else n for x, n in zip(places, at, strict=True)]
            order = ", ".join([f"i32 {n}" for n in picks])
            kind = f"{self.slot_type} "
            rhs = f"shufflevector {kind}{total.text}, {kind}{self.slots[slot].text}, <{len(picks)} x i32> <{order}>"
            total = builder.inline(rhs, self.ty, len(picks))
            at = list(range(len(picks)))
        return total

    def _element(self, builder: Builder, index: int) -> Value:
        if not 0 <= index < self.size:
            raise InternalError(f"element {index} of the register buffer {self.buffer.name} of {self.size} elements")
        return builder.lane(self.slots[index // self.width], index % self.width)._replace(level=builder.here)

    def write(self, builder: Builder, r: Resolved, value: Value, mask: Value | None) -> None:
        """Stores `value` at offset `r` in lanes where `mask`."""
        first, lanes = self._offsets(r)
        if lanes is not None:
            slot = self._whole_slot(first, lanes)
            if slot is not None:
                new = builder.splat(value, self.width)
                self.slots[slot] = new if mask is None else builder.select(mask, new, self.slots[slot])
                return
        for n in range(builder.lanes):
            on = boolean(True) if mask is None else builder.lane(mask, n)
            if on.const is not False:
                self._write_element(builder, first + (lanes[n] if lanes else 0), builder.lane(value, n), on)

    def _write_element(self, builder: Builder, index: int, value: Value, on: Value) -> None:
        old = self._element(builder, index)
        new = builder.select(on, value, old)
        slot, lane = divmod(index, self.width)
        if self.width > 1:
            rhs = f"insertelement {self.slot_type} {self.slots[slot].text}, {self.ty} {new.text}, i64 {lane}"
            new = builder.inline(rhs, self.ty, self.width)
        self.slots[slot] = new
