"""What calls of packed functions, printing and assertions mean, and what is said of functions that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, PackedError, RunError
from legato.interp import evaluate
from legato.ir.module import Module

X = np.arange(8, dtype=np.float32).reshape(2, 4)

PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32]) {
  let %a = call_packed((%x, (%x, shape[n])), name="add", shapes=[[n, 4]], dtypes=[float32]);
  let %b = call_pure_packed((%a,), name="some", shapes=[[None], []], dtypes=[float32, int64]);
  let %c = match_cast(%b.0, Tensor[(m,), float32]);
  let %_ = print(%c, (%b.1,), shape[m], format="{0} and {2}: {1}");
  let %_ = assert_op(%b.1 < 9i64, (%b.1,), format="too many: {}");
  let %_ = call_packed((), name="done");
  call_dps_packed((%c,), name="fill", shapes=[[m, 2]], dtypes=[float32])
}
"""


def _add(x: Any, pair: Any) -> Any:
    y, (rows,) = pair
    assert not x.flags.writeable
    assert not y.flags.writeable
    return x + y + np.float32(rows)


def _some(a: Any) -> Any:
    return a[a < 8], np.int64((a < 8).sum())


def _fill(c: Any, out: Any) -> None:
    assert not out.any()
    out[:, 1] = c


FUNCTIONS: dict[str, Callable[..., Any]] = {"add": _add, "some": _some, "fill": _fill, "done": lambda: None}


def _module(text: str = PROGRAM) -> Module:
    return legato.parse(text)


@pytest.mark.parametrize("float64", [False, True])
def test_functions_get_and_give_tensors(capsys: pytest.CaptureFixture[str], float64: bool) -> None:
    got = evaluate(_module(), [X], packed=FUNCTIONS, float64=float64)
    assert np.array_equal(got, [[0, 2], [0, 4], [0, 6]])
    assert got.dtype == (np.float64 if float64 else np.float32)
    assert capsys.readouterr().out == "[2. 4. 6.] and (3,): (3,)\n"


def test_results_by_dlpack_alone() -> None:
    """What no protocol of NumPy's tells to be an array."""

    class Tensor:
        def __init__(self, data: Any) -> None:
            self.data = data

        def __dlpack__(self, **options: Any) -> Any:
            return self.data.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.data.__dlpack_device__()

    got = evaluate(_module(), [X], packed=FUNCTIONS | {"add": lambda x, pair: Tensor(_add(x, pair))})
    assert np.array_equal(got, evaluate(_module(), [X], packed=FUNCTIONS))


def test_assertion_shows_its_values() -> None:
    with pytest.raises(RunError, match=r"^assertion failed: too many: 9$"):
        evaluate(_module(), [X], packed=FUNCTIONS | {"some": lambda a: (a[0], np.int64(9))})


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "None for a tensor": (lambda x, y: None, "result is None, wanted a tensor float32[2, 4]"),
    "a list": (lambda x, y: x.tolist(), "result is a list, wanted a tensor float32[2, 4]"),
    "a class": (lambda x, y: np.ndarray, "result is a type, wanted a tensor float32[2, 4]"),
    "another shape": (lambda x, y: x.T, "result is float32[4, 2], wanted float32[2, 4]"),
    "another rank": (lambda x, y: x[0], "result is float32[4], wanted float32[2, 4]"),
    "another dtype": (lambda x, y: x > 0, "result is bool[2, 4], wanted float32[2, 4]"),
    "an error": (lambda x, y: {}["k"], "failed: KeyError: 'k'"),
    "no such parameters": (lambda x: x, "failed: TypeError: "),
    "a change of its inputs": (lambda x, y: x.fill(0), "failed: ValueError: assignment destination is read-only"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_results_are_errors_that_name_the_function(what: str) -> None:
    function, message = WRONG[what]
    with pytest.raises(PackedError) as error:
        evaluate(_module(), [X], packed=FUNCTIONS | {"add": function})
    assert str(error.value).startswith(("packed function 'add': " + message, "packed function 'add' " + message))


def test_results_are_counted() -> None:
    for given, message in ((X, "gave a ndarray, wanted a tuple of 2 tensors"), ((X,), "gave 1 results, wanted 2")):
        with pytest.raises(PackedError) as error:
            evaluate(_module(), [X], packed=FUNCTIONS | {"some": lambda a, given=given: given})
        assert str(error.value) == f"packed function 'some': {message}"
    with pytest.raises(PackedError, match="'done': gave a int, wanted None"):
        evaluate(_module(), [X], packed=FUNCTIONS | {"done": lambda: 1})
    with pytest.raises(PackedError, match="'fill': gave a ndarray, wanted None: it fills what it is given last"):
        evaluate(_module(), [X], packed=FUNCTIONS | {"fill": lambda c, out: out})


def test_all_missing_names_are_told_at_once() -> None:
    with pytest.raises(PackedError) as error:
        evaluate(_module(), [X], packed={"ad": _add, "done": FUNCTIONS["done"]})
    assert str(error.value) == (
        "the program calls packed functions that are not given: 'add' (did you mean 'ad'?), 'fill', 'some'\n"
        "  hint: packed={'add': function} gives a function its name"
    )


def test_effects_happen_once_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    text = """#[version = "0.0.5"]
    def @loop(%i: int32) -> int32 {
      let %_ = print(%i);
      if (%i == 0) { 0 } else { @loop(%i - 1) }
    }
    def @main(%n: int32) {
      %0 = call_packed((), name="count", shapes=[[]], dtypes=[int32]);
      let %f = fn (%k: int32) { print(%k, format="f {}") };
      let %_ = if (%n == 0) { () } else { %f(%0) };
      let %_ = call_packed((), name="count", shapes=[[]], dtypes=[int32]);
      (@loop(%0), %0)
    }
    """
    counted: list[int] = []

    def count() -> Any:
        counted.append(0)
        return np.int32(len(counted))

    assert evaluate(_module(text), [np.int32(2)], packed={"count": count}) == (0, 1)
    assert capsys.readouterr().out == "f 1\n1\n0\n"
    assert len(counted) == 2


TYPE_ERRORS = {
    'dataflow { let %a = print(%x); output(%a) }': "a dataflow block calls print, which has effects",
    'dataflow { let %a = call_packed((%x,), name="f"); output(%a) }': "calls call_packed 'f', which has effects",
    'dataflow { let %a = @g(%x); output(%a) }': "a dataflow block calls @g, which has effects",
    'print(%x, %x, format="{}")': "the format '{}': wanted one field for each value, got 1 for 2",
    'print(%x, format="{0}{0}")': "'{0}{0}': wanted one field for each value, got 2 for 1",
    'print(%x, format="{0.real}")': "a field is {} or {0}, with nothing in it but a number",
    'print(%x, format="{:9999999}")': "a field is {} or {0}, with nothing in it but a number",
    'print(%x, format="{")': "the format '{': ",
    'print(fn () { 1 })': "only tensors, shapes and tuples of them are passed, got fn () -> int32",
    'assert_op(%x, %x)': "assert_op: the condition",
    "print(negative(%x))": "the arguments are a tuple, got Tensor[(2,), float32]",
    'call_packed((%x,), name="")': "a packed function has a name",
    'call_packed((%x,), name="f", shapes=[[2]])': "1 shapes for 0 dtypes",
    'call_packed((%x,), name="f", shapes=[[-2]], dtypes=[int8])': "an extent of 'f' is -2, wanted 0 or more",
    'call_packed((%x,), name="f", shapes=[[2.5]], dtypes=[int8])': "attribute shapes is ((2.5,),)",
    'call_dps_packed((%x,), name="f", shapes=[[None]], dtypes=[int8])': "what is to be filled has extents",
}  # fmt: skip


@pytest.mark.parametrize("call", TYPE_ERRORS)
def test_wrong_calls_are_type_errors(call: str) -> None:
    text = '#[version = "0.0.5"]\ndef @g(%x: Tensor[(2,), float32]) { let %_ = print(%x); %x }\n'
    with pytest.raises(CompileError) as error:
        legato.parse(text + f"def @main(%x: Tensor[(2,), float32]) {{ {call} }}")
    assert TYPE_ERRORS[call] in str(error.value)
