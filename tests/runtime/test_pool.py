"""Threads: the same bits for any number of them, many callers at once, forks, the floating-point environment."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from legato.runtime import Executable, cpu_count
from legato.runtime.binding import library
from tests.runtime.images import executable, program

LAUNCHES = 2000
KEEP, FLUSH = 0x1F80, 0x9FC0  # MXCSR: exceptions masked; flush-to-zero and denormals-are-zero


def counted(exe: Executable, n: int = 7, launches: int = LAUNCHES) -> list[int]:
    """What `count` returns: `launches` for each of n elements."""
    y = exe(np.zeros((n, launches), np.uint8))
    assert isinstance(y, np.ndarray)
    return y.tolist()


def result(exe: Executable, *args: np.ndarray) -> np.ndarray:
    y = exe(*args)
    assert isinstance(y, np.ndarray)
    return y


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 8])
def test_every_share_runs_once_per_launch(threads: int) -> None:
    assert counted(executable("count", threads=threads)) == [LAUNCHES] * 7


def test_same_bits_for_any_number_of_threads() -> None:
    x = np.random.default_rng(0).standard_normal((37, 1001), np.float32)
    results = [result(executable("row_sum", threads=threads), x).tobytes() for threads in (1, 2, 3, 4, 16)]
    assert results == [results[0]] * 5


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_gang_size(threads: int) -> None:
    nt, nt_serial, control = result(executable("team", threads=threads), np.zeros(1, np.int64))
    assert (nt, nt_serial, control) == (threads, 1, FLUSH)
    assert library().lg_pool_workers() >= threads - 1


def met(exe: Executable, steps: int = 200, n: int = 13) -> tuple[list[int], int]:
    """What `meet` makes of 1, 2, 3, … in so many steps, and the number of threads that it had."""
    x = np.zeros((2, n), np.uint32)
    x[0] = np.arange(n) + steps
    y, threads = exe(x)
    return y[0].tolist(), int(threads[0])


def expected_of_meet(steps: int = 200, n: int = 13) -> list[int]:
    x = np.arange(n, dtype=np.uint32) + np.uint32(steps)
    for _ in range(steps):
        x = np.roll(x, 1) + np.roll(x, -1)
    return x.tolist()


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 8])
def test_threads_meet_at_barriers(threads: int) -> None:
    exe = executable("meet", threads=threads)
    for _ in range(20):
        values, seen = met(exe)
        assert values == expected_of_meet()
        assert 1 <= seen <= min(threads, os.cpu_count() or 1)  # two on one CPU would wait for each other


def test_barriers_with_many_callers_and_forks() -> None:
    meet, count = executable("meet", threads=4), executable("count", threads=3)
    expected = expected_of_meet()

    def caller(n: int) -> bool:
        return all(met(meet)[0] == expected if (n + k) % 2 else counted(count) == [LAUNCHES] * 7 for k in range(10))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(caller, range(4)))
    in_child(lambda: met(meet)[0] == expected)
    assert met(meet)[0] == expected


def test_default_number_of_threads() -> None:
    assert executable(threads=None).threads == cpu_count()


def test_a_call_that_finds_the_pool_busy_runs_on_its_own_thread() -> None:
    inside, leave = threading.Event(), threading.Event()
    seen: list[int] = []

    def in_the_middle(info: object, inputs: list[np.ndarray]) -> list[np.ndarray]:
        inside.set()
        leave.wait(60)
        return inputs

    # `spread` takes the gang by its first launch and then waits in the operator.
    holder = executable("launch_then_host", threads=2, host_ops=in_the_middle)  # type: ignore[arg-type]
    team = executable("team", threads=2)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(holder, np.ones(4, np.float32))
        assert inside.wait(60)
        seen.append(int(result(team, np.zeros(1, np.int64))[0]))
        leave.set()
        held.result(60)
    seen.append(int(result(team, np.zeros(1, np.int64))[0]))
    assert seen == [1, 2]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_eight_threads_call_one_executable(threads: int) -> None:
    exe = executable("row_sum", threads=threads)
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal((n, 33), np.float32) for n in range(1, 41)]
    expected = [result(exe, x).tobytes() for x in inputs]
    start = threading.Barrier(8)

    def caller(_: int) -> list[bytes]:
        start.wait()
        return [result(exe, x).tobytes() for _ in range(5) for x in inputs]

    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(caller, range(8)):
            assert got == expected * 5


def test_workspaces_are_reused() -> None:
    exe = executable("count", threads=2)
    for _ in range(5):
        counted(exe)
    assert len(exe._free) == 1


def in_child(work: Callable[[], bool]) -> None:
    """`work` in a forked process, which must end by itself and in good order."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork in a process with threads: that is the point
        child = os.fork()
    if child == 0:
        done = False
        try:
            done = work()
        finally:
            os._exit(0 if done else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_fork_after_a_call() -> None:
    exe = executable("count", threads=3)
    expected = counted(exe)

    def child() -> bool:
        fresh = library().lg_pool_workers() == 0
        return fresh and counted(exe) == expected and library().lg_pool_workers() == 2

    in_child(child)
    assert counted(exe) == expected


def test_fork_of_a_fork() -> None:
    exe = executable("count", threads=2)
    expected = counted(exe)

    def grandchild() -> bool:
        return counted(exe) == expected

    def child() -> bool:
        counted(exe)
        in_child(grandchild)
        return counted(exe) == expected

    in_child(child)


def test_fork_while_another_thread_calls() -> None:
    exe = executable("count", threads=2)
    expected = counted(exe)
    stop = threading.Event()

    def caller() -> None:
        while not stop.is_set():
            counted(exe)

    thread = threading.Thread(target=caller)
    thread.start()
    try:
        for _ in range(10):
            in_child(lambda: counted(exe) == expected)
    finally:
        stop.set()
        thread.join()


def test_fork_inside_an_operator() -> None:
    in_the_child: list[int] = []

    def fork(info: object, inputs: list[np.ndarray]) -> list[np.ndarray]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            in_the_child.append(os.fork())
        return [inputs[0] * np.float32(2)]

    x = np.arange(4, dtype=np.float32)
    y = executable("launch_then_host", threads=2, host_ops=fork)(x)  # type: ignore[arg-type]
    right = np.array_equal(y, x * 2) and counted(executable("count", threads=2)) == [LAUNCHES] * 7  # type: ignore[arg-type]
    if in_the_child == [0]:
        os._exit(0 if right else 1)
    assert right
    _, status = os.waitpid(in_the_child[0], 0)
    assert os.waitstatus_to_exitcode(status) == 0


def _spawned(threads: int) -> list[int]:
    return counted(executable("count", threads=threads))


def test_spawned_process() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_spawned, (2,)) == [LAUNCHES] * 7


@pytest.mark.parametrize("precision", ["default", "exact"])
@pytest.mark.parametrize("callers", [False, True])
def test_floating_point_environment_is_set_and_restored(precision: str, callers: bool, torch: Any) -> None:
    # PyTorch can switch the calling thread to count subnormal numbers as 0; kernels must not see whether it did.
    tiny, flushes = np.full(8, 1e-40, np.float32), precision != "exact"
    made = program(precision=precision)
    assert torch.set_flush_denormal(callers)
    try:
        scaled = result(executable(threads=2, scale=2, of=made), tiny)
        control = result(executable("team", threads=2, of=made), np.zeros(1, np.int64))[2]
        assert (tiny * np.float32(2) == 0).all() == callers  # the caller's state is as it was
    finally:
        torch.set_flush_denormal(False)
    assert control == (FLUSH if flushes else KEEP)
    np.testing.assert_array_equal(scaled, np.zeros(8) if flushes else tiny * np.float32(2))
    assert scaled.any() != flushes
