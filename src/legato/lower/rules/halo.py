"""Filling the halo of an output: the kernel that stores the data stores what surrounds it as well."""

from __future__ import annotations

from legato.arith.expr import Expr, const
from legato.base.target import Target
from legato.lower.rules.nest import by_one_thread, is_unit, loop, parallel, vector_loop
from legato.te.tensor import Tensor
from legato.tir.stmt import Stmt, Store, block

__all__ = ["fill_halo"]


def fill_halo(tensor: Tensor, target: Target, threaded: bool) -> Stmt:
    """Stores the halo's value around `tensor`: per dimension a slab before and one behind the data.

    Slabs of a dimension span the data of the dimensions outside it and everything of those inside it, so each element
    is stored once.
    """
    order = tensor.layout.order
    slabs: list[Stmt] = []
    for place, dim in enumerate(order):
        before, after = tensor.layout.halo_of(dim)
        for start, width in ((const(-before), before), (tensor.shape[dim], after)):
            if width:
                slabs.append(_slab(tensor, target, place, start, width, threaded))
    return block(*slabs)


def _slab(tensor: Tensor, target: Target, place: int, start: Expr, width: int, threaded: bool) -> Stmt:
    order, layout = tensor.layout.order, tensor.layout
    lanes = target.lanes(tensor.dtype)
    starts: dict[int, Expr] = {}
    extents: dict[int, Expr] = {}
    for n, dim in enumerate(order):
        before, after = layout.halo_of(dim)
        if n < place:
            starts[dim], extents[dim] = const(0), tensor.shape[dim]
        elif n == place:
            starts[dim], extents[dim] = start, const(width)
        else:
            starts[dim], extents[dim] = const(-before), tensor.shape[dim] + (before + after)
    value = const(layout.halo_value, tensor.dtype)
    *outer, last = order

    def row(values: list[Expr]) -> Stmt:
        point = {d: starts[d] + v for d, v in zip(outer, values, strict=True)}

        def store(i: Expr) -> Stmt:
            index = {**point, last: starts[last] + i}
            return Store(tensor, tuple(index[d] for d in range(tensor.rank)), value)

        if is_unit(extents[last]):
            return loop("h", extents[last], store)
        return vector_loop(extents[last], lanes, store)

    slab = parallel([extents[d] for d in outer], row, threaded)
    return by_one_thread(slab) if threaded else slab
