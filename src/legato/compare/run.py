"""Compiles, runs, interprets, asks the peer, and judges."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from legato.base.errors import CompileError, RunError
from legato.base.precision import Precision, near_of
from legato.base.precision import precision as as_precision
from legato.base.target import target as as_target
from legato.compare import peer as other
from legato.compare.bisect import blame
from legato.compare.exact import interpret
from legato.compare.kernels import Drawn, kernels, verify_kernel
from legato.compare.report import OutputReport, Report, judge, nearness
from legato.driver import CompileOptions, compile_module, load_model
from legato.ir.module import Module
from legato.ir.op import Op
from legato.pipelines import as_passes
from legato.runtime.datatypes import ObjectInfo
from legato.runtime.engines import by_name
from legato.runtime.executable import Executable
from legato.runtime.fill import Fill, feeds
from legato.runtime.leaves import flat, in_order
from legato.tir.buffer import Buffer
from legato.tir.stmt import Func
from legato.transform.infer_types import InferTypes
from legato.transform.low_precision import LowPrecision
from legato.transform.pass_ import Pass
from legato.transform.to_graph import ToGraph

__all__ = ["compare", "verify"]

Array = np.ndarray[Any, Any]


def verify(
    model: object,
    inputs: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    constants: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    how: Fill = "random",
    seed: int = 0,
    target: str = "host",
    threads: int | None = None,
    against: str | None = None,
    bisect: bool = False,
    ops: Iterable[Op] = (),
    custom: Mapping[str, Callable[..., Any]] | None = None,
    progress: Callable[[str], None] | None = None,
    precision: str | None = None,
    packed: Mapping[str, object] | None = None,
    generators: Iterable[Any] = (),
    bounds: bool | None = None,
    passes: Iterable[Pass | str] | str | None = None,
) -> Report:
    """Compiles `model` and compares it with the interpreter in float64; see `Report`. Its tensor programs are compared
    one by one as well, with sizes and inputs that are made up.

    inputs:  arrays by name or in order; else made up by `how` with `seed`, symbolic dims as `dims` says (else 4).
    against: the peer, "onnxruntime" or "interpreter"; None: ONNX Runtime where it can be had, with a note where not.
    bisect:  where an output is wrong, find the first node or the pass that is to blame (`report.culprit`).
    packed:  the packed functions that the program calls; they are called several times, in float64 mode in its dtypes.
    generators: of the functions that engines run; the interpreter evaluates these functions.
    passes:  as for `legato.compile`; the culprit may be one of them.
    The other arguments are those of `legato.compile`; with `bounds` an access out of bounds is an InternalError.
    """
    exactness = as_precision(precision)
    options = CompileOptions(as_target(target), threads, ops=tuple(ops), progress=progress, precision=exactness)
    options = replace(options, packed=packed, generators=tuple(by_name(generators).values()))
    options = replace(options, passes=as_passes(passes), bounds=options.bounds if bounds is None else bounds)
    mod = InferTypes()(load_model(model, shapes=shapes, ops=options.ops, custom=custom, constants=constants))
    tell = progress or _quiet
    own = _kernels(mod, options, Drawn(dims or {}, how, seed), tell)
    if "main" not in mod or isinstance(mod["main"], Func):
        if not kernels(mod):
            raise CompileError("the module has neither a function @main nor tensor programs")
        known = {p.name for _, f in kernels(mod) for p in f.params if not isinstance(p, Buffer)}
        if not known.issuperset(dims or {}):
            unknown = ", ".join(repr(d) for d in dims or {} if d not in known)
            raise RunError(f"no tensor program has a dim {unknown}\n  hint: their dims are {', '.join(sorted(known))}")
        if inputs is not None or against == "onnxruntime":
            raise RunError("tensor programs are compared with the interpreter, on inputs that are made up")
        return own
    exe = compile_module(mod, options).executable
    given = feeds(exe.program.functions[exe.function], inputs, how, dims=dims, seed=seed)
    theirs, note = _theirs(model, {**given, **_arrays(constants)}, against, tell)
    found = compare(exe, mod, given, theirs=theirs, progress=progress, packed=packed)
    report = replace(found, outputs=(*found.outputs, *own.outputs), note="; ".join(filter(None, (note, own.note))))
    if found.holds or not bisect:
        return report
    tell("looking for the culprit")
    return replace(report, culprit=blame(mod, in_order(exe, given), options, None if report.peer_off else theirs))


def _kernels(mod: Module, options: CompileOptions, drawn: Drawn, tell: Callable[[str], None]) -> Report:
    """The tensor programs of the module, each alone. Where there is a @main, which is compared beside them, the note
    says which cannot be called so."""
    outputs: list[OutputReport] = []
    notes = []
    for gv, func in kernels(mod):
        tell(f"comparing @{gv.name}")
        try:
            outputs += verify_kernel(gv, func, options, drawn)
        except (CompileError, RunError) as error:
            if "main" not in mod or isinstance(mod["main"], Func):
                raise
            notes.append(f"@{gv.name} is not called alone: {str(error).splitlines()[0]}")
    return Report(tuple(outputs), "interpreter", 0, "; ".join(notes))


def compare(
    exe: Executable,
    mod: Module,
    given: Mapping[str, Any],
    *,
    theirs: Sequence[Array] | None = None,
    progress: Callable[[str], None] | None = None,
    packed: Mapping[str, object] | None = None,
) -> Report:
    """Compares `exe`, compiled from the typed module `mod`, on inputs by name.

    theirs: another implementation's outputs; None: the peer is the interpreter in the program's own precision, which
    is asked, too, where the other is far away: one of the two is off, and the interpreter says which. Where
    `exe` was compiled with bfloat16, 1/20 of the range is allowed, or twice the error that the interpreter makes with
    the same factors rounded. RunError for a program that gives values of data types.
    """
    values = [str(result) for result in exe.results if isinstance(result, ObjectInfo)]
    if values:
        raise RunError(f"values of data types are not compared: {', '.join(values)}")
    tell = progress or _quiet
    arrays = in_order(exe, given)
    tell("running the program")
    got = list(flat(exe.keeping()(*arrays)))
    tell("interpreting in float64")
    value = partial(interpret, packed=packed)
    exact = value(mod, arrays, float64=True)
    near = near_of(exe.precision)
    native: Sequence[Array | None] = [None] * len(got)
    if theirs is None or not all(nearness(a, b, near)[1] for a, b in zip(got, theirs, strict=True)):
        tell("interpreting")
        native = value(mod, arrays, float64=False)
    peers = native if theirs is None else theirs
    rounded: Sequence[Array | None] = [None] * len(got)
    if exe.precision is Precision.BFLOAT16:
        tell("interpreting with rounded factors")
        rounded = value(LowPrecision()(ToGraph()(mod)), arrays, float64=False)
    each = zip((leaf.name for leaf in exe.results), got, exact, peers, native, rounded, strict=True)
    outputs = tuple(
        judge(name, ours, right, peer, native=None if theirs is None else own, near=near, rounded=narrow)
        for name, ours, right, peer, own, narrow in each
        if peer is not None
    )
    hosted = exe.stats.get("host_operators", 0)
    assert isinstance(hosted, int)
    return Report(outputs, "interpreter" if theirs is None else "onnxruntime", hosted)


def _arrays(constants: Mapping[str, Any] | None) -> dict[str, Array]:
    return {name: np.asarray(value) for name, value in (constants or {}).items()}


def _quiet(what: str) -> None:
    pass


def _theirs(
    model: object, given: Mapping[str, Any], against: str | None, tell: Callable[[str], None]
) -> tuple[list[Array] | None, str]:
    """ONNX Runtime's outputs, or None and why there are none."""
    if against not in (None, "onnxruntime", "interpreter"):
        raise RunError(f"against: got {against!r}, wanted 'onnxruntime' or 'interpreter'")
    if against == "interpreter" or (against is None and not other.is_onnx(model)):
        return None, ""
    if not other.is_onnx(model):
        shown = os.fspath(model) if isinstance(model, str | os.PathLike) else f"a {type(model).__name__}"
        raise RunError(f"ONNX Runtime reads ONNX models only, not {shown}")
    if other.installed():
        tell("running ONNX Runtime")
    try:
        return other.outputs(other.session(model), {name: np.asarray(value) for name, value in given.items()}), ""
    except other.PeerError as error:
        if against is not None:
            raise
        return None, f"{str(error).splitlines()[0]}; the peer is the interpreter"
