"""A contraction whose result is read by windows of one channel each, recognised from the structure of stages.

    wide[n, c, y, x] = f(Σ_k data[n, k, y, x] · mix[c, k])
    sum[n, c, i, j]  = Σ_uv wide[n, c, s·i + u − before, t·j + v − before] · weights[c, u, v]
    out              = g(sum)

in any order of dimensions, with `outside` around `wide`; or without weights, then also the largest or least of each
window. A block of channels needs no more of `wide` than its own, and a row of results no more than its windows cover.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import replace

from legato.arith.expr import Binary, Expr, Op, Var
from legato.arith.linear import gather
from legato.arith.prove import prove_equal
from legato.arith.substitute import substitute
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.lower.access import depends, extent_of
from legato.lower.conditions import Pad, detect_pad
from legato.lower.group import stages
from legato.lower.slide import Slide
from legato.lower.traits import element_of, epilogue_of, in_memory_order, is_epilogue, is_reduction, tensors_read
from legato.te.inline import inline
from legato.te.tensor import Axis, Reduction, Stage, Tensor
from legato.tir.expr import Load

__all__ = ["Cascade", "find_cascade"]


@dataclass(frozen=True, slots=True)
class Cascade:
    """The parts; see the module. Of `out`: its axes, `lower` (rows), `right`, `channel` and the others; of `wide`, over
    axes of its own: `line`, `column`, `wide_channel`, `wide_batch`. `order`: dimensions from the outermost on."""

    wide: Tensor
    axes: tuple[Axis, ...]
    batch: tuple[Axis, ...]
    lower: Axis
    right: Axis
    channel: Axis
    wide_batch: tuple[Axis, ...]
    line: Axis
    column: Axis
    wide_channel: Axis
    data: Load
    mix: Load
    mixed: Reduction
    widened: Callable[[Expr], Expr]
    weights: Load | None
    windows: Reduction
    outside: float
    result: Callable[[Expr], Expr]
    down: Slide
    across: Slide
    order: tuple[int, ...]

    def in_memory_order(self, constants: Collection[Tensor]) -> Cascade:
        """The same, with the contraction's sum along the memory of the data."""
        return replace(self, mixed=in_memory_order(self.mixed, self.data * self.mix, constants))

    def same_batch(self, env: Mapping[Var, Expr]) -> dict[Var, Expr]:
        """The values `env` of the batch axes, for those of `wide`."""
        return {a.var: env[b.var] for a, b in zip(self.wide_batch, self.batch, strict=True)}


def find_cascade(tensor: Tensor, constants: Collection[Tensor], stored: Collection[Tensor]) -> Cascade | None:
    """How `tensor` is such a cascade of known extents; None if it is not.

    The contraction's data may be a stage that pads an input, which is then stored before.
    """
    body = element_of(tensor, stored)
    second = _only_reduction(tensor, body, stored)
    factors = None if second is None else _factors(second, tensor, constants, None)
    if second is None or factors is None:
        return None
    read = factors.data
    if not isinstance(read.buffer, Tensor) or read.buffer in stored or len(read.indices) != tensor.rank:
        return None
    pad = detect_pad(read.buffer) or Pad(read.buffer, (0,) * tensor.rank, (0,) * tensor.rank, 0.0)
    wide = pad.source
    if not isinstance(wide.stage, Stage) or wide in stored:
        return None
    made = element_of(wide, stored)
    first = _only_reduction(wide, made, stored)
    if first is None:
        return None
    mixed = _factors(first, wide, constants, {*stored, *(t for t in stages((first,)) if _pads_input(t))})
    if mixed is None or mixed.weights is None:
        return None
    roles = _Roles(tensor, wide, factors)
    return roles.cascade(mixed, epilogue_of(made, first), epilogue_of(body, second), pad)


def _pads_input(t: Tensor) -> bool:
    pad = detect_pad(t)
    return pad is not None and pad.source.stage is None


def _only_reduction(tensor: Tensor, body: Expr, stored: Container[Tensor]) -> Tensor | None:
    """The one reduction that `body` reads, element by element; None if that is not so."""
    found = [t for t in tensors_read(body) if is_reduction(t) and (t is tensor or t not in stored)]
    return found[0] if len(found) == 1 and is_epilogue(tensor, body, found[0]) else None


@dataclass(frozen=True, slots=True)
class _Factors:
    """What a reduction is of: data, or with `weights` the products of both."""

    data: Load
    weights: Load | None
    reduction: Reduction


def _factors(
    reduction: Tensor, tensor: Tensor, constants: Collection[Tensor], stored: Container[Tensor] | None
) -> _Factors | None:
    """What `reduction` is of, over the axes of `tensor`: sums, where there are weights."""
    stage, axes = reduction.stage, tensor.stage
    assert isinstance(stage, Stage)
    assert isinstance(axes, Stage)
    assert stage.reduction is not None
    same: dict[Var, Expr] = {a.var: b.var for a, b in zip(stage.axes, axes.axes, strict=True)}
    value = substitute(stage.body if stored is None else inline(stage.body, stored), same)
    if stage.reduction.init is not None or value.dtype is not dt.float32:
        return None
    if isinstance(value, Load):
        return None if value.buffer in constants else _Factors(value, None, stage.reduction)
    if not isinstance(value, Binary) or value.op is not Op.MUL or stage.reduction.combiner != "sum":
        return None
    data, fixed = sorted((value.a, value.b), key=lambda x: isinstance(x, Load) and x.buffer in constants)
    if not isinstance(data, Load) or data.buffer in constants:
        return None
    if not isinstance(fixed, Load) or fixed.buffer not in constants:
        return None
    return _Factors(data, fixed, stage.reduction)


class _Roles:
    """Which axis does what: told from how `second`, over the axes of `tensor`, is indexed."""

    def __init__(self, tensor: Tensor, wide: Tensor, second: _Factors) -> None:
        self.wide, self.read, self.weights, self.windows = wide, second.data, second.weights, second.reduction
        assert isinstance(tensor.stage, Stage)
        self.axes = tensor.stage.axes

    def cascade(
        self, first: _Factors, widened: Callable[[Expr], Expr], result: Callable[[Expr], Expr], pad: Pad
    ) -> Cascade | None:
        """The cascade of `first` and the second, if they are one."""
        assert isinstance(self.wide.stage, Stage)
        assert first.weights is not None
        own = self.wide.stage.axes
        channels = [d for d, axis in enumerate(own) if depends(first.weights, axis.var)]
        slides, batch = [], []
        for d, (index, axis) in enumerate(zip(self.read.indices, self.axes, strict=True)):
            inside = [a for a in self.windows.axes if depends(index, a.var)]
            if inside:
                slide = self._slide(d, axis, inside, pad.before[d])
                if slide is None:
                    return None
                slides.append((d, inside[0], slide))
            elif not self._is_along(d, axis) or pad.before[d]:
                return None
            elif d not in channels:
                batch.append(d)
        if len(slides) != 2 or len(channels) != 1 or len(self.windows.axes) != 2:
            return None
        (y, u, down), (x, v, across) = slides
        (c,) = channels
        if c in (y, x) or depends(first.data, own[c].var) or extent_of(self.axes[c].extent) is None:
            return None
        if self.weights is not None and any(depends(self.weights, self.axes[d].var) for d in (*batch, y, x)):
            return None
        return Cascade(
            wide=self.wide,
            axes=self.axes,
            batch=tuple(self.axes[d] for d in batch),
            lower=self.axes[y],
            right=self.axes[x],
            channel=self.axes[c],
            wide_batch=tuple(own[d] for d in batch),
            line=own[y],
            column=own[x],
            wide_channel=own[c],
            data=first.data,
            mix=first.weights,
            mixed=first.reduction,
            widened=widened,
            weights=self.weights,
            windows=replace(self.windows, axes=(u, v)),
            outside=pad.value,
            result=result,
            down=down,
            across=across,
            order=(*batch, y, x, c),
        )

    def _is_along(self, d: int, axis: Axis) -> bool:
        """True if dimension `d` of what is read is that of the result."""
        index = self.read.indices[d]
        is_same = index is axis.var or (extent_of(axis.extent) == 1 and extent_of(index) == 0)
        return is_same and prove_equal(self.wide.shape[d], axis.extent)

    def _slide(self, d: int, axis: Axis, inside: Sequence[Axis], before: int) -> Slide | None:
        """How windows slide along dimension `d`, if they do."""
        terms, offset = gather(self.read.indices[d])
        results, reach = extent_of(axis.extent), extent_of(inside[0].extent)
        extent, all_places = extent_of(self.wide.shape[d]), extent_of(self.read.buffer.shape[d])
        if len(inside) != 1 or set(terms) != {axis.var, inside[0].var} or offset or terms[inside[0].var] != 1:
            return None
        if results is None or reach is None or extent is None or all_places is None:
            return None
        step = terms[axis.var]
        slide = Slide(extent, before, all_places - extent - before, reach, step, results)
        return slide if step > 0 and results > 0 and slide.under(results) <= all_places else None
