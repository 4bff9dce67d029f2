"""Loads and stores of memory: pointers with hoisted parts, contiguous vectors, shuffled windows, gathers, masks.

An address is built from the most invariant part inwards, `base + Σ invariant terms`, then the terms of each inner
loop, and a literal displacement at the access itself, where the instruction selector folds it.
"""

from __future__ import annotations

import math

from legato.base.dtype import STORAGE_DTYPES
from legato.base.errors import InternalError, UnsupportedError
from legato.codegen.affine import Affine, Resolved, scaled
from legato.codegen.builder import Builder
from legato.codegen.value import Value, vector_constant, vector_type
from legato.tir.buffer import Buffer, Scope

__all__ = ["MEMORY_TYPES", "Memory"]

# LLVM type of an element in memory.
MEMORY_TYPES = {"float16": "i16", "bfloat16": "i16", "float32": "float", "float64": "double", "bool": "i8",
                "index": "i64", "handle": "i64", "string": "i64"}  # fmt: skip
MEMORY_TYPES |= {f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
MEMORY_TYPES |= {d.name: "i8" for d in STORAGE_DTYPES}
_SUFFIX = {"float": "f32", "double": "f64", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64"}
_WINDOW = 4  # strided lanes are cut out of one wide load up to this many vectors
_GATHERED = 4  # bytes of the smallest element that machines gather
_LOCAL_ALIGN = 64
MAX_STACK = 1 << 20  # bytes of local buffers: STACK_NEEDED of the runtime has room for them, and for frames


class Memory:
    """Pointers of the buffers in scope, and accesses to them in the memory's element types.

    Loads are numbered until the buffer is stored to. Distinct buffers of a kernel are taken not to overlap, except that
    an output may be an input in place, each element being read before it is written. `volatile` turns numbering off
    (host functions, where views overlap). A loaded value is kept for later uses while no more than `kept` loads follow.
    """

    def __init__(self, builder: Builder, affine: Affine, kept: int, *, volatile: bool = False) -> None:
        self.builder, self.affine, self.volatile = builder, affine, volatile
        self.pointers: dict[Buffer, Value] = {}
        self.displacements: dict[Buffer, int] = {}
        self.private: dict[Buffer, int] = {}
        self.versions: dict[Buffer, int] = {}
        self.stack_bytes = 0  # of local buffers
        self._zero = ""  # a stack slot
        self._version = 0
        self._kept = kept
        self._loads = self._epoch = 0
        self._used: dict[str, tuple[int, int]] = {}  # loaded value -> number of loads, and epoch, at its last use

    def bind(self, buffer: Buffer, pointer: Value, displacement: int = 0) -> None:
        """`buffer` lies `displacement` bytes behind `pointer` from now on."""
        self.pointers[buffer] = pointer
        self.displacements[buffer] = displacement
        self.touch(buffer)

    def base(self, buffer: Buffer) -> tuple[Value, int]:
        """A pointer, and how many bytes behind it `buffer` begins."""
        pointer = self.pointers.get(buffer)
        if pointer is None:
            raise InternalError(f"buffer {buffer.name} is used where it is not defined")
        return pointer, self.displacements[buffer]

    def pointer(self, buffer: Buffer) -> Value:
        """The start of `buffer`'s memory, computed here: a program names thousands of places in one arena."""
        pointer, displacement = self.base(buffer)
        if not displacement:
            return pointer
        return self.builder.effect(f"getelementptr i8, ptr {pointer.text}, i64 {displacement}", "ptr", 1)

    def touch(self, buffer: Buffer) -> None:
        """Forgets loads of `buffer`: it was, or may be, stored to."""
        self._version += 1
        self.versions[buffer] = self._version

    def allocate(self, buffer: Buffer, elements: int, lanes: int) -> None:
        """Stack memory for a LOCAL buffer: one copy per lane, or one for all (`lanes` 1)."""
        if buffer.scope is not Scope.LOCAL:
            raise InternalError(f"cannot put the {buffer.scope.value} buffer {buffer.name} on the stack")
        name = self.builder.name()
        size = max(1, elements * lanes) * buffer.dtype.bytes
        self.stack_bytes += size
        if self.stack_bytes > MAX_STACK:
            message = f"local buffers of {self.stack_bytes} bytes; a kernel may have {MAX_STACK} on its thread's stack"
            raise UnsupportedError(message, hint="those without scope=local go into the workspace")
        self.builder.allocas.append(f"{name} = alloca [{size} x i8], align {_LOCAL_ALIGN}")
        self.private[buffer] = lanes
        self.bind(buffer, Value(name, "ptr", 1, 0))

    # ---------------------------------------------------------------------------------------------- addresses

    def _address(self, buffer: Buffer, r: Resolved) -> tuple[Value, int]:
        """Pointer to the variable part of `r` (elements) in `buffer`, and its guaranteed alignment."""
        pointer, size = self.pointer(buffer), buffer.dtype.bytes
        align = _LOCAL_ALIGN if buffer.scope is Scope.LOCAL else size
        builder, terms = self.builder, r.terms
        start = 0
        while start < len(terms):
            level = max(terms[start][0].level, pointer.level)
            end = start
            offset: Value | None = None
            while end < len(terms) and terms[end][0].level <= level:
                v, c = terms[end]
                part = scaled(builder, v, c * size)
                offset = part if offset is None else builder.binary("add", offset, part, hoist=True)
                align = math.gcd(align, c * size)
                end += 1
            assert offset is not None
            level = max(pointer.level, offset.level)
            pointer = builder.pure(f"getelementptr i8, ptr {pointer.text}, i64 {offset.text}", "ptr", 1, level)
            start = end
        return pointer, align

    def _displaced(self, pointer: Value, displacement: int) -> str:
        if not displacement:
            return pointer.text
        return self.builder.inline(f"getelementptr i8, ptr {pointer.text}, i64 {displacement}", "ptr", 1).text

    def _lane_pointers(self, buffer: Buffer, pointer: Value, r: Resolved) -> Value:
        """A pointer per lane."""
        builder, size, lanes = self.builder, buffer.dtype.bytes, self.builder.lanes
        total: Value | None = None
        for v, c in r.vectors:
            part = scaled(builder, v, c * size)
            total = part if total is None else builder.binary("add", total, part, hoist=True)
        consts = tuple([(r.const + x) * size for x in (r.lanes or (0,) * lanes)])
        if any(consts) or total is None:
            fixed = builder.splat(vector_constant(consts, "i64"), lanes)
            total = fixed if total is None else builder.binary("add", total, fixed, hoist=True)
        level = max(pointer.level, total.level)
        return builder.pure(f"getelementptr i8, ptr {pointer.text}, <{lanes} x i64> {total.text}", "ptr", lanes, level)

    def _privatised(self, buffer: Buffer, r: Resolved) -> Resolved:
        lanes = self.private.get(buffer, 1)
        return r if lanes == 1 else privatised(r, lanes)

    # ---------------------------------------------------------------------------------------------- loads

    def load(self, buffer: Buffer, r: Resolved, mask: Value | None, *, pairs: bool = False) -> Value:
        """The elements at offset `r`, in lanes where `mask` (undefined elsewhere); a scalar if all lanes read one.

        `pairs`: of elements of 16 bits, each together with the one behind it, as i32.
        """
        r = self._privatised(buffer, r)
        pointer, align = self._address(buffer, r)
        key = None
        if not self.volatile:
            where = (r.const, r.lanes, tuple([(v.text, c) for v, c in r.vectors]))
            key = (pointer.text, where, mask and mask.text, self.builder.lanes, self.versions[buffer], pairs)
            found = self.builder.known.get(key)
            if found is not None and self._is_recent(found):
                return found
        value = (self._load_pairs if pairs else self._load)(buffer, r, mask, pointer, align)
        self._loads += 1
        self._used[value.text] = (self._loads, self._epoch)
        if key is not None:
            self.builder.remember(key, value)
        return value

    def _is_recent(self, v: Value) -> bool:
        """Whether a loaded value is better kept in a register than loaded again: few loads came since its last use.

        Loading again takes a barrier, or LLVM would find the two loads equal and keep (that is, spill) the first.
        """
        last, epoch = self._used[v.text]
        if self._loads - last <= self._kept:
            self._used[v.text] = (self._loads, epoch)
            return True
        if epoch == self._epoch:
            self.builder.line('call void asm sideeffect "", "~{memory}"()')
            self._epoch += 1
        return False

    def _load(self, buffer: Buffer, r: Resolved, mask: Value | None, pointer: Value, align: int) -> Value:
        ty, size = MEMORY_TYPES[buffer.dtype.name], buffer.dtype.bytes
        if r.vectors:
            return self._gather(ty, buffer, r, mask, pointer)
        if r.lanes is None:
            return self._load_scalar(ty, self._displaced(pointer, r.const * size), mask, align, r.const * size)
        lanes, first = r.lanes, r.lanes[0]
        if _is_run(lanes):
            start = (r.const + first) * size
            return self._load_run(ty, self._displaced(pointer, start), mask, math.gcd(align, start))
        if mask is not None and mask.const is None:
            return self._gather(ty, buffer, r, mask, pointer)
        active = [x for n, x in enumerate(lanes) if mask is None or _lane_on(mask, n)]
        if active and max(active) - min(active) < _WINDOW * len(lanes):
            return self._load_window(ty, size, pointer, r, mask, min(active), max(active), align)
        return self._load_lanes(ty, size, pointer, r, mask)

    def _load_pairs(self, buffer: Buffer, r: Resolved, mask: Value | None, pointer: Value, align: int) -> Value:
        if r.vectors:
            return self._gather("i32", buffer, r, mask, pointer)
        start = (r.const + (r.lanes[0] if r.lanes else 0)) * buffer.dtype.bytes
        if r.lanes is None:
            return self._load_scalar("i32", self._displaced(pointer, start), mask, align, start)
        if r.lanes == tuple(range(r.lanes[0], r.lanes[0] + 2 * len(r.lanes), 2)):
            return self._load_run("i32", self._displaced(pointer, start), mask, math.gcd(align, start))
        if mask is not None and mask.const is None:
            return self._gather("i32", buffer, r, mask, pointer)
        return self._load_lanes("i32", buffer.dtype.bytes, pointer, r, mask)

    def _load_scalar(self, ty: str, address: str, mask: Value | None, align: int, displacement: int) -> Value:
        builder = self.builder
        align = math.gcd(align, displacement)
        if mask is None or mask.const is not None:
            return builder.effect(f"load {ty}, ptr {address}, align {align}", ty, 1)
        on = builder.any_lane(mask)
        # One lane under a mask: LLVM makes it a branch around the load.
        one = builder.pure(f"insertelement <1 x i1> poison, i1 {on.text}, i64 0", "i1", 1, on.level)
        name = f"@llvm.masked.load.v1{_SUFFIX[ty]}.p0"
        call = f"call <1 x {ty}> {name}(ptr align {align} {address}, <1 x i1> {one.text}, <1 x {ty}> zeroinitializer)"
        loaded = builder.effect(call, ty, 1)
        return builder.effect(f"extractelement <1 x {ty}> {loaded.text}, i64 0", ty, 1)

    def _load_run(self, ty: str, address: str, mask: Value | None, align: int) -> Value:
        lanes = self.builder.lanes
        full = f"<{lanes} x {ty}>"
        if mask is None:
            return self.builder.effect(f"load {full}, ptr {address}, align {align}", ty, lanes)
        on = self.builder.vec(mask)
        name = f"@llvm.masked.load.v{lanes}{_SUFFIX[ty]}.p0"
        call = f"call {full} {name}(ptr align {align} {address}, <{lanes} x i1> {on}, {full} zeroinitializer)"
        return self.builder.effect(call, ty, lanes)

    def _load_window(
        self, ty: str, size: int, pointer: Value, r: Resolved, mask: Value | None, low: int, high: int, align: int
    ) -> Value:
        """All elements between the first and the last that a lane reads, then a shuffle. Both ends are read by some
        lane, so everything between is memory of the same buffer."""
        assert r.lanes is not None
        builder, lanes, span = self.builder, len(r.lanes), high - low + 1
        start = (r.const + low) * size
        wide = vector_type(ty, span) if span > 1 else f"<1 x {ty}>"
        address = self._displaced(pointer, start)
        window = builder.effect(f"load {wide}, ptr {address}, align {math.gcd(align, start)}", ty, span)
        picks = [f"i32 {x - low}" if mask is None or _lane_on(mask, n) else "i32 poison" for n, x in enumerate(r.lanes)]
        order = f"<{lanes} x i32> <{', '.join(picks)}>"
        return builder.effect(f"shufflevector {wide} {window.text}, {wide} poison, {order}", ty, lanes)

    def _load_lanes(self, ty: str, size: int, pointer: Value, r: Resolved, mask: Value | None) -> Value:
        """Scalar loads at literal distances."""
        assert r.lanes is not None
        builder, full = self.builder, f"<{len(r.lanes)} x {ty}>"
        text = "poison"
        for n, x in enumerate(r.lanes):
            if mask is None or _lane_on(mask, n):
                address = self._displaced(pointer, (r.const + x) * size)
                element = builder.effect(f"load {ty}, ptr {address}, align {size}", ty, 1)
                text = builder.effect(f"insertelement {full} {text}, {ty} {element.text}, i64 {n}", ty, 1).text
        return Value(text, ty, len(r.lanes), builder.here)

    def _gather(self, ty: str, buffer: Buffer, r: Resolved, mask: Value | None, pointer: Value) -> Value:
        builder, lanes = self.builder, self.builder.lanes
        pointers = self._lane_pointers(buffer, pointer, r)
        full, align = f"<{lanes} x {ty}>", buffer.dtype.bytes
        if mask is not None and lanes > 1 and align < _GATHERED:
            pointers, mask = self._guided(pointers, mask), None
        on = "splat (i1 true)" if mask is None else builder.vec(mask)
        operands = f"<{lanes} x ptr> align {align} {pointers.text}, <{lanes} x i1> {on}, {full} zeroinitializer"
        return builder.effect(
            f"call {full} @llvm.masked.gather.v{lanes}{_SUFFIX[ty]}.v{lanes}p0({operands})", ty, lanes
        )

    def _guided(self, pointers: Value, mask: Value) -> Value:
        """`pointers` where `mask`, elsewhere pointers to a zero: all may be read. Elements that the machine does not
        gather are read one by one, and under a mask LLVM makes each of them a branch: so many that it took a minute for
        a kernel of a few windows."""
        builder, lanes = self.builder, self.builder.lanes
        if not self._zero:
            self._zero = builder.name()
            builder.allocas += [f"{self._zero} = alloca i64, align 8", f"store i64 0, ptr {self._zero}, align 8"]
        zero = builder.vec(Value(self._zero, "ptr", 1, 0))
        choice = f"select <{lanes} x i1> {builder.vec(mask)}, <{lanes} x ptr> {pointers.text}, <{lanes} x ptr> {zero}"
        return builder.pure(choice, "ptr", lanes, max(pointers.level, mask.level))

    def prefetch(self, buffer: Buffer, r: Resolved) -> None:
        """Asks for the memory at offset `r`, of the first lane, to be brought into the core's own caches.

        All of them: AMD's Zen 4 drops some requests for the second one alone (prefetcht1; Wang et al. 2024, arXiv
        2411.02814), and on Zen 5 weights from memory were waited for. What the first loses, the second still has.
        """
        pointer, _ = self._address(buffer, r)
        first = r.lanes[0] if r.lanes is not None else 0
        address = self._displaced(pointer, (r.const + first) * buffer.dtype.bytes)
        self.builder.line(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 3, i32 1)")  # read, into L1, data

    # ---------------------------------------------------------------------------------------------- stores

    def store(self, buffer: Buffer, r: Resolved, value: Value, mask: Value | None) -> None:
        """Stores `value` (of the memory's element type) at offset `r` in lanes where `mask`."""
        r = self._privatised(buffer, r)
        pointer, align = self._address(buffer, r)
        self.touch(buffer)
        ty, size, builder = MEMORY_TYPES[buffer.dtype.name], buffer.dtype.bytes, self.builder
        literal_mask = mask is None or mask.const is not None
        if r.vectors or (not literal_mask and r.lanes is not None and not _is_run(r.lanes)):
            return self._scatter(buffer, r, value, mask, pointer)
        if r.lanes is None:
            if literal_mask:
                last = max(n for n in range(builder.lanes) if mask is None or _lane_on(mask, n))
                one = builder.lane(value, last)
                address = self._displaced(pointer, r.const * size)
                return builder.line(f"store {ty} {one.text}, ptr {address}, align {math.gcd(align, r.const * size)}")
            return self._scatter(buffer, r, value, mask, pointer)
        if _is_run(r.lanes):
            start = (r.const + r.lanes[0]) * size
            return self._store_run(ty, self._displaced(pointer, start), value, mask, math.gcd(align, start))
        low, span = min(r.lanes), max(r.lanes) - min(r.lanes) + 1
        if mask is None and span == len(r.lanes) == len(set(r.lanes)):
            start = (r.const + low) * size
            return self._store_permuted(ty, self._displaced(pointer, start), value, r.lanes, math.gcd(align, start))
        for n, x in enumerate(r.lanes):
            if mask is None or _lane_on(mask, n):
                address = self._displaced(pointer, (r.const + x) * size)
                builder.line(f"store {ty} {builder.lane(value, n).text}, ptr {address}, align {size}")
        return None

    def _store_run(self, ty: str, address: str, value: Value, mask: Value | None, align: int) -> None:
        builder, lanes = self.builder, self.builder.lanes
        operand = f"<{lanes} x {ty}> {builder.vec(value)}"
        if mask is None:
            builder.line(f"store {operand}, ptr {address}, align {align}")
            return
        name = f"@llvm.masked.store.v{lanes}{_SUFFIX[ty]}.p0"
        builder.line(f"call void {name}({operand}, ptr align {align} {address}, <{lanes} x i1> {builder.vec(mask)})")

    def _store_permuted(self, ty: str, address: str, value: Value, offsets: tuple[int, ...], align: int) -> None:
        builder, lanes, low = self.builder, len(offsets), min(offsets)
        source = {x - low: n for n, x in enumerate(offsets)}
        order = ", ".join([f"i32 {source[n]}" for n in range(lanes)])
        full = f"<{lanes} x {ty}>"
        rhs = f"shufflevector {full} {builder.vec(value)}, {full} poison, <{lanes} x i32> <{order}>"
        builder.line(f"store {full} {builder.inline(rhs, ty, lanes).text}, ptr {address}, align {align}")

    def _scatter(self, buffer: Buffer, r: Resolved, value: Value, mask: Value | None, pointer: Value) -> None:
        """Lanes in order: where several write one element, the last wins."""
        builder, lanes, ty = self.builder, self.builder.lanes, MEMORY_TYPES[buffer.dtype.name]
        if lanes == 1:
            return self._store_guarded(ty, pointer, r, buffer.dtype.bytes, value, mask)
        pointers = self._lane_pointers(buffer, pointer, r)
        on = "splat (i1 true)" if mask is None else builder.vec(mask)
        full, align = f"<{lanes} x {ty}>", buffer.dtype.bytes
        operands = f"{full} {builder.vec(value)}, <{lanes} x ptr> align {align} {pointers.text}, <{lanes} x i1> {on}"
        builder.line(f"call void @llvm.masked.scatter.v{lanes}{_SUFFIX[ty]}.v{lanes}p0({operands})")
        return None

    def _store_guarded(self, ty: str, pointer: Value, r: Resolved, size: int, value: Value, mask: Value | None) -> None:
        builder = self.builder
        assert mask is not None
        on = builder.pure(f"insertelement <1 x i1> poison, i1 {mask.text}, i64 0", "i1", 1, mask.level)
        one = builder.inline(f"insertelement <1 x {ty}> poison, {ty} {value.text}, i64 0", ty, 1)
        operands = f"<1 x {ty}> {one.text}, ptr align {size} {self._displaced(pointer, r.const * size)}"
        builder.line(f"call void @llvm.masked.store.v1{_SUFFIX[ty]}.p0({operands}, <1 x i1> {on.text})")


def privatised(r: Resolved, lanes: int) -> Resolved:
    """`r` in an array whose every element is `lanes` wide, one for each lane."""
    own = tuple([x * lanes + n for n, x in enumerate(r.lanes or (0,) * lanes)])
    terms = tuple([(v, c * lanes) for v, c in r.terms])
    return Resolved(r.const * lanes, terms, own, tuple([(v, c * lanes) for v, c in r.vectors]))


def _is_run(lanes: tuple[int, ...]) -> bool:
    """Whether neighbours in lanes are neighbours in memory."""
    first = lanes[0]
    return lanes == tuple(range(first, first + len(lanes)))


def _lane_on(mask: Value, lane: int) -> bool:
    return bool(mask.const[lane] if isinstance(mask.const, tuple) else mask.const)
