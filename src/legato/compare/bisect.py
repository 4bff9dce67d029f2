"""Who is to blame for a wrong result: the importer, an engine of somebody else's, a pass, or the code below the passes,
and at which node.

Passes are checked by the interpreter: what a module computes after each must be what it computed before. The node is
the first binding of @main that goes wrong, see `prefixes`: of the program before the pass, prefixes of which are given
to the pass alone; or of the program behind all passes, prefixes of which are compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from legato.base.errors import CompileError, InternalError, RunError
from legato.compare.exact import interpret
from legato.compare.prefixes import FirstWrong, first_wrong
from legato.compare.report import Culprit, judge, nearness
from legato.driver import CompileOptions, compile_module
from legato.ir.expr import Function, GlobalVar
from legato.ir.module import Module
from legato.lower.signature import input_types
from legato.runtime.leaves import flat
from legato.transform._external import ONLY_THEIRS, compiler_of, is_external
from legato.transform._text import show_pass
from legato.transform.outline_external import OutlineExternal
from legato.transform.pass_ import Observer, Pass, run
from legato.transform.to_a_normal import ToANormal
from legato.transform.to_graph import ToGraph

__all__ = ["blame"]

Array = np.ndarray[Any, Any]


def blame(
    mod: Module, inputs: Sequence[Array], options: CompileOptions, theirs: Sequence[Array] | None = None
) -> Culprit:
    """The first stage, and in it the first binding of @main, that makes the typed `mod` wrong on `inputs`.

    theirs: another implementation's outputs; where the module itself is far from those,
    nothing later is looked at.
    """
    value = partial(interpret, packed=options.packed)
    exact = value(mod, inputs, float64=True)
    native = value(mod, inputs, float64=False)
    if theirs is not None and not all(nearness(n, t)[1] for n, t in zip(native, theirs, strict=True)):
        return _culprit("import", None, mod, inputs)
    engine = _of_engine(mod, inputs, options, exact, native)
    if engine is not None:
        return engine
    before, changes = mod, list[tuple[Pass, Module, Module]]()
    for p in options.pipeline:
        after = run(before, [p], Observer())
        if after is not before and not _agree(_narrow(value(after, inputs, float64=True), native), exact, native):
            return _of_pass(p, before, inputs, options, float64=True)
        if after is not before:
            changes.append((p, before, after))
        before = after
    code = replace(options, passes=())
    found = first_wrong(before, inputs, partial(_code_is_wrong, code), options.packed)
    if found is not None:
        return _culprit("code", found, before, inputs)
    return _rounds_otherwise(changes, inputs, native, options) or _culprit("code", None, before, inputs)


def _of_engine(
    mod: Module, inputs: Sequence[Array], options: CompileOptions, exact: Sequence[Array], native: Sequence[Array]
) -> Culprit | None:
    """The first function that an engine runs wrongly, where all others are compiled with the rest; None where there is
    none, and where the program is wrong without engines, too."""
    mod = OutlineExternal()(mod)
    engines = {gv: str(compiler_of(f)) for gv, f in mod.functions.items() if is_external(f)}
    is_wrong = partial(_code_is_wrong, options)
    if not engines or is_wrong(_with_engine(mod, None), inputs, exact, native):
        return None
    for gv, generator in engines.items():
        program = _with_engine(mod, gv)
        if is_wrong(program, inputs, exact, native):
            found = first_wrong(ToANormal()(program), inputs, is_wrong, options.packed)
            return replace(_culprit("engine", found, program, inputs), node=gv.name, what=generator)
    return None


def _with_engine(mod: Module, kept: GlobalVar | None) -> Module:
    """`mod` with one function for a generator at most: the others are the compiler's."""
    functions = dict(mod.functions)
    for gv, func in mod.functions.items():
        if is_external(func) and gv is not kept:
            functions[gv] = replace(func, attrs={k: v for k, v in func.attrs.items() if k not in ONLY_THEIRS})
    return mod.with_functions(functions)


def _rounds_otherwise(
    changes: Sequence[tuple[Pass, Module, Module]],
    inputs: Sequence[Array],
    native: Sequence[Array],
    options: CompileOptions,
) -> Culprit | None:
    """The first pass that changes no exact value, but what rounding makes of it: it is seen in the own precision."""
    for p, before, after in changes:
        got = interpret(after, inputs, float64=False, packed=options.packed)
        if not _are_near(got, native):
            return _of_pass(p, before, inputs, options, float64=False)
    return None


def _of_pass(p: Pass, mod: Module, inputs: Sequence[Array], options: CompileOptions, *, float64: bool) -> Culprit:
    """The pass, and the first binding of the program before it that it gets wrong."""
    normal = ToANormal()(mod)
    as_before = _same if normal is mod else ToGraph()

    def is_wrong(program: Module, inputs: Sequence[Array], exact: Sequence[Array], native: Sequence[Array]) -> bool:
        try:
            after = run(as_before(program), [p], Observer())
            got = interpret(after, inputs, float64=float64, packed=options.packed)
        except (CompileError, InternalError, RunError):  # of a pass that takes whole programs only
            return False
        return not (_agree(_narrow(got, native), exact, native) if float64 else _are_near(got, native))

    found = first_wrong(normal, inputs, is_wrong, options.packed)
    stage = show_pass(p) if p in options.passes else p.name  # as it was given, unless the precision changed it
    return _culprit(stage, found and replace(found, program=as_before(found.program)), mod, inputs)


def _same(mod: Module) -> Module:
    return mod


def _code_is_wrong(
    options: CompileOptions, program: Module, inputs: Sequence[Array], exact: Sequence[Array], native: Sequence[Array]
) -> bool:
    got = list(flat(compile_module(program, options).executable(*inputs)))
    return not _agree(got, exact, native)


def _are_near(got: Sequence[Array], native: Sequence[Array]) -> bool:
    return all(nearness(a, b)[1] for a, b in zip(got, native, strict=True))


def _agree(got: Sequence[Array], exact: Sequence[Array], native: Sequence[Array]) -> bool:
    return all(judge("", g, e, n).holds for g, e, n in zip(got, exact, native, strict=True))


def _narrow(values: Sequence[Array], like: Sequence[Array]) -> list[Array]:
    """The values in the dtypes of `like`."""
    with np.errstate(all="ignore"):
        return [v.astype(x.dtype) for v, x in zip(values, like, strict=True)]


def _culprit(stage: str, found: FirstWrong | None, mod: Module, inputs: Sequence[Array]) -> Culprit:
    """The stage, with the node that was found in it; without one, with the whole program."""
    program, inputs = (mod, inputs) if found is None else (found.program, found.inputs)
    main = program["main"]
    assert isinstance(main, Function)
    names = [name for name, _ in input_types(main)]
    node, what = ("", "") if found is None else (found.node, found.what)
    return Culprit(stage, node, str(program), program, dict(zip(names, inputs, strict=True)), what)
