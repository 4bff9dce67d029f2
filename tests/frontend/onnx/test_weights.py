"""Large weights are read apart from the message: nothing else may come of it."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from legato.base.errors import LegatoError
from legato.frontend.onnx import check, from_onnx, reader, weights
from legato.ir.equal import alpha_equal
from legato.ir.printer import show_with_tensors
from tests.frontend.onnx.peer import model, value

RNG = np.random.default_rng(3)


def wide(dtype: Any = np.float32) -> onnx.ModelProto:
    """Large and small initializers, also one that is not stored raw."""
    given = {"w": RNG.standard_normal((64, 96)).astype(dtype), "b": RNG.standard_normal(96).astype(dtype)}
    proto = model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Add", ["h", "b"], ["g"]),
            helper.make_node("MatMul", ["g", "v"], ["y"]),
        ],
        [value("x", (2, 64))],
        weights=given,
    )
    for tensor in proto.graph.initializer:  # raw_data, as exporters have it
        tensor.CopyFrom(numpy_helper.from_array(given[tensor.name], tensor.name))
    second = helper.make_tensor("v", onnx.TensorProto.FLOAT, (96, 32), RNG.standard_normal(96 * 32).tolist())
    proto.graph.initializer.append(second)
    return proto


@pytest.fixture(autouse=True)
def split_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LARGE", 0)


def parts(path: Path) -> weights.Apart | None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return weights.split(descriptor)
    finally:
        os.close(descriptor)


def test_weights_are_apart(tmp_path: Path) -> None:
    proto = wide()
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    found = parts(tmp_path / "m.onnx")
    assert found is not None
    assert list(found.weights) == [0]
    rest = onnx.ModelProto.FromString(found.message)
    assert rest.graph.initializer[0].name == "w"
    assert not rest.graph.initializer[0].HasField("raw_data")
    assert found.weights[0].tobytes() == proto.graph.initializer[0].raw_data
    assert found.weights[0].ctypes.data % 64 == found.weights[0].base.ctypes.data % 64  # type: ignore[union-attr]
    rest.graph.initializer[0].raw_data = proto.graph.initializer[0].raw_data
    assert rest == proto


def test_the_module_is_the_same(tmp_path: Path) -> None:
    content = wide().SerializeToString()
    (tmp_path / "m.onnx").write_bytes(content)
    whole, split = from_onnx(content), from_onnx(tmp_path / "m.onnx")
    assert alpha_equal(whole, split)
    assert [t.tobytes() for t in show_with_tensors(split)[1].values()] == [
        t.tobytes() for t in show_with_tensors(whole)[1].values()
    ]
    report = check(tmp_path / "m.onnx")
    assert (report.bytes, report.parameters) == (check(content).bytes, check(content).parameters)


@pytest.mark.parametrize("change", ["twice", "no graph", "short shape", "group"])
def test_unusual_files_are_judged_as_a_whole(change: str, tmp_path: Path) -> None:
    proto = wide()
    content = proto.SerializeToString()
    if change == "twice":
        content += onnx.ModelProto(graph=onnx.GraphProto(name="again")).SerializeToString()
    elif change == "no graph":
        content = onnx.ModelProto(ir_version=8).SerializeToString()
    elif change == "group":
        content += bytes([99 << 3 & 0x7F | 3 | 0x80, 6])
    else:
        proto.graph.initializer[0].dims[0] = 7
        content = proto.SerializeToString()
    (tmp_path / "m.onnx").write_bytes(content)
    assert outcome(content) == outcome(tmp_path / "m.onnx").replace(str(tmp_path / "m.onnx"), "the model")


def outcome(source: Any) -> str:
    try:
        return str(from_onnx(source))
    except LegatoError as error:
        return str(error)


def test_damage_is_found_as_without(tmp_path: Path) -> None:
    content = wide().SerializeToString()
    head = content.index(b"raw" if b"raw" in content[:200] else b"x") + 400
    generator = random.Random(4)
    path = tmp_path / "m.onnx"
    for _ in range(150):
        damaged = bytearray(content)
        damaged[generator.choice([generator.randrange(head), generator.randrange(len(content))])] ^= (
            1 << generator.randrange(8)
        )
        if generator.random() < 0.2:
            del damaged[generator.randrange(len(damaged)) :]
        path.write_bytes(damaged)
        assert outcome(bytes(damaged)) == outcome(path).replace(str(path), "the model")
