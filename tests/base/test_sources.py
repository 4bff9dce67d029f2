"""The digest of the package's code: of its content, and none where it may not be what runs."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from legato.base import sources

NAMES = ("a.py", "inner/b.py", "inner/data.txt")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that was there before the process started."""
    place = tmp_path / "package"
    (place / "inner").mkdir(parents=True)
    for name in NAMES:
        (place / name).write_text(f"name = {name!r}")
    use(place, monkeypatch)
    return place


def use(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the process started a second from now, with the package at `place`."""
    monkeypatch.setattr(sources, "_PACKAGE", place)
    monkeypatch.setattr(sources, "_FIRST", sources._identity(place))
    monkeypatch.setattr(sources, "STARTED", time.time() + 1)


def digest(part: str = "") -> str | None:
    sources._digest.cache_clear()
    return sources.sources_digest(part)


def test_content_and_names_count(folder: Path) -> None:
    first, inner = digest(), digest("inner")
    assert first is not None
    (folder / "inner/data.txt").write_text("other")
    assert digest() == first
    (folder / "a.py").write_text("name = 'b.py'")  # as long as before
    second = digest()
    assert digest("inner") == inner
    (folder / "a.py").rename(folder / "c.py")
    third = digest()
    (folder / "inner/b.py").write_text("name = 0")
    assert len({first, second, third, digest(), None}) == 5
    assert digest("inner") not in (None, inner)


def test_compiled_modules_count_where_there_are_no_sources(folder: Path) -> None:
    with_sources, found = digest(), set[str | None]()
    for text in ("name = 1", "name = 2"):
        (folder / "a.py").write_text(text)
        for name in NAMES[:2]:
            py_compile.compile(str(folder / name), str(folder / f"{name}c"), doraise=True)
        beside = digest()
        (folder / "a.py").rename(folder / "elsewhere")
        found |= {beside, digest()}
        (folder / "elsewhere").rename(folder / "a.py")
    assert len(found | {with_sources, None}) == 6
    for path in [*folder.rglob("*.py"), *folder.rglob("*.pyc")]:
        path.unlink()
    assert digest() is None, "nobody knows what runs"


def test_an_archive_counts_as_a_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, seen = folder.parent / "all.zip", set[str | None]()
    for text in ("one", "two"):
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("package/a.py", text)
        use(archive / "package", monkeypatch)
        found = {digest(), digest("inner")}
        assert len(found) == 1
        assert None not in found
        seen |= found
    assert len(seen) == 2


def test_code_that_came_since_the_start_has_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(folder / "a.py", (1e9, 1e9))  # as `cp -p`, rsync and package managers leave it
    assert digest() is not None
    monkeypatch.setattr(sources, "STARTED", time.time() - 1)
    assert digest() is None
    monkeypatch.setattr(sources, "STARTED", time.time() + 1)
    os.utime(folder / "a.py", (time.time() + 9, time.time() + 9))
    assert digest() is None


def test_a_package_that_was_exchanged_has_none(folder: Path) -> None:
    shutil.copytree(folder, folder.parent / "new")
    folder.rename(folder.parent / "old")
    assert digest() is None
    (folder.parent / "new").rename(folder)
    assert digest() is None


def test_the_start_is_noted_with_the_package() -> None:
    code = "import sys, legato; print('legato.base.sources' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "True"
