"""Dims that only tensors inside values have: told by the first such tensor, checked by all others; open where there is
none, if nothing needs them. Compiled as interpreted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import RunError, UnsupportedError
from legato.interp import Data, evaluate
from legato.ir.module import Module
from tests.programs.values import same

ROWS = "List[Tensor[(n, 4), float32]]"
FUNCTIONS = {
    "sum": f"(%xs: {ROWS}) -> float32 "
    "{ @foldl(fn (%a: float32, %x: Tensor[(n, 4), float32]) { %a + sum(%x) }, 0f, %xs) }",
    "needs": f"(%xs: {ROWS}) {{ zeros(shape=[n, 2]) }}",
    "needs inside": f"(%xs: {ROWS}) {{ sum(ones(shape=[n + 1])) }}",
    "needs in a call": f"(%xs: {ROWS}) {{ @of(%xs) }}\n"
    "def @of[m: ShapeVar](%xs: List[Tensor[(m, 4), float32]]) { sum(ones(shape=[m])) }",
    "head or nothing": f"(%xs: {ROWS}) {{ match (%xs) {{ Cons(%x, _) => sum(%x + ones(shape=[n, 4])), Nil => -1f }} }}",
    "map": f"(%xs: {ROWS}) "
    "{ let %f = fn (%y: Tensor[(n, 4), float32]) { %y + ones(shape=[n, 4]) }; @map(%f, %xs) }",
    "pairs": f"(%xs: {ROWS}, %ys: {ROWS}) {{ @map(fn (%p: (Tensor[(n, 4), float32], Tensor[(n, 4), float32])) "
    "{ matmul(%p.0, transpose(%p.1)) }, @zip(%xs, %ys)) }",
    "beside an input": f"(%xs: {ROWS}, %y: Tensor[(n,), float32]) {{ match (%xs) "
    "{ Cons(%x, _) => sum(%x, axis=[1]) + %y, Nil => %y } }",
    "at least two rows": f"(%xs: {ROWS}) {{ match (%xs) {{ Cons(%x, _) => sum(strided_slice(%x, begin=[n - 2], "
    "end=[n], axes=[0])), Nil => 0f } }",
}


def function(name: str) -> Module:
    ranges = "[n: ShapeVar(2, 9)]" if name == "at least two rows" else "[n: ShapeVar]"
    return legato.parse(f'#[version = "0.0.5"]\ndef @main{ranges}{FUNCTIONS[name]}')


def rows(constructors: Any, *extents: int) -> Data:
    value = Data(constructors["Nil"], ())
    for k, n in enumerate(extents):
        value = Data(constructors["Cons"], (np.arange(4 * n, dtype=np.float32).reshape(n, 4) + k, value))
    return value


def outcome(call: Callable[..., Any], constructors: Any, arguments: Sequence[Any]) -> Any:
    """The result, or the RunError, of a call; lists are given by the extents of what they hold."""
    try:
        return call(*(rows(constructors, *a) if isinstance(a, tuple) else a for a in arguments))
    except RunError as error:
        return error


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_as_interpreted(name: str, tmp_path: Path) -> None:
    module = function(name)
    exe = legato.compile(module, threads=1)
    exe.save(tmp_path / "a.legato")
    ours = {c.name: c for data in module.types.values() for c in data.constructors}
    lists = [(), (2,), (3, 3, 3), (2, 3), (0,), (1,)]
    others: dict[str, list[Any]] = {"y": [np.ones(2, np.float32)], "ys": [(), (2,), (3, 3)]}
    for program in (exe, legato.load(tmp_path / "a.legato")):
        for arguments in product(lists, *(others[param.name] for param in exe.arguments[1:])):
            got = outcome(program, program.constructors, arguments)
            wanted = outcome(lambda *args: evaluate(module, args), ours, arguments)
            assert isinstance(got, RunError) == isinstance(wanted, RunError), (arguments, got, wanted)
            assert isinstance(got, RunError) or same(got, wanted)
        assert program.leaked == 0


@pytest.mark.parametrize("sizes", [None, {"n": [1, "2..5"]}])
def test_a_shape_tells_before_values_do(sizes: dict[str, Any] | None) -> None:
    module = legato.parse(f"""#[version = "0.0.5"]
def @main[n: ShapeVar](%xs: {ROWS}, %s: Shape[(n, n + 1)]) {{ (zeros(shape=[n, 2]), @rev(%xs), %s) }}""")
    exe = legato.compile(module, shapes=sizes)
    assert not exe.program.functions["main"].data_dims
    ours = {c.name: c for data in module.types.values() for c in data.constructors}
    for extents, n, more in product([(), (2,), (3, 3), (2, 3), (0,)], (0, 2, 3), (0, 1)):
        got = outcome(lambda xs, n=n, more=more: exe(xs, (n, n + 1 + more)), exe.constructors, [extents])
        wanted = outcome(lambda xs, n=n, more=more: evaluate(module, [xs, (n, n + 1 + more)]), ours, [extents])
        if sizes and not n:
            assert isinstance(got, RunError)
            continue
        assert isinstance(got, RunError) == isinstance(wanted, RunError) == bool(more or {*extents} - {n})
        assert isinstance(got, RunError) or same(got, wanted)


def test_what_an_empty_list_does_not_tell_is_named() -> None:
    exe = legato.compile(function("needs"))
    with pytest.raises(
        RunError, match='dim n: no argument tells it, and the program needs it: no tensor or shape in "xs" has it'
    ):
        exe(rows(exe.constructors))


def test_several_sizes_need_an_input_that_tells() -> None:
    with pytest.raises(UnsupportedError, match="several sizes of n, which only tensors and shapes inside values have"):
        legato.compile(function("sum"), shapes={"n": [1, 3]})


def test_one_size_is_enough_for_all() -> None:
    exe = legato.compile(function("sum"), shapes={"n": 3})
    assert exe(rows(exe.constructors, 3, 3)) == 66 + 78
    with pytest.raises(RunError, match="wrong shape or dtype"):
        exe(rows(exe.constructors, 2))


SHAPES = """#[version = "0.0.5"]
type Box { B(Shape[(?, 4)]), E }
def @main[n: ShapeVar](%xs: List[Shape[(n, n + 1)]], %b: Box) {
  (match (%xs) { Cons(%s, _) => sum(ones(shape=[n])), Nil => -1f },
   match (%b) { B(%s) => { let %t = match_cast(%s, Shape[(k, 4)]); sum(ones(shape=[k])) }, E => -2f }, %b)
}"""


def boxes(constructors: Any, shapes: Sequence[tuple[int, int]], box: tuple[int, int] | None) -> tuple[Data, Data]:
    value = Data(constructors["Nil"], ())
    for shape in shapes:
        value = Data(constructors["Cons"], (shape, value))
    return value, Data(constructors["E"], ()) if box is None else Data(constructors["B"], (box,))


def test_shapes_in_values_tell_dims_and_are_checked(tmp_path: Path) -> None:
    module = legato.parse(SHAPES)
    legato.compile(module).save(tmp_path / "a.legato")
    exe = legato.load(tmp_path / "a.legato")
    ours = {c.name: c for data in module.types.values() for c in data.constructors}
    lists: list[Any] = [(), ((2, 3),), ((0, 1), (0, 1)), ((2, 3), (3, 4)), ((2, 4),), ((-1, 0),)]
    for xs, box in product(lists, [None, (5, 4), (0, 4), (5, 3), (-2, 4)]):
        got = outcome(exe, exe.constructors, boxes(exe.constructors, xs, box))
        wanted = outcome(lambda *args: evaluate(module, args), ours, boxes(ours, xs, box))
        assert isinstance(got, RunError) == isinstance(wanted, RunError), (xs, box, got, wanted)
        assert isinstance(got, RunError) == (xs not in lists[:3] or (box is not None and box not in [(5, 4), (0, 4)]))
        if not isinstance(got, RunError):
            assert got[:2] == wanted[:2]
            assert [int(d) for field in got[2].fields for d in field] == [d for f in wanted[2].fields for d in f]
    for odd in ((2.0, 3), (True, 3), (2,), 2, (np.array([2]), 3), (np.int32(2), np.array(3, np.int32)), (2**64, 3)):
        with pytest.raises(RunError):
            exe(*boxes(exe.constructors, [odd], None))  # type: ignore[list-item]
    assert exe.leaked == 0
