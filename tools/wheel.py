"""Builds the wheel for many Linux systems: the C library against an old glibc, by Zig's C compiler.

Usage: python -m tools.wheel [-o dist]

The platform in the wheel's name is what its library needs, which is read from the library itself.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

__all__ = ["build", "copy", "glibc_of", "main"]

ROOT: Final = Path(__file__).parents[1]
GLIBC: Final = (2, 17)  # of 2012: CentOS 7, Ubuntu 14.04, Debian 8 and all that came later
LIBRARY: Final = "legato/runtime/native/liblegato_rt.so"
_VERSION: Final = re.compile(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)")


def glibc_of(library: bytes) -> tuple[int, int]:
    """The newest version of glibc whose symbols a library asks for."""
    return max(((int(m[1]), int(m[2])) for m in _VERSION.finditer(library)), default=(2, 2))


def copy(root: Path, target: Path) -> Path:
    """A copy of what the build reads of a source tree."""
    skipped = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    shutil.copytree(root / "src", target / "src", ignore=skipped)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(root / name, target / name)
    return target


def build(folder: Path, root: Path = ROOT, glibc: tuple[int, int] = GLIBC) -> Path:
    """The wheel of the source tree `root`, written to `folder`.

    SystemExit with a message where there is no Zig, or the library needs a newer glibc than the wheel's name says.
    """
    if find_spec("ziglang") is None:
        sys.exit("tools.wheel: Zig's C compiler, which knows old versions of glibc, is not there: pip install ziglang")
    major, minor = glibc
    platform = f"manylinux_{major}_{minor}_x86_64"
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", f"x86_64-linux-gnu.{major}.{minor}"]
    with TemporaryDirectory() as scratch:  # nothing of earlier builds
        command = [
            sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps",
            f"--config-settings=--build-option=--plat-name={platform}", "--wheel-dir", str(folder.absolute()),
            str(copy(root, Path(scratch) / "tree")),
        ]  # fmt: skip
        done = subprocess.run(command, env={**os.environ, "CC": shlex.join(compiler)}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}tools.wheel: pip builds no wheel; why is above")
    wheel = max(folder.glob(f"legato-*-{platform}.whl"), key=lambda path: path.stat().st_mtime_ns)
    with zipfile.ZipFile(wheel) as file:
        needed = glibc_of(file.read(LIBRARY))
    if needed > glibc:
        wheel.unlink()
        sys.exit(f"tools.wheel: the library needs glibc {needed[0]}.{needed[1]}, the wheel was to need {major}.{minor}")
    return wheel


def main() -> int:
    """Build it, and say what it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheel", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist", help="the folder (default: dist)")
    wheel = build(parser.parse_args().output)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, for glibc {GLIBC[0]}.{GLIBC[1]} and newer")
    return 0


if __name__ == "__main__":
    sys.exit(main())
