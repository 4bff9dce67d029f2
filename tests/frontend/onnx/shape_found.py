"""Makers of nodes whose data decides how much they give."""

from __future__ import annotations

from collections.abc import Sequence

from tests.frontend.onnx.shape_draft import Draft, Maker

__all__ = ["FOUND"]


def _whole(d: Draft, kinds: str = "fib") -> str:
    """A tensor of whole numbers: what floats were interpolated to, each engine rounds in its own way, and zero or
    not, equal or not must not depend on that."""
    x = d.tensor(1, kinds=kinds)
    if d.value(x).dtype.kind != "f":
        return x
    return d.add("Floor", d.add("Add", x, d.constant(0.2946, str(d.value(x).dtype))))  # no ratio of small numbers


def _non_zero(d: Draft) -> None:
    places = d.add("NonZero", _whole(d))
    d.tensors.append(places)
    if d.rng.random() < 0.6:
        d.numbers.append(d.extent(places, 1))


def _compress(d: Draft) -> None:
    x = d.tensor(1)
    axis = d.rng.randrange(d.value(x).ndim)
    flags = [n for n in d.tensors if d.value(n).dtype == bool and d.value(n).ndim == 1]
    if flags and d.rng.random() < 0.5:
        flag = d.rng.choice(flags)
    else:
        places = d.add("Range", d.constant(0), d.scalar(d.extent(x, axis)), d.constant(1))
        flag = d.add("Less", places, d.number())
    y = d.add("Compress", x, flag, axis=axis)
    d.tensors.append(y)
    d.numbers.append(d.extent(y, axis))


def _unique(d: Draft) -> None:
    y = d.add("Unique", _whole(d, "fi"), results=4, sorted=d.rng.randint(0, 1))
    d.tensors += [y, f"{y}b"]
    d.numbers.append(d.extent(y, 0))


def _masked(d: Draft) -> None:
    """Elements chosen by a comparison, as torch writes x[x > 0]."""
    x = _whole(d, "f")
    places = d.add("NonZero", d.add("Greater", x, d.constant(0, "float32")))
    y = d.add("GatherND", x, d.add("Transpose", places))
    d.tensors.append(y)
    d.numbers.append(d.extent(y, 0))


def _suppressed(d: Draft) -> None:
    x = d.tensor(1, 3, kinds="f")
    boxes = d.add("Reshape", d.add("Slice", d.add("Reshape", x, d.constant([-1])), d.constant([0]), d.add(
        "Mul", d.add("Div", d.add("Reshape", d.add("Size", x), d.constant([1])), d.constant([4])), d.constant([4]))),
        d.constant([1, -1, 4]))  # fmt: skip
    scores = d.add("ReduceSum", boxes, d.constant([2]), keepdims=1)
    scores = d.add("Transpose", scores, perm=[0, 2, 1])
    y = d.add("NonMaxSuppression", boxes, scores, d.number_or(3), d.constant([0.5], "float32"))
    d.tensors.append(y)
    d.numbers.append(d.extent(y, 0))


FOUND: Sequence[Maker] = (_non_zero, _compress, _unique, _masked, _suppressed)
