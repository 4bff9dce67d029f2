"""Ctrl-C during a call, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = """
import signal, sys, threading, time
import numpy as np
import legato.base.errors
from tests.interrupts import when_inside
from tests.runtime.images import executable
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored
exe = executable({name!r}, threads=2, host_ops={host_ops})
def say(text): print(text, flush=True)
"""


def interrupted(code: str, name: str = "forever", host_ops: str = "None", signals: int = 1) -> list[str]:
    """The lines that `code` prints when Ctrl-C is pressed `signals` times, each when it has printed `ready`."""
    environment = os.environ | {"PYTHONPATH": "src:."}
    command = [sys.executable, "-c", START.format(name=name, host_ops=host_ops) + code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        try:
            for line in process.stdout:
                lines.append(line.strip())
                if lines[-1] == "ready" and signals:
                    signals -= 1
                    process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
        finally:
            process.kill()  # a test that runs out of time leaves nothing behind
    assert (process.returncode, errors) == (0, "")
    return lines


@pytest.mark.parametrize("launches", [0, 1])
def test_interrupt_between_kernels_and_in_a_loop(launches: int) -> None:
    code = f"""
for again in range(2):
    when_inside(lambda: say("ready"))
    try:
        exe(np.array([{launches}]))
    except KeyboardInterrupt as error:
        say(f"{{type(error).__name__}}: {{error}}")
say(exe.entry("main")(np.ones(2, np.float32)).tolist())
"""
    once = ["ready", "InterruptError: interrupted by Ctrl-C"]
    assert interrupted(code, signals=2) == [*once, *once, "[3.0, 3.0]"]


def test_python_handles_ctrl_c_again_after_a_call() -> None:
    code = """
exe.entry("main")(np.ones(2, np.float32))
try:
    say("ready")
    time.sleep(300)
except KeyboardInterrupt as error:
    say(type(error).__name__)
"""
    assert interrupted(code) == ["ready", "KeyboardInterrupt"]


def test_a_handler_of_the_program_keeps_the_signal() -> None:
    # Its handler runs when the call has ended by itself: whoever handles Ctrl-C decides what it means.
    code = """
signal.signal(signal.SIGINT, lambda *_: say("handled"))
say("ready")
exe.with_threads(1)(np.zeros((1, 20_000_000), np.uint8))  # launches
say("ended")
"""
    assert interrupted(code, name="count") == ["ready", "handled", "ended"]


def test_ctrl_c_in_an_operator_run_by_python() -> None:
    code = """
try:
    exe(np.ones(2, np.float32))
except KeyboardInterrupt as error:
    say(f"{type(error).__name__}: {error}")
"""
    lines = interrupted(code, name="by_host", host_ops='lambda op, inputs: (say("ready"), time.sleep(300))')
    assert lines == ["ready", "InterruptError: interrupted by Ctrl-C"]


def test_ctrl_c_while_other_threads_call() -> None:
    # Python gives the signal to the main thread; calls of other threads go on.
    code = """
totals = []
def work():
    for _ in range(200): totals.append(exe(np.zeros((4, 2000), np.uint8)).sum())
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
try:
    say("ready")
    for n in range(10**9): exe(np.zeros((4, 2000), np.uint8))
except KeyboardInterrupt as error:
    say("interrupted")
for thread in threads: thread.join()
say(f"{len(totals)} {set(map(int, totals))}")
"""
    assert interrupted(code, name="count") == ["ready", "interrupted", "800 {8000}"]
