"""Scalar expressions of a loop program as values: one scalar, or one element per lane of the current vector loop."""

from __future__ import annotations

from dataclasses import replace

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var
from legato.arith.fold import COMPARISONS
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.base.node import post_order
from legato.base.target import Target
from legato.codegen import half, pairs
from legato.codegen.affine import Affine, Polynomial, Resolved, add
from legato.codegen.arithmetic import Arithmetic
from legato.codegen.builder import Builder
from legato.codegen.intrinsics import Intrinsics
from legato.codegen.known import Known
from legato.codegen.memory import MEMORY_TYPES, Memory
from legato.codegen.objects import size_of, tag_of
from legato.codegen.registers import Registers
from legato.codegen.value import Value, boolean, literal, vector_constant
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Address, Call, Cast, Load, Size, Tag
from legato.tir.intrinsics import INTRINSICS

__all__ = ["Evaluator"]

_SUMS = frozenset({Op.ADD, Op.SUB, Op.MUL})
_DIVISIONS = frozenset({Op.FLOORDIV, Op.FLOORMOD})
_SMALL = 1 << 30  # sums of two such numbers fit 32 bits


class Evaluator:
    """Evaluates expressions under an environment.

    `mask` holds in the lanes that execute the current statement (None: in all). Values of one statement are shared
    through `memo`, which whoever changes the environment or memory must clear.
    """

    def __init__(self, builder: Builder, target: Target, intrinsics: Intrinsics, *, volatile: bool) -> None:
        self.builder = builder
        self.env: dict[Expr, Value] = {}  # of variables
        self.affine = Affine(builder, self.value, self.env)
        # A result that replaces an operand takes a copy of it: another load is as good, and holds no register.
        kept = target.vector_registers // 4 if target.has_three_operands else 0
        self.memory = Memory(builder, self.affine, kept, volatile=volatile)
        self._replacing = 0 if target.has_three_operands else target.vector_bytes
        self.arithmetic = Arithmetic(builder, f16c="f16c" in target.features)
        self.intrinsics = intrinsics
        self.registers: dict[Buffer, Registers] = {}
        self.mask: Value | None = None
        self.memo: dict[Expr, Value] = {}
        self._indices = Known(builder)
        self._literals: dict[Expr, Value] = {}
        self._orders: dict[Expr, list[Expr]] = {}
        self._offsets: dict[tuple[Buffer, tuple[Expr, ...]], Polynomial] = {}
        self._nonnegative: dict[Expr, bool] = {}
        self._loads: dict[Expr, bool] = {}
        self._update: Expr | None = None

    def value(self, e: Expr) -> Value:
        """The value of `e` here."""
        if type(e) is Var:
            return self._var(e)
        memo = self.memo
        found = memo.get(e)
        if found is not None:
            return found
        if type(e) is Const:
            return self._literal(e)
        is_index = e.dtype is dt.index
        if is_index and (found := self._indices.get(e)) is not None:
            return found
        for node in self._order(e):
            if node not in memo:
                memo[node] = self._node(node)
        found = memo[e]
        if is_index:
            self._indices.keep(e, found)
        return found

    def close(self) -> None:
        """Ends the cycle of references between this and what asks it for values: all is freed at once, and not found by
        a search, which takes longer."""
        self.affine.value = _closed

    def bind(self, var: Var, value: Value) -> None:
        """`var` has `value` from now on."""
        self.env[var] = value
        self._indices.forget(var)

    def _literal(self, e: Const) -> Value:
        found = self._literals.get(e)
        if found is None:
            found = self._literals[e] = literal(e.value, e.dtype)
        return found

    def _order(self, root: Expr) -> list[Expr]:
        order = self._orders.get(root)
        if order is None:
            order = self._orders[root] = list(post_order([root], self._enters))
        return order

    def _enters(self, e: Expr) -> bool:
        """Whether an expression's operands are evaluated before it: not those of index arithmetic, which is evaluated
        as a whole, not pairs, which are loaded together, not what is loaded as other bits, and not the sides of a
        Select that guards a load."""
        if isinstance(e, Load) or (isinstance(e, Call) and (e.name == "pair" or INTRINSICS[e.name].bits)):
            return False
        if isinstance(e, Binary):
            return e.a.dtype is not dt.index
        return not (isinstance(e, Select) and self._is_guard(e))

    def _is_guard(self, e: Select) -> bool:
        """Whether a side of `e` loads, or looks at an object."""
        return self._reads(e.a) or self._reads(e.b)

    def _reads(self, e: Expr) -> bool:
        known = self._loads
        if e not in known:
            for node in post_order([e], lambda n: n not in known):
                if node not in known:
                    known[node] = isinstance(node, Load | Size | Tag) or any(known[c] for c in node.children())
        return known[e]

    def _var(self, v: Var) -> Value:
        value = self.env.get(v)
        if value is None:
            raise InternalError(f"variable {v.name} is used where it is not defined")
        return value

    def _node(self, e: Expr) -> Value:
        memo = self.memo
        match e:
            case Binary():
                return self._binary(e)
            case Load():
                return self._load(e)
            case Const():
                return self._literal(e)
            case Var():
                return self._var(e)
            case Call():
                return self._call(e)
            case Address(buffer=buffer):
                pointer = self.memory.pointer(buffer)
                return self.builder.effect(f"ptrtoint ptr {pointer.text} to i64", "i64", 1)
            case Tag(handle=handle):
                return tag_of(self.builder, memo[handle], self.mask)
            case Size(handle=handle):
                return size_of(self.builder, memo[handle])
            case Cast():
                return self.arithmetic.cast(memo[e.a], e.a.dtype, e.dtype)
            case Select():
                return self._select(e)
            case _:
                raise InternalError(f"code generation does not know the expression {type(e).__name__}")

    def _binary(self, e: Binary) -> Value:
        if e.a.dtype.is_float and e.op in (Op.FLOORDIV, Op.FLOORMOD):
            name = "floordiv" if e.op is Op.FLOORDIV else "floormod"
            result = self.intrinsics.call(name, [self.memo[e.a], self.memo[e.b]], e.a.dtype)
            return self.arithmetic.rounded(result, e.a.dtype)
        if e.a.dtype is not dt.index:
            left = self.memo[e.a]
            if e is self._update and left.const is None and left.lanes * e.dtype.bytes == self._replacing:
                left = self.builder.replaced(left)
            return self.arithmetic.binary(e.op, left, self.memo[e.b], e.a.dtype)
        if e.op in _SUMS and (poly := self.affine.polynomial(e)) != {(e,): 1}:  # else a product of too many terms
            return self.affine.materialise(self.affine.resolve(poly))
        if e.op in COMPARISONS:
            return self._compare(e.op, e.a, e.b)
        if e.op in _DIVISIONS and isinstance(e.b, Const) and 0 < e.b.value < _SMALL:
            r = self.affine.resolve(self.affine.polynomial(e.a))
            if r.terms and r.lanes is not None and not r.vectors and max(r.lanes) - min(r.lanes) < _SMALL:
                return self._divide_lanes(e, r, int(e.b.value))
        return self.arithmetic.binary(e.op, self.value(e.a), self.value(e.b), dt.index, unsigned=self.nonnegative(e.a))

    def _call(self, e: Call) -> Value:
        if e.name == "pair":
            return self._pair(*e.args)
        if INTRINSICS[e.name].bits:
            return self.from_memory(self._bits(e.args[0], e.dtype), e.dtype)
        dtype = e.args[0].dtype
        result = self.intrinsics.call(e.name, [self.memo[a] for a in e.args], dtype)
        return result if e.dtype.is_bool else self.arithmetic.rounded(result, dtype)

    # ---------------------------------------------------------------------------------------------- memory

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Resolved:
        """Element offset of `buffer[indices]` in the buffer's memory."""
        key = (buffer, indices)
        poly = self._offsets.get(key)
        if poly is None:
            poly = self._offsets[key] = self.affine.offset(buffer.offset(indices))
        return self.affine.resolve(poly)

    def _load(self, e: Load) -> Value:
        where = self.offset(e.buffer, e.indices)
        if e.buffer.scope is Scope.REGISTER:
            return self._register(e.buffer).read(self.builder, where)
        return self.from_memory(self.memory.load(e.buffer, where, self.mask), e.dtype)

    def _bits(self, e: Expr, dtype: DType) -> Value:
        """An element of `dtype` as it is stored whose bits are those of `e`: no float of 16 bits is made of them, which
        would change some that are NaN."""
        if isinstance(e, Load) and e.buffer.scope is not Scope.REGISTER:
            stored = self.memory.load(e.buffer, self.offset(e.buffer, e.indices), self.mask)
        else:
            stored = self.to_memory(self.value(e), e.dtype)
        ty = MEMORY_TYPES[dtype.name]
        return stored if stored.ty == ty else self.builder.unary("bitcast", stored, ty)

    def _pair(self, lo: Expr, hi: Expr) -> Value:
        """Two bfloat16 in 32 bits: by one access where they are neighbours in memory."""
        if isinstance(lo, Load) and isinstance(hi, Load) and lo.buffer is hi.buffer:
            buffer, first, second = lo.buffer, self.offset(lo.buffer, lo.indices), self.offset(hi.buffer, hi.indices)
            is_memory = buffer.scope is not Scope.REGISTER and self.memory.private.get(buffer, 1) == 1
            if is_memory and first == replace(second, const=second.const - 1):
                return self.memory.load(buffer, first, self.mask, pairs=True)
        halves = [self.to_memory(self.value(x), dt.bfloat16) for x in (lo, hi)]
        return pairs.joined(self.builder, *halves)

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], e: Expr) -> None:
        """Stores the value of `e` in the lanes of the mask."""
        self._update = e if self.mask is None and _adds_to(e, buffer, indices) else None
        if buffer.scope is Scope.REGISTER:
            value = self.value(e)
            self._register(buffer).write(self.builder, self.offset(buffer, indices), value, self.mask)
            return
        if isinstance(e, Call) and INTRINSICS[e.name].bits and not e.dtype.is_bool:
            stored = self._bits(e.args[0], e.dtype)
        else:
            stored = self.to_memory(self.value(e), buffer.dtype)
        self.memory.store(buffer, self.offset(buffer, indices), stored, self.mask)

    def prefetch(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        """Asks for the memory at `indices`, of the first lane if they differ between lanes."""
        self.memory.prefetch(buffer, self.offset(buffer, indices))

    def _register(self, buffer: Buffer) -> Registers:
        found = self.registers.get(buffer)
        if found is None:
            raise InternalError(f"buffer {buffer.name} is used where it is not defined")
        return found

    def from_memory(self, v: Value, dtype: DType) -> Value:
        """A loaded element as it is held in registers."""
        if dtype.is_bool:
            return self.builder.binary("icmp ne", v, Value("0", "i8", 1, 0, 0), "i1")
        if dtype.is_float and dtype.bits == 16:
            return half.unpack(self.builder, v, dtype.name, f16c=self.arithmetic.f16c)
        return v

    def to_memory(self, v: Value, dtype: DType) -> Value:
        """A value in registers as it is stored."""
        if dtype.is_bool:
            return self.builder.unary("zext", self.builder.splat(v, v.lanes), "i8")
        if dtype.is_float and dtype.bits == 16:
            return half.pack(self.builder, v, dtype.name, f16c=self.arithmetic.f16c)
        return v

    # ---------------------------------------------------------------------------------------------- select and compare

    def _select(self, e: Select) -> Value:
        if not self._is_guard(e):
            return self._chosen(e.dtype, self.memo[e.cond], self.value(e.a), self.value(e.b))
        # A chain of guards (a concatenation) may be long: it is walked, not recursed into.
        outer, memo = self.mask, self.memo
        chain: list[tuple[Value, Value]] = []
        rest: Expr = e
        while isinstance(rest, Select) and self._is_guard(rest):
            cond = self.value(rest.cond)
            if type(cond.const) is bool:
                rest = rest.a if cond.const else rest.b
                continue
            chain.append((cond, self._guarded(rest.a, cond)))
            self.mask, self.memo = self.both(self.mask, self.negated(cond)), dict(self.memo)
            rest = rest.b
        result = self.value(rest)
        self.mask, self.memo = outer, memo
        for cond, a in reversed(chain):
            result = self._chosen(e.dtype, cond, a, result)
        return result

    def _chosen(self, dtype: DType, cond: Value, a: Value, b: Value) -> Value:
        if dtype is dt.index and isinstance(cond.const, tuple) and a.const is not None and b.const is not None:
            xs = a.const if isinstance(a.const, tuple) else (a.const,) * cond.lanes
            ys = b.const if isinstance(b.const, tuple) else (b.const,) * cond.lanes
            lanes = [int(x if c else y) for c, x, y in zip(cond.const, xs, ys, strict=True)]
            return vector_constant(tuple(lanes), "i64")
        return self.builder.select(cond, a, b, hoist=dtype is dt.index)

    def _guarded(self, side: Expr, cond: Value) -> Value:
        """The value of `side`, whose loads are performed only in lanes where `cond`."""
        outer_mask, outer_memo = self.mask, self.memo
        self.mask, self.memo = self.both(outer_mask, cond), dict(outer_memo)
        value = self.value(side)
        self.mask, self.memo = outer_mask, outer_memo
        return value

    def both(self, a: Value | None, b: Value) -> Value:
        """The conjunction of a mask and a condition."""
        return b if a is None else self.arithmetic.binary(Op.AND, a, b, dt.bool_)

    def negated(self, cond: Value) -> Value:
        """Where `cond` does not hold."""
        return self.arithmetic.binary(Op.BITXOR, cond, boolean(True), dt.bool_)

    def _compare(self, op: Op, a: Expr, b: Expr) -> Value:
        """A comparison of index expressions, decided here if their difference is a literal."""
        left, right = self.affine.polynomial(a), self.affine.polynomial(b)
        r = self.affine.resolve(add(left, right, -1))
        zero = literal(0, dt.index)
        if r.is_literal:
            return self.arithmetic.binary(op, self.affine.materialise(r), zero, dt.index)
        if r.lanes is not None and not r.vectors:
            return self._compare_lanes(op, r)
        x = self.affine.materialise(self.affine.resolve(left))
        y = self.affine.materialise(self.affine.resolve(right))
        return self.arithmetic.binary(op, x, y, dt.index)

    def _compare_lanes(self, op: Op, r: Resolved) -> Value:
        """`lane offset op limit` in 32 bits: the scalar limit is clamped to just outside the range of the offsets."""
        assert r.lanes is not None
        low, high = min(r.lanes) - 1, max(r.lanes) + 1
        scalars = Resolved(-r.const, tuple([(v, -c) for v, c in r.terms]), None, ())
        limit = self.affine.materialise(scalars)
        b = self.builder
        limit = b.call("llvm.smax", b.call("llvm.smin", limit, literal(high, dt.int64), hoist=True),
                       literal(low, dt.int64), hoist=True)  # fmt: skip
        narrow = b.unary("trunc", limit, "i32", hoist=True)
        offsets = vector_constant(r.lanes, "i32")
        opcode = {Op.LT: "icmp slt", Op.LE: "icmp sle", Op.EQ: "icmp eq", Op.NE: "icmp ne"}[op]
        return b.binary(opcode, offsets, narrow, "i1", hoist=True)

    def _divide_lanes(self, e: Binary, r: Resolved, divisor: int) -> Value:
        """`(scalar + lane offset) op divisor`: a scalar division, and one of small numbers in 32 bits.

        With scalar = q·d + s, the quotient is q + (s + offset) // d and the rest (s + offset) % d.
        """
        assert r.lanes is not None
        b, low, by = self.builder, min(r.lanes), literal(divisor, dt.index)
        scalar = self.affine.materialise(Resolved(r.const + low, r.terms, None, ()))
        unsigned = self.nonnegative(e.a)
        rest = self.arithmetic.binary(Op.FLOORMOD, scalar, by, dt.index, unsigned=unsigned)
        rest = b.unary("trunc", rest, "i32", hoist=True)
        offsets = vector_constant(tuple([x - low for x in r.lanes]), "i32")
        small = b.binary("add", rest, offsets, hoist=True)
        opcode = "udiv" if e.op is Op.FLOORDIV else "urem"
        result = b.binary(opcode, small, Value(str(divisor), "i32", 1, 0, divisor), hoist=True)
        result = b.unary("zext", result, "i64", hoist=True)
        if e.op is Op.FLOORMOD:
            return result
        whole = self.arithmetic.binary(Op.FLOORDIV, scalar, by, dt.index, unsigned=unsigned)
        return b.binary("add", whole, result, hoist=True)

    # ---------------------------------------------------------------------------------------------- ranges

    def nonnegative(self, e: Expr) -> bool:
        """Whether an index expression is known not to be negative."""
        known = self._nonnegative
        if e not in known:
            for node in post_order([e], lambda n: n not in known):
                if node not in known:
                    known[node] = self._is_nonnegative(node)
        return known[e]

    def _is_nonnegative(self, e: Expr) -> bool:
        match e:
            case Const(value=value):
                return value >= 0
            case Var():
                return e.lo is not None and e.lo >= 0
            case Binary(op=Op.ADD | Op.MUL | Op.FLOORDIV | Op.MIN, a=a, b=b):
                return self._nonnegative[a] and self._nonnegative[b]
            case Binary(op=Op.MAX, a=a, b=b):
                return self._nonnegative[a] or self._nonnegative[b]
            case Binary(op=Op.FLOORMOD, b=b):
                return self._nonnegative[b]
            case _:
                return False


def _closed(e: Expr) -> Value:
    raise InternalError(f"the value of {e} is asked for behind the end of the function")


def _adds_to(e: Expr, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
    """Whether `e` is the float in a place of a register buffer plus something."""
    if buffer.scope is not Scope.REGISTER or not isinstance(e, Binary) or e.op is not Op.ADD:
        return False
    is_held = e.dtype.is_float and e.dtype.bits >= 32
    return is_held and isinstance(e.a, Load) and e.a.buffer is buffer and e.a.indices == indices
