"""The forms that operator sets 1 to 6 have of operators which are other ones since.

Their `consumed_inputs` says which inputs may be written over; the importer drops it.
"""

from __future__ import annotations

import numpy as np

from legato.arith.expr import Const, const
from legato.arith.prove import provably_different
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import activation, image, math
from legato.frontend.onnx.operators import shape as shapes
from legato.frontend.onnx.proto import TensorProto
from legato.frontend.onnx.tensors import element_type
from legato.ir.expr import Expr
from legato.ir.types import Dim

# ------------------------------------------------------------------ the second input broadcasts to the first


def add(b: Emitter, x: Expr, y: Expr, *, axis: int | None = None, broadcast: bool = False) -> Expr:
    return b.add(x, _aligned(b, x, y, axis, broadcast))


def sub(b: Emitter, x: Expr, y: Expr, *, axis: int | None = None, broadcast: bool = False) -> Expr:
    return b.subtract(x, _aligned(b, x, y, axis, broadcast))


def mul(b: Emitter, x: Expr, y: Expr, *, axis: int | None = None, broadcast: bool = False) -> Expr:
    return b.multiply(x, _aligned(b, x, y, axis, broadcast))


def div(b: Emitter, x: Expr, y: Expr, *, axis: int | None = None, broadcast: bool = False) -> Expr:
    return b.divide(x, _aligned(b, x, y, axis, broadcast))


def pow_(b: Emitter, x: Expr, y: Expr, *, axis: int | None = None, broadcast: bool = False) -> Expr:
    return math.pow_7(b, x, _aligned(b, x, y, axis, broadcast))


def equal(b: Emitter, x: Expr, y: Expr, *, axis: int | None = None, broadcast: bool = False) -> Expr:
    return b.equal(x, _aligned(b, x, y, axis, broadcast))


def greater(b: Emitter, x: Expr, y: Expr, *, axis: int | None = None, broadcast: bool = False) -> Expr:
    return b.greater(x, _aligned(b, x, y, axis, broadcast))


def less(b: Emitter, x: Expr, y: Expr, *, axis: int | None = None, broadcast: bool = False) -> Expr:
    return b.less(x, _aligned(b, x, y, axis, broadcast))


def and_(b: Emitter, x: Expr, y: Expr, *, axis: int | None = None, broadcast: bool = False) -> Expr:
    return b.logical_and(x, _aligned(b, x, y, axis, broadcast))


def or_(b: Emitter, x: Expr, y: Expr, *, axis: int | None = None, broadcast: bool = False) -> Expr:
    return b.logical_or(x, _aligned(b, x, y, axis, broadcast))


def xor(b: Emitter, x: Expr, y: Expr, *, axis: int | None = None, broadcast: bool = False) -> Expr:
    return b.logical_xor(x, _aligned(b, x, y, axis, broadcast))


def _aligned(b: Emitter, x: Expr, y: Expr, axis: int | None, broadcast: bool) -> Expr:
    """`y` with its dims under those of `x` from `axis` on; without it under the last ones, and one element is of any
    rank. Without `broadcast` the shapes are the same, or nothing else can be meant than what `broadcast` says."""
    dims, own = b.dims_of(x), b.dims_of(y)
    if all(b.is_one(d) for d in own) and len(own) <= len(dims):
        return y
    first = len(dims) - len(own) if axis is None or not broadcast else b.axis(axis, len(dims))
    behind = len(dims) - first - len(own)
    if first < 0 or behind < 0:
        raise ImportModelError(f"an input {y.ty} beside {x.ty} from dim {first} on: it has too many dims")
    for n, (d, wanted) in enumerate(zip(own, dims[first:], strict=False), first):
        if provably_different(d, wanted) and not b.is_one(d):
            raise ImportModelError(f"an input {y.ty} beside {x.ty}: dim {n} is {d}, wanted {wanted}")
        if not b.is_one(d):
            b.require(d, wanted, f"dim {n} of the inputs")
    return b.expand_dims(y, axis=len(own), num_newaxis=behind) if behind else y


def prelu(b: Emitter, x: Expr, slope: Expr) -> Expr:
    """One slope, or one for each channel."""
    dims = b.dims_of(slope)
    if b.rank(x) < 3 or len(dims) != 1 or b.is_one(dims[0]):
        return activation.prelu_7(b, x, slope)
    return activation.prelu_7(b, x, b.expand_dims(slope, axis=1, num_newaxis=b.rank(x) - 2))


# ------------------------------------------------------------------ attributes of other names, kinds and defaults


def cast(b: Emitter, x: Expr, *, to: str) -> Expr:
    """The type by its name."""
    names = TensorProto.DataType.keys()
    if to.upper() not in names:
        raise ImportModelError(f"to is {to!r}, wanted the name of an element type, as FLOAT or INT64")
    return b.to(x, element_type(TensorProto.DataType.Value(to.upper()), "the result"))


def clip(b: Emitter, x: Expr, *, min: float = -np.inf, max: float = np.inf) -> Expr:
    return b.clip(x, a_min=min, a_max=max)


def selu(b: Emitter, x: Expr, *, alpha: float = 1.6732, gamma: float = 1.0507) -> Expr:
    return activation.selu_6(b, x, alpha=alpha, gamma=gamma)


def reshape(b: Emitter, x: Expr, *, shape: tuple[int, ...]) -> Expr:
    return shapes.reshape_5(b, x, b.constant(np.array(shape, np.int64)))


def concat(b: Emitter, *xs: Expr, axis: int = 1) -> Expr:
    return shapes.concat_4(b, *xs, axis=axis)


def pad(b: Emitter, x: Expr, *, mode: str = "constant", paddings: tuple[int, ...], value: float = 0.0) -> Expr:
    return shapes.pad_2(b, x, mode=mode, pads=paddings, value=value)


def split(
    b: Emitter, x: Expr, sizes: Expr | None = None, *, axis: int = 0, split: tuple[int, ...] | None = None
) -> Expr:
    """The sizes of the parts are an input or an attribute."""
    if sizes is None or split is not None:
        return shapes.split_2(b, x, axis=axis, split=split)
    return shapes.split_13(b, x, b.to(sizes, dt.int64), axis=axis)


def tile(b: Emitter, x: Expr, tiles: Expr, axis: Expr) -> Expr:
    """`tiles` times along one axis; both are of the element type of `x`."""
    along = b.axis(int(b.scalar(axis, "the axis")), b.rank(x))
    times: list[Dim] = [const(1)] * b.rank(x)
    times[along] = b.dim(b.to(tiles, dt.int64), "the number of tiles")
    return b.tile(x, reps=tuple(int(d.value) if isinstance(d, Const) else d for d in times))


def upsample(b: Emitter, x: Expr, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Expr:
    """The last two dims of four."""
    if b.rank(x) != 4:
        raise ImportModelError(f"the input has rank {b.rank(x)}, wanted 4")
    method = "linear" if mode == "bilinear" else mode
    return image.upsample_7(b, x, mode=method, scales=(1.0, 1.0, height_scale, width_scale))


# ------------------------------------------------------------------ in training or not


def dropout(b: Emitter, x: Expr, *, is_test: bool = False, ratio: float = 0.5) -> Expr | tuple[Expr, Expr]:
    """Files say by `is_test` what they were exported from; a model that runs drops nothing."""
    return math.dropout_7(b, x, ratio=ratio)
