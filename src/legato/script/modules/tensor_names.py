"""`T`: the names of tensor programs in scripts. `from legato.script import tir as T`

    @T.prim_func
    def relu(x: T.handle, y: T.handle):
        m, n = T.int64(), T.int64()
        X = T.match_buffer(x, (m, n), "float32")
        Y = T.match_buffer(y, (m, n), "float32")
        for i, j in T.grid(m, n):
            with T.sblock("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0.0))

The names are those of TVM, older and newer ones; each has the meaning that its comment or `docs/tensor_programs.md`
gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from ml_dtypes import finfo

from legato.arith import expr as arith
from legato.arith.expr import Expr, const
from legato.base import dtype as dt
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.script.modules import options
from legato.script.modules.buffer_forms import Buffer as Buffer
from legato.script.modules.buffer_forms import dtype_of
from legato.script.modules.evaluate import Namespace
from legato.script.modules.forms import (
    Allocation,
    Attributes,
    Axes,
    BlockForm,
    Bounded,
    CheckForm,
    Domain,
    Guarded,
    Handle,
    InitForm,
    LetForm,
    LetMark,
    Loops,
    MetaVar,
    NewVar,
    Regions,
    ScalarType,
    Viewed,
)
from legato.script.modules.host_names import address as address
from legato.script.modules.host_names import host_op as host_op
from legato.script.modules.host_names import invoke as invoke
from legato.script.modules.host_names import launch as launch
from legato.script.modules.host_names import object as object
from legato.script.modules.host_names import open as open
from legato.script.modules.host_names import payload_bytes as payload_bytes
from legato.script.modules.host_names import reference as reference
from legato.script.modules.host_names import release as release
from legato.script.modules.host_names import resize as resize
from legato.script.modules.host_names import retain as retain
from legato.script.modules.host_names import switch as switch
from legato.script.modules.host_names import tag as tag
from legato.script.modules.host_names import view as view
from legato.script.modules.module import prim_func as prim_func
from legato.tir import scalars
from legato.tir.expr import Load, call
from legato.tir.intrinsics import INTRINSICS
from legato.tir.stmt import Barrier, LoopKind, Prefetch

SCRIPT_NAME: Final = "T"
_NAMES: Final = (
    "Add", "And", "Buffer", "Cast", "Div", "EQ", "FloorDiv", "FloorMod", "GE", "GT", "LE", "LT", "Max", "Min",
    "Mul", "NE", "Not", "Or", "Select", "Sub", "abs", "acos", "acosh", "add", "address", "alloc_buffer", "apply",
    "asin", "asinh", "atan", "atanh", "axis", "barrier", "bf16", "bfloat16", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "block", "block_attr", "bool", "boolean", "bounded", "call_extern", "call_intrin",
    "call_packed", "cast", "ceil", "ceildiv", "check", "cos", "cosh", "div_float", "erf", "evaluate", "exp",
    "exp10", "exp2", "f16", "f32", "f64", "fabs", "float16", "float32", "float64", "floor", "floordiv", "floormod",
    "fma", "func_attr", "grid", "handle", "host_op", "i16", "i32", "i64", "i8", "if_then_else", "index",
    "indexdiv", "indexmod", "infinity", "init", "int16", "int32", "int64", "int8", "intrinsic", "invoke",
    "isfinite", "isinf", "isnan", "launch", "let", "likely", "log", "log10", "log1p", "log2", "match_buffer",
    "max", "max_value", "meta_var", "min", "min_value", "multiply", "nearbyint", "object", "open", "parallel",
    "payload_bytes", "pow", "power", "prefetch", "prim_func", "reads", "reference", "release", "resize", "retain",
    "round", "rsqrt", "sblock", "sblock_alloc_buffer", "sblock_attr", "serial", "shift_left", "shift_right",
    "sigmoid", "sin", "sinh", "sqrt", "subtract", "switch", "tag", "tan", "tanh", "thread_binding", "trunc",
    "truncdiv", "truncmod", "u16", "u32", "u64", "u8", "uint16", "uint32", "uint64", "uint8", "unroll", "var",
    "vectorized", "view", "where", "writes",
)  # fmt: skip
__all__ = [*_NAMES]

# ---------------------------------------------------------------------- buffers

handle = Handle()


def match_buffer(param: Any, shape: Any, dtype: Any = "float32", *, scope: str = "global", **layout: Any) -> Viewed:
    """What the handle `param` points to: a dense buffer."""
    return Viewed(param, Buffer(shape, dtype, scope=scope, **layout))


def alloc_buffer(shape: Any, dtype: Any = "float32", scope: str = "global", **layout: Any) -> Allocation:
    """A new buffer, to which nothing is stored yet, in the function, or of a thread alone ("local")."""
    return Allocation(Buffer(shape, dtype, scope=scope, **layout))


sblock_alloc_buffer = alloc_buffer


# ---------------------------------------------------------------------- loops and blocks


def grid(*extents: Any) -> Loops:
    """Nested loops from 0."""
    return Loops((0,) * len(extents), extents)


def _loops(kind: LoopKind) -> Callable[..., Loops]:
    def loops(
        begin: Any, end: Any = None, *, annotations: Any = None, step: Any = None, bounds: Any = (0, None)
    ) -> Loops:
        if annotations:
            raise UnsupportedError(
                "annotations of a loop", hint="T.parallel, T.vectorized and T.unroll say how it runs"
            )
        first, last = (0, begin) if end is None else (begin, end)
        return Loops((first,), (last,), kind, 1 if step is None else step, options.limits(bounds, "bounds"))

    return loops


serial = _loops(LoopKind.SERIAL)
parallel = _loops(LoopKind.PARALLEL)
vectorized = _loops(LoopKind.VECTOR)
unroll = _loops(LoopKind.UNROLL)


def barrier() -> Barrier:
    """No thread goes on before all have come here."""
    return Barrier()


def prefetch(place: Any) -> Prefetch:
    """Says that an element, `X[i, j]`, will be read soon."""
    if not isinstance(place, Load):
        raise TypeCheckError("T.prefetch takes an element of a buffer: T.prefetch(X[i, j])")
    return Prefetch(place.buffer, place.indices)


def check(condition: Any, code: Any, message: str = "") -> CheckForm:
    """Ends the program with the status `code` where the condition does not hold; `with` it, what reports that."""
    return CheckForm(condition, code, message)


def thread_binding(*_: Any, **__: Any) -> NoReturn:
    """Loops over the threads of a GPU."""
    raise UnsupportedError("T.thread_binding is for GPUs", hint="T.parallel divides a loop among the threads of a CPU")


def sblock(name: str = "") -> BlockForm:
    """A block: with axes, an init, and what is computed in each iteration."""
    return BlockForm(name)


block = sblock


def init() -> InitForm:
    """What a reduction begins with."""
    return InitForm()


def reads(*regions: Any) -> Regions:
    """The regions that a block reads."""
    return Regions(False, _regions(regions))


def writes(*regions: Any) -> Regions:
    """The regions that a block stores to."""
    return Regions(True, _regions(regions))


def _regions(given: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], list) else tuple(given)


def where(condition: Any) -> Guarded:
    """The condition that a block runs under."""
    return Guarded(condition)


def sblock_attr(attrs: Mapping[str, Any]) -> Attributes:
    """Hints of schedules."""
    return Attributes(False, attrs)


block_attr = sblock_attr


def func_attr(attrs: Mapping[str, Any]) -> Attributes:
    """Attributes of the function."""
    return Attributes(True, attrs)


class _Axis(Namespace):
    """`T.axis`: the axes of a block."""

    def __init__(self) -> None:
        self.spatial = self.S = _axis("S")
        self.reduce = self.R = _axis("R")
        self.remap = _remap


def _axis(kind: str) -> Callable[[Any, Any], Domain]:
    def axis(domain: Any, value: Any) -> Domain:
        begin, end = domain if isinstance(domain, tuple | list) else (0, domain)
        return Domain(kind, begin, end, value)

    return axis


def _remap(kinds: str, values: Any) -> Axes:
    return Axes(kinds, tuple(values) if isinstance(values, tuple | list) else (values,))


axis = _Axis()

# ---------------------------------------------------------------------- scalars

index = ScalarType(dt.index)
int8, int16, int32, int64 = map(ScalarType, (dt.int8, dt.int16, dt.int32, dt.int64))
uint8, uint16, uint32, uint64 = map(ScalarType, (dt.uint8, dt.uint16, dt.uint32, dt.uint64))
float16, float32, float64, bfloat16 = map(ScalarType, (dt.float16, dt.float32, dt.float64, dt.bfloat16))
boolean = ScalarType(dt.bool_)
bool = boolean
i8, i16, i32, i64, u8, u16, u32, u64 = int8, int16, int32, int64, uint8, uint16, uint32, uint64
f16, f32, f64, bf16 = float16, float32, float64, bfloat16


def var(dtype: Any = "int32", name: str = "") -> NewVar:
    """A new dim."""
    return NewVar(dtype_of(dtype))


def bounded(lo: Any = 0, hi: Any = None) -> Bounded:
    """The annotation of an index parameter that is at least `lo` and at most `hi`; None where that is not known."""
    return Bounded(*options.limits((lo, hi), "T.bounded"))


class _Let(LetMark):
    """`T.let(value)`: a variable of the program, which is evaluated once. As an annotation (`v: T.let = value`,
    `v: T.let[T.float32] = value`) the same."""

    def __call__(self, value: Any, *, bounds: Any = (None, None)) -> LetForm:
        """bounds: its least and largest value, if known."""
        return LetForm(value, options.limits(bounds, "bounds"))

    def __getitem__(self, dtype: Any) -> LetMark:
        return LetMark(dtype_of(dtype))


let = _Let()


def meta_var(value: Any) -> MetaVar:
    """A name for an expression in the script alone: it stands for the expression wherever it is used."""
    return MetaVar(value)


def apply(op: str, a: Any, b: Any) -> Expr:
    """The operator `op` of loop programs (`T.apply("&", a, b)`) on operands of one dtype, as they are."""
    a, b = scalars.as_scalar(a), scalars.as_scalar(b)
    if op not in {o.value for o in arith.Op} or a.dtype != b.dtype:
        raise TypeCheckError(f"T.apply({op!r}) of {a.dtype} and {b.dtype}")
    return arith.binary(arith.Op(op), a, b)


def intrinsic(name: str, *args: Any) -> Expr:
    """The intrinsic `name` of loop programs on scalars, as they are: exp, fma, neg, …"""
    operands = [scalars.as_scalar(a) for a in args]
    record = INTRINSICS.get(name)
    if record is None or record.arity != len(operands):
        raise TypeCheckError(f"there is no intrinsic {name!r} of {len(operands)} arguments")
    return call(name, *operands)


def Cast(dtype: Any, value: Any) -> Expr:
    """`value` in `dtype`."""
    return scalars.as_type(value, dtype_of(dtype))


def cast(value: Any, dtype: Any) -> Expr:
    """`value` in `dtype`."""
    return scalars.as_type(value, dtype_of(dtype))


def if_then_else(condition: Any, a: Any, b: Any) -> Expr:
    """`a` where the condition holds, else `b`: only that is computed."""
    first, second = scalars.join(a, b)
    return arith.select(scalars.logical(condition, "the condition"), first, second)


Select = if_then_else


def _binary(op: str) -> Callable[[Any, Any], Expr]:
    return lambda a, b: scalars.binary(op, a, b)


min, max = _binary("min"), _binary("max")
Add, Sub, Mul, Div = _binary("+"), _binary("-"), _binary("*"), _binary("/")
add, subtract, multiply, Min, Max = Add, Sub, Mul, min, max
floordiv = FloorDiv = _binary("//")
floormod = FloorMod = indexmod = _binary("%")
indexdiv, div_float = floordiv, Div
And, Or = _binary("and"), _binary("or")
EQ, NE, LT, LE, GT, GE = map(_binary, ("==", "!=", "<", "<=", ">", ">="))
bitwise_and, bitwise_or, bitwise_xor = map(_binary, "&|^")
shift_left, shift_right = _binary("<<"), _binary(">>")
power = pow = _binary("**")


def Not(a: Any) -> Expr:
    """Not `a`."""
    return scalars.unary("not", scalars.as_scalar(a))


def bitwise_not(a: Any) -> Expr:
    """The bits that are not in `a`."""
    return scalars.unary("~", scalars.as_scalar(a))


def ceildiv(a: Any, b: Any) -> Expr:
    """a / b, rounded up."""
    return scalars.binary("//", scalars.binary("-", scalars.binary("+", a, b), 1), b)


def truncdiv(a: Any, b: Any) -> Expr:
    """a / b of integers, rounded towards zero."""
    a, b = scalars.join(a, b)
    quotient, rest, zero = arith.floordiv(a, b), arith.floormod(a, b), const(0, a.dtype)
    differ = arith.ne(arith.lt(a, zero), arith.lt(b, zero))
    return arith.select(arith.land(arith.ne(rest, zero), differ), quotient + 1, quotient)


def truncmod(a: Any, b: Any) -> Expr:
    """What `truncdiv` leaves: with the sign of `a`."""
    a, b = scalars.join(a, b)
    return arith.sub(a, arith.mul(b, truncdiv(a, b)))


def _intrinsic(name: str) -> Callable[[Any], Expr]:
    def function(a: Any) -> Expr:
        e = scalars.as_scalar(a)
        if not e.dtype.is_float:
            raise TypeCheckError(f"T.{name} of {e.dtype}", hint='T.Cast("float32", …) converts it')
        return call(name, e)

    return function


exp, log, sqrt, tanh, erf = map(_intrinsic, ("exp", "log", "sqrt", "tanh", "erf"))
sin, cos, tan, asin, acos, atan = map(_intrinsic, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, asinh, acosh, atanh = map(_intrinsic, ("sinh", "cosh", "asinh", "acosh", "atanh"))
floor, ceil, trunc, round = map(_intrinsic, ("floor", "ceil", "trunc", "round"))
nearbyint, isnan, isinf = round, _intrinsic("isnan"), _intrinsic("isinf")


def abs(a: Any) -> Expr:
    """|a|."""
    return call("abs", scalars.as_scalar(a))


fabs = abs


def fma(a: Any, b: Any, c: Any) -> Expr:
    """a · b + c, rounded once."""
    a, b = scalars.join(a, b)
    b, c = scalars.join(b, c)
    return call("fma", scalars.join(a, c)[0], b, c)


def isfinite(a: Any) -> Expr:
    """Whether `a` is neither infinite nor NaN."""
    return arith.lnot(scalars.binary("or", isinf(a), isnan(a)))


def rsqrt(a: Any) -> Expr:
    """1 / sqrt(a)."""
    return scalars.binary("/", 1.0, sqrt(a))


def sigmoid(a: Any) -> Expr:
    """1 / (1 + exp(-a))."""
    return scalars.binary("/", 1.0, scalars.binary("+", 1.0, exp(scalars.negated(scalars.as_scalar(a)))))


def exp2(a: Any) -> Expr:
    """2 to the power of a."""
    return scalars.binary("**", 2.0, a)


def exp10(a: Any) -> Expr:
    """10 to the power of a."""
    return scalars.binary("**", 10.0, a)


def log2(a: Any) -> Expr:
    """The logarithm to base 2."""
    return scalars.binary("*", log(a), 1 / math.log(2))


def log10(a: Any) -> Expr:
    """The logarithm to base 10."""
    return scalars.binary("*", log(a), 1 / math.log(10))


def log1p(a: Any) -> Expr:
    """log(1 + a)."""
    return log(scalars.binary("+", 1.0, a))


def likely(condition: Any) -> Any:
    """The condition: that it mostly holds is left to the compiler."""
    return condition


def min_value(dtype: Any) -> Expr:
    """The least number of a dtype."""
    return _limit(dtype_of(dtype), -1)


def max_value(dtype: Any) -> Expr:
    """The largest number of a dtype."""
    return _limit(dtype_of(dtype), 1)


def _limit(dtype: dt.DType, sign: int) -> Expr:
    if dtype.is_float:
        largest: Any = finfo(dtype.numpy)  # type: ignore[no-untyped-call]
        return const(sign * float(largest.max), dtype)
    return const(dtype.max if sign > 0 else dtype.min, dtype)


def infinity(dtype: Any = "float32") -> Expr:
    """Infinity."""
    return const(math.inf, dtype_of(dtype))


def evaluate(value: Any) -> None:
    """A value that is computed for its effect: nothing here has one."""
    if not isinstance(value, int):
        raise UnsupportedError("T.evaluate: scalars have no effects", hint="a tensor program stores to buffers")


def call_extern(dtype: Any, name: Any = "", *_: Any) -> NoReturn:
    """A function of C."""
    hint = "R.call_packed calls a function of Python or of a shared library (docs/packed.md)"
    raise UnsupportedError("T.call_extern: a tensor program calls nothing outside of itself", hint=hint)


call_packed = call_intrin = call_extern
