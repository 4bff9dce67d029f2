"""Random programs over the whole language, compiled: they mean what the interpreter says, and forget no object.

The default run tries a few hundred; `make fuzz-programs` tries 20,000.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

from legato.base.errors import RunError, UnsupportedError
from legato.base.node import post_order
from legato.base.target import host
from legato.driver import CompileOptions, compile_module
from legato.infer.infer import infer
from legato.interp import Data, evaluate
from legato.ir.expr import Function, Let, Tuple
from legato.ir.module import Module
from legato.ir.types import FuncType, RefType, TupleType, Type, walk
from tests.lower.hosts.programs import leaked
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs

REFUSED = (
    "compiled code cannot pass to or from Python",  # functions and references, and types that hold them
    "are not plain extents of an input",
)


def passable(program: Program) -> Module:
    """The module, with those results only that are no functions."""
    source = program.source
    main, ty = source["main"], program.result
    assert isinstance(main, Function)
    assert isinstance(ty, TupleType)
    around, body = (main.body, main.body.body) if isinstance(main.body, Let) else (None, main.body)
    assert isinstance(body, Tuple)
    pairs = zip(body.fields, ty.fields, strict=True)
    kept = replace(body, fields=tuple(f for f, t in pairs if not any(isinstance(p, FuncType) for p in walk(t))))
    new = kept if around is None else replace(around, body=kept)
    return infer(source.with_function(source.var("main"), replace(main, body=new)))


def may_have_rings(module: Module) -> bool:
    """Whether a reference may hold a function, which may hold the reference: their counts never reach 0, and both end
    with the call."""
    types = (node.ty for node in post_order(list(module.functions.values())) if node.ty is not None)
    references = (part for ty in types for part in walk(ty) if isinstance(part, RefType))
    return any(isinstance(part, FuncType) for reference in references for part in walk(reference))


def agrees(got: Any, wanted: Any) -> bool:
    """Whether values are alike, but for rounding; dims of shapes are arrays where they were compiled."""
    if isinstance(wanted, tuple):
        return isinstance(got, tuple) and len(got) == len(wanted) and all(map(agrees, got, wanted))
    if isinstance(wanted, Data):
        return got.constructor.name == wanted.constructor.name and agrees(got.fields, wanted.fields)
    wanted = np.asarray(wanted, np.int64 if isinstance(wanted, int) else None)
    if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        return False
    if wanted.dtype.kind in "iubOTU":  # texts, too
        return bool(np.array_equal(got, wanted))
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True))


def flat(args: tuple[Any, ...]) -> list[Any]:
    """Arguments as executables take them: tuples taken apart."""
    return [x for a in args for x in (flat(a) if isinstance(a, tuple) else [a])]


@examples(120, heavy=300)
@given(programs(20, smooth=True, partial=True))
def test_compiled_is_interpreted(program: Program) -> None:
    module = passable(program)
    try:
        exe = compile_module(module, CompileOptions(host())).executable
    except UnsupportedError as error:
        assume(not any(what in str(error) for what in REFUSED))
        raise
    try:
        wanted = evaluate(module, program.args)
    except RunError:
        with pytest.raises(RunError):
            exe(*flat(program.args))
        return
    for _ in range(2):
        assert agrees(exe(*flat(program.args)), wanted)
    assert leaked(exe) == 0 or may_have_rings(module)


def test_types_are_looked_at() -> None:
    """`passable` leaves out what it says."""
    seen: set[type[Type]] = set()

    @examples(30, fuzz=False)
    @given(programs(10))
    def look(program: Program) -> None:
        main = passable(program)["main"]
        assert isinstance(main, Function)
        assert isinstance(main.body.ty, TupleType)
        seen.update(type(p) for t in main.body.ty.fields for p in walk(t))

    look()
    assert FuncType not in seen
    assert len(seen) > 1
