"""Winograd's minimal filtering for windows of 3 × 3 that slide by 1: a contraction of (m + 2)² products per m² results.

    y[n, o, i, j] = Σ x[n, c, i + u, j + v] · w[o, c, u, v]        over c, u, v, w constant, in any order of dimensions

becomes, for tiles of m × m results, with the matrices B, G, A of `cook_toom` (two sets, if the tiles are not square):

    rows[a, v, n, p, q, c]     = Σ_u B[a, u] · x[n, c, m·p + u, m·q + v]
    data[a, b, n, p, q, c]     = Σ_v B[b, v] · rows[a, v, n, p, q, c]
    weights[o, c, a, b]        = Σ_uv G[a, u] · G[b, v] · w[o, c, u, v]                  computed once, in float64
    products[a, b, n, p, q, o] = Σ_c data[a, b, n, p, q, c] · weights[o, c, a, b]        all the time goes here
    columns[k, b, n, p, q, o]  = Σ_a A[k, a] · products[a, b, n, p, q, o]
    patches[k, l, n, p, q, o]  = Σ_b A[l, b] · columns[k, b, n, p, q, o]
    result[n, o, i, j]         = patches[i mod m, j mod m, n, i div m, j div m, o]

F(2 × 2) multiplies 16 numbers where the sum as it stands multiplies 36, F(4 × 4) 36 for 144. For few results, most of
the time goes to reading weights, of which there are 16/9 and 4 times as many: F(1 × 2), which takes 12 products for 18,
has 4/3 as many. The price is rounding: relative to the rms of the results (256 channels) the rms error of a direct sum
is 2e-7, of F(2 × 2) 4e-7, of F(4 × 4) 1.2e-6. An infinity or NaN in the data makes every result of the tiles that read
it NaN or infinite: results up to m + 1 rows and columns away, where the direct sum has them within the window only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, cdiv, const, eq, floordiv, floormod, min_, select
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute, variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.target import Target
from legato.lower.access import depends, extent_of, stride
from legato.lower.algorithms.cook_toom import TAPS, Matrix, Schemes, combined, gathered
from legato.te.tensor import Axis, Reduction, Stage, Tensor, compute, reduce
from legato.tir.expr import Cast, Load, cast

__all__ = ["Window", "Winograd", "detect", "linear", "winograd"]


@dataclass(frozen=True, slots=True)
class Window:
    """A contraction over 3 × 3 windows: `data` and `weights` as read by its body, which converts them to `dtype`.

    channel: the result's axis that the weights alone follow; reduced: the reduction's axis that is no window's;
    slides: the result's axes along which windows slide, with the window's own axis; batch: the result's other axes.
    """

    data: Load
    weights: Load
    channel: Axis
    reduced: Axis
    slides: tuple[tuple[Axis, Axis], tuple[Axis, Axis]]
    batch: tuple[Axis, ...]
    axes: tuple[Axis, ...]
    dtype: DType

    def read(self, batch: Sequence[Expr], rows: Expr, columns: Expr, channel: Expr) -> Expr:
        """The data at place (rows, columns), counted from where the first window begins."""
        env: dict[Var, Expr] = {a.var: v for a, v in zip(self.batch, batch, strict=True)}
        for (axis, within), at in zip(self.slides, (rows, columns), strict=True):
            env |= {axis.var: at, within.var: const(0)}
        return cast(substitute(self.data, {**env, self.reduced.var: channel}), self.dtype)


def detect(body: Expr, axes: Sequence[Axis], red: Reduction, constants: Collection[Tensor]) -> Window | None:
    """How the sum of `body` over `red` is such a contraction of data by constant weights; None if it is not.

    The reduced channel must lie along the memory of the data: transforms are done for vectors of channels.
    """
    if (
        red.combiner != "sum"
        or red.init is not None
        or len(red.axes) != TAPS
        or body.dtype not in (dt.float32, dt.float64)
    ):
        return None
    if not (isinstance(body, Binary) and body.op is Op.MUL):
        return None
    factors = [x.a if isinstance(x, Cast) and x.a.dtype is dt.bfloat16 else x for x in (body.a, body.b)]
    reads = sorted(factors, key=lambda x: isinstance(x, Load) and x.buffer in constants)
    data, weights = reads
    if not (isinstance(data, Load) and isinstance(weights, Load)) or data.buffer in constants:
        return None
    if weights.buffer not in constants or not all(isinstance(i, Var) for i in weights.indices):
        return None
    own = [a for a in axes if depends(weights, a.var)]
    if len(own) != 1 or len(weights.indices) != 4 or set(weights.indices) != {own[0].var, *(a.var for a in red.axes)}:
        return None
    window = _window(data, weights, own[0], axes, red, body.dtype)
    fits = window is not None and all(extent_of(a.extent) for a in (window.channel, window.reduced))
    return window if fits and window is not None and stride(data, window.reduced.var) == 1 else None


def _window(
    data: Load, weights: Load, channel: Axis, axes: Sequence[Axis], red: Reduction, dtype: DType
) -> Window | None:
    """The roles of the axes, from how the data is indexed."""
    slides: list[tuple[int, Axis, Axis]] = []
    reduced: list[Axis] = []
    for d, index in enumerate(data.indices):
        if depends(index, channel.var):
            return None
        inside = [a for a in red.axes if depends(index, a.var)]
        along = [a for a in axes if depends(index, a.var)]
        if len(inside) == 1 and index is inside[0].var:
            reduced += inside
        elif len(inside) == 1 and len(along) == 1 and extent_of(inside[0].extent) == TAPS:
            if not isinstance(simplify(index - along[0].var - inside[0].var), Const):
                return None
            slides.append((data.buffer.layout.order.index(d), along[0], inside[0]))
        elif inside:
            return None
    if len(slides) != 2 or len(reduced) != 1 or len({a.var for _, *pair in slides for a in pair}) != 4:
        return None
    slides.sort(key=lambda s: s[0])
    (_, y, u), (_, x, v) = slides
    others = [i for d, i in enumerate(data.indices) if not depends(i, u.var) and not depends(i, v.var)]
    if any(w in (y.var, x.var) for i in others for w in variables(i)):
        return None
    batch = tuple(a for a in axes if a not in (y, x, channel))
    return Window(data, weights, channel, reduced[0], ((y, u), (x, v)), batch, tuple(axes), dtype)


Factors = tuple[tuple[int, Matrix], ...]


@dataclass(frozen=True, slots=True)
class Winograd:
    """The stages; see the module. `rows`, `columns` and the stages that read them are chains of Selects over their
    first axes, (a, b) or (k, l): with those given, each is one linear combination. factors: the window dimensions of
    the weights, each with the matrix that it is multiplied by."""

    window: Window
    schemes: Schemes
    factors: Factors
    rows: Tensor
    data: Tensor
    weights: Tensor
    products: Tensor
    columns: Tensor
    patches: Tensor
    result: Tensor

    @property
    def tiles(self) -> tuple[Expr, ...]:
        """Extents of the axes of a tile: batch axes, tiles down, tiles across."""
        return self.products.shape[2:-1]


def winograd(window: Window, schemes: Schemes, target: Target) -> Winograd:
    """The stages that compute the window's contraction by the schemes, one for the windows' rows and one for their
    columns; `target` says whether sums use FMA."""
    down, across = schemes
    tall, wide = points = down.inputs, across.inputs
    patch_shape = down.outputs, across.outputs
    pairs = list(zip(window.slides, schemes, strict=True))
    tiles = (*(a.extent for a in window.batch), *(simplify(cdiv(axis.extent, s.outputs)) for (axis, _), s in pairs))
    factors = tuple((window.weights.indices.index(u.var), s.weights) for (_, u), s in pairs)
    channels, outs = window.reduced.extent, window.channel.extent

    def row(a: Expr, v: Expr, *at: Expr) -> Expr:
        *batch, p, q, c = at
        places = [_place(window.slides[0][0], down.outputs, p, const(u)) for u in range(tall)]
        reads = [window.read(batch, u, _place(window.slides[1][0], across.outputs, q, v), c) for u in places]
        return _chosen(a, [combined(line, reads, target) for line in down.data])

    rows = compute((*points, *tiles, channels), row, "rows")

    def datum(a: Expr, b: Expr, *at: Expr) -> Expr:
        reads = [rows[(a, const(v), *at)] for v in range(wide)]
        return _chosen(b, [combined(line, reads, target) for line in across.data])

    data = compute((*points, *tiles, channels), datum, "data")
    weights = _weights(window, factors)

    def product(a: Expr, b: Expr, *at: Expr) -> Expr:
        *tile, o, c = at
        return data[(a, b, *tile, c)] * substitute(weight, {**dict(zip(places, (a, b), strict=True)),
                                                            window.channel.var: o, window.reduced.var: c})  # fmt: skip

    places = [inside.var for _, inside in window.slides]
    weight = weights[window.weights.indices]
    products = reduce("sum", (*points, *tiles, outs), (channels,), product, "products")

    def column(k: Expr, b: Expr, *at: Expr) -> Expr:
        reads = [products[(const(a), b, *at)] for a in range(tall)]
        return _chosen(k, [gathered(line, reads, target) for line in down.result])

    columns = compute((down.outputs, wide, *tiles, outs), column, "columns")

    def patch(k: Expr, n: Expr, *at: Expr) -> Expr:
        reads = [columns[(k, const(b), *at)] for b in range(wide)]
        return _chosen(n, [gathered(line, reads, target) for line in across.result])

    patches = compute((*patch_shape, *tiles, outs), patch, "patches")

    def element(*index: Expr) -> Expr:
        at = {a.var: i for a, i in zip(window.axes, index, strict=True)}
        y, x = (at[axis.var] for axis, _ in window.slides)
        along = list(zip((y, x), patch_shape, strict=True))
        tile = (*(at[a.var] for a in window.batch), *(floordiv(i, const(m)) for i, m in along))
        return patches[(*(floormod(i, const(m)) for i, m in along), *tile, at[window.channel.var])]

    result = compute([a.extent for a in window.axes], element, "result")
    return Winograd(window, schemes, factors, rows, data, weights, products, columns, patches, result)


def _place(axis: Axis, m: int, tile: Expr, offset: Expr) -> Expr:
    """Where element `offset` of a tile lies along `axis`; the last place that a window covers, where that is before it:
    what is read there in its stead only enters results that do not exist."""
    place = tile * m + offset
    known = extent_of(axis.extent)
    return place if m == 1 or (known is not None and known % m == 0) else min_(place, axis.extent + (TAPS - 2))


def _chosen(which: Expr, values: Sequence[Expr]) -> Expr:
    """values[which]."""
    chosen = values[-1]
    for n in reversed(range(len(values) - 1)):
        chosen = select(eq(which, n), values[n], chosen)
    return chosen


def _weights(window: Window, factors: Factors) -> Tensor:
    """The weights, each of their two window dimensions multiplied by its G."""
    done = window.weights.buffer
    assert isinstance(done, Tensor)
    for dim, matrix in factors:
        done = _multiplied(done, dim, matrix, window.dtype)
    return done


def _multiplied(source: Tensor, dim: int, matrix: Matrix, dtype: DType) -> Tensor:
    shape = [const(len(matrix)) if d == dim else extent for d, extent in enumerate(source.shape)]

    def element(*index: Expr) -> Expr:
        places = (tuple(const(k) if d == dim else i for d, i in enumerate(index)) for k in range(TAPS))
        reads = [cast(source[place], dtype) for place in places]
        sums = []
        for line in matrix:
            total: Expr = const(0, dtype)
            for c, x in zip(line, reads, strict=True):
                total = total + const(float(c), dtype) * x
            sums.append(total)
        return _chosen(index[dim], sums)

    return compute(shape, element, "weights")


def linear(tensor: Tensor, index: Sequence[Expr]) -> Expr:
    """What the stage of `tensor` computes at `index`; Selects whose conditions are known there are decided."""
    stage = tensor.stage
    assert isinstance(stage, Stage)
    body = substitute(stage.body, {a.var: i for a, i in zip(stage.axes, index, strict=True)})
    while isinstance(body, Select):
        cond = simplify(body.cond)
        assert isinstance(cond, Const)
        body = body.a if cond.value else body.b
    return body
