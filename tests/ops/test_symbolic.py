"""Operators on symbolic shapes: the inferred dims and the loops are right for every size, from one definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.evaluate import evaluate as evaluate_dim
from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.base import dtype as dt
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.expr import Call
from legato.ir.module import Module
from legato.ir.types import TensorType, TupleType, Type
from legato.ops import table
from legato.te.lower import to_tir
from legato.te.tensor import placeholder
from legato.tir import interp as tir_interp

N, M = fresh("n"), fresh("m")
SIZES = [(1, 1), (3, 2), (8, 5), (4, 7)]

# operator, shapes of the float32 arguments, attributes
CASES: list[tuple[str, list[tuple[Any, ...]], dict[str, Any]]] = [
    ("exp", [(N, 4)], {}),
    ("add", [(N, 4), (4,)], {}),
    ("add", [(N, 1, M), (N, 3, M)], {}),
    ("maximum", [(N, M), (1, M)], {}),
    ("sum", [(N, M)], {"axis": (1,)}),
    ("sum", [(N, M)], {}),
    ("mean", [(N, 3, M)], {"axis": (1, 2), "keepdims": True}),
    ("max", [(N, M)], {"axis": (0,)}),
    ("argmax", [(N, M)], {"axis": (1,)}),
    ("argmin", [(N, M)], {"axis": (1,), "select_last_index": True}),
    ("reshape", [(N, 4, 6)], {"newshape": (-1, 24)}),
    ("reshape", [(N, 4, 6)], {"newshape": (0, -1)}),
    ("reshape", [(N, 4, 6)], {"newshape": (-3, -2)}),
    ("reshape", [(N, 4, 6)], {"newshape": (N, 8, 3)}),
    ("reshape", [(N, 4, 6)], {"newshape": (N * 2, 12)}),
    ("reshape", [(N, 4, 6)], {"newshape": (2, -1)}),
    ("reshape", [(N, M, 6)], {"newshape": (M, N, 6)}),
    ("reshape", [(N, 6, M)], {"newshape": (0, -4, 2, -1, 0)}),
    ("reshape", [(1, N, 1)], {"newshape": (N,)}),
    ("nn.batch_flatten", [(N, 2, M)], {}),
    ("squeeze", [(1, N, 1)], {"axis": (0, -1)}),
    ("squeeze", [(N, 1, M)], {"axis": (1,)}),
    ("expand_dims", [(N, M)], {"axis": 1}),
    ("transpose", [(N, 2, M)], {"axes": (2, 0, 1)}),
    ("reverse", [(N, M)], {"axis": 1}),
    ("broadcast_to", [(N, 1)], {"shape": (2, N, M)}),
    ("tile", [(N, 2)], {"reps": (2, M)}),
    ("repeat", [(N, 2)], {"repeats": 3, "axis": 0}),
    ("strided_slice", [(N, M)], {"begin": (1,), "end": (2**31 - 1,)}),
    ("strided_slice", [(N, M)], {"begin": (0, -2), "end": (3, 2**31 - 1)}),
    ("strided_slice", [(N, M)], {"begin": (-1,), "end": (-(2**31),), "strides": (-2,), "axes": (1,)}),
    ("strided_slice", [(N, M)], {"begin": (0,), "end": (M,), "axes": (0,)}),
    ("strided_slice", [(N, M)], {"begin": (0,), "end": (-1,), "strides": (2,), "axes": (0,)}),
    ("strided_slice", [(N * 2, M)], {"begin": (N,), "end": (N * 2,)}),
    ("split", [(N * 2, M)], {"indices_or_sections": 2}),
    ("nn.pad", [(N, M), ()], {"pad_width": ((1, 2), (0, 3))}),
    ("nn.pad", [(N, M), ()], {"pad_width": ((0, 0), (M, 1)), "pad_mode": "edge"}),
    ("nn.pad", [(N, M), ()], {"pad_width": ((2, 3), (1, 0)), "pad_mode": "reflect"}),
    ("cumsum", [(N, M)], {"axis": 1}),
    ("cumsum", [(N, M)], {}),
    ("zeros_like", [(N, M)], {}),
    ("full", [()], {"shape": (N, 3)}),
    ("zeros", [], {"shape": (N, M * 2)}),
    ("arange", [], {"stop": N, "dtype": "int64"}),
    ("arange", [], {"start": 1, "stop": N * 2 + 1, "step": 3, "dtype": "float32"}),
    ("arange", [], {"start": N, "stop": -1, "step": -1, "dtype": "int32"}),
    ("shape_of", [(N, 3, M)], {"dtype": "int64"}),
    ("ndarray_size", [(N, 3, M)], {}),
    ("where", [(N, M), (N, M), ()], {}),
    ("clip", [(N,)], {"a_min": 0.0}),
]


def call(name: str, shapes: list[tuple[Any, ...]], attrs: dict[str, Any]) -> tuple[Builder, list[Any], Call]:
    """The operator on parameters of these shapes (the first of `where` is bool)."""
    b = Builder()
    b.var("dims", (N, M))
    kinds = ["bool" if name == "where" and k == 0 else "float32" for k in range(len(shapes))]
    params = [b.var(f"x{k}", s, kinds[k]) for k, s in enumerate(shapes)]
    node = b.call(table()[name], *params, **attrs)
    assert isinstance(node, Call)
    return b, params, node


def arrays(params: list[Any], dims: dict[DimVar, int]) -> list[np.ndarray[Any, Any]]:
    """Random arguments for given dims."""
    rng = np.random.default_rng(3)
    found = []
    for p in params:
        x = rng.standard_normal([int(evaluate_dim(d, dims)) for d in p.ty.shape])
        found.append(np.asarray(x > 0 if p.ty.dtype.is_bool else x, p.ty.dtype.numpy))
    return found


def tensors(ty: Type | None) -> list[TensorType]:
    """The tensor types of a result."""
    if isinstance(ty, TupleType):
        return [t for f in ty.fields for t in tensors(f)]
    assert isinstance(ty, TensorType)
    return [ty]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("name", "shapes", "attrs"), CASES, ids=[f"{n}-{k}" for k, (n, _, _) in enumerate(CASES)])
def test_one_definition_for_all_sizes(
    name: str, shapes: list[tuple[Any, ...]], attrs: dict[str, Any], size: tuple[int, int]
) -> None:
    dims = dict(zip((N, M), size, strict=True))
    b, params, node = call(name, shapes, attrs)
    if name == "reshape" and attrs["newshape"] == (2, -1) and (size[0] * 24) % 2:
        pytest.skip("does not divide")
    args = arrays(params, dims)
    witness = b.var("witness", (N, M))
    module = Module.from_expr(b.function([witness, *params], node))
    expected = evaluate(module, [np.zeros(size, np.float32), *args])
    expected = expected if isinstance(expected, tuple) else (expected,)
    for ty, array in zip(tensors(node.ty), expected, strict=True):
        assert tuple(evaluate_dim(d, dims) for d in ty.shape) == array.shape
    for got, wanted in zip(loops(node, params, args, dims), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def loops(node: Call, params: list[Any], args: list[Any], dims: dict[DimVar, int]) -> list[np.ndarray[Any, Any]]:
    """The operator's te definition on symbolic shapes, run with `dims`."""
    op: Any = node.op
    inputs = [placeholder(p.name, p.ty.shape, p.ty.dtype) for p in params]
    made = op.compute(*inputs, *op.tail(node.attrs), node.ty)
    outputs = list(made) if isinstance(made, tuple) else [made]
    func = to_tir(outputs, inputs, "f")
    results = [
        np.zeros([int(evaluate_dim(d, dims)) for d in t.shape], dt.dtype(t.dtype).numpy) for t in tensors(node.ty)
    ]
    scalars = [dims[p] for p in func.params if isinstance(p, DimVar)]
    assert tir_interp.run(func, [*args, *results, *scalars]) == 0
    return results


def test_a_symbolic_dim_of_extent_0_is_no_code() -> None:
    """The new shape's first entry is one, and takes the input's dim; N stands for itself, whatever it is."""
    mod = legato.parse("""#[version = "0.0.5"]
    def @main(%x: Tensor[(2, n, 3), float32]) { reshape(%x, newshape=[0, 1, n, 3]) }""")
    for n in (0, 1, 4):
        assert evaluate(mod, [np.zeros((2, n, 3), np.float32)]).shape == (2, 1, n, 3)


def test_dims_in_the_result_are_simple() -> None:
    def shape(name: str, shapes: list[tuple[Any, ...]], **attrs: Any) -> tuple[Dim, ...]:
        (ty,) = tensors(call(name, shapes, attrs)[2].ty)
        return ty.shape

    assert shape("reshape", [(N, 4, 6)], newshape=(-1, 24))[0] is N
    assert shape("strided_slice", [(N, 4)], begin=(0,), end=(2**31 - 1,))[0] is N
    assert shape("nn.pad", [(N, 4), ()], pad_width=((1, 1), (0, 0)))[0] is N + 2
    assert shape("concatenate", [(N, 4), (2, 4)])[0] is N + 2
