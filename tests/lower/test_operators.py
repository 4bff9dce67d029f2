"""Every operator with a loop definition, compiled through the whole pipeline, over every one of its samples."""

from __future__ import annotations

from typing import Any

import pytest

from legato.base.target import TARGETS, Target, host, missing_features
from legato.driver import CompileOptions, compile_module
from legato.infer.builder import Builder
from legato.interp import evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.expr import Expr, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.pipelines import DEFAULT
from legato.transform.fold_constant import FoldConstant
from tests.guarded import call_guarded
from tests.heavy import marked, picked, share
from tests.ops.test_ops import OPS, arguments, assert_close, call, leaves

COMPUTED = [op for op in OPS if op.compute is not None and op.samples]
SEVERAL = [op for op in COMPUTED if len(op.args) > 1]
OTHERS = {"v3": TARGETS["x86-64-v3"], "v2": TARGETS["x86-64-v2"]}
# Operators without arguments would be folded; everything else of the pipeline is as for users.
PASSES = tuple(p for p in DEFAULT if not isinstance(p, FoldConstant))


def all_samples(op: Op, *, constants: bool = False) -> tuple[Module, list[Any]]:
    """A program that calls `op` once per sample on parameters, and its arguments.

    With `constants`, every argument but the first is a constant of the program.
    """
    b = Builder()
    params: list[Var] = []
    calls: list[Expr] = []
    values: list[Any] = []
    for sample in op.samples:
        own = arguments(op, sample)
        variables, node = call(op, own, sample)
        if constants and len(own) > 1:
            fixed = [b.tuple_(list(v)) if isinstance(v, tuple) else b.constant(v) for v in own[1:]]
            node = b.call_op(op, [variables[0], *fixed], node.attrs)  # type: ignore[attr-defined]  # a Call
            variables, own = variables[:1], own[:1]
        params += variables
        calls.append(node)
        values += own
    return Module.from_expr(b.function(params, b.tuple_(calls))), values


def check(op: Op, module: Module, values: list[Any], target: Target) -> None:
    """Compiles `module`, which gives a result per sample of `op`, and compares them with the reference's."""
    if missing_features(target):
        pytest.skip(f"this CPU cannot run {target.name}")
    exe = compile_module(module, CompileOptions(target, passes=PASSES)).executable
    assert exe.stats["host_operators"] == 0
    results = call_guarded(exe, leaves(tuple(values)))
    assert isinstance(results, tuple)
    for sample, got in zip(op.samples, results, strict=True):
        expected = evaluate_op(op, arguments(op, sample), make_attrs(op, sample.attrs))
        for g, wanted in zip(leaves(got), leaves(expected), strict=True):
            assert_close(g, wanted, sample)


@pytest.mark.parametrize("op", COMPUTED, ids=lambda op: op.name)
def test_compiled_equals_reference(op: Op) -> None:
    check(op, *all_samples(op), host())


ELSEWHERE = [
    marked(op, level, heavy=not picked(f"{op.name} {level}", 12), name=f"{op.name}-{level}")
    for op in COMPUTED
    for level in OTHERS
]


@pytest.mark.parametrize(("op", "level"), ELSEWHERE)
def test_compiled_for_other_levels(op: Op, level: str) -> None:
    check(op, *all_samples(op), OTHERS[level])


@pytest.mark.parametrize("op", share(SEVERAL, 4, lambda op: op.name), ids=lambda op: op.name)
def test_constant_operands(op: Op) -> None:
    check(op, *all_samples(op, constants=True), host())
