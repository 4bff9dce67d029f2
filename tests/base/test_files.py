"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Thread

import pytest

from legato.base.files import open_regular, replace_file


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    replace_file(path, lambda temporary: temporary.write_text("new"))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "new")]


def test_where_writing_fails_all_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match=r"^the disk is full$"):
        replace_file(path, fail)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "old")]


def test_errors_name_the_file(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none" / "a.txt", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(OSError, match=reason) as error:
            replace_file(path, lambda temporary: temporary.write_text("new"))
        assert str(error.value).endswith(f"] {reason}: {str(path)!r}")


def test_threads_write_the_same_file(tmp_path: Path) -> None:
    path, together = tmp_path / "a.txt", Barrier(2)

    def write(temporary: Path) -> None:
        temporary.write_text("new")
        together.wait()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(replace_file, path, write) for _ in range(2)]:
            done.result()
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "new")]


def new(temporary: Path) -> None:
    temporary.write_text("new")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("bits", [0o600, 0o644, 0o640, 0o755, 0o444])
def test_a_file_keeps_its_mode(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(bits)
    replace_file(path, new)
    assert (path.read_text(), mode(path)) == ("new", bits)


def test_a_new_file_has_the_mode_of_new_files(tmp_path: Path) -> None:
    replace_file(tmp_path / "a.txt", new)
    (tmp_path / "other").touch()
    assert mode(tmp_path / "a.txt") == mode(tmp_path / "other")


@pytest.mark.parametrize("exists", [False, True])
def test_links_are_followed(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "a.txt"
    if exists:
        target.write_text("old")
    (tmp_path / "inner").symlink_to("folder/a.txt")
    (tmp_path / "link").symlink_to("inner")
    replace_file(tmp_path / "link", new)
    assert (tmp_path / "link").is_symlink()
    assert [(p.name, p.read_text()) for p in target.parent.iterdir()] == [("a.txt", "new")]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got: list[str] = []
    reader = Thread(target=lambda: got.append(path.read_text()), daemon=True)
    reader.start()
    replace_file(path, new)
    reader.join()
    assert got == ["new"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_device_is_written_to(tmp_path: Path) -> None:
    link = tmp_path / "null"  # not the device itself: should this fail, it must not be replaced
    link.symlink_to("/dev/null")
    replace_file(link, new)
    assert (link.is_symlink(), link.is_char_device()) == (True, True)
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        replace_file(tmp_path / "full", new)


def test_names_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    replace_file(tmp_path / ("a" * 255), new)
    with pytest.raises(OSError, match="File name too long"):
        replace_file(tmp_path / ("a" * 300), new)
    assert [p.name for p in tmp_path.iterdir()] == ["a" * 255]


def test_a_folder_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(22, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    replace_file(tmp_path / "a.txt", new)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["new"]


def test_names_without_a_file(tmp_path: Path) -> None:
    calls: list[Callable[[Path], object]] = [lambda path: replace_file(path, new), open_regular]
    for call in calls:
        with pytest.raises(OSError, match="holds no NUL"):
            call(Path("a\0b"))


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"text"
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(path)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
