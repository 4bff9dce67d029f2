"""Passes over operators, under Relay's names."""

from __future__ import annotations

import pytest

from legato import relay
from legato.relay import transform


def test_levels_and_names() -> None:
    made = [transform.CanonicalizeCast(), transform.FoldExplicitPadding(), transform.CombineParallelConv2D(),
            transform.CombineParallelDense(), transform.CombineParallelBatchMatmul()]  # fmt: skip
    assert {p.info.name: p.info.opt_level for p in made} == {
        "CanonicalizeCast": 3,
        "FoldExplicitPadding": 0,
        "CombineParallelConv2d": 4,
        "CombineParallelDense": 4,
        "CombineParallelBatchMatmul": 4,
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


def test_parallel_branches() -> None:
    x = relay.var("x", shape=(4, 8))
    weights = [relay.var(f"w{n}", shape=(3, 8)) for n in range(3)]
    mod = relay.IRModule.from_expr(relay.Tuple([relay.nn.dense(x, w) for w in weights]))
    freqs = relay.analysis.list_op_freqs
    for p, name in ((transform.CombineParallelDense(), "nn.batch_matmul"),
                    (transform.CombineParallelDense(to_batch=False), "nn.dense")):  # fmt: skip
        assert freqs(p(mod))[name] == 1
    assert freqs(transform.CombineParallelDense(4)(mod))["nn.dense"] == 3
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
