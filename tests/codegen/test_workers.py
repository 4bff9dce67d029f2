"""Compile workers: they help where they can, and where they cannot the work is done all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from legato.base.target import TARGETS
from legato.codegen import workers as module
from legato.codegen.build import build_objects, identity
from legato.codegen.cache import KernelCache
from legato.codegen.compile import compile_object
from legato.codegen.workers import Workers, interpreter, search_path

TARGET = TARGETS["x86-64-v2"]
TEXTS = [f"define i32 @f(i32 %x) {{\n  %y = add i32 %x, {n}\n  ret i32 %y\n}}\n" for n in range(6)]
WANTED = {n: compile_object(text, TARGET) for n, text in enumerate(TEXTS)}
NOWHERE = KernelCache(None, 0)


def run(count: int, before: Callable[[Workers], object] = lambda workers: None) -> list[str]:
    """Compiles all texts with `count` workers; gives those that this process compiled."""
    here: list[str] = []

    def compile_here(text: str) -> bytes:
        here.append(text)
        return compile_object(text, TARGET)

    with Workers(TARGET, count, str(identity(TARGET)), compile_here) as workers:
        for n, text in enumerate(TEXTS):
            workers.add(n, text)
        before(workers)
        assert workers.finish() == WANTED
    for process in workers._processes:
        assert process.poll() is not None, "nothing is left running"
    return here


def served(workers: Workers) -> None:
    """Waits until a worker has done all."""
    with workers._changed:
        assert workers._changed.wait_for(lambda: len(workers._results) == len(TEXTS), 60)


def program(tmp_path: Path, text: str, name: str = "python3") -> str:
    """A program that pretends to be Python."""
    path = tmp_path / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_worker_compiles_what_this_process_would() -> None:
    assert run(1, served) == []


def test_without_workers_this_process_does_it() -> None:
    assert len(run(0)) == len(TEXTS)


@pytest.mark.parametrize(
    "text", ["exit 1", "echo nonsense", "printf '\\377\\377\\377\\377\\377\\377\\377\\377'", "exec sleep 60"]
)
def test_a_worker_that_does_not_start(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", program(tmp_path, text))
    assert len(run(2)) == len(TEXTS)


def test_a_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    assert len(run(2)) == len(TEXTS)


def test_a_worker_that_dies_at_its_work_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = str(identity(TARGET)).encode()
    (tmp_path / "hello").write_bytes(len(said).to_bytes(8, "little") + said)
    text = f"echo start >> {tmp_path}/starts\ncat {tmp_path}/hello\nhead -c 1 > /dev/null"
    monkeypatch.setattr(sys, "executable", program(tmp_path, text))
    assert len(run(1, lambda workers: workers._threads[0].join(60))) == len(TEXTS)
    assert (tmp_path / "starts").read_text() == "start\n"


def test_a_worker_that_is_killed_or_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    for number in (signal.SIGKILL, signal.SIGSTOP):

        def hurt(workers: Workers, number: int = number) -> None:
            with workers._changed:
                workers._changed.wait_for(lambda: bool(workers._results), 60)
            workers._processes[0].send_signal(number)

        run(1, hurt)


def test_a_worker_that_runs_other_code_is_not_asked() -> None:
    with Workers(TARGET, 1, "another identity", lambda text: compile_object(text, TARGET)) as workers:
        workers.add(0, TEXTS[0])
        workers._threads[0].join(60)
        assert not workers._threads[0].is_alive()
        assert workers.finish() == {0: WANTED[0]}


def test_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert len(run(2)) == len(TEXTS)


def test_an_interrupt_ends_the_workers() -> None:
    workers = Workers(TARGET, 1, str(identity(TARGET)), lambda text: b"")
    with pytest.raises(KeyboardInterrupt), workers:
        raise KeyboardInterrupt
    workers._threads[0].join(60)
    assert all(process.poll() is not None for process in workers._processes)


@pytest.mark.parametrize("name", ["python", "python3", "python3.13", "python3.13t", "python3.11-dbg"])
def test_interpreters_are_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", f"/anywhere/{name}")
    assert interpreter() == f"/anywhere/{name}"
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert interpreter() is None


@pytest.mark.parametrize("name", ["", None, "/usr/bin/uwsgi", "/opt/app", "/opt/python_app", "/opt/pythonic"])
def test_what_is_no_interpreter_is_never_started(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", name)
    assert interpreter() is None
    assert len(run(2)) == len(TEXTS)


def test_the_path_of_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    root = str(Path(module.__file__).parents[2])
    monkeypatch.setattr(sys, "path", ["", ".", str(tmp_path), str(tmp_path / "link"), "lib", "/own", root, "/last"])
    assert search_path() == [str(tmp_path / "lib"), "/own", root, "/last"]
    monkeypatch.setattr(sys, "path", ["/own"])
    assert search_path() == ["/own", root], "this package is found however this process found it"


def test_a_worker_runs_nothing_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("llvmlite", "struct", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w'); raise ImportError")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert run(1, served) == []
    assert not (tmp_path / "executed").exists()


@pytest.fixture
def child() -> Iterator[list[int]]:
    """Processes that were forked: ended with the test."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_keeps_nobody_waiting(child: list[int]) -> None:
    """The child holds the ends of the workers' pipes, and lives on."""

    def fork(workers: Workers) -> None:
        served(workers)
        pid = os.fork()
        if pid == 0:
            signal.pause()
        child.append(pid)

    assert run(1, fork) == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_process_that_is_forked_while_another_thread_is_in_llvm_compiles() -> None:
    started, stop = threading.Event(), threading.Event()

    def compile_on() -> None:
        while not stop.is_set():
            compile_object(TEXTS[0], TARGET)
            started.set()

    thread = threading.Thread(target=compile_on)
    thread.start()
    try:
        assert started.wait(60)
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)  # a child that waits for ever is ended, and the test fails
                os._exit(0 if compile_object(TEXTS[1], TARGET) == WANTED[1] else 1)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


# ------------------------------------------------------------------ keys


def test_objects_are_kept_under_all_that_they_depend_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = KernelCache(tmp_path, 1 << 20)

    def made(text: str = TEXTS[0], target: module.Target = TARGET) -> int:
        return build_objects([text], 1, target, cache=cache)[1]

    assert [made(), made(), made(TEXTS[1]), made()] == [1, 0, 1, 0]
    for field, value in (("cpu", "x86-64"), ("features", TARGET.features[:-1]), ("name", "another")):
        assert [made(target=replace(TARGET, **{field: value})) for _ in range(2)] == [1, 0]
    for name, value in (("sources_digest", "other sources"), ("toolchain", "another LLVM")):
        with monkeypatch.context() as patch:
            patch.setattr(f"legato.codegen.build.{name}", lambda *part, value=value: value)
            assert [made(), made()] == [1, 0]
            patch.setattr(f"legato.codegen.build.{name}", lambda *part: None)
            assert [made(), made()] == [1, 1], "nobody knows what runs: nothing is found, nothing kept"
    assert made() == 0


def test_what_another_code_might_have_made_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is replaced while a module is compiled."""
    said = iter(["before", None])
    monkeypatch.setattr("legato.codegen.build.identity", lambda target: next(said))
    assert build_objects([TEXTS[0]], 1, TARGET, cache=KernelCache(tmp_path, 1 << 20))[1] == 1
    assert list(tmp_path.iterdir()) == []


def test_a_worker_does_without_numpy() -> None:
    """Half of what it takes to start one would be the import."""
    code = (
        f"import sys; sys.path[:] = {search_path()!r}; from legato.worker import main; sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False).returncode == 0
