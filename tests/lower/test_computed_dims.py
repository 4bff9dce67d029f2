"""Dims of numbers that the program computes: compiled = interpreted, in what they refuse too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import InternalError, RunError, TypeCheckError
from legato.interp import evaluate
from legato.ir.module import Module
from legato.runtime.fill import feeds

HEAD = '#[version = "0.0.5"]\n'
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def outcome(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except InternalError:
        raise
    except RunError:
        return None


def agree(module: Module, *cases: list[Any]) -> list[Any]:
    exe = legato.compile(module)
    found = []
    for args in cases:
        expected = outcome(lambda a=args: evaluate(module, a))  # type: ignore[misc]
        got = outcome(lambda a=args: exe(*a))  # type: ignore[misc]
        assert (got is None) == (expected is None), args
        leaves = [(got, expected)] if not isinstance(expected, tuple) else list(zip(got, expected, strict=True))
        for a, b in leaves if expected is not None else ():
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)
        found.append(expected)
    return found


def ints(*values: int, dtype: str = "int64") -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_the_new_shape_of_a_tensor(dtype: str) -> None:
    module = legato.parse(f"""{HEAD}
    def @main(%x: Tensor[(n, 4), float32], %s: Tensor[(2,), {dtype}]) {{
      let %d = match_cast(tensor_to_shape(%s), Shape[(a, b)]);
      (exp(reshape(%x, newshape=[a, b])), full(2f, shape=[a, 1]), %d, shape[a + b])
    }}""")
    shapes = [(3, 4), (2, 6), (12, 1), (5, 5), (0, 12)] + ([] if dtype == "uint8" else [(-1, 12), (-3, -4)])
    found = agree(module, *([X, ints(*s, dtype=dtype)] for s in shapes))
    assert [f is not None for f in found] == [True, True, True] + [False] * (len(shapes) - 3)


def test_a_number_that_the_program_computes() -> None:
    """The rows up to the largest element, in a branch, in a loop, and given to a function."""
    module = legato.parse(f"""{HEAD}
    def @rows(%x: Tensor[(n, 4), float32], %k: int64) -> Tensor[(?, 4), float32] {{
      let %d = match_cast(tensor_to_shape(reshape(%k, newshape=[1])), Shape[(m,)]);
      strided_slice(%x, begin=[0], end=[m], axes=[0])
    }}
    def @grow(%x: Tensor[(?, 4), float32], %k: int64) -> Tensor[(?, 4), float32] {{
      if (%k == 0i64) {{ %x }} else {{ @grow(concatenate((%x, @rows(%x, %k))), %k - 1i64) }}
    }}
    def @main(%x: Tensor[(n, 4), float32], %k: int64) {{
      (@rows(%x, %k), if (%k < 2i64) {{ @rows(%x, 3i64 - %k) }} else {{ %x }}, @grow(%x, %k))
    }}""")
    agree(module, *([x, np.array(k, np.int64)] for x in (X, X[:1], X[:0]) for k in (0, 1, 2, 5)))
    assert agree(module, [X, np.array(-1, np.int64)]) == [None]


def test_dims_must_be_equal_to_those_of_the_inputs() -> None:
    module = legato.parse(f"""{HEAD}
    def @main(%x: Tensor[(n, 4), float32], %s: Tensor[(1,), int64]) {{
      let %d = match_cast(tensor_to_shape(%s), Shape[(m,)]);
      %x + full(1f, shape=[m, 4])
    }}""")
    found = agree(module, *([X, ints(m)] for m in (3, 2, 4)))
    assert [f is not None for f in found] == [True, False, False]


def test_known_numbers_are_dims_before_anything_runs() -> None:
    module = legato.parse(f"{HEAD}def @main(%x: Tensor[(n, 4), float32]) {{ tensor_to_shape(shape_of(%x)) }}")
    assert "Shape[(n, 4)]" in str(module)


def test_what_has_no_known_number_of_elements_is_refused() -> None:
    with pytest.raises(TypeCheckError, match="in one dimension of known extent"):
        legato.parse(f"{HEAD}def @main(%s: Tensor[(n,), int64]) {{ tensor_to_shape(%s) }}")
    with pytest.raises(TypeCheckError, match="data must be integers"):
        legato.parse(f"{HEAD}def @main(%s: Tensor[(2,), float32]) {{ tensor_to_shape(%s) }}")


def test_where_a_tensor_is_not_zero() -> None:
    module = legato.parse(f"""{HEAD}
    def @main(%x: Tensor[(n, 4), float32]) {{
      let %w = argwhere(%x);
      let %column = strided_slice(%w, begin=[0], end=[1], axes=[1]);
      (%w, take(%x, squeeze(%column, axis=[1]), axis=0), sum(%column))
    }}""")
    agree(module, *([x] for x in (X, X % 3, X * 0, X[:0])))


NAMED = f"""{HEAD}
def @main(%x: Tensor[(n, 4), float32], %size: Tensor[(2,), int64]) {{
  let %dims = match_cast(tensor_to_shape(%size), Shape[(rows, columns)]);
  (reshape(%x, newshape=[rows, columns]), exp(%x), match_cast(argwhere(%x), Tensor[(hits, 2), int32]), Some(%x))
}}"""


def test_results_have_the_names_that_casts_give_their_dims() -> None:
    exe = legato.compile(legato.parse(NAMED), threads=1)
    outputs = ["output0: float32[rows, columns]", "output1: float32[n, 4]", "output2: int32[hits, 2]"]
    assert [str(leaf) for leaf in exe.outputs] == outputs
    assert [str(leaf).split(":")[0] for leaf in exe.results] == ["output0", "output1", "output2", "output3"]
    with pytest.raises(RunError, match="'hits' is computed by the program\n  hint: the inputs' dims are n"):
        feeds(exe.program.functions["main"], None, dims={"hits": 2})


def test_arrays_for_results_whose_shapes_are_computed() -> None:
    exe = legato.compile(legato.parse(NAMED), threads=1)
    given = {"x": np.eye(4, dtype=np.float32), "size": ints(2, 8)}
    fresh = exe.run(given)
    right = {"output0": np.zeros((2, 8), np.float32), "output1": np.zeros((4, 4), np.float32),
             "output2": np.zeros((4, 2), np.int32)}  # fmt: skip
    got = exe.run(given, out=right)
    assert list(got) == list(fresh)
    for name, array in right.items():
        assert got[name] is array
        np.testing.assert_array_equal(array, fresh[name])
    for name, shape in (("output0", (16, 1)), ("output0", (16,)), ("output2", (3, 2))):
        wrong = {**{n: np.full_like(a, 7) for n, a in right.items()}, name: np.full(shape, 7, right[name].dtype)}
        with pytest.raises(RunError, match=f'out "{name}": wrong shape or dtype'):
            exe.run(given, out=wrong)
        assert all((a == 7).all() for a in wrong.values())
    with pytest.raises(RunError, match=r"no array can be given for output output3: Option.*: the program makes it"):
        exe.run(given, out={"output3": np.zeros(3)})
