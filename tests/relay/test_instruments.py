"""Instruments by TVM's names: what they print, time, write and count."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from legato import relay
from legato.base.errors import CompileError, InternalError, UnsupportedError
from legato.ir.module import Module
from legato.patterns import rewrite, rule
from legato.relay import instrument
from legato.relay.transform import FoldConstant, PassContext, Sequential, SimplifyExpr
from legato.transform.fold_constant import FoldConstant as Folding

SUM = rule("multiply(%x, 2f) => add(%x, %x)")


def program() -> relay.IRModule:
    x = relay.var("x", shape=(2,))
    return relay.IRModule.from_expr(relay.Function([x], x * (relay.const(1.0) + relay.const(1.0))))


@relay.transform.function_pass(opt_level=0, name="Sum")
def sum_(func: Any, mod: Any, context: Any) -> Any:
    return rewrite(SUM, func, mod.module)


def run(*instruments: Any) -> relay.IRModule:
    with PassContext(opt_level=3, instruments=instruments):
        return Sequential([FoldConstant(), sum_])(program())


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    run(instrument.PassPrintingInstrument(["Sum"], ["FoldConstant"]))
    out = capsys.readouterr().out
    assert out.index("// after FoldConstant") < out.index("// before Sum")
    assert "multiply(%x, 2f)" in out
    run(instrument.PrintBeforeAll(), instrument.PrintAfterAll())
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("//")]
    inner = ["// before FoldConstant", "// after FoldConstant", "// before Sum", "// after Sum"]
    assert lines == ["// before sequential", *inner, "// after sequential"]


def test_timing_has_a_line_for_each_pass() -> None:
    timing = instrument.PassTimingInstrument()
    run(timing)
    names = [line.split(":")[0] for line in timing.render().splitlines()]
    assert names == ["sequential", "  FoldConstant", "  Sum", "all"]


@relay.transform.module_pass(opt_level=0, name="Fail")
def fail(mod: Any, context: Any) -> Any:
    raise UnsupportedError("no")


def test_passes_that_fail_are_timed_and_counted() -> None:
    timing, rules = instrument.PassTimingInstrument(), instrument.RuleStatistics()
    with PassContext(opt_level=3, instruments=[timing, rules]):
        with pytest.raises(UnsupportedError):
            Sequential([FoldConstant(), fail])(program())
        sum_(Sequential([FoldConstant()])(program()))
    names = [line.split(":")[0] for line in timing.render().splitlines()]
    assert names == ["sequential", "  FoldConstant", "  Fail", "sequential", "  FoldConstant", "Sum", "all"]
    assert all(seconds > 0 for _, _, seconds in timing.profiles)
    assert [(name, times) for name, _, times in rules.rows] == [("Sum", 1)]


def test_build_tells_of_passes_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> Any:
        raise UnsupportedError("no")

    told: list[str] = []
    watch = SimpleNamespace(
        run_before_pass=lambda mod, info: told.append(info.name),
        run_failed_pass=lambda mod, info: told.append("failed"),
    )
    monkeypatch.setattr(Folding, "__call__", refuse)
    with PassContext(opt_level=3, instruments=[watch]), pytest.raises(UnsupportedError):
        relay.build(program())
    assert told[-2:] == ["FoldConstant", "failed"]


def test_dumps(tmp_path: Path) -> None:
    run(instrument.DumpIR(tmp_path / "stages"))
    names = ["01_FoldConstant.txt", "02_Sum.txt", "03_sequential.txt"]
    assert sorted(path.name for path in (tmp_path / "stages").iterdir()) == names
    (tmp_path / "stages" / "09_old.txt").touch()
    run(instrument.DumpIR(tmp_path / "stages", refresh=True))
    assert sorted(path.name for path in (tmp_path / "stages").iterdir()) == names
    (tmp_path / "stages" / "precious.npz").touch()
    with pytest.raises(CompileError, match="files that are no dumps"):
        instrument.DumpIR(tmp_path / "stages", refresh=True)


def test_what_is_malformed_is_said() -> None:
    @relay.transform.module_pass(opt_level=0, name="Lose")
    def lose(mod: Any, context: Any) -> Any:
        return relay.IRModule(Module({relay.GlobalVar("main"): relay.Function([], relay.Var("gone"))}))

    with PassContext(instruments=[instrument.VerifyInstrument()]), pytest.raises(InternalError, match="pass Lose made"):
        lose(program())
    assert instrument.WellFormedInstrument is instrument.VerifyInstrument


def test_rules_are_counted() -> None:
    rules = instrument.RuleStatistics()
    assert "add(%x, %x)" in str(run(rules).module)
    assert [(name, found, times) for name, found, times in rules.rows] == [("Sum", SUM, 1)]
    assert rules.render().startswith(f"1×  Sum  multiply(%x, 2f) => add(%x, %x)  {__file__}:")


def test_other_instruments_from_some_point_on() -> None:
    told: list[str] = []
    first, second = (
        SimpleNamespace(
            enter_pass_ctx=lambda n=n: told.append(f"enter {n}"), exit_pass_ctx=lambda n=n: told.append(f"exit {n}")
        )
        for n in (1, 2)
    )
    with PassContext(instruments=[first]) as context:
        context.override_instruments([second])
    assert told == ["enter 1", "exit 1", "enter 2", "exit 2"]


def test_a_class_by_the_decorator() -> None:
    @instrument.pass_instrument
    class Count:
        times = 0

        def run_after_pass(self, mod: Any, info: Any) -> None:
            self.times += 1

    counts = Count()
    run(counts)
    assert counts.times == 3
    with pytest.raises(CompileError, match="Nothing has no method of an instrument"):
        instrument.pass_instrument(type("Nothing", (), {}))


def test_configurations_are_typed() -> None:
    with pytest.raises(CompileError, match=r"relay\.FuseOps\.max_depth is an integer, got 'x'"):
        PassContext(config={"relay.FuseOps.max_depth": "x"})
    with pytest.raises(CompileError, match="there is no pass configuration 'a'"):
        PassContext(config={"a": 1})
    assert PassContext.list_configs()["relay.FuseOps.max_depth"] == {"type": "IntImm"}
    assert SimplifyExpr().step.name == "SimplifyExpr"
