"""Networks in other layouts: as fast programs that mean the same, with transforms at their ends alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import legato
from legato.infer.infer import infer
from legato.ir.expr import Call
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.transform.convert_layout import ConvertLayout
from legato.transform.fold_constant import FoldConstant
from tests.heavy import marked
from tools.models import get

pytestmark = pytest.mark.models


def operators(mod: Module) -> Counter[str]:
    nodes = (n for _, f in mod.graph_functions() for n in post_order(f))
    return Counter(n.op.name for n in nodes if isinstance(n, Call) and isinstance(n.op, Op))


@pytest.mark.parametrize(("name", "blocked"), [marked("resnet18", 19, heavy=True), ("mobilenet_v2", 47)])
def test_networks(name: str, blocked: int) -> None:
    model = get(name)
    mod = infer(legato.from_onnx(model.path()))
    feeds = model.cases()[0]
    rows = FoldConstant()(ConvertLayout()(mod))
    assert operators(rows)["layout_transform"] == 2  # of the input, and of the output
    blocks = FoldConstant()(ConvertLayout(("nn.conv2d:NCHW16c",))(mod))
    found = operators(blocks)
    assert found["nn.contrib_conv2d_NCHWc"] + found["nn.contrib_depthwise_conv2d_NCHWc"] == blocked
    plain, *others = (legato.compile(m) for m in (mod, rows, blocks))
    want = plain.run(feeds)
    for changed in others:
        assert changed.stats["kernels"] == plain.stats["kernels"]  # layouts are dissolved: the same loops
        for name, got in changed.run(feeds).items():
            np.testing.assert_allclose(got, want[name], rtol=1e-5, atol=1e-5)
