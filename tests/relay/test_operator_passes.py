"""Passes over operators, under Relay's names."""

from __future__ import annotations

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError, UnsupportedError
from legato.relay import transform


def test_levels_and_names() -> None:
    made = [transform.CanonicalizeCast(), transform.FoldExplicitPadding(), transform.CombineParallelConv2D(),
            transform.CombineParallelDense(), transform.CombineParallelBatchMatmul(), transform.DivToMul(),
            transform.ForwardFoldScaleAxis(), transform.BackwardFoldScaleAxis(),
            transform.FastMath(), transform.SplitArgs(9), transform.SimplifyFCTranspose([])]  # fmt: skip
    assert {p.info.name: p.info.opt_level for p in made} == {
        "CanonicalizeCast": 3,
        "FoldExplicitPadding": 0,
        "CombineParallelConv2d": 4,
        "CombineParallelDense": 4,
        "CombineParallelBatchMatmul": 4,
        "DivToMul": 0,
        "ForwardFoldScaleAxis": 3,
        "BackwardFoldScaleAxis": 3,
        "FastMath": 4,
        "SplitArgs": 1,
        "SimplifyFCTranspose": 4,
    }


def test_casts_of_several_uses() -> None:
    wide = relay.cast(relay.var("x", shape=(2,), dtype="int8"), "int32")
    mod = relay.IRModule.from_expr(relay.Tuple([relay.negative(wide), relay.abs(wide)]))
    made = transform.CanonicalizeCast()(mod)["main"].body
    assert made.fields[0].args[0] is not made.fields[1].args[0]


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_padding_of_convolutions(value: float) -> None:
    x, w = relay.var("x", shape=(1, 10, 10, 3)), relay.var("w", shape=(3, 3, 3, 8))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    padded = relay.nn.pad(x, [[0, 0], [1, 0], [1, 2], [0, 0]], value)
    conv = relay.nn.conv2d(padded, w, padding=(2, 0), **layouts)
    wanted = relay.nn.conv2d(x, w, padding=(3, 1, 2, 2), **layouts) if value == 0 else conv
    got = relay.testing.run_opt_pass(conv, transform.FoldExplicitPadding())
    assert str(got) == str(relay.testing.run_infer_type(wanted))


def test_convolutions_by_way_of_the_batch() -> None:
    x, w = relay.var("x", shape=(1, 5, 5, 4)), relay.var("w", shape=(3, 3, 4, 2))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    batch = relay.nn.space_to_batch_nd(x, block_shape=[2, 2], paddings=[[2, 3], [2, 3]])
    conv = relay.nn.batch_to_space_nd(relay.nn.conv2d(batch, w, **layouts), [2, 2], [[0, 1], [0, 1]])
    wanted = relay.nn.conv2d(x, w, padding=[2, 2, 2, 2], dilation=[2, 2], **layouts)
    got = relay.testing.run_opt_pass(conv, transform.FlattenAtrousConv())
    assert str(got) == str(relay.testing.run_infer_type(wanted))


def test_parallel_branches() -> None:
    x = relay.var("x", shape=(4, 8))
    weights = [relay.var(f"w{n}", shape=(3, 8)) for n in range(3)]
    mod = relay.IRModule.from_expr(relay.Tuple([relay.nn.dense(x, w) for w in weights]))
    freqs = relay.analysis.list_op_freqs
    for p, name in ((transform.CombineParallelDense(), "nn.batch_matmul"),
                    (transform.CombineParallelDense(to_batch=False), "nn.dense")):  # fmt: skip
        assert freqs(p(mod))[name] == 1
    assert freqs(transform.CombineParallelDense(4)(mod))["nn.dense"] == 3
    assert freqs(transform.CombineParallelOpBatch("nn.dense", "nn.batch_matmul")(mod))["nn.batch_matmul"] == 1
    with pytest.raises(UnsupportedError, match=r"nn\.conv2d as nn\.batch_matmul of a batch"):
        transform.CombineParallelOpBatch("nn.conv2d", "nn.batch_matmul")
    images = relay.var("x", shape=(1, 4, 8, 8))
    filters = [relay.var(f"w{n}", shape=(3 + n, 4, 3, 3)) for n in range(2)]
    convs = relay.Tuple([relay.nn.relu(relay.nn.conv2d(images, w)) for w in filters])
    made = transform.CombineParallelConv2D(2)(relay.IRModule.from_expr(convs))
    assert freqs(made)["nn.conv2d"] == 1
    batch = relay.var("x", shape=(2, 4, 8))
    batches = [relay.var(f"w{n}", shape=(2, 3 + n, 8)) for n in range(3)]
    products = relay.Tuple([relay.nn.batch_matmul(batch, w) for w in batches])
    made = transform.CombineParallelBatchMatmul()(relay.IRModule.from_expr(products))
    assert freqs(made)["nn.batch_matmul"] == 1


def test_divisions_by_constants() -> None:
    x = relay.var("x", shape=(4,))
    two = relay.add(relay.const(1.0), relay.const(1.0))
    made = transform.DivToMul()(relay.IRModule.from_expr(relay.divide(x, two)))["main"].body
    assert made.op.name == "multiply"
    assert made.args[1].data == 0.5
    kept = transform.DivToMul()(relay.IRModule.from_expr(relay.divide(x, relay.const(0.0))))["main"].body
    assert kept.op.name == "divide"


def test_fast_functions() -> None:
    x = relay.var("x", shape=(3, 4))
    mod = relay.IRModule.from_expr(relay.nn.softmax(relay.erf(relay.exp(relay.tanh(x)))))
    made = transform.FastMath()(mod)
    assert set(relay.analysis.list_op_freqs(made)) == {"nn.fast_softmax", "fast_erf", "fast_exp", "fast_tanh"}
    data = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    run = [relay.create_executor("debug", m).evaluate()(data) for m in (mod, made)]
    np.testing.assert_allclose(*run, rtol=1e-3)


def test_identities_that_nearly_hold() -> None:
    x = relay.var("x", shape=(3, 4))
    mod = relay.IRModule.from_expr((x + relay.const(1.0)) * relay.const(2.0) + relay.const(3.0))
    kept, made = (transform.SimplifyExpr(rounds=r)(mod)["main"].body for r in (False, True))
    assert [kept.args[1].data, made.args[1].data] == [3.0, 5.0]
    assert made.args[0].op.name == "multiply"


def test_scales_move_into_weights() -> None:
    """Those that are parameters, too, as in Relay's own tests; a factor that may be negative stays behind relu."""
    x, w = relay.var("x", shape=(2, 4, 10, 10)), relay.var("w", shape=(8, 2, 3, 3))
    scale, shift = relay.const(np.linspace(1, 2, 4).reshape(4, 1, 1).astype("float32")), relay.var("b", shape=(4, 1, 1))
    y = relay.subtract(relay.nn.relu(relay.multiply(x, scale)), shift)
    two = relay.Tuple([relay.nn.conv2d(y, w, groups=2, channels=8, kernel_size=(3, 3), padding=(1, 1)) for _ in "ab"])
    out = relay.var("s", shape=(8, 1, 1))
    conv = relay.nn.conv2d(x, w, groups=2)
    cases = [(two, transform.ForwardFoldScaleAxis(), 1, True), (conv * out, transform.BackwardFoldScaleAxis(), 1, True),
             (relay.nn.relu(conv) * out, transform.BackwardFoldScaleAxis(), 1, False),
             (relay.Tuple([two, conv * out]), transform.FoldScaleAxis(), 2, True)]  # fmt: skip
    rng = np.random.default_rng(1)
    for body, fold, count, moves in cases:
        old = relay.Function(relay.analysis.free_vars(body), body)
        new = fold(relay.IRModule.from_expr(old))["main"]
        found: list[relay.Expr] = []
        relay.analysis.post_order_visit(new, found.append)
        scaled = [n for n in found if isinstance(n, relay.Call) and n.op.name == "multiply"]
        assert len({id(n) for n in scaled}) >= count
        assert all(n.checked_type == w.checked_type for n in scaled) is moves
        args = [rng.normal(size=p.checked_type.static_shape()).astype("float32") for p in old.params]
        run = [relay.create_executor("debug", relay.IRModule.from_expr(f)).evaluate()(*args) for f in (old, new)]
        for a, b in zip(*(r.fields if hasattr(r, "fields") else r for r in run), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("limit", "counts"), [(-1, [9]), (10, [9]), (5, [4, 4, 3]), (3, [2] * 8)])
def test_long_concatenations(limit: int, counts: list[int]) -> None:
    whole = relay.concatenate([relay.var(f"x{n}", shape=(2,)) for n in range(9)], axis=0)
    mod = transform.SplitArgs(limit)(relay.IRModule.from_expr(whole))
    found: list[relay.Expr] = []
    relay.analysis.post_order_visit(mod["main"], found.append)
    assert sorted((len(n.fields) for n in found if isinstance(n, relay.Tuple)), reverse=True) == counts
    assert str(mod["main"].ret_type) == "Tensor[(18,), float32]"


def test_no_room_for_arguments() -> None:
    with pytest.raises(CompileError, match="concatenations of 1, 1 at most"):
        transform.SplitArgs(2)


def test_transposed_weights_are_parameters() -> None:
    x, w, v = relay.var("x", shape=(1, 8)), relay.var("w", shape=(8, 4)), relay.var("v", shape=(4, 4))
    body = relay.nn.dense(relay.nn.dense(x, relay.transpose(w, axes=[1, 0])), relay.transpose(v, axes=[1, 0]))
    func = relay.Function([x, w, v], body)
    names = relay.analysis.search_fc_transpose(func)
    assert sorted(names) == ["v", "w"]
    made = transform.SimplifyFCTranspose(["w"])(relay.IRModule.from_expr(func))["main"]
    assert [str(p.name) for p in made.params] == ["x", "v", "w.T"]
    assert str(made.params[2].ty) == "Tensor[(4, 8), float32]"
    assert str(made.ret_type) == "Tensor[(1, 4), float32]"
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=s).astype("float32") for s in ((1, 8), (8, 4), (4, 4)))
    run = [relay.create_executor("debug", relay.IRModule.from_expr(f)).evaluate() for f in (func, made)]
    np.testing.assert_array_equal(run[0](a, b, c), run[1](a, c, np.ascontiguousarray(b.T)))


def test_weights_are_transposed_beforehand() -> None:
    x, w, v = relay.var("x", shape=(1, 4)), relay.var("w", shape=(4, 4)), relay.var("v", shape=(4, 4))
    turned = [relay.transpose(p) for p in (w, v)]
    func = relay.Function([x, w, v], relay.add(relay.nn.dense(relay.nn.dense(x, turned[0]), turned[1]), v))
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=s).astype("float32") for s in ((1, 4), (4, 4), (4, 4)))
    new, params = relay.data_dep_optimization.simplify_fc_transpose.convert(func, {"w": b, "v": c})
    assert sorted(params) == sorted(p.name for p in new.params if p.name != "x") == ["v", "v.T", "w.T"]
    run = [relay.create_executor("debug", relay.IRModule.from_expr(f)).evaluate() for f in (func, new)]
    np.testing.assert_array_equal(run[0](a, b, c), run[1](a, **params))
