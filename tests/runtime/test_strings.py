"""Strings in compiled programs: what comes out is what went in, and nothing of a call is left behind."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import ArtifactError, RunError, TypeCheckError
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.module import Module
from legato.ops import table
from legato.prelude import parse
from legato.runtime.artifact import from_bytes, to_bytes
from legato.runtime.executable import Executable
from legato.runtime.strings import Strings, table_fault
from tests.runtime.forging import forged

MOVING = """
def @main(%x: Tensor[(3, n), string], %y: Tensor[(3, 1), string], %at: Tensor[(k,), int64]) {
  let %same = equal(%x, %y);
  (reshape(%x, newshape=[-1]), transpose(%x), %same, where(%same, %x, meta[relay.Constant][0]), take(%x, %at, axis=1),
   concatenate((%x, %y), axis=1), tile(%y, reps=[1, 2]), strided_slice(%x, begin=[1], end=[3], axes=[0]),
   full(meta[relay.Constant][0], shape=[2, 2]), meta[relay.Constant][1],
   gather(%x, zeros(shape=[3, 1], dtype=int64), axis=1))
}
#[metadata]
{"relay.Constant": [{"dtype": "string", "shape": [], "data": ["é\\n\\""]},
                    {"dtype": "string", "shape": [2], "data": ["a", ""]}]}
"""
X = np.array([["a", "b"], ["", "d"], ['é\n"', "a"]], object)
Y = np.array([["a"], ["d"], ["long " * 50]], object)


def _module(text: str) -> Module:
    return parse(text, ops=table())


@pytest.fixture(scope="module")
def moving() -> Executable:
    return legato.compile(_module(MOVING))


def _same(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_what_is_moved_is_what_the_interpreter_moves(moving: Executable) -> None:
    at = np.array([1, 0, 1])
    assert moving.program.stats["host_operators"] == 0, "what only moves strings is compiled"
    _same(moving(X, Y, at), evaluate(_module(MOVING), [X, Y, at]))
    _same(moving(X.astype(str), Y.astype(str), at), moving(X, Y, at))


def test_files_and_pickles_have_the_constants(moving: Executable, tmp_path: Path) -> None:
    at, path = np.array([0]), tmp_path / "a.lgt"
    moving.save(path)
    _same(legato.load(path)(X, Y, at), moving(X, Y, at))
    _same(pickle.loads(pickle.dumps(moving))(X, Y, at), moving(X, Y, at))


@pytest.mark.parametrize("strings", [[], ["x"], ["", "a", "a"], "abc", [1], None])
def test_forged_tables(moving: Executable, strings: Any) -> None:
    data = forged(to_bytes(moving._parts), lambda m, _: m["program"].update(strings=strings), sealed=True)
    with pytest.raises(ArtifactError):
        from_bytes(data)


def test_forged_numbers(moving: Executable, tmp_path: Path) -> None:
    """A constant that is a string that there is not ends a call with an error."""
    for wild in (2**40, -1):
        words = np.array([wild] * 8, "<i8").tobytes()

        def change(_: Any, bodies: Any, words: bytes = words) -> None:
            bodies["constants"][:64] = words

        data = forged(to_bytes(moving._parts), change, sealed=True)
        (tmp_path / "a.lgt").write_bytes(data)
        with pytest.raises(RunError, match="damaged"):
            legato.load(tmp_path / "a.lgt")(X, Y, np.array([0]))


def test_nothing_of_a_call_is_left(moving: Executable) -> None:
    for n in range(20):
        moving(np.array([[f"{n}-{k}-{j}" for j in range(50)] for k in range(3)], object), Y, np.array([0]))
    kept = [workspace.strings for workspace in moving._free]
    assert kept
    assert all(strings is not None and len(strings) == 0 for strings in kept)


def test_calls_at_once_do_not_mix(moving: Executable) -> None:
    def run(n: int) -> bool:
        x = np.array([[f"{n} {k} {j % 3}" for j in range(40)] for k in range(3)], object)
        return np.array_equal(moving(x, Y, np.array([0]))[1], x.T)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(100)))


def test_equal_strings_are_equal_whoever_made_them() -> None:
    text = """
    def @main(%x: Tensor[(n,), string]) {
      let %joined = strings.concat(%x, meta[relay.Constant][0]);
      (equal(%joined, meta[relay.Constant][1]), %joined)
    }
    #[metadata]
    {"relay.Constant": [{"dtype": "string", "shape": [], "data": ["b"]},
                        {"dtype": "string", "shape": [], "data": ["ab"]}]}
    """
    exe = legato.compile(parse(text, ops=table()))
    found, text = exe(np.array(["a", "", "ab"], object))
    assert found.tolist() == [True, False, False]
    assert text.tolist() == ["ab", "b", "abb"]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (np.array([["a", None], ["b", "c"], ["d", "e"]], object), "an element is a NoneType"),
        (np.array([["a", b"x"], ["b", "c"], ["d", "e"]], object), "an element is a bytes"),
        (np.array([["a", "\ud800"], ["b", "c"], ["d", "e"]], object), "no form in UTF-8"),
        (np.zeros((3, 2), np.int64), "wrong dtype"),
        (np.zeros((3, 2), "S2"), "wrong dtype"),
        ([["a"]], "not an array"),
    ],
)
def test_other_things_are_refused(moving: Executable, given: Any, what: str) -> None:
    with pytest.raises(RunError, match=what):
        moving(given, Y, np.array([0]))
    assert moving(X, Y, np.array([0]))[9].tolist() == ["a", ""], "the next call is as good as ever"


def test_outputs_may_be_given(moving: Executable) -> None:
    out = np.full((2, 3), "old", object)
    found = moving.run({"x": X, "y": Y, "at": np.array([0])}, out={"output1": out})
    assert found["output1"] is out
    np.testing.assert_array_equal(out, X.T)


@pytest.mark.parametrize("operator", ["negative", "nn.relu", "sum", "argmax", "less"])
def test_nothing_computes_with_strings(operator: str) -> None:
    b = Builder()
    x = b.var("x", (2,), "string")
    with pytest.raises(TypeCheckError, match=r"string"):
        b.op(operator)(*[x] * (2 if operator == "less" else 1))


def test_lists_hold_strings() -> None:
    mod = parse(
        """
        def @main(%x: Tensor[(2,), string], %xs: List[Tensor[(2,), string]], %s: string, %ss: List[string]) {
          (Cons(%x, %xs), Cons(strings.concat(%s, %s), Cons(%s, %ss)))
        }""",
        ops=table(),
    )
    exe = legato.compile(mod)
    nil, cons = (exe.constructors[name] for name in ("Nil", "Cons"))
    x, s = np.array(["a", "b"], object), np.array("c", object)
    first, second = exe(x, cons(x, nil()), s, cons(np.array("", object), nil()))
    assert [v.tolist() for v in _listed(first)] == [["a", "b"], ["a", "b"]]
    assert [v.item() for v in _listed(second)] == ["cc", "c", ""]


def _listed(value: Any) -> list[Any]:
    found = []
    while value.fields:
        found.append(value.fields[0])
        value = value.fields[1]
    return found


def test_what_is_printed_and_tested(capsys: pytest.CaptureFixture[str]) -> None:
    mod = parse('def @main(%x: Tensor[(2,), string]) { let %a = print(%x, format="{} here"); %x }', ops=table())
    legato.compile(mod)(np.array(["a", "b"], object))
    assert capsys.readouterr().out == "['a' 'b'] here\n"


def test_tables() -> None:
    strings = Strings(("", "a"), {"": 0, "a": 1})
    numbers = strings.numbers(np.array([["a", "new"], ["", "new"]], object))
    assert numbers.tolist() == [[1, 2], [0, 2]]
    assert strings.texts(numbers).tolist() == [["a", "new"], ["", "new"]]
    strings.clear()
    for wild in (2, -1):
        with pytest.raises(RunError, match="damaged"):
            strings.texts(np.array([wild]))
    assert table_fault(("a",)) is not None
    assert table_fault(("", "a", "a")) is not None
    assert table_fault(("", "a")) is None


def test_a_damaged_table_is_refused(moving: Executable) -> None:
    program = moving.program
    for strings in ((), ("x",), ("", "a", "a")):
        assert replace(program, strings=strings).problem() is not None
    assert program.problem() is None
