"""Running sums and products along one axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, Var, const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._dtypes import convert
from legato.ops._families import Array, quiet
from legato.ops._gradients import Rule, in_shape, narrowed, shape_of, shifted
from legato.ops._reshaping import reshaped
from legato.ops._rules import normalize_axis, product, tensor
from legato.ops._tensors import accumulator
from legato.te.tensor import Tensor, loops
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, For, Stmt, Store, block

__all__ = ["ScanAttrs"]


@dataclass(frozen=True, slots=True)
class ScanAttrs(Attrs):
    """axis: None flattens the tensor; dtype: the result's (None: the input's); exclusive: without the element."""

    axis: int | None = None
    dtype: DType | None = None
    exclusive: bool = False


def _scan_type(relation: Relation, data: Type, attrs: ScanAttrs) -> Type:
    ty = tensor(relation, data, "data")
    dtype = attrs.dtype or ty.dtype
    if dtype.is_bool:
        raise relation.fail("a running sum or product of bools needs a dtype", hint="set dtype to an integer dtype")
    if attrs.axis is None:
        return TensorType((product(ty.shape),), dtype)
    normalize_axis(relation, attrs.axis, ty.rank)
    return TensorType(ty.shape, dtype)


def _scan_reference(f: Callable[..., Any], identity: int) -> Callable[[Array, ScanAttrs], Array]:
    def run(x: Array, attrs: ScanAttrs) -> Array:
        d = attrs.dtype or dt.dtype(x.dtype)
        x = convert(x, d)
        axis = 0 if attrs.axis is None else attrs.axis
        x = x.reshape(-1) if attrs.axis is None else x
        if attrs.exclusive and x.shape[axis]:
            first = np.full([1 if n == axis % x.ndim else e for n, e in enumerate(x.shape)], identity, x.dtype)
            x = np.concatenate([first, np.take(x, np.arange(x.shape[axis] - 1), axis)], axis)
        return np.asarray(f(x, axis=axis, dtype=accumulator(d).numpy)).astype(d.numpy)

    return run


def _scan_compute(combine: Callable[[Expr, Expr], Expr], identity: int) -> Callable[..., Tensor]:
    def build(x: Tensor, attrs: ScanAttrs, out_type: TensorType) -> Tensor:
        data = reshaped(x, out_type.shape, "flat") if attrs.axis is None else x
        axis = 0 if attrs.axis is None else attrs.axis % len(x.shape)
        (out,) = loops(
            [(out_type.shape, out_type.dtype)],
            [data],
            lambda out: _nest(data, out, axis, attrs.exclusive, combine, identity),
            "scan",
        )
        return out

    return build


def _nest(
    x: Tensor, out: Tensor, axis: int, exclusive: bool, combine: Callable[[Expr, Expr], Expr], identity: int
) -> Stmt:
    """For every line along `axis`: an accumulator goes from element to element."""
    index = [Var(f"i{n}", dt.index, 0) for n in range(len(x.shape))]
    state = Buffer("state", (const(1),), accumulator(out.dtype), scope=Scope.LOCAL)
    at, zero = tuple(index), (const(0),)
    before = Load(state, zero)
    step = Store(state, zero, combine(before, te.cast(te.cast(x[at], out.dtype), state.dtype)))
    emit = Store(out, at, te.cast(before, out.dtype))
    line = For(index[axis], x.shape[axis], block(emit, step) if exclusive else block(step, emit))
    body: Stmt = Alloc(state, block(Store(state, zero, te.literal(identity, state.dtype)), line))
    for n in reversed(range(len(index))):
        if n != axis:
            body = For(index[n], x.shape[n], body)
    return body


def _scan_value(data: tuple[Dim, ...] | None, attrs: ScanAttrs, ty: TensorType) -> tuple[Dim, ...] | None:
    """Running sums of dims."""
    if data is None or ty.rank > 1:
        return None
    total: Dim = const(0)
    sums: list[Dim] = [total]
    for d in data:
        total = total + d
        sums.append(total)
    return tuple(sums[:-1] if attrs.exclusive else sums[1:])


def _as_line(b: Builder, call: Call) -> tuple[Node, int]:
    """The operand of a running sum or product in the result's dtype and shape, and the axis."""
    (x,), attrs = call.args, call.attrs
    x = narrowed(b, x, call)
    return (x, attrs.axis) if attrs.axis is not None else (in_shape(b, x, shape_of(call)), 0)


def _back(b: Builder, call: Call, dx: Node) -> list[Node]:
    """`dx`, of the result's dtype and shape, as a gradient of the operand."""
    x = call.args[0]
    if call.attrs.axis is None:
        dx = in_shape(b, dx, shape_of(x))
    return [narrowed(b, dx, x)]


def _sum_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    """Running sums from the other end."""
    axis = call.attrs.axis or 0
    turned = b.cumsum(b.reverse(dy, axis=axis), axis=axis, exclusive=call.attrs.exclusive)
    return _back(b, call, b.reverse(turned, axis=axis))


def _prod_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    """An element is a factor of the products from its own on: the product before it, times what a recurrence from the
    other end gathers of these, without it. Nothing is divided by it: it may be 0."""
    x, axis = _as_line(b, call)
    before: Node = call
    if call.attrs.exclusive:
        dy = shifted(b, dy, axis, back=True)
    else:
        before = shifted(b, call, axis, fill=1.0)
    return _back(b, call, b.multiply(before, b.linear_recurrence(x, dy, axis=axis, transposed=True)))


_SAMPLES = (
    Sample((((3, 4), "float32"),), {"axis": 1}),
    Sample((((3, 4), "float32"),), {"axis": 0, "exclusive": True}),
    Sample((((3, 4), "float32"),), {}),
    Sample((((3, 4), "float32"),), {"exclusive": True, "dtype": "float64"}),
    Sample((((40,), "float16"),), {"axis": 0}),
    Sample((np.array([100, 27, 1, -5], np.int8),), {"axis": 0}, exact=True),
    Sample((np.array([100, 27, 1, -5], np.int8),), {"axis": -1, "dtype": "int32"}, exact=True),
    Sample((np.array([True, False, True]),), {"axis": 0, "dtype": "int32"}, exact=True),
    Sample((np.array([1.0, np.inf, -np.inf, 2.0, np.nan], np.float32),), {"axis": 0}),
    Sample((((2, 0), "float32"),), {"axis": 1, "exclusive": True}),
)


def _scan(
    name: str, f: Callable[..., Any], combine: Callable[[Expr, Expr], Expr], identity: int, grad: Rule, doc: str
) -> Op:
    return Op(
        name=name,
        args=("data",),
        attrs=ScanAttrs,
        type_rel=_scan_type,
        reference=quiet(_scan_reference(f, identity)),
        compute=_scan_compute(combine, identity),
        grad=grad,
        value=_scan_value if name == "cumsum" else None,
        fusion=Fusion.OPAQUE,
        samples=_SAMPLES,
        doc=f"{doc} 16-bit floats are accumulated in float32, integers wrap.",
    )


cumsum = _scan("cumsum", np.cumsum, lambda a, b: a + b, 0, _sum_gradient, "Running sums along an axis, in order.")
cumprod = _scan(
    "cumprod", np.cumprod, lambda a, b: a * b, 1, _prod_gradient, "Running products along an axis, in order."
)
