"""Loops that add rows to what they carry: compiled is interpreted, and a turn takes time for the rows alone."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import numpy as np
import pytest

import legato
from legato.base.errors import RunError
from legato.runtime.executable import Executable
from legato.runtime.recorder import Recorder
from tests.lower.hosts.programs import agree, leaked, lowered
from tests.lower.test_programs import floats, int32

ROUNDS = (0, 1, 2, 7, 64)
ROW = "expand_dims(%y, axis=0)"


GROWN = "sum(cumsum(@, axis=0), axis=[0]), shape_of(@)"  # of known extents, and tells of all rows and their order


class Carried(NamedTuple):
    """What a loop carries: its type, what it is first, and after a turn; what is asked of it in the end.

    `@` stands for it, `k@` for a dim of its own. In a turn there are the counter %i, a row %y, the row before it, %x,
    and a row of symbolic extent, %v.
    """

    ty: str
    first: str
    after: str
    told: str = GROWN


EMPTY = ("Tensor[(k@, 3), float32]", 'zeros(shape=[0, 3], dtype="float32")')
ONE = ("Tensor[(k@, 3), float32]", "expand_dims(%x, axis=0)")
NINE = ("Tensor[(9, 3), float32]", 'zeros(shape=[9, 3], dtype="float32")')
CARRIED = {
    "a row": Carried(*EMPTY, f"concatenate((@, {ROW}))"),
    "two rows": Carried(*EMPTY, f"concatenate((@, {ROW}, expand_dims(%x, axis=0)))"),
    "rows in two steps": Carried(*EMPTY, f"concatenate((concatenate((@, {ROW})), expand_dims(%x, axis=0)))"),
    "a number": Carried("Tensor[(k@,), float32]", 'zeros(shape=[0], dtype="float32")',
                        "concatenate((@, reshape(sum(%y), newshape=[1])))"),
    "another axis": Carried("Tensor[(1, 1, k@, 3), float32]", 'zeros(shape=[1, 1, 0, 3], dtype="float32")',
                            "concatenate((@, reshape(%y, newshape=[1, 1, 1, 3])), axis=2)",
                            "sum(cumsum(@, axis=2), axis=[2]), shape_of(@)"),
    "a symbolic row": Carried("Tensor[(k@, m), float32]", 'zeros(shape=[0, m], dtype="float32")',
                              "concatenate((@, expand_dims(%v, axis=0)))"),
    "a row now and then": Carried(*EMPTY, f"if (sum(%y) > 0f) {{ concatenate((@, {ROW})) }} else {{ @ }}"),
    "rows of its own": Carried(*ONE, "concatenate((@, strided_slice(@, begin=[0], end=[1])))"),
    "a sum of all": Carried(*ONE, "concatenate((@, expand_dims(tanh(sum(@, axis=[0])), axis=0)))"),
    "the last row": Carried(*ONE, "concatenate((@, expand_dims(take(@, %i, axis=0) * 0.5f, axis=0)))"),
    "in front": Carried(*EMPTY, f"concatenate(({ROW}, @))"),
    "in a tuple": Carried("(Tensor[(k@, 3), float32], Tensor[(3,), float32])", f"({EMPTY[1]}, %x)",
                          f"(concatenate((@.0, {ROW})), %y)", GROWN.replace("@", "@.0")),
    "put": Carried(*NINE, f"scatter_nd(@, reshape(%i, newshape=[1, 1]), {ROW})", "@"),
    "put anywhere": Carried(*NINE, f"scatter_nd(@, reshape(%i * 7 - 20, newshape=[1, 1]), {ROW})", "@"),
    "put twice": Carried(*NINE, f"scatter_nd(scatter_nd(@, reshape(%i, newshape=[1, 1]), {ROW}), "
                                "reshape(8 - %i, newshape=[1, 1]), expand_dims(%x, axis=0))", "@"),
    "put what was there": Carried(*NINE, "scatter_nd(@, reshape(%i, newshape=[1, 1]), "
                                         "expand_dims(take(@, %i - 1, axis=0) + %y, axis=0))", "@"),
    "put now and then": Carried(*NINE, "if (sum(%y) > 0f) { scatter_nd(@, reshape(%i, newshape=[1, 1]), "
                                       f"{ROW}) }} else {{ @ }}", "@"),
    "put, and the old one": Carried(f"({NINE[0]}, {NINE[0]})", f"({NINE[1]}, {NINE[1]})",
                                    f"(scatter_nd(@.0, reshape(%i, newshape=[1, 1]), {ROW}), @.0)", "@.0, @.1"),
}  # fmt: skip


def program(names: list[str], go: str = "%i < %n") -> str:
    """A loop that carries these."""
    carried = [Carried(*(part.replace("k@", f"k{n}") for part in CARRIED[name])) for n, name in enumerate(names)]
    params = [f"%s{n}: {c.ty}" for n, c in enumerate(carried)]
    after = [c.after.replace("@", f"%s{n}") for n, c in enumerate(carried)]
    told = [c.told.replace("@", f"%r.{n}") for n, c in enumerate(carried)]
    late = [c.ty.replace(f"k{n}", "?") for n, c in enumerate(carried)]
    return f"""
    def @loop({", ".join(["%i: int32, %n: int32, %x: Tensor[(3,), float32], %v: Tensor[(m,), float32]", *params])})
        -> ({", ".join(late)},) {{
      if ({go}) {{
        let %y = tanh(%x * 2f - 0.3f);
        @loop({", ".join(["%i + 1, %n, %y, exp(0f - %v)", *after])})
      }} else {{ ({", ".join(f"%s{n}" for n in range(len(names)))},) }}
    }}
    def @main(%n: int32, %x: Tensor[(3,), float32], %v: Tensor[(m,), float32]) {{
      let %r = @loop({", ".join(["0, %n, %x, %v", *(c.first for c in carried)])});
      ({", ".join(told)},)
    }}"""


@pytest.mark.parametrize("name", CARRIED)
@pytest.mark.shared(3)
def test_loops(name: str) -> None:
    agree(program([name]), *([int32(n), floats(3), floats(5)] for n in ROUNDS))


@pytest.mark.parametrize("seed", range(4))
def test_several_at_once(seed: int) -> None:
    """Some of them leave early."""
    chosen = random.Random(seed).choices(list(CARRIED), k=3)
    go = "(%i < %n)" if seed % 2 else "logical_and(%i < %n, sum(%x) < 2.5f)"
    agree(program(chosen, go), *([int32(n), floats(3), floats(2)] for n in ROUNDS))


def moved(exe: Executable, rounds: int) -> int:
    """The bytes that the kernels of a call read and write; of the same numbers each time, which branches depend on."""
    recorder = Recorder(exe)
    x, v = np.array([0.5, -1, 2], np.float32), np.array([1, -0.5], np.float32)
    inputs = dict(zip((i.name for i in exe.inputs), [int32(rounds), x, v], strict=True))
    total = 0
    for launch in recorder.runs(inputs, 0.0, 1, 1)[0].launches:
        kernel = recorder.kernels[launch.kernel]
        total += kernel.work({name: launch.words[word] for name, word in kernel.dims.items()}).bytes
    return total


FEW = ["a row", "two rows", "another axis", "a symbolic row", "a row now and then", "in a tuple"]


@pytest.mark.parametrize("names", [FEW, ["the last row", "rows of its own"]])
def test_bytes_are_linear_in_the_rounds(names: list[str]) -> None:
    """What copies all that there is in each turn moves four times as much in twice the rounds."""
    exe = legato.compile(legato.parse(f'#[version = "0.0.5"]\n{program(names)}'))
    few, many = moved(exe, 300), moved(exe, 600)
    assert many < 2.1 * few
    assert moved(legato.compile(legato.parse(f'#[version = "0.0.5"]\n{program(["in front"])}')), 600) > many


def turn(text: str) -> str:
    """What the loop of a program does in a turn."""
    return str(lowered(text).functions["loop"]).split("while", 1)[1]


@pytest.mark.parametrize("name", ["put", "put anywhere", "put twice", "put what was there"])
def test_rows_are_put_where_the_old_value_lies(name: str) -> None:
    goes_on = turn(program([name])).split("} else {")[0]
    assert "view out_0_rows" in goes_on  # which holds it, since the loop returns it
    assert not re.search(r"launch @copy_\d+\(.*\bout_0\b", goes_on)


KEPT = """
    type Kept { More(Tensor[(k, 3), float32], Tensor[(9, 3), float32], Kept), Nothing }
    def @all(%kept: Kept) -> Tensor[(3,), float32] {
      match (%kept) { More(%a, %b, %rest) => sum(%a, axis=[0]) + sum(%b, axis=[0]) * 0.5f + @all(%rest) * 0.9f,
                      Nothing => zeros(shape=[3], dtype="float32") }
    }
    def @loop(%i: int32, %n: int32, %a: Tensor[(k, 3), float32], %b: Tensor[(9, 3), float32],
              %cell: ref(Tensor[(9, 3), float32]), %kept: Kept) -> (Kept, Tensor[(9, 3), float32]) {
      if (%i < %n) {
        let %row = tanh(take(%a, -1, axis=0) * 2f - 0.1f);
        ref_write(%cell, ref_read(%cell) + %b);
        let %more = if (floor_mod(%i, 2) == 0) { More(%a, %b, %kept) } else { %kept };
        @loop(%i + 1, %n, concatenate((%a, expand_dims(%row, axis=0))),
              scatter_nd(%b, reshape(%i, newshape=[1, 1]), expand_dims(%row, axis=0)), %cell, %more)
      } else { (More(%a, %b, %kept), ref_read(%cell)) }
    }
    def @main(%n: int32, %x: Tensor[(1, 3), float32]) {
      let %zero = zeros(shape=[9, 3], dtype="float32");
      let %r = @loop(0, %n, %x, %zero, ref(%zero), Nothing);
      (@all(%r.0), %r.1)
    }"""


def test_what_somebody_else_has_is_left_as_it_is() -> None:
    """Every other turn an object refers to what the loop carries."""
    agree(KEPT, *([int32(n), floats(1, 3)] for n in ROUNDS[:-1]))


SHARED = """
    def @grown(%i: int32, %a: Tensor[(k, 3), float32], %old: Tensor[(j, 3), float32])
        -> (Tensor[(?, 3), float32], Tensor[(?, 3), float32]) {
      if (%i < 1) { (%a, %old) } else { @grown(%i - 1, concatenate((%a, %a * 0.5f)), %a) }
    }
    def @doubled(%i: int32, %a: Tensor[(k, 3), float32]) -> Tensor[(?, 3), float32] {
      if (%i < 1) { %a } else { @doubled(%i - 1, concatenate((%a, %a))) }
    }
    def @deep(%i: int32, %a: Tensor[(k, 3), float32]) -> Tensor[(3,), float32] {
      if (%i < 1) { sum(%a, axis=[0]) } else {
        let %inner = @deep(%i - 1, concatenate((%a, tanh(strided_slice(%a, begin=[0], end=[1])))));
        %inner + sum(%a, axis=[0])
      }
    }
    def @main(%i: int32, %x: Tensor[(2, 3), float32]) {
      let %r = @grown(%i, %x, %x);
      let %d = @doubled(%i, %x);
      (sum(%r.0, axis=[0]), shape_of(%r.0), sum(%r.1, axis=[0]), shape_of(%d), sum(%d, axis=[0]), @deep(%i, %x), %x)
    }"""


def test_tensors_that_are_added_to_themselves_and_needed_later() -> None:
    agree(SHARED, *([int32(n), floats(2, 3)] for n in (0, 1, 2, 5)))


def test_the_limit_of_memory_holds() -> None:
    """An object that grows is twice in memory for a moment, and never more often than that."""
    text = program(["a row"]).replace("sum(cumsum(%r.0, axis=0), axis=[0]), ", "")
    exe = legato.compile(legato.parse(f'#[version = "0.0.5"]\n{text}'), memory_limit=8 << 20)
    assert exe(int32(250_000), floats(3), floats(1))[0][0] == 250_000
    with pytest.raises(RunError, match="memory"):
        exe(int32(800_000), floats(3), floats(1))
    assert exe(int32(250_000), floats(3), floats(1))[0][0] == 250_000
    assert leaked(exe) == 0
