"""Packed functions, printing and assertions in compiled programs: as in the interpreter, also where things go wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import ArtifactError, PackedError, RunError
from legato.interp import evaluate
from legato.runtime.outside import outside_ops
from legato.runtime.program import HostOpInfo, TensorInfo
from tests.interp.test_packed import FUNCTIONS, PROGRAM, WRONG, X

MODULE = legato.parse(PROGRAM)


@pytest.fixture(scope="module")
def exe() -> Any:
    return legato.compile(MODULE, packed=FUNCTIONS)


def _run(function: Callable[[], Any]) -> str:
    with pytest.raises(RunError) as error:
        function()
    return f"{type(error.value).__name__}: {error.value}"


def test_compiled_as_interpreted(exe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = evaluate(MODULE, [X], packed=FUNCTIONS)
    told = capsys.readouterr().out
    for _ in range(3):
        assert np.array_equal(exe(X), wanted)
        assert capsys.readouterr().out == told


@pytest.mark.parametrize("what", WRONG)
def test_faults_are_those_of_the_interpreter(what: str, tmp_path: Path) -> None:
    packed = FUNCTIONS | {"add": WRONG[what][0]}
    exe = legato.compile(MODULE, packed=packed)
    assert _run(lambda: exe(X)) == _run(lambda: evaluate(MODULE, [X], packed=packed))


def test_extents_of_results_are_checked() -> None:
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(n,), float32]) {
      let %a = call_pure_packed((%x,), name="f", shapes=[[None, n], [None]], dtypes=[float32, float32]);
      let %b = match_cast(%a, (Tensor[(m, n), float32], Tensor[(m,), float32]));
      sum(%b.0, axis=[1]) + %b.1
    }"""
    module = legato.parse(text)
    x = np.ones(3, np.float32)
    shape: list[tuple[int, ...]] = []
    packed = {"f": lambda x: tuple(np.ones(s, np.float32) for s in shape)}
    compiled = legato.compile(module, packed=packed)
    for shape[:] in ([(2, 3), (2,)], [(0, 3), (0,)], [(500, 3), (500,)]):
        assert np.array_equal(compiled(x), np.full(shape[1], 4, np.float32))
        assert np.array_equal(compiled(x), evaluate(module, [x], packed=packed))
    for shape[:], message in (
        ([(2, 3), (4,)], "match_cast"),
        ([(2, 4), (2,)], "result 0 is float32[2, 4], wanted float32["),
        ([(2, 3), (2, 2)], "result 1 is float32[2, 2], wanted float32["),
    ):
        assert message in _run(lambda: compiled(x))
        assert message in _run(lambda: evaluate(module, [x], packed=packed))
    shape[:] = [(2, 3), (2,)]
    assert np.array_equal(compiled(x), [4, 4])


@pytest.mark.parametrize("op", ["call_packed", "call_pure_packed", "call_dps_packed"])
def test_extents_below_zero_are_told_before_the_call(op: str) -> None:
    module = legato.parse(f"""#[version = "0.0.5"]
    def @main(%x: Tensor[(n,), float32]) {{ {op}((%x,), name="f", shapes=[[n - 5]], dtypes=[float32]) }}""")
    calls: list[Any] = []
    x = np.ones(2, np.float32)
    exe = legato.compile(module, packed={"f": calls.append})
    assert f"{op}: an extent of the result" in _run(lambda: exe(x))
    assert f"{op}: an extent of the result is n - 5 = -3" in _run(
        lambda: evaluate(module, [x], packed={"f": calls.append})
    )
    assert not calls


def test_effects_in_branches_loops_and_local_functions(capsys: pytest.CaptureFixture[str]) -> None:
    text = """#[version = "0.0.5"]
    def @loop(%i: int32, %x: Tensor[(2,), float32]) -> Tensor[(2,), float32] {
      let %_ = print(%i, %x, format="loop {} {}");
      if (%i == 0) { %x } else { @loop(%i - 1, call_packed((%x,), name="step", shapes=[[2]], dtypes=[float32])) }
    }
    def @deep(%i: int32) -> int32 {
      if (%i == 0) { 0 } else { let %r = @deep(%i - 1); let %_ = print((%r,), format="deep {}"); %r + 1 }
    }
    def @twice(%f: fn (int32) -> int32, %x: int32) { %f(%f(%x)) }
    def @main(%n: int32, %x: Tensor[(2,), float32]) {
      %0 = call_packed((), name="count", shapes=[[]], dtypes=[int32]);
      let %f = fn (%k: int32) { let %_ = print(%k, format="f {}"); %k + %0 };
      let %unused = call_packed((), name="count", shapes=[[]], dtypes=[int32]);
      let %again = call_packed((), name="count", shapes=[[]], dtypes=[int32]);
      let %y = if (%n > 1) { call_packed((%x,), name="step", shapes=[[2]], dtypes=[float32]) } else { %x };
      let %g = if (%n > 2) { %f } else { fn (%k: int32) { let %_ = assert_op(%k < 3, (%k,)); %k } };
      (@loop(%n, %y), @deep(%n), @twice(%g, %n), %0, %again, %0 + %0)
    }"""
    module = legato.parse(text)
    events: list[object] = []

    def count() -> Any:
        events.append(0)
        return np.int32(len(events))

    def step(x: Any) -> Any:
        events.append(x.tolist())
        return x * 2

    packed = {"count": count, "step": step}
    exe = legato.compile(module, packed=packed)
    x = np.ones(2, np.float32)
    for n in (0, 2, 3, 5):
        events.clear()
        wanted = evaluate(module, [np.int32(n), x], packed=packed)
        expected, told = list(events), capsys.readouterr().out
        events.clear()
        got = exe(np.int32(n), x)
        assert events == expected
        assert capsys.readouterr().out == told
        assert all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))


def test_a_failing_call_writes_no_output() -> None:
    module = legato.parse("""#[version = "0.0.5"]
    def @main(%x: Tensor[(2,), float32]) {
      let %a = call_dps_packed((%x,), name="fill", shapes=[[2]], dtypes=[float32]);
      let %b = call_packed((%x,), name="last", shapes=[[2]], dtypes=[float32]);
      (%a, %b, negative(%x))
    }""")
    x, fail = np.ones(2, np.float32), ["fill"]

    def function(name: str, x: Any, *out: Any) -> Any:
        for o in out:
            o[:] = 5
        if name in fail:
            raise ValueError(name)
        return None if out else x

    packed = {n: lambda *args, n=n: function(n, *args) for n in ("fill", "last")}
    exe = legato.compile(module, packed=packed)
    names = [t.name for t in exe.outputs]
    for fail[:] in (["fill"], ["last"]):
        out = {name: np.full(2, 9, np.float32) for name in names}
        with pytest.raises(PackedError, match=f"'{fail[0]}' failed: ValueError: {fail[0]}"):
            exe.run({"x": x}, out=out)
        assert all((array == 9).all() for array in out.values())
    fail.clear()
    exe.run({"x": x}, out=out)
    assert [array.tolist() for array in out.values()] == [[5, 5], [1, 1], [-1, -1]]


def test_what_keeps_a_tensor_of_the_call_is_told() -> None:
    kept: list[Any] = []

    def keeps(x: Any, pair: Any) -> Any:
        kept.append(x[1:])
        return x.copy()

    def fails(x: Any, pair: Any) -> Any:
        raise ValueError(x)

    exe = legato.compile(MODULE, packed=FUNCTIONS | {"add": keeps})
    assert "packed function 'add': it keeps a tensor that it was given" in _run(lambda: exe(X))
    exe = legato.compile(MODULE, packed=FUNCTIONS | {"add": fails})
    assert "keeps a tensor" in _run(lambda: exe(X))  # the error has it


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RecursionError, PackedError])
def test_what_a_function_raises_reaches_the_caller(error: type[BaseException]) -> None:
    def raises(x: Any, pair: Any) -> Any:
        raise error("why")

    exe = legato.compile(MODULE, packed=FUNCTIONS | {"add": raises})
    with pytest.raises((error, PackedError)) as found:
        exe(X)
    assert found.value.__cause__ is not None or isinstance(found.value, SystemExit)


def test_many_threads_and_calls_of_programs_inside_of_calls(capsys: pytest.CaptureFixture[str]) -> None:
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(n,), float32]) {
      let %a = call_packed((exp(%x),), name="f", shapes=[[None]], dtypes=[float32]);
      let %b = match_cast(%a, Tensor[(n,), float32]);
      tanh(%b) + %x
    }"""
    inner = legato.compile(legato.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(n,), float32]) { %x + 1f }'))
    exe = legato.compile(legato.parse(text), packed={"f": inner})
    inputs = [np.full(n, n / 8, np.float32) for n in range(8)]
    wrong: list[int] = []

    def work(n: int) -> None:
        for _ in range(50):
            if not np.allclose(exe(inputs[n]), np.tanh(np.exp(inputs[n]) + 1) + inputs[n]):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_artifacts_hold_names(tmp_path: Path, exe: Any) -> None:
    path = tmp_path / "program.legato"
    exe.save(path)
    assert np.array_equal(legato.load(path, packed=FUNCTIONS)(X), exe(X))
    assert b"test_packed" not in path.read_bytes()
    for make in (lambda **o: legato.load(path, **o), lambda **o: legato.compile(MODULE, **o)):
        with pytest.raises(PackedError) as error:
            make(packed={"some": len, "don": len})
        assert str(error.value) == (
            "the program calls packed functions that are not given: 'add', 'done' (did you mean 'don'?), 'fill'\n"
            "  hint: packed={'add': function} gives a function its name"
        )
        with pytest.raises(PackedError, match="packed function 'add': got a int, wanted a function"):
            make(packed=FUNCTIONS | {"add": 3})


GOOD = '{"name": "f", "type": {"args": [[]], "results": [{"dtype": "int8", "shape": [null]}]}, "step": "call"}'


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("call_packed", "["),
        ("call_packed", "{}"),
        ("call_packed", GOOD.replace('"f"', "3")),
        ("call_packed", GOOD.replace("call", "leap")),
        ("call_packed", GOOD.replace("int8", "index")),
        ("call_packed", GOOD.replace("int8", "object")),
        ("call_packed", GOOD.replace("null", "-1")),
        ("call_packed", GOOD.replace("[[]]", "[" * 300 + "]" * 300)),
        ("call_packed", GOOD.replace("[[]]", '[{"dtype": "int8", "shape": []}]')),
        ("call_packed", GOOD.replace("call", "extents").replace("null", "1")),
        ("print", '{"format": "{0.__class__}", "args": [[{"dtype": "int8", "shape": []}]]}'),
        ("print", '{"format": "", "args": []}'),
    ],
)  # fmt: skip
def test_forged_tables_are_told(op: str, attrs: str) -> None:
    out = TensorInfo("out0", "int8", ())
    with pytest.raises(ArtifactError):
        outside_ops([HostOpInfo(op, attrs, (), (out,))], {"f": len})
    assert len(outside_ops([HostOpInfo("call_packed", GOOD, (), (out,))], {"f": len})) == 1
