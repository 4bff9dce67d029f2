"""The digest of the sources: of their content, and none where it may not be what runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from legato.base import sources


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "inner").mkdir()
    for name in ("a.py", "inner/b.py", "inner/data.txt"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1e9, 1e9))
    monkeypatch.setattr(sources, "_PACKAGE", tmp_path)
    sources._digest.cache_clear()
    return tmp_path


def digest() -> str | None:
    sources._digest.cache_clear()
    return sources.sources_digest()


def old(path: Path) -> None:
    os.utime(path, (1e9, 1e9))


def test_content_and_names_count(folder: Path) -> None:
    first = digest()
    assert first is not None
    (folder / "inner/data.txt").write_text("other")
    assert digest() == first
    (folder / "a.py").write_text("b.py")  # as long as before
    old(folder / "a.py")
    second = digest()
    (folder / "a.py").rename(folder / "c.py")
    third = digest()
    assert len({first, second, third, None}) == 4


def test_sources_that_changed_since_the_start_have_none(folder: Path) -> None:
    os.utime(folder / "inner/b.py", (time.time() + 1, time.time() + 1))
    assert digest() is None
    old(folder / "inner/b.py")
    assert digest() is not None


def test_the_start_is_noted_with_the_package() -> None:
    code = "import sys, legato; print('legato.base.sources' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "True"
