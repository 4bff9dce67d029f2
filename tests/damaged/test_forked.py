"""Whatever an attempt does, it is told of, and those behind it are tried."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from legato.base.errors import InternalError, ParseError
from tests.damaged.forked import ACCEPTED, REFUSED, Limits, tried

LIMITS = Limits(seconds=0.3, waiting=1.0, bytes=256 << 20)


def work_for_ever() -> None:
    while True:
        pass


def fail(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


@pytest.mark.parametrize(
    ("what", "verdict"),
    [
        (lambda: None, ACCEPTED),
        (fail(ParseError("no")), REFUSED),
        (fail(ValueError("untyped")), "ValueError: untyped"),
        (fail(InternalError("a bug")), "InternalError: a bug"),
        (fail(SystemExit(0)), "SystemExit: 0"),
        (lambda: bytearray(1 << 30), "MemoryError"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "the process ended: SIGKILL"),
        (lambda: os._exit(3), "the process ended: exit code 3"),
        (work_for_ever, "it takes too long"),
        (lambda: time.sleep(1e6), "it waits for something"),
    ],
)
def test_what_came_of_it(what: Callable[[], object], verdict: str, tmp_path: Path) -> None:
    def attempt(number: int, folder: Path) -> bool:
        (folder / "made").touch()
        if number == 2:
            what()
        return True

    found = {one.number: one.verdict for one in tried(attempt, range(5), tmp_path, jobs=2, limits=LIMITS, batch=4)}
    assert found.pop(2).strip().endswith(verdict)
    assert found == dict.fromkeys((0, 1, 3, 4), ACCEPTED)
    kept = [] if verdict in (ACCEPTED, REFUSED) else [tmp_path / "2"]
    assert list(tmp_path.iterdir()) == kept
    assert all((folder / "made").exists() for folder in kept)
