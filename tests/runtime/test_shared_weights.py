"""Processes that fork from one that has loaded a program share its weights (docs/howto/batch.md)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import legato

PROGRAM = """
#[version = "0.0.5"]
def @main(%x: Tensor[(1, 4096), float32], %w: Tensor[(4096, 4096), float32]) { nn.dense(%x, %w) }
"""
SIZE = 4 * 4096 * 4096


def own_bytes() -> int:
    """The bytes of memory that this process has for itself."""
    text = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8")
    return sum(1024 * int(kb) for kb in re.findall(r"^Private_(?:Clean|Dirty): +(\d+) kB$", text, re.MULTILINE))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # Python 3.12's
def test_a_child_has_no_weights_of_its_own(tmp_path: Path) -> None:
    w = np.ones((4096, 4096), "float32")
    legato.compile(legato.parse(PROGRAM), constants={"w": w}).save(tmp_path / "m.legato")
    del w
    exe = legato.load(tmp_path / "m.legato", threads=1)
    x = np.ones((1, 4096), "float32")
    wanted = exe(x)
    assert own_bytes() > SIZE  # before there is a child, all is the parent's
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        same = np.array_equal(exe(x), wanted)
        os.write(writing, f"{own_bytes()} {int(same)}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        own, same = map(int, pipe.read().split())
    os.waitpid(child, 0)
    assert same
    assert own < SIZE // 2
