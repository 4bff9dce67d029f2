"""Tests that a kernel stores all of what it is given to store, whatever its loops are: of the bounds-checked build.

    launch @k(x, y);        =>      for i in 0..n { y[i] = mark; }
                                    launch @k(x, y);
                                    for i in 0..n { check y[i] != mark else 9 { … } }

A mark is what nobody computes: of floats a signalling NaN, which arithmetic makes quiet. Integers of 8 and 16 bits have
none. Left out are buffers that the kernel reads, too, or that lie where another of its arguments does (it may work in
place), so that a mark takes nothing from anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from legato.arith.expr import Expr, Var, const, fresh, land, lt, ne
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.objects import Object, Resize
from legato.tir.stmt import Alloc, For, Func, If, Launch, Stmt, Store, View, block
from legato.tir.walk import buffers_read, buffers_written, statements

__all__ = ["Outputs", "marked"]

_BITS: Final[Mapping[DType, tuple[DType, int]]] = {
    dt.float16: (dt.int16, 0x7D5A),
    dt.bfloat16: (dt.int16, 0x7FA5),
    dt.float32: (dt.int32, 0x7FA5A5A5),
    dt.float64: (dt.int64, 0x7FF5A5A5A5A5A5A5),
    **dict.fromkeys((dt.int32, dt.uint32), (dt.int32, -0x5A5A5A5B)),
    **dict.fromkeys((dt.int64, dt.uint64), (dt.int64, -0x5A5A5A5A5A5A5A5B)),
}

Fails = Callable[[Expr, Buffer, tuple[Var, ...]], Stmt]  # the test of a condition about an element of an output


@dataclass(slots=True)
class Outputs:
    """What launches in a host function store. `kernels` are those that are to store all of their outputs; `places` says
    where buffers lie whose memory is known: in an arena from which byte on, or in a parameter or object."""

    kernels: Mapping[str, Func]
    places: dict[Buffer, tuple[Buffer, Expr]] = field(default_factory=dict)

    @staticmethod
    def of(func: Func, kernels: Mapping[str, Func], shared: Sequence[tuple[int, int]] = ()) -> Outputs:
        """For `func`, a host function, and those of its kernels that are to store all of their outputs; `shared` are
        the places of parameters that may be the same memory."""
        found = Outputs(kernels, {p: (p, const(0)) for p in func.params if isinstance(p, Buffer)})
        for read, made in shared:
            one, other = func.params[read], func.params[made]
            if isinstance(one, Buffer) and isinstance(other, Buffer):
                found.places[other] = found.places[one]
        arenas: set[Buffer] = set()
        for s in statements(func):
            match s:
                case Alloc(buffer) | Object(buffer) | Resize(buffer):
                    found.places[buffer] = buffer, const(0)
                    arenas.add(buffer)
                case View(buffer, base, offset) if base in found.places:
                    found.places[buffer] = (base, offset) if base in arenas else found.places[base]
                case _:
                    pass
        return found

    def own(self, launch: Launch) -> Iterator[Buffer]:
        """What `launch` stores to and nothing else, as far as that is known."""
        kernel = self.kernels.get(launch.kernel)
        if kernel is None:
            return
        written = set(buffers_written(kernel)).difference(buffers_read(kernel))
        given = [a for a in launch.args if isinstance(a, Buffer)]
        for p, a in zip(kernel.params, launch.args, strict=True):
            if not isinstance(a, Buffer) or p not in written or a.dtype not in _BITS or a.scope is not Scope.GLOBAL:
                continue
            place = self.places.get(a)
            if place is not None and all(b is a or self.places.get(b) != place for b in given) and given.count(a) == 1:
                yield a


def marked(launch: Launch, tested: Launch, outputs: Outputs, fails: Fails) -> Stmt:
    """`tested`, what `launch` has become, between the marks of its outputs and their tests."""
    found: Stmt = tested
    for out in outputs.own(launch):
        dtype, bits = _BITS[out.dtype]
        view, mark = Buffer(f"{out.name}_bits", out.shape, dtype, out.layout), const(bits, dtype)
        at = tuple(fresh("i") for _ in out.shape)
        test = fails(ne(Load(view, at), mark), out, at)
        found = View(view, out, const(0), block(_each(out, at, Store(view, at, mark)), found, _each(out, at, test)))
    return found


def _each(buffer: Buffer, at: tuple[Var, ...], body: Stmt) -> Stmt:
    """`body` for each element of a buffer, whose subscripts are `at`; where there are none it takes no time."""
    some: Expr = const(True, dt.bool_)
    for extent in buffer.shape:
        some = land(some, lt(const(0), extent))
    for var, extent in reversed(list(zip(at, buffer.shape, strict=True))):
        body = For(var, extent, body)
    return If(some, body)
