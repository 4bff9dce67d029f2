"""Random programs over the whole language, differentiated: their gradient programs are well typed, forward mode says
what reverse mode says, and compiled they compute what the interpreter computes.

The default run tries a few dozen; `make fuzz-gradients` tries 10,000.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import assume, given

from legato.base.errors import CompileError, UnsupportedError
from legato.base.target import host
from legato.driver import CompileOptions, compile_module
from legato.infer.infer import infer
from legato.interp import Data, evaluate
from legato.ir.expr import Expr, Function, Let, Tuple
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType
from legato.ir.verify import Stage, verify
from legato.transform._gradient.dual_types import is_float
from legato.transform.gradient import Gradient
from legato.transform.tangent import Tangent
from tests.lower.test_whole_programs import agrees, flat
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs

UNKNOWN = ("has no gradient", "compiled code cannot pass to or from Python", "are not plain extents of an input")


def of_floats(program: Program) -> Module:
    """The module, with those results only that are tensors of floats."""
    source = program.source
    main, ty = source["main"], program.result
    assert isinstance(main, Function)
    assert isinstance(ty, TupleType)
    around, body = (main.body, main.body.body) if isinstance(main.body, Let) else (None, main.body)
    assert isinstance(body, Tuple)
    pairs = zip(body.fields, ty.fields, strict=True)
    kept: Expr = replace(body, fields=tuple(f for f, t in pairs if is_float(t)))
    assume(any(map(is_float, ty.fields)))
    new = kept if around is None else replace(around, body=kept)
    return infer(source.with_function(source.var("main"), replace(main, body=new)))


def floats(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays of floats in a value."""
    if isinstance(value, tuple):
        for part in value:
            yield from floats(part)
    elif isinstance(value, Data):
        yield from floats(value.fields)
    elif isinstance(value, np.ndarray | np.generic) and np.asarray(value).dtype.kind in "fV":
        yield np.asarray(value)


def directions(value: Any, rng: np.random.Generator) -> Any:
    """A random value of the same type, with zeros for what is no float."""
    if isinstance(value, tuple):
        return tuple(directions(part, rng) for part in value)
    value = np.asarray(value)
    return (rng.uniform(-1, 1, value.shape) * (value.dtype.kind in "fV")).astype(value.dtype)


def inner(left: Any, right: Any) -> tuple[float, float]:
    """The inner product of two values, and that of their magnitudes."""
    products = [a.astype(np.float64) * b.astype(np.float64) for a, b in zip(floats(left), floats(right), strict=True)]
    return sum(float(p.sum()) for p in products), sum(float(np.abs(p).sum()) for p in products)


def differentiated(mod: Module) -> Module:
    """The gradient program, well formed and typed; programs with operators that have no gradient are others' work."""
    try:
        new = Gradient()(mod)
    except (UnsupportedError, CompileError) as error:
        assume(not any(text in str(error) for text in (*UNKNOWN, "wanted floats")))
        raise
    verify(new, Stage.TYPED)
    return new


@examples(40)
@given(programs(20, smooth=True))
def test_compiled_gradients_are_interpreted_ones(program: Program) -> None:
    new = differentiated(of_floats(program))
    value, gradients = evaluate(new, program.args)
    assert agrees(value, evaluate(of_floats(program), program.args))
    try:
        compiled = compile_module(new, CompileOptions(target=host())).executable
    except UnsupportedError as error:
        assume(not any(text in str(error) for text in UNKNOWN))
        raise
    got = compiled(*flat(program.args))
    if all(np.isfinite(x.astype(np.float64)).all() for x in floats(gradients)):
        assert agrees(got[1], gradients)


@examples(40)
@given(programs(20, smooth=True))
def test_forward_mode_of_random_programs_is_reverse_mode(program: Program) -> None:
    mod = of_floats(program)
    main = mod["main"]
    assert isinstance(main, Function)
    wrt = tuple(p.name for p in main.params if isinstance(p.ty, TensorType) and p.ty.dtype.is_float)
    wide = {"float32", "float64"}
    assume(wrt and all(x.dtype.name in wide for x in floats((evaluate(mod, program.args), tuple(program.args)))))
    names = [p.name for p in main.params]
    moves = [directions(program.args[names.index(name)], np.random.default_rng(3)) for name in wrt]
    gradients = evaluate(differentiated_by(mod, wrt), program.args)[1]
    tangent = evaluate(Tangent(wrt)(mod), [*program.args, *moves])[1]
    wanted, size = inner(gradients, tuple(moves))
    got = sum(float(x.astype(np.float64).sum()) for x in floats(tangent))
    if np.isfinite(wanted) and np.isfinite(got):
        assert abs(got - wanted) <= 1e-3 * (size + abs(wanted)) + 1e-4


def differentiated_by(mod: Module, wrt: tuple[str, ...]) -> Module:
    """The gradients of some parameters."""
    try:
        return Gradient(wrt)(mod)
    except UnsupportedError as error:
        assume("has no gradient" not in str(error))
        raise
