"""Operators that keep the row-major order and change the shape: reshape, squeeze, expand_dims, batch_flatten."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Const, Expr, const
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.kinds import MAX_RANK
from legato.ir.op import Fusion, Narrow, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._families import Array
from legato.ops._gradients import Contribution, in_shape, shape_of
from legato.ops._moving import as_dim, as_int, by_reference, total
from legato.ops._reshaping import ShapeError, cancel, quotient, reshaped
from legato.ops._rules import at_least, is_one, known_dim, normalize_axes, product, require_rank, tensor
from legato.te.tensor import Tensor, compute

__all__ = ["ExpandDimsAttrs", "ReshapeAttrs", "SqueezeAttrs"]


@dataclass(frozen=True, slots=True)
class ReshapeAttrs(Attrs):
    """`newshape`: the new shape, with Relay's codes; `allowzero`: 0 is no code but an extent.

    0: the input's dim at this place; -1: whatever is left; -2: all remaining dims of the input; -3: the product of the
    next two dims; -4: the next dim, split into the following two entries (one of which may be -1). Anything else,
    symbolic dims included, stands for itself.
    """

    newshape: tuple[Dim | int, ...]
    allowzero: bool = False


# ------------------------------------------------------------------ reshape


def target_shape(shape: Sequence[Dim], attrs: ReshapeAttrs) -> tuple[Dim, ...]:
    """The result's dims for an input of `shape`; ShapeError where the codes do not fit."""
    out: list[Dim | None] = []  # None: to be worked out
    codes, at, n = attrs.newshape, 0, 0
    while n < len(codes):
        code = codes[n]
        if isinstance(code, Const) and code.value < 0:  # a dim of extent 0 is no code
            code = int(code.value)
        if code == -4 and isinstance(code, int):
            out += _split(_take(shape, at, 1)[0], codes[n + 1 : n + 3])
            at, n = at + 1, n + 3
            continue
        found, used = _entry(shape, at, code, attrs.allowzero)
        out += found
        at, n = at + used, n + 1
    holes = out.count(None)
    if holes > 1:
        raise ShapeError("-1 appears more than once")
    if holes:
        rest = quotient(shape, [d for d in out if d is not None])
        out = [rest if d is None else d for d in out]
    return tuple(d for d in out if d is not None)


def _entry(shape: Sequence[Dim], at: int, code: Dim | int, allowzero: bool) -> tuple[list[Dim | None], int]:
    """The dims that one code stands for, and how many dims of the input it uses up."""
    if not isinstance(code, int):
        return [code], 1
    if code == 0 and not allowzero:
        return [*_take(shape, at, 1)], 1
    if code >= 0:
        return [const(code)], 1
    if code == -1:
        return [None], 1
    if code == -2:
        return [*shape[at:]], len(shape) - at
    if code == -3:
        return [product(_take(shape, at, 2))], 2
    raise ShapeError(f"{code} is no dim and no code")


def _take(shape: Sequence[Dim], at: int, count: int) -> Sequence[Dim]:
    if at + count > len(shape):
        raise ShapeError(f"a code refers to dim {at + count - 1} of an input of rank {len(shape)}")
    return shape[at : at + count]


def _split(d: Dim, parts: Sequence[Dim | int]) -> list[Dim]:
    if len(parts) != 2:
        raise ShapeError("-4 must be followed by two entries")
    a, b = (as_dim(p) for p in parts)
    unknown = [isinstance(p, Const) and p.value == -1 for p in (a, b)]
    if all(unknown):
        raise ShapeError("-4 may be followed by one -1, not two")
    if unknown[0]:
        return [quotient([d], [b]), b]
    return [a, quotient([d], [a])] if unknown[1] else [a, b]


def _reshape_type(relation: Relation, x: Type, attrs: ReshapeAttrs) -> Type:
    ty = tensor(relation, x, "data")
    for d in ty.shape:
        known_dim(d)
    try:
        shape = target_shape(ty.shape, attrs)
    except ShapeError as error:
        raise relation.fail(str(error), details=[f"newshape : {_show(attrs.newshape)}"]) from None
    left, right = cancel(ty.shape, shape)
    if isinstance(left, Const) and isinstance(right, Const) and 0 in (left.value, right.value):
        left, right = product(ty.shape), product(shape)  # equal where what they have in common is 0
    if isinstance(left, Const) and isinstance(right, Const) and left is not right:
        details = [f"newshape : {_show(attrs.newshape)}"]
        raise relation.fail(f"{product(ty.shape)} elements cannot become {product(shape)}", details=details)
    for n, d in enumerate(shape):
        at_least(relation, d, 0, f"dim {n} of the new shape")
    relation.same(left, right, "number of elements")
    return TensorType(shape, ty.dtype)


def _show(shape: Sequence[Dim | int]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def _reshape_reference(x: Array, attrs: ReshapeAttrs) -> Array:
    try:
        shape = target_shape(total(x), attrs)
    except ShapeError as error:
        raise CompileError(f"reshape: {error}") from None
    return x.reshape([as_int(d) for d in shape])


def _reshape_compute(x: Tensor, attrs: ReshapeAttrs, out_type: TensorType) -> Tensor:
    return reshaped(x, out_type.shape)


def _shape_back(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """`dy` in the operand's shape."""
    return [in_shape(b, dy, shape_of(call.args[0]))]


reshape = Op(
    name="reshape",
    args=("data",),
    attrs=ReshapeAttrs,
    type_rel=_reshape_type,
    reference=_reshape_reference,
    compute=_reshape_compute,
    grad=_shape_back,
    value=by_reference(_reshape_reference),
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    storage=True,
    samples=(
        Sample((((2, 3, 4), "float32"),), {"newshape": (6, 4)}, exact=True),
        Sample((((2, 3, 4), "float32"),), {"newshape": (4, 6)}, exact=True),
        Sample((((2, 3, 4), "float32"),), {"newshape": (0, -1)}, exact=True),
        Sample((((2, 3, 4), "int32"),), {"newshape": (-2,)}, exact=True),
        Sample((((2, 3, 4), "float32"),), {"newshape": (-3, -2)}, exact=True),
        Sample((((2, 6, 4), "float32"),), {"newshape": (0, -4, 2, -1, -2)}, exact=True),
        Sample((((0, 3), "float32"),), {"newshape": (3, 0), "allowzero": True}, exact=True),
        Sample((((2, 0), "float32"),), {"newshape": (0, 5, 3), "allowzero": True}, exact=True),
        Sample((((1, 4, 1), "float32"),), {"newshape": (2, 1, 2)}, exact=True),
        Sample((((1,), "float32"),), {"newshape": ()}, exact=True),
    ),
    doc="The same elements in row-major order, in another shape.",
)


def _from_behind(shape: Sequence[Dim], attrs: ReshapeAttrs) -> tuple[Dim, ...]:
    """The result's dims where the codes are read from the last to the first."""
    return target_shape(shape[::-1], ReshapeAttrs(attrs.newshape[::-1], attrs.allowzero))[::-1]


def _reverse_type(relation: Relation, x: Type, attrs: ReshapeAttrs) -> Type:
    ty = tensor(relation, x, "data")
    for d in ty.shape:
        known_dim(d)
    if any(isinstance(code, int) and code == -4 for code in attrs.newshape):
        raise relation.fail("newshape has a -4, whose entries follow it", hint="reshape splits dims")
    try:
        shape = _from_behind(ty.shape, attrs)
    except ShapeError as error:
        raise relation.fail(str(error), details=[f"newshape : {_show(attrs.newshape)}"]) from None
    return _reshape_type(relation, x, ReshapeAttrs(shape))


def _reverse_reference(x: Array, attrs: ReshapeAttrs) -> Array:
    return x.reshape([as_int(d) for d in _from_behind(total(x), attrs)])


def _reverse_expand(b: Builder, x: Node, attrs: ReshapeAttrs) -> Node:
    return in_shape(b, x, _from_behind(shape_of(x), attrs))


contrib_reverse_reshape = Op(
    name="contrib_reverse_reshape",
    args=("data",),
    attrs=ReshapeAttrs,
    type_rel=_reverse_type,
    reference=_reverse_reference,
    expand=_reverse_expand,
    storage=True,
    samples=(
        Sample((((10, 5, 4), "float32"),), {"newshape": (-1, 0)}, exact=True),
        Sample((((2, 3, 4, 5), "int8"),), {"newshape": (-2, -3)}, exact=True),
        Sample((((2, 6), "float32"),), {"newshape": (3, 2, 2)}, exact=True),
    ),
    doc="As reshape, with the codes read from the last to the first, each beside the last dims of the input.",
)

# ------------------------------------------------------------------ squeeze, expand_dims, batch_flatten


@dataclass(frozen=True, slots=True)
class SqueezeAttrs(Attrs):
    """The axes to drop; None for all of extent 1, where every dim is known."""

    axis: tuple[int, ...] | int | None = None


@dataclass(frozen=True, slots=True)
class ExpandDimsAttrs(Attrs):
    """`axis`: the dim of the input before which the new ones go (negative: from the result's end); `num_newaxis`: how
    many dims of extent 1 are inserted.
    """

    axis: int
    num_newaxis: int = 1


def _squeezed(shape: Sequence[Dim], attrs: SqueezeAttrs) -> tuple[int, ...]:
    if attrs.axis is None:
        return tuple(n for n, d in enumerate(shape) if is_one(d))
    return tuple(a % len(shape) for a in ((attrs.axis,) if isinstance(attrs.axis, int) else attrs.axis))


def _squeeze_type(relation: Relation, x: Type, attrs: SqueezeAttrs) -> Type:
    ty = tensor(relation, x, "data")
    if attrs.axis is None:
        for n, d in enumerate(ty.shape):
            if not isinstance(known_dim(d), Const):
                hint = "name the axes to drop"
                raise relation.fail(f"without axis, every dim must be known; dim {n} is {d}", hint=hint)
    else:
        normalize_axes(relation, attrs.axis, ty.rank)
    dropped = _squeezed(ty.shape, attrs)
    for n in dropped:
        if not is_one(relation.same(ty.shape[n], const(1), f"squeezed dim {n}")):
            known_dim(ty.shape[n])
    return TensorType(tuple(d for n, d in enumerate(ty.shape) if n not in dropped), ty.dtype)


def _squeeze_reference(x: Array, attrs: SqueezeAttrs) -> Array:
    return np.squeeze(x, _squeezed(total(x), attrs))


def _squeeze_compute(x: Tensor, attrs: SqueezeAttrs, out_type: TensorType) -> Tensor:
    dropped = set(_squeezed(x.shape, attrs))

    def body(*i: Expr) -> Expr:
        left = iter(i)
        return x[tuple(const(0) if n in dropped else next(left) for n in range(len(x.shape)))]

    return compute(out_type.shape, body, "squeeze")


squeeze = Op(
    name="squeeze",
    args=("data",),
    attrs=SqueezeAttrs,
    type_rel=_squeeze_type,
    reference=_squeeze_reference,
    compute=_squeeze_compute,
    grad=_shape_back,
    value=by_reference(_squeeze_reference),
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    storage=True,
    samples=(
        Sample((((1, 3, 1), "float32"),), exact=True),
        Sample((((1, 3, 1), "float32"),), {"axis": (-1,)}, exact=True),
        Sample((((0, 1), "float32"),), {"axis": 1}, exact=True),
        Sample((((1,), "int64"),), {"axis": 0}, exact=True),
    ),
    doc="Drops dims of extent 1.",
)


def _position(rank: int, attrs: ExpandDimsAttrs) -> int:
    return attrs.axis if attrs.axis >= 0 else attrs.axis + rank + 1


def _expand_type(relation: Relation, x: Type, attrs: ExpandDimsAttrs) -> Type:
    ty = tensor(relation, x, "data")
    at = _position(ty.rank, attrs)
    if not 0 <= at <= ty.rank:
        hint = f"from {-ty.rank - 1} to {ty.rank}"
        raise relation.fail(f"axis {attrs.axis} is out of range for rank {ty.rank}", hint=hint)
    if attrs.num_newaxis < 0:
        raise relation.fail(f"num_newaxis must not be negative, got {attrs.num_newaxis}")
    if ty.rank + attrs.num_newaxis > MAX_RANK:  # before as many dims are made
        raise relation.fail(f"a tensor has at most {MAX_RANK} dimensions, got {ty.rank + attrs.num_newaxis}")
    return TensorType((*ty.shape[:at], *(const(1),) * attrs.num_newaxis, *ty.shape[at:]), ty.dtype)


def _expand_reference(x: Array, attrs: ExpandDimsAttrs) -> Array:
    at = _position(x.ndim, attrs)
    return x.reshape((*x.shape[:at], *(1,) * attrs.num_newaxis, *x.shape[at:]))


def _expand_compute(x: Tensor, attrs: ExpandDimsAttrs, out_type: TensorType) -> Tensor:
    at = _position(len(x.shape), attrs)
    return compute(out_type.shape, lambda *i: x[(*i[:at], *i[at + attrs.num_newaxis :])], "expand_dims")


def _expand_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    at = _position(len(shape_of(call.args[0])), call.attrs)
    new = tuple(range(at, at + call.attrs.num_newaxis))
    return [b.squeeze(dy, axis=new) if new else dy]


expand_dims = Op(
    name="expand_dims",
    args=("data",),
    attrs=ExpandDimsAttrs,
    type_rel=_expand_type,
    reference=_expand_reference,
    compute=_expand_compute,
    grad=_expand_grad,
    value=by_reference(_expand_reference),
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    storage=True,
    samples=(
        Sample((((2, 3), "float32"),), {"axis": 1}, exact=True),
        Sample((((2, 3), "float32"),), {"axis": -1, "num_newaxis": 2}, exact=True),
        Sample((((2, 0), "float32"),), {"axis": -2, "num_newaxis": 0}, exact=True),
        Sample((((), "int64"),), {"axis": 0}, exact=True),
        Sample((((), "int64"),), {"axis": -1, "num_newaxis": 0}, exact=True),
    ),
    doc="Inserts dims of extent 1.",
)


def _flatten_type(relation: Relation, x: Type) -> Type:
    ty = tensor(relation, x, "data")
    if ty.rank < 1:
        require_rank(relation, ty, 1, what="data")
    return TensorType((ty.shape[0], product(ty.shape[1:])), ty.dtype)


def _flatten_reference(x: Array) -> Array:
    return x.reshape(x.shape[0], int(np.prod(x.shape[1:], dtype=np.int64)))


batch_flatten = Op(
    name="nn.batch_flatten",
    args=("data",),
    type_rel=_flatten_type,
    reference=_flatten_reference,
    compute=lambda x, out_type: reshaped(x, out_type.shape, "flatten"),
    grad=_shape_back,
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    storage=True,
    samples=(
        Sample((((2, 3, 4), "float32"),), exact=True),
        Sample((((3,), "float32"),), exact=True),
        Sample((((0, 3, 2), "float32"),), exact=True),
    ),
    doc="All dims but the first become one.",
)
