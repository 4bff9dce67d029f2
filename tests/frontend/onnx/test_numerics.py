"""Values at their edges: 16-bit floats, odd attributes, parameters of unusual shapes, declared types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import legato
from legato.base.errors import ImportModelError, LegatoError, RunError
from legato.interp import evaluate

Array = NDArray[Any]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array | tuple[int, Sequence[int | str]]],
    constants: Mapping[str, Array] = {},
    *,
    opset: int = 18,
    outputs: Sequence[str] = ("y",),
    dtype: int | None = None,
) -> onnx.ModelProto:
    """A model with `inputs` like these arrays, or of (element type, shape)."""
    given = {
        name: (helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) if isinstance(v, np.ndarray) else v
        for name, v in inputs.items()
    }
    infos = [onnx.ValueInfoProto(name=o) for o in outputs]
    if dtype is not None:
        infos = [helper.make_tensor_value_info(o, dtype, None) for o in outputs]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, *v) for name, v in given.items()], infos,
        [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 10 if opset > 20 else 8 if opset > 10 else 5
    return made


def results(proto: onnx.ModelProto, *args: Array) -> list[Array]:
    """What the compiled model gives, which is what the interpreter gives, up to rounding."""
    found = legato.compile(proto)(*args)
    wanted = evaluate(legato.from_onnx(proto), list(args))
    pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (found, wanted)), strict=True)
    both = [(np.asarray(f), np.asarray(w)) for f, w in pairs]
    for got, want in both:
        assert got.dtype == want.dtype
        rtol = 2e-3 if got.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=rtol, atol=1e-6)
    return [got for got, _ in both]


def peer(proto: onnx.ModelProto, *args: Array) -> list[Array]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    found: list[Array] = session.run(None, dict(zip(names, args, strict=True)))
    return found


def one(op: str, *args: Array, opset: int = 18, constants: Mapping[str, Array] = {}, **attributes: Any) -> Array:
    """The result of one node of arrays, then of constants."""
    names = [f"x{n}" for n in range(len(args))]
    node = helper.make_node(op, [*names, *constants], ["y"], **attributes)
    proto = model([node], dict(zip(names, args, strict=True)), constants, opset=opset)
    return results(proto, *args)[0]


# ------------------------------------------------------------------ 16-bit floats

HALF = np.array([[300, -200, 100, 50]], np.float16)
AXIS = {"axes": np.array([1])}


@pytest.mark.parametrize(
    ("op", "x", "constants", "attributes", "wanted"),
    [
        ("ReduceL2", HALF, AXIS, {}, [377.5]),
        ("ReduceSumSquare", HALF / np.float16(4), AXIS, {}, [8906.0]),
        ("LpNormalization", HALF, {}, {"p": 2}, [0.795, -0.53, 0.265, 0.1325]),
        ("LpNormalization", (HALF * 1e-6).astype(np.float16), {}, {"p": 2}, [0.795, -0.53, 0.265, 0.1325]),
        ("LpPool", HALF[None], {}, {"p": 2, "kernel_shape": [4]}, [377.5]),
        ("GlobalLpPool", HALF[None], {}, {"p": 2}, [377.5]),
        ("ReduceLogSum", np.full((1, 4), 30000, np.float16), AXIS, {}, [11.695]),
        ("ReduceLogSumExp", HALF, AXIS, {}, [300.0]),
        ("MeanVarianceNormalization", 10 * HALF[..., None], {}, {"axes": [1]}, [1.333, -1.474, 0.2106, -0.0702]),
        ("Sigmoid", np.array([-12, -11], np.float16), {}, {}, [6.14e-06, 1.67e-05]),
    ],
)  # fmt: skip
def test_steps_of_one_operator_neither_overflow_nor_vanish(
    op: str, x: Array, constants: Mapping[str, Array], attributes: Mapping[str, Any], wanted: list[float]
) -> None:
    found = one(op, x, constants=constants, **attributes)
    np.testing.assert_allclose(found.astype(np.float64).ravel(), wanted, rtol=3e-3)


def test_sums_of_16_bits_are_rounded_once() -> None:
    big, less = np.full((1, 2), 60000, np.float16), np.full((1, 2), -60000, np.float16)
    assert one("Mean", big, big).tolist() == [[60000, 60000]]
    assert one("Sum", big, big, less).tolist() == [[60000, 60000]]
    ones = np.ones((2, 3), np.float16)
    assert one("Gemm", big, ones, np.full(3, -60000, np.float16)).tolist() == [[60000] * 3]
    assert one("Gemm", big, ones, alpha=0.25).tolist() == [[30000] * 3]
    image, kernel, bias = big.reshape(1, 2, 1), np.ones((1, 2, 1), np.float16), np.array([-60000], np.float16)
    assert one("Conv", image, kernel, bias).tolist() == [[[60000]]]
    assert one("ConvTranspose", image, kernel.reshape(2, 1, 1), bias).tolist() == [[[60000]]]


def test_attention_of_16_bits() -> None:
    q, k = np.full((1, 1, 1, 64), 40, np.float16), np.full((1, 1, 2, 64), 60, np.float16)
    v = np.array([[[[1], [3]]]], np.float16)
    assert one("Attention", q, k, v, opset=23, scale=1.0, softcap=2.0).tolist() == [[[[2]]]]


# ------------------------------------------------------------------ arithmetic


def test_mod_of_floats_is_exact() -> None:
    rng = np.random.default_rng(3)
    edges = np.array([0.0, -0.0, 1.0, -1.0, 6.0, -6.0, 0.6, 3.0, np.inf, -np.inf, np.nan, 1e10, 64.04227], np.float32)
    a = np.concatenate([np.repeat(edges, edges.size), (rng.standard_normal(200) * 1e4).astype(np.float32)])
    b = np.concatenate([np.tile(edges, edges.size), rng.standard_normal(200).astype(np.float32)])
    for dtype in (np.float32, np.float16, np.float64):
        with np.errstate(all="ignore"):
            x, y = a.astype(dtype), b.astype(dtype)
            wanted = np.fmod(x, y)
        found = one("Mod", x, y, fmod=1)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.array([3, 2**31 + 1, -7, 2**53 + 1, 5], np.int64), np.array([2, 1, 3, 1, 0.5], np.float32)),
        (np.array([-1, 2, 1.5], np.float32), np.array([2**24 + 1, -3, 7], np.int64)),
        (np.array([-1, 2, 1.5], np.float32), np.array([3, -3, 7], np.int32)),
        (np.array([3, 2, 7], np.int32), np.array([3, 10, 2], np.int64)),
        (np.array([3, 4, 5], np.float32), np.array([[2]], np.float32)),
    ],
)
def test_pow_computes_in_a_dtype_that_holds_both(x: Array, y: Array) -> None:
    """With the exponent as an input, and as a constant."""
    proto = model([helper.make_node("Pow", ["x", "p"], ["y"])], {"x": x, "p": y})
    (wanted,) = peer(proto, x, y)
    for found in (one("Pow", x, y), one("Pow", x, constants={"p": y})):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_root_of_minus_infinity_is_infinite() -> None:
    x = np.array([-1, 0, -0.0, 4, -np.inf], np.float32)
    proto = model([helper.make_node("Pow", ["x", "p"], ["y"])], {"x": x}, {"p": np.float32(0.5)})
    np.testing.assert_array_equal(results(proto, x)[0], peer(proto, x)[0])


@pytest.mark.parametrize(("lambd", "bias"), [(-1.0, 1.5), (-0.25, 0.0), (0.5, 1.5)])
def test_shrink(lambd: float, bias: float) -> None:
    x = np.array([0, 0.5, -0.5, 0.25, -0.25, 2, -2, np.nan], np.float32)
    proto = model([helper.make_node("Shrink", ["x"], ["y"], lambd=lambd, bias=bias)], {"x": x})
    np.testing.assert_array_equal(results(proto, x)[0], peer(proto, x)[0])


@pytest.mark.parametrize(("dtype", "lambd", "bias"), [("int32", 0.5, 0.5), ("uint8", 1.5, 1.25), ("int64", -1.5, 0.75)])
def test_shrink_of_integers(dtype: str, lambd: float, bias: float) -> None:
    """`bias` and `lambd` are no integers."""
    x = np.array([5, 1, 0, 3, *([] if dtype == "uint8" else [-1, -2, -5])], dtype)
    proto = model([helper.make_node("Shrink", ["x"], ["y"], lambd=lambd, bias=bias)], {"x": x})
    np.testing.assert_array_equal(results(proto, x)[0], peer(proto, x)[0])


@pytest.mark.parametrize("op", ["ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceSumSquare"])
def test_reductions_of_integers(op: str) -> None:
    x = np.array([[3, 4, 12], [1, 2, 2]], np.int32)
    real = x.astype(np.float64)
    wanted = {
        "ReduceL2": np.sqrt((real * real).sum(1)),
        "ReduceLogSum": np.log(real.sum(1)),
        "ReduceLogSumExp": np.log(np.exp(real).sum(1)),
        "ReduceMean": real.mean(1),
        "ReduceSumSquare": (real * real).sum(1),
    }[op]
    found = one(op, x, constants=AXIS, keepdims=0)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.trunc(wanted + 1e-9))


# ------------------------------------------------------------------ attention


def heads(*shapes: Sequence[int]) -> list[Array]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((1, 1, *shape)).astype(np.float32) for shape in shapes]


def test_a_softcap_below_zero_caps_nothing() -> None:
    q, k, v = heads((3, 4), (5, 4), (5, 2))
    plain, negative = (one("Attention", 9 * q, k, v, opset=23, softcap=cap) for cap in (0.0, -5.0))
    np.testing.assert_array_equal(plain, negative)


@pytest.mark.parametrize(("is_bool", "columns"), [(False, "c"), (False, None), (True, "c")])
@pytest.mark.parametrize("count", [1, 3])
def test_a_short_mask_lacks_the_other_keys(count: int, columns: str | None, is_bool: bool) -> None:
    q, k, v = heads((3, 4), (5, 4), (5, 2))
    mask = np.ones((3, count), np.bool_) if is_bool else np.zeros((3, count), np.float32)
    kind = TensorProto.BOOL if is_bool else TensorProto.FLOAT
    node = helper.make_node("Attention", ["q", "k", "v", "m"], ["y"])
    proto = model([node], {"q": q, "k": k, "v": v, "m": (kind, (3, columns or count))}, opset=23)
    wanted = one("Attention", q, k[:, :, :count], v[:, :, :count], opset=23)
    np.testing.assert_allclose(results(proto, q, k, v, mask)[0], wanted, rtol=1e-5)


def test_a_mask_of_more_columns_than_keys_is_refused() -> None:
    q, k, v = heads((3, 4), (5, 4), (5, 2))
    node = helper.make_node("Attention", ["q", "k", "v", "m"], ["y"])
    proto = model([node], {"q": q, "k": k, "v": v, "m": (TensorProto.FLOAT, (3, "c"))}, opset=23)
    with pytest.raises(RunError):
        legato.compile(proto)(q, k, v, np.zeros((3, 7), np.float32))


# ------------------------------------------------------------------ norms and products


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("shape", [(1, 1, 4), (2, 1, 4), (3, 1), (1,)])
def test_a_scale_of_any_shape_that_broadcasts(op: str, shape: Sequence[int]) -> None:
    rng = np.random.default_rng(0)
    x, scale = rng.standard_normal((2, 3, 4)).astype(np.float32), rng.standard_normal(shape).astype(np.float32)
    axis = 1 if len(shape) == 2 else 2
    axes = tuple(range(axis, 3))
    mean = x.mean(axes, keepdims=True) if op == "LayerNormalization" else np.float32(0)
    wanted = (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + np.float32(1e-5)) * scale
    found = one(op, x, scale, opset=23, axis=axis)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    if op == "LayerNormalization":
        shifted = one(op, x, scale, scale, opset=23, axis=axis)
        np.testing.assert_allclose(shifted, wanted + scale, rtol=1e-4, atol=1e-5)


def test_a_batch_of_one_dim_has_one_channel() -> None:
    x, params = np.arange(10, dtype=np.float32), [np.array([p], np.float32) for p in (2, 1, 3, 4)]
    found = one("BatchNormalization", x, *params, epsilon=0.0)
    np.testing.assert_allclose(found, (x - 3) / 2 * 2 + 1)


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,kj->ik", "ij,ij->i", "ij,jk->ijk"])
@pytest.mark.parametrize("left", [(3, 1), (1, 2)])
def test_einsum_broadcasts_extents_of_one(equation: str, left: Sequence[int]) -> None:
    rng = np.random.default_rng(0)
    right = {"ij,kj->ik": (4, 2), "ij,ij->i": (3, 2)}.get(equation, (2, 4))
    a, b = (rng.standard_normal(s).astype(np.float32) for s in (left, right))
    np.testing.assert_allclose(one("Einsum", a, b, equation=equation), np.einsum(equation, a, b), rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------ resizing


@pytest.mark.parametrize("extents", [(4, 6), (5, 7)])
@pytest.mark.parametrize("scales", [(0.6, 0.6), (0.5, 2.0), (1.5, 1.25)])
def test_nearest_of_operator_set_10_rounds_up_below_1(extents: tuple[int, int], scales: tuple[float, float]) -> None:
    x = np.arange(np.prod(extents), dtype=np.float32).reshape(1, 1, *extents)
    factors = np.array([1, 1, *scales], np.float32)
    proto = model([helper.make_node("Resize", ["x", "s"], ["y"])], {"x": x}, {"s": factors}, opset=10)
    np.testing.assert_array_equal(results(proto, x)[0], peer(proto, x)[0])


@pytest.mark.parametrize("extents", [(3, 4), (8, 7), (13, 2)])
def test_nearest_of_operator_set_10_to_the_size_of_another_input(extents: tuple[int, int]) -> None:
    """Whether dims get larger or smaller is known when the model runs."""
    nodes = [
        helper.make_node("Shape", ["z"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["wanted"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["wanted", "extents"], ["s"]),
        helper.make_node("Resize", ["x", "s"], ["y"]),
    ]
    x, z = np.arange(32, dtype=np.float32).reshape(1, 1, 8, 4), np.zeros((1, 1, *extents), np.float32)
    inputs = {"x": x, "z": (TensorProto.FLOAT, (1, 1, "h", "w"))}
    proto = model(nodes, inputs, {"extents": np.array(x.shape, np.float32)}, opset=10)
    np.testing.assert_array_equal(results(proto, x, z)[0], peer(proto, x, z)[0])


# ------------------------------------------------------------------ what models say of themselves


def loop(rank: int | None, trips: Array | None, *, gathers: bool) -> onnx.ModelProto:
    """A loop whose body declares its number to be of `rank`: it squares it, or takes a row by it."""
    shape = None if rank is None else [1] * rank
    number = helper.make_tensor_value_info("i", TensorProto.INT64, shape)
    go = [helper.make_tensor_value_info(name, TensorProto.BOOL, shape) for name in ("c", "d")]
    rest = [onnx.ValueInfoProto(name="s")], [onnx.ValueInfoProto(name=name) for name in ("t", "row")]
    nodes = [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["s", "one"], ["t"])]
    operator, operands = ("Gather", ["table", "i"]) if gathers else ("Mul", ["i", "i"])
    made = helper.make_node(operator, operands, ["row"])
    body = helper.make_graph([*nodes, made], "body", [number, go[0], *rest[0]], [go[1], *rest[1]])
    inputs: dict[str, Any] = {"table": (TensorProto.FLOAT, [5, 2]), "s0": (TensorProto.FLOAT, [3])}
    if trips is None:
        inputs["m"] = (TensorProto.INT64, [])
    constants = {"one": np.ones(1, np.float32)} | ({} if trips is None else {"m": trips})
    return model([helper.make_node("Loop", ["m", "", "s0"], ["y", "rows"], body=body)], inputs, constants, opset=13,
                 outputs=["y", "rows"])  # fmt: skip


@pytest.mark.parametrize("rank", [None, 0, 1])
@pytest.mark.parametrize("gathers", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_the_number_of_a_round_is_what_the_body_declares(rank: int | None, gathers: bool, is_known: bool) -> None:
    table, s0, m = np.arange(10, dtype=np.float32).reshape(5, 2), np.zeros(3, np.float32), np.array(4)
    proto = loop(rank, m if is_known else None, gathers=gathers)
    args = (table, s0) if is_known else (table, s0, m)
    y, rows = results(proto, *args)
    each = table[:4] if gathers else np.arange(4) ** 2
    np.testing.assert_array_equal(y, s0 + 4)
    np.testing.assert_array_equal(rows, each[:, None] if rank == 1 else each)


@pytest.mark.parametrize("trips", [-3, 0])
def test_a_loop_of_fewer_than_no_rounds_has_none(trips: int) -> None:
    table, s0 = np.zeros((5, 2), np.float32), np.arange(3, dtype=np.float32)
    y, rows = results(loop(0, np.array(trips), gathers=True), table, s0)
    np.testing.assert_array_equal(y, s0)
    assert rows.shape == (0, 2)


def test_an_output_of_another_dtype_than_declared_is_refused() -> None:
    proto = model([helper.make_node("Abs", ["x"], ["y"])], {"x": np.zeros(3, np.float32)}, dtype=TensorProto.INT64)
    with pytest.raises(ImportModelError, match=r"'y' is declared as INT64, but is float32"):
        legato.from_onnx(proto)


def test_an_attribute_that_refers_to_none_is_refused() -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[2])
    proto = model([node], {"x": np.zeros((1, 1, 8), np.float32)})
    for attribute in proto.graph.node[0].attribute:
        if attribute.name == "strides":
            attribute.ref_attr_name = "alpha"
    with pytest.raises(ImportModelError, match="attribute strides refers to 'alpha'"):
        legato.from_onnx(proto)


@pytest.mark.parametrize("extent", ["n", 4, 6])
@pytest.mark.parametrize("count", [4, 6, 2])
def test_sizes_of_a_split_add_up(extent: str | int, count: int) -> None:
    node = helper.make_node("Split", ["x", "s"], ["y", "z"])
    proto = model([node], {"x": (TensorProto.FLOAT, (extent,))}, {"s": np.array([2, 2])}, outputs=["y", "z"])
    x = np.arange(count, dtype=np.float32)
    if count == 4 and extent in ("n", 4):
        assert [part.tolist() for part in results(proto, x)] == [[0, 1], [2, 3]]
        return
    with pytest.raises(LegatoError):
        legato.compile(proto)(x)
    with pytest.raises(LegatoError):
        evaluate(legato.from_onnx(proto), [x])
