"""Matrix products and einsum. Each is one reduction of products; sums of 16-bit floats are formed in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from legato.arith.expr import Expr, const
from legato.arith.prove import provably_different
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Narrow, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._families import broadcast_index
from legato.ops._gradients import Contribution, dtype_of, in_shape, shape_of, sum_to
from legato.ops._rules import broadcast_shapes, tensor
from legato.ops._tensors import (
    Array,
    DtypeName,
    accumulator,
    cast_to,
    contraction_cost,
    known_int,
    narrowed,
    product,
    result_dtype,
)
from legato.ops._window import DimOrder, data_order, dim_order
from legato.te.tensor import Tensor, reduce
from legato.tir.expr import cast

__all__ = ["BatchMatmulAttrs", "DenseAttrs", "DensePackAttrs", "GeneralMatmulAttrs", "MatmulAttrs", "batch_matmul",
           "contrib_dense_pack", "dense", "matmul", "nn_matmul"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class DenseAttrs(Attrs):
    """`units`: rows of the weight, needed only where its type is to be inferred; `out_dtype`: that of the result ("":
    the operands').
    """

    units: int | None = None
    out_dtype: DtypeName = ""


@dataclass(frozen=True, slots=True)
class DensePackAttrs(DenseAttrs):
    """As DenseAttrs; `weight_layout`: N are the units, C what is summed; NC8n has blocks of 8 units."""

    weight_layout: str = "NC"


@dataclass(frozen=True, slots=True)
class MatmulAttrs(Attrs):
    """As DenseAttrs; `transpose_a`, `transpose_b`: the operand is given transposed."""

    units: int | None = None
    out_dtype: DtypeName = ""
    transpose_a: bool = False
    transpose_b: bool = False


@dataclass(frozen=True, slots=True)
class BatchMatmulAttrs(Attrs):
    """`out_dtype`: that of the result ("": the operands'); `transpose_a`, `transpose_b`: the operand's last two
    dimensions are swapped. The default is Relay's.
    """

    out_dtype: DtypeName = ""
    transpose_a: bool = False
    transpose_b: bool = True


@dataclass(frozen=True, slots=True)
class GeneralMatmulAttrs(Attrs):
    """The dtype of the result; "" is the operands'."""

    out_dtype: DtypeName = ""


# ------------------------------------------------------------------------------- shared by all products


def _product_dtype(rel: Relation, a: TensorType, b: TensorType, named: DtypeName) -> DType:
    if a.dtype != b.dtype and not named:
        raise rel.fail(f"operands are {a.dtype} and {b.dtype}", hint="cast one, or name the result with out_dtype")
    return result_dtype(named, a.dtype)


def _multiply(a: Array, b: Array, dtype: DType) -> Array:
    total = accumulator(dtype)
    with np.errstate(all="ignore"):
        return cast_to(np.matmul(cast_to(a, total), cast_to(b, total)), dtype)


def _batch_index(t: Tensor, batch: Sequence[Expr], own: int, out: Sequence[Dim]) -> tuple[Expr, ...]:
    """Subscripts into the leading dimensions of `t` (all but the last `own`) for a position in the result's batch."""
    return broadcast_index(batch, t.shape[: t.rank - own], out[: len(batch)])


def _contract(a: Tensor, b: Tensor, out: TensorType, transpose_a: bool, transpose_b: bool) -> Tensor:
    """out[…, i, j] = Σ_k a[…, i, k] · b[…, k, j]; operands of rank 1 lack i or j."""
    own_a, own_b = min(a.rank, 2), min(b.rank, 2)
    extent = a.shape[-1] if own_a == 1 or not transpose_a else a.shape[-2]
    total = accumulator(out.dtype)

    def term(*index: Expr) -> Expr:
        *outer, k = index
        j = [outer.pop()] if own_b == 2 else []
        i = [outer.pop()] if own_a == 2 else []
        left = (k, *i) if transpose_a else (*i, k)
        right = (*j, k) if transpose_b else (k, *j)
        x = a[(*_batch_index(a, outer, own_a, out.shape), *left)]
        y = b[(*_batch_index(b, outer, own_b, out.shape), *right)]
        return cast(x, total) * cast(y, total)

    return narrowed(reduce("sum", out.shape, (extent,), term, "matmul"), out.dtype)


def _product_cost(args: Sequence[TensorType], out: Type, inner: Dim) -> Cost:
    assert isinstance(out, TensorType)
    return contraction_cost(product(out.shape) * inner, args, out)


# ------------------------------------------------------------------------------- nn.dense and nn.matmul


def _dense_relation(rel: Relation, data: Type, weight: Type, a: DenseAttrs) -> Type | None:
    return _nn_matmul_relation(rel, data, weight, MatmulAttrs(a.units, a.out_dtype, transpose_b=True))


def _nn_matmul_relation(rel: Relation, data: Type, weight: Type, a: MatmulAttrs) -> Type | None:
    data = tensor(rel, data, "data")
    if data.rank < 1 or (a.transpose_a and data.rank != 2):
        raise rel.fail(f"the data must have rank {'2' if a.transpose_a else '1 or more'}, got rank {data.rank}")
    *outer, k = (data.shape[1], data.shape[0]) if a.transpose_a else data.shape
    known = weight if isinstance(weight, TensorType) else None
    if known is not None and known.rank != 2:
        raise rel.fail(
            f"the weight must have rank 2, got rank {known.rank}", hint="matmul multiplies stacks of matrices"
        )
    if known is None and a.units is None:
        return None
    units = known.shape[0 if a.transpose_b else 1] if known is not None and a.units is None else const(a.units or 0)
    if known is not None:
        _check_orientation(rel, k, known, a)
    dtype = weight.dtype if isinstance(weight, TensorType) else data.dtype
    wanted = TensorType((units, k) if a.transpose_b else (k, units), dtype)
    typed = rel.unify(weight, wanted, "weight")
    if not isinstance(typed, TensorType):
        return None
    units = typed.shape[0 if a.transpose_b else 1]
    return TensorType((*outer, units), _product_dtype(rel, data, typed, a.out_dtype))


def _check_orientation(rel: Relation, k: Dim, weight: TensorType, a: MatmulAttrs) -> None:
    """Fails where the weight would fit if it were transposed, which is what people get wrong."""
    out, inner = weight.shape if a.transpose_b else reversed(weight.shape)
    as_given, as_turned = provably_different(inner, k), out is k and a.units in (None, known_int(inner))
    if as_given and as_turned:
        got, wanted = ("(in, out)", "(out, in)") if a.transpose_b else ("(out, in)", "(in, out)")
        hint = "transpose it" + (", or use matmul" if a.transpose_b else "")
        shape = f"({weight.shape[0]}, {weight.shape[1]})"
        raise rel.fail(f"the weight {shape} is given as {got}, wanted {wanted}", hint=hint)


def _dense_reference(data: Array, weight: Array, a: DenseAttrs) -> Array:
    return _multiply(data, weight.T, result_dtype(a.out_dtype, dt.dtype(data.dtype)))


def _nn_matmul_reference(data: Array, weight: Array, a: MatmulAttrs) -> Array:
    left, right = data.T if a.transpose_a else data, weight.T if a.transpose_b else weight
    return _multiply(left, right, result_dtype(a.out_dtype, dt.dtype(data.dtype)))


def _dense_grads(b: Builder, data: Node, weight: Node, dy: Node) -> list[Node]:
    """dx = dy · w, dw = dyᵀ · x, with all but the last axis of x and dy as one."""
    rows, columns = b.transpose(_as_rows(b, dy)), b.transpose(_as_rows(b, data))
    return [
        b.nn.dense(dy, b.transpose(weight), **_result(data, dy, weight)),
        b.nn.dense(rows, columns, **_result(weight, dy, data)),
    ]


def _as_rows(b: Builder, x: Node) -> Node:
    """`x` with all axes but the last as one."""
    *outer, last = shape_of(x)
    return x if len(outer) == 1 else in_shape(b, x, (product(outer), last))


def _result(like: Node, *factors: Node) -> dict[str, DType]:
    """What says that the product of `factors` has the dtype of `like`, where that must be said."""
    dtype = dtype_of(like)
    return {} if all(dtype_of(x) == dtype for x in factors) else {"out_dtype": dtype}


def _factor_grads(
    multiply: Callable[..., Node], left: Node, right: Node, dy: Node, turned: tuple[bool, bool], rows: Sequence[Node]
) -> list[Node]:
    """The gradients of the factors of a product that takes transposed ones, as `turned` says; `rows`: dy and the left
    factor for the gradient of the right one."""
    a, b = turned
    dy_rows, left_rows = rows
    if a:
        first = multiply(right, dy, transpose_a=b, transpose_b=True, **_result(left, right, dy))
    else:
        first = multiply(dy, right, transpose_a=False, transpose_b=not b, **_result(left, dy, right))
    if b:
        second = multiply(dy_rows, left_rows, transpose_a=True, transpose_b=a, **_result(right, dy, left))
    else:
        second = multiply(left_rows, dy_rows, transpose_a=not a, transpose_b=False, **_result(right, left, dy))
    return [first, second]


def _nn_matmul_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    (left, right), a = call.args, call.attrs
    rows = (_as_rows(b, dy), left if a.transpose_a else _as_rows(b, left))
    return [*_factor_grads(b.nn.matmul, left, right, dy, (a.transpose_a, a.transpose_b), rows)]


dense = Op(
    name="nn.dense",
    args=("data", "weight"),
    attrs=DenseAttrs,
    type_rel=_dense_relation,
    reference=_dense_reference,
    compute=lambda x, w, a, out: _contract(x, w, out, False, True),
    grad=lambda b, call, dy: _dense_grads(b, call.args[0], call.args[1], dy),
    fusion=Fusion.CONTRACTION,
    narrow=Narrow.CONTRACTS,
    cost=lambda args, out, a: _product_cost(args, out, args[1].shape[1]),
    samples=(
        Sample((((2, 5), "float32"), ((3, 5), "float32"))),
        Sample((((2, 2, 4), "float32"), ((3, 4), "float32")), {"units": 3}),
        Sample((((4,), "float32"), ((2, 4), "float32"))),
        Sample((((2, 6), "int8"), ((3, 6), "int8")), {"out_dtype": "int32"}, exact=True),
        Sample((((2, 9), "float16"), ((3, 9), "float16")), rtol=2e-3),
        Sample((((2, 0), "float32"), ((3, 0), "float32"))),
    ),
    doc="""data · weightᵀ: data (…, K), weight (units, K), result (…, units).

An un-annotated weight gets its type from `units`. Sums are formed in `out_dtype` (default: the data's dtype).""",
)

# ------------------------------------------------------------------------------- nn.contrib_dense_pack


def _pack_order(a: DensePackAttrs) -> DimOrder:
    order = dim_order(a.weight_layout, "NC")
    assert order is not None
    return order


def _pack_relation(rel: Relation, data: Type, weight: Type, a: DensePackAttrs) -> Type | None:
    order = data_order(rel, a.weight_layout, "NC", "weight_layout")
    data = tensor(rel, data, "data")
    if data.rank < 1:
        raise rel.fail("the data must have rank 1 or more, got rank 0")
    known = weight if isinstance(weight, TensorType) else None
    if known is not None and known.rank != order.rank:
        raise rel.fail(f"the weight of layout {order.layout} has rank {known.rank}, wanted {order.rank}")
    if known is None and a.units is None:
        return None
    units = order.extents(known.shape)[0] if known is not None and a.units is None else const(a.units or 0)
    wanted = TensorType(order.checked_shape(rel, (units, data.shape[-1])), (known or data).dtype)
    typed = rel.unify(weight, wanted, "weight")
    if not isinstance(typed, TensorType):
        return None
    return TensorType((*data.shape[:-1], units), _product_dtype(rel, data, typed, a.out_dtype))


def _pack_compute(x: Tensor, w: Tensor, a: DensePackAttrs, out: TensorType) -> Tensor:
    order, total = _pack_order(a), accumulator(out.dtype)

    def term(*index: Expr) -> Expr:
        *outer, unit, k = index
        return cast(x[(*outer, k)], total) * cast(w[order.actual((unit, k))], total)

    return narrowed(reduce("sum", out.shape, (x.shape[-1],), term, "matmul"), out.dtype)


def _pack_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """As of dense, for the weight in plain layout."""
    (data, weight), layout = call.args, call.attrs.weight_layout
    plain = layout == "NC"
    w = weight if plain else b.layout_transform(weight, src_layout=layout, dst_layout="NC")
    dx, dw = _dense_grads(b, data, w, dy)
    return [dx, dw if plain else b.layout_transform(dw, src_layout="NC", dst_layout=layout)]


contrib_dense_pack = Op(
    name="nn.contrib_dense_pack",
    args=("data", "weight"),
    attrs=DensePackAttrs,
    type_rel=_pack_relation,
    reference=lambda x, w, a: _dense_reference(x, _pack_order(a).to_canonical(w), a),
    compute=_pack_compute,
    grad=_pack_grad,
    fusion=Fusion.CONTRACTION,
    narrow=Narrow.CONTRACTS,
    cost=lambda args, out, a: _product_cost(args, out, args[0].shape[-1]),
    samples=(
        Sample((((2, 5), "float32"), ((2, 5, 3), "float32")), {"weight_layout": "NC3n"}),
        Sample((((3, 4), "float32"), ((2, 3, 2), "float32")), {"weight_layout": "CN2c", "units": 3}),
        Sample((((2, 6), "int8"), ((3, 6), "int8")), {"out_dtype": "int32"}, exact=True),
    ),
    doc="""nn.dense of a weight in `weight_layout`: NC is (units, K), NC8n has blocks of 8 units, innermost.

An un-annotated weight gets its type from `units`. Sums are formed in `out_dtype` (default: the data's dtype).""",
)

nn_matmul = Op(
    name="nn.matmul",
    args=("tensor_a", "tensor_b"),
    attrs=MatmulAttrs,
    type_rel=_nn_matmul_relation,
    reference=_nn_matmul_reference,
    compute=lambda x, w, a, out: _contract(x, w, out, a.transpose_a, a.transpose_b),
    grad=_nn_matmul_grad,
    fusion=Fusion.CONTRACTION,
    narrow=Narrow.CONTRACTS,
    cost=lambda args, out, a: _product_cost(args, out, args[1].shape[1 if a.transpose_b else 0]),
    samples=(
        Sample((((2, 5), "float32"), ((5, 3), "float32"))),
        Sample((((5, 2), "float32"), ((3, 5), "float32")), {"transpose_a": True, "transpose_b": True}),
        Sample((((5, 2), "float32"), ((5, 3), "float32")), {"transpose_a": True}),
        Sample((((4,), "float32"), ((3, 4), "float32")), {"transpose_b": True}),
        Sample((((2, 0, 4), "float32"), ((4, 3), "float32"))),
        Sample((((2, 3, 5), "float32"), ((5, 3), "float32")), {"units": 3}),
    ),
    doc="""Matrix product tensor_a · tensor_b, each transposed first where its attribute says so.

tensor_a (…, K) or, transposed, (K, M); tensor_b (K, units) or, transposed, (units, K); result (…, units).""",
)


# ------------------------------------------------------------------------------- nn.batch_matmul


def _batch_relation(rel: Relation, x: Type, y: Type, a: BatchMatmulAttrs) -> Type | None:
    x, y = tensor(rel, x), tensor(rel, y)
    if x.rank < 2 or x.rank != y.rank:
        raise rel.fail(f"operands must have the same rank of at least 2, got ranks {x.rank} and {y.rank}")
    *batch_x, m, k = (*x.shape[:-2], x.shape[-1], x.shape[-2]) if a.transpose_a else x.shape
    *batch_y, k2, n = (*y.shape[:-2], y.shape[-1], y.shape[-2]) if a.transpose_b else y.shape
    rel.same(k, k2, "the summed dimension")
    return TensorType((*broadcast_shapes(rel, batch_x, batch_y), m, n), _product_dtype(rel, x, y, a.out_dtype))


def _batch_reference(x: Array, y: Array, a: BatchMatmulAttrs) -> Array:
    left, right = np.swapaxes(x, -1, -2) if a.transpose_a else x, np.swapaxes(y, -1, -2) if a.transpose_b else y
    return _multiply(left, right, result_dtype(a.out_dtype, dt.dtype(x.dtype)))


def _batch_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    (x, y), a = call.args, call.attrs
    found = _factor_grads(b.nn.batch_matmul, x, y, dy, (a.transpose_a, a.transpose_b), (dy, x))
    return [sum_to(b, g, shape_of(of)) for g, of in zip(found, call.args, strict=True)]


batch_matmul = Op(
    name="nn.batch_matmul",
    args=("tensor_a", "tensor_b"),
    attrs=BatchMatmulAttrs,
    text_defaults={"transpose_b": False},
    type_rel=_batch_relation,
    reference=_batch_reference,
    compute=lambda x, y, a, out: _contract(x, y, out, a.transpose_a, a.transpose_b),
    grad=_batch_grad,
    fusion=Fusion.CONTRACTION,
    narrow=Narrow.CONTRACTS,
    cost=lambda args, out, a: _product_cost(args, out, args[0].shape[-2 if a.transpose_a else -1]),
    samples=(
        Sample((((2, 3, 4), "float32"), ((2, 5, 4), "float32"))),
        Sample((((2, 4, 3), "float32"), ((1, 4, 5), "float32")), {"transpose_a": True, "transpose_b": False}),
        Sample((((1, 2, 3), "int8"), ((2, 2, 3), "int8")), {"out_dtype": "int32"}, exact=True),
        Sample((((2, 1, 4, 3), "float32"), ((1, 5, 2, 4), "float32")), {"transpose_a": True}),
        Sample((((2, 3, 4), "float32"), ((2, 4, 5), "float32")), {"transpose_b": False}),
        Sample((((2, 3, 0), "float32"), ((2, 5, 0), "float32"))),
    ),
    doc="""Matrix products over leading batch dimensions, which broadcast.

tensor_a (…, M, K) or, transposed, (…, K, M); tensor_b (…, N, K), or (…, K, N) if `transpose_b` is false.""",
)


# ------------------------------------------------------------------------------- matmul, NumPy's


def _matmul_relation(rel: Relation, a: Type, b: Type, attrs: GeneralMatmulAttrs) -> Type | None:
    a, b = tensor(rel, a), tensor(rel, b)
    if not a.rank or not b.rank:
        raise rel.fail("scalars have no matrix product", hint="use multiply")
    rel.same(a.shape[-1], b.shape[-1 if b.rank == 1 else -2], "the summed dimension")
    batch = broadcast_shapes(rel, a.shape[:-2], b.shape[:-2])
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.rank > 1 else ()
    return TensorType((*batch, *rows, *columns), _product_dtype(rel, a, b, attrs.out_dtype))


def _matmul_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """As of matrices: an operand of rank 1 is a row or a column of one. One matrix for all rows is not summed over
    copies."""
    x, y = call.args
    left = x if len(shape_of(x)) > 1 else in_shape(b, x, (const(1), *shape_of(x)))
    right = y if len(shape_of(y)) > 1 else in_shape(b, y, (*shape_of(y), const(1)))
    batch = shape_of(dy)[: max(len(shape_of(left)), len(shape_of(right))) - 2]
    dy = in_shape(b, dy, (*batch, shape_of(left)[-2], shape_of(right)[-1]))
    dx = sum_to(b, b.matmul(dy, _turned(b, right), **_result(x, dy, y)), shape_of(left))
    if len(shape_of(right)) == 2:
        found = b.nn.matmul(_as_rows(b, left), _as_rows(b, dy), transpose_a=True, **_result(y, x, dy))
    else:
        found = sum_to(b, b.matmul(_turned(b, left), dy, **_result(y, x, dy)), shape_of(right))
    return [in_shape(b, dx, shape_of(x)), in_shape(b, found, shape_of(y))]


def _turned(b: Builder, x: Node) -> Node:
    """`x` with its last two axes swapped."""
    *outer, rows, columns = range(len(shape_of(x)))
    return b.transpose(x, axes=(*outer, columns, rows))


matmul = Op(
    name="matmul",
    args=("a", "b"),
    attrs=GeneralMatmulAttrs,
    type_rel=_matmul_relation,
    reference=lambda a, b, attrs: np.asarray(_multiply(a, b, result_dtype(attrs.out_dtype, dt.dtype(a.dtype)))),
    compute=lambda a, b, attrs, out: _contract(a, b, out, False, False),
    grad=_matmul_grad,
    fusion=Fusion.CONTRACTION,
    narrow=Narrow.CONTRACTS,
    cost=lambda args, out, a: _product_cost(args, out, args[0].shape[-1]),
    samples=(
        Sample((((3, 4), "float32"), ((4, 2), "float32"))),
        Sample((((2, 1, 3, 4), "float32"), ((5, 4, 2), "float32"))),
        Sample((((4,), "float32"), ((4,), "float32"))),
        Sample((((4,), "float32"), ((2, 4, 3), "float32"))),
        Sample((((3, 4), "float32"), ((4,), "float32"))),
        Sample((((2, 3, 4), "float32"), ((4,), "float32"))),
        Sample((((4,), "float32"), ((4, 2), "float32"))),
        Sample((((2, 3, 4), "float32"), ((4, 2), "float32"))),
        Sample((((3, 4), "float32"), ((2, 4, 3), "float32"))),
        Sample((((2, 3, 4), "int32"), ((4,), "int32")), exact=True),
    ),
    doc="""NumPy's matmul: the last two dimensions are matrices, those before them broadcast.

An operand of rank 1 is a row (left) or a column (right), and its dimension of 1 is dropped from the result.""",
)
