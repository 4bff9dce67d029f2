"""Sparse initializers and constants: dense in the program, and refused where places, shape or size are wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx import check, from_onnx, initializers
from tests.frontend.onnx.peer import Array, legato_outputs, model, ort_outputs, value

WANTED = np.array([[0, 1.5, 0], [0, 0, -2]], np.float32)
X = np.ones((2, 3), np.float32)


def sparse(values: Array, indices: Array, dims: Sequence[int], name: str = "w") -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(values, name), numpy_helper.from_array(indices.astype(np.int64)), dims
    )


def added(tensor: onnx.SparseTensorProto) -> onnx.ModelProto:
    """x + w, with w a sparse initializer."""
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", (2, 3))])
    proto.graph.sparse_initializer.append(tensor)
    return proto


@pytest.mark.parametrize("indices", [np.array([1, 5]), np.array([[0, 1], [1, 2]])], ids=["flat", "subscripts"])
def test_initializer(indices: Array) -> None:
    proto = added(sparse(np.array([1.5, -2], np.float32), indices, (2, 3)))
    (got,), (want,) = legato_outputs(proto, {"x": X}), ort_outputs(proto, {"x": X})
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got, X + WANTED)
    assert check(proto).unsupported == ()


def test_strings_that_are_not_there_are_empty() -> None:
    tensor = sparse(np.array(["a", "b"], object), np.array([1, 2]), (4,))
    proto = model([helper.make_node("Identity", ["w"], ["y"])], [])
    proto.graph.sparse_initializer.append(tensor)
    (got,) = legato_outputs(proto, {})
    assert got.tolist() == ["", "a", "b", ""]


def test_most_dims_that_a_tensor_has() -> None:
    proto = model([helper.make_node("Constant", [], ["y"], sparse_value=sparse(
        np.array([2.5], np.float32), np.array([[0] * 63 + [1]]), [1] * 63 + [2]))], [])  # fmt: skip
    (got,) = legato_outputs(proto, {})
    assert got.ravel().tolist() == [0, 2.5]


def test_initializer_of_a_branch() -> None:
    result = helper.make_tensor_value_info("z", 1, (2, 3))
    then = helper.make_graph([helper.make_node("Identity", ["w"], ["z"])], "then", [], [result])
    then.sparse_initializer.append(sparse(np.array([1.5, -2], np.float32), np.array([1, 5]), (2, 3)))
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "else", [], [result])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    proto = model([node], [value("x", (2, 3)), value("c", (), "bool")])
    for c, wanted in ((True, WANTED), (False, -X)):
        (got,) = legato_outputs(proto, {"x": X, "c": np.array(c)})
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("values", [np.array([1.5, -2], np.float32), np.zeros(0, np.float32)], ids=["some", "none"])
def test_constant(values: Array) -> None:
    indices = np.array([1, 5])[: len(values)]
    node = helper.make_node("Constant", [], ["y"], sparse_value=sparse(values, indices, (2, 3)))
    (got,) = legato_outputs(model([node], []), {})
    np.testing.assert_array_equal(got, WANTED if len(values) else np.zeros_like(WANTED))


@pytest.mark.parametrize(
    ("indices", "dims", "message"),
    [
        ([1, 6], (2, 3), "outside of shape"),
        ([-1, 5], (2, 3), "outside of shape"),
        ([[0, 1], [1, 3]], (2, 3), "outside of shape"),
        ([1, 1], (2, 3), "twice"),
        ([1], (2, 3), "indices of dtype int64 and shape"),
        ([[0, 1, 0], [1, 2, 0]], (2, 3), "indices of dtype int64 and shape"),
        ([0, 0], (1,), "values of shape"),
        ([0, 1], (2, -3), "negative dimension"),
        ([0, 1], (1 << 20, 1 << 20), "at most"),
        ([0, 1], (1 << 40, 0), "at most"),
    ],
)
def test_wrong_ones(indices: list[int], dims: tuple[int, ...], message: str) -> None:
    with pytest.raises(ImportModelError, match=message):
        from_onnx(added(sparse(np.array([1.5, -2], np.float32), np.array(indices), dims)))


def test_large_ones_are_not_made() -> None:
    with pytest.raises(UnsupportedError, match="4294967296 bytes when it is dense"):
        from_onnx(added(sparse(np.array([1.5, -2], np.float32), np.array([0, 1]), (1 << 15, 1 << 15))))


@pytest.mark.parametrize("form", ["initializers", "constants"])
def test_many_ones_are_not_made(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the model's, wherever its sparse tensors are."""
    monkeypatch.setattr(initializers, "MAX_DENSE", 70)
    tensors = [sparse(np.array([1.5, -2], np.float32), np.array([1, 5]), (2, 3), f"w{n}") for n in range(3)]
    nodes = [helper.make_node("Sum", ["w0", "w1", "w2"], ["y"])]
    if form == "constants":
        nodes[:0] = [helper.make_node("Constant", [], [t.values.name], sparse_value=t) for t in tensors]
    proto = model(nodes, [])
    if form == "initializers":
        proto.graph.sparse_initializer.extend(tensors)
    (listed,) = check(proto).unsupported
    assert "a sparse tensor of 24 bytes when it is dense; at most" in listed.reason
    with pytest.raises(UnsupportedError, match="of a model's sparse tensors"):
        from_onnx(proto)
    monkeypatch.setattr(initializers, "MAX_DENSE", 72)
    np.testing.assert_array_equal(legato_outputs(proto, {})[0], 3 * WANTED)


def test_names_are_one_s_own() -> None:
    proto = added(sparse(np.array([1.5, -2], np.float32), np.array([1, 5]), (2, 3)))
    proto.graph.initializer.append(numpy_helper.from_array(X, "w"))
    with pytest.raises(ImportModelError, match="initializer 'w' is defined twice"):
        from_onnx(proto)
