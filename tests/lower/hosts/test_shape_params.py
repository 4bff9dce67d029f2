"""Dims that shapes among the parameters tell: compiled = interpreted = NumPy, and what does not fit is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import RunError, UnsupportedError
from legato.interp import evaluate
from legato.runtime.executable import MAX_PLANS
from legato.runtime.fill import fill
from legato.script import parse

RESHAPE = """
@R.function
def main(x: R.Tensor((4, "k"), "float32"), s: R.Shape(("n", "m"))):
    n, m = T.int64(), T.int64()
    return R.reshape(x, (n, m)), R.sum(R.reshape(x, (n, m)), axis=1)
"""
NESTED = """
@R.function
def main(
    t: R.Tuple(R.Shape(("n", "m * 2")), R.Tensor(("m",), "float32"), R.Shape(("m",))), s: R.Shape(("n * m + 1", "p", 7))
):
    n, m, p = T.int64(), T.int64(), T.int64()
    return R.add(R.zeros((n, m), "float32"), t[1]), R.shape([n + p, m]), s
"""
ROWS = """
@R.function
def main(s: R.Shape(("n",))):
    n = T.int64()
    return R.add(R.ones((n, 3), "float32"), R.ones((n, 1), "float32"))
"""
SIZES = (0, 1, 3)


def arrays(value: Any) -> Any:
    return tuple(map(arrays, value)) if isinstance(value, tuple) else np.asarray(value).tolist()


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    """The result, or that the call was refused."""
    try:
        return arrays(call(*args))
    except RunError:
        return "refused"


def x_of(k: int) -> np.ndarray:
    return np.arange(4 * k, dtype=np.float32).reshape(4, k)


def reshaped(x: np.ndarray, s: tuple[int, int]) -> Any:
    if min(s) < 0 or s[0] * s[1] != x.size:
        raise RunError("does not fit")
    return x.reshape(s), x.reshape(s).sum(1, dtype=np.float32)


def nested(t: Any, s: tuple[int, int, int]) -> Any:
    (n, twice), row, (m,) = t
    if (twice, s[0], m, s[2]) != (2 * len(row), n * len(row) + 1, len(row), 7) or min(n, s[1]) < 0:
        raise RunError("does not fit")
    return np.zeros((n, m), np.float32) + row, (n + s[1], m), s


def calls_of_nested() -> Iterator[tuple[Any, Any]]:
    for n, m, p in product((*SIZES, -1), SIZES, (*SIZES, -1)):
        yield ((n, 2 * m), np.arange(m, dtype=np.float32), (m,)), (n * m + 1, p, 7)
    row = np.ones(3, np.float32)
    yield ((2, 6), row, (3,)), (8, 0, 7)
    yield ((2, 6), row, (2,)), (7, 0, 7)
    yield ((2, 5), row, (3,)), (7, 0, 7)
    yield ((2, 6), row, (3,)), (7, 0, 8)


@pytest.mark.parametrize(
    ("text", "numpy", "calls"),
    [
        (RESHAPE, reshaped, [(x_of(k), s) for k in SIZES for s in product((0, 1, 2, 4, 6, -1), (0, 1, 2, 3, 4, 12))]),
        (NESTED, nested, [*calls_of_nested()]),
        (ROWS, lambda s: np.full((s[0], 3), 2, np.float32), [((n,),) for n in SIZES]),
    ],
    ids=["reshape", "nested", "rows"],
)
def test_compiled_as_interpreted(text: str, numpy: Any, calls: list[Any], tmp_path: Path) -> None:
    module = parse(text)
    exe = legato.compile(module)
    exe.save(tmp_path / "a.legato")
    for args in calls:
        wanted = outcome(numpy, *args)
        assert outcome(lambda *a: evaluate(module, a), *args) == wanted, args
        for program in (exe, legato.load(tmp_path / "a.legato")):
            assert outcome(program, *args) == wanted, args


@pytest.mark.parametrize("sizes", [None, {"n": [2, "0..9"]}])
def test_a_main_that_calls_itself_with_other_extents(sizes: dict[str, Any] | None) -> None:
    module = legato.parse("""#[version = "0.0.5"]
def @main(%s: Shape[(n, m)], %i: int64, %sum: float32) -> float32 {
  if (%i > 0i64) { @main(shape[n + 1, m], %i - 1i64, %sum + sum(ones(shape=[n, m]))) } else { %sum }
}""")
    exe = legato.compile(module, shapes=sizes)
    for n, m, turns in product(SIZES, SIZES, SIZES):
        args = (n, m), np.array(turns), np.float32(0)
        assert exe(*args) == evaluate(module, [*args]) == m * sum(range(n, n + turns))


def test_values_change_from_call_to_call_and_on_many_threads() -> None:
    exe = legato.compile(parse(ROWS))
    numbers = [n % 7 if n % 3 else n for n in range(MAX_PLANS + 50)]
    assert [exe((n,)).shape for n in numbers] == [(n, 3) for n in numbers]
    changing = np.array(2)
    assert exe(changing).shape == (2, 3)
    changing[...] = 5
    assert exe(changing).shape == (5, 3)
    with ThreadPoolExecutor(8) as pool:
        assert [y.shape for y in pool.map(exe, numbers)] == [(n, 3) for n in numbers]


def test_extents_are_read_once() -> None:
    module = parse("""
@R.function(pure=False)
def main(s: R.Shape(("n",))):
    n = T.int64()
    R.call_packed("change", R.zeros((n,), "float32"))
    return s, R.zeros((n,), "float32")
""")
    given = np.array(3)
    exe = legato.compile(module, packed={"change": lambda x: given.fill(7)})
    (n,), zeros = exe((given,))  # type: ignore[misc]
    assert (int(n), zeros.shape, int(given)) == (3, (3,), 7)


@pytest.mark.parametrize("two", [2, np.int32(2), np.uint8(2), np.array(2), np.array(2, ">i8")])
def test_extents_are_integers(two: Any) -> None:
    exe, x = legato.compile(parse(RESHAPE)), x_of(1)
    for found in (exe(x, (two, 2))[0], exe(x, two, 2)[0], exe.run({"x": x, "s.1": 2, "s.0": two})["output0"]):
        assert np.array_equal(found, x.reshape(2, 2))


@pytest.mark.parametrize(
    ("extent", "message"),
    [
        (-1, 'input "s.0": an extent below 0\n  got:    -1\n  wanted: n, 0 at least'),
        (3, 'input "s.0": wrong value\n  got:    3\n  wanted: n where n = 2 (dimension 0 of input "x")'),
        (
            2**46 + 1,
            'input "s.0": wrong value\n  got:    70368744177665\n  wanted: n where n = 2 (dimension 0 of input ',
        ),
        (2**63, 'input "s.0": out of range\n  got:    9223372036854775808\n  wanted: an extent within 64 bits'),
        (np.uint64(2**63), 'input "s.0": out of range\n  got:    9223372036854775808'),
        (True, 'input "s.0": no extent\n  got:    bool\n  wanted: an integer, or an int64 array of no dimension'),
        (2.0, 'input "s.0": no extent\n  got:    float\n  wanted: an integer'),
        (None, 'input "s.0": no extent\n  got:    NoneType\n  wanted: an integer'),
        (np.array(2, np.int32), 'input "s.0": wrong dtype\n  got:    int32[]\n  wanted: int64[]'),
        (np.float32(2), 'input "s.0": wrong dtype\n  got:    float32[]\n  wanted: int64[]'),
        (np.array([2]), 'input "s.0": 1 dimensions instead of 0\n  got:    int64[1]\n  wanted: int64[]'),
        (np.array([], np.int64), 'input "s.0": 1 dimensions instead of 0\n  got:    int64[0]'),
    ],
)
def test_what_is_no_extent(extent: Any, message: str) -> None:
    exe = legato.compile(parse(RESHAPE.replace('(4, "k")', '("n", 2)')))
    with pytest.raises(RunError) as error:
        exe(np.zeros((2, 2), np.float32), (extent, 2))
    assert str(error.value).startswith(message)


def test_names_are_those_of_the_parts() -> None:
    exe = legato.compile(parse(RESHAPE))
    assert [str(leaf) for leaf in exe.inputs] == ["x: float32[4, k]", "s.0: int64[] = n", "s.1: int64[] = m"]
    with pytest.raises(RunError, match=r"hint: parts of a tuple are given by their names, s\.0, s\.1$"):
        exe.run({"x": x_of(1), "s": (2, 2)})


def test_ranges_and_bodies_for_sizes(tmp_path: Path) -> None:
    exe = legato.compile(parse(ROWS), shapes={"n": [1, 4, "6..9"]})
    assert str(exe.inputs[0]) == "s.0: int64[] = n where n = 1 or n = 4 or 6 <= n <= 9"
    exe.save(tmp_path / "a.legato")
    for program, n in product((exe, legato.load(tmp_path / "a.legato")), range(-1, 11)):
        wanted = [[2.0] * 3] * n if n in (1, 4, 6, 7, 8, 9) else "refused"
        assert outcome(program, (n,)) == outcome(program, np.array(n)) == wanted
    with pytest.raises(RunError) as error:
        exe((5,))
    assert str(error.value).splitlines() == [
        "the program was not compiled for these sizes",
        '  got:    n = 5 (input "s.0")',
        "  wanted: n = 1; n = 4; 6 <= n <= 9",
    ]
    bounded = legato.compile(parse(ROWS), shapes={"n": "2..5"})
    assert [outcome(bounded, (n,)) == "refused" for n in range(8)] == [n < 2 or n > 5 for n in range(8)]
    with pytest.raises(RunError, match=r'input "s\.0": its value is out of range\n  got:    6\n  wanted: 2 <= n <= 5'):
        bounded((6,))
    with pytest.raises(RunError, match=r'input "s\.0": wrong value\n  got:    2\n  wanted: 3$'):
        legato.compile(parse(ROWS), shapes={"n": 3})((2,))


def test_sizes_that_nothing_can_have() -> None:
    exe = legato.compile(parse(ROWS))
    for n in (2**46, 2**46 + 1, 2**62):
        with pytest.raises(RunError, match=f'n = {n} [(]input "s.0"[)]|its value is out of range\n  got:    {n}'):
            exe((n,))


def test_memory_and_arrays_to_write_into() -> None:
    exe = legato.compile(parse(RESHAPE))
    x, out = x_of(3), np.zeros((6, 2), np.float32)
    assert exe.peak_memory(n=6, m=2, k=3) >= 0
    assert exe.run({"x": x, "s.0": 6, "s.1": 2}, out={"output0": out}, donate=("s.0",))["output0"] is out
    assert np.array_equal(out, x.reshape(6, 2))
    with pytest.raises(RunError, match='out "output0": wrong shape or dtype'):
        exe.run({"x": x, "s.0": 2, "s.1": 6}, out={"output0": out})


def test_inputs_that_are_made_up() -> None:
    module = parse(NESTED)
    exe = legato.compile(module)
    made = fill(exe.program.functions["main"], dims={"n": 5})
    assert {name: value.tolist() for name, value in made.items() if value.ndim == 0} == {
        "t.0": 5, "t.1": 8, "t.3": 4, "s.0": 21, "s.1": 4, "s.2": 7,
    }  # fmt: skip
    assert legato.verify(module, dims={"m": 3}, bisect=True)
    assert legato.verify(module, [5, 6, np.ones(3, np.float32), 3, 16, 2, 7])


def test_a_dim_that_is_nowhere_plain() -> None:
    with pytest.raises(UnsupportedError, match="the dims n are not plain extents of an input"):
        legato.compile(parse(ROWS.replace('"n",', '"n * 2",')))
