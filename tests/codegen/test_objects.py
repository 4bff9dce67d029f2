"""Objects in compiled host functions: the same as in the definition, and nothing is left behind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.target import host
from legato.tir import interp
from legato.tir.stmt import Func
from legato.tir.verify import verify_all
from tests.codegen import objects
from tests.codegen.running import build
from tests.programs.settings import examples
from tests.tir.test_objects import GROW, LISTS, grown, module

CHAIN = objects.chain()


def outcome(funcs: list[Func], name: str, out: np.ndarray, n: int) -> tuple[int, list[int]]:
    """Status and results of the compiled function."""
    words = np.array([out.ctypes.data, n], np.int64)
    status = build(funcs, host()).run_host(name, words)
    return status, out.ravel().tolist()


@examples(40, fuzz=False)
@given(st.integers(0, 1 << 30), st.integers(0, 20))
def test_compiled_is_interpreted(seed: int, n: int) -> None:
    func = objects.Generator(seed).func()
    functions = {"f": func, "chain": CHAIN}
    verify_all(functions, final=True)
    wanted = np.zeros(3, np.int64)
    status = interp.run(func, [wanted, n], functions=functions)
    got = outcome([CHAIN, func], "f", np.zeros(3, np.int64), n)
    assert got[0] == status
    if not status:
        assert got[1] == wanted.tolist()


@pytest.mark.parametrize("n", [0, 1, 999, 1000, 1001, 100_000])
def test_lists(n: int) -> None:
    assert outcome(list(LISTS.values()), "main", np.zeros((), np.int64), n) == (0, [n * (n - 1) // 2])


@pytest.mark.parametrize("n", [1, 2, 9, 1000, 100_000])
def test_an_object_that_grows(n: int) -> None:
    assert outcome(list(module(GROW).values()), "main", np.zeros((), np.int64), n) == (0, [grown(n)])


def test_no_memory_for_an_object() -> None:
    assert outcome(list(LISTS.values()), "main", np.zeros((), np.int64), 1_000_000)[0] == 1  # of 16 MiB


REGISTERS = """host @main(y: Buffer[(3,), int64], n: index) {
  alloc a: Buffer[(), float16, scope=register];
  alloc b: Buffer[(), bool, scope=register];
  alloc c: Buffer[(), int8, scope=register];
  a[] = 1.5f16;
  b[] = False;
  c[] = -3i8;
  for i in 0..n {
    invoke @step(a, b, c, i);
  }
  y[0] = int64(a[] * 8f16);
  y[1] = select(b[], 1i64, 0i64);
  y[2] = int64(c[]);
}"""
STEP = """host @step(a: Buffer[(), float16], b: Buffer[(), bool], c: Buffer[(), int8], i: index) {
  a[] = a[] + float16(i);
  b[] = i < 3;
  c[] = c[] + int8(i);
}"""


@pytest.mark.parametrize("n", [0, 1, 3, 8])
def test_registers_are_changed_by_calls(n: int) -> None:
    functions = module(REGISTERS, STEP)
    wanted = np.zeros(3, np.int64)
    assert interp.run(functions["main"], [wanted, n], functions=functions) == 0
    assert outcome(list(functions.values()), "main", np.zeros(3, np.int64), n) == (0, wanted.tolist())


def test_switch() -> None:
    text = """host @main(y: Buffer[(3,), int64], n: index) {
      alloc a: Buffer[(), int64, scope=register];
      a[] = 5i64;
      switch n { case 3 { a[] = 3i64; } case -7 { y[1] = 7i64; } default { a[] = a[] * 2i64; } }
      switch int32(n) { case 3 { a[] = a[] + 1i64; } }
      switch n { default { y[2] = 1i64; } }
      switch n { }
      switch 4 { case 4 { y[1] = y[1] + 1i64; } default { y[1] = 99i64; } }
      y[0] = a[];
    }"""
    functions = module(text)
    for n in (3, -7, 0):
        wanted = np.zeros(3, np.int64)
        assert interp.run(functions["main"], [wanted, n]) == 0
        assert outcome(list(functions.values()), "main", np.zeros(3, np.int64), n) == (0, wanted.tolist())
