"""What Relax's analyses say of programs."""

from __future__ import annotations

from typing import Any

import pytest

from legato import relax
from legato.base.errors import CompileError
from legato.ir.expr import Function
from legato.relax import analysis as A
from legato.script import parse

MOD = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def flat(X: T.Buffer(("n", 4), "float32"), Y: T.Buffer(("n * 4",), "float32")):
        n = T.int64()
        for i in range(n * 4):
            Y[i] = X[i // 4, i % 4]

    @R.function
    def loop(i: R.Prim("int64")) -> R.Prim("int64"):
        cls = Module
        if i < 10:
            again = cls.loop(i + R.const(1, "int64"))
        else:
            again = i
        return again

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("2 * k",), "float32"), c: R.Tensor((), "bool")):
        cls = Module
        n = T.int64()
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, a)
            dead = R.tanh(b)
            f = R.call_tir(cls.flat, (b,), out_sinfo=R.Tensor((n * 4,), "float32"))
            R.output(b, f)
        if c:
            z = R.negative(b)
            w = R.exp(z)
        else:
            w = b
        cast = R.match_cast(w, R.Tensor(("m", 4), "float32"))
        return (cast, f)
""")
MAIN: Any = MOD["main"]
LOOP: Any = MOD["loop"]


def _names(found: Any) -> list[str]:
    return [v.name for v in found]


def test_variables() -> None:
    assert _names(A.free_vars(MAIN.body)) == ["x", "c"]
    assert A.free_vars(MAIN) == []
    assert {"x", "y", "c", "a", "b", "cast"} <= set(_names(A.bound_vars(MAIN)))
    assert set(A.all_vars(MAIN.body)) == {*A.free_vars(MAIN.body), *A.bound_vars(MAIN.body)}
    assert "dead" not in _names(A.used_vars(MAIN.body))
    assert _names(A.all_global_vars(MAIN)) == ["flat"]
    assert _names(A.called_global_vars(LOOP)) == ["loop"]


def test_bindings() -> None:
    values = {v.name: e for v, e in A.get_var2val(MAIN).items()}
    assert values["a"].op.name == "exp"  # type: ignore[attr-defined]
    assert values["z"].op.name == "negative"  # type: ignore[attr-defined]  # in a branch
    assert [type(b).__name__ for b in A.name_to_binding(MAIN)["cast"]] == ["MatchCast"]
    block = relax.seq_of(MAIN.body).blocks[0]
    assert {v.name: _names(uses) for v, uses in A.udchain(block).items()} == {
        "x": ["a"], "a": ["b"], "b": ["dead", "f"], "dead": [], "f": [],
    }  # fmt: skip
    assert "dead" not in _names(A.bound_vars(A.remove_all_unused(MAIN)))


def test_functions() -> None:
    assert [_names(group) for group in A.detect_recursion(MOD)] == [["loop"]]
    assert not A.contains_impure_call(MAIN)
    assert A.contains_impure_call(LOOP)
    assert not A.contains_impure_call(LOOP, MOD.var("loop"))
    assert A.has_reshape_pattern(MOD["flat"])  # type: ignore[arg-type]
    seen: list[Any] = []
    A.post_order_visit(MAIN, seen.append)
    assert seen[-1] is MAIN


def test_dims() -> None:
    assert _names(A.defined_symbolic_vars(MAIN)) == ["n", "k", "m"]
    assert A.free_symbolic_vars(MAIN) == []
    ty = relax.TupleType([p.ty for p in MAIN.params])
    assert _names(A.tir_vars_in_type(ty)) == ["n", "k"]
    assert _names(A.definable_tir_vars_in_type(ty)) == ["n"]


def test_form() -> None:
    assert A.check_well_formed(MOD)
    x = relax.Var("x", relax.TensorType((2,)))
    odd = Function((x,), relax.op.add(x, relax.Var("y", relax.TensorType((2,)))))
    assert not A.check_well_formed(odd)
    with pytest.raises(CompileError):
        A.well_formed(odd)
