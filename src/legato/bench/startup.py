"""How long it takes until a model runs, each time in a fresh process: compiling cold, compiling again, loading."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError

__all__ = ["Startup", "compile_twice", "load_seconds"]

PACKAGE_ROOT = Path(__file__).parents[2]

# Both print seconds from the start of the import to the end.
COMPILE = """
import json, sys, time
start = time.perf_counter()
job = json.loads(sys.argv[1])
sys.path.insert(0, job["root"])
import legato, numpy
from legato.base.errors import LegatoError
try:
    values = job["constants"] and dict(numpy.load(job["constants"]))
    exe = legato.compile(
        job["model"], shapes=job["shapes"], constants=values, target=job["target"], precision=job["precision"]
    )
except LegatoError as error:
    sys.exit(str(error))
seconds = time.perf_counter() - start
exe.save(job["output"])
print(seconds)
"""
LOAD = """
import sys, time
start = time.perf_counter()
sys.path.insert(0, sys.argv[1])
import legato
legato.load(sys.argv[2])
print(time.perf_counter() - start)
"""


@dataclass(frozen=True, slots=True)
class Startup:
    """Seconds to compile with an empty kernel cache, with a full one, and to load the artifact."""

    cold: float | None
    cached: float | None
    load: float


def compile_twice(
    model: Path,
    output: Path,
    folder: Path,
    *,
    shapes: Mapping[str, Sequence[object]] | None,
    target: str,
    precision: str | None = None,
    constants: Path | None = None,
) -> tuple[float, float]:
    """Seconds to compile `model` to `output`, with a kernel cache in `folder` that is empty at first, and again.

    constants: a .npz file of the values that inputs have for good.

    CompileError with the message of the process where it fails.
    """
    job = {
        "root": str(PACKAGE_ROOT), "model": str(model), "output": str(output), "shapes": shapes, "target": target,
        "precision": precision, "constants": None if constants is None else str(constants),
    }  # fmt: skip
    environment = {**os.environ, "LEGATO_CACHE_DIR": str(folder)}
    first, second = (_python(COMPILE, [json.dumps(job)], environment) for _ in range(2))
    return first, second


def load_seconds(artifact: Path) -> float:
    """Seconds that a fresh process takes to load the artifact, NumPy's import included."""
    return _python(LOAD, [str(PACKAGE_ROOT), str(artifact)], os.environ)


def _python(code: str, arguments: list[str], environment: Mapping[str, Any]) -> float:
    """The number that `code` prints, in a process that finds and keeps bytecode as an installed package has it."""
    command = [sys.executable, "-c", code, *arguments]
    kept = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, env=kept)
    if done.returncode:
        said = done.stderr.strip().removeprefix("error: ")
        raise CompileError(said or f"the process that compiles ended with code {done.returncode}")
    return float(done.stdout)
