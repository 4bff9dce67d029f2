"""Tensor programs of a module, each compiled on its own, against the interpreter of loop programs.

A kernel becomes the one call of a module whose dims are those of its buffers:

    kernel @k(x, y, n) { … }   ⇒   def @main(%x: Tensor[(n,), float32]) { call_tir(@k, (%x,), out=[…], dims=[n]) }

What it stores to and also reads begins as an input, and is a copy of that. Calls are made with several sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.arith.substitute import substitute
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, RunError
from legato.base.precision import near_of
from legato.compare.exact import interpret
from legato.compare.report import OutputReport, judge
from legato.driver import CompileOptions, compile_module
from legato.ir.call_tir import call_tir
from legato.ir.expr import Expr, Function, GlobalVar, TupleGetItem, Var, tuple_of
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.runtime.executable import Executable
from legato.runtime.fill import Fill, feeds
from legato.runtime.leaves import flat, in_order
from legato.tir.buffer import Buffer
from legato.tir.stmt import Func, FuncKind
from legato.tir.walk import buffers_read, buffers_written
from legato.transform.infer_types import InferTypes

__all__ = ["Drawn", "kernels", "verify_kernel"]

DRAWS: Final = 4  # of sizes; the first is what is asked for, or 4
_LARGEST: Final = 9  # size that is drawn, where the range of a dim allows it


@dataclass(frozen=True, slots=True)
class Drawn:
    """How inputs are made up: as `verify` has them."""

    dims: Mapping[str, int]
    how: Fill
    seed: int


def kernels(module: Module) -> list[tuple[GlobalVar, Func]]:
    """The tensor programs of a module."""
    found = [(gv, f) for gv, f in module.functions.items() if isinstance(f, Func)]
    return [(gv, f) for gv, f in found if f.kind is FuncKind.KERNEL]


def verify_kernel(gv: GlobalVar, func: Func, options: CompileOptions, drawn: Drawn) -> tuple[OutputReport, ...]:
    """A report for each output of a kernel: of the first sizes for which it is wrong, or of those with most error.

    CompileError for a kernel that cannot be called alone, RunError where no inputs are found that fit.
    """
    module, outputs = _called(gv, func)
    exe = compile_module(module, options).executable
    worst: dict[str, OutputReport] = {}
    for sizes in _sizes(module, drawn):
        try:
            given = feeds(exe.program.functions[exe.function], None, drawn.how, dims=sizes, seed=drawn.seed)
        except RunError:
            if worst:
                continue  # the sizes that were drawn do not fit together; the first ones do
            raise
        for report in _compared(exe, module, outputs, given, f"@{gv.name}"):
            known = worst.get(report.name)
            if known is None or (known.holds and (not report.holds or report.relative > known.relative)):
                worst[report.name] = report
    return tuple(worst.values())


def _called(gv: GlobalVar, func: Func) -> tuple[Module, list[str]]:
    """A module that calls the kernel, and the names of its outputs."""
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    written, read = set(buffers_written(func)), set(buffers_read(func))
    if not written.intersection(buffers):
        raise CompileError(f"@{gv.name} stores to none of its buffers: it has no output")
    count = len(buffers)
    while count and buffers[count - 1] in written and buffers[count - 1] not in read:
        count -= 1
    places = [n for n, b in enumerate(buffers[:count]) if b in written]
    outputs = [*(buffers[n] for n in places), *buffers[count:]]
    dims: dict[DimVar, Dim] = {p: fresh(p.name, max(p.lo or 0, 0), p.hi) for p in func.params if isinstance(p, DimVar)}

    def type_of(b: Buffer) -> TensorType:
        return TensorType(tuple(substitute(d, dims) for d in b.shape), b.dtype)

    params = [Var(b.name, ty=type_of(b)) for b in buffers[:count]]
    told = {d for p in params if isinstance(p.ty, TensorType) for d in p.ty.shape}
    params += [Var(f"of_{v.name}", ty=TensorType((d,), buffers[0].dtype)) for v, d in dims.items() if d not in told]
    called = GlobalVar(f"{gv.name}_alone")
    begins = [*places, *(-1 for _ in buffers[count:])]
    call = call_tir(called, params[:count], [type_of(b) for b in outputs], list(dims.values()), inplace=begins)
    body: Expr = call if len(outputs) == 1 else tuple_of([TupleGetItem(call, n) for n in range(len(outputs))])
    made = Module({called: replace(func, name=called.name), GlobalVar("main"): Function(tuple(params), body)})
    return InferTypes()(made), [b.name for b in outputs]


def _sizes(module: Module, drawn: Drawn) -> Iterator[dict[str, int]]:
    """Sizes of the dims: those that are asked for, then others beside them."""
    main = module["main"]
    assert isinstance(main, Function)
    own = [d for d in main.type_params if isinstance(d, DimVar)]
    asked = {d.name: drawn.dims[d.name] for d in own if d.name in drawn.dims}
    yield asked
    rng = np.random.default_rng(drawn.seed)
    free = [d for d in own if d.name not in asked]
    for _ in range(DRAWS - 1 if free else 0):
        least = [(d, d.lo or 0) for d in free]
        yield {**asked, **{d.name: int(rng.integers(lo, max(lo, min(d.hi or _LARGEST, lo + _LARGEST)) + 1))
                                for d, lo in least}}  # fmt: skip


def _compared(
    exe: Executable, module: Module, outputs: Sequence[str], given: Mapping[str, Any], name: str
) -> list[OutputReport]:
    """The outputs of one call; where only one side refuses the inputs, that is an output that is wrong."""
    arrays = in_order(exe, given)
    ours = _outcome(lambda: list(flat(exe(*arrays))))
    theirs = _outcome(lambda: interpret(module, arrays, float64=False))
    shapes = ", ".join(f"{key}: {list(np.shape(value))}" for key, value in given.items())
    if isinstance(ours, str) or isinstance(theirs, str):
        if isinstance(ours, str) and isinstance(theirs, str):
            return []
        at = f"only compiled, {ours}" if isinstance(ours, str) else f"only interpreted, {theirs}"
        wrong = OutputReport(name, "", np.inf, 0.0, 0.0, np.inf, 0.0, False, at=f"{at} ({shapes})")
        return [replace(wrong, name=f"{name}: {o}") for o in outputs]
    near = near_of(exe.precision)
    found = [judge(f"{name}: {o}", a, b, b, near=near) for o, a, b in zip(outputs, ours, theirs, strict=True)]
    return [replace(f, at=f"{f.at} ({shapes})") if f.at else f for f in found]


def _outcome(run: Callable[[], list[np.ndarray[Any, Any]]]) -> list[np.ndarray[Any, Any]] | str:
    """What a call gives, or that it was refused."""
    try:
        with np.errstate(all="ignore"):
            return run()
    except RunError as error:
        return f"refused: {str(error).splitlines()[0]}"
