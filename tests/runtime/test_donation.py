"""Arrays that a caller gives up: outputs lie in them that are made of them in place, and no others are written."""

from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, RunError
from legato.compare.run import compare
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.module import Module
from legato.runtime.executable import Executable
from legato.script import parse

CACHE = """
@I.ir_module
class Module:
    @T.prim_func
    def put(C: T.Buffer(("n", 4), "float32"), R: T.Buffer((4,), "float32"), K: T.Buffer((), "int64")):
        n = T.int64()
        for j in range(4):
            if K[()] >= 0 and K[()] < n:
                C[K[()], j] = R[j]

    @R.function
    def main(cache: R.Tensor(("n", 4), "float32"), other: R.Tensor(("n", 4), "float32"),
             row: R.Tensor((4,), "float32"), k: R.Tensor((), "int64")):
        cls = Module
        n = T.int64()
        t = R.Tensor((n, 4), "float32")
"""
BODIES = {
    "put": "a = PUT(cache, row, k)\nreturn (R.sum(a), a)",
    "twice": """a = PUT(cache, row, k)
b = PUT(a, R.negative(row), R.add(k, R.const(1, 'int64')))
return (R.sum(b), b)""",
    "kept": "a = PUT(cache, row, k)\nreturn (cache, a)",
    "both": "a = PUT(cache, row, k)\nb = PUT(other, row, k)\nreturn (b, a)",
    "read, too": "a = PUT(cache, row, k)\nreturn (R.sum(cache), a)",
    "read later": "a = PUT(cache, row, k)\nreturn (R.sum(R.add(a, cache)), a)",
    "a branch": """if R.greater(k, R.const(0, 'int64')):
    a = PUT(cache, row, k)
else:
    a = cache
return (other, a)""",
    "other branches": """if R.greater(k, R.const(0, 'int64')):
    a = PUT(cache, row, k)
else:
    a = R.tanh(other)
return (R.sum(a), a)""",
    "an operator": "return (R.sum(other), R.tanh(cache))",
}
IN_PLACE = {
    "put": {"cache": "output1"},
    "twice": {"cache": "output1"},
    "kept": {"cache": "output0"},
    "both": {"cache": "output1", "other": "output0"},
    "read, too": {"cache": "output1"},
    "read later": {},
    "a branch": {"cache": "output1", "other": "output0"},
    "other branches": {"cache": "output1"},
}


def module(body: str) -> Module:
    call = r"R.call_tir_inplace(cls.put, (\1), [0], t)"
    text = re.sub(r"PUT\((.*)\)", call, BODIES[body])
    return parse(CACHE + indent(text, " " * 8) + "\n")


def arguments(n: int, k: int) -> dict[str, Any]:
    rng = np.random.default_rng(n + k)
    return {
        "cache": rng.standard_normal((n, 4), np.float32),
        "other": rng.standard_normal((n, 4), np.float32),
        "row": rng.standard_normal(4, np.float32),
        "k": np.array(k),
    }


@pytest.fixture(scope="module")
def put() -> Executable:
    return legato.compile(module("put"))


@pytest.mark.parametrize("body", BODIES)
def test_results_are_the_same_and_other_arrays_stay_what_they_are(body: str) -> None:
    mod = module(body)
    exe = legato.compile(mod)
    if body in IN_PLACE:
        assert exe.in_place == IN_PLACE[body]
    names = ("cache", "other", "row", "k")
    for n, k in ((0, 0), (1, 0), (3, 2), (7, 9)):
        wanted = [np.asarray(v) for v in evaluate(mod, [*arguments(n, k).values()])]
        for donated in (d for size in range(5) for d in combinations(names, size)):
            given, kept = arguments(n, k), arguments(n, k)
            found = exe.run(given, donate=donated)
            for got, value in zip(found.values(), wanted, strict=True):
                np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-5)
            for name in names:
                assert name in donated or np.array_equal(given[name], kept[name])
                output = exe.in_place.get(name)
                assert output is None or (found[output] is given[name]) == (name in donated)


def test_a_program_may_be_compiled_for_it(tmp_path: Path) -> None:
    exe = legato.compile(module("put"), donate=["cache"])
    exe.save(tmp_path / "model.legato")
    for each in (exe, legato.load(tmp_path / "model.legato"), pickle.loads(pickle.dumps(exe)), exe.with_threads(1)):
        given = arguments(5, 3)
        result: Any = each(*given.values())
        assert result[1] is given["cache"]
        np.testing.assert_array_equal(given["cache"][3], given["row"])
        kept = given["cache"].copy()
        found = each.run({**given, "row": -given["row"]}, donate=())
        np.testing.assert_array_equal(found["output1"][3], -given["row"])
        np.testing.assert_array_equal(given["cache"], kept)


def test_calls_that_are_compared_or_timed_give_up_nothing() -> None:
    mod = module("put")
    exe = legato.compile(mod, donate=["cache"])
    given = arguments(5, 3)
    kept = given["cache"].copy()
    exe.keeping()(*given.values())
    assert compare(exe, infer(mod), given).holds
    np.testing.assert_array_equal(given["cache"], kept)
    assert exe.run(given)["output1"] is given["cache"]


def test_where_it_is_given_another_array_an_output_is_there(put: Executable) -> None:
    given, out = arguments(5, 3), np.empty((5, 4), np.float32)
    kept = given["cache"].copy()
    assert put.run(given, out={"output1": out}, donate=("cache",))["output1"] is out
    np.testing.assert_array_equal(given["cache"], kept)


def test_sizes_with_bodies_of_their_own() -> None:
    exe = legato.compile(module("put"), shapes={"n": [2, "0..100"]})
    for n in (2, 5):
        given = arguments(n, 1)
        assert exe.run(given, donate="cache")["output1"] is given["cache"]
        np.testing.assert_array_equal(given["cache"][1], given["row"])


def test_tensors_of_torch(put: Executable) -> None:
    torch = pytest.importorskip("torch")
    given = {name: torch.from_numpy(value) for name, value in arguments(5, 3).items()}
    found = put.run(given, donate=("cache",))["output1"]
    assert torch.equal(given["cache"][3], given["row"])
    assert found.ctypes.data == given["cache"].data_ptr()


def test_many_threads_at_once(put: Executable) -> None:
    shared = arguments(50, 7)
    kept = {name: value.copy() for name, value in shared.items()}

    def call(n: int) -> bool:
        own = shared["cache"].copy()
        found = put.run({**shared, "cache": own} if n % 2 else shared, donate=("cache",) if n % 2 else ())
        return (found["output1"] is own) == bool(n % 2) and np.array_equal(found["output1"][7], shared["row"])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(40)))
    assert all(np.array_equal(value, kept[name]) for name, value in shared.items())


def _read_only(given: dict[str, Any]) -> None:
    given["cache"].flags.writeable = False


def _strided(given: dict[str, Any]) -> None:
    given["cache"] = np.zeros((5, 8), np.float32)[:, ::2]


def _swapped(given: dict[str, Any]) -> None:
    given["cache"] = given["cache"].astype(">f4")


def _twice(given: dict[str, Any]) -> None:
    given["other"] = given["cache"]


def _overlapping(given: dict[str, Any]) -> None:
    given["row"] = given["cache"][2]


REFUSED = {
    _read_only: 'donated input "cache": not writable\n  got:    a read-only array\n'
    "  wanted: an array to write into\n  hint: x.copy() is one",
    _strided: 'donated input "cache": not contiguous\n  got:    strides of (32, 8) bytes\n'
    "  wanted: float32[n, 4] in C order, aligned, in native byte order",
    _swapped: 'donated input "cache": not contiguous\n  got:    strides of (16, 4) bytes\n'
    "  wanted: float32[n, 4] in C order, aligned, in native byte order",
    _twice: 'donated input "cache" shares memory with input "other"\n'
    "  hint: inputs are still read while outputs are written; give an array of its own",
    _overlapping: 'donated input "cache" shares memory with input "row"\n'
    "  hint: inputs are still read while outputs are written; give an array of its own",
}


@pytest.mark.parametrize("change", REFUSED)
def test_arrays_that_cannot_be_given_up(put: Executable, change: Any) -> None:
    given = arguments(5, 3)
    change(given)
    kept = {name: value.copy() for name, value in given.items()}
    with pytest.raises(RunError) as error:
        put.run(given, donate=("cache",))
    assert str(error.value) == REFUSED[change]
    assert all(np.array_equal(value, kept[name]) for name, value in given.items())
    put.run(given)  # as it is, it is not written


def test_names_that_are_none(put: Executable) -> None:
    with pytest.raises(
        RunError, match="donate: no input that is a tensor is called 'cash'; there are cache, other, row, k"
    ):
        put.run(arguments(5, 3), donate=("cash",))
    with pytest.raises(CompileError, match="donate: no input that is a tensor is called 'cash'"):
        legato.compile(module("put"), donate="cash")


def test_an_array_to_write_into_is_none_that_is_given_up(put: Executable) -> None:
    given = arguments(5, 3)
    with pytest.raises(RunError, match='out "output1" shares memory with input "cache"'):
        put.run(given, out={"output1": given["cache"]}, donate=("cache",))
