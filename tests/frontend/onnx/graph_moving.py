"""Makers of random ONNX nodes that move, cut, gather and scatter elements."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import numpy_helper

from tests.frontend.onnx.graph_arithmetic import unary
from tests.frontend.onnx.graph_draft import Draft, Made, Maker

__all__ = ["MOVING"]

_BOUNDS = (0, 1, 2, 3, -1, -2, -3, -9, 9, 2**31 - 1, -(2**31), 2**63 - 1)


def _reshape(d: Draft) -> Made:
    x = d.pick()
    if x is None:
        return None
    shape = list(d.values[x].shape)
    if len(shape) > 1 and d.rng.random() < 0.6:
        at = d.rng.randrange(len(shape) - 1)
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    elif d.rng.random() < 0.5:
        shape.insert(d.rng.randint(0, len(shape)), 1)
    codes = [0 if d.rng.random() < 0.2 else n for n in shape]
    if codes and d.rng.random() < 0.5:
        codes[d.rng.randrange(len(codes))] = -1
    allow = {"allowzero": 1} if d.opset >= 14 and d.rng.random() < 0.1 else {}
    return "Reshape", [x, d.given(codes)], allow


def _squeeze(d: Draft) -> Made:
    x = d.pick()
    if x is None:
        return None
    ones = [n for n, e in enumerate(d.values[x].shape) if e == 1]
    axes = d.rng.sample(ones, d.rng.randint(0, len(ones)))
    if not axes:
        return "Squeeze", [x], {}
    return ("Squeeze", [x, d.given(axes)], {}) if d.opset >= 13 else ("Squeeze", [x], {"axes": axes})


def _unsqueeze(d: Draft) -> Made:
    x = d.pick(most=4)
    if x is None:
        return None
    axes = d.rng.sample(range(d.values[x].ndim + 2), 2) if d.rng.random() < 0.3 else [d.axis(d.values[x].ndim + 1)]
    return ("Unsqueeze", [x, d.given(axes)], {}) if d.opset >= 13 else ("Unsqueeze", [x], {"axes": axes})


def _transpose(d: Draft) -> Made:
    x = d.pick()
    if x is None:
        return None
    order = d.rng.sample(range(d.values[x].ndim), d.values[x].ndim)
    return "Transpose", [x], {"perm": order} if order and d.rng.random() < 0.8 else {}


def _concat(d: Draft) -> Made:
    x = d.pick(least=1)
    if x is None:
        return None
    a, axis = d.values[x], d.axis(d.values[x].ndim)
    shape = list(a.shape)
    shape[axis] = d.rng.randint(0, 3)
    reads = [x, x if d.rng.random() < 0.4 else d.like(x, shape)]
    d.rng.shuffle(reads)
    return "Concat", reads, {"axis": axis}


def _split(d: Draft) -> Made:
    x = d.pick(least=1)
    if x is None:
        return None
    axis = d.axis(d.values[x].ndim)
    extent = d.values[x].shape[axis]
    if d.rng.random() < 0.5:
        return "Split", [x], {"axis": axis, **({"num_outputs": 2} if d.opset >= 18 else {})}
    first = d.rng.randint(0, extent)
    sizes = [first, extent - first + (d.rng.random() < 0.05)]
    return (
        ("Split", [x, d.given(sizes)], {"axis": axis})
        if d.opset >= 13
        else ("Split", [x], {"axis": axis, "split": sizes})
    )


def _slice(d: Draft) -> Made:
    x = d.pick(least=1)
    if x is None:
        return None
    rank = d.values[x].ndim
    axes = d.rng.sample(range(rank), d.rng.randint(1, rank))
    starts, ends = ([d.rng.choice(_BOUNDS) for _ in axes] for _ in range(2))
    if d.opset < 10:
        return "Slice", [x], {"axes": axes, "starts": starts, "ends": ends}
    steps = [d.rng.choice((1, 1, 2, -1, -2, 3)) for _ in axes]
    reads = [x, d.given(starts), d.given(ends), d.given([a - rank if d.rng.random() < 0.3 else a for a in axes])]
    return "Slice", [*reads, d.given(steps)] if d.rng.random() < 0.7 else reads, {}


def _gather(operator: str) -> Maker:
    def make(d: Draft) -> Made:
        x = d.pick(least=1)
        if x is None:
            return None
        a = d.values[x]
        axis = d.axis(a.ndim)
        shape = d.shape(0, 2) if operator == "Gather" else [d.rng.randint(0, n) for n in a.shape]
        places = d.places(a.shape[axis], shape)
        return operator, [x, d.given(places, d.rng.choice(("int64", "int32")))], {"axis": axis}

    return make


def _gather_nd(d: Draft) -> Made:
    x = d.pick(least=1)
    if x is None:
        return None
    a = d.values[x]
    batch = d.rng.randint(0, a.ndim - 1) if d.opset >= 12 and d.rng.random() < 0.3 else 0
    depth = d.rng.randint(1, a.ndim - batch)
    extents = a.shape[batch : batch + depth]
    places = d.places(min(extents), (*a.shape[:batch], *d.shape(0, 2), depth))
    return "GatherND", [x, d.given(places)], {"batch_dims": batch} if batch else {}


def _scatter(d: Draft) -> Made:
    x = d.pick("fi", 1)
    if x is None or 0 in d.values[x].shape:
        return None
    a = d.values[x]
    axis = d.axis(a.ndim)
    shape = [d.rng.randint(0, n) for n in a.shape]
    if d.opset < 16:  # which of two updates of one element is the last is not said
        shape[axis] = min(shape[axis], 1)
    places = d.given(d.places(a.shape[axis], shape))
    more = {"reduction": d.rng.choice(("add", "mul") if d.opset < 18 else ("add", "mul", "max", "min"))}
    return "ScatterElements", [x, places, d.like(x, shape)], {"axis": axis, **(more if d.opset >= 16 else {})}


def _scatter_nd(d: Draft) -> Made:
    x = d.pick("fi", 1)
    if x is None or 0 in d.values[x].shape:
        return None
    a = d.values[x]
    depth = d.rng.randint(1, a.ndim)
    outer = d.shape(0, 2) if d.opset >= 16 else ()  # likewise
    places = d.given(d.places(min(a.shape[:depth]), (*outer, depth)))
    more = {"reduction": d.rng.choice(("add", "mul") if d.opset < 18 else ("add", "mul", "max", "min"))}
    return "ScatterND", [x, places, d.like(x, (*outer, *a.shape[depth:]))], more if d.opset >= 16 else {}


def _expand(d: Draft) -> Made:
    x = d.pick()
    if x is None:
        return None
    shape = [d.rng.randint(0, 3) if n == 1 else d.rng.choice((n, 1)) for n in d.values[x].shape]
    return "Expand", [x, d.given(list(d.shape(0, 1)) + shape)], {}


def _tile(d: Draft) -> Made:
    x = d.pick()
    return x and ("Tile", [x, d.given([d.rng.randint(0, 3) for _ in d.values[x].shape])], {})


def _pad(d: Draft) -> Made:
    x = d.pick("fiub" if d.opset >= 13 else "f", 1)
    if x is None:
        return None
    pads = [d.rng.choice((0, 0, 1, 2, -1)) for _ in range(2 * d.values[x].ndim)]
    modes = ("constant", "constant", "edge", "reflect", *(("wrap",) if d.opset >= 19 else ()))
    mode = {"mode": d.rng.choice(modes)}
    if d.opset < 11:
        return "Pad", [x], {"pads": pads, **mode}
    reads = [x, d.given(pads)]
    return "Pad", [*reads, d.given(1, d.values[x].dtype.name)] if d.rng.random() < 0.5 else reads, mode


def _where(d: Draft) -> Made:
    condition, x = d.pick("b"), d.pick("fiub")
    return None if condition is None or x is None else ("Where", [condition, x, d.beside(x)], {})


def _top_k(d: Draft) -> Made:
    x = d.pick("fi", 1)
    if x is None:
        return None
    axis = d.axis(d.values[x].ndim)
    k = d.rng.randint(0, d.values[x].shape[axis])
    if d.opset < 10:
        return "TopK", [x], {"k": k, "axis": axis}
    more = {"largest": d.rng.randint(0, 1)} if d.opset >= 11 else {}
    return "TopK", [x, d.given([k])], {"axis": axis, **more}


def _one_hot(d: Draft) -> Made:
    x = d.pick("i", most=3)
    dtype = d.rng.choice(("float32", "int64", "int32"))
    return x and (
        "OneHot", [x, d.given(d.rng.choice((1, 3))), d.given([0, 2], dtype)], {"axis": d.axis(d.values[x].ndim + 1)}
    )  # fmt: skip


def _constant_of_shape(d: Draft) -> Made:
    fill = numpy_helper.from_array(d.array((1,)), "v")
    return "ConstantOfShape", [d.given(d.shape(0, 3))], {"value": fill} if d.rng.random() < 0.7 else {}


def _range(d: Draft) -> Made:
    start, limit, delta = d.rng.randint(-3, 3), d.rng.randint(-3, 6), d.rng.choice((1, 2, -1, 3))
    kind = d.rng.choice(("int64", "int32", "float32", "float64", "int16"))
    return "Range", [d.given(v, kind) for v in (start, limit, delta)], {}


def _shape(d: Draft) -> Made:
    x = d.pick()
    cut = {k: d.rng.randint(-3, 3) for k in ("start", "end") if d.opset >= 15 and d.rng.random() < 0.4}
    return x and ("Shape", [x], cut)


def _depth(operator: str) -> Maker:
    def make(d: Draft) -> Made:
        x = d.pick("f", 4, 4)
        more = {"mode": d.rng.choice(("DCR", "CRD"))} if operator == "DepthToSpace" and d.opset >= 11 else {}
        return x and (operator, [x], {"blocksize": d.rng.choice((1, 2)), **more})

    return make


MOVING: Sequence[tuple[int, Maker]] = (
    (7, _reshape), (7, _squeeze), (7, _unsqueeze), (7, _transpose), (7, _concat), (7, _split), (7, _slice), (7, _slice),
    (7, _gather("Gather")), (11, _gather("GatherElements")), (11, _gather_nd), (11, _scatter), (11, _scatter_nd),
    (8, _expand), (7, _tile), (7, _pad), (9, _where), (7, _top_k), (9, _one_hot), (9, _constant_of_shape), (11, _range),
    (7, _shape), (7, unary("Size", "fiub")), (7, unary("Identity", "fiub")),
    (14, unary("Trilu", "fiub", upper=(0, 1))), (9, unary("EyeLike", "fiub", k=(-1, 0, 1, 7))),
    (7, _depth("SpaceToDepth")), (7, _depth("DepthToSpace")),
)  # fmt: skip
