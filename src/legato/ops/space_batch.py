"""Blocks of spatial positions to the batch and back: nn.space_to_batch_nd and nn.batch_to_space_nd.

Dims are (batch, spatial…, rest…). The spatial ones are as many as `block_shape` has sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Expr, const, floordiv, floormod, ge, land, lt, select
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Fusion, Narrow, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._dtypes import convert
from legato.ops._gradients import Contribution
from legato.ops._reshaping import flatten_index, unflatten_index
from legato.ops._rules import at_least, divides, known_dim, tensor
from legato.ops._tensors import Array, known_int
from legato.ops._window import check_positive
from legato.te.tensor import Tensor, compute

__all__ = ["BatchToSpaceNDAttrs", "SpaceToBatchNDAttrs", "batch_to_space_nd", "space_to_batch_nd"]

Sides = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SpaceToBatchNDAttrs(Attrs):
    """`block_shape`: the sides of a block; `paddings`: how much each spatial dim gains before and after; `pad_value`:
    what stands there.
    """

    block_shape: tuple[int, ...]
    paddings: Sides
    pad_value: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchToSpaceNDAttrs(Attrs):
    """`block_shape`: the sides of a block; `crops`: how much each spatial dim loses before and after."""

    block_shape: tuple[int, ...]
    crops: Sides


def _checked(rel: Relation, data: Type, block: Sequence[int], sides: Sides, what: str) -> TensorType:
    """The data's type, if it has a batch and as many spatial dims as there are sides of a block."""
    ty = tensor(rel, data, "data")
    check_positive(rel, "block_shape", block, None)
    if ty.rank < 1 + len(block):
        raise rel.fail(f"blocks of {len(block)} dims need data of rank {1 + len(block)} or more, got {ty.rank}")
    if len(sides) != len(block) or any(len(pair) != 2 for pair in sides):
        raise rel.fail(f"{what} must be a (before, after) for each of {len(block)} spatial dims, got {sides}")
    check_positive(rel, what, [n for pair in sides for n in pair], None, least=0)
    return ty


def _divided(rel: Relation, d: Dim, by: int, what: str) -> Dim:
    known = known_int(d)
    if known is not None and known % by:
        raise rel.fail(f"{what} {known} is not divisible by {by}")
    return divides(rel, d, by, f"{what}, divided by {by}")


# ------------------------------------------------------------------------------- to the batch


def _outside(a: SpaceToBatchNDAttrs, dtype: dt.DType) -> Array:
    return np.asarray(convert(np.asarray(a.pad_value), dtype))


def _to_batch_relation(rel: Relation, data: Type, a: SpaceToBatchNDAttrs) -> Type:
    ty = _checked(rel, data, a.block_shape, a.paddings, "paddings")
    if ty.dtype.is_string:
        raise rel.fail("it does not take strings: it fills with numbers", hint="nn.pad takes what it fills with")
    spatial = []
    for n, (block, (before, after)) in enumerate(zip(a.block_shape, a.paddings, strict=True)):
        padded = simplify(known_dim(ty.shape[1 + n]) + before + after)
        spatial.append(_divided(rel, padded, block, f"padded dim {1 + n}"))
    batch = simplify(known_dim(ty.shape[0]) * math.prod(a.block_shape))
    return TensorType((batch, *spatial, *ty.shape[1 + len(spatial) :]), ty.dtype)


def _to_batch_reference(data: Array, a: SpaceToBatchNDAttrs) -> Array:
    m = len(a.block_shape)
    rest = data.shape[1 + m :]
    value = _outside(a, dt.dtype(data.dtype))[()]
    widths = ((0, 0), *a.paddings, *((0, 0),) * len(rest))
    padded = np.full([n + sum(w) for n, w in zip(data.shape, widths, strict=True)], value, data.dtype)
    padded[tuple(slice(w[0], w[0] + n) for n, w in zip(data.shape, widths, strict=True))] = data
    split = [s for n, b in zip(padded.shape[1:], a.block_shape, strict=False) for s in (n // b, b)]
    parts = padded.reshape(data.shape[0], *split, *rest)
    order = (*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, parts.ndim))
    return np.ascontiguousarray(parts.transpose(order)).reshape(
        data.shape[0] * math.prod(a.block_shape), *split[::2], *rest
    )


def _to_batch_compute(data: Tensor, a: SpaceToBatchNDAttrs, out: TensorType) -> Tensor:
    m, batch = len(a.block_shape), data.shape[0]

    def element(*i: Expr) -> Expr:
        at = unflatten_index(floordiv(i[0], batch), [const(b) for b in a.block_shape])
        inside: Expr | None = None
        spatial = []
        for d, (block, (before, after)) in enumerate(zip(a.block_shape, a.paddings, strict=True)):
            place = i[1 + d] * block + at[d] - before
            tests = [ge(place, 0)] if before else []
            tests += [lt(place, data.shape[1 + d])] if after else []
            for test in tests:
                inside = test if inside is None else land(inside, test)
            spatial.append(place)
        value = data[(floormod(i[0], batch), *spatial, *i[1 + m :])]
        return value if inside is None else select(inside, value, const(_outside(a, value.dtype).item(), value.dtype))

    return compute(out.shape, element, "space_to_batch")


# ------------------------------------------------------------------------------- back


def _to_space_relation(rel: Relation, data: Type, a: BatchToSpaceNDAttrs) -> Type:
    ty = _checked(rel, data, a.block_shape, a.crops, "crops")
    batch = _divided(rel, known_dim(ty.shape[0]), math.prod(a.block_shape), "the batch")
    spatial = []
    for n, (block, (before, after)) in enumerate(zip(a.block_shape, a.crops, strict=True)):
        cut = simplify(known_dim(ty.shape[1 + n]) * block - before - after)
        at_least(rel, cut, 0, f"what crops leave of dim {1 + n}")
        spatial.append(cut)
    return TensorType((batch, *spatial, *ty.shape[1 + len(spatial) :]), ty.dtype)


def _to_space_reference(data: Array, a: BatchToSpaceNDAttrs) -> Array:
    m = len(a.block_shape)
    batch, rest = data.shape[0] // math.prod(a.block_shape), data.shape[1 + m :]
    parts = data.reshape(*a.block_shape, batch, *data.shape[1:])
    order = (m, *(k for d in range(m) for k in (m + 1 + d, d)), *range(2 * m + 1, parts.ndim))
    spatial = [n * b for n, b in zip(data.shape[1:], a.block_shape, strict=False)]
    whole = parts.transpose(order).reshape(batch, *spatial, *rest)
    kept = (slice(before, n - after) for n, (before, after) in zip(spatial, a.crops, strict=True))
    return np.ascontiguousarray(whole[(slice(None), *kept)])


def _to_space_compute(data: Tensor, a: BatchToSpaceNDAttrs, out: TensorType) -> Tensor:
    m, batch = len(a.block_shape), out.shape[0]

    def element(*i: Expr) -> Expr:
        places = [i[1 + d] + before for d, (before, _) in enumerate(a.crops)]
        pairs = list(zip(places, map(const, a.block_shape), strict=True))
        at = flatten_index([floormod(p, b) for p, b in pairs], [b for _, b in pairs])
        return data[(at * batch + i[0], *(floordiv(p, b) for p, b in pairs), *i[1 + m :])]

    return compute(out.shape, element, "batch_to_space")


def _to_batch_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    return [b.nn.batch_to_space_nd(dy, block_shape=call.attrs.block_shape, crops=call.attrs.paddings)]


def _to_space_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    return [b.nn.space_to_batch_nd(dy, block_shape=call.attrs.block_shape, paddings=call.attrs.crops)]


space_to_batch_nd = Op(
    name="nn.space_to_batch_nd",
    args=("data",),
    attrs=SpaceToBatchNDAttrs,
    type_rel=_to_batch_relation,
    reference=_to_batch_reference,
    compute=_to_batch_compute,
    grad=_to_batch_grad,
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    storage=True,
    samples=(
        Sample((((2, 4, 6, 3), "float32"),), {"block_shape": (2, 3), "paddings": ((0, 0), (0, 0))}, exact=True),
        Sample((((1, 3, 4, 2), "float32"),),
               {"block_shape": (2, 2), "paddings": ((1, 0), (1, 1)), "pad_value": 1.5}, exact=True),
        Sample((((3, 5), "int8"),), {"block_shape": (3,), "paddings": ((0, 1),), "pad_value": -2.0}, exact=True),
        Sample((((0, 4, 2), "float32"),), {"block_shape": (2,), "paddings": ((1, 1),)}, exact=True),
    ),
    doc="""Each spatial dim is padded and divided by the side of a block; positions within a block go into the batch.

Element (p·N + n, y…, c…) is element (n, y·block + at…, c…) of the padded data, p being the number of position `at` in
its block, in row-major order, and N the batch of the data.""",
)  # fmt: skip

batch_to_space_nd = Op(
    name="nn.batch_to_space_nd",
    args=("data",),
    attrs=BatchToSpaceNDAttrs,
    type_rel=_to_space_relation,
    reference=_to_space_reference,
    compute=_to_space_compute,
    grad=_to_space_grad,
    fusion=Fusion.INJECTIVE,
    narrow=Narrow.MOVES,
    storage=True,
    samples=(
        Sample((((12, 2, 2, 3), "float32"),), {"block_shape": (2, 3), "crops": ((0, 0), (0, 0))}, exact=True),
        Sample((((8, 2, 3, 2), "float32"),), {"block_shape": (2, 2), "crops": ((1, 0), (1, 2))}, exact=True),
        Sample((((3, 2), "int8"),), {"block_shape": (3,), "crops": ((0, 1),)}, exact=True),
        Sample((((4, 1, 2), "float32"),), {"block_shape": (2,), "crops": ((1, 1),)}, exact=True),
    ),
    doc="space_to_batch_nd backwards: blocks from the batch are put side by side, and `crops` cuts off the sides.",
)
