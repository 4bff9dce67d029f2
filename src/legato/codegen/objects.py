"""Objects of host functions: headers in front of payloads, as the runtime's header lays them out.

    payload - 16: i32 references    - 12: i16 tag    - 10: i16 pointers    - 8: i64 bytes

A handle is the address of a payload, or odd (a tag alone), or 0. Counting is inline; memory is the runtime's business.
"""

from __future__ import annotations

from collections.abc import Callable

from legato.codegen.builder import Builder
from legato.codegen.value import Value

__all__ = ["Objects", "size_of", "tag_of"]

_REFERENCES, _TAG, _BYTES = -16, -12, -8


def tag_of(builder: Builder, handle: Value, mask: Value | None) -> Value:
    """The tag of `handle` as i32, where `mask` holds: of its object, or, where it is odd, the rest of its bits."""
    b = builder
    odd = b.effect(f"trunc i64 {handle.text} to i1", "i1", 1)
    alone = odd
    if mask is not None:  # what is not an object is not looked at: something that is memory is, instead
        outside = b.effect(f"xor i1 {mask.text}, true", "i1", 1)
        alone = b.effect(f"or i1 {odd.text}, {outside.text}", "i1", 1)
    place = b.effect(f"select i1 {alone.text}, ptr %call, ptr {_field(b, handle, _TAG).text}", "ptr", 1)
    stored = b.effect(f"load i16, ptr {place.text}, align 2", "i16", 1)
    wide = b.effect(f"zext i16 {stored.text} to i32", "i32", 1)
    shifted = b.effect(f"lshr i64 {handle.text}, 1", "i64", 1)
    rest = b.effect(f"trunc i64 {shifted.text} to i32", "i32", 1)
    return b.effect(f"select i1 {odd.text}, i32 {rest.text}, i32 {wide.text}", "i32", 1)


def size_of(builder: Builder, handle: Value) -> Value:
    """The bytes (i64) of the payload of the object `handle`."""
    return builder.effect(f"load i64, ptr {_field(builder, handle, _BYTES).text}, align 8", "i64", 1)


def _field(b: Builder, handle: Value, offset: int) -> Value:
    pointer = b.effect(f"inttoptr i64 {handle.text} to ptr", "ptr", 1)
    return b.effect(f"getelementptr i8, ptr {pointer.text}, i64 {offset}", "ptr", 1)


class Objects:
    """Emits what is done with objects; `service` gives the address of a service of the runtime by its name."""

    def __init__(self, builder: Builder, service: Callable[[str], str]) -> None:
        self.builder, self.service = builder, service

    def new(self, size: Value, tag: int, pointers: int) -> Value:
        """The payload (ptr) of a new object, null if there is no memory."""
        kind = tag | pointers << 16
        return self.builder.effect(
            f"call ptr {self.service('object')}(ptr %call, i64 {size.text}, i64 {kind})", "ptr", 1
        )

    def resized(self, handle: Value, size: Value) -> Value:
        """The payload (ptr) of what the object `handle` becomes with `size` bytes, null if there is no memory."""
        old = self.payload(handle)
        return self.builder.effect(
            f"call ptr {self.service('resize')}(ptr %call, ptr {old.text}, i64 {size.text})", "ptr", 1
        )

    def payload(self, handle: Value) -> Value:
        """The payload (ptr) of the object `handle`."""
        return self.builder.effect(f"inttoptr i64 {handle.text} to ptr", "ptr", 1)

    def retain(self, handle: Value) -> None:
        """One more reference, where there is an object."""
        b, on = self.builder, self._enter(handle)
        if on is not None:
            self._add(handle, 1)
            b.line(f"br label %{on}")
            b.start(on)

    def release(self, handle: Value) -> None:
        """One reference less, where there is an object; with the last one the runtime ends it."""
        b, on = self.builder, self._enter(handle)
        if on is None:
            return
        end, left = b.label("end"), self._add(handle, -1)
        last = b.effect(f"icmp eq i32 {left.text}, 0", "i1", 1)
        b.line(f"br i1 {last.text}, label %{end}, label %{on}")
        b.start(end)
        b.line(f"call void {self.service('end')}(ptr %call, ptr {self.payload(handle).text})")
        b.line(f"br label %{on}")
        b.start(on)

    def _enter(self, handle: Value) -> str | None:
        """Begins a block that is run if there is an object, and returns the label behind it; None: there is none."""
        if handle.const is not None:
            return None
        b, some, on = self.builder, self.builder.label("object"), self.builder.label("on")
        odd = b.effect(f"trunc i64 {handle.text} to i1", "i1", 1)
        nothing = b.effect(f"icmp eq i64 {handle.text}, 0", "i1", 1)
        plain = b.effect(f"or i1 {odd.text}, {nothing.text}", "i1", 1)
        b.line(f"br i1 {plain.text}, label %{on}, label %{some}")
        b.start(some)
        return on

    def _add(self, handle: Value, step: int) -> Value:
        b, place = self.builder, _field(self.builder, handle, _REFERENCES)
        old = b.effect(f"load i32, ptr {place.text}, align 16", "i32", 1)
        new = b.effect(f"add i32 {old.text}, {step}", "i32", 1)
        b.line(f"store i32 {new.text}, ptr {place.text}, align 16")
        return new
