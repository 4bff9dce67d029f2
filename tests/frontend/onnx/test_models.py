"""Every real model: imported, run by the interpreter, and equal to ONNX Runtime, decoded results included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
import pytest

from legato.base.node import post_order
from legato.frontend.onnx import check, from_onnx
from legato.interp import evaluate
from legato.ir.expr import Call
from tests.heavy import BIG, light
from tests.steps import steps
from tools.models import MODELS, Feeds, Model, get

pytestmark = pytest.mark.models

SLOW = {
    "bert_base",
    "bert_base_batch",
    "vgg16",
    "vgg16_batch",
    "resnet50_batch",
    "resnet18_batch",
    "mobilenet_v2_batch",
}
RUN = [m for m in MODELS if m.name not in SLOW]  # the others take the interpreter many seconds
SMALL = ("crepe_batch", "rnet_batch", "pnet_batch", "onet_batch", "dqn_batch", "magika")
CLOSE = 1e-3  # of the output's range


def session(model: Model) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(str(model.path()), options, providers=["CPUExecutionProvider"])


def agree(model: Model, cases: Sequence[Feeds]) -> None:
    """One import, run on each of `cases` as ONNX Runtime runs it."""
    module = from_onnx(model.path())
    params = [param.name for param in module["main"].params]
    peer = session(model)
    for feeds in cases:
        wanted = peer.run(None, feeds)
        result = evaluate(module, [feeds[name] for name in params])
        found = result if isinstance(result, tuple) else (result,)
        for got, want in zip(found, wanted, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=0, atol=CLOSE * float(np.ptp(want)) + 1e-7)
        assert model.decode(found) == model.decode(wanted)


@pytest.mark.parametrize("model", light(RUN, [m for m in RUN if m.name not in BIG]), ids=lambda m: m.name)
def test_interpreter_equals_onnxruntime(model: Model) -> None:
    agree(model, [min(model.cases(), key=lambda feeds: sum(array.size for array in feeds.values()))])


@pytest.mark.parametrize("name", SMALL)
def test_one_import_runs_every_shape(name: str) -> None:
    model = get(name)
    agree(model, model.cases())


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
@pytest.mark.shared(3)
def test_shape_subgraphs_dissolve(model: Model) -> None:
    main = from_onnx(model.path())["main"]
    used = {n.op.name for n in post_order([main]) if isinstance(n, Call)}  # type: ignore[type-var]
    assert not used & {"shape_of", "ndarray_size"}
    assert check(model.path()).unsupported == ()


@pytest.mark.parametrize("model", [m for m in MODELS if m.symbolic], ids=lambda m: m.name)
def test_static_shapes(model: Model) -> None:
    main = from_onnx(model.path(), shapes=model.static_shapes())["main"]
    for node in post_order([main]):  # type: ignore[type-var]
        if isinstance(node, Call):
            types = node.ty.fields if hasattr(node.ty, "fields") else (node.ty,)
            assert all(ty.is_static for ty in types)
    assert main.attrs.get("constraints", ()) == ()


@pytest.mark.parametrize(("name", "nodes", "each"), [("resnet50", 175, 1_900), ("bert_base_batch", 588, 850)])
def test_import_takes_few_steps(name: str, nodes: int, each: int) -> None:
    path = get(name).path()
    from_onnx(path)
    assert steps(lambda: from_onnx(path)) < each * nodes
