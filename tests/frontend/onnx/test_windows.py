"""Attention in shifted windows as torchvision's and transformers' Swin are exported, heights and widths symbolic."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
from onnx import helper

import legato
from legato.arith.evaluate import evaluate
from legato.arith.expr import Var
from legato.base.node import post_order
from legato.frontend.onnx import from_onnx
from legato.ir.expr import Call
from legato.ir.op import Op
from legato.lower.accesses import call_accesses
from legato.te.access import Proof
from tests.frontend.onnx.peer import model, ort_outputs, value
from tests.lower.programs import lowered
from tests.steps import steps

SIDE, CHANNELS = 4, 8  # of a window


class Draft:
    """Nodes of a graph, each with one output that is named after its place."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}

    def __call__(self, op: str, *inputs: str | int | tuple[int, ...], **attrs: object) -> str:
        names = [i if isinstance(i, str) else self.ints(i) for i in inputs]
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, [out], **attrs))
        return out

    def ints(self, number: int | tuple[int, ...]) -> str:
        """An initializer of rank 1."""
        values = number if isinstance(number, tuple) else (number,)
        name = "c" + "_".join(map(str, values))
        self.weights[name] = np.array(values, np.int64)
        return name

    def shape(self, *dims: str | int) -> str:
        """Dims, computed or known, as one tensor."""
        return self("Concat", *dims, axis=0)

    def rolled(self, x: str, axis: int, by: int) -> str:
        """torch.roll, which exporters write as two slices."""
        tail = self("Slice", x, -by, np.iinfo(np.int64).max, axis)
        return self("Concat", tail, self("Slice", x, 0, -by, axis), axis=axis)


def block(d: Draft, x: str, shift: int) -> str:
    """x + attention(x) in windows of x (b, h, w, CHANNELS), padded to whole ones."""
    shape = d("Shape", x)
    b, h, w = (d("Slice", shape, n, n + 1) for n in range(3))
    down, right = (d("Mod", d("Sub", SIDE, d("Mod", n, SIDE)), SIDE) for n in (h, w))
    padded = d("Pad", x, d.shape(0, 0, 0, 0, 0, down, right, 0))
    for axis in (1, 2) if shift else ():
        padded = d.rolled(padded, axis, -shift)
    shape = d("Shape", padded)
    rows, columns = (d("Div", d("Slice", shape, n, n + 1), SIDE) for n in (1, 2))
    split = d("Reshape", padded, d.shape(b, rows, SIDE, columns, SIDE, CHANNELS))
    windows = d("Mul", d("Mul", b, rows), columns)
    flat = d("Reshape", d("Transpose", split, perm=[0, 1, 3, 2, 4, 5]), d.shape(windows, SIDE * SIDE, CHANNELS))
    scores = d("MatMul", flat, d("Transpose", flat, perm=[0, 2, 1]))
    if shift:  # where a mask is added for each window of an image
        each = d("Mul", rows, columns)
        split = d("Reshape", scores, d.shape(d("Div", windows, each), each, 1, SIDE * SIDE, SIDE * SIDE))
        scores = d("Reshape", d("Sigmoid", split), (-1, SIDE * SIDE, SIDE * SIDE))
    mixed = d("MatMul", d("Softmax", scores), flat)
    split = d("Reshape", mixed, d.shape(b, rows, columns, SIDE, SIDE, CHANNELS))
    image = d("Reshape", d("Transpose", split, perm=[0, 1, 3, 2, 4, 5]),
              d.shape(b, d("Mul", rows, SIDE), d("Mul", columns, SIDE), CHANNELS))  # fmt: skip
    for axis in (1, 2) if shift else ():
        image = d.rolled(image, axis, shift)
    cut = d("Slice", d("Slice", image, 0, h, 1), 0, w, 2)
    return d("Add", x, cut)


def network(blocks: int) -> onnx.ModelProto:
    d = Draft()
    x = "x"
    for n in range(blocks):
        x = block(d, x, n % 2 * SIDE // 2)
    d.nodes[-1].output[0] = "y"
    return model(d.nodes, [value("x", ("b", "h", "w", CHANNELS))], weights=d.weights)


@pytest.mark.parametrize("sizes", [(1, 8, 8), (2, 5, 11), (3, 1, 4), (0, 3, 3)])
@pytest.mark.shared(3)
def test_agrees(sizes: tuple[int, int, int]) -> None:
    proto = network(2)
    x = np.random.default_rng(0).standard_normal((*sizes, CHANNELS)).astype(np.float32)
    (wanted,) = ort_outputs(proto, {"x": x})
    np.testing.assert_allclose(legato.compile(proto)(x), wanted, rtol=1e-4, atol=1e-5)


def test_what_is_left_to_calls() -> None:
    """Every subscript is proven, and images of any height and width that are not empty are taken."""
    main = from_onnx(network(2))["main"]
    calls = [n for n in post_order([main]) if isinstance(n, Call) and isinstance(n.op, Op) and n.op.compute]
    assert {a.proof for call in calls for a in call_accesses(call)} == {Proof.PROVEN}
    dims = [d for d in main.params[0].ty.shape if isinstance(d, Var)]
    for sizes in product((1, 2, 5), range(1, 10), (1, 3, 4, 9)):
        at = dict(zip(dims, sizes, strict=True))
        for c in main.attrs.get("constraints", ()):
            assert evaluate(c.a, at) == evaluate(c.b, at), (c.what, sizes)


def test_proofs_grow_with_the_number_of_blocks() -> None:
    short, long = (from_onnx(network(n)) for n in (2, 6))
    lowered(short)  # what every program shares
    assert steps(lambda: lowered(long)) < 2.5 * steps(lambda: lowered(short))
