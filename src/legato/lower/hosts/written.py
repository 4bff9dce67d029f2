"""Calls of tensor programs that somebody wrote: every dim solved, every extent proven or checked."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

from legato.arith.expr import Const, Expr, Var, const, land, le
from legato.arith.prove import prove, prove_equal
from legato.arith.substitute import substitute
from legato.base.errors import UnsupportedError
from legato.ir import expr as ir
from legato.ir.call_tir import CallTirAttrs, program_dims, program_fault
from legato.ir.constraint import sides
from legato.lower.hosts.body import Body
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.magnitude import buffer_fits, held, same_size
from legato.lower.hosts.program import Written
from legato.lower.hosts.tensor_programs import zeros
from legato.tir.buffer import Buffer, Layout
from legato.tir.prove_access import LARGEST
from legato.tir.stmt import Check, Launch, Store

__all__ = ["arguments", "bound_dims"]


def bound_dims(written: Written, call: ir.Call, inputs: list[Buffer]) -> tuple[Expr, ...]:
    """The values of the index parameters of a kernel that `call` calls."""
    attrs, func = call.attrs, written.original
    assert isinstance(attrs, CallTirAttrs)
    fault = program_fault(func, len(inputs), attrs)
    found = fault or program_dims(func, attrs.dims, [*(b.shape for b in inputs), *(t.shape for t in attrs.own)])
    if isinstance(found, str):
        hint = "call it with what it takes: its buffers in order, then its integers (docs/tensor_programs.md)"
        raise UnsupportedError(f"call_tir: {found}", span=call.span, hint=hint)
    return tuple(found[p] for p in func.params if isinstance(p, Var))


def arguments(
    frame: Frame, written: Written, call: ir.Call, inputs: list[Buffer], outs: list[Buffer], dims: tuple[Expr, ...],
    began: Collection[int], out: Body,
) -> Launch:  # fmt: skip
    """The launch of a kernel, for `call` with dims of these values; appends what must be checked, cleared or made
    before. What the kernel stores to are `outs` alone: those that begin as arguments are made copies of them, but for
    those that have `began` already; the memory plan leaves copies out where an argument is needed no more."""
    func, attrs = written.func, call.attrs
    assert isinstance(attrs, CallTirAttrs)
    values = dict(zip([p for p in func.params if isinstance(p, Var)], dims, strict=True))
    begins = {arg: outs[n] for arg, n in attrs.begins.items()}
    own = [b for b in outs if b not in begins.values()]
    params = [p for p in func.params if isinstance(p, Buffer)]
    places = [*zip(params, [*inputs, *own], strict=False), *((params[arg], b) for arg, b in begins.items())]
    for p, b in places:
        for n, (wanted, got) in enumerate(zip(p.shape, b.shape, strict=True)):
            what = f"call_tir: extent {n} of {p.name} of @{func.name}"
            _require_equal(frame, substitute(wanted, values), got, what, out)
    _require_small(frame, func.name, [*dims, *(d for _, b in places for d in b.shape)], out)
    scratch = [_scratch(frame, b, values, out) for b in written.scratch]
    for n, b in enumerate(own, len(inputs)):
        if n in written.cleared:
            _clear(frame, written, n, b, dims, out)
    read = [begins.get(n) or _dense(frame, b, out) for n, b in enumerate(inputs)]
    out.extend(frame.copy(inputs[arg], outs[n]) for arg, n in attrs.begins.items() if n not in began)
    return Launch((*read, *own, *scratch, *dims), func.name)


def _dense(frame: Frame, b: Buffer, out: Body) -> Buffer:
    """`b`, or a dense copy of it."""
    if b.layout.is_row_major:
        return b
    copied = frame.placed(Buffer(b.name, b.shape, b.dtype, Layout.row_major(b.rank)), out)
    out.append(frame.copy(b, copied))
    return copied


def _require_equal(frame: Frame, wanted: Expr, got: Expr, what: str, out: Body) -> None:
    if not prove_equal(wanted, got):
        left, right = sides(wanted, got)
        out.append(Check(same_size(wanted, got), frame.program.check(f"{what}: {left} and {right} must be equal")))


def _require_small(frame: Frame, name: str, dims: list[Expr], out: Body) -> None:
    """The check that dims are what proofs about the kernel take them to be."""
    few = [land(le(const(-LARGEST), d), le(d, const(LARGEST))) for d in dict.fromkeys(dims)]
    left = [c for c in few if not prove(c)]
    sound = [c for d in dict.fromkeys(dims) if not isinstance(d, Const) and (c := held(d)) is not None]
    if left or sound:
        message = f"call_tir: a dim of @{name} is larger than {LARGEST}"
        out.append(Check(reduce(land, [*sound, *left]), frame.program.check(message)))


def _scratch(frame: Frame, b: Buffer, values: dict[Var, Expr], out: Body) -> Buffer:
    """Memory for what a kernel allocates."""
    shape = tuple(substitute(d, values) for d in b.shape)
    found = Buffer(b.name, shape, b.dtype, b.layout)
    negative = [c for c in (le(const(0), d) for d in shape) if not prove(c)]
    if negative:
        message = f"{b.name} has an extent below 0"
        out.append(Check(reduce(land, negative), frame.program.check(message)))
    if not all(isinstance(d, Const) for d in shape):
        out.append(frame.require(buffer_fits(found)))
    return frame.placed(found, out)


def _clear(frame: Frame, written: Written, n: int, b: Buffer, dims: tuple[Expr, ...], out: Body) -> None:
    if b.rank:
        out.append(Launch((b, *dims), zeros(frame.program, written, n)))
    else:
        out.append(Store(b, (), const(0, b.dtype)))
