"""Types of the neural-network operators: symbolic dims, un-annotated weights, messages; computes with symbolic dims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.arith.evaluate import evaluate as evaluate_dim
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.base.errors import TypeCheckError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.expr import Function, Var
from legato.ir.module import Module
from legato.ir.op import Op, Sample
from legato.ir.types import TensorType, TupleType, Type, tensor_type
from legato.ops import table
from legato.te.lower import to_tir
from legato.te.tensor import placeholder
from legato.tir import interp as tir_interp

N = DimVar("n", lo=0)


def call_type(name: str, *args: Any, **attrs: Any) -> str:
    """The type of a call on arguments given as (shape, dtype) or shape."""
    b = Builder()
    types = [tensor_type(*a) if isinstance(a[-1], str) else tensor_type(a) for a in args]
    return str(b.call(name, *(b.var(f"x{n}", ty) for n, ty in enumerate(types)), **attrs).ty)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "expected"),
    [
        ("nn.conv2d", [(N, 3, N, 224), (64, 3, 7, 7)], {"strides": 2, "padding": 3},
         "Tensor[(n, 64, (n + 1) // 2, 112), float32]"),
        ("nn.conv2d", [(1, 3, N, N), (8, 3, 3, 3)], {"padding": 1}, "Tensor[(1, 8, n, n), float32]"),
        ("nn.conv2d_transpose", [(1, 3, N, 4), (3, 8, 2, 2)], {"strides": 2}, "Tensor[(1, 8, n * 2, 8), float32]"),
        ("nn.max_pool2d", [(N, 8, 7, 7)], {"pool_size": 2, "strides": 2, "ceil_mode": True},
         "Tensor[(n, 8, 4, 4), float32]"),
        ("nn.global_avg_pool2d", [(N, 8, N, 7)], {}, "Tensor[(n, 8, 1, 1), float32]"),
        ("nn.dense", [(N, 5), (7, 5)], {}, "Tensor[(n, 7), float32]"),
        ("nn.matmul", [(N, 3, 2, 4), (4, 5)], {}, "Tensor[(n, 3, 2, 5), float32]"),
        ("matmul", [(N, 1, 2, N), (3, N, 5)], {}, "Tensor[(n, 3, 2, 5), float32]"),
        ("take", [(N, 5), ((2, N), "int64")], {"axis": 1}, "Tensor[(n, 2, n), float32]"),
        ("one_hot", [((N,), "int32"), ((), "float32"), ((), "float32")], {"depth": N, "axis": 0},
         "Tensor[(n, n), float32]"),
        ("topk", [(N, 9)], {"k": 3, "ret_type": "values"}, "Tensor[(n, 3), float32]"),
        ("image.resize2d", [(1, 2, N, N)], {"size": (N * 2, 7)}, "Tensor[(1, 2, n * 2, 7), float32]"),
        ("nn.upsampling", [(1, 2, N, 4)], {"scale_h": 2.0, "scale_w": 1.5}, "Tensor[(1, 2, n * 2, 6), float32]"),
        ("nn.depth_to_space", [(1, 8, N, 4)], {"block_size": 2}, "Tensor[(1, 2, n * 2, 8), float32]"),
    ],
)  # fmt: skip
def test_symbolic_shapes(name: str, shapes: list[Any], attrs: dict[str, Any], expected: str) -> None:
    assert call_type(name, *shapes, **attrs) == expected


# ------------------------------------------------------------------------------- un-annotated weights


@pytest.mark.parametrize(
    ("name", "data", "holes", "attrs", "expected"),
    [
        ("nn.conv2d", (1, 6, 8, 8), 1, {"channels": 4, "kernel_size": (3, 5), "groups": 2}, ["(4, 3, 3, 5)"]),
        ("nn.conv2d", (1, 8, 8, 6), 1,
         {"channels": 4, "kernel_size": 3, "data_layout": "NHWC", "kernel_layout": "HWIO"}, ["(3, 3, 6, 4)"]),
        ("nn.conv2d_transpose", (1, 6, 8, 8), 1, {"channels": 4, "kernel_size": (2, 2)}, ["(6, 4, 2, 2)"]),
        ("nn.dense", (2, 5), 1, {"units": 3}, ["(3, 5)"]),
        ("nn.bias_add", (2, 5, 3), 1, {}, ["(5)"]),
        ("nn.prelu", (2, 5, 3), 1, {"axis": -1}, ["(3)"]),
        ("nn.batch_norm", (2, 5, 3), 4, {}, ["(5)"] * 4),
        ("nn.layer_norm", (2, 5, 3), 2, {"axis": (1, 2)}, ["(5, 3)"] * 2),
        ("nn.group_norm", (2, 6, 3), 2, {"num_groups": 3}, ["(6)"] * 2),
        ("nn.rms_norm", (2, 6, 3), 1, {}, ["(3)"]),
    ],
)  # fmt: skip
def test_weights_get_their_types(
    name: str, data: tuple[int, ...], holes: int, attrs: dict[str, Any], expected: list[str]
) -> None:
    op = table()[name]
    params = [Var("x", ty=tensor_type(data)), *(Var(f"w{n}") for n in range(holes))]
    body = Builder().call_op(op, params, make_attrs(op, attrs))
    func = infer(Module.from_expr(Function(tuple(params), body)))["main"]
    assert isinstance(func, Function)
    wanted = [s.replace(")", ",)") if "," not in s else s for s in expected]
    assert [str(p.ty) for p in func.params[1:]] == [f"Tensor[{s}, float32]" for s in wanted]


# ------------------------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("nn.matmul", [(2, 3, 4), (2, 4, 5)], {}, "nn.matmul: the weight must have rank 2, got rank 3"),
        ("nn.matmul", [(2, 3, 4), (3, 5)], {"transpose_a": True}, "nn.matmul: the data must have rank 2, got rank 3"),
        ("nn.dense", [(3, 4), (4,)], {}, "nn.dense: the weight must have rank 2, got rank 1"),
        ("nn.conv2d", [(1, 3, 8), (4, 3, 3, 3)], {}, "nn.conv2d: the data of a 2-d convolution has rank 4, got rank 3"),
        ("nn.conv2d", [(1, 4, 8, 8), (4, 3, 3, 3)], {"groups": 3},
         "nn.conv2d: 4 input channels are not divisible by 3 groups"),
        ("nn.conv2d", [(1, 3, 2, 8), (4, 3, 3, 3)], {},
         "nn.conv2d: the kernel reaches over 3 elements of H, which has 2 and padding 0 + 0"),
        ("nn.conv2d", [(1, 3, 8, 8), (4, 3, 3, 3)], {"data_layout": "NCHW16h"},
         "nn.conv2d: data_layout 'NCHW16h' is not a permutation of 'NCHW'"),
        ("nn.conv2d", [(1, 3, 8, 8), (4, 3, 3, 3)], {"data_layout": "NCHW16c"},
         "nn.conv2d: the data of a 2-d convolution has rank 5, got rank 4"),
        ("nn.conv2d", [(1, 1, 8, 8, 3), (4, 3, 3, 3)], {"data_layout": "NCHW4c"},
         "nn.conv2d: block 4c of NCHW4c: the dims differ, 3 and 4"),
        ("nn.max_pool2d", [(1, 3, 8, 8)], {"pool_size": (2, 2), "out_layout": "NCHW2c"},
         "nn.max_pool2d: C of NCHW2c, in blocks of 2: the dims differ, 2 and 3"),
        ("layout_transform", [(1, 3, 8, 8)], {"src_layout": "NCHW", "dst_layout": "NCH"},
         "layout_transform: layouts NCHW and NCH have different letters"),
        ("nn.conv2d", [(1, 3, 8, 8), (4, 3, 3, 3)], {"strides": 0},
         "nn.conv2d: strides must be 2 integers of at least 1, got [0, 0]"),
        ("nn.conv2d", [(1, 3, 8, 8), (4, 3, 3, 3)], {"padding": (1, 1, 1)},
         "nn.conv2d: padding must be 1, 2 or 4 integers, got (1, 1, 1)"),
        ("nn.max_pool2d", [(1, 3, 2, 8)], {"pool_size": 3},
         "nn.max_pool2d: the window reaches over 3 elements of H, which has 2 and padding 0 + 0"),
        ("nn.softmax", [((2, 3), "int32")], {}, "nn.softmax: the data has dtype int32, wanted a floating-point dtype"),
        ("take", [(2, 3), (2,)], {"axis": 0}, "take: the indices has dtype float32, wanted an integer dtype"),
        ("topk", [(2, 3)], {"k": 4}, "topk: k is 4, but dimension 1 has 3 elements"),
        ("nn.group_norm", [(1, 6, 3), (6,), (6,)], {"num_groups": 4}, "nn.group_norm: 6 channels do not form 4 groups"),
        ("image.resize2d", [(1, 2, 3, 4)], {"size": (2, 2), "method": "area"}, "image.resize2d: no method 'area'"),
        ("nn.gelu", [(2,)], {"approximate": "erf"}, "nn.gelu: no approximate 'erf'"),
        ("nn.linear_scan", [(0, 2, 3), (1, 0, 2, 3), (1, 1, 0, 2, 3), (1, 3, 1, 3), (1, 0, 1, 2, 3), (1, 0, 0, 2, 3)],
         {}, "nn.linear_scan: got 0 states, 1 terms and 1 sums, wanted known numbers of them, above 0"),
    ],
)  # fmt: skip
def test_messages(name: str, shapes: list[Any], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeCheckError) as caught:
        call_type(name, *shapes, **attrs)
    assert caught.value.message == message


# ------------------------------------------------------------------------------- symbolic computes

FAMILIES = ("activation", "adaptive_pool", "blocks", "channelwise", "conv", "conv_transpose", "image", "index",
            "linalg", "norm", "one_hot", "pool", "rescale", "scatter", "softmax", "sort")  # fmt: skip
CASES = [
    pytest.param(op, s, id=f"{op.name}-{n}")
    for op in table().values()
    if getattr(op.compute, "__module__", "").rpartition(".")[2] in FAMILIES
    or (op.name.startswith("nn.") and op.expand is None)
    for n, s in enumerate(op.samples)
    if op.name not in ("scatter_nd", "nn.linear_scan")  # some extents must be known
    and not op.args[-1].startswith("*")  # recurrences: their extents are multiples of each other
]


def symbolic(array: np.ndarray[Any, Any], dims: dict[int, DimVar]) -> TensorType:
    """The type of `array` with every extent but 1 a variable, the same for equal extents."""
    shape = [1 if n == 1 else dims.setdefault(n, DimVar(f"n{n}", lo=0)) for n in array.shape]
    return tensor_type(shape, dt.dtype(array.dtype))


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_compute_with_symbolic_dims(op: Op, sample: Sample) -> None:
    rng = np.random.default_rng(3)
    arrays = [a if isinstance(a, np.ndarray) else _random(rng, *a) for a in sample.args]
    dims: dict[int, DimVar] = {}
    types = [symbolic(a, dims) for a in arrays]
    attrs, b = make_attrs(op, sample.attrs), Builder()
    ty = b.call_op(op, [b.var(f"x{n}", t) for n, t in enumerate(types)], attrs).ty
    assert ty is not None
    inputs = [placeholder(f"x{n}", t.shape, t.dtype) for n, t in enumerate(types)]
    assert op.compute is not None
    made = op.compute(*inputs, *op.tail(attrs), ty)
    func = to_tir(made if isinstance(made, tuple) else (made,), inputs, "kernel")
    values = {v: n for n, v in dims.items()}
    results = [np.zeros([evaluate_dim(d, values) for d in t.shape], t.dtype.numpy) for t in _tensors(ty)]
    scalars = [values[p] for p in func.params if isinstance(p, DimVar)]
    assert tir_interp.run(func, [*map(np.array, arrays), *results, *scalars]) == 0
    expected = evaluate_op(op, arrays, attrs)
    for got, wanted in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        scale = np.abs(wanted.astype(np.float64))[np.isfinite(wanted)].max(initial=0)
        tol = max(sample.rtol, 4e-3 if wanted.itemsize == 2 else 0) * scale
        np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=0, atol=tol)


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    if dt.dtype(dtype).is_float:
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2 if dtype == "bool" else 6, shape).astype(dtype)


def _tensors(ty: Type) -> list[TensorType]:
    return [t for t in (ty.fields if isinstance(ty, TupleType) else (ty,)) if isinstance(t, TensorType)]
