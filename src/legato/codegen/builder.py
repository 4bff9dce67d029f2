"""Text of one LLVM function: blocks, scopes, and value numbering.

A scope is the body of a loop or of a branch. Pure integer instructions are emitted as far out as their operands allow,
in the `head` of the scope that binds the innermost of them (or in front of a loop), so that addresses and masks leave
inner loops without any LLVM pass. Everything else is emitted where it is used. Instructions with equal text are
emitted once per scope: SSA names are unique, so equal text is an equal value.
"""

from __future__ import annotations

from collections.abc import Iterator

from legato.codegen.value import Value, splat_text, vector_constant, vector_type

__all__ = ["Builder", "Scope"]

Text = list["str | list[str]"]


class Scope:
    """A loop body or branch: where hoisted instructions go, and which value numbers end with it."""

    __slots__ = ("head", "keys", "pre")

    def __init__(self, pre: list[str] | None) -> None:
        self.pre = pre  # in front of a loop; None for branches
        self.head: list[str] = []
        self.keys: list[object] = []


class Builder:
    """Appends instructions; `lanes` is the width of the vector loop being emitted (1 outside)."""

    def __init__(self) -> None:
        self.out: Text = []
        self.allocas: list[str] = []
        self.count = 0
        self.lanes = 1
        self.block = "entry"
        self.known: dict[object, Value] = {}
        self.scopes: list[Scope] = []
        self.out.append("entry:")
        self.out.append(self.allocas)
        self._open(None)

    # ---------------------------------------------------------------------------------------------- blocks and scopes

    def name(self) -> str:
        """A new SSA name."""
        self.count += 1
        return f"%v{self.count}"

    def label(self, hint: str) -> str:
        """A new block label."""
        self.count += 1
        return f"{hint}{self.count}"

    def start(self, label: str) -> None:
        """Begins block `label`; the block before it must have ended in a branch."""
        self.out.append(f"{label}:")
        self.block = label

    def line(self, text: str) -> None:
        """An instruction without result, here."""
        self.out.append(text)

    @property
    def here(self) -> int:
        """The level of values emitted at the current point."""
        return 2 * len(self.scopes) - 1

    def before_loop(self) -> list[str]:
        """Marks the current point as the place for what is invariant in the loop that follows."""
        pre: list[str] = []
        self.out.append(pre)
        return pre

    def _open(self, pre: list[str] | None) -> None:
        scope = Scope(pre)
        self.scopes.append(scope)
        self.out.append(scope.head)

    def open(self, pre: list[str] | None = None) -> None:
        """Enters a scope whose first block has begun and whose phis are emitted."""
        self._open(pre)

    def close(self) -> None:
        """Leaves the innermost scope: its value numbers end."""
        for key in self.scopes.pop().keys:
            self.known.pop(key, None)

    def lines(self) -> Iterator[str]:
        """All lines of the body."""
        for item in self.out:
            if isinstance(item, str):
                yield item
            else:
                yield from item

    # ---------------------------------------------------------------------------------------------- instructions

    def pure(self, rhs: str, ty: str, lanes: int, level: int) -> Value:
        """A pure instruction, hoisted to `level` and numbered."""
        found = self.known.get(rhs)
        if found is not None:
            return found
        self.count += 1
        name = f"%v{self.count}"
        scopes = self.scopes
        depth = level >> 1
        if level & 1:
            if depth == len(scopes) - 1:
                self.out.append(f"{name} = {rhs}")
                owner = scopes[depth]
            else:
                inner = scopes[depth + 1]
                if inner.pre is None:
                    inner.head.append(f"{name} = {rhs}")
                    level += 1
                    owner = inner
                else:
                    inner.pre.append(f"{name} = {rhs}")
                    owner = scopes[depth]
        else:
            owner = scopes[depth]
            owner.head.append(f"{name} = {rhs}")
        value = Value(name, ty, lanes, level)
        self.known[rhs] = value
        owner.keys.append(rhs)
        return value

    def inline(self, rhs: str, ty: str, lanes: int) -> Value:
        """A pure instruction emitted here, numbered."""
        found = self.known.get(rhs)
        if found is not None:
            return found
        value = self.effect(rhs, ty, lanes)
        self.known[rhs] = value
        self.scopes[-1].keys.append(rhs)
        return value

    def effect(self, rhs: str, ty: str, lanes: int) -> Value:
        """An instruction emitted here, every time."""
        self.count += 1
        name = f"%v{self.count}"
        self.out.append(f"{name} = {rhs}")
        return Value(name, ty, lanes, 2 * len(self.scopes) - 1)

    def remember(self, key: object, value: Value) -> None:
        """Numbers a value under a key of the caller's, to the end of the current scope."""
        self.known[key] = value
        self.scopes[-1].keys.append(key)

    # ---------------------------------------------------------------------------------------------- vectors

    def vec(self, v: Value, lanes: int = 0) -> str:
        """`v` as an operand of `lanes` lanes (0: those of the current vector loop)."""
        lanes = lanes or self.lanes
        if v.lanes == lanes:
            return v.text
        if v.const is not None:
            return splat_text(v)
        return self.splat(v, lanes).text

    def splat(self, v: Value, lanes: int) -> Value:
        """The scalar `v` in every one of `lanes` lanes."""
        if v.lanes == lanes:
            return v
        if v.const is not None:
            return v._replace(text=splat_text(v), lanes=lanes)
        full = f"<{lanes} x {v.ty}>"
        one = self.pure(f"insertelement {full} poison, {v.ty} {v.text}, i64 0", v.ty, lanes, v.level)
        rhs = f"shufflevector {full} {one.text}, {full} poison, <{lanes} x i32> zeroinitializer"
        return self.pure(rhs, v.ty, lanes, one.level)

    def lane(self, v: Value, lane: int) -> Value:
        """Lane `lane` of `v`."""
        if v.lanes == 1:
            return v
        if isinstance(v.const, tuple):
            return vector_constant((v.const[lane],), v.ty)
        return self.inline(f"extractelement <{v.lanes} x {v.ty}> {v.text}, i64 {lane}", v.ty, 1)

    def binary(self, opcode: str, a: Value, b: Value, ty: str = "", *, hoist: bool = False) -> Value:
        """`opcode a, b`; the element type of the result is `ty` (default: that of a)."""
        lanes = max(a.lanes, b.lanes)
        if lanes == 1:
            rhs = f"{opcode} {a.ty} {a.text}, {b.text}"
        else:
            rhs = f"{opcode} <{lanes} x {a.ty}> {self.vec(a, lanes)}, {self.vec(b, lanes)}"
        if hoist:
            return self.pure(rhs, ty or a.ty, lanes, max(a.level, b.level))
        return self.inline(rhs, ty or a.ty, lanes)

    def replaced(self, v: Value) -> Value:
        """`v`, in the register that is to hold what the next instruction makes of it. Nothing is executed: without
        this, LLVM keeps a sum in the register of what is added, and moves the sums of a tile about."""
        full = vector_type(v.ty, v.lanes)
        return self.effect(f'call {full} asm "", "=x,0"({full} {v.text})', v.ty, v.lanes)

    def unary(self, opcode: str, a: Value, ty: str, *, hoist: bool = False) -> Value:
        """`opcode a to ty`: a conversion."""
        rhs = f"{opcode} {vector_type(a.ty, a.lanes)} {a.text} to {vector_type(ty, a.lanes)}"
        return self.pure(rhs, ty, a.lanes, a.level) if hoist else self.inline(rhs, ty, a.lanes)

    def select(self, cond: Value, a: Value, b: Value, *, hoist: bool = False) -> Value:
        """`a` where `cond`, else `b`."""
        if cond.const is not None and cond.lanes == 1:
            return a if cond.const else b
        if a.text == b.text and a.lanes == b.lanes:
            return a
        lanes = max(cond.lanes, a.lanes, b.lanes)
        full = vector_type(a.ty, lanes)
        mask = f"<{lanes} x i1> {self.vec(cond, lanes)}" if cond.lanes > 1 else f"i1 {cond.text}"
        rhs = f"select {mask}, {full} {self.vec(a, lanes)}, {full} {self.vec(b, lanes)}"
        if hoist:
            return self.pure(rhs, a.ty, lanes, max(cond.level, a.level, b.level))
        return self.inline(rhs, a.ty, lanes)

    def call(self, name: str, *args: Value, ty: str = "", hoist: bool = False) -> Value:
        """An LLVM intrinsic overloaded on its operands' common type (`llvm.fma`, `llvm.smin`…)."""
        lanes = max([a.lanes for a in args])
        first = args[0].ty
        full = vector_type(first, lanes)
        suffix = _SUFFIX[first] if lanes == 1 else f"v{lanes}{_SUFFIX[first]}"
        operands = ", ".join([f"{full} {self.vec(a, lanes)}" for a in args])
        rhs = f"call {full} @{name}.{suffix}({operands})"
        if hoist:
            return self.pure(rhs, ty or first, lanes, max([a.level for a in args]))
        return self.inline(rhs, ty or first, lanes)

    def any_lane(self, mask: Value) -> Value:
        """Whether any lane of `mask` is set (i1)."""
        if mask.lanes == 1:
            return mask
        rhs = f"call i1 @llvm.vector.reduce.or.v{mask.lanes}i1(<{mask.lanes} x i1> {mask.text})"
        return self.pure(rhs, "i1", 1, mask.level)


_SUFFIX = {"float": "f32", "double": "f64", "i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64"}
