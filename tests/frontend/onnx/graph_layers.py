"""Makers of random ONNX nodes: products, windows, images, normalisation, and bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.frontend.onnx.graph_draft import Draft, Made, Maker

__all__ = ["LAYERS"]


def _mat_mul(d: Draft) -> Made:
    x = d.pick("fiu", 1)
    return x and ("MatMul", [x, d.like(x, (d.values[x].shape[-1], d.rng.randint(0, 3)))], {})


def _gemm(d: Draft) -> Made:
    x = d.pick("f", 2, 2)
    if x is None:
        return None
    a, (ta, tb) = d.values[x], (d.rng.randint(0, 1), d.rng.randint(0, 1))
    k, n = a.shape[1 - ta], d.rng.randint(1, 3)
    reads = [x, d.like(x, (n, k) if tb else (k, n))]
    if d.opset < 11 or d.rng.random() < 0.6:
        reads.append(d.like(x, d.rng.choice(((), (n,), (1, n), (a.shape[ta], 1)))))
    return "Gemm", reads, {"transA": ta, "transB": tb, "alpha": 0.5, "beta": d.rng.choice((0.0, 1.0, -2.0))}


def _einsum(d: Draft) -> Made:
    x = d.pick("f", 2, 2)
    if x is None:
        return None
    rows, columns = d.values[x].shape
    forms = (("ij,jk->ik", (columns, 2)), ("ij,j->i", (columns,)), ("ij,ij->ji", (rows, columns)),
             ("ij,i->", (rows,)), ("...j,kj->...k", (3, columns)), ("ij,ij", (rows, columns)))  # fmt: skip
    text, shape = d.rng.choice(forms)
    return "Einsum", [x, d.like(x, shape)], {"equation": text}


def _image(d: Draft) -> str:
    """A tensor of rank 4 (now and then 3 or 5), or a new one."""
    x = d.pick("f", 3, 5) if d.rng.random() < 0.4 else None
    if x is None:
        x = f"x{len(d.inputs)}i"
        shape = d.rng.randint(1, 2), 2, *(d.rng.randint(1, 7) for _ in range(d.rng.choice((1, 2, 2, 2, 3))))
        d.inputs[x] = d.values[x] = d.array(shape, d.rng.choice(("float32", "float32", "float16", "float64")))
    return x


def _window(operator: str) -> Maker:
    def make(d: Draft) -> Made:
        x = _image(d)
        rank = d.values[x].ndim - 2
        kernel = [d.rng.randint(1, 3) for _ in range(rank)]
        more: dict[str, Any] = {"strides": [d.rng.randint(1, 3) for _ in range(rank)]}
        padding = d.rng.choice(("pads", "SAME_UPPER", "SAME_LOWER", "VALID"))
        if operator == "ConvTranspose":  # with SAME ONNX Runtime's extents are not those of the standard
            padding = "pads"
            more["output_padding"] = [d.rng.randint(0, s - 1) for s in more["strides"]]
        is_dilated = operator.startswith("Conv") or (
            d.opset >= (10 if operator == "MaxPool" else 19) and not padding.startswith("SAME")
        )  # with SAME the peers' extents differ, and neither's are those of the standard
        if is_dilated and d.rng.random() < 0.3:
            more["dilations"] = [d.rng.randint(1, 2) for _ in range(rank)]
        more |= {"pads": [d.rng.randint(0, k - 1) for k in kernel * 2]} if padding == "pads" else {"auto_pad": padding}
        if operator.startswith("Conv"):
            return _convolution(d, operator, x, kernel, more)
        if d.opset >= 10 and padding == "pads" and d.rng.random() < 0.3:
            more["ceil_mode"] = 1
        if operator == "AveragePool":
            more["count_include_pad"] = d.rng.randint(0, 1)
        if operator == "LpPool":
            more["p"] = d.rng.randint(1, 3)
        return operator, [x], {"kernel_shape": kernel, **more}

    return make


def _convolution(d: Draft, operator: str, x: str, kernel: Sequence[int], more: dict[str, Any]) -> Made:
    channels = d.values[x].shape[1]
    group = channels if channels and d.rng.random() < 0.3 else 1
    each, made = channels // group, d.rng.randint(1, 2)
    shape = (channels, made, *kernel) if operator == "ConvTranspose" else (made * group, each, *kernel)
    reads = [x, d.like(x, shape)] + ([d.like(x, (made * group,))] if d.rng.random() < 0.4 else [])
    return operator, reads, {**more, "group": group}


def _resize(d: Draft) -> Made:
    x = d.pick("f", 3, 4)
    if x is None or d.opset < 11 or 0 in d.values[x].shape:
        return None
    shape = d.values[x].shape
    modes = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    more = {"mode": d.rng.choice(("nearest", "linear")), "coordinate_transformation_mode": d.rng.choice(modes)}
    if more["mode"] == "nearest":
        more["nearest_mode"] = d.rng.choice(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if d.rng.random() < 0.5:
        scales = [1.0, 1.0, *(d.rng.choice((0.5, 2.0, 1.5, 0.6, 1.3)) for _ in shape[2:])]
        return "Resize", [x, "", d.given(scales, "float32")], more
    return "Resize", [x, "", "", d.given([*shape[:2], *(d.rng.randint(1, 6) for _ in shape[2:])])], more


def _upsample(d: Draft) -> Made:
    x = d.pick("f", 4, 4)
    if x is None or d.opset > 9:
        return None
    scales, mode = [1.0, 1.0, d.rng.choice((1.0, 2.0, 1.5)), 2.0], {"mode": d.rng.choice(("nearest", "linear"))}
    return ("Upsample", [x], {"scales": scales, **mode}) if d.opset < 9 else (
        "Upsample", [x, d.given(scales, "float32")], mode)  # fmt: skip


def _layer_norm(operator: str) -> Maker:
    def make(d: Draft) -> Made:
        x = d.pick("f", 1)
        if x is None:
            return None
        axis = d.axis(d.values[x].ndim)
        return operator, [x, d.like(x, d.values[x].shape[axis:] if axis else d.values[x].shape)], {"axis": axis}

    return make


def _batch_norm(d: Draft) -> Made:
    x = d.pick("f", 2)
    if x is None:
        return None
    a = d.values[x]
    four = [d.given(np.abs(d.array((a.shape[1],), a.dtype.name)) + 1, a.dtype.name) for _ in range(4)]
    return "BatchNormalization", [x, *four], {"epsilon": 0.1} if d.rng.random() < 0.3 else {}


def _channel_norm(operator: str, **choices: Sequence[Any]) -> Maker:
    def make(d: Draft) -> Made:
        x = d.pick("f", 3)
        if x is None:
            return None
        channels = (d.values[x].shape[1],)
        return operator, [x, d.like(x, channels), d.like(x, channels)], {k: d.rng.choice(v) for k, v in choices.items()}

    return make


def _sized(operator: str, least: int, **choices: Sequence[Any]) -> Maker:
    def make(d: Draft) -> Made:
        x = d.pick("f", least)
        return x and (operator, [x], {k: d.rng.choice(v) for k, v in choices.items()})

    return make


def _if(d: Draft) -> Made:
    condition, x = d.pick("b"), d.pick("fi")
    if condition is None or x is None or d.values[condition].size != 1:
        return None
    branches = {
        f"{name}_branch": helper.make_graph([helper.make_node(op, [x], [f"{name}{len(d.nodes)}"])], name, [],
                                            [onnx.ValueInfoProto(name=f"{name}{len(d.nodes)}")])
        for name, op in (("then", d.rng.choice(("Abs", "Identity"))), ("else", d.rng.choice(("Neg", "Identity"))))
    }  # fmt: skip
    return "If", [condition], branches


LAYERS: Sequence[tuple[int, Maker]] = (
    (7, _mat_mul), (7, _mat_mul), (7, _gemm), (7, _gemm), (12, _einsum),
    *((7, _window(o)) for o in ("Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool")), (18, _window("LpPool")),
    (7, _sized("GlobalAveragePool", 3)), (7, _sized("GlobalMaxPool", 3)), (7, _sized("GlobalLpPool", 3, p=(1, 2, 3))),
    (7, _sized("LRN", 3, size=(1, 3), alpha=(0.1,), bias=(1.0, 2.0))), (7, _sized("LpNormalization", 1, p=(1, 2))),
    (9, _sized("MeanVarianceNormalization", 4)), (11, _resize), (7, _upsample),
    (17, _layer_norm("LayerNormalization")), (23, _layer_norm("RMSNormalization")), (7, _batch_norm),
    (7, _channel_norm("InstanceNormalization")), (21, _channel_norm("GroupNormalization", num_groups=(1, 2))),
    (7, _if),
)  # fmt: skip
