"""Makers of random ONNX nodes that compute: element by element, and along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper

from tests.frontend.onnx.graph_draft import FLOATS, INTS, Draft, Made, Maker, kind_of

__all__ = ["ARITHMETIC", "unary"]


def unary(operator: str, kinds: str = "f", **choices: Sequence[Any]) -> Maker:
    def make(d: Draft) -> Made:
        x = d.pick(kinds)
        return x and (operator, [x], {k: d.rng.choice(v) for k, v in choices.items() if d.rng.random() < 0.7})

    return make


def _binary(operator: str, kinds: str = "fiu", **choices: Sequence[Any]) -> Maker:
    def make(d: Draft) -> Made:
        x = d.pick(kinds)
        if x is None:
            return None
        reads = [x, d.beside(x)]
        d.rng.shuffle(reads)
        return operator, reads, {k: d.rng.choice(v) for k, v in choices.items()}

    return make


def _variadic(operator: str) -> Maker:
    def make(d: Draft) -> Made:
        x = d.pick("fiu")
        return x and (operator, [x, *(d.beside(x) for _ in range(d.rng.randint(0, 2)))], {})

    return make


def _pow(d: Draft) -> Made:
    x = d.pick("fi")
    if x is None or d.opset < 12:
        return x and ("Pow", [x, d.beside(x)], {})
    dtype = d.rng.choice(("float32", "int64", "int32", "float64"))
    shape = d.values[x].shape[d.rng.randint(0, d.values[x].ndim) :]
    return "Pow", [x, d.given(np.abs(d.array(shape, dtype)), dtype)], {}


def _reduce(operator: str) -> Maker:
    def make(d: Draft) -> Made:
        x = d.pick("fiu")
        if x is None:
            return None
        axes, attributes = d.axes(d.values[x].ndim), {"keepdims": d.rng.randint(0, 1)}
        if d.opset >= 18 or (operator == "ReduceSum" and d.opset >= 13):
            if d.rng.random() < 0.3:
                attributes["noop_with_empty_axes"] = d.rng.randint(0, 1)
            return operator, [x, d.given(axes)] if d.rng.random() < 0.8 else [x], attributes
        return operator, [x], attributes | ({"axes": axes} if axes else {})

    return make


def _along(operator: str, kinds: str = "f", **choices: Sequence[Any]) -> Maker:
    def make(d: Draft) -> Made:
        x = d.pick(kinds, 1)
        if x is None:
            return None
        more = {k: d.rng.choice(v) for k, v in choices.items() if d.rng.random() < 0.6}
        where = {"axis": d.axis(d.values[x].ndim)} if d.rng.random() < 0.8 else {}
        return operator, [x], where | more

    return make


def _cast(d: Draft) -> Made:
    x = d.pick()
    to = d.array((), d.rng.choice((*FLOATS, *INTS, "bool"))).dtype
    return x and ("Cast", [x], {"to": helper.np_dtype_to_tensor_dtype(to)})


def _cast_like(d: Draft) -> Made:
    x, y = d.pick(), d.pick()
    return None if x is None or y is None else ("CastLike", [x, y], {})


def _clip(d: Draft) -> Made:
    x = d.pick("fiu" if d.opset >= 12 else "f")
    if x is None:
        return None
    if d.opset < 11:
        return "Clip", [x], {"min": -1.0, "max": d.rng.choice((1.0, -2.0))}
    kind = d.values[x].dtype.name
    low, high = (
        d.given(v, kind) if d.rng.random() < 0.7 else "" for v in (1 if kind_of(d.values[x]) == "u" else -1, 2)
    )
    return "Clip", [x, low, high], {}


def _cumulative(operator: str) -> Maker:
    def make(d: Draft) -> Made:
        x = d.pick("fi", 1)
        if x is None:
            return None
        axis = d.given(d.axis(d.values[x].ndim), d.rng.choice(("int32", "int64")))
        return operator, [x, axis], {k: d.rng.randint(0, 1) for k in ("exclusive", "reverse")}

    return make


def _dropout(d: Draft) -> Made:
    x = d.pick("f")
    return x and ("Dropout", [x] if d.opset < 12 or d.rng.random() < 0.5 else [x, d.given(0.4, "float32")], {})


ARITHMETIC: Sequence[tuple[int, Maker]] = (
    *((7, unary(o)) for o in ("Exp", "Log", "Sqrt", "Sigmoid", "Tanh", "Reciprocal", "Softplus", "Softsign")),
    *((7, unary(o)) for o in ("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Floor", "Ceil", "Selu")),
    *((7, unary(o, "fi")) for o in ("Abs", "Neg", "Relu")),
    *((9, unary(o)) for o in ("Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "IsNaN")), (11, unary("Round")),
    (7, unary("Not", "b")), (9, unary("Sign", "fiu")), (18, unary("BitwiseNot", "iu")), (18, unary("Mish")),
    (7, unary("Elu", alpha=(0.5, 2.0, -1.0))), (7, unary("LeakyRelu", alpha=(0.1, -0.3, 0.0))),
    (7, unary("Selu", alpha=(1.0,), gamma=(2.0, -1.0))), (14, unary("HardSwish")),
    (7, unary("HardSigmoid", alpha=(0.3, -0.2, 0.0), beta=(0.4,))), (10, unary("ThresholdedRelu", alpha=(0.5, -1.0))),
    (12, unary("Celu", alpha=(0.5, 2.0))), (20, unary("Gelu", approximate=("none", "tanh"))),
    (9, unary("Shrink", "fiu", bias=(0.5, -1.0), lambd=(0.5, 1.5))), (24, unary("Swish", alpha=(1.0, 0.3))),
    (10, unary("IsInf", detect_negative=(0, 1), detect_positive=(0, 1))),
    *((7, _binary(o)) for o in ("Add", "Sub", "Mul", "Div", "Less", "Greater")), (7, _binary("Equal", "fiub")),
    *((12, _binary(o)) for o in ("LessOrEqual", "GreaterOrEqual")),
    *((7, _binary(o, "b")) for o in ("And", "Or", "Xor")),
    (10, _binary("Mod", "iu", fmod=(0, 1))), (10, _binary("Mod", "f", fmod=(1,))), (7, _binary("PRelu", "fi")),
    (11, _binary("BitShift", "u", direction=("LEFT", "RIGHT"))), (7, _pow),
    *((18, _binary(f"Bitwise{o}", "iu")) for o in ("And", "Or", "Xor")),
    *((8, _variadic(o)) for o in ("Max", "Min", "Sum", "Mean")),
    *((7, _reduce(f"Reduce{o}")) for o in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare")),
    *((7, _reduce(f"Reduce{o}")) for o in ("LogSum", "LogSumExp")),
    *((7, _along(o)) for o in ("Softmax", "LogSoftmax", "Hardmax")), (7, _along("Flatten", "fiub")),
    *((7, _along(o, "fiu", keepdims=(0, 1))) for o in ("ArgMax", "ArgMin")),
    *((12, _along(o, "fi", keepdims=(0, 1), select_last_index=(0, 1))) for o in ("ArgMax", "ArgMin")),
    (7, _cast), (15, _cast_like), (7, _clip), (11, _cumulative("CumSum")), (26, _cumulative("CumProd")), (7, _dropout),
)  # fmt: skip
