"""Mixed precision: types that stay, errors that are those of 16 bits, and lists of operators that exist."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import legato
from legato.base.errors import CompileError, UnsupportedError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Call, Function
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.scope import post_order
from legato.ir.types import TensorType
from legato.ir.verify import Stage, verify
from legato.ops import table as operators
from legato.transform._mixed_lists import ALWAYS, FOLLOW, FREE, NEVER
from legato.transform.mixed_precision import MixedPrecision
from tests.graphs import Program, leaves, programs
from tests.programs import strategy as language
from tests.programs.settings import examples

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
HEAD = '#[version = "0.0.5"]\n'


def test_lists_have_operators() -> None:
    assert set() == (ALWAYS | FOLLOW | NEVER | FREE) - set(operators())
    assert not ALWAYS & FOLLOW
    assert not FOLLOW & NEVER
    assert not ALWAYS & NEVER


@pytest.mark.parametrize("dtype", EPS)
@examples(25)
@given(programs(steps=16, limit=512))
def test_random_programs_keep_their_types(dtype: str, program: Program) -> None:
    p = MixedPrecision(dtype)
    new = p(program.module)
    verify(new, Stage.TYPED)
    assert p(new) is new
    args = program.arguments()
    for g, w in zip(leaves(evaluate(new, args)), leaves(evaluate(program.module, args)), strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)


@examples(25)
@given(language.programs(size=40, smooth=True))
def test_programs_of_the_whole_language_keep_their_types(program: language.Program) -> None:
    p = MixedPrecision("bfloat16")
    new = p(program.module)
    verify(infer(new), Stage.TYPED)
    assert new["main"].ty == program.module["main"].ty
    assert p(new) is new


def network(seed: int) -> tuple[Module, list[Any]]:
    """Convolutions, norms and a head, of normal numbers."""
    rng, b = np.random.default_rng(seed), Builder()

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return (rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)

    x = b.var("x", (2, 4, 8, 8))
    y = b.nn.relu(b.nn.bias_add(b.nn.conv2d(x, normal(8, 4, 3, 3)), normal(8)))
    both = b.split(y, indices_or_sections=2, axis=1)
    y = b.concatenate([b.tanh(b.get(both, 1)), b.get(both, 0)], axis=1)
    y = b.let("y", b.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2)))
    flat = b.nn.batch_flatten(b.add(y, b.sigmoid(y)))
    out = b.tuple_([b.nn.softmax(b.nn.dense(flat, normal(5, 72))), b.nn.conv2d(y, normal(8, 1, 2, 2), groups=8)])
    return Module.from_expr(b.function([x], b.body(out))), [normal(2, 4, 8, 8)]


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("narrow_output", [False, True])
def test_errors_are_those_of_16_bits(dtype: str, narrow_output: bool) -> None:
    mod, args = network(3)
    new = MixedPrecision(dtype, narrow_output=narrow_output)(mod)
    narrow = [n for n in post_order(new["main"]) if isinstance(n.ty, TensorType) and n.ty.dtype.name == dtype]
    assert sum(isinstance(n, Call) for n in narrow) > 10
    wanted, got, compiled = evaluate(mod, args), evaluate(new, args), legato.compile(new)(*args)
    types = [np.float32, narrow[0].ty.dtype.numpy if narrow_output else np.float32]
    for g, c, w, t in zip(got, compiled, wanted, types, strict=True):
        assert g.dtype == c.dtype == t
        size = float(np.abs(w).max())
        np.testing.assert_allclose(g.astype(np.float32), w, atol=8 * EPS[dtype] * size)
        np.testing.assert_allclose(c.astype(np.float32), g.astype(np.float32), atol=4 * EPS[dtype] * size)


def test_results_of_functions_that_are_called_stay() -> None:
    text = HEAD + (
        "def @f(%x: Tensor[(2, 2), float32]) -> Tensor[(2, 2), float32] { nn.dense(%x, %x) }\n"
        "def @main(%x: Tensor[(2, 2), float32]) { @f(%x) }"
    )
    mod = infer(parse(text, ops=operators()))
    new = MixedPrecision(narrow_output=True)(mod)
    for name in ("f", "main"):
        assert str(new[name].body.ty) == "Tensor[(2, 2), float32]"
    assert "float16" in str(new["f"])


def test_dims_of_data_are_not_made_twice() -> None:
    """Nonzero elements of a narrow tensor: as many as the type of the call says."""
    text = HEAD + "def @main(%x: Tensor[(2, 2), float32]) { argwhere(nn.relu(nn.dense(%x, %x))) }"
    mod = infer(parse(text, ops=operators()))
    new = MixedPrecision()(mod)
    verify(new, Stage.TYPED)
    np.testing.assert_array_equal(*(evaluate(m, [np.eye(2, dtype=np.float32)]) for m in (mod, new)))


def test_operators_of_no_list() -> None:
    b = Builder()
    x = b.var("x", (2, 2))
    mod = Module.from_expr(b.function([x], b.sin(b.nn.dense(x, x))))
    assert isinstance(MixedPrecision()(mod)["main"], Function)
    with pytest.raises(CompileError, match="operator sin is in no list"):
        MixedPrecision(strict=True)(mod)
    with pytest.raises(UnsupportedError, match="mixed precision of float64"):
        MixedPrecision("float64")
