"""No attribute of an operator is without effect: its rules read each, and of two values one tells the other apart."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from legato.base import dtype as dt
from legato.base.errors import RunError, TypeCheckError
from legato.infer.builder import Builder
from legato.interp import evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.call_tir import CALL_TIR
from legato.ir.op import Op
from legato.ops import table
from tests.ops.test_ops import arguments, leaves, run_compute, type_of

# The record of sort is that of argsort, whose dtype is of indices; dropout does nothing when a program only infers; an
# annotation, which passes read, means what it marks. How bits are packed inside a product is not Relay's affair here.
ANNOTATIONS = {f"annotation.compiler_{end}": {"compiler"} for end in ("begin", "end")}
UNREAD = {
    "sort": {"dtype"}, "nn.dropout": {"rate"}, **ANNOTATIONS,
    "nn.bitpack": {"name"}, "nn.bitserial_dense": {"pack_dtype"}, "nn.bitserial_conv2d": {"pack_dtype"},
    "on_device": {"constrain_body", "constrain_result"},  # which side of it has the device: no value
}  # fmt: skip
# What is promised of an argument says how the same result may be computed.
CONVOLUTIONS = [f"nn.conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_transpose")]
BLOCKED = ["nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc"]
QUANTISED = ["qnn.conv2d", "qnn.conv2d_transpose"]
WITHOUT_EFFECT = UNREAD | {name: {"finite_weight"} for name in (*CONVOLUTIONS, *BLOCKED, *QUANTISED)}
OPS = [op for op in table().values() if op.attrs is not None and op is not CALL_TIR]


def watched(attrs: Any, seen: set[str]) -> Any:
    """A record with the same values, which notes in `seen` what is read."""

    class Watched(type(attrs)):  # type: ignore[misc]  # the record's own class
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            seen.add(name)
            return super().__getattribute__(name)

    made = Watched(**{f.name: getattr(attrs, f.name) for f in fields(attrs)})
    seen.clear()
    return made


def read_by_rules(op: Op) -> set[str]:
    """The attributes that type relation, reference or compute read, over all samples."""
    found: set[str] = set()
    for sample in op.samples:
        values, seen = arguments(op, sample), set[str]()
        attrs = watched(make_attrs(op, sample.attrs), seen)
        b = Builder()
        node = b.call_op(op, [b.var(f"x{n}", type_of(v)) for n, v in enumerate(values)], attrs)
        with np.errstate(all="ignore"):
            evaluate_op(op, values, attrs)
        if op.compute is not None:
            run_compute(op, values, attrs, node.ty)
        found |= seen
    return found


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_attribute_is_read(op: Op) -> None:
    assert op.attrs is not None
    assert {f.name for f in fields(op.attrs)} - read_by_rules(op) == UNREAD.get(op.name, set())


def others(value: Any) -> list[Any]:
    """Values that stand where `value` stands, and differ from it."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value - 1, 2]
        case float():
            return [value + 0.5, 2 * value + 1]
        case str():
            return ["?", "NHWC", "int8", "float16", "constant", "edge"]
        case dt.DType():
            return [dt.dtype(name) for name in ("int64", "float64", "int8") if name != value.name]
        case tuple():
            changed = [
                tuple(c) for n, v in enumerate(value) for o in others(v) for c in [[*value[:n], o, *value[n + 1 :]]]
            ]
            return [*changed, value[:-1], (*value, 1), value[::-1]]
        case _:
            return [0, 1, 2, (0,), (1,), True, 0.5, dt.dtype("float64"), "float64"]


def outcome(op: Op, values: list[Any], attrs: dict[str, Any]) -> Any:
    """The type and the result of a call, or the kind of error that refuses it."""
    try:
        record = make_attrs(op, attrs)
        b = Builder()
        node = b.call_op(op, [b.var(f"x{n}", type_of(v)) for n, v in enumerate(values)], record)
        with np.errstate(all="ignore"):
            result = evaluate_op(op, values, record)
    except (TypeCheckError, RunError) as error:
        return str(error)
    return str(node.ty), [(v.dtype, v.shape, v.tobytes()) for v in leaves(result)]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_attribute_has_an_effect(op: Op) -> None:
    assert op.attrs is not None
    left = {f.name for f in fields(op.attrs)} - WITHOUT_EFFECT.get(op.name, set())
    for sample in op.samples:
        values = arguments(op, sample)
        given = {f.name: getattr(make_attrs(op, sample.attrs), f.name) for f in fields(op.attrs)}
        usual = outcome(op, values, given)
        for name in sorted(left):
            if any(outcome(op, values, {**given, name: o}) != usual for o in others(given[name])):
                left.remove(name)
    assert left == set()
