"""A loop program as C99: one function, of buffers and dims, that gives a status.

    int NAME(void *const *buffers, const int64_t *dims)

Loops run in order, whatever their kind; memory of the program's own is taken when it is needed, and given back in the
end. The status is 0, -1 where there is no memory, or that of a Check that does not hold. Arithmetic is as `tir.interp`
has it: integers wrap, floats round to their own dtype, casts to integers saturate, and of a Select that reads memory
only the chosen side is evaluated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var
from legato.arith.fold import COMPARISONS
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import UnsupportedError
from legato.base.node import post_order
from legato.tir.buffer import Buffer
from legato.tir.expr import Call, Cast, Load
from legato.tir.stmt import FIRST_CHECK, Alloc, Block, Check, For, Func, If, Let, Prefetch, Stmt, Store, While

__all__ = ["TYPES", "c_text"]

TYPES: Final[Mapping[DType, str]] = {
    dt.bool_: "bool",
    dt.float32: "float",
    dt.float64: "double",
    dt.index: "int64_t",
    **{d: f"{d.name}_t" for d in dt.ALL_DTYPES if d.is_int},
}

_LEFT: Final = "name the operators that it takes, CSource(operators=…): what it does not take, Legato compiles"
_PRELUDE: Final = """#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define INTEGER(T, BITS) \\
  static inline T add_##T(T a, T b) { return (T)((uint64_t)a + (uint64_t)b); } \\
  static inline T sub_##T(T a, T b) { return (T)((uint64_t)a - (uint64_t)b); } \\
  static inline T mul_##T(T a, T b) { return (T)((uint64_t)a * (uint64_t)b); } \\
  static inline T min_##T(T a, T b) { return a < b ? a : b; } \\
  static inline T max_##T(T a, T b) { return a > b ? a : b; } \\
  static inline T shl_##T(T a, T b) { return (T)((uint64_t)a << ((uint64_t)b % BITS)); } \\
  static inline T shr_##T(T a, T b) { return (T)(a >> ((uint64_t)b % BITS)); } \\
  static inline T floormod_##T(T a, T b) { \\
    if (b == 0 || b == (T)-1) return b == 0 || (T)-1 < 0 ? 0 : (T)(a % b); \\
    T r = (T)(a % b); \\
    return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r; \\
  } \\
  static inline T floordiv_##T(T a, T b) { \\
    if (b == 0) return 0; \\
    if ((T)-1 < 0 && b == (T)-1) return (T)(0 - (uint64_t)a); \\
    T q = (T)(a / b); \\
    return a % b != 0 && (a % b < 0) != (b < 0) ? (T)(q - 1) : q; \\
  }
INTEGER(int8_t, 8) INTEGER(int16_t, 16) INTEGER(int32_t, 32) INTEGER(int64_t, 64)
INTEGER(uint8_t, 8) INTEGER(uint16_t, 16) INTEGER(uint32_t, 32) INTEGER(uint64_t, 64)

#define REAL(T, FLOOR, FMOD) \\
  static inline T min_##T(T a, T b) { return a != a || a < b ? a : b; } \\
  static inline T max_##T(T a, T b) { return a != a || a > b ? a : b; } \\
  static inline T floormod_##T(T a, T b) { \\
    T r = FMOD(a, b); \\
    return r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r; \\
  } \\
  static inline T floordiv_##T(T a, T b) { \\
    if (b == 0) return a / b; \\
    T r = FMOD(a, b), d = (a - r) / b; \\
    if (r != 0 && (r < 0) != (b < 0)) d -= 1; \\
    T f = FLOOR(d); \\
    return d == 0 ? copysign(0, a / b) : d - f > 0.5 ? f + 1 : f; \\
  }
REAL(float, floorf, fmodf) REAL(double, floor, fmod)

static inline int64_t saturated(double x, double lo, double hi, int64_t least, int64_t most) {
  return x != x ? 0 : x <= lo ? least : x >= hi ? most : (int64_t)x;
}
static inline uint64_t saturated_unsigned(double x, double hi, uint64_t most) {
  return x != x || x <= 0 ? 0 : x >= hi ? most : (uint64_t)x;
}

typedef struct taken { struct taken *next; } taken;
static void *take(taken **all, int64_t bytes) {
  taken *block = malloc(64 + (bytes > 0 ? (size_t)bytes : 1));
  if (block == NULL) return NULL;
  block->next = *all;
  *all = block;
  return (char *)block + 64;
}
"""

_MATH: Final = {
    **dict.fromkeys(
        ("exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"), ""
    ),
    **dict.fromkeys(("asinh", "acosh", "atanh", "pow", "fma", "floor", "ceil", "trunc"), ""),
    "abs": "fabs",
    "round": "rint",
}
_BOOL: Final = {Op.ADD: "|", Op.OR: "|", Op.BITOR: "|", Op.MAX: "|", Op.MUL: "&", Op.AND: "&", Op.BITAND: "&",
                Op.MIN: "&", Op.BITXOR: "^"}  # fmt: skip
_NAMED: Final = {Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul", Op.MIN: "min", Op.MAX: "max", Op.SHL: "shl",
                 Op.SHR: "shr", Op.FLOORDIV: "floordiv", Op.FLOORMOD: "floormod"}  # fmt: skip
_PLAIN: Final = (Op.ADD, Op.SUB, Op.MUL)  # of an index, which does not overflow
_INLINE: Final = 80  # characters of an expression without a name


def c_text(func: Func) -> str:
    """The C of `func`, its function called as it is. UnsupportedError for what has no C here."""
    writer = _Writer()
    writer.function(func)
    return _PRELUDE + "\n" + "\n".join(writer.lines) + "\n"


def _type(dtype: DType) -> str:
    found = TYPES.get(dtype)
    if found is None:
        raise UnsupportedError(f"C source has no type for {dtype}", hint=f"one of {', '.join(map(str, TYPES))}")
    return found


class _Writer:
    """The lines of a function, and what variables and buffers are called."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[Var | Buffer, str] = {}
        self._indent = 0
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self._indent + text)

    def fresh(self, hint: str) -> str:
        """A name that nothing has."""
        self._count += 1
        return f"{re.sub('^[^A-Za-z]+|[^A-Za-z0-9]', '_', hint)}_{self._count}"

    @contextmanager
    def nested(self, head: str) -> Iterator[None]:
        """Lines in braces."""
        self.line(f"{head} {{")
        self._indent += 1
        yield
        self._indent -= 1
        self.line("}")

    # ------------------------------------------------------------------------------------------------ statements

    def function(self, func: Func) -> None:
        """The function of a program, and the one around it that gives memory back."""
        with self.nested("static int body(taken **all, void *const *buffers, const int64_t *dims)"):
            self.line("(void)all, (void)dims;")
            counts = {"buffers": 0, "dims": 0}
            for p in func.params:
                table = "buffers" if isinstance(p, Buffer) else "dims"
                self._bind(p, f"{table}[{counts[table]}]")
                counts[table] += 1
            self.stmt(func.body)
            self.line("return 0;")
        with self.nested(f"int {func.name}(void *const *buffers, const int64_t *dims)"):
            self.line("taken *all = NULL;")
            self.line("int status = body(&all, buffers, dims);")
            self.line("while (all != NULL) { taken *next = all->next; free(all); all = next; }")
            self.line("return status;")

    def _bind(self, param: Var | Buffer, value: str) -> None:
        name = self.names[param] = self.fresh(param.name)
        kind = _type(param.dtype)
        self.line(
            f"{kind} *const {name} = {value};" if isinstance(param, Buffer) else f"const {kind} {name} = {value};"
        )
        self.line(f"(void){name};")

    def stmt(self, root: Stmt) -> None:
        """The lines of a statement; recursion is as deep as loops and branches nest."""
        pending = [root]
        while pending:
            match pending.pop():
                case Block(stmts):
                    pending += reversed(stmts)
                case Let(var, value, body):
                    self._bind(var, self.value(value))
                    pending.append(body)
                case Alloc(buffer, body):
                    size = self.value(buffer.elements())
                    self._bind(buffer, f"take(all, {size} * (int64_t)sizeof({_type(buffer.dtype)}))")
                    self.line(f"if ({self.names[buffer]} == NULL) return -1;")
                    pending.append(body)
                case Store(buffer, indices, value):
                    scope = _Scope(self)
                    text = scope.text(value)
                    self.line(f"{self.names[buffer]}[{scope.text(buffer.offset(indices))}] = {text};")
                case For(var, extent, body):
                    self.names[var] = name = self.fresh(var.name)
                    end = self.value(extent)
                    with self.nested(f"for (int64_t {name} = 0; {name} < {end}; ++{name})"):
                        self.stmt(body)
                case If(cond, then, orelse):
                    chosen = self.value(cond)
                    with self.nested(f"if ({chosen})"):
                        self.stmt(then)
                    if orelse is not None:
                        with self.nested("else"):
                            self.stmt(orelse)
                case While(cond, body):
                    with self.nested("for (;;)"):
                        self.line(f"if (!({self.value(cond)})) break;")
                        self.stmt(body)
                case Check(cond, code):
                    self.line(f"if (!({self.value(cond)})) return {FIRST_CHECK + code};")
                case Prefetch():
                    pass
                case other:
                    raise UnsupportedError(f"C source has no {type(other).__name__}", hint=_LEFT)

    def value(self, e: Expr) -> str:
        """The text of an expression, after the lines that it needs."""
        return _Scope(self).text(e)


class _Scope:
    """Texts of expressions at the current line; what occurs twice has a name."""

    def __init__(self, writer: _Writer, outer: _Scope | None = None) -> None:
        self._writer = writer
        self._texts: dict[Expr, str] = {} if outer is None else dict(outer._texts)

    def text(self, root: Expr) -> str:
        """The text of `root`."""
        uses = {root: 1}
        for e in post_order([root], lambda e: e not in self._texts):
            for child in e.children():
                uses[child] = uses.get(child, 0) + 1
        for e in post_order([root], lambda e: e not in self._texts and not _is_guard(e)):
            if e in self._texts:
                continue
            made = self._guarded(e) if isinstance(e, Select) and _is_guard(e) else self._node(e)
            is_short = made.isidentifier() or isinstance(e, Const) or (uses[e] == 1 and len(made) <= _INLINE)
            self._texts[e] = made if is_short else self._named(e.dtype, made)
        return self._texts[root]

    def _named(self, dtype: DType, text: str) -> str:
        name = self._writer.fresh("t")
        self._writer.line(f"const {_type(dtype)} {name} = {text};")
        return name

    def _guarded(self, e: Select) -> str:
        """A Select that reads memory."""
        writer = self._writer
        name, chosen = writer.fresh("t"), self.text(e.cond)
        writer.line(f"{_type(e.dtype)} {name};")
        for head, side in ((f"if ({chosen})", e.a), ("else", e.b)):
            with writer.nested(head):
                value = _Scope(writer, self).text(side)
                writer.line(f"{name} = {value};")
        return name

    def _node(self, e: Expr) -> str:
        texts = self._texts
        match e:
            case Const():
                return _literal(e)
            case Var():
                return self._writer.names[e]
            case Binary():
                return _binary(e, texts[e.a], texts[e.b])
            case Select():
                return f"({texts[e.cond]} ? {texts[e.a]} : {texts[e.b]})"
            case Load():
                return f"{self._writer.names[e.buffer]}[{self.text(e.buffer.offset(e.indices))}]"
            case Cast():
                return _cast(texts[e.a], e.a.dtype, e.dtype)
            case Call():
                return _call(e, [texts[a] for a in e.args])
        raise UnsupportedError(f"C source has no {type(e).__name__}", hint=_LEFT)


def _is_guard(e: Expr) -> bool:
    return isinstance(e, Select) and any(isinstance(x, Load) for x in post_order((e.a, e.b)))


def _literal(e: Const) -> str:
    if e.dtype.is_bool:
        return "true" if e.value else "false"
    if e.dtype.is_float:
        value, suffix = float(e.value), "f" if e.dtype == dt.float32 else ""
        _type(e.dtype)
        if math.isnan(value):
            return "NAN"
        if math.isinf(value):
            return "INFINITY" if value > 0 else "(-INFINITY)"
        return f"({value.hex()}{suffix})"
    if e.value == dt.int64.min:
        return "INT64_MIN"
    suffix = "ULL" if e.dtype == dt.uint64 else "LL" if abs(e.value) > dt.int32.max else ""
    return f"{e.value}{suffix}" if e.value >= 0 else f"({e.value}{suffix})"


def _binary(e: Binary, a: str, b: str) -> str:
    dtype, kind = e.a.dtype, _type(e.a.dtype)
    if e.op in COMPARISONS:
        return f"({a} {e.op.value} {b})"
    if dtype.is_bool and e.op in _BOOL:
        return f"({a} {_BOOL[e.op]} {b})"
    if dtype.is_float and e.op in (*_PLAIN, Op.DIV):
        return f"({a} {e.op.value} {b})"
    if dtype.is_float and e.op in (Op.MIN, Op.MAX, Op.FLOORDIV, Op.FLOORMOD):
        return f"{_NAMED[e.op]}_{kind}({a}, {b})"
    if not dtype.is_float and not dtype.is_bool:
        if e.op in (Op.BITAND, Op.BITOR, Op.BITXOR) or (dtype == dt.index and e.op in _PLAIN):
            return f"({a} {e.op.value} {b})"
        if e.op in _NAMED:
            return f"{_NAMED[e.op]}_{kind}({a}, {b})"
    raise UnsupportedError(f"C source has no {e.op.value} of {dtype}", hint=_LEFT)


def _cast(a: str, source: DType, target: DType) -> str:
    kind = _type(target)
    if target.is_bool:
        return f"({a} != 0)"
    if not source.is_float or target.is_float:
        return f"(({kind}){a})"
    limits = dt.int64 if target is dt.index else target
    if target == dt.uint64:
        return f"saturated_unsigned({a}, 0x1p64, UINT64_MAX)"
    least = "INT64_MIN" if limits == dt.int64 else f"{limits.min}LL"
    return f"(({kind})saturated({a}, {float(limits.min).hex()}, {float(limits.max).hex()}, {least}, {limits.max}LL))"


def _call(e: Call, args: list[str]) -> str:
    first, kind = e.args[0].dtype, _type(e.args[0].dtype)
    given = ", ".join(args)
    if e.name in ("isnan", "isinf"):
        return f"({e.name}({given}) != 0)" if first.is_float else "false"
    if e.name == "bitnot":
        return f"(!{given})" if first.is_bool else f"(({kind})~{given})"
    if e.name == "neg":
        return f"(-{given})" if first.is_float else f"sub_{kind}(0, {given})"
    if e.name == "abs" and not first.is_float:
        return f"({given} < 0 ? sub_{kind}(0, {given}) : {given})" if first.is_signed else given
    if e.name.startswith("as_"):  # the bits as another type; a bool counts as a byte
        if first.is_bool or e.dtype.is_bool:
            return _cast(given, first, e.dtype)
        return f"((union {{{kind} a; {_type(e.dtype)} b;}}){{.a = {given}}}.b)"
    if e.name not in _MATH or not first.is_float:
        raise UnsupportedError(f"C source has no {e.name} of {first}", hint=_LEFT)
    return f"{_MATH[e.name] or e.name}{'f' if first == dt.float32 else ''}({given})"
