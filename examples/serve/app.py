"""A model as a web service: an ASGI application that answers many requests with few calls.

    legato compile digits.onnx -o digits.legato
    MODEL=digits.legato uvicorn --factory app:create      (or hypercorn, granian, …: any server that speaks ASGI)

POST /run takes an array as numpy.save writes it, one or more rows, and gives the rows of the result in the same form.
GET /health says that the process answers. Nothing but NumPy and Legato is imported.

Requests that arrive while the model runs wait, and are the rows of its next call together: the busier the service, the
larger the batches. A request that finds nobody waiting runs at once: there is no timer to tune.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import numpy as np

import legato
from legato.runtime import Executable

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
Array = np.ndarray[Any, Any]

LARGEST = 16 << 20  # bytes of a request


class RefusedError(Exception):
    """A request that is answered with a status of HTTP and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Batcher:
    """Calls of a program with one input and one output, whose first dims are the number of rows.

    most:     rows of one call: with `exe.peak_memory` it bounds the memory of the service
    waiting:  rows that may wait; more are refused, since clients that wait for long give up and ask again
    """

    def __init__(self, exe: Executable, most: int = 64, waiting: int = 1024) -> None:
        (self._input,), (_output,) = exe.inputs, exe.outputs
        self._exe, self._most, self._limit = exe, most, waiting
        self._waiting: deque[tuple[Array, asyncio.Future[Array]]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def __call__(self, rows: Array) -> Array:
        """The program's result on `rows`; RefusedError where they do not fit, or there are too many."""
        self._require_fit(rows)
        if sum(len(others) for others, _ in self._waiting) + len(rows) > self._limit:
            raise RefusedError(503, "too many requests are waiting")
        answer: asyncio.Future[Array] = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, answer))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await answer

    def _require_fit(self, rows: Array) -> None:
        """Each request by itself: one that does not fit must not spoil the others of its batch."""
        wanted = self._input.shape[1:]
        if rows.dtype != self._input.dtype or rows.shape[1:] != wanted or not 1 <= len(rows) <= self._most:
            got = f"{rows.dtype}{list(rows.shape)}"
            raise RefusedError(400, f"got {got}, wanted 1 to {self._most} rows of {self._input.dtype}{list(wanted)}")

    async def _work(self) -> None:
        """Calls the program until nobody waits."""
        try:
            while batch := self._take():
                await self._run(batch)
        finally:
            self._worker = None

    def _take(self) -> list[tuple[Array, asyncio.Future[Array]]]:
        """Those that have waited longest, as many as a call may have; not those whose clients have gone."""
        batch: list[tuple[Array, asyncio.Future[Array]]] = []
        left = self._most
        while self._waiting and (self._waiting[0][1].done() or len(self._waiting[0][0]) <= left):
            rows, answer = self._waiting.popleft()
            if not answer.done():
                batch.append((rows, answer))
                left -= len(rows)
        return batch

    async def _run(self, batch: list[tuple[Array, asyncio.Future[Array]]]) -> None:
        """One call, in a thread: the loop goes on collecting requests meanwhile."""
        try:
            result = await asyncio.to_thread(self._exe, np.concatenate([rows for rows, _ in batch]))
        except BaseException as error:
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(RefusedError(500, f"the call failed: {error}"))
            if not isinstance(error, Exception):  # the service ends
                raise
            return
        start = 0
        for rows, answer in batch:
            if not answer.done():
                answer.set_result(result[start : start + len(rows)])
            start += len(rows)


def create() -> Application:
    """The application that serves the compiled program in the file $MODEL."""
    return application(Batcher(legato.load(os.environ["MODEL"])))


def application(run: Callable[[Array], Awaitable[Array]]) -> Application:
    """An ASGI application that answers with `run`."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            try:
                kind, body = await _answer(run, scope, receive)
                await _reply(send, 200, kind, body)
            except RefusedError as error:
                await _reply(send, error.status, "text/plain; charset=utf-8", f"{error}\n".encode())

    return app


async def _live(receive: Receive, send: Send) -> None:
    """Says yes to the server's start and end."""
    while True:
        event = (await receive())["type"]
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return


async def _answer(run: Callable[[Array], Awaitable[Array]], scope: Message, receive: Receive) -> tuple[str, bytes]:
    """The content type and the bytes of an answer."""
    match scope["method"], scope["path"]:
        case "GET", "/health":
            return "text/plain; charset=utf-8", b"ready\n"
        case "POST", "/run":
            file = io.BytesIO()
            np.save(file, await run(_array(await _body(receive))))
            return "application/octet-stream", file.getvalue()
        case _, "/health" | "/run":
            raise RefusedError(405, "POST /run, GET /health")
    raise RefusedError(404, "POST /run, GET /health")


async def _body(receive: Receive) -> bytes:
    """What the client has sent, up to a limit."""
    found = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusedError(400, "the client has gone")
        found += message.get("body", b"")
        if len(found) > LARGEST:
            raise RefusedError(413, f"more than {LARGEST} bytes")
        if not message.get("more_body"):
            return bytes(found)


def _array(data: bytes) -> Array:
    """The array that `data` is as a .npy file: never a pickle, which could run code."""
    try:
        return np.atleast_1d(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False))
    except (ValueError, EOFError, OSError, MemoryError, SyntaxError, UnicodeError) as error:
        raise RefusedError(400, f"not an array as numpy.save writes it: {error}") from error


async def _reply(send: Send, status: int, kind: str, body: bytes) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
