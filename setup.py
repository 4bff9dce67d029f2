"""The one thing pyproject.toml cannot say: compile the C runtime into the package.

The library is plain C11 that is loaded with ctypes: no Python header is involved, so one wheel serves every
Python 3 of a platform. `CC` names the compiler (default `cc`), `CFLAGS` is appended to the flags below. On other
platforms than Linux on x86-64 nothing is built: an error says so, before anything is downloaded or compiled.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from sysconfig import get_platform

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

NATIVE = Path("src/legato/runtime/native")
LIBRARY = "legato.runtime.native.liblegato_rt"
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")
PLATFORM = "linux-x86_64"
BUILDS = {"bdist_wheel", "build", "build_ext", "develop", "dist_info", "editable_wheel", "install"}
INSTEAD = {
    "win": "WSL 2 (wsl --install), which is such a Linux: install Legato there",
    "macosx": "a container (examples/container/Dockerfile; docker build --platform linux/amd64) or a virtual machine",
}


def require_platform() -> None:
    """Exits where the runtime cannot be built, and says what works there. Source distributions are made anywhere."""
    found = get_platform()
    if found == PLATFORM or not BUILDS.intersection(sys.argv):
        return
    works = INSTEAD.get(found.partition("-")[0], "a machine, virtual machine or container of that kind")
    sys.exit(f"error: legato: its runtime is for Linux on x86-64, and this is {found}. What works here: {works}.")


class BuildNative(build_ext):
    """Compiles every C file of the runtime into one shared library with one call of the C compiler."""

    def get_ext_filename(self, fullname: str) -> str:
        """The library's path in the package, without the interpreter's tag: it is no Python extension."""
        return fullname.replace(".", "/") + ".so"

    def build_extension(self, ext: Extension) -> None:
        """Run the C compiler; a missing or failing one is an error that says what to do."""
        if not ext.sources:
            raise CompileError(f"legato: no C sources in {NATIVE}: this is not a complete copy of the source tree")
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.tmp")
        compiler = shlex.split(os.environ.get("CC") or "cc")
        flags = [*FLAGS, *shlex.split(os.environ.get("CFLAGS", ""))]
        command = [*compiler, *flags, "-o", str(partial), *ext.sources]
        try:
            subprocess.run(command, check=True)
        except OSError as error:
            raise CompileError(
                f"legato: its runtime is C, but no C compiler could be run ({compiler[0]}: {error.strerror}). "
                "Install one (Debian, Ubuntu: apt-get install gcc libc6-dev), or name one in CC."
            ) from error
        except subprocess.CalledProcessError as error:
            partial.unlink(missing_ok=True)
            raise CompileError(
                f"legato: the C compiler failed on the runtime (exit status {error.returncode}); its messages "
                f"are above. The command was: {shlex.join(command)}"
            ) from error
        # Renamed into place, because a process that has mapped the old library must keep its old pages.
        partial.replace(target)


class PlatformWheel(bdist_wheel):
    """Tags the wheel for any Python 3 of this platform."""

    def get_tag(self) -> tuple[str, str, str]:
        """`py3-none-linux_x86_64`, or what the platform is called."""
        return ("py3", "none", super().get_tag()[2])


require_platform()
setup(
    ext_modules=[
        Extension(
            LIBRARY,
            sources=sorted(str(path) for path in NATIVE.glob("*.c")),
            depends=sorted(str(path) for path in NATIVE.glob("*.h")),
        )
    ],
    cmdclass={"build_ext": BuildNative, "bdist_wheel": PlatformWheel},
)
