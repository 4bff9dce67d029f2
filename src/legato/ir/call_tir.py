"""`call_tir`: the operator that calls a tensor program in destination-passing style.

call_tir(@kernel, (x, w), n)        args: inputs of the kernel in order; the trailing dims are its index parameters

A kernel has its inputs first, which it does not store to, then its outputs, then index parameters: dims. Outputs are
memory of its own that holds zeros at first. A call states the first index parameters, some or all or none; the others
are those that make the extents of its arguments and results fit; all extents must.

call_tir(@kernel, (x, w), n, inplace=[0, -1])

A kernel may also work in place: an output is then no buffer of its own, but what the kernel leaves in an input. As a
value the argument stays what it is. Lowering writes in its memory where nobody needs it any more, and else in a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from legato.arith.expr import Var, clamped
from legato.arith.linear import divide, solve
from legato.arith.substitute import substitute, variables
from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.base.span import Span
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Expr, GlobalVar, tuple_of
from legato.ir.op import Op, Relation
from legato.ir.types import Dim, TensorType, TupleType, Type
from legato.tir.buffer import Buffer
from legato.tir.stmt import Func, FuncKind
from legato.tir.walk import buffers_written

__all__ = ["CALL_TIR", "CallTirAttrs", "call_tir", "calling", "program_dims", "program_fault", "require_ranges"]


@dataclass(frozen=True, slots=True)
class CallTirAttrs(Attrs):
    """out: the types of the outputs (allocated by the caller); dims: the values of the kernel's first index parameters;
    its buffers tell the others; operators: the names of those that the kernel was made of, for people; inplace: for
    each output the number of the argument that it begins as, or -1 for memory of its own; none: all are such."""

    out: tuple[TensorType, ...]
    dims: tuple[Dim, ...] = ()
    operators: tuple[str, ...] = ()
    inplace: tuple[int, ...] = ()

    @property
    def begins(self) -> dict[int, int]:
        """The arguments that the kernel stores to, each with the number of the output that it becomes."""
        return {arg: n for n, arg in enumerate(self.inplace) if arg >= 0}

    @property
    def own(self) -> tuple[TensorType, ...]:
        """The types of the outputs that are buffers of the kernel's own."""
        begun = self.begins.values()
        return tuple(t for n, t in enumerate(self.out) if n not in begun)

    @property
    def out_type(self) -> Type:
        """The call's type: one tensor, or a tuple."""
        return self.out[0] if len(self.out) == 1 else TupleType(self.out)


def _type(relation: Relation, kernel: Type, args: Type, attrs: CallTirAttrs) -> Type:
    return attrs.out_type


def _reference(*args: Any) -> Any:
    raise InternalError("call_tir is evaluated by the interpreter itself: it needs the module")


CALL_TIR = Op(
    name="call_tir",
    args=("kernel", "args"),
    attrs=CallTirAttrs,
    type_rel=_type,
    reference=_reference,
    strings=True,
    doc="Calls a tensor program of the module; the outputs are allocated by the caller.",
)


def calling(func: Func) -> Op:
    """CALL_TIR as the operator that calls `func`: its type relation requires that arguments and results fit."""
    return replace(CALL_TIR, type_rel=partial(_typed, func))


def _typed(func: Func, relation: Relation, kernel: Type, args: Type, attrs: CallTirAttrs) -> Type | None:
    if not isinstance(args, TupleType):
        return None
    fault = program_fault(func, len(args.fields), attrs)
    if fault is not None:
        raise relation.fail(fault)
    buffers = _buffers(func)
    if not all(isinstance(a, TensorType) for a in args.fields):
        if len(attrs.dims) < len(func.params) - len(buffers):
            return None  # not told before the types of all arguments are
        dims = dict(zip(_dims(func), attrs.dims, strict=True))
        for b, a in zip(buffers, args.fields, strict=False):
            wanted = TensorType(tuple(substitute(d, dims) for d in b.shape), b.dtype)
            relation.unify(a, wanted, f"{b.name} of @{func.name}")
        require_ranges(relation, func.name, dims)
        return attrs.out_type
    tensors = [t for t in (*args.fields, *attrs.own) if isinstance(t, TensorType)]
    places = [*zip(buffers, tensors, strict=True), *((buffers[arg], attrs.out[n]) for arg, n in attrs.begins.items())]
    for b, t in places:
        if t.rank != b.rank or t.dtype != b.dtype:
            raise relation.fail(f"{b.name} of @{func.name} is {b.dtype} of rank {b.rank}, got {t}")
    solved = program_dims(func, attrs.dims, [t.shape for t in tensors])
    if isinstance(solved, str):
        raise relation.fail(solved, hint="state them: dims=[…]")
    for b, t in places:
        for n, (d, got) in enumerate(zip(b.shape, t.shape, strict=True)):
            relation.same(substitute(d, solved), got, f"extent {n} of {b.name}")
    require_ranges(relation, func.name, solved)
    return attrs.out_type


def require_ranges(relation: Relation, name: str, values: Mapping[Var, Dim]) -> None:
    """Requires the values of index parameters of @name to be in the ranges that the parameters state."""
    for d, value in values.items():
        for bound in clamped(value, d):
            relation.same(bound, value, f"{d.name} of @{name}, in its range")


def _buffers(func: Func) -> list[Buffer]:
    return [p for p in func.params if isinstance(p, Buffer)]


def _dims(func: Func) -> list[Var]:
    return [p for p in func.params if isinstance(p, Var)]


def program_fault(func: Func, inputs: int, attrs: CallTirAttrs) -> str | None:
    """What keeps `func` from being called with so many inputs; None if nothing."""
    buffers, begins, dims = _buffers(func), attrs.begins, len(attrs.dims)
    if func.kind is not FuncKind.KERNEL:
        return f"@{func.name} is a host function, wanted a kernel"
    if list(func.params[: len(buffers)]) != buffers:
        return f"@{func.name} has index parameters before buffers"
    if attrs.inplace and not (len(attrs.inplace) == len(attrs.out) and all(-1 <= n < inputs for n in attrs.inplace)):
        return f"the results of @{func.name} begin as its arguments {list(attrs.inplace)}: one number for each, or -1"
    if len(begins) < sum(n >= 0 for n in attrs.inplace):
        return f"two results of @{func.name} begin as the same argument"
    if len(buffers) != inputs + len(attrs.own):
        return f"@{func.name} takes {len(buffers)} buffers, got {inputs} arguments and {len(attrs.own)} results"
    if dims > len(func.params) - len(buffers):
        return f"@{func.name} has {len(func.params) - len(buffers)} dims, got {dims}"
    written = set(buffers_written(func))
    stored = [b.name for n, b in enumerate(buffers[:inputs]) if b in written and n not in begins]
    return f"@{func.name} stores to its input {stored[0]}, which is no output of the call" if stored else None


def program_dims(func: Func, stated: Sequence[Dim], shapes: Sequence[Sequence[Dim]]) -> Mapping[Var, Dim] | str:
    """The values of the index parameters of `func`: the first are stated, the shapes of its arguments and results tell
    the others. What is wrong, in words, where something is told by nothing."""
    dims = _dims(func)
    known = dict(zip(dims, stated, strict=False))
    if len(known) == len(dims):
        return known
    pairs = [pair for b, shape in zip(_buffers(func), shapes, strict=True) for pair in zip(b.shape, shape, strict=True)]
    found = _solved(dims, pairs, known)
    untold = [d.name for d in dims if d not in found]
    return f"no extent tells the dims {', '.join(untold)} of @{func.name}" if untold else found


def _solved(dims: Iterable[Var], pairs: Sequence[tuple[Dim, Dim]], known: Mapping[Var, Dim]) -> dict[Var, Dim]:
    """Values of `dims`, beside those that are known, that make the sides of pairs equal, if any do: plain extents
    first, then sums."""
    found = {d: value for d, value in reversed(pairs) if isinstance(d, Var)} | dict(known)
    while True:
        left = [d for d in dims if d not in found]
        new: dict[Var, Dim] = {}
        for d, value in pairs:
            d = substitute(d, found)
            unknown = [v for v in variables(d) if v in left]
            if len(unknown) == 1 and not new:
                told = divide(d, value, unknown)
                new = (solve(d, value, unknown) or {}) if told is None else dict([told])
        if not new:
            return found
        found |= new


def call_tir(
    kernel: GlobalVar,
    args: Sequence[Expr] | Expr,
    out: Sequence[TensorType],
    dims: Sequence[Dim] = (),
    *,
    operators: Sequence[str] = (),
    inplace: Sequence[int] = (),
    span: Span | None = None,
) -> Call:
    """The call of `kernel` on `args` (or the one expression that is the tuple of them), typed as far as these are."""
    is_inplace = any(arg != -1 for arg in inplace)
    attrs = CallTirAttrs(tuple(out), tuple(dims), tuple(operators), tuple(inplace) if is_inplace else ())
    given = args if isinstance(args, Expr) else tuple_of(args)
    return Call(CALL_TIR, (kernel, given), attrs, ty=attrs.out_type, span=span)
