"""What runs on another machine first: says what it is, takes the files that it lacks, and gives them the word.

It is sent as text to whatever Python is there: nothing in it is newer than Python 3.6, or outside its library. What
goes over the wire, both ways, are frames: eight bytes of length, and JSON or bytes. Files are kept under the SHA-256 of
what is in them, so that they need not be sent again, and until nobody has asked for them in 30 days; in a folder that
is removed at the end where the user has no cache.
"""

import hashlib
import json
import os
import shutil
import struct
import sys
import tempfile
import time
from typing import Any, BinaryIO

GREETING = b"legato 1\n"
CHUNK = 1 << 20
KEPT = 30 * 24 * 3600  # seconds


def send(out: BinaryIO, data: Any) -> None:
    """Sends one frame: bytes as they are, others as JSON."""
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    out.write(struct.pack(">Q", len(body)))
    out.write(body)
    out.flush()


def receive(file: BinaryIO) -> bytes:
    """The bytes of one frame; EOFError where there is no more."""
    (size,) = struct.unpack(">Q", exactly(file, 8))
    return exactly(file, size)


def exactly(file: BinaryIO, size: int) -> bytes:
    """So many bytes."""
    found = file.read(size)
    if len(found) != size:
        raise EOFError
    return found


def facts() -> "dict[str, Any]":
    """What this machine is and has."""
    found: dict[str, Any] = {"python": list(sys.version_info[:3]), "numpy": None, "cpu": "unknown", "flags": []}
    try:
        import numpy

        found["numpy"] = numpy.__version__
    except ImportError:
        pass
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    found["cpu"] = value.strip()
                if name.strip() == "flags":
                    found["flags"] = value.split()
                    break
    except OSError:
        pass
    return found


def store() -> "tuple[str, bool]":
    """The folder for files, and whether it is to be removed at the end."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    caches = caches if os.path.isabs(caches) else os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(caches, "legato", "sent")
    try:
        if not os.path.isabs(folder):
            raise OSError
        os.makedirs(folder, mode=0o700, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return tempfile.mkdtemp(prefix="legato-"), True
    return folder, False


def prune(folder: str) -> None:
    """Removes what nobody has asked for in a long time."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        try:
            if os.stat(path).st_mtime < time.time() - KEPT:
                os.unlink(path)
        except OSError:
            pass


def has(path: str, digest: str) -> bool:
    """Whether the file is there, and whole; it has been asked for now."""
    try:
        found = hashlib.sha256()
        with open(path, "rb") as file:
            for chunk in iter(lambda: file.read(CHUNK), b""):
                found.update(chunk)
        os.utime(path)
    except OSError:
        return False
    return found.hexdigest() == digest


def take(file: BinaryIO, path: str, digest: str) -> None:
    """Writes the bytes of the next frame to a file, which is there when it is whole."""
    (left,) = struct.unpack(">Q", exactly(file, 8))
    found = hashlib.sha256()
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with os.fdopen(descriptor, "wb") as out:
            while left:
                chunk = exactly(file, min(left, CHUNK))
                found.update(chunk)
                out.write(chunk)
                left -= len(chunk)
        if found.hexdigest() != digest:
            raise SystemExit("what was sent was written to, or damaged on the way: try again")
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def main() -> None:
    """One conversation; whoever began it may leave at any moment."""
    words, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what others print is no answer
    try:
        answers.write(b"\n" + GREETING)
        send(answers, facts())
        asked = json.loads(receive(words).decode())
        folder, is_temporary = store()
        try:
            paths = take_all(words, answers, folder, asked["files"])
            if not is_temporary:
                prune(folder)
            sys.path.insert(0, paths["zip"])
            from legato.remote.there import answer

            answer(asked["job"], paths["legato"], lambda: receive(words), lambda data: send(answers, data))
        finally:
            if is_temporary:
                shutil.rmtree(folder, ignore_errors=True)
    except (EOFError, BrokenPipeError):
        os._exit(1)  # at once: what is left to write has nowhere to go


def take_all(words: BinaryIO, answers: BinaryIO, folder: str, files: "list[list[str]]") -> "dict[str, str]":
    """Asks for the files that are not in the folder; where each is, by its kind."""
    paths = {kind: os.path.join(folder, f"{digest}.{kind}") for kind, digest in files}
    missing = [(kind, digest) for kind, digest in files if not has(paths[kind], digest)]
    send(answers, {"missing": [kind for kind, _ in missing]})
    for kind, digest in missing:
        take(words, paths[kind], digest)
    return paths


if __name__ == "__main__":
    main()
