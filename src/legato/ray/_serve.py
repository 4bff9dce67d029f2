"""A program as a deployment of Ray Serve: requests of one row each, answered in batches."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any, Final

from legato.base.errors import InternalError, LegatoError, PlatformError, RunError
from legato.base.kinds import integer, require, require_number
from legato.ray._rows import Array, Row, Rows
from legato.ray._source import Program, Source, require_ray, require_threads, threads_of
from legato.ray._wire import JSON, MAX_JSON, MAX_NPZ, NPZ, described, from_json, from_npz, to_json, to_npz

if TYPE_CHECKING:
    from starlette.responses import Response

__all__ = ["deployment"]

_NPZ: Final = (from_npz, to_npz, MAX_NPZ)
_CARRIED: Final = {NPZ: _NPZ, "application/octet-stream": _NPZ, JSON: (from_json, to_json, MAX_JSON)}
_WAITING: Final = 4  # batches whose requests a replica may have taken: one runs, others fill up


def deployment(
    source: Source,
    *,
    max_batch_size: int = 32,
    batch_wait_timeout_s: float = 0.005,
    threads: int | None = None,
    **options: Any,
) -> Any:
    """An application for `ray.serve.run`, or to be bound to other deployments: the program answers requests of one row.

    source, threads: as for `batch_predictor`. An executable ends with the process that made it: replicas that Serve
    starts later, for one that ended or for more requests, do not get it then. A server that stays wants a path.
    A batch runs when `max_batch_size` requests are there, or the first has waited for `batch_wait_timeout_s`. Requests
    whose rows have other shapes make a batch of their own, and one at fault fails alone.
    options: those of `ray.serve.deployment`: name, num_replicas, ray_actor_options={"num_cpus": 2}, …

    By HTTP: POST of `{"inputs": {NAME: nested lists}}` as application/json, or of a .npz file as application/x-npz; the
    answer has the same form. GET says what a row is. In Python: `handle.remote({NAME: array})` gives a dict of arrays.

    RunError for numbers that make no sense, MissingError where Ray Serve is not installed.
    """
    require_threads(threads)
    if (integer(max_batch_size) or 0) < 1:
        raise RunError(f"max_batch_size: got {max_batch_size!r}, wanted a positive number")
    wanted = "seconds, from 0 on"
    wait = require_number(batch_wait_timeout_s, "batch_wait_timeout_s", wanted, RunError)
    require(0 <= wait < math.inf, batch_wait_timeout_s, "batch_wait_timeout_s", wanted, RunError)
    require_ray("starlette", "uvicorn")
    from ray import serve

    program = Program(source)
    known = {"name": "legato", "max_ongoing_requests": _WAITING * max_batch_size, **options}

    class Server:
        """The program in a replica."""

        def __init__(self) -> None:
            import ray

            own = threads_of(ray.get_runtime_context().get_assigned_resources(), threads)
            self.answers = Answers(Rows(program.load(own)))

        @serve.batch(  # type: ignore[untyped-decorator]  # Ray's
            max_batch_size=max_batch_size, batch_wait_timeout_s=batch_wait_timeout_s
        )
        async def batch(self, rows: list[Row]) -> list[dict[str, Array] | LegatoError]:
            """The outputs of some rows; the event loop goes on taking requests."""
            return await asyncio.to_thread(self.answers.of_rows, rows)

        async def __call__(self, request: Any) -> Response | dict[str, Array]:
            """The answer to one request, by HTTP or from Python."""
            if isinstance(request, dict):  # one of HTTP is a mapping, too
                return raised(await self.batch(request))
            from starlette.responses import Response

            status, kind, body = await self.answers.http(
                request.method, request.headers.get("content-type", JSON), request.stream(), self.batch
            )
            return Response(body, status, media_type=kind)

        def check_health(self) -> None:
            """Whether calls can go on: raises what says that they cannot, and Serve starts another replica."""
            self.answers.require_health()

    return serve.deployment(**known)(Server).bind()


def raised(result: dict[str, Array] | LegatoError) -> dict[str, Array]:
    """The outputs; raises the error where that is the result."""
    if isinstance(result, LegatoError):
        raise result
    return result


class Answers:
    """What a replica answers, and whether it is well."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._fatal: LegatoError | None = None

    def of_rows(self, rows: list[Row]) -> list[dict[str, Array] | LegatoError]:
        """The outputs for each row, or why it has none. What no row is spared is noted."""
        found = self._rows.of_rows(rows)
        faults = [result for result in found if isinstance(result, InternalError | PlatformError)]
        if faults and not self._rows.is_well():  # else whoever knows such a row could end replicas at will
            self._fatal = faults[-1]
        return found

    def require_health(self) -> None:
        """Raises what a call ended with that no later one may be spared: a bug of ours, or a machine that lacks
        something."""
        if self._fatal is not None:
            raise self._fatal

    async def http(
        self, method: str, content_type: str, parts: AsyncIterable[bytes], batch: Any
    ) -> tuple[int, str, bytes]:
        """Status, content type and body of the answer to a request whose body comes in parts; `batch` runs rows."""
        kind = content_type.partition(";")[0].strip().lower()
        if method == "GET":
            return 200, JSON, json.dumps(described(self._rows.info)).encode()
        if method != "POST":
            return _failed(405, RunError(f"{method}: wanted POST, or GET for what a row is"))
        if kind not in _CARRIED:
            return _failed(415, RunError(f"content type {kind!r}: wanted {JSON} or {NPZ}"))
        decode, encode, most = _CARRIED[kind]
        body = bytearray()
        async for part in parts:
            body += part
            if len(body) > most:
                return _failed(413, RunError(f"the request is too large: wanted at most {most} bytes"))
        try:
            row = await asyncio.to_thread(decode, bytes(body), self._rows.info)
            return 200, kind, encode(raised(await batch(row)))
        except RunError as error:
            return _failed(503 if error.lacks_memory else 400, error)
        except LegatoError as error:
            return _failed(500, error)


def _failed(status: int, error: LegatoError) -> tuple[int, str, bytes]:
    return status, JSON, json.dumps({"error": {"kind": type(error).__name__, "message": str(error)}}).encode()
