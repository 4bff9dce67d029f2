"""Compiled models under threads, forks and Ctrl-C, and with values at the edges of their dtypes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.module import Module
from legato.runtime.executable import Executable
from tests.graphs import leaves
from tests.runtime.test_pool import in_child

ROOT = Path(__file__).parents[2]
Array = np.ndarray[Any, Any]
SIZE = 24


def network() -> Module:
    """A small image classifier whose kernels are worth threads."""
    rng = np.random.default_rng(3)

    def weight(*shape: int) -> Array:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    b = Builder()
    x = b.var("x", (2, 3, SIZE, SIZE))
    y = b.nn.relu(b.nn.bias_add(b.nn.conv2d(x, weight(32, 3, 3, 3), padding=(1, 1)), weight(32, 1)[:, 0]))
    z = b.nn.conv2d(y, weight(32, 32, 3, 3), padding=(1, 1))
    y = b.nn.max_pool2d(b.nn.relu(b.add(z, y)), pool_size=(2, 2), strides=(2, 2))
    y = b.nn.dense(b.nn.batch_flatten(y), weight(50, 32 * (SIZE // 2) ** 2))
    return Module.from_expr(b.function([x], b.nn.softmax(b.nn.layer_norm(y, weight(50, 1)[:, 0], weight(50, 1)[:, 0]))))


@cache
def executable() -> Executable:
    return legato.compile(network(), threads=4)


def image(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((2, 3, SIZE, SIZE)).astype(np.float32)


def test_the_network_is_right() -> None:
    wanted = evaluate(network(), [image(0)], float64=True)
    np.testing.assert_allclose(executable()(image(0)), wanted, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7])
def test_threads_do_not_change_bits(threads: int) -> None:
    assert executable().with_threads(threads)(image(0)).tobytes() == executable()(image(0)).tobytes()


def test_eight_threads_call_one_executable() -> None:
    exe = executable()
    wanted = [exe(image(n)).tobytes() for n in range(8)]
    wrong: list[str] = []
    start = threading.Barrier(8)

    def call(n: int) -> None:
        x = image(n)
        start.wait()
        for _ in range(25):
            if exe(x).tobytes() != wanted[n]:
                wrong.append(f"thread {n}")

    threads = [threading.Thread(target=call, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_fork_after_a_call() -> None:
    exe = executable()
    wanted = exe(image(1)).tobytes()
    in_child(lambda: all(exe(image(1)).tobytes() == wanted for _ in range(3)))
    assert exe(image(1)).tobytes() == wanted


def test_compiled_in_a_forked_child() -> None:
    """The child compiles anew: nothing that the parent holds is waited for."""
    executable()(image(1))
    in_child(lambda: legato.compile(network())(image(2)).shape == (2, 50))


def test_more_threads_than_cores() -> None:
    """Waiting threads let the working ones run: four on two cores end as one does, with the same bits."""
    code = """
import os
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
from tests.lower.test_robustness import executable, image
results = {executable().with_threads(threads)(image(n)).tobytes() for threads in (1, 4) for n in [0] * 10}
print(len(results))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == "1\n"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": "src:."}


ENDLESS = """
    def @loop(%i: int32, %x: Tensor[(200, 200), float32]) -> Tensor[(200, 200), float32] {
      if (less(%i, 0)) { %x } else { @loop(%i, tanh(matmul(%x, %x))) }
    }
    def @main(%i: int32, %x: Tensor[(200, 200), float32]) { @loop(%i, %x) }"""


def test_ctrl_c_during_a_long_call() -> None:
    code = f"""
import signal
import numpy as np, legato
from tests.interrupts import when_inside
signal.signal(signal.SIGINT, signal.default_int_handler)
exe = legato.compile(legato.parse('#[version = "0.0.5"]' + {ENDLESS!r}), threads=2)
x = np.ones((200, 200), np.float32)
when_inside(lambda: print("ready", flush=True))
try:
    exe(np.int32(1), x)
except KeyboardInterrupt as error:
    print(type(error).__name__, error, flush=True)
print(float(exe(np.int32(-1), x).sum()), flush=True)
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                          env=environment()) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate()
        finally:
            process.kill()
    assert (process.returncode, err) == (0, "")
    assert out.splitlines() == ["InterruptError interrupted by Ctrl-C", "40000.0"]


# ------------------------------------------------------------------ values at the edges

NAN, INF = float("nan"), float("inf")
EDGES = np.array(
    [NAN, INF, -INF, 0.0, -0.0, 1e-40, 3e38, -3e38, 1.5, -2.5, 88.0, -88.0, 1e10, 0.5, -0.5, 7.0], np.float32
)


TINY = float(np.finfo(np.float32).tiny)


def agree(text: str, *args: Array, rtol: float = 1e-5) -> None:
    """Compiled as interpreted, NaN and ±∞ at the same places; subnormal numbers count as 0 where not exact."""
    module = legato.parse(f'#[version = "0.0.5"]\n{text}')
    without = [np.where(np.abs(x) < TINY, 0, x).astype(x.dtype) if x.dtype.kind == "f" else x for x in args]
    for precision, meant, atol in (("exact", args, 0), (None, without, TINY)):
        wanted = evaluate(module, meant)
        for target in ("host", "x86-64-v2"):
            got = legato.compile(module, target=target, precision=precision)(*args)
            for g, w in zip(leaves(got), leaves(wanted), strict=True):
                np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)


INDICES = np.array([-(2**31), -100, -5, -1, 0, 3, 4, 100, 2**31 - 1], np.int32)


def test_indices_out_of_range() -> None:
    agree(
        """
    def @main(%x: Tensor[(n, 3), float32], %i: Tensor[(m,), int32]) {
      (take(%x, %i, axis=0), take(%x, %i, axis=0, mode="wrap"), take(%x, %i), take(%x, %i, axis=1, mode="fast"),
       gather(%x, reshape(%i, newshape=[-1, 3]), axis=0), one_hot(%i, 1f, 0f, depth=5, dtype="float32"),
       gather_nd(%x, reshape(%i, newshape=[1, -1])))
    }""",
        np.arange(12, dtype=np.float32).reshape(4, 3), INDICES,
    )  # fmt: skip


def test_scattered_out_of_range() -> None:
    agree(
        """
    def @main(%x: Tensor[(9,), float32], %i: Tensor[(9,), int32]) {
      (scatter_elements(%x, %i, tanh(%x)), scatter_nd(%x, reshape(%i, newshape=[1, 9]), tanh(%x)))
    }""",
        np.arange(9, dtype=np.float32), INDICES,
    )  # fmt: skip


def test_integer_division_by_zero() -> None:
    low = np.iinfo(np.int32).min
    agree(
        """
    def @main(%x: Tensor[(n,), int32], %y: Tensor[(n,), int32]) {
      (divide(%x, %y), mod(%x, %y), floor_divide(%x, %y), floor_mod(%x, %y), left_shift(%x, %y), right_shift(%x, %y),
       abs(%x), negative(%x), multiply(%x, %x), power(%x, %y))
    }""",
        np.array([1, low, 5, -7, 0, low], np.int32), np.array([0, -1, 0, 33, 0, 2], np.int32),
    )  # fmt: skip


def test_integer_division_by_a_zero_dim() -> None:
    agree(
        'def @main(%x: Tensor[(n,), int32]) { floor_divide(sum(%x), cast(ndarray_size(%x), dtype="int32")) }',
        np.zeros(0, np.int32),
    )


def test_casts_at_the_edges() -> None:
    agree(
        """
    def @main(%x: Tensor[(n,), float32]) {
      (cast(%x, dtype="int8"), cast(%x, dtype="int32"), cast(%x, dtype="uint8"), cast(%x, dtype="int64"),
       cast(%x, dtype="bool"), cast(%x, dtype="float16"), cast(cast(%x, dtype="bfloat16"), dtype="float32"))
    }""",
        EDGES,
    )


def test_nan_and_infinity_through_a_network() -> None:
    agree(
        """
    def @main(%x: Tensor[(4, 4), float32]) {
      let %e = tanh(%x);
      (nn.relu(%x), exp(%x), sigmoid(%x), %e, sqrt(%x), log(%x), erf(%x), max(%x, axis=[1]), min(%x, axis=[0]),
       sum(%x, axis=[1]), nn.softmax(%e), argmax(%x, axis=1), argmin(%x, axis=1), maximum(%x, %e),
       clip(%x, a_min=-1f, a_max=1f), sort(%x, axis=1), matmul(%e, %e),
       nn.max_pool2d(reshape(%x, newshape=[1, 1, 4, 4]), pool_size=[2, 2]))
    }""",
        EDGES.reshape(4, 4),
    )


def test_infinity_in_long_sums() -> None:
    """Of a sum in parts, what was rounded off is kept; infinity less infinity is not rounding."""
    x = np.ones((1, 200), np.float32)
    x[0, 3] = INF
    y = np.ones((200, 9), np.float32)
    y[7, 0], y[150, 1], y[20, 2] = INF, -INF, NAN
    y[5:8, 3] = 3e38
    y[100, 4], y[101, 4] = INF, -INF
    agree(
        """
    def @main(%x: Tensor[(1, n), float32], %y: Tensor[(200, 9), float32], %z: Tensor[(n, 9), float32]) {
      (sum(%y, axis=[0]), sum(%z, axis=[0]), sum(%z, axis=[1]), nn.matmul(%x, abs(%z)), mean(%y, axis=[0, 1]))
    }""",
        x, y, y,
    )  # fmt: skip
