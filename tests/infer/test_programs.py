"""Random well-typed programs: the builder, inference, the text format and the interpreter agree with each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.evaluate import evaluate as evaluate_dim
from legato.arith.expr import Const, fresh
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Expr, Function, If, Let, Tuple, Var
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.types import FuncType, TensorType
from legato.ops import table
from tests.programs.settings import examples

Draw = Any


def rank(e: Expr) -> int:
    """The rank of a tensor expression."""
    assert isinstance(e.ty, TensorType)
    return e.ty.rank


def step(draw: Draw, b: Builder, pool: list[Expr]) -> Expr:
    """One more expression over those in `pool`."""
    x = draw(st.sampled_from(pool))
    axis = draw(st.integers(0, rank(x) - 1)) if rank(x) else 0
    makers = [
        lambda: b.tanh(x),
        lambda: b.add(x, b.negative(x)),
        lambda: b.multiply(x, 0.5),
        lambda: b.expand_dims(x, axis=axis),
        lambda: b.let("v", b.sin(x)),
        lambda: b.if_(b.less(b.sum(x), 0.0), x, lambda: b.negative(b.let("w", b.cos(x)))),
    ]
    if rank(x):
        makers += [
            lambda: b.sum(x, axis=(axis,), keepdims=True),
            lambda: b.max(x, axis=(axis,)),
            lambda: b.concatenate((x, b.cos(x)), axis=axis),
            lambda: b.transpose(x),
            lambda: b.reshape(x, newshape=(-1,)),
            lambda: b.strided_slice(x, begin=(1,), end=(2**31 - 1,), axes=(axis,)),
            lambda: b.get(b.split(x, indices_or_sections=(1,), axis=axis), 0) if positive(x, axis) else b.exp(x),
            lambda: b.add(x, b.max(x, axis=(axis,), keepdims=True)),
        ]
    return draw(st.sampled_from(makers))()


def positive(x: Expr, axis: int) -> bool:
    """True if the extent is a literal above 0."""
    assert isinstance(x.ty, TensorType)
    d = x.ty.shape[axis]
    return isinstance(d, Const) and d.value > 0


@st.composite
def programs(draw: Draw) -> Function:
    """A function of two tensors, one with a symbolic dim."""
    b, n = Builder(), fresh("n")
    params = [b.var("x", (n, 3)), b.var("y", (2, n))]

    def body(*args: Expr) -> Expr:
        pool = list(args)
        for _ in range(draw(st.integers(1, 8))):
            pool.append(step(draw, b, pool))
        return b.tuple_(pool[-2:])

    return b.function(params, body)


def untyped(func: Function) -> Function:
    """The same program with no type but those of the parameters."""
    new: dict[int, Expr] = {}
    names: dict[Var, Var] = {}

    def strip(e: Expr) -> Expr:
        if id(e) in new:
            return new[id(e)]
        if isinstance(e, Var) and e not in func.params:
            found: Expr = names.setdefault(e, Var(e.name))
        elif isinstance(e, Call | Let | If | Tuple) or e.children():
            found = e.with_children(tuple(strip(c) for c in e.children())).with_type(None)
        else:
            found = e
        new[id(e)] = found
        return found

    return Function(func.params, strip(func.body))


@examples(60, fuzz=False)
@given(programs())
def test_inference_agrees_with_the_builder(func: Function) -> None:
    module = Module.from_expr(func)
    assert infer(module) is module
    again = infer(Module.from_expr(untyped(func)))["main"]
    assert isinstance(again, Function)
    assert isinstance(func.ty, FuncType)
    assert isinstance(again.ty, FuncType)
    assert again.ty == func.ty


@examples(60, fuzz=False)
@given(programs())
def test_text_round_trip(func: Function) -> None:
    module = Module.from_expr(func)
    assert alpha_equal(infer(parse(str(module), ops=table())), module)


@examples(60, fuzz=False)
@given(programs(), st.sampled_from([1, 2, 5]))
def test_values_have_the_inferred_types(func: Function, size: int) -> None:
    (n,) = func.type_params
    rng = np.random.default_rng(1)
    args = [rng.standard_normal(s).astype(np.float32) for s in ((size, 3), (2, size))]
    results = evaluate(Module.from_expr(func), args)
    assert isinstance(func.ty, FuncType)
    for ty, array in zip(func.ty.ret.children(), results, strict=True):
        assert isinstance(ty, TensorType)
        assert tuple(evaluate_dim(d, {n: size}) for d in ty.shape) == array.shape  # type: ignore[dict-item]
        assert array.dtype == np.float32
    wide = evaluate(Module.from_expr(func), args, float64=True)
    for narrow, exact in zip(results, wide, strict=True):
        assert exact.dtype == np.float64
        np.testing.assert_allclose(narrow, exact, rtol=1e-3, atol=1e-3)
