"""Where deployments run: without a home, sources, docstrings, UTF-8 or /proc."""

from __future__ import annotations

import gc
import os
import pwd
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from legato.base import target
from legato.base.config import Config, _cache_dir
from legato.base.errors import PlatformError
from legato.driver import _paused_collection

SOURCE = Path(__file__).parents[1] / "src"
PROGRAM = """
import sys, warnings
warnings.filterwarnings("error", category=EncodingWarning, module="legato")
import numpy as np
import legato
x = np.array([-1, 2], np.float32)
print(legato.__file__, legato.compile(sys.argv[1])(x).tolist())
print("hd" in str(legato.parse('#[version = "0.0.5"]\\ndef @main(%x: List[int32]) { @hd(%x) }')))
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    node = helper.make_node("Relu", ["x"], ["y"], name="größer")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "model.onnx")
    return str(tmp_path / "model.onnx")


def said(*command: str, **variables: str) -> str:
    """What Python prints."""
    done = subprocess.run(
        [sys.executable, *command], env={**os.environ, **variables}, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ascii_is_enough(model: str) -> None:
    """Texts of the package are read as what they are, whatever the locale says."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    shown = said("-X", "warn_default_encoding", "-c", PROGRAM, model, LEGATO_CACHE_BYTES="0", **ascii_only)
    assert shown.splitlines() == [f"{SOURCE}/legato/__init__.py [0.0, 2.0]", "True"]


def test_an_archive_is_enough(model: str, tmp_path: Path) -> None:
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in (SOURCE / "legato").rglob("*.*"):
            if path.suffix in (".py", ".relay", ".so"):
                file.write(path, path.relative_to(SOURCE))
    rest = [path for path in sys.path if Path(path) != SOURCE]
    code = f"import sys; sys.path[:] = {[str(archive), *rest]!r}\n{PROGRAM}"
    shown = said("-I", "-S", "-c", code, model)
    assert shown.splitlines() == [f"{archive}/legato/__init__.py [0.0, 2.0]", "True"]


def test_no_docstrings_are_needed(model: str) -> None:
    assert "compile" in said("-OO", "-m", "legato", "--help")
    assert "[0.0, 2.0]" in said("-OO", "-c", PROGRAM, model)


def test_a_user_without_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert _cache_dir() is None
    assert Config().kernel_cache is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # means nothing, by its specification
    assert _cache_dir() is None
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert _cache_dir() == Path("/caches/legato")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert _cache_dir() == Path("/home/me/.cache/legato")


def test_a_machine_that_does_not_say_what_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(target, "CPU_INFO", tmp_path / "cpuinfo")
    with pytest.raises(PlatformError) as caught:
        target.cpu_flags.__wrapped__()
    assert str(caught.value) == (
        f"{tmp_path}/cpuinfo says what this CPU can do, and cannot be read: No such file or directory"
    )
    assert target.cpu_name() == "unknown"


# The first program is compiled as root, who may read whatever Python is made of; the second by somebody else.
AS_ANOTHER = """
import os, sys, warnings
warnings.simplefilter("error")
import numpy as np
import legato
for n in (2, 3):
    if n == 3:
        os.environ["HOME"] = sys.argv[1]
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    exe = legato.compile(legato.parse(f'#[version = "0.0.5"]\\ndef @main(%x: Tensor[({n},), float32]) {{ exp(%x) }}'))
    print(os.geteuid(), exe(np.zeros(n, np.float32)).tolist())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_another_user_whose_home_cannot_be_written(tmp_path: Path) -> None:
    """As in a container of a read-only file system: compiled and run, without a cache and without a word."""
    own, home = tmp_path / "own", tmp_path / "home"
    own.mkdir(mode=0o700)
    home.mkdir(mode=0o755)  # root's
    settings = ("LEGATO_CACHE_DIR", "XDG_CACHE_HOME")
    env = {**{k: v for k, v in os.environ.items() if k not in settings}, "HOME": str(own)}
    done = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER, str(home)], env=env, capture_output=True, text=True, cwd="/"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["0 [1.0, 1.0]", "65534 [1.0, 1.0, 1.0]"]
    assert [path.name for path in own.iterdir()] == [".cache"]
    assert list(home.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_process_that_is_forked_while_another_thread_compiles_collects_garbage() -> None:
    begun, end = threading.Event(), threading.Event()

    def compile_on() -> None:
        with _paused_collection():
            begun.set()
            end.wait(60)

    thread = threading.Thread(target=compile_on)
    thread.start()
    try:
        assert begun.wait(60)
        pid = os.fork()
        if pid == 0:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert not gc.isenabled()
    finally:
        end.set()
        thread.join()
    assert gc.isenabled()
