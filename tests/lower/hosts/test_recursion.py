"""Calls that nest deeply: memory grows with them, the end of it is an error, and Ctrl-C ends them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import legato
from legato.base.errors import InterruptError, RunError
from legato.base.target import host
from legato.driver import CompileOptions, compile_module
from legato.interp import evaluate
from tests.lower.hosts.programs import leaked
from tests.lower.test_programs import compiled, floats, int32

STEPS = "".join(
    f"let %s{k} = {'%x' if not k else f'%s{k - 1}'} * 0.5f + {k}f; "
    f"let %t{k} = if (%s{k} > {3 * k}f) {{ %s{k} }} else {{ %s{k} - 1f }}; "
    for k in range(120)
)
CIRCLE = '#[version = "0.0.5"]\n' + "".join(
    f"""def @{a}(%n: int32, %x: float32) -> float32 {{
      if (%n == 0) {{ %x }} else {{ {STEPS} @{b}(%n - 1, %s119 + %t119) }}
    }}"""
    for a, b in (("a", "b"), ("b", "c"), ("c", "a"))
) + "def @main(%n: int32, %x: float32) { @a(%n, %x) + @b(%n, %x) + @c(%n, %x) }"  # fmt: skip


DEEP = """
    type List[A] { Cons(A, List[A]), Nil }
    def @deep(%n: int32, %x: Tensor[(?,), float32], %l: List[int32]) -> float32 {
      if (%n == 0) { sum(%x) } else {
        let %y = if (%n == 3) { %x } else { tanh(%x) };
        @deep(%n - 1, %x, Cons(%n, %l)) + @deep(%n - 1, %y, %l)
      }
    }
    def @main(%n: int32, %x: Tensor[(m,), float32]) { @deep(%n, %x, Nil) }"""


def circle(n: int, x: np.float32) -> np.float32:
    """What each of the three functions gives: all have the same steps."""
    half = np.float32(0.5)
    for _ in range(n):
        s = x
        for k in range(120):
            s = s * half + np.float32(k)
        x = s + (s if s > 357 else s - np.float32(1))
    return x


def test_long_functions_that_end_with_calls_of_each_other_nest() -> None:
    """They are too long to be one loop: each turn takes a frame, and where there is no more room, the call ends."""
    mod = legato.parse(CIRCLE)
    exe = compile_module(mod, CompileOptions(host(), memory_limit=16 << 20)).executable
    for n in (0, 1, 4, 30):
        assert exe(int32(n), np.float32(1)) == evaluate(mod, [int32(n), np.float32(1)])
    for n in (100, 1_000):
        assert exe(int32(n), np.float32(1)) == 3 * circle(n, np.float32(1))
    assert exe(int32(10_000), np.float32(1)) == exe(int32(1_000), np.float32(1)), "the numbers have settled"
    with pytest.raises(RunError, match=r"calls nest too deeply|out of memory"):
        exe(int32(100_000_000), np.float32(1))
    assert exe._free[-1].peak <= 16 << 20
    assert exe(int32(100), np.float32(1)) == 3 * circle(100, np.float32(1))


@pytest.fixture
def press_ctrl_c() -> Iterator[Callable[[], None]]:
    """Presses Ctrl-C in a moment, when it is called."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    yield timer.start
    timer.cancel()
    signal.signal(signal.SIGINT, old)


def test_ctrl_c_ends_a_deep_recursion(press_ctrl_c: Callable[[], None]) -> None:
    exe = compiled(DEEP)
    x = floats(4)
    press_ctrl_c()
    with pytest.raises(InterruptError, match="interrupted by Ctrl-C"):
        exe(int32(60), x)
    x = floats(4)
    np.testing.assert_allclose(exe(int32(3), x), evaluate(legato.parse(DEEP), [int32(3), x]), rtol=1e-5)
    assert leaked(exe) == 0
