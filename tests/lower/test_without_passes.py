"""Pipelines without passes that code can do without: programs are kernels as before, and mean the same."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import legato
from legato.base.errors import CompileError, RunError
from legato.base.target import host
from legato.compare.exact import interpret
from legato.driver import CompileOptions, compile_module
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.module import Module
from legato.pipelines import DEFAULT, OPTIONAL, completed, without
from legato.transform.fuse import Fuse
from legato.transform.infer_types import InferTypes
from legato.transform.pass_ import Pass, run
from legato.transform.to_a_normal import ToANormal
from tests.graphs import Program, called, compare, programs
from tests.lower.test_whole_programs import REFUSED, agrees, passable
from tests.programs import strategy as language
from tests.programs.settings import examples

LEFT_OUT = [(), *((p,) for p in OPTIONAL), OPTIONAL]


def ident(left_out: tuple[type[Pass], ...]) -> str:
    return "all" if left_out == OPTIONAL else "".join(p.name for p in left_out) or "none"


def options(left_out: tuple[type[Pass], ...], *, assign_layouts: bool = True) -> CompileOptions:
    return CompileOptions(host(), passes=without(DEFAULT, left_out), assign_layouts=assign_layouts)


def net() -> Module:
    """Convolutions, norms, scales, what is computed twice, and a concatenation of many."""
    b, rng = Builder(), np.random.default_rng(0)

    def weight(*shape: int) -> object:
        return b.constant((0.3 * rng.standard_normal(shape)).astype(np.float32))

    x = b.var("x", (2, 3, 12, 12))
    at = x
    for channels, before in ((8, 3), (16, 8)):
        conv = b.op("nn.conv2d")(at, weight(channels, before, 3, 3), padding=(1, 1, 1, 1))
        norm = b.op("nn.batch_norm")(conv, *(b.op("exp")(weight(channels)) for _ in range(4)))
        scaled = b.op("multiply")(b.op("nn.bias_add")(b.get(norm, 0), weight(channels)), weight(channels, 1, 1))
        at = b.get(b.op("nn.dropout")(b.op("nn.relu")(scaled)), 0)
        at = b.op("nn.max_pool2d")(at, pool_size=(2, 2), strides=(2, 2))
    parts = [b.op("multiply")(b.op("tanh")(at), b.constant(np.float32(0.1 * (n // 2)))) for n in range(40)]
    flat = b.op("nn.batch_flatten")(b.op("concatenate")(b.tuple_(parts), axis=1))
    return Module.from_expr(b.function([x], b.op("nn.softmax")(b.op("nn.dense")(flat, weight(10, 40 * 16 * 9)))))


@cache
def known_net() -> tuple[Module, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The network, an image, and what it makes of that."""
    module, x = net(), np.random.default_rng(1).standard_normal((2, 3, 12, 12), np.float32)
    return module, x, interpret(module, [x], float64=True)[0]


@pytest.mark.parametrize("left_out", LEFT_OUT, ids=ident)
@examples(2, heavy=4)
@given(programs(steps=16, limit=512), st.booleans())
def test_random_programs(left_out: tuple[type[Pass], ...], program: Program, assign_layouts: bool) -> None:
    program = called(program)
    exe = compile_module(program.module, options(left_out, assign_layouts=assign_layouts)).executable
    assert exe.stats["host_operators"] == 0
    args = program.arguments()
    try:
        result = exe(*args)
    except RunError as error:
        assume("an extent of the result" not in str(error))  # a window larger than what it slides over
        raise
    compare(result, program, args)


@pytest.mark.parametrize("left_out", LEFT_OUT, ids=ident)
@examples(2, heavy=4)
@given(language.programs(size=40, smooth=True))
def test_programs_over_the_whole_language(left_out: tuple[type[Pass], ...], program: language.Program) -> None:
    module = passable(program)
    try:
        exe = compile_module(module, options(left_out)).executable
    except CompileError as error:
        assume(not any(reason in str(error) for reason in REFUSED))
        raise
    assert agrees(exe(*program.args), evaluate(module, program.args))


@pytest.mark.parametrize("left_out", LEFT_OUT, ids=ident)
def test_a_network(left_out: tuple[type[Pass], ...]) -> None:
    module, x, wanted = known_net()
    exe = compile_module(module, options(left_out)).executable
    np.testing.assert_allclose(exe(x), wanted, rtol=1e-4, atol=1e-6)
    assert exe.stats["host_operators"] == 0


def test_without_fuse_every_operator_is_a_kernel() -> None:
    text = (
        "def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) { exp(tanh(nn.relu(nn.dense(%x, %w)))) }"
    )
    mod = legato.parse(text)
    fused, alone = (legato.compile(mod, passes=p, keep="fuse") for p in (DEFAULT, without(DEFAULT, [Fuse])))
    groups = [len(re.findall("Primitive=1", exe.module_after("fuse"))) for exe in (fused, alone)]
    assert groups == [1, 4]
    assert alone.stats["kernels"] - fused.stats["kernels"] == 3
    assert alone.stats["host_operators"] == 0
    x, w = (np.random.default_rng(0).standard_normal(s, np.float32) for s in ((5, 4), (3, 4)))
    np.testing.assert_array_equal(fused(x, w), alone(x, w))


def test_what_forms_groups_is_left_alone() -> None:
    """An operator that is in no group is one of its own; groups that there are stay."""
    assert completed(DEFAULT) == DEFAULT
    text = "def @main(%x: Tensor[(4), float32]) { let %y = exp(tanh(%x)); nn.softmax(nn.softmax(%y)) }"
    mod = run(legato.parse(text), (InferTypes(), ToANormal(), Fuse()))
    (alone,) = completed(())
    assert alone(mod) is mod
    one_by_one = alone(run(legato.parse(text), (InferTypes(), ToANormal())))
    assert str(one_by_one).count("Primitive=1") == 4 > str(mod).count("Primitive=1")


def test_what_code_needs_cannot_be_left_out() -> None:
    with pytest.raises(CompileError, match="pass to-a-normal cannot be left out"):
        without(DEFAULT, [ToANormal])
