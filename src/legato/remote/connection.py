"""One conversation with another machine, over the ssh program.

What its shell runs is the same for every job, but for the Python that the place names and the length of the program
that follows on standard input (`_far`): nothing that a user gives is ever part of a command.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO, Final, NoReturn, Self

from legato.base import errors
from legato.base.dataclass import dataclass
from legato.base.errors import LegatoError, PlatformError, RunError
from legato.base.target import Target, best, missing_features, target
from legato.remote._far import GREETING
from legato.remote.arrays import pack, unpack
from legato.remote.package import archive
from legato.remote.place import Place

__all__ = ["Connection", "Reply"]

PYTHON: Final = (3, 11)
NUMPY: Final = 2
_MACHINE: Final = ("Linux", "x86_64")
_REFUSED: Final = 255  # what ssh itself ends with
_LINES: Final = 1000  # of what a login shell may print
_LINE: Final = 1 << 16
_PATIENCE: Final = 5.0  # seconds that ssh has to end
_CHUNK: Final = 1 << 20
_LENGTH: Final = struct.Struct(">Q")

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a job gave: facts about it (threads, inputs, seconds …), and the outputs of a call."""

    facts: Mapping[str, Any]
    outputs: Mapping[str, Any]


class Connection:
    """A machine that answers; a context manager, in which it does one job.

    PlatformError for a machine that cannot run programs, or lacks Python or NumPy, and where there is no ssh here;
    RunError where ssh is refused, and whenever the connection ends too early.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.cpu = "unknown"
        self._flags: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        if shutil.which("ssh") is None:
            raise PlatformError("there is no ssh on PATH\n  hint: install OpenSSH's client (openssh-client)")
        program = files("legato.remote").joinpath("_far.py").read_bytes()
        # Nothing is imported from the folder that it starts in.
        start = f"import sys;sys.path[:]=filter(None,sys.path);exec(sys.stdin.buffer.read({len(program)}))"
        shell = f"uname -s -m; exec {self.place.python} -c '{start}'"
        self._said: IO[bytes] = TemporaryFile()
        self._process = subprocess.Popen(
            self.place.command(shell), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._out, self._in = self._process.stdin, self._process.stdout
        try:
            self._write(program)
            self._greet()
            self._learn(self._json())
        except BaseException as error:
            self.__exit__(type(error))
            if isinstance(error, KeyError | TypeError | ValueError | AttributeError):
                raise self._strange("something else than what it is") from error
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *exc: object) -> None:
        """Lets the other machine clear away what it has no use for any more; after Ctrl-C nobody waits for that."""
        with suppress(OSError):
            self._out.close()
        if kind is None or issubclass(kind, Exception):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
        self._process.kill()
        self._process.wait()
        self._in.close()
        self._said.close()

    # ------------------------------------------------------------------------------------------------ who is there

    def _greet(self) -> None:
        """Reads what comes before the first frame: whatever a login shell prints, what machine it is, the greeting."""
        lines: list[str] = []
        while len(lines) < _LINES:
            line = self._in.readline(_LINE)
            if not line or line == GREETING:
                break
            lines += [text] if (text := line.decode(errors="replace").strip()) else []
        system, _, machine = (lines or [""])[-1].partition(" ")
        is_machine = system.isalnum() and machine and " " not in machine
        if is_machine and (system, machine) != _MACHINE:
            raise PlatformError(
                f"{self.place} is {system} on {machine}; programs are compiled for Linux on x86-64 only so far"
            )
        if line == GREETING:
            return
        code, said = self._ended()
        if code == _REFUSED:
            port = "" if self.place.port is None else f"-p {self.place.port} "
            hint = f"this must work without a question: ssh -o BatchMode=yes {port}{self.place} true"
            raise RunError(f"{self.place} cannot be reached: {said or 'ssh does not say why'}\n  hint: {hint}")
        if not is_machine:
            raise PlatformError(f"{self.place} has no shell that says what it is: {said or (lines or ['nothing'])[-1]}")
        hint = f"install Python {'.'.join(map(str, PYTHON))} or newer with NumPy there, or name it: ssh://HOST/opt/venv/bin/python3"
        raise PlatformError(f"{self.place} has no {self.place.python}: {said or f'exit code {code}'}\n  hint: {hint}")

    def _learn(self, facts: Mapping[str, Any]) -> None:
        python, numpy = tuple(facts["python"]), facts["numpy"]
        hint = "a Python that has both may be named: ssh://HOST/opt/venv/bin/python3"
        if python < PYTHON:
            found, wanted = (".".join(map(str, version)) for version in (python, PYTHON))
            raise PlatformError(
                f"{self.place}: {self.place.python} is Python {found}, and {wanted} is wanted\n  hint: {hint}"
            )
        if numpy is None or int(numpy.partition(".")[0]) < NUMPY:
            found = "has no NumPy" if numpy is None else f"has NumPy {numpy}"
            raise PlatformError(
                f"{self.place}: {self.place.python} {found}, and {NUMPY} or newer is wanted\n  hint: {hint}"
            )
        self.cpu, self._flags = str(facts["cpu"]), frozenset(map(str, facts["flags"]))

    @property
    def target(self) -> Target:
        """The best target for that machine; PlatformError where there is none."""
        found = best(self._flags)
        if found is None:
            raise PlatformError(f"{self.place} ({self.cpu}) lacks SSE4.2 (x86-64-v2), which Legato needs")
        return found

    def require_target(self, name: str, what: object) -> None:
        """PlatformError where that machine lacks what code for the target `name` uses: `what` has such code."""
        missing = missing_features(target(name), self._flags)
        if missing:
            raise PlatformError(
                f"{what} is compiled for {name}, and {self.place} ({self.cpu}) lacks {', '.join(missing)}\n"
                f"  hint: compile it for {self.target.name}"
            )

    # ------------------------------------------------------------------------------------------------ the job

    def run(self, artifact: Path, job: Mapping[str, Any], given: Any = None, tell: Tell = lambda what: None) -> Reply:
        """Sends what that machine lacks, has it do the job (see `there`), and gives what it answers. `given`: arrays by
        name or in order, in the place of those that it makes up.

        Raises the errors that it had, and RunError where the connection ends.
        """
        named = given if given is None or isinstance(given, Mapping) else {str(n): a for n, a in enumerate(given)}
        arrays = None if named is None else pack(named)
        ordered = None if given is None else "by name" if named is given else "in order"
        package = archive()
        with open(artifact, "rb") as file:  # once: it may be replaced meanwhile
            digest, size = hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
            sent = [("zip", hashlib.sha256(package).hexdigest()), ("legato", digest)]
            self._send({"files": sent, "job": dict(job) | {"given": ordered}})
            for kind in self._missing():
                tell(f"sending {'the runtime' if kind == 'zip' else artifact.name} to {self.place}")
                if kind == "zip":
                    self._write(_LENGTH.pack(len(package)) + package)
                else:
                    self._write_file(file, size)
        if arrays is not None:
            self._write(_LENGTH.pack(len(arrays)) + arrays)
        return self._reply(tell, measures=bool(job["rounds"]))

    def _missing(self) -> Sequence[str]:
        """What the other machine asks for."""
        match self._json():
            case {"missing": list(kinds)} if all(kind in ("zip", "legato") for kind in kinds):
                return kinds
        raise self._strange("something else than what it lacks")

    def _reply(self, tell: Tell, *, measures: bool) -> Reply:
        while True:
            match self._json():
                case {"told": str(told)}:
                    tell(f"{told} on {self.place}")
                case {"error": {"kind": str(), "message": str()} as error}:
                    raise self._error_of(error)
                case {"done": dict(done)} if _is_result(done, measures=measures):
                    return Reply(done, {} if measures else unpack(self._frame()))
                case _:
                    raise self._strange("something else than results")

    def _error_of(self, error: Mapping[str, str]) -> LegatoError:
        """The error that the other machine had, of its class."""
        found = getattr(errors, error["kind"], RunError)
        is_plain = (
            isinstance(found, type) and issubclass(found, LegatoError) and not issubclass(found, errors.CompileError)
        )
        return (found if is_plain else RunError)(f"{self.place}: {error['message']}")

    # ------------------------------------------------------------------------------------------------ frames

    def _send(self, data: object) -> None:
        body = json.dumps(data).encode()
        self._write(_LENGTH.pack(len(body)) + body)

    def _write_file(self, file: BinaryIO, left: int) -> None:
        """Sends so many bytes of a file; RunError where it has become shorter."""
        self._write(_LENGTH.pack(left))
        file.seek(0)
        while left:
            chunk = file.read(min(left, _CHUNK))
            if not chunk:
                raise RunError(f"{file.name} was written to while it was sent to {self.place}\n  hint: try again")
            self._write(chunk)
            left -= len(chunk)

    def _write(self, data: bytes) -> None:
        """Writes to the other machine. Where it is not there any more, what is read next says why."""
        with suppress(BrokenPipeError):
            self._out.write(data)
            self._out.flush()

    def _frame(self) -> bytes:
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        try:
            return self._exactly(size)
        except (MemoryError, OverflowError):
            raise self._strange(f"{size} bytes, for which there is no room") from None

    def _json(self) -> dict[str, Any]:
        try:
            found = json.loads(self._frame())
        except (ValueError, RecursionError):
            raise self._strange("what is no JSON") from None
        if not isinstance(found, dict):
            raise self._strange(f"a {type(found).__name__}")
        return found

    def _strange(self, what: str) -> RunError:
        """The error of an answer that this Legato's own program would not give."""
        return RunError(f"{self.place} answers {what}: it does not run what was sent")

    def _exactly(self, size: int) -> bytes:
        found = self._in.read(size)
        if len(found) != size:
            self._lost()
        return found

    def _lost(self) -> NoReturn:
        code, said = self._ended()
        if code == _REFUSED:
            raise RunError(f"the connection to {self.place} was lost: {said or 'ssh does not say why'}")
        raise RunError(
            f"{self.place.python} on {self.place} ended with exit code {code}: {said or 'it does not say why'}"
        )

    def _ended(self) -> tuple[int, str]:
        """The exit code of ssh, and the last line that it, or what it ran, has said."""
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").split("\n")
        return code, next((line.strip() for line in reversed(lines) if line.strip()), "")


def _is_result(done: Mapping[str, Any], *, measures: bool) -> bool:
    """Whether facts are those of a call, or of a measurement."""
    match done:
        case {"threads": int(), "mapped": float(), "inputs": list(inputs)}:
            is_right = _are_blocks(done.get("blocks")) if measures else isinstance(done.get("seconds"), float)
            return is_right and all(isinstance(text, str) for text in inputs)
    return False


def _are_blocks(blocks: object) -> bool:
    """Whether it is the seconds of calls, in blocks."""
    if not isinstance(blocks, list) or not blocks:
        return False
    return all(isinstance(each, list) and each and all(isinstance(call, float) for call in each) for each in blocks)
