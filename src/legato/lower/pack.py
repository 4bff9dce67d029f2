"""Constants re-laid at compile time: the arrays that packings describe."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, const
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.base.strings import without_zeros
from legato.ir import expr as ir
from legato.ir.types import tensor_type
from legato.lower.expr_data import from_data, to_data
from legato.lower.stored import Matrix, StoredPacking
from legato.te.tensor import Stage
from legato.tir.buffer import Buffer
from legato.tir.expr import Call, Load

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from legato.lower.packing import Packing

__all__ = ["Packer", "packed_array", "stored_packing"]

Array = np.ndarray[Any, Any]
Allocate = Callable[[Sequence[int], np.dtype[Any]], Array]
WORTH_THREAD = 1 << 19  # bytes
IN_CACHE = 1 << 13  # float64 numbers of each part that is worked on at a time
ARITHMETIC = {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.FLOORDIV: np.floor_divide,
              Op.FLOORMOD: np.mod, Op.MIN: np.minimum, Op.MAX: np.maximum}  # fmt: skip


def stored_packing(packing: Packing, source: int) -> StoredPacking:
    """`packing` of the group's value number `source`, as data."""
    if packing.matrices:
        matrices = tuple((dim, tuple(tuple(map(float, row)) for row in rows)) for dim, rows in packing.matrices)
        return StoredPacking(source, _static(packing.packed.shape), matrices)
    stage = packing.packed.stage
    if not isinstance(stage, Stage) or stage.reduction is not None:
        raise InternalError(f"{packing.packed} is packed by something else than an index map")
    numbers: dict[Any, int] = {packing.source: 0, **{a.var: n for n, a in enumerate(stage.axes)}}
    body = to_data(stage.body, numbers.__getitem__)
    return StoredPacking(source, _static([a.extent for a in stage.axes]), body=body)


def _static(extents: Sequence[Expr]) -> tuple[int, ...]:
    known = tuple(int(e.value) for e in extents if isinstance(e, Const))
    if len(known) != len(extents):
        raise InternalError("a constant is packed into a shape that is not static")
    return known


class Packer:
    """Packs constants: memory for the results is taken at once, in order; they are filled by `run` at the latest, large
    ones by threads while others are still added. What is packed in the same way from the same array is one constant."""

    def __init__(self, allocate: Allocate = np.empty) -> None:
        self._allocate = allocate
        self._jobs: list[_Job] = []
        self._begun: list[Future[None]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._known: dict[Hashable, ir.Constant] = {}
        self._sources: list[Array] = []  # kept alive: they are known by identity

    def add(
        self, packings: Sequence[StoredPacking], values: Sequence[ir.Expr], wanted: Container[int]
    ) -> list[ir.Constant | None]:
        """The constants that `packings` make of a group's `values`: None for those whose numbers are not `wanted`."""
        arrays = {n: v.data for n, v in enumerate(values) if isinstance(v, ir.Constant)}
        dtypes = {n: array.dtype for n, array in arrays.items()}
        self._sources += arrays.values()
        keys: dict[int, Hashable] = {n: id(array) for n, array in arrays.items()}
        job = _Job(arrays, len(values), tuple(packings))
        found: list[ir.Constant | None] = []
        for n, packing in enumerate(packings, len(values)):
            dtypes[n] = _dtype_of(packing, dtypes[packing.source])
            how = json.dumps([packing.extents, packing.matrices, packing.body])
            key = keys[n] = (keys[packing.source], how)
            if n not in wanted or key in self._known:
                found.append(self._known[key] if n in wanted else None)
                continue
            job.results[n] = self._allocate(packing.extents, dtypes[n])
            shown = job.results[n].view()
            shown.setflags(write=False)
            self._known[key] = ir.Constant(shown, ty=tensor_type(packing.extents, dt.dtype(dtypes[n])))
            found.append(self._known[key])
        if job.results:
            self._begin(job)
        return found

    def _begin(self, job: _Job) -> None:
        if job.bytes < WORTH_THREAD:
            self._jobs.append(job)
            return
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # only for large models

            self._pool = ThreadPoolExecutor(2)
        self._begun.append(self._pool.submit(job.run))

    def run(self) -> None:
        """Fills every result that is not filled yet."""
        for job in self._jobs:
            job.run()
        for begun in self._begun:
            begun.result()
        self.close()

    def close(self) -> None:
        """Begins nothing more, and waits for what has begun."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._jobs, self._begun, self._pool = [], [], None


@dataclass(frozen=True, slots=True)
class _Job:
    """The packings of a group, the first with number `start`: from `arrays`, by numbers, to `results`."""

    arrays: dict[int, Array]
    start: int
    packings: tuple[StoredPacking, ...]
    results: dict[int, Array] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(result.nbytes for result in self.results.values())

    def run(self) -> None:
        arrays = dict(self.arrays)
        for n, packing in enumerate(self.packings, self.start):
            arrays[n] = packed_array(packing, arrays[packing.source])
            if n in self.results:
                self.results[n][...] = without_zeros(arrays[n])


def _dtype_of(packing: StoredPacking, source: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of what `packing` makes of `source`: that of what is computed, else that of what is read.

    Matrices make float32 of bfloat16, for which their products would be too coarse.
    """
    if packing.matrices:
        return dt.float32.numpy if source == dt.bfloat16.numpy else source
    last = packing.body[-1] if packing.body else ()
    return dt.dtype(last[-1]).numpy if last and last[0] in ("call", "cast") else source


def packed_array(packing: StoredPacking, source: Array) -> Array:
    """`source` as `packing` wants it: dimensions moved, the channel cut into blocks and filled up with zeros.

    It may be a view whose elements lie otherwise in memory.
    """
    if packing.matrices:
        return _multiplied(source, packing.matrices, _dtype_of(packing, source.dtype))
    axes = [Var(f"i{n}", lo=0) for n in range(len(packing.extents))]
    buffer = Buffer("source", tuple(const(n) for n in source.shape), dt.dtype(source.dtype))
    body = from_data(packing.body, axes, [buffer])
    if isinstance(body, Call):
        return _paired(source, body)
    read = body.a if isinstance(body, Select) else body
    assert isinstance(read, Load)
    cut = [d for d, index in enumerate(read.indices) if not isinstance(index, Var | Const)]
    if len(cut) == 1 and _is_blocked(read.indices[cut[0]], axes, packing.extents[-1]):
        return _moved(source, read.indices, axes, packing.extents, cut[0])
    return _gathered(source, read.indices, axes, packing.extents)


def _paired(source: Array, pair: Call) -> Array:
    """Neighbours along the dimension that `pair` takes two by two, as words of 32 bits; 0 behind the end."""
    first = pair.args[0]
    assert isinstance(first, Load)
    (dim,) = [d for d, index in enumerate(first.indices) if not isinstance(index, Var)]
    bits = np.moveaxis(source, dim, -1).view(np.uint16)
    if bits.shape[-1] % 2:
        bits = np.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, 1)])
    words = np.ascontiguousarray(bits).view(np.uint32)  # the first of a pair in the low half
    return np.ascontiguousarray(np.moveaxis(words, -1, dim))


def _multiplied(source: Array, matrices: Sequence[tuple[int, Matrix]], dtype: np.dtype[Any]) -> Array:
    """`source` with two dimensions multiplied by matrices: in float64, term by term in order, rounded once.

    The result lies in memory as it is packed next: these dimensions outermost, the first of the others innermost
    unless the last dimension is one of them.
    """
    dims = [d for d, _ in matrices]
    rest = [d for d in range(source.ndim) if d not in dims]
    order = [*dims, *(rest if source.ndim - 1 in rest else reversed(rest))]
    given = np.transpose(source, order)
    (_, first), (_, second) = matrices
    result = np.empty((len(first), len(second), *given.shape[2:]), dtype)
    step = max(1, IN_CACHE // max(1, math.prod(given.shape[3:])))
    shape = (step, *given.shape[3:])
    parts, line = np.empty((*given.shape[:2], *shape)), np.empty((given.shape[1], *shape))
    spare, value = np.empty_like(line), np.empty(shape)
    for at in range(0, given.shape[2], step):
        n = min(step, given.shape[2] - at)
        parts[:, :, :n] = given[:, :, at : at + n]
        for a, row in enumerate(first):
            _combine(row, parts[:, :, :n], line[:, :n], spare[:, :n])
            for b, other in enumerate(second):
                _combine(other, line[:, :n], value[:n], spare[0, :n])
                result[a, b, at : at + n] = value[:n]
    return np.transpose(result, np.argsort(order))


def _combine(row: Sequence[float], parts: Array, total: Array, spare: Array) -> None:
    """`total` = Σ row[k] · parts[k]; not by a library for matrices, whose sums differ from machine to machine."""
    terms = [(factor, part) for factor, part in zip(row, parts, strict=True) if factor]
    if not terms:
        total[...] = 0
    for n, (factor, part) in enumerate(terms):
        np.multiply(part, factor, out=spare if n else total)
        if n:
            np.add(total, spare, out=total)


def _is_blocked(index: Expr, axes: Sequence[Var], width: int) -> bool:
    """True if `index` is block · width + within, for one of the axes and the last."""
    others = [v for v in variables(index) if v is not axes[-1]]
    return len(others) == 1 and simplify(others[0] * width + axes[-1] - index) is const(0)


def _moved(source: Array, indices: tuple[Expr, ...], axes: Sequence[Var], extents: Sequence[int], cut: int) -> Array:
    """Every index but the channel's (dimension `cut`, block · width + within) is an axis or a literal."""
    within = len(axes) - 1
    where = {index: d for d, index in enumerate(indices) if isinstance(index, Var)}
    ends = {where[v]: extent for v, extent in zip(axes, extents, strict=True) if v in where}
    source = source[tuple(slice(ends.get(d)) for d in range(source.ndim))]  # not all of a dimension may be read
    (block,) = [n for n, v in enumerate(axes[:-1]) if v not in where]
    for d, index in enumerate(indices):
        if isinstance(index, Const):
            source = np.take(source, [int(index.value)], axis=d)
    width, count = extents[within], extents[block]
    missing = count * width - source.shape[cut]
    if missing < 0:  # only the first channels are packed
        source = np.take(source, range(count * width), axis=cut)
    elif missing:
        source = np.pad(source, [(0, missing if d == cut else 0) for d in range(source.ndim)])
    split = source.reshape(*source.shape[:cut], count, width, *source.shape[cut + 1 :])
    place = {d: d if d < cut else d + 1 for d in range(source.ndim)}
    order = [cut if n == block else cut + 1 if n == within else place[where[v]] for n, v in enumerate(axes)]
    order += [place[d] for d, index in enumerate(indices) if isinstance(index, Const)]
    return np.transpose(split, order).reshape(extents)


def _gathered(source: Array, indices: tuple[Expr, ...], axes: Sequence[Var], extents: Sequence[int]) -> Array:
    """Any index expressions: evaluated for every element, reads behind the end give zero."""
    if not source.size:
        return np.zeros(extents, source.dtype)
    env = dict(zip(axes, np.ogrid[tuple(slice(0, e) for e in extents)], strict=True))
    places = [_evaluate(i, env) for i in indices]
    inside = np.ones(extents, np.bool_)
    for d, p in enumerate(places):
        inside &= p < source.shape[d]
    clipped = tuple(np.clip(p, 0, n - 1) for p, n in zip(places, source.shape, strict=True))
    return np.where(inside, source[clipped], np.zeros((), source.dtype))


def _evaluate(e: Expr, env: dict[Var, Array]) -> Array:
    values: dict[Expr, Array] = {}
    for node in nodes(e):
        if isinstance(node, Var):
            values[node] = env[node]
        elif isinstance(node, Const):
            values[node] = np.asarray(node.value)
        elif isinstance(node, Binary) and node.op in ARITHMETIC:
            values[node] = ARITHMETIC[node.op](values[node.a], values[node.b])
        else:
            raise InternalError(f"a packed operand is indexed with {node}")
    return values[e]
