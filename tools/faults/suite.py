"""Tests in a copy of the tree that has faults."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from legato.base.dataclass import dataclass
from tools.faults.rules import Fault

__all__ = ["Suite", "Tree"]


@dataclass(frozen=True, slots=True)
class Tree:
    """A copy of the sources and tests, which nobody else uses."""

    root: Path

    @contextmanager
    def having(self, faults: Iterable[tuple[str, Fault]]) -> Iterator[None]:
        """The faults, which do not overlap, are in the files (paths from the root); afterwards all is as before."""
        by_file: dict[Path, list[Fault]] = {}
        for file, fault in faults:
            by_file.setdefault(self.root / file, []).append(fault)
        before = {path: path.read_text(encoding="utf-8") for path in by_file}
        try:
            for path, text in before.items():
                for fault in sorted(by_file[path], key=lambda f: -f.start):
                    text = fault.applied(text)
                path.write_text(text, encoding="utf-8")
            yield
        finally:
            for path, text in before.items():
                path.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of an area in a copy of the tree. A test hangs after so many `seconds`."""

    tree: Tree
    area: str
    seconds: float

    @property
    def files(self) -> list[str]:
        """The files of tests in the folders that mirror the area's, as paths from the root."""
        root = self.tree.root
        found = (f for part in self.area.split("+") for f in sorted((root / "tests" / part).rglob("test_*.py")))
        return [str(f.relative_to(root)) for f in found]

    def near(self, file: str) -> list[str]:
        """Those most likely to see a fault in `file`: its mirror, then those that name the module."""
        source = Path(file).relative_to("src/legato")
        mirror = str("tests" / source.with_name(f"test_{source.stem.lstrip('_')}.py"))
        module = r"[./]".join(source.with_suffix("").parts)
        named = re.compile(rf"{module}\b|import .*\b{source.stem}\b")
        files = [f for f in self.files if f == mirror or named.search((self.tree.root / f).read_text(encoding="utf-8"))]
        return sorted(files, key=lambda f: f != mirror)

    def first(self, files: Sequence[str], skipped: Iterable[str] = ()) -> str:
        """The first test that fails, crashes or hangs; "" if all pass."""
        shutil.rmtree(self._memory.parent, ignore_errors=True)
        code = self._code([*(f"--deselect={test}" for test in skipped), *files])
        if code in (0, 5):  # 5: there are none but those left out
            return ""
        failed = next(iter(json.loads(self._memory.read_text())), "") if self._memory.exists() else ""
        began = re.findall(r"^(tests/.*?)(?: (?:PASSED|FAILED|SKIPPED|XFAIL).*)?$", self._log.read_text(), re.MULTILINE)
        return str(failed or began[-1].strip())

    def passes(self, test: str) -> bool:
        """Whether a test passes alone."""
        self._memory.parent.mkdir(parents=True, exist_ok=True)
        self._memory.write_text(json.dumps({test: True}))
        return self._code(["--last-failed", test.partition("::")[0]]) == 0

    @property
    def _memory(self) -> Path:
        """Where pytest notes which tests failed."""
        return self.tree.root / ".pytest_cache/v/cache/lastfailed"

    @property
    def _log(self) -> Path:
        return self.tree.root / "faults.log"

    def _code(self, options: Sequence[str]) -> int:
        """What pytest ends with; -1 if a test hangs.

        Kernels are kept in a cache of this run's own: those of other sources are none of its business.
        """
        root = self.tree.root
        command = [sys.executable, "-m", "pytest", "-xv", "--tb=no", "--timeout=0", "-p", "no:faulthandler"]
        command += ["-m", "not models", *options]
        with tempfile.TemporaryDirectory(prefix="faults-") as name, self._log.open("w") as out:
            own = {"PYTHONPATH": f"{root / 'src'}:{root}", "PYTHONDONTWRITEBYTECODE": "1"}
            environment = {**os.environ, **own, "TMPDIR": name, "LEGATO_CACHE_DIR": f"{name}/kernels"}
            quiet: dict[str, Any] = {"stdout": out, "stderr": out, "start_new_session": True}
            process = subprocess.Popen(command, cwd=root, env=environment, **quiet)
            written = -1
            while written != (written := self._log.stat().st_size):
                try:
                    code = process.wait(self.seconds)
                    break
                except subprocess.TimeoutExpired:
                    continue
            else:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return -1
        if code in (3, 4):  # pytest's own: an internal error, a usage error
            raise RuntimeError(f"pytest ended with {code}:\n{self._log.read_text()[-2000:]}")
        return code
