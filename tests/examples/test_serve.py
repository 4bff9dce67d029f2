"""examples/serve: requests become rows of few calls, and each gets its own."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import legato

FILE = Path(__file__).parents[2] / "examples/serve/app.py"
PROGRAM = """
#[version = "0.0.5"]
def @main[n: ShapeVar](%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) -> Tensor[(n, 3), float32] {
  nn.dense(%x, %w)
}
"""
W = np.arange(12, dtype="float32").reshape(3, 4)


@pytest.fixture(scope="module")
def serve() -> ModuleType:
    spec = importlib.util.spec_from_file_location("serve_app", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Slow:
    """An executable that notes the rows of each call, and waits in it until it may go on."""

    def __init__(self) -> None:
        self._exe = legato.compile(legato.parse(PROGRAM), constants={"w": W})
        self.inputs, self.outputs = self._exe.inputs, self._exe.outputs
        self.rows: list[int] = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, x: np.ndarray) -> Any:
        self.rows.append(len(x))
        assert self.go.wait(60)
        if (x == 13).any():
            raise RuntimeError("unlucky")
        return self._exe(x)


@pytest.fixture(scope="module")
def exe() -> Slow:
    return Slow()


@pytest.fixture(autouse=True)
def _fresh(exe: Slow) -> None:
    exe.rows.clear()
    exe.go.set()


def packed(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


async def ask(
    app: Callable[..., Awaitable[None]], body: bytes, path: str = "/run", method: str = "POST"
) -> tuple[int, bytes]:
    """The status and the body of an answer; the request comes in two messages."""
    half = len(body) // 2
    messages = [
        {"type": "http.request", "body": body[:half], "more_body": True},
        {"type": "http.request", "body": body[half:]},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http", "method": method, "path": path}, receive, send)
    start, end = sent
    assert dict(start["headers"])[b"content-length"] == str(len(end["body"])).encode()
    return start["status"], end["body"]


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


def test_requests_that_wait_share_a_call(serve: ModuleType, exe: Slow) -> None:
    app = serve.application(serve.Batcher(exe, most=8))
    arrays = [np.full((1 + k % 3, 4), k, "float32") for k in range(10)]  # 19 rows

    async def main() -> list[tuple[int, bytes]]:
        exe.go.clear()
        first = asyncio.create_task(ask(app, packed(arrays[0])))
        await until(lambda: exe.rows == [1])  # it runs, and the others come
        rest = [asyncio.create_task(ask(app, packed(array))) for array in arrays[1:]]
        for _ in range(20):
            await asyncio.sleep(0)
        exe.go.set()
        return list(await asyncio.gather(first, *rest))

    answers = asyncio.run(main())
    assert exe.rows == [1, 8, 6, 4]  # no more than 8, in order
    for array, (status, body) in zip(arrays, answers, strict=True):
        assert status == 200
        np.testing.assert_allclose(np.load(io.BytesIO(body)), array @ W.T, rtol=1e-6)


def test_one_that_fails_ends_its_own_batch_alone(serve: ModuleType, exe: Slow) -> None:
    app = serve.application(serve.Batcher(exe))

    async def main() -> list[tuple[int, bytes]]:
        found = [await ask(app, packed(np.full((1, 4), 13, "float32")))]
        return [*found, await ask(app, packed(np.ones((1, 4), "float32")))]

    (failed, message), (status, _) = asyncio.run(main())
    assert (failed, message) == (500, b"the call failed: unlucky\n")
    assert status == 200


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (packed(np.ones((1, 5), "float32")), 400, "got float32[1, 5], wanted 1 to 8 rows of float32[4]\n"),
        (packed(np.ones((1, 4))), 400, "got float64[1, 4], wanted 1 to 8 rows of float32[4]\n"),
        (packed(np.ones((9, 4), "float32")), 400, "got float32[9, 4], wanted 1 to 8 rows of float32[4]\n"),
        (packed(np.ones((0, 4), "float32")), 400, "got float32[0, 4], wanted 1 to 8 rows of float32[4]\n"),
        (packed(np.float32(1)), 400, "got float32[1], wanted 1 to 8 rows of float32[4]\n"),
        (b"hello", 400, "not an array as numpy.save writes it: "),
        (packed(np.array([None])), 400, "not an array as numpy.save writes it: "),
        (bytes((16 << 20) + 1), 413, "more than 16777216 bytes\n"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_waits(
    serve: ModuleType, exe: Slow, body: bytes, status: int, message: str
) -> None:
    app = serve.application(serve.Batcher(exe, most=8))
    found, said = asyncio.run(ask(app, body))
    assert found == status
    assert said.decode().startswith(message)
    assert exe.rows == []


def test_paths(serve: ModuleType, exe: Slow) -> None:
    app = serve.application(serve.Batcher(exe))
    assert asyncio.run(ask(app, b"", "/health", "GET")) == (200, b"ready\n")
    assert asyncio.run(ask(app, b"", "/run", "GET"))[0] == 405
    assert asyncio.run(ask(app, b"", "/", "GET"))[0] == 404


def test_too_many_are_refused_and_those_that_left_are_not_run(serve: ModuleType, exe: Slow) -> None:
    run = serve.Batcher(exe, most=4, waiting=4)

    async def main() -> None:
        exe.go.clear()
        first = asyncio.create_task(run(np.zeros((1, 4), "float32")))
        await until(lambda: exe.rows == [1])
        second = asyncio.create_task(run(np.zeros((3, 4), "float32")))
        third = asyncio.create_task(run(np.zeros((1, 4), "float32")))
        await asyncio.sleep(0)
        with pytest.raises(serve.RefusedError, match="too many requests") as refused:
            await run(np.zeros((1, 4), "float32"))
        assert refused.value.status == 503
        second.cancel()
        await asyncio.sleep(0)
        exe.go.set()
        await asyncio.gather(first, third)
        with pytest.raises(asyncio.CancelledError):
            await second

    asyncio.run(main())
    assert exe.rows == [1, 1]


def test_start_and_end(serve: ModuleType, exe: Slow) -> None:
    events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[str] = []

    async def receive() -> Any:
        return events.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    asyncio.run(serve.application(serve.Batcher(exe))({"type": "lifespan"}, receive, send))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_a_file_is_served(serve: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    legato.compile(legato.parse(PROGRAM), constants={"w": W}).save(tmp_path / "m.legato")
    monkeypatch.setenv("MODEL", str(tmp_path / "m.legato"))
    status, body = asyncio.run(ask(serve.create(), packed(np.ones((2, 4), "float32"))))
    assert status == 200
    np.testing.assert_array_equal(np.load(io.BytesIO(body)), np.ones((2, 4), "float32") @ W.T)
