"""Makers of numbers: of extents, as exporters compute them."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from tests.frontend.onnx.shape_draft import Draft, DroppedError, Maker

__all__ = ["NUMBERS", "extents"]

_FACTORS = (0.5, 2.0, 0.25, 1.5, 0.3, 1.3, 0.7, 3.0, 16.0)


def extents(d: Draft) -> None:
    """The shape of a tensor, a part of it, or how many elements it has."""
    x = d.rng.choice(d.tensors)
    rank, how = d.value(x).ndim, d.rng.random()
    if how < 0.3 or not rank:
        d.numbers.append(d.add("Shape", x) if rank else d.add("Size", x))
    elif how < 0.4:
        d.numbers.append(d.add("Size", x))
    elif how < 0.5 and d.opset >= 15:
        start = d.rng.randint(-rank, rank - 1)
        d.numbers.append(d.add("Shape", x, start=start))
    else:
        d.numbers.append(d.extent(x, d.rng.randrange(rank)))


def _pair(d: Draft) -> tuple[str, str]:
    """Two vectors of one number, one of them often a constant."""
    a = d.number()
    b = d.number() if d.rng.random() < 0.5 else d.constant([d.rng.choice((1, 1, 2, 2, 3, 4, 7, -1, -2, -3, 0))])
    return (a, b) if d.rng.random() < 0.7 else (b, a)


def _binary(operator: str) -> Maker:
    def make(d: Draft) -> None:
        if d.rng.random() < 0.2:  # of whole vectors
            x = d.rng.choice(d.numbers)
            fits = [n for n in d.numbers if d.value(n).shape == d.value(x).shape]
            d.numbers.append(d.add(operator, x, d.rng.choice(fits)))
        else:
            d.numbers.append(d.add(operator, *_pair(d)))

    return make


def _divided(operator: str) -> Maker:
    def make(d: Draft) -> None:
        a, b = _pair(d)
        if d.rng.random() < 0.4:
            b = d.add("Max", b, d.constant([1]))
        d.numbers.append(d.add(operator, a, b))

    return make


def _unary(operator: str) -> Maker:
    return lambda d: d.numbers.append(d.add(operator, d.number()))


def _rounded_up(d: Draft) -> None:
    """-(-a // b), in the ways in which it is written."""
    a, b = d.number(), d.constant([d.rng.choice((2, 3, 4, 8))])
    if d.rng.random() < 0.5:
        d.numbers.append(d.add("Div", d.add("Sub", d.add("Add", a, b), d.constant([1])), b))
    else:
        rest = d.add("Mod", d.add("Sub", b, d.add("Mod", a, b)), b)
        d.numbers.append(rest if d.rng.random() < 0.5 else d.add("Add", a, rest))


def _through_floats(d: Draft) -> None:
    to = d.rng.choice((TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.DOUBLE))
    dtype = "float32" if to == TensorProto.FLOAT else "float64"
    x = d.add("Cast", d.number(), to=to)
    if d.rng.random() < 0.25:
        y = d.add("Cast", d.number(1), to=to)
        x = d.add("Div", x, y)
    else:
        x = d.add(d.rng.choice(("Mul", "Mul", "Div")), x, d.constant([d.rng.choice(_FACTORS)], dtype))
    if d.rng.random() < 0.2:
        x = d.add(d.rng.choice(("Add", "Sub")), x, d.constant([d.rng.choice((0.5, 1.0, -0.5))], dtype))
    for rounding in (("Floor",), ("Ceil",), ("Round",), (), ("Ceil",))[d.rng.randrange(5)]:
        x = d.add(rounding, x)
    d.numbers.append(d.add("Cast", x, to=TensorProto.INT64))


def _flag(d: Draft) -> str:
    flag = d.add(d.rng.choice(("Equal", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")), *_pair(d))
    if d.rng.random() < 0.2:
        return d.add("Not", flag)
    if d.rng.random() < 0.2:
        return d.add(d.rng.choice(("And", "Or")), flag, d.add("Less", *_pair(d)))
    return flag


def _chosen(d: Draft) -> None:
    d.numbers.append(d.add("Where", _flag(d), *_pair(d)))


def _flag_as_number(d: Draft) -> None:
    d.numbers.append(d.add("Cast", _flag(d), to=TensorProto.INT64))


def _clip(d: Draft) -> None:
    low = d.constant(d.rng.choice((0, 1, -1))) if d.rng.random() < 0.7 else ""
    high = d.constant(d.rng.choice((2, 4, 6))) if d.rng.random() < 0.5 else d.scalar(d.number())
    d.numbers.append(d.add("Clip", d.number(), low, high))


def _listed(d: Draft) -> None:
    parts = [d.number() if d.rng.random() < 0.7 else d.constant([d.rng.choice((-1, 0, 1, 2))]) for _ in range(3)]
    d.numbers.append(d.listed(parts[: d.rng.choice((2, 3))]))


def _cut(d: Draft) -> None:
    many = [n for n in d.numbers if d.value(n).ndim == 1 and d.value(n).size > 1]
    if not many:
        raise DroppedError
    bounds = [d.constant([d.rng.choice(c)]) for c in ((0, 1, -1, -2), (1, 2, -1, 2**63 - 1))]
    d.numbers.append(d.add("Slice", d.rng.choice(many), *bounds))


def _reduced(operator: str) -> Maker:
    def make(d: Draft) -> None:
        x = d.rng.choice([n for n in d.numbers if d.value(n).ndim == 1] or d.numbers)
        d.numbers.append(d.add(operator, x, keepdims=d.rng.randint(0, 1)))

    return make


def _minus_ones_resolved(d: Draft) -> None:
    """As torch writes expand(b, -1, -1): ones where the wanted extent is -1."""
    parts: Sequence[str] = [d.number(0) if d.rng.random() < 0.6 else d.constant([-1]) for _ in range(3)]
    wanted = d.listed(parts[: d.rng.choice((2, 3))])
    ones = d.add("ConstantOfShape", d.add("Shape", wanted), value=_one())
    minus = d.add("Mul", ones, d.constant(-1))
    d.numbers.append(d.add("Where", d.add("Equal", wanted, minus), ones, wanted))


def _one() -> TensorProto:
    return TensorProto(dims=[1], data_type=TensorProto.INT64, int64_data=[1])


def _counted(d: Draft) -> None:
    """An element, or the extent, of a range of numbers."""
    r = d.add(
        "Range", d.constant(d.rng.choice((0, 0, 1, -2))), d.scalar(d.number(0)), d.constant(d.rng.choice((1, 1, 2, 3)))
    )
    d.numbers.append(d.extent(r, 0))


def _narrow(d: Draft) -> None:
    """A step in int32."""
    a, b = (d.add("Cast", v, to=TensorProto.INT32) for v in _pair(d))
    result = d.add(d.rng.choice(("Add", "Sub", "Mul", "Div", "Max")), a, b)
    d.numbers.append(d.add("Cast", result, to=TensorProto.INT64))


def _root(d: Draft) -> None:
    """As position embeddings of square images are found."""
    root = d.add("Sqrt", d.add("Cast", d.number(0), to=TensorProto.FLOAT))
    d.numbers.append(d.add("Cast", d.add("Floor", root) if d.rng.random() < 0.5 else root, to=TensorProto.INT64))


def _running(d: Draft) -> None:
    """Where parts of given sizes begin."""
    d.numbers.append(d.add("CumSum", d.listed([d.number(), d.number(), d.number()]), d.constant(0)))


def _replaced(d: Draft) -> None:
    """A shape with another extent at one place."""
    shape = d.add("Shape", d.tensor(1))
    at = d.rng.randrange(d.value(shape).size)
    if d.rng.random() < 0.5:
        d.numbers.append(d.add("ScatterElements", shape, d.constant([at]), d.number(), axis=0))
    else:
        d.numbers.append(d.add("ScatterND", shape, d.constant([[at]]), d.number()))


def _looked_up(d: Draft) -> None:
    """An element of a table, at a place that is computed."""
    d.numbers.append(d.add("Gather", d.constant([2, 3, 5, 1, 0, 4, 2, 1]), d.number(-8, 7)))


NUMBERS: Sequence[Maker] = (
    extents, extents, extents, *map(_binary, ("Add", "Sub", "Sub", "Mul", "Mul", "Min", "Max")),
    *map(_divided, ("Div", "Div", "Div", "Mod")), *map(_unary, ("Neg", "Abs", "Sign")), _rounded_up, _through_floats,
    _through_floats, _chosen, _chosen, _flag_as_number, _clip, _listed, _cut, _minus_ones_resolved, _counted,
    _narrow, _root, _running, _replaced, _looked_up,
    *map(_reduced, ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")),
)  # fmt: skip
