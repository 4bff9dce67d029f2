"""With Ray itself, on this machine: `make test-ray`. Skipped where Ray is not installed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
import legato.ray
from legato.ray._wire import NPZ, to_npz
from legato.runtime import Executable
from tools.models import get

ray = pytest.importorskip("ray", reason="Ray is not installed: make test-ray")

pytestmark = [
    pytest.mark.models,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("default"),  # Ray's own
]
IMAGES, REQUESTS, BATCH = 5000, 1000, 32
SHAPE = (3, 24, 24)


def image(number: int) -> np.ndarray:
    return np.random.default_rng(number).standard_normal(SHAPE, np.float32)


@pytest.fixture(scope="module")
def exe() -> Executable:
    """A small convolutional network with two outputs."""
    return legato.compile(get("rnet_batch").path(), threads=1)


@pytest.fixture(scope="module")
def artifact(exe: Executable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ray") / "model.legato"
    exe.save(path)
    return path


@pytest.fixture(scope="module")
def wanted(exe: Executable) -> dict[str, np.ndarray]:
    """The outputs of plain calls, one for each image."""
    each = [exe.run({"x": image(n)[None]}) for n in range(IMAGES)]
    return {name: np.concatenate([outputs[name] for outputs in each]) for name in each[0]}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """A local Ray that takes this machine for one of four CPUs: so many workers may run. It waits for its own processes
    as long as a busy machine needs."""
    for check in ("PROXY_READY_CHECK", "PROXY_HEALTH_CHECK"):
        os.environ[f"RAY_SERVE_{check}_TIMEOUT_S"] = "300"
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=400 << 20)
    yield
    ray.shutdown()


def numbered(count: int) -> Any:
    """A data set of images and their numbers, in blocks that workers share."""

    def with_images(batch: dict[str, Any]) -> dict[str, Any]:
        return {"id": batch["id"], "pixels": np.stack([image(n) for n in batch["id"].tolist()])}

    return ray.data.range(count, override_num_blocks=20).map_batches(with_images, batch_size=100)


def dying(predictor: Any, folder: Path, path: Path) -> Any:
    """The predictor; the first of its workers that has done five batches is killed before it hands on the fifth."""

    class Dying(predictor):
        def __init__(self) -> None:
            super().__init__()
            self.batches = 0
            maps = Path("/proc/self/maps").read_text().splitlines()
            (folder / f"worker-{os.getpid()}").write_text("\n".join(m for m in maps if m.endswith(str(path))))

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            found = super().__call__(batch)
            self.batches += 1
            if self.batches == 5:
                try:
                    os.close(os.open(folder / "killed", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    return found  # another one was
                os.kill(os.getpid(), signal.SIGKILL)
            return found

    return Dying


def require_all(found: Any, wanted: dict[str, np.ndarray], count: int) -> None:
    """Every result is there once, and right."""
    columns = {name: np.concatenate([batch[name] for batch in found]) for name in ("id", *wanted)}
    order = np.argsort(columns["id"], kind="stable")
    np.testing.assert_array_equal(columns["id"][order], np.arange(count))
    for name, values in wanted.items():
        np.testing.assert_allclose(columns[name][order], values[:count], rtol=1e-4, atol=1e-5)


def test_every_result_is_there_once_although_a_worker_is_killed(
    artifact: Path, wanted: dict[str, np.ndarray], tmp_path: Path
) -> None:
    predictor = legato.ray.batch_predictor(artifact, columns={"x": "pixels"}, keep=["id"])
    made = numbered(IMAGES).map_batches(
        dying(predictor, tmp_path, artifact), batch_size=50, num_cpus=1, compute=ray.data.ActorPoolStrategy(size=2)
    )
    require_all(list(made.iter_batches(batch_size=None)), wanted, IMAGES)
    assert (tmp_path / "killed").exists()
    workers = list(tmp_path.glob("worker-*"))
    assert len(workers) > 2, "another worker has taken the place of the one that was killed"
    assert all(worker.read_text().split()[1] == "r--s" for worker in workers), "all read the pages of one file"


def test_an_executable_goes_through_the_memory_of_the_cluster(exe: Executable, wanted: dict[str, np.ndarray]) -> None:
    predictor = legato.ray.batch_predictor(exe, columns={"x": "pixels"}, keep="id")
    made = numbered(300).map_batches(predictor, batch_size=64, num_cpus=1, compute=ray.data.ActorPoolStrategy(size=2))
    require_all(list(made.iter_batches(batch_size=None)), wanted, 300)


def test_a_column_that_is_missing_is_told() -> None:
    predictor = legato.ray.batch_predictor(legato.compile(get("rnet_batch").path()), keep="id")
    made = numbered(10).map_batches(predictor, num_cpus=1, compute=ray.data.ActorPoolStrategy(size=1))
    with pytest.raises(Exception, match="no column x; the batch has id, pixels"):
        list(made.iter_batches())


@pytest.fixture(scope="module")
def url(artifact: Path) -> Iterator[str]:
    """A server of the model."""
    from ray import serve

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(
        legato.ray.deployment(
            artifact,
            max_batch_size=BATCH,
            batch_wait_timeout_s=0.01,
            max_ongoing_requests=REQUESTS,
            health_check_timeout_s=300,
        )
    )
    yield f"http://127.0.0.1:{port}/"
    serve.shutdown()


async def _posted(url: str, bodies: list[bytes], kind: str) -> list[tuple[int, bytes]]:
    """The answers to requests that are all sent at once."""
    import aiohttp

    async def one(session: Any, body: bytes) -> tuple[int, bytes]:
        async with session.post(url, data=body, headers={"content-type": kind}) as answer:
            return answer.status, await answer.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        return await asyncio.gather(*(one(session, body) for body in bodies))


def test_concurrent_requests_are_answered_rightly(
    url: str, exe: Executable, wanted: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    images = np.stack([image(n) for n in range(REQUESTS)])
    bodies = [to_npz({"x": each}) for each in images]
    bad = range(0, REQUESTS, 50)
    for n in bad:
        bodies[n] = to_npz({"x": images[n][:, :5]})
    asyncio.run(_posted(url, bodies[1:9], NPZ))  # connections, first calls
    start = time.perf_counter()
    answers = asyncio.run(_posted(url, bodies, NPZ))
    served = REQUESTS / (time.perf_counter() - start)
    for n, (status, body) in enumerate(answers):
        assert status == (400 if n in bad else 200), body
        if n not in bad:
            for name, value in np.load(BytesIO(body)).items():
                np.testing.assert_allclose(value, wanted[name][n], rtol=1e-4, atol=1e-5)
    alone = _rate(lambda n: exe.run({"x": images[n : n + 1]}), 1)
    together = _rate(lambda n: exe.run({"x": images[n : n + BATCH]}), BATCH)
    with capsys.disabled():
        print(
            f"\n{REQUESTS} requests at once over HTTP: {served:.0f}/s; plain calls in one process, one thread: "
            f"{alone:.0f}/s one by one, {together:.0f}/s in batches of {BATCH}"
        )


def _rate(call: Callable[[int], object], size: int) -> float:
    """Rows a second, of calls with `size` rows each."""
    start = time.perf_counter()
    for n in range(0, REQUESTS - size + 1, size):
        call(n)
    return REQUESTS / (time.perf_counter() - start)


def test_requests_from_python_and_json(url: str, wanted: dict[str, np.ndarray]) -> None:
    import json
    from urllib.request import urlopen

    from ray import serve

    handle = serve.get_app_handle("default")
    found = handle.remote({"x": image(3)}).result()
    np.testing.assert_allclose(found["boxes"], wanted["boxes"][3], rtol=1e-4, atol=1e-5)
    with pytest.raises(Exception, match="inputs: got y, wanted x"):
        handle.remote({"y": image(3)}).result()
    with urlopen(url) as answer:
        assert json.load(answer)["inputs"] == [{"name": "x", "type": "float32[3, 24, 24]"}]
    body = json.dumps({"inputs": {"x": image(4).tolist()}}).encode()
    ((status, said),) = asyncio.run(_posted(url, [body], "application/json"))
    assert status == 200
    np.testing.assert_allclose(json.loads(said)["outputs"]["boxes"], wanted["boxes"][4], rtol=1e-4, atol=1e-5)
