"""Runs the tests of the runtime, from Python, on a C library built with a compiler's sanitizer.

    python -m tools.sanitize address            AddressSanitizer and UBSan
    python -m tools.sanitize thread             ThreadSanitizer
    python -m tools.sanitize end                workspaces and constants end at a page that may not be touched
    python -m tools.sanitize front              they begin behind one

The last two run compiled programs, which a fault ends. A sanitizer's own library is loaded before Python is; code that
the tests generate is not instrumented, what it calls is. Further arguments go to pytest, and if there are paths among
them these are tested alone. Tests of what only the C library has are in tests/runtime/test_native.py.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "src/legato/runtime/native"
FLAGS = ("-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Wno-tsan", "-fPIC", "-shared", "-pthread",
         "-fvisibility=hidden", "-fno-omit-frame-pointer")  # fmt: skip
SANITIZERS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    "thread": ("-fsanitize=thread",),
    "end": ("-DLG_GUARD=1",),
    "front": ("-DLG_GUARD=2",),
}
COMPILED = ("tests/lower/test_operators.py", "tests/lower/test_random.py", "tests/lower/test_programs.py",
            "tests/programs")  # fmt: skip
# Python itself leaks; what forks here may go on with threads; a fault is to be Python's own traceback.
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:allocator_may_return_null=1:exitcode=66",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "die_after_fork=0:report_signal_unsafe=0:allocator_may_return_null=1:exitcode=66",
}
COMPLAINTS = ("ERROR:", "runtime error:", "WARNING: ThreadSanitizer:")  # other warnings are about the sanitizer itself
PRELOADED = {"address": "libasan.so", "thread": "libtsan.so"}
TESTS = ("tests/runtime", "tests/codegen/test_objects.py", "tests/codegen/test_host.py")
# The one compiles the C library itself, the other measures memory, of which sanitizers keep some. ThreadSanitizer holds
# a signal back until the thread calls what it has instrumented: a loop is not interrupted under it.
LEFT_OUT = (
    "--ignore=tests/runtime/test_native.py",
    "--deselect=tests/runtime/test_objects.py::test_memory_does_not_grow",
)
LEFT_OUT_OF = {
    "address": (),
    "thread": (
        "--ignore=tests/runtime/test_interrupt.py",
        "--deselect=tests/runtime/test_objects.py::test_loops_are_interrupted",
    ),
}


def main(arguments: Sequence[str]) -> int:
    """The status of pytest under the sanitizer that is the first argument; 2 if there is no such sanitizer."""
    if not arguments or arguments[0] not in SANITIZERS:
        print(f"usage: python -m tools.sanitize {'|'.join(SANITIZERS)} [pytest's arguments]", file=sys.stderr)
        return 2
    kind, *rest = arguments
    compiler = shlex.split(os.environ.get("CC") or "cc")
    with TemporaryDirectory() as folder:
        library = Path(folder) / "liblegato_rt.so"
        sources = sorted(map(str, NATIVE.glob("*.c")))
        subprocess.run([*compiler, *FLAGS, *SANITIZERS[kind], "-o", str(library), *sources], check=True)
        preloaded = _preloaded(compiler, kind)
        # Reports go to files: pytest keeps what is written to the standard error.
        options = {name: f"{value}:log_path={folder}/report" for name, value in OPTIONS.items()}
        given = {"LEGATO_SANITIZED": str(library), **preloaded}
        own = TESTS if preloaded else COMPILED
        tests = () if any((ROOT / argument.partition("::")[0]).exists() for argument in rest) else own
        left_out = [*LEFT_OUT, *LEFT_OUT_OF.get(kind, ())]
        command = [sys.executable, "-m", "pytest", "-p", "tests.runtime.sanitized", "-q", *tests, *left_out, *rest]
        status = subprocess.run(command, cwd=ROOT, env={**os.environ, **options, **given}, check=False).returncode
        reports = [path.read_text(errors="replace") for path in sorted(Path(folder).glob("report*"))]
        said = [text for text in reports if any(mark in text for mark in COMPLAINTS)]
        print("\n".join(said) or f"no complaints of the {kind} sanitizer")
        return status or bool(said)


def _preloaded(compiler: Sequence[str], kind: str) -> dict[str, str]:
    """What has the sanitizer's own library loaded first, and C++'s, whose exceptions it asks for; nothing where there
    is none."""
    if kind not in PRELOADED:
        return {}
    found = []
    for name in (PRELOADED[kind], "libstdc++.so.6"):
        command = [*compiler, f"-print-file-name={name}"]
        found.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    return {"LD_PRELOAD": " ".join(found)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
