"""Rows in requests: what JSON and .npz files say, and what they cannot."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from legato.base.dtype import ALL_DTYPES, STORAGE_DTYPES, DType
from legato.base.errors import InternalError, LegatoError, RunError, no_room
from legato.ray import _serve, _wire
from legato.ray._predict import Columns
from legato.ray._rows import Array, Row, Rows
from legato.ray._serve import Answers, raised
from legato.ray._wire import JSON, NPZ, described, from_json, from_npz, to_json, to_npz
from legato.runtime import Executable, arrays
from legato.runtime.program import TensorInfo
from tests.ray.programs import BFLOAT, DEEP, HEAD, NET, STRINGS, compiled, random

KINDS = HEAD + (
    "def @main(%i: Tensor[(n, 2), int8], %b: Tensor[(n,), bool], %f: Tensor[(n, 2), float16]) "
    '{ (%i, %b, %f) }'
)  # fmt: skip


def info(text: str) -> Any:
    return Rows(compiled(text)).info


def body(**inputs: Any) -> bytes:
    return json.dumps({"inputs": inputs}).encode()


def test_json_there_and_back() -> None:
    row = from_json(body(i=[1, -128], b=True, f=[0.5, "-Infinity"]), info(KINDS))
    assert {name: (array.dtype.name, array.tolist()) for name, array in row.items()} == {
        "i": ("int8", [1, -128]), "b": ("bool", True), "f": ("float16", [0.5, -np.inf]),
    }  # fmt: skip
    again = json.loads(to_json({"f": row["f"], "i": row["i"], "nan": np.float32([np.nan, np.inf])}))
    assert again == {"outputs": {"f": [0.5, "-Infinity"], "i": [1, -128], "nan": ["NaN", "Infinity"]}}
    assert from_json(body(x="ü"), info(STRINGS))["x"] == "ü"
    half = from_json(body(x=[1, 0.1, 2]), info(BFLOAT))["x"]
    assert json.loads(to_json({"y": half})) == {"outputs": {"y": [1.0, 0.10009765625, 2.0]}}


def row_of(kind: DType, *size: int) -> Any:
    """What is known of a program with one input, `x`."""
    return SimpleNamespace(inputs=(TensorInfo("x", kind.name, ("n", *size)),))


@pytest.mark.parametrize("kind", [*ALL_DTYPES, *STORAGE_DTYPES], ids=str)
def test_json_of_every_dtype(kind: DType) -> None:
    """Its smallest and its largest number come there and back, beyond them and in between there is none."""
    is_whole = "int" in kind.name
    numbers = [kind.min, kind.max, 1] if is_whole else [True, False, True] if kind.is_bool else [1.0, 2.0, 0.5]
    numbers = [1.0, 2.0, 1.0] if kind.name.startswith("float4") else numbers
    row = from_json(body(x=numbers), row_of(kind, 3))
    assert row["x"].dtype == kind.numpy
    again = json.loads(to_json(row))["outputs"]["x"]
    assert again == numbers
    assert [type(number) for number in again] == [type(number) for number in numbers]
    assert from_json(body(x=[]), row_of(kind, 0))["x"].dtype == kind.numpy
    for wrong in ([kind.min - 1, 0], [0, kind.max + 1], [0.5, 1.0], ["NaN", 1]) if is_whole or kind.is_bool else ():
        with pytest.raises(RunError, match=f"wanted nested lists of {kind}"):
            from_json(body(x=wrong), row_of(kind, 2))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "not readable as JSON"),
        (b"[" * 100_000, "not readable as JSON"),
        (b"\xff", "not readable as JSON"),
        (b"[]", 'no object with a member "inputs"'),
        (b'{"inputs": [1]}', 'no object with a member "inputs"'),
        (body(i=[1, 2], b=True), "inputs: got i, b, wanted i: int8"),
        (body(i=[1, 128], b=True, f=[1, 2]), 'input "i": wanted nested lists of int8: .*128'),
        (body(i=[1, 1.5], b=True, f=[1, 2]), 'input "i": wanted nested lists of int8, got float64'),
        (body(i=[1, 2], b=True, f=[1, [2]]), 'input "f": wanted nested lists of float16'),
        (body(i=[1, 2], b=True, f=["one", 2]), 'input "f": wanted nested lists of float16'),
        (body(i=[1, 2], b=True, f=None), 'input "f": wanted nested lists of float16'),
        (body(i=[1, 2], b="True", f=[1, 2]), 'input "b": wanted nested lists of bool'),
        (body(i=[1, 2**80], b=True, f=[1, 2]), 'input "i": wanted nested lists of int8'),
    ],
)  # fmt: skip
def test_json_that_is_no_row(data: bytes, why: str) -> None:
    with pytest.raises(RunError, match=why):
        from_json(data, info(KINDS))


def test_npz_there_and_back() -> None:
    import ml_dtypes

    x = random((3,)).astype(ml_dtypes.bfloat16)
    found = from_npz(to_npz({"x": x}), info(BFLOAT))["x"]
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found, x)
    for data in (b"", b"PK", to_npz({"x": x})[:-9]):
        with pytest.raises(RunError, match=r"no \.npz file"):
            from_npz(data, info(BFLOAT))
    pickled = io.BytesIO()
    np.savez(pickled, x=np.array([print], object))
    with pytest.raises(RunError, match=r"no \.npz file"):
        from_npz(pickled.getvalue(), info(BFLOAT))


def packed(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def test_requests_that_unpack_to_more_than_a_row_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of them is unpacked."""
    fixed, symbolic, row = info(BFLOAT), info(NET), {"x": np.zeros(3, np.float32), "w": np.zeros(2, np.float32)}
    assert from_npz(packed(**row), symbolic).keys() == row.keys()
    monkeypatch.setattr(_wire, "MAX_NPZ", 100_000)
    large, small = np.zeros(30_000, np.float32), np.zeros(20_000, np.float32)
    twice = io.BytesIO(packed(x=small, w=small))
    with zipfile.ZipFile(twice, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("w.npy", b"")
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w", zipfile.ZIP_BZIP2) as file:
        file.writestr("x.npy", bytes(100))
    monkeypatch.setattr(np, "load", None)
    for data, program, why in (
        (packed(x=large), fixed, r'input "x": got 120\d\d\d bytes, wanted at most 16432: it is x: bfloat16\[n, 3\]'),
        (packed(x=np.zeros(3), nobody=large), fixed, "inputs: got x, nobody, wanted x"),
        (packed(x=large, w=row["w"]), symbolic, r'input "x": got 120\d\d\d bytes, wanted at most 100000'),
        (twice.getvalue(), symbolic, "two arrays of one name"),
        (other.getvalue(), fixed, "packed in another way"),
    ):
        with pytest.raises(RunError, match=why):
            from_npz(data, program)


def test_bodies_that_are_too_large() -> None:
    request = Requests(Answers(Rows(compiled(NET))))
    for kind in (JSON, NPZ):
        _, _, most = _serve._CARRIED[kind]
        assert request("POST", kind, bytes(100))[0] == 400
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(_serve._CARRIED, kind, (*_serve._CARRIED[kind][:2], 5000))
            assert request("POST", kind, bytes(5001))[0] == 413
            assert request("POST", kind, bytes(5000))[0] == 400
        assert most >= 1 << 26


def test_what_a_row_is() -> None:
    assert described(info(NET)) == {
        "inputs": [{"name": "x", "type": "float32[m]"}, {"name": "w", "type": "float32[2]"}],
        "outputs": [{"name": "output0", "type": "float32[]"}, {"name": "output1", "type": "float32[4]"}],
    }


class Requests:
    """HTTP requests to a replica, each a batch of its own."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def __call__(self, method: str, kind: str, data: bytes) -> tuple[int, str, Any]:
        async def parts() -> AsyncIterator[bytes]:
            for start in range(0, len(data), 1000):
                yield data[start : start + 1000]

        async def batch(row: Row) -> dict[str, Array] | LegatoError:
            return self.answers.of_rows([row])[0]

        status, said, answer = asyncio.run(self.answers.http(method, kind, parts(), batch))
        return status, said, json.loads(answer) if said == JSON else answer


def test_requests_by_http() -> None:
    request = Requests(Answers(Rows(compiled(NET))))
    x, w = random((3,)), random((2,))
    status, kind, data = request("POST", "application/json; charset=utf-8", body(x=x.tolist(), w=w.tolist()))
    assert (status, kind) == (200, JSON)
    np.testing.assert_allclose(data["outputs"]["output0"], x.sum(), rtol=1e-6)
    status, kind, npz = request("POST", NPZ, to_npz({"x": x, "w": w}))
    assert (status, kind) == (200, NPZ)
    with np.load(io.BytesIO(npz)) as file:
        np.testing.assert_array_equal(file["output1"], np.concatenate([w, w]))
    assert request("GET", "", b"")[2]["inputs"][0] == {"name": "x", "type": "float32[m]"}
    for method, type_, sent, wanted in (
        ("PUT", JSON, b"", 405), ("POST", "text/plain", b"", 415), ("POST", JSON, b"no", 400),
        ("POST", JSON, body(x=[1.0], w=[1.0]), 400), ("POST", NPZ, b"no", 400),
    ):  # fmt: skip
        status, kind, data = request(method, type_, sent)
        assert (status, kind, data["error"]["kind"]) == (wanted, JSON, "RunError")


class Buggy:
    """A program that meets a bug wherever an input is less than `least`."""

    function = "main"

    def __init__(self, exe: Executable) -> None:
        self.exe, self.program, self.least = exe, exe.program, 0.0

    def keeping(self) -> Buggy:
        return self

    def run(self, inputs: Any) -> Any:
        if (inputs["x"] < self.least).any():
            raise InternalError("a bug")
        return self.exe.run(inputs)


def test_a_replica_is_ill_after_a_bug_that_all_meet_and_not_after_a_wrong_request() -> None:
    buggy = Buggy(compiled(NET))
    answers = Answers(Rows(buggy))  # type: ignore[arg-type]
    request = Requests(answers)
    request("POST", JSON, b"no")
    assert isinstance(answers.of_rows([{}])[0], RunError)
    answers.require_health()
    right = body(x=[1.0], w=[1.0, 2.0])
    for _ in range(3):
        assert request("POST", JSON, body(x=[-1.0], w=[1.0, 2.0]))[0] == 500
        answers.require_health()  # one row of one client met it
        assert request("POST", JSON, right)[0] == 200
    buggy.least = 2.0
    assert request("POST", JSON, right)[0] == 500
    with pytest.raises(InternalError, match="a bug"):
        answers.require_health()
    with pytest.raises(InternalError, match="a bug"):
        raised(InternalError("a bug"))


@pytest.mark.parametrize("error", [MemoryError("none"), no_room("out of memory: no room")])
def test_want_of_memory_is_no_fault_of_the_request(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    buggy = Buggy(compiled(NET))
    request, right = Requests(Answers(Rows(buggy))), body(x=[1.0], w=[1.0, 2.0])  # type: ignore[arg-type]

    def run(inputs: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(buggy, "run", run)
        status, _, data = request("POST", JSON, right)
    assert (status, data["error"]["kind"]) == (503, "RunError")
    request.answers.require_health()
    assert request("POST", JSON, right)[0] == 200


def test_a_call_that_the_machine_has_no_room_for_says_so() -> None:
    with pytest.raises(RunError) as found:
        arrays.empty((1 << 60,), np.dtype("f4"))
    assert found.value.lacks_memory
    limited = Executable(compiled(DEEP)._parts, memory_limit=1)
    with pytest.raises(RunError, match="memory_limit is 1") as found:
        limited(random((16, 1024)))
    assert not found.value.lacks_memory, "a limit of the user's own"


def test_columns_by_name() -> None:
    rows = Rows(compiled(NET))
    columns = Columns({"x": "pixels"}, {"output0": "total"}, ("id",))
    columns.require_known(rows)
    batch = {"pixels": random((4, 3)), "w": random((4, 2)), "id": np.arange(4), "more": np.zeros(4)}
    found = columns.result(batch, rows)
    assert list(found) == ["id", "total", "output1"]
    np.testing.assert_allclose(found["total"], batch["pixels"].sum(1), rtol=1e-6)
    with pytest.raises(RunError, match="no column pixels, id; the batch has w"):
        columns.result({"w": batch["w"]}, rows)
    for wrong, why in (
        (Columns({"z": "x"}, {}, ()), "no input 'z'; it has x, w"),
        (Columns({}, {"z": "x"}, ()), "no output 'z'; it has output0, output1"),
        (Columns({}, {"output0": "id"}, ("id",)), "two columns of the result have one name: id, output1, id"),
    ):
        with pytest.raises(RunError, match=why):
            wrong.require_known(rows)


def test_what_arrow_lacks_is_float32() -> None:
    import ml_dtypes

    rows = Rows(compiled(BFLOAT))
    found = Columns({}, {}, ()).result({"x": random((2, 3)).astype(ml_dtypes.bfloat16)}, rows)
    assert [array.dtype.name for array in found.values()] == ["float32", "float32"]
    np.testing.assert_array_equal(found["output0"], np.maximum(found["output1"], 0))
