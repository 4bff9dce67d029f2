"""Files that appear complete or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from legato.base.files import replace_file


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
    path, together = tmp_path / "a.txt", Barrier(2, timeout=10)

    def write(temporary: Path) -> None:
        temporary.write_text("new")
        together.wait()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(replace_file, path, write) for _ in range(2)]:
            done.result()
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "new")]
