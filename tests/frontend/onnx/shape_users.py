"""Makers of nodes whose shape operands are computed numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx
from onnx import TensorProto, helper

from tests.frontend.onnx.shape_draft import Draft, DroppedError, Maker

__all__ = ["USERS"]


def _add(d: Draft, operator: str, *reads: str, results: int = 1, **attributes: object) -> None:
    d.tensors.append(d.add(operator, *reads, results=results, **attributes))


def _reshape(d: Draft) -> None:
    """To own extents, products of them, other numbers, 0 and -1."""
    x = d.tensor(1)
    shape = list(d.value(x).shape)
    how = d.rng.random()
    if how < 0.35 and len(shape) > 1:  # two dims become one
        at = d.rng.randrange(len(shape) - 1)
        product = d.add("Mul", d.extent(x, at), d.extent(x, at + 1))
        parts = [d.extent(x, n) for n in range(len(shape)) if n != at + 1]
        parts[at] = product
    elif how < 0.7:  # one dim becomes two
        at = d.rng.randrange(len(shape))
        factors = [f for f in range(1, shape[at] + 1) if shape[at] % f == 0]
        if not factors:
            raise DroppedError
        by = d.number_or(d.rng.choice(factors), 0.4)
        parts = [d.extent(x, n) if d.rng.random() < 0.7 else d.constant([e]) for n, e in enumerate(shape)]
        parts[at : at + 1] = [d.add("Div", d.extent(x, at), by), by]
    else:
        first = d.number_or(d.rng.choice([e for e in range(1, 5) if math.prod(shape) % e == 0]))
        parts = [first, d.constant([-1])]
        if d.rng.random() < 0.3:
            parts.reverse()
    exact = d.opset >= 14 and d.rng.random() < 0.1  # then there may be no -1 where an extent is 0
    if d.rng.random() < 0.5 and how < 0.7 and not exact:
        parts[d.rng.randrange(len(parts))] = d.constant([d.rng.choice((-1, -1, 0))])
    _add(d, "Reshape", x, d.listed(parts), **({"allowzero": 1} if exact and how < 0.7 else {}))


def _expand(d: Draft) -> None:
    x = d.tensor()
    parts = [d.number(0, 9)] if d.rng.random() < 0.3 else []
    for axis, extent in enumerate(d.value(x).shape):
        if extent == 1 and d.rng.random() < 0.8:
            parts.append(d.number(0, 9))
        else:
            parts.append(d.extent(x, axis) if d.rng.random() < 0.6 else d.constant([1]))
    if not parts:
        parts = [d.number(0, 9)]
    _add(d, "Expand", x, d.listed(parts))


def _expand_keeping(d: Draft) -> None:
    """As torch writes expand(n, -1): what is -1 becomes 1."""
    x = d.tensor(1, 3)
    parts = [d.constant([-1]) for _ in d.value(x).shape]
    parts.insert(0, d.number(0, 9))
    wanted = d.listed(parts)
    value = TensorProto(dims=[1], data_type=TensorProto.INT64, int64_data=[1])
    ones = d.add("ConstantOfShape", d.constant([len(parts)]), value=value)
    is_kept = d.add("Equal", wanted, d.add("Mul", ones, d.constant([-1])))
    _add(d, "Expand", x, d.add("Where", is_kept, ones, wanted))


def _bound(d: Draft, x: str, axis: int, step: int) -> str:
    """A start or end of a slice: numbers of any sign, also from an extent back, or out of range."""
    how = d.rng.random()
    if how < 0.25:  # of the largest integer and a step below 0, ONNX Runtime has its own idea
        return d.constant([d.rng.choice((0, 0, 1, 2, -1, -2, 9, -9, 2**63 - 1 if step > 0 else 99))])
    if how < 0.5:
        return d.number(-9, 20)
    if how < 0.7:
        return d.add("Neg", d.number(-9, 20))
    return d.add("Sub", d.extent(x, axis), d.number(-9, 9))


def _slice(d: Draft) -> None:
    x = d.tensor(1)
    rank = d.value(x).ndim
    axes = d.rng.sample(range(rank), d.rng.choice((1, min(2, rank))))
    steps = [d.rng.choice((1, 1, 1, 2, -1, -2, 3)) for _ in axes]
    starts, ends = (d.listed([_bound(d, x, a, s) for a, s in zip(axes, steps, strict=True)]) for _ in range(2))
    places = d.constant([a - rank if d.rng.random() < 0.3 else a for a in axes])
    if d.rng.random() < 0.1:
        _add(d, "Slice", x, starts, ends, places, d.listed([d.number() for _ in axes]))
        return
    if steps == [1] * len(axes) and d.rng.random() < 0.6:
        _add(d, "Slice", x, starts, ends, places)
    else:
        _add(d, "Slice", x, starts, ends, places, d.constant(steps))


def _centre_crop(d: Draft) -> None:
    """`size` elements from the middle: start = (extent - size) / 2, by integers or through floats."""
    x = d.tensor(1)
    axis = d.rng.randrange(d.value(x).ndim)
    size = d.number(0, 6) if d.rng.random() < 0.5 else d.constant([d.rng.choice((1, 2, 4))])
    left = d.add("Sub", d.extent(x, axis), size)
    if d.rng.random() < 0.5:
        start = d.add("Div", left, d.constant([2]))
    else:
        half = d.add("Mul", d.add("Cast", left, to=TensorProto.FLOAT), d.constant([0.5], "float32"))
        start = d.add("Cast", d.add(d.rng.choice(("Round", "Floor")), half), to=TensorProto.INT64)
    _add(d, "Slice", x, start, d.add("Add", start, size), d.constant([axis]))


def _pad(d: Draft) -> None:
    """Up to a size, or up to the next multiple, or by any numbers."""
    x = d.tensor(1, kinds="fi")
    rank = d.value(x).ndim
    pads = [d.constant([0]) for _ in range(2 * rank)]
    axis = d.rng.randrange(rank)
    how = d.rng.random()
    if how < 0.35:
        size = d.constant([d.rng.choice((4, 6, 8))])
        pads[rank + axis] = d.add("Max", d.add("Sub", size, d.extent(x, axis)), d.constant([0]))
    elif how < 0.6:
        size = d.constant([d.rng.choice((2, 3, 4))])
        pads[rank + axis] = d.add("Mod", d.add("Sub", size, d.add("Mod", d.extent(x, axis), size)), size)
    else:
        pads[axis], pads[rank + axis] = (d.number(-2, 5) if d.rng.random() < 0.7 else d.constant([1]) for _ in "ab")
    mode = d.rng.choice(("constant", "constant", "constant", "edge", "reflect"))
    _add(d, "Pad", x, d.listed(pads), mode=mode)


def _tile(d: Draft) -> None:
    x = d.tensor(1)
    repeats = [d.number(0, 4) if d.rng.random() < 0.5 else d.constant([1]) for _ in d.value(x).shape]
    _add(d, "Tile", x, d.listed(repeats))


def _resize(d: Draft) -> None:
    """To computed sizes, or by scales that are computed from sizes."""
    x = d.tensor(1, 2, kinds="f")
    image = d.add("Unsqueeze", x, d.constant([0, 1]))
    rank = d.value(image).ndim
    mode = {"mode": d.rng.choice(("nearest", "nearest", "linear"))}
    mode |= {"coordinate_transformation_mode": d.rng.choice(("asymmetric", "half_pixel", "align_corners"))}
    wanted = [
        d.number(0, 12) if d.rng.random() < 0.6 else d.constant([d.rng.choice((1, 4, 8))]) for _ in range(rank - 2)
    ]
    if d.rng.random() < 0.4:
        wanted = [d.add("Mul", d.extent(image, n), d.constant([2])) for n in range(2, rank)]
    if d.opset >= 18 and d.rng.random() < 0.3:
        policy = {"keep_aspect_ratio_policy": d.rng.choice(("not_larger", "not_smaller"))}
        _add(d, "Resize", image, "", "", d.listed(wanted), axes=list(range(2, rank)), **policy, **mode)
        return
    if d.rng.random() < 0.6:
        first = d.add("Slice", d.add("Shape", image), d.constant([0]), d.constant([2]))
        _add(d, "Resize", image, "", "", d.listed([first, *wanted]), **mode)
        return
    if mode["coordinate_transformation_mode"] == "align_corners":  # where the last of n * scale lies, peers differ
        del mode["coordinate_transformation_mode"]
    scales = [d.constant([1, 1], "float32")]
    for n, size in enumerate(wanted):
        by = d.extent(image, n + 2) if d.rng.random() < 0.7 else d.number(1)
        extent, size = (d.add("Cast", v, to=TensorProto.FLOAT) for v in (by, size))
        scales.append(d.add("Div", size, extent))
    if d.rng.random() < 0.4:
        scales[1:] = [d.constant([d.rng.choice((0.5, 2.0, 1.5, 0.3))], "float32") for _ in wanted]
    _add(d, "Resize", image, "", d.listed(scales), **mode)


def _range(d: Draft) -> None:
    start = d.constant(d.rng.choice((0, 0, 1, -2))) if d.rng.random() < 0.6 else d.scalar(d.number(-9, 9))
    limit = d.scalar(d.number(-9, 40))
    step = d.constant(d.rng.choice((1, 1, 2, -1, 3)))
    if d.rng.random() < 0.3:
        start, limit, step = (d.add("Cast", v, to=TensorProto.FLOAT) for v in (start, limit, step))
    _add(d, "Range", start, limit, step)


def _counted(d: Draft) -> None:
    """A range as it was written before there was one: the places of what is not zero among ones."""
    value = TensorProto(dims=[1], data_type=TensorProto.INT64, int64_data=[1])
    ones = d.add("ConstantOfShape", d.number(0, 40), value=value)
    _add(d, "Squeeze", d.add("NonZero", ones), d.constant([0]))


def _mask(d: Draft) -> None:
    """Zeros beyond a length, or below a diagonal, by a range and a comparison."""
    x = d.tensor(1, kinds="f")
    rank = d.value(x).ndim
    axis = d.rng.randrange(rank)
    places = d.add("Range", d.constant(0), d.scalar(d.extent(x, axis)), d.constant(1))
    kept = d.add(d.rng.choice(("Less", "GreaterOrEqual")), places, d.number())
    after = rank - 1 - axis
    if after:
        kept = d.add("Unsqueeze", kept, d.constant(list(range(1, after + 1))))
    if d.rng.random() < 0.5:
        _add(d, "Where", kept, x, d.constant(0, "float32"))
    else:
        _add(d, "Mul", x, d.add("Cast", kept, to=TensorProto.FLOAT))


def _split(d: Draft) -> None:
    x = d.tensor(1)
    axis = d.rng.randrange(d.value(x).ndim)
    extent = d.extent(x, axis)
    if d.rng.random() < 0.4:
        first = d.add("Div", extent, d.constant([d.rng.choice((2, 3))]))
    else:
        first = d.number(0, d.value(x).shape[axis])
        if d.rng.random() < 0.5:
            first = d.add("Min", first, extent)
    sizes = d.listed([first, d.add("Sub", extent, first)])
    name = d.add("Split", x, sizes, results=2, axis=axis)
    d.tensors += [name, f"{name}a"]


def _split_evenly(d: Draft) -> None:
    x = d.tensor(1)
    axis = d.rng.randrange(d.value(x).ndim)
    name = d.add("Split", x, results=2, axis=axis, **({"num_outputs": 2} if d.opset >= 18 else {}))
    d.tensors += [name, f"{name}a"]


def _top_k(d: Draft) -> None:
    x = d.tensor(1, kinds="fi")
    axis = d.rng.randrange(d.value(x).ndim)
    extent = d.extent(x, axis)
    how = d.rng.random()
    k = d.number(0, d.value(x).shape[axis]) if how < 0.7 else d.add("Div", extent, d.constant([2]))
    if how < 0.5:
        k = d.add("Min", k, extent)
    name = d.add("TopK", x, k, results=2, axis=axis, largest=d.rng.randint(0, 1))
    d.tensors += [name, f"{name}a"]


def _one_hot(d: Draft) -> None:
    x = d.tensor(0, 2, kinds="i")
    depth = d.number(1, 9)
    _add(d, "OneHot", x, d.scalar(depth) if d.rng.random() < 0.5 else depth, d.constant([0, 2], "float32"), axis=-1)


def _filled(d: Draft) -> None:
    parts = [d.number(0, 9) if d.rng.random() < 0.8 else d.constant([2]) for _ in range(d.rng.randint(1, 3))]
    value = TensorProto(dims=[1], data_type=TensorProto.FLOAT, float_data=[2])
    _add(d, "ConstantOfShape", d.listed(parts), value=value)


def _broadcast(d: Draft) -> None:
    x = d.tensor(kinds="f")
    fits = [n for n in d.tensors if d.value(n).dtype == d.value(x).dtype and n != x]
    if not fits:
        raise DroppedError
    _add(d, d.rng.choice(("Add", "Mul", "Sub")), x, d.rng.choice(fits))


def _concat(d: Draft) -> None:
    x = d.tensor(1)
    axis = d.rng.randrange(d.value(x).ndim)
    fits = [n for n in d.tensors if d.value(n).dtype == d.value(x).dtype and d.value(n).ndim == d.value(x).ndim]
    _add(d, "Concat", x, d.rng.choice(fits), axis=axis)


def _element(d: Draft) -> None:
    """Rows at a computed place, from either end."""
    x = d.tensor(1)
    _add(d, "Gather", x, d.number(-9, 9), axis=d.rng.randrange(d.value(x).ndim))


def _triangle(d: Draft) -> None:
    _add(d, "Trilu", d.tensor(2), d.scalar(d.number(-4, 4)), upper=d.rng.randint(0, 1))


def _moved(d: Draft) -> None:
    x = d.tensor(1)
    rank = d.value(x).ndim
    how = d.rng.random()
    if how < 0.4:
        _add(d, "Transpose", x, perm=d.rng.sample(range(rank), rank))
    elif how < 0.7:
        _add(d, "Unsqueeze", x, d.constant([d.rng.randrange(rank + 1)]))
    else:
        _add(d, "Flatten", x, axis=d.rng.randint(0, rank))


def _reduced(d: Draft) -> None:
    x = d.tensor(1, kinds="f")
    axes = d.constant([d.rng.randrange(d.value(x).ndim)])
    _add(d, "ReduceSum", x, axes, keepdims=d.rng.randint(0, 1))


def _summed(d: Draft) -> None:
    x = d.tensor(1, kinds="fi")
    _add(d, "CumSum", x, d.constant(d.rng.randrange(d.value(x).ndim)))


def _if(d: Draft) -> None:
    """One of two tensors, of other extents, by a comparison of numbers."""
    x = d.tensor(1, kinds="fi")
    flag = d.add("Squeeze", d.add(d.rng.choice(("Equal", "Less", "Greater")), d.number(), d.number_or(1)))
    name, branches = f"b{len(d.nodes)}", {}
    for branch, operator in (("then", d.rng.choice(("Neg", "Concat"))), ("else", d.rng.choice(("Identity", "Abs")))):
        more = {"axis": d.rng.randrange(d.value(x).ndim)} if operator == "Concat" else {}
        node = helper.make_node(operator, [x, x] if operator == "Concat" else [x], [f"{name}{branch}"], **more)
        result = onnx.ValueInfoProto(name=f"{name}{branch}")
        branches[f"{branch}_branch"] = helper.make_graph([node], branch, [], [result])
    d.tensors.append(d.add("If", flag, captured=(x,), **branches))


USERS: Sequence[Maker] = (
    _reshape, _reshape, _reshape, _expand, _expand, _expand_keeping, _slice, _slice, _slice, _centre_crop, _pad, _pad,
    _tile, _resize, _resize, _range, _counted, _mask, _split, _split_evenly, _top_k, _one_hot, _filled, _broadcast,
    _broadcast, _concat, _element, _triangle, _if, _moved, _moved, _reduced, _summed,
)  # fmt: skip
