"""The arena of frames: limits of bytes and depth, what is kept between calls."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from legato.base.errors import RunError
from legato.runtime import Executable
from tests.runtime.images import executable, functions, program

MEGABYTE = 1 << 20


def nest(exe: Executable, depth: int, size: int) -> int:
    """`depth` nested frames of `size` bytes, three times over; the program checks that none is overwritten."""
    y = exe(np.array([depth, size]))
    assert isinstance(y, np.ndarray)
    return int(y[0])


@pytest.mark.parametrize("size", [0, 1, 8, 64, 65, 1000, 4096, 100_000, 5 * MEGABYTE])
@pytest.mark.parametrize("depth", [1, 2, 37])
def test_frames_nest(depth: int, size: int) -> None:
    exe = executable("nest")
    assert nest(exe, depth, size) == depth
    assert exe._free[0].peak == depth * max(64, -(-size // 64) * 64)


def test_a_planned_workspace_is_kept_and_nothing_else() -> None:
    info = replace(functions()["nest"], workspace=10 * 4096)
    exe = executable("nest", of=program(functions={"nest": info}))
    nest(exe, 10, 4096)
    assert exe._free[0].held == 10 * 4096
    nest(exe, 100, 4096)  # recursion takes more than was planned
    assert (exe._free[0].held, exe._free[0].peak) == (10 * 4096, 100 * 4096)
    assert int(exe.peak_memory) == 10 * 4096


def test_memory_limit() -> None:
    exe = executable("nest", memory_limit=MEGABYTE)
    assert nest(exe, 16, 65536) == 16
    with pytest.raises(RunError) as error:
        nest(exe, 17, 65536)
    assert str(error.value) == (
        "out of memory: no room for 65536 bytes of workspace beside 1048576 in use; memory_limit is 1048576\n"
        "  hint: smaller inputs, or a higher limit"
    )
    assert nest(exe, 16, 65536) == 16


def test_memory_limit_holds_for_the_plan() -> None:
    info = replace(functions()["nest"], workspace=2 * MEGABYTE)
    exe = executable("nest", memory_limit=MEGABYTE, of=program(functions={"nest": info}))
    with pytest.raises(
        RunError, match=r"^out of memory: no room for 2097152 bytes of workspace beside 0 in use; memory_limit"
    ):
        nest(exe, 1, 8)


@pytest.mark.parametrize("size", [-1, 1 << 60])
def test_absurd_frames(size: int) -> None:
    with pytest.raises(RunError, match=rf"^out of memory: no room for {size} bytes of workspace beside 0 in use$"):
        nest(executable("nest"), 1, size)


def test_absurd_plan() -> None:
    info = replace(functions()["nest"], workspace=1 << 62)
    with pytest.raises(RunError, match=f"planned at {1 << 62} bytes: more than {1 << 46}$"):
        nest(executable("nest", of=program(functions={"nest": info})), 1, 8)


def test_depth_limit() -> None:
    exe = executable("nest")
    for _ in range(2):
        with pytest.raises(RunError) as error:
            nest(exe, 10_000_000, 0)
        assert str(error.value) == "calls nest too deeply: the recursion of the program does not end, or too late"
    assert nest(exe, 1000, 64) == 1000


def test_depth_limit_on_a_small_stack() -> None:
    exe = executable("nest")
    failures: list[str] = []

    def caller() -> None:
        try:
            nest(exe, 10_000_000, 0)
        except RunError as error:
            failures.append(str(error))

    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=caller)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert failures == ["calls nest too deeply: the recursion of the program does not end, or too late"]
