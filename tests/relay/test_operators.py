"""Operator functions: every operator by every sample of its record, and what the original's parameters add."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError, TypeCheckError, UnsupportedError
from legato.infer.builder import Builder
from legato.ir.op import Op, Sample
from legato.ops import table
from legato.relay.op._functions import function
from legato.relay.op._signatures import RENAMED

OTHER_DEFAULTS = {"arange": "dtype", "nn.dropout": "the first result"}


def argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return relay.const(value)
    if isinstance(value, list):
        return [argument(v) for v in value]
    is_type = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str)
    return relay.var("x", shape=value[0], dtype=value[1]) if is_type else value


def keywords(op: Op, sample: Sample, args: list[Any]) -> dict[str, Any]:
    """What the function is called with for a sample of its record."""
    names = [a.lstrip("*") for a in op.args]
    if op.args and op.args[-1].startswith("*"):
        args = [*args[: len(names) - 1], args[len(names) - 1 :]]
    own = {of: p for (name, p), of in RENAMED.items() if name == op.name}
    found = {own.get(k, k): v for k, v in (*zip(names, args, strict=True), *sample.attrs.items())}
    defaults = {} if op.attrs is None else {f.name: f.default for f in fields(op.attrs)}
    for name, p in inspect.signature(function(op.name)).parameters.items():
        if p.default is p.empty and name not in found:
            assert defaults[name] is not MISSING, f"relay.{op.name}: {name} is neither given nor in the record"
            found[name] = defaults[name]
    return found


def samples() -> Iterator[tuple[Op, Sample]]:
    return ((op, s) for op in table().values() if op.name not in OTHER_DEFAULTS for s in op.samples)


def test_every_sample_of_every_operator_has_the_type_that_its_record_gives() -> None:
    count = 0
    for op, sample in samples():
        if sample.attrs.keys() & {"scale", "ratio", "crop"} and op.name.startswith("image.resize"):
            continue  # ONNX's ways of saying a size or a region, which Relay's functions do not have
        args = [argument(a) for a in sample.args]
        want = Builder().call(op, *args, **sample.attrs).ty
        made = function(op.name)(**keywords(op, sample, args))
        got = made.astuple() if isinstance(made, relay.TupleWrapper) else made
        assert isinstance(got, relay.Call)
        assert (got.op, str(got.ty)) == (op, str(want)), f"{op.name} {sample.attrs}"  # each has dims of its own
        count += 1
    assert count > 800


def call(e: Any) -> tuple[str, dict[str, Any]]:
    """An operator's call as its name and attributes."""
    return e.op.name, {} if e.attrs is None else {f.name: getattr(e.attrs, f.name) for f in fields(e.attrs)}


X, W = relay.var("x", shape=(2, 8, 9, 9)), relay.var("w")


def test_numbers_stand_for_every_dim() -> None:
    _, attrs = call(relay.nn.conv2d(X, W, strides=2, padding=(1, 2), dilation=1, channels=4, kernel_size=3))
    assert (attrs["strides"], attrs["padding"], attrs["dilation"]) == ((2, 2), (1, 2, 1, 2), (1, 1))
    assert attrs["kernel_size"] == (3, 3)
    _, attrs = call(relay.nn.max_pool2d(X, 2, padding=(0, 0, 1, 1)))
    assert (attrs["pool_size"], attrs["padding"]) == ((2, 2), (0, 0, 1, 1))
    _, attrs = call(relay.nn.conv1d(relay.var("y"), W, channels=4, kernel_size=3, padding=1))
    assert (attrs["strides"], attrs["padding"], attrs["kernel_size"]) == ((1,), (1, 1), (3,))


def test_tuples_are_wrapped() -> None:
    a, b = relay.split(X, 2, axis=1)
    assert str(a.checked_type) == str(b.checked_type) == "Tensor[(2, 4, 9, 9), float32]"
    parts = relay.split(X, [1, 3], axis=1)
    assert (len(parts), [int(p.checked_type.shape[1]) for p in parts]) == (3, [1, 2, 5])
    assert relay.Function([X], parts).body is parts.astuple()
    values, indices = relay.topk(X, k=3)
    assert [str(v.checked_type.dtype) for v in (values, indices)] == ["float32", "int32"]
    assert isinstance(relay.topk(X, k=3, ret_type="values"), relay.Call)
    with pytest.raises(IndexError):
        parts[3]
    assert str(relay.nn.dropout(X).checked_type) == str(X.checked_type)
    assert len(relay.nn.dropout_raw(X)) == 2


def test_arange_counts_from_zero_and_takes_constants() -> None:
    assert str(relay.arange(5).checked_type) == "Tensor[(5,), float32]"
    made = relay.arange(relay.const(2), relay.const(8), relay.const(3), "int32")
    assert str(made.checked_type) == "Tensor[(2,), int32]"


def test_scalars_take_the_dtype_of_what_they_go_into() -> None:
    assert str(relay.nn.pad(X, ((0, 0),) * 4, pad_value=0).checked_type) == str(X.checked_type)
    assert str(relay.nn.pad(X, ((0, 0),) * 4, relay.const(0)).checked_type) == str(X.checked_type)
    assert str(relay.full(relay.const(1.5), (2,), "int32").checked_type) == "Tensor[(2,), int32]"
    assert str(relay.full(relay.const(1.5)).checked_type) == "float32"


def test_constants_may_say_shapes_but_not_what_is_computed() -> None:
    shape = relay.const(np.array([2, -1]))
    assert str(relay.reshape(X, shape).checked_type) == "Tensor[(2, 648), float32]"
    assert str(relay.strided_slice(X, relay.const([1]), [2]).checked_type) == "Tensor[(1, 8, 9, 9), float32]"
    with pytest.raises(UnsupportedError) as error:
        relay.sum(X, relay.var("axis", shape=(2,), dtype="int32"))
    assert error.value.message == "relay.sum: axis is computed when the program runs"


def test_combined_functions() -> None:
    rng = np.random.default_rng(0)
    v = rng.normal(size=(3, 4)).astype("float32")
    x = relay.var("x", shape=(3, 4))
    both = relay.mean_variance(x, axis=1)
    wants = {
        relay.std(x, axis=1): v.std(1),
        relay.variance(x, axis=0, unbiased=True): v.var(0, ddof=1),
        relay.logsumexp(x, axis=1): np.log(np.exp(v).sum(1)),
        relay.Tuple(both): (v.mean(1), v.var(1)),
        relay.mean_std(x, keepdims=True).astuple(): (v.mean(keepdims=True), v.std(keepdims=True)),
    }
    for expr, want in wants.items():
        got = relay.create_executor("debug", relay.IRModule.from_expr(expr)).evaluate()(v)
        for g, w in zip(
            got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True
        ):
            np.testing.assert_allclose(g, w, rtol=1e-5)
    assert str(relay.nn.global_avg_pool1d(relay.var("a", shape=(1, 2, 5))).checked_type) == "Tensor[(1, 2, 1), float32]"
    assert str(relay.nn.global_max_pool3d(relay.var("a", shape=(1, 2, 5, 5, 5))).checked_type) == (
        "Tensor[(1, 2, 1, 1, 1), float32]"
    )


@pytest.mark.parametrize("layout", ["NHWC", "NCHW16c", "NHWC8c", "CHWN"])
def test_layouts_there_and_back(layout: str) -> None:
    x = relay.var("x", shape=(1, 32, 4, 5))
    back = relay.layout_transform(relay.layout_transform(x, "NCHW", layout), layout, "NCHW")
    v = np.arange(640, dtype="float32").reshape(1, 32, 4, 5)
    assert np.array_equal(relay.create_executor("debug", relay.IRModule.from_expr(back)).evaluate()(v), v)


def test_blocks_of_a_layout() -> None:
    x = relay.var("x", shape=(1, 32, 4, 5))
    v = np.arange(640, dtype="float32").reshape(1, 32, 4, 5)
    blocks = relay.IRModule.from_expr(relay.layout_transform(x, "NCHW", "NCHW16c"))
    got = relay.create_executor("debug", blocks).evaluate()(v)
    assert np.array_equal(got, v.reshape(1, 2, 16, 4, 5).transpose(0, 1, 3, 4, 2))
    with pytest.raises(TypeCheckError, match="have different letters"):
        inferred(relay.layout_transform(x, "NCHW", "NHW"))


def inferred(e: relay.Expr) -> relay.IRModule:
    return relay.transform.InferType()(relay.IRModule.from_expr(e))


def test_an_ill_typed_call_is_built_and_reported_by_inference() -> None:
    bad = relay.add(relay.var("x", shape=(2,)), relay.var("y", shape=(3,)))
    assert bad.ty is None
    with pytest.raises(TypeCheckError, match="add: the shapes do not broadcast"):
        relay.transform.InferType()(relay.IRModule.from_expr(bad))


def test_wrong_calls_name_the_function() -> None:
    with pytest.raises(TypeCheckError) as error:
        relay.nn.relu(X, 3)
    assert error.value.message == "relay.nn.relu(data): too many positional arguments"
    with pytest.raises(TypeCheckError, match=r"relay\.nn\.conv2d\(data, weight, strides=\(1, 1\), .*'stride'"):
        relay.nn.conv2d(X, W, stride=2)
    with pytest.raises(AttributeError, match=r"there is no operator relay\.nn\.nothing"):
        relay.nn.nothing  # noqa: B018
    with pytest.raises(CompileError, match=r"no operator is called 'nn\.conv2'"):
        relay.op.get("nn.conv2")
    with pytest.raises(TypeCheckError, match="there is nothing in its list"):
        relay.concatenate([], 0)


def test_namespaces_list_their_operators() -> None:
    assert {"conv2d", "relu", "global_avg_pool1d"} <= set(dir(relay.nn))
    assert {"add", "var", "build", "image"} <= set(dir(relay))
    assert relay.image.resize2d is relay.op.image.resize2d
    assert relay.op.tensor.exp is relay.exp is relay.op.exp


def test_shapes_and_dtypes_of_others() -> None:
    x, y = relay.var("x", shape=(2, 3, 4)), relay.var("y", shape=(2, 12), dtype="int8")
    calls = {
        relay.cast_like(x, y): "Tensor[(2, 3, 4), int8]",
        relay.reshape_like(x, y): "Tensor[(2, 12), float32]",
        relay.reshape_like(x, y, lhs_begin=1, rhs_begin=1): "Tensor[(2, 12), float32]",
        relay.slice_like(x, relay.var("z", shape=(1, 2, 9)), axes=(0, 1)): "Tensor[(1, 2, 4), float32]",
        relay.broadcast_to_like(relay.var("z", shape=(3, 1)), x): "Tensor[(2, 3, 4), float32]",
        relay.collapse_sum_like(x, relay.var("z", shape=(3, 1))): "Tensor[(3, 1), float32]",
        relay.collapse_sum_to(x, (3, 4)): "Tensor[(3, 4), float32]",
    }
    assert [str(call.checked_type) for call in calls] == list(calls.values())
    v = np.arange(24, dtype="float32").reshape(2, 3, 4)
    collapsed = relay.IRModule.from_expr(list(calls)[5])
    assert np.array_equal(relay.create_executor("debug", collapsed).evaluate()(v), v.sum((0, 2))[:, None])
    assert relay.slice_like(relay.var("s", shape=()), x).checked_type == relay.scalar_type("float32")
    for axes in ((3,), (-4,), (2,)):
        with pytest.raises(TypeCheckError, match="there is no axis"):
            relay.slice_like(x, y, axes)
    with pytest.raises(TypeCheckError, match="the data of layout NCHW has rank 3, wanted 4"):
        inferred(relay.layout_transform(x, "NCHW", "NCHW4c"))
    with pytest.raises(TypeCheckError, match="is not a layout"):
        inferred(relay.layout_transform(x, "NCW", "NCW" + "9" * 5000 + "c"))


@pytest.mark.parametrize(("name", "shape", "found"), [
    ("cast_like", (1,), "Tensor[(2, 3, 4), int8]"),
    ("reshape_like", (4, 6), "Tensor[(4, 6), float32]"),
    ("slice_like", (1, 2, 1), "Tensor[(1, 2, 1), float32]"),
    ("broadcast_to_like", (5, 2, 3, 4), "Tensor[(5, 2, 3, 4), float32]"),
    ("collapse_sum_like", (3, 1), "Tensor[(3, 1), float32]"),
])  # fmt: skip
def test_shapes_and_dtypes_of_others_that_inference_finds(name: str, shape: tuple[int, ...], found: str) -> None:
    x, z = relay.var("x", shape=(2, 3, 4)), relay.var("z")
    f = relay.Function([z], getattr(relay, name)(x, z))
    call = relay.Call(f, [relay.zeros(shape, "int8")])
    assert str(inferred(relay.Function([x], call))["main"].ret_type) == found


def test_operators_made_of_python_values() -> None:
    """Against NumPy."""
    x, v = np.arange(20, dtype="float32").reshape(4, 5), np.full((2, 2), -1, "float32")
    a, b = relay.const(x), relay.const(v)
    wanted = x.copy()
    wanted[3:0:-2, 1:3] = v
    cases = [
        (relay.trilu(a, 1), np.triu(x, 1)),
        (relay.trilu(a, relay.const(-1), False), np.tril(x, -1)),
        (relay.strided_set(a, b, [3, 1], [0, 3], [-2, 1]), wanted),
        (relay.strided_set(b, b, [0], [2]), v),
        (relay.reverse_reshape(a, (-1, 0)), x),
        (relay.searchsorted(relay.const([1, 3, 5]), relay.const([3, 4]), right=True), np.array([2, 2])),
        (relay.unravel_index(relay.const([7, 3]), relay.const([2, 5])), np.array(np.unravel_index([7, 3], (2, 5)))),
        (relay.invert_permutation(relay.const([2, 0, 1])), np.array([1, 2, 0])),
        (relay.adv_index([a, relay.const([0, 2]), relay.const([[1], [3]])]), x[[0, 2], [[1], [3]]]),
        (relay.meshgrid([relay.const([1, 2]), relay.const([3, 4, 5])], "xy")[1], np.meshgrid([1, 2], [3, 4, 5])[1]),
        (relay.nn.mirror_pad(a, ((1, 1), (0, 2))), np.pad(x, ((1, 1), (0, 2)), "symmetric")),
        (relay.sparse_reshape(relay.const([[0, 1], [1, 2]]), relay.const([2, 3]), relay.const([-1]))[0],
         np.array([[1], [5]])),
        (relay.matrix_set_diag(a, relay.const([7.0, 8, 9]), 2), x + np.diag([5.0, 0, -5], 2)[:4]),
    ]  # fmt: skip
    for call, expected in cases:
        mod = relay.IRModule.from_expr(call)
        for kind in ("debug", "vm"):
            assert np.array_equal(relay.create_executor(kind, mod).evaluate()(), expected), call
    with pytest.raises(TypeCheckError, match="LEFT or RIGHT twice"):
        relay.matrix_set_diag(a, a, 0, "CENTER")
    with pytest.raises(TypeCheckError, match="give strides"):
        relay.strided_set(a, b, relay.var("begin"), [2])


def test_modules_as_json() -> None:
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.tanh(X)))
    again = relay.load_json(relay.save_json(mod))
    assert relay.structural_equal(again, mod)
    assert again["main"].checked_type == mod["main"].checked_type
