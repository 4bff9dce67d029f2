"""The package builds where there is a C compiler, and says what is missing where there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

import legato
from tools import wheel

ROOT = Path(__file__).parents[1]
NATIVE = "legato/runtime/native"


def test_what_is_said_to_be_installed_is_there_to_be_installed() -> None:
    """Hints and pages name extras that there are, in quotes, which shells want for brackets."""
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    said = {m for file in files for m in re.findall(r"pip install (\S*\[\w+\])(.)", file.read_text(encoding="utf-8"))}
    assert len(said) >= 4
    for what, after in said:
        assert (what[0], after) == ('"', '"'), what
        assert what.partition("[")[2].rstrip("]") in extras


# What runs in the installed package: a program with a data type and a kernel, compiled, saved and loaded.
PROGRAM = """
import legato, numpy as np
print(legato.__file__)
exe = legato.compile(legato.parse("def @main(%x: Tensor[(2,), float32], %xs: List[int32]) { (%x * 2f, @length(%xs)) }"))
exe.save("p.legato")
exe = legato.load("p.legato")
cons, nil = exe.constructors["Cons"], exe.constructors["Nil"]
doubled, length = exe(np.float32([3, 2]), cons(np.int32(1), cons(np.int32(1), cons(np.int32(1), nil()))))
print(doubled.tolist())
print(length)
"""
# And where there is NumPy alone.
LOADED = """
import legato, numpy as np
exe = legato.load("p.legato")
print(legato.__file__, exe(np.float32([3, 2]), exe.constructors["Nil"]())[0].tolist())
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the build reads."""
    copy = wheel.copy(ROOT, tmp_path / "tree")
    (copy / "src" / NATIVE / "spare.c").write_text("int legato_spare(void);\nint legato_spare(void) { return 0; }\n")
    return copy


def build(tree: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`pip wheel` of the tree, with the setuptools that is here."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", "wheels", "."]
    return subprocess.run(command, cwd=tree, env=os.environ | environment, capture_output=True, text=True)


def test_wheel_is_complete_and_imports_alone(tree: Path) -> None:
    done = build(tree)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (tree / "wheels").iterdir()
    assert built.name.endswith("-py3-none-linux_x86_64.whl")
    installed = tree / "installed"
    with zipfile.ZipFile(built) as file:
        names = set(file.namelist())
        file.extractall(installed)
    texts = {f"legato/prelude/{name}.relay" for name in ("prelude", "nat", "gradient", "core")}
    page = {f"legato/viz/{name}" for name in ("page.css", "page.js", "layout.js", "diff.js")}
    assert {"legato/py.typed", f"{NATIVE}/liblegato_rt.so", f"{NATIVE}/legato.h", *texts, *page} <= names
    assert not any(name.startswith(("tests", "tools")) for name in names)
    sources = {str(path.relative_to(tree / "src")) for path in (tree / "src/legato").rglob("*.py")}
    assert sources <= names
    environment = os.environ | {"PYTHONPATH": str(installed), "LEGATO_CACHE_DIR": str(tree / "kernels")}
    shown = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tree, env=environment, capture_output=True, text=True)
    assert shown.stdout.splitlines() == [str(installed / "legato/__init__.py"), "[6.0, 4.0]", "3"], shown.stderr
    assert with_numpy_alone(installed, tree) == f"{installed / 'legato/__init__.py'} [6.0, 4.0]\n"


def with_numpy_alone(installed: Path, folder: Path) -> str:
    """What the program in p.legato gives where the wheel and NumPy are all that is installed."""
    packages = folder / "packages"
    packages.mkdir()
    for found in (np.__path__[0], f"{np.__path__[0]}.libs"):
        if os.path.exists(found):
            (packages / Path(found).name).symlink_to(found)
    code = f"import sys; sys.path += [{str(installed)!r}, {str(packages)!r}]\n{LOADED}"
    shown = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=folder, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_wheel_for_many_systems(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    made = wheel.build(tmp_path)
    assert made.name.endswith("-py3-none-manylinux_2_17_x86_64.whl")
    with zipfile.ZipFile(made) as file:
        file.extractall(tmp_path / "installed")
        tag = next(name for name in file.namelist() if name.endswith(".dist-info/WHEEL"))
        assert "Tag: py3-none-manylinux_2_17_x86_64\n" in file.read(tag).decode()
    text = "def @main(%x: Tensor[(2,), float32], %xs: List[int32]) { (%x * 2f, @length(%xs)) }"
    legato.compile(legato.parse(text)).save(tmp_path / "p.legato")
    assert with_numpy_alone(tmp_path / "installed", tmp_path).endswith(" [6.0, 4.0]\n")


def test_wheel_for_many_systems_needs_zig(tmp_path: Path) -> None:
    code = f"import sys; sys.path.append({str(ROOT)!r}); from tools import wheel; wheel.main()"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        1, "tools.wheel: Zig's C compiler, which knows old versions of glibc, is not there: pip install ziglang\n"
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("readelf") is None, reason="binutils are not installed")
def test_the_glibc_that_a_library_needs() -> None:
    """As the system's own tool reads it."""
    library = ROOT / "src" / NATIVE / "liblegato_rt.so"
    shown = subprocess.run(["readelf", "-V", str(library)], capture_output=True, text=True, check=True).stdout
    versions = [tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", shown)]
    assert wheel.glibc_of(library.read_bytes()) == max(versions)
    assert wheel.glibc_of(b"\0GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_2.9\0") == (2, 17)


def test_no_compiler(tree: Path) -> None:
    done = build(tree, CC="no-such-compiler")
    assert done.returncode != 0
    assert (
        "error: legato: its runtime is C, but no C compiler could be run (no-such-compiler: No such file or "
        "directory). Install one (Debian, Ubuntu: apt-get install gcc libc6-dev), or name one in CC."
    ) in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("platform", "works"), [("macosx-14.0-arm64", "examples/container/Dockerfile"), ("win-amd64", "WSL 2")]
)
def test_another_platform_is_told_what_works_there(tree: Path, platform: str, works: str) -> None:
    """As cross-compilations name it; before the compiler is asked for."""
    done = build(tree, _PYTHON_HOST_PLATFORM=platform, CC="no-such-compiler")
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert f"error: legato: its runtime is for Linux on x86-64, and this is {platform}. What works here: " in said
    assert works in said
    assert "no-such-compiler" not in said


def test_failing_compiler(tree: Path) -> None:
    done = build(tree, CC="false")
    assert done.returncode != 0
    assert (
        "error: legato: the C compiler failed on the runtime (exit status 1); its messages are above. "
        "The command was: false -std=c11 "
    ) in done.stdout + done.stderr


def test_incomplete_tree(tree: Path) -> None:
    for path in (tree / "src" / NATIVE).glob("*.c"):
        path.unlink()
    done = build(tree)
    assert done.returncode != 0
    assert (
        "error: legato: no C sources in src/legato/runtime/native: this is not a complete copy of the source tree"
    ) in done.stdout + done.stderr
