"""The kernel cache: what is stored comes back, and only what the user or root can have stored."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from legato.codegen.cache import KernelCache, objection

KEY, VALUE = b"key", b"machine code"
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def cache(tmp_path: Path) -> KernelCache:
    """A cache with one entry."""
    made = KernelCache(tmp_path / "kernels", 1 << 20)
    made.put(KEY, VALUE)
    assert made.get(KEY) == VALUE
    return made


def entry(cache: KernelCache) -> Path:
    assert cache.folder is not None
    (found,) = cache.folder.glob("*.bin")
    return found


def writes(cache: KernelCache) -> bool:
    cache.put(b"another", VALUE)
    assert cache.folder is not None
    return len(list(cache.folder.iterdir())) > 1


def test_a_folder_that_is_made_is_private(cache: KernelCache) -> None:
    assert cache.folder is not None
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert entry(cache).stat().st_mode & 0o777 == 0o600
    assert objection(cache.folder) is None


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_where_others_may_write_nothing_is_read_or_written(cache: KernelCache, mode: int) -> None:
    assert cache.folder is not None
    cache.folder.chmod(mode)
    assert cache.get(KEY) is None
    assert not writes(cache)
    assert cache.prune() == 0
    assert objection(cache.folder) == f"others may write to {cache.folder} (chmod go-w {cache.folder})"


def test_an_entry_that_others_may_write_is_not_read(cache: KernelCache) -> None:
    entry(cache).chmod(0o666)
    assert cache.get(KEY) is None


@needs_root
def test_what_belongs_to_another_user_is_not_read(cache: KernelCache) -> None:
    assert cache.folder is not None
    os.chown(entry(cache), NOBODY, NOBODY)
    assert cache.get(KEY) is None
    os.chown(entry(cache), 0, 0)
    os.chown(cache.folder, NOBODY, NOBODY)
    assert cache.get(KEY) is None
    assert not writes(cache)
    assert "belongs to another user" in str(objection(cache.folder))


@needs_root
def test_what_is_roots_is_read_and_not_written(cache: KernelCache) -> None:
    """As in an image that was filled when it was made."""
    assert cache.folder is not None
    for path, mode in ((cache.folder, 0o755), (entry(cache), 0o644)):
        path.chmod(mode)
    for parent in cache.folder.parents[:4]:  # of pytest, and of its workers
        if parent.name.startswith(("test_", "popen-", "pytest-")):
            parent.chmod(0o755)
    os.seteuid(NOBODY)
    try:
        assert cache.get(KEY) == VALUE  # though its time cannot be set
        assert not writes(cache)
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("kind", ["pipe", "device", "link", "folder"])
def test_special_files_are_no_entries(cache: KernelCache, kind: str, tmp_path: Path) -> None:
    path = entry(cache)
    path.rename(tmp_path / "copy")
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "link":
            path.symlink_to(tmp_path / "copy")
        case _:
            path.mkdir()
    assert cache.get(KEY) is None


def test_what_is_larger_than_the_cache_is_no_entry(cache: KernelCache) -> None:
    os.truncate(entry(cache), 1 << 40)
    assert cache.get(KEY) is None


@pytest.mark.parametrize("place", range(0, 80, 7))
def test_a_damaged_entry_is_none(cache: KernelCache, place: int) -> None:
    data = bytearray(entry(cache).read_bytes())
    data[place % len(data)] ^= 1
    entry(cache).write_bytes(data)
    assert cache.get(KEY) is None
    entry(cache).write_bytes(data[:place])
    assert cache.get(KEY) is None


def test_what_was_left_half_written_is_removed_in_the_end(cache: KernelCache) -> None:
    assert cache.folder is not None
    old, new = cache.folder / "killed.tmp", cache.folder / "writing.tmp"
    for path in (old, new):
        path.write_bytes(b"12345")
    os.utime(old, (1e9,) * 2)
    assert cache.prune() == 5
    assert (old.exists(), new.exists(), cache.get(KEY)) == (False, True, VALUE)


@pytest.mark.parametrize("size", [10_000, 10])
def test_the_bound_holds_though_few_entries_take_a_look(tmp_path: Path, size: int) -> None:
    cache = KernelCache(tmp_path, 1 << 16)
    for n in range(3000):
        cache.put(b"%d" % n, bytes(size))
    assert cache.get(b"2999") == bytes(size)
    assert cache.get(b"0") is None
    most = 1 << 16 if size == 10_000 else 1 << 17
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= most


def test_no_folder_is_no_cache(tmp_path: Path) -> None:
    for cache in (KernelCache(None, 1 << 20), KernelCache(tmp_path / "off", 0)):
        cache.put(KEY, VALUE)
        assert (cache.get(KEY), cache.prune(), list(tmp_path.iterdir())) == (None, 0, [])


def test_a_cache_that_is_not_used_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from legato.base.config import Config

    monkeypatch.setattr("legato.codegen.cache.config", lambda: Config(cache_dir=str(tmp_path)))
    tmp_path.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="the kernel cache is not used: others may write to"):
        assert KernelCache.default().folder is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert KernelCache.default().folder is None
