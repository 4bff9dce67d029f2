"""Files: written so that they appear complete or not at all, read only where they are regular ones."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

__all__ = ["open_regular", "replace_file"]


def open_regular(path: str | Path) -> BufferedReader:
    """The file `path`, a regular one or a link to one, opened for reading; OSError for any other.

    A pipe or device may have no end, and opening it may wait for somebody: neither happens here.
    """
    descriptor = os.open(_plain(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Puts what `write` writes at the path it is given in the place of `path`, at once and on the disk; OSError where
    that fails, and then `path` is as it was.

    Links are followed. A file that is replaced hands on its mode and, where that is allowed, its owner. What is there
    but is no regular file (a device, a pipe) is written to.
    """
    found = _status(path)
    is_special = found is not None and not stat.S_ISREG(found.st_mode)
    target = Path(path if is_special else os.path.realpath(_plain(path)))
    folder = _scratch() if is_special else target.parent
    temporary = folder / f".legato-{os.urandom(8).hex()}.tmp"  # short: a name may be as long as the system allows
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        write(temporary)
        if is_special:
            _copy(temporary, target)
        else:
            _adopt(temporary, found)
            temporary.replace(target)
            with suppress(OSError):  # some folders cannot be synced or read; the file is there, and whole
                _sync(folder, os.O_DIRECTORY)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # the name that the caller knows
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _scratch() -> Path:
    import tempfile  # on use

    return Path(tempfile.gettempdir())


def _plain(path: str | Path) -> str:
    """The path for the system; OSError where it can be none."""
    text = os.fspath(path)
    if "\0" in text:
        raise OSError(errno.EINVAL, "the name of a file holds no NUL", text)
    return text


def _status(path: Path) -> os.stat_result | None:
    """Of what is at `path`, links followed; None: nothing is. OSError for a folder."""
    try:
        found = os.stat(_plain(path))
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return found


def _adopt(temporary: Path, old: os.stat_result | None) -> None:
    """Brings the new file to the disk, with the mode and owner of the `old` one."""
    if old is not None:
        with suppress(OSError):  # only root gives files away
            os.chown(temporary, old.st_uid, old.st_gid)
        os.chmod(temporary, stat.S_IMODE(old.st_mode))
    _sync(temporary, 0)


def _copy(source: Path, target: Path) -> None:
    import shutil  # on use, as all that loading does not need: it costs start-up time

    with open(source, "rb") as file, open(target, "wb", buffering=0) as out:
        shutil.copyfileobj(file, out)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
