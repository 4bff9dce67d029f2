"""Any number of rows, given to a program: as if it were called with each row alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.errors import LegatoError, RunError
from legato.ray._rows import Rows, Sizes, pieces
from legato.runtime import Executable
from tests.ray.programs import BFLOAT, DEEP, GROUPS, HEAD, NET, PAIR, SCALAR, SQUARE, STRINGS, SUM, compiled, random

FIXED = HEAD + "def @main(%x: Tensor[(4, 3), float32]) { nn.relu(%x) }"
RELU = HEAD + "def @main(%x: Tensor[(n, 3), float32]) { nn.relu(%x) }"


@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(1, 40), st.none() | st.integers(0, 40)), min_size=1, max_size=4),
)
def test_pieces_have_every_row_once_in_sizes_that_are_taken(count: int, given: list[tuple[int, int | None]]) -> None:
    sizes = [Sizes(lo, None if more is None else lo + more) for lo, more in given]
    found = list(pieces(count, sizes))
    assert sum(rows for rows, _ in found) == count
    assert all(0 < rows <= size for rows, size in found)
    assert all(any(s.lo <= size and (s.hi is None or size <= s.hi) for s in sizes) for _, size in found)
    assert [rows for rows, size in found[:-1] if rows < size] == [], "only the last is filled up"


@pytest.mark.parametrize(
    ("text", "shapes"), [(RELU, {}), (FIXED, {}), (RELU, {"n": (1, 8)}), (RELU, {"n": "3..5"})], ids=str
)
@pytest.mark.parametrize("count", [0, 1, 4, 13])
def test_any_number_of_rows(text: str, shapes: dict[str, Any], count: int) -> None:
    x = random((count, 3))
    found = Rows(compiled(text, **shapes)).of_columns({"x": x})
    np.testing.assert_array_equal(found["output"], np.maximum(x, 0))
    assert found["output"].dtype == np.float32


def test_rows_of_different_shapes() -> None:
    exe = compiled(NET)
    x = np.empty(5, object)
    for n, m in enumerate((3, 7, 3, 1, 7)):
        x[n] = random((m,), n)
    w = random((5, 2))
    found = Rows(exe).of_columns({"x": x, "w": w})
    alone = [exe(x[n][None], w[n : n + 1]) for n in range(5)]
    for number, name in enumerate(("output0", "output1")):
        np.testing.assert_allclose(found[name], np.concatenate([one[number] for one in alone]), rtol=1e-6)


def test_outputs_of_different_shapes_are_objects() -> None:
    text = HEAD + "def @main(%x: Tensor[(n, m), float32]) { nn.relu(%x) }"
    x = np.empty(2, object)
    x[0], x[1] = np.float32([-1, 2]), np.float32([3])
    found = Rows(compiled(text)).of_columns({"x": x})["output"]
    assert found.dtype == object
    assert [row.tolist() for row in found] == [[0, 2], [3]]


def test_strings_are_rows() -> None:
    found = Rows(compiled(STRINGS)).of_columns({"x": np.array(["a", "bc"], object)})
    assert found["output"].tolist() == ["aa", "bcbc"]
    assert Rows(compiled(STRINGS)).of_rows([{"x": np.array("ü", object)}])[0]["output"] == "üü"  # type: ignore[index]


def test_strings_of_any_length_are_one_batch() -> None:
    picky = Picky(compiled(STRINGS))
    texts = [np.array("abc"), np.array("abcde"), np.array("ü", object), np.array("", np.dtypes.StringDType())]
    found = Rows(picky).of_rows([{"x": text} for text in (*texts, np.array(5))])  # type: ignore[arg-type]
    assert [str(one["output"]) for one in found[:4]] == ["abcabc", "abcdeabcde", "üü", ""]  # type: ignore[index]
    assert isinstance(found[4], RunError), "a number is no text beside texts either"
    assert picky.batches == [4, 1]


def test_a_row_at_fault_does_the_others_no_harm() -> None:
    w, good = random((2,)), random((3,))
    rows = [
        {"x": good, "w": w}, {"x": good}, {"x": good, "w": random((5,))}, {"x": good.astype(int), "w": w},
        {"x": good, "w": w, "z": w}, {"x": random((7,)), "w": w}, {"x": [[1], [2, 3]], "w": w}, {"x": good, "w": w},
    ]  # fmt: skip
    found = Rows(compiled(NET)).of_rows(rows)
    assert [isinstance(one, RunError) for one in found] == [False, True, True, True, True, False, True, False]
    for n in (0, 5, 7):
        assert not isinstance(found[n], LegatoError)
        np.testing.assert_allclose(found[n]["output0"], np.sum(rows[n]["x"]), rtol=1e-6)


class Picky:
    """A program that fails wherever there is a negative number."""

    function = "main"

    def __init__(self, exe: Executable) -> None:
        self.exe, self.program, self.batches = exe, exe.program, list[int]()

    def keeping(self) -> Picky:
        return self

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        self.batches.append(len(inputs["x"]))
        if inputs["x"].dtype.kind == "f" and (inputs["x"] < 0).any():
            raise RunError("a negative number")
        return self.exe.run(inputs)


def test_rows_that_fail_for_their_values_are_found() -> None:
    picky = Picky(compiled(RELU))
    x = np.abs(random((16, 3)))
    x[[5, 11]] *= -1
    found = Rows(picky).of_rows([{"x": row} for row in x])  # type: ignore[arg-type]
    assert [n for n, one in enumerate(found) if isinstance(one, RunError)] == [5, 11]
    right = [one["output"] for one in found if not isinstance(one, LegatoError)]
    np.testing.assert_array_equal(right, np.delete(x, [5, 11], 0))
    assert len(picky.batches) < 16, "those that are right are computed together"


def test_batches_that_need_too_much_memory_are_halved() -> None:
    exe = compiled(DEEP)
    x = random((16, 1024))
    limited = Executable(exe._parts, memory_limit=exe.peak_memory(n=4))
    with pytest.raises(RunError, match="memory"):
        limited(x)
    found = Rows(limited).of_rows([{"x": row} for row in x])
    np.testing.assert_allclose([one["output"] for one in found], exe(x), rtol=1e-5)  # type: ignore[call-overload, index]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SUM, "that of output: float32\\[3\\] is not"),
        (SQUARE, "n is more than the number of rows in x: float32\\[n, n\\]"),
        (PAIR, "the first dim of x: float32\\[n, 3\\] is n, and that of y: float32\\[4, 3\\]"),
        (GROUPS, "not every number n of rows fits: reshape: number of elements"),
        (SCALAR, "there are no rows in y: float32\\[\\]"),
        (HEAD + "def @main() { ones(shape=(3,), dtype=\"float32\") }", "it has no inputs"),
        (HEAD + "def @main(%x: Tensor[(n,), float32]) { (%x, argwhere(%x)) }", "no tensor of a known shape"),
    ],
)  # fmt: skip
def test_programs_without_batches_are_refused(text: str, why: str) -> None:
    with pytest.raises(RunError, match=f"takes no batches: .*{why}"):
        Rows(compiled(text))


def test_constraints_that_every_number_of_rows_meets_are_no_obstacle() -> None:
    """Such as what a reshape of each row asks of its other dims, and limits of memory."""
    text = HEAD + "def @main(%x: Tensor[(n, m), float32]) { reshape_like(reshape(%x, newshape=[0, -1, 2]), %x) }"
    exe = compiled(text)
    assert any("n" in str(c.a) for c in exe.program.functions["main"].constraints)
    x = random((5, 6))
    np.testing.assert_array_equal(Rows(exe).of_columns({"x": x})["output"], x)


def test_columns_that_do_not_fit_are_refused() -> None:
    rows = Rows(compiled(NET))
    with pytest.raises(RunError, match="different numbers of rows"):
        rows.of_columns({"x": random((2, 3)), "w": random((3, 2))})
    with pytest.raises(RunError, match="inputs: got x, wanted x"):
        rows.of_columns({"x": random((2, 3))})
    x = np.empty(2, object)
    x[0], x[1] = random((3,)), random((3, 1))
    with pytest.raises(RunError, match="row 1 of the batch: "):
        rows.of_columns({"x": x, "w": random((2, 2))})


def test_what_is_given_is_left_as_it_is() -> None:
    """A batch may be memory that others read, and is not written even where the program says that it may be."""
    import legato

    exe = legato.compile(legato.parse(RELU), donate=["x"])
    x = random((4, 3))
    x.flags.writeable = False
    np.testing.assert_array_equal(Rows(exe).of_columns({"x": x})["output"], np.maximum(x, 0))


def test_bfloat16_rows() -> None:
    import ml_dtypes

    x = random((3, 3)).astype(ml_dtypes.bfloat16)
    found = Rows(compiled(BFLOAT)).of_columns({"x": x})
    assert found["output0"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found["output1"], x.astype(np.float32))
