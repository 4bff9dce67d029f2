"""The C library by itself, under the compiler's sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.heavy import marked
from tests.runtime.images import NATIVE

HERE = Path(__file__).parent
FLAGS = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Wno-tsan", "-Werror", "-pthread"]


# ThreadSanitizer does not support threads in forked children. -DLG_PORTABLE: CRC32C without the instruction.
@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        marked([], [], heavy=True),  # the same without sanitizers
        (["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DLG_PORTABLE"], []),
        pytest.param(
            ["-fsanitize=thread"], ["no-fork"], marks=pytest.mark.heavy
        ),  # many seconds; part of make sanitize
    ],
    ids=["plain", "address", "thread"],
)
def test_stress(tmp_path: Path, flags: list[str], arguments: list[str]) -> None:
    def cc(*rest: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["cc", *FLAGS, *flags, "-I", NATIVE, *rest], capture_output=True, text=True, cwd=tmp_path)

    built = cc("-c", *sorted(NATIVE.glob("*.c")))
    assert (built.returncode, built.stderr) == (0, "")
    for name in ("stress", "objects"):
        built = cc("-o", name, HERE / f"{name}.c", *tmp_path.glob("*.o"))
        if "cannot find" in built.stderr and flags:
            pytest.skip("this C compiler comes without sanitizers")
        assert (built.returncode, built.stderr) == (0, "")
        done = subprocess.run([tmp_path / name, *arguments], capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if "doesn't fully support makecontext" not in line]
        assert (done.returncode, said) == (0, [])
