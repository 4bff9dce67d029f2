"""Verification of tensor programs: each is compiled alone, and compared with the interpreter at several sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import legato
from legato.arith.expr import eq
from legato.base import dtype as dt
from legato.base.errors import CompileError, RunError
from legato.base.node import transform
from legato.compare import kernels
from legato.ir.expr import GlobalVar
from legato.ir.module import Module
from legato.script import parse
from legato.tir.expr import cast
from legato.tir.stmt import Func, Stmt, Store

KERNELS = """
@T.prim_func
def sums(X: T.Buffer(("n", "m"), "float32"), S: T.Buffer(("n",), "float32"), Y: T.Buffer(("n", "m + 1"), "int32")):
    n, m = T.int64(), T.int64()
    for i in T.parallel(n):
        for j in range(m):
            S[i] = S[i] + X[i, j]
            Y[i, j + 1] = T.int32(j)

@T.prim_func
def made(Y: T.Buffer(("n", "m"), "float32")):
    n, m = T.int64(), T.int64()
    for i, j in T.grid(n, m):
        Y[i, j] = T.float32(i * 10 + j)

@T.prim_func
def main(X: T.Buffer(("n",), "int32"), Z: T.Buffer(("n",), "float32"), Y: T.Buffer(("n",), "float32"), k: T.int64):
    n = T.int64()
    for i in range(n):
        Y[i] = Z[X[i] + k]
"""
BOTH = (
    KERNELS.replace("def main", "def taken")
    + """
@R.function
def main(x: R.Tensor(("n", 4), "float32")):
    n = T.int64()
    return R.call_tir(made, (), out_sinfo=R.Tensor((n, 4), "float32"), tir_vars=(n, 4))
"""
)


def test_kernels_are_compared_one_by_one() -> None:
    """Those that work in place, that take sizes alone, and that may leave their buffers, too."""
    report = legato.verify(parse(KERNELS))
    assert [o.name for o in report.outputs] == ["@sums: S", "@sums: Y", "@made: Y", "@main: Y"]
    assert report.holds, report
    assert {o.error for o in report.outputs} == {0.0}
    assert [o.name for o in legato.verify(parse(BOTH)).outputs] == [
        "output",
        "@sums: S",
        "@sums: Y",
        "@made: Y",
        "@taken: Y",
    ]
    assert legato.verify(parse(KERNELS), dims={"n": 6, "m": 3}).outputs[2].type == "float32[6, 3]"


def test_a_wrong_kernel_is_named_with_the_element(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = kernels.compile_module

    def wrong(module: Module, options: Any) -> Any:
        """As compiled, but for what is stored at [1, …]."""

        def one_more(s: Stmt) -> Stmt | None:
            if not isinstance(s, Store) or s.buffer.dtype != dt.float32 or s.buffer.rank != 2:
                return None
            return Store(s.buffer, s.indices, s.value + cast(eq(s.indices[0], 1), dt.float32))

        made = {gv: f.with_body(transform(f.body, one_more)) if isinstance(f, Func) else f
                for gv, f in module.functions.items()}  # fmt: skip
        return compiled(Module(made), options)

    monkeypatch.setattr(kernels, "compile_module", wrong)
    report = legato.verify(parse(KERNELS), dims={"n": 3, "m": 2})
    (found,) = [o for o in report.outputs if not o.holds]
    assert (found.name, found.error) == ("@made: Y", 1.0)
    assert found.at == "[1, 0]: got 11.0, wanted 10.0 (of_n: [3], of_m: [2])"
    assert "WRONG  @made: Y: float32[3, 2]  error 1 of range 21, 0.00021 allowed  at [1, 0]: got" in str(report)


def test_what_only_one_side_refuses_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RunError("no")

    monkeypatch.setattr(kernels, "interpret", refuse)
    report = legato.verify(parse(KERNELS))
    assert not any(o.holds for o in report.outputs)
    assert report.outputs[2].at.startswith("only interpreted, refused: ")


def test_what_is_no_program_is_told() -> None:
    with pytest.raises(CompileError, match="neither a function @main nor tensor programs"):
        legato.verify(Module({}))
    with pytest.raises(CompileError, match="@k stores to none of its buffers: it has no output"):
        legato.verify(parse('@T.prim_func\ndef k(X: T.Buffer((4,), "float32")):\n    pass\n'))
    with pytest.raises(RunError, match="on inputs that are made up"):
        legato.verify(parse(KERNELS), [])
    (made,) = [f for f in parse(KERNELS).functions.values() if isinstance(f, Func) and f.name == "made"]
    assert legato.verify(Module({GlobalVar("made"): made}))


def test_the_command_line_compares_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from legato.cli import main

    (tmp_path / "k.relax").write_text(KERNELS)
    assert main(["verify", str(tmp_path / "k.relax")]) == 0
    assert "holds  @sums: Y: int32[" in capsys.readouterr().out
