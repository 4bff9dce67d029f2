"""Passes that say where nodes are, and what functions are."""

from __future__ import annotations

import pytest

from legato import relay
from legato.base.errors import CompileError
from legato.relay import transform


def test_numbers_are_spans() -> None:
    """The numbers are the positions in `post_order_visit`; what joins the branches dominates them."""
    x = relay.var("x", shape=(2,))
    shared = relay.exp(x)
    func = relay.Function([x], relay.add(relay.tanh(shared), relay.abs(shared)))
    made = transform.CapturePostDfsIndexInSpans()(relay.IRModule.from_expr(func))["main"]
    found: list[relay.Expr] = []
    relay.analysis.post_order_visit(made, found.append)
    spans = {n.span.line: n for n in found if n.span is not None}
    add = made.body
    number = add.span.line
    assert all(spans[n.span.line] is n and n.span.source == "index" for n in spans.values())
    assert (made.span.line, made.span.column) == (number + 1, -1)
    assert add.span.column == made.span.line
    tanh, absolute = add.args
    assert tanh.span.column == absolute.span.column == tanh.args[0].span.column == number
    assert tanh.args[0] is absolute.args[0]


def test_labels() -> None:
    x, y = (relay.var(name, shape=(1, 3, 8, 8)) for name in "xy")
    pool = relay.Function([x], relay.nn.max_pool2d(x))
    labelled = [transform.LabelOps()(relay.IRModule.from_expr(f))["main"].attrs for f in (
        pool, relay.Function([y], relay.nn.max_pool2d(y)), relay.Function([x], relay.nn.avg_pool2d(x)))]  # fmt: skip
    assert labelled[0]["hash"] == labelled[1]["hash"] != labelled[2]["hash"]
    assert labelled[0]["layout"] == "NCHW"
    assert len(labelled[0]["hash"]) == 16
    assert (transform.LabelOps().info.opt_level, transform.CapturePostDfsIndexInSpans().info.opt_level) == (1, 0)


def test_several_at_once() -> None:
    x = relay.var("x", shape=(4, 8))
    weights = [relay.var(f"w{n}", shape=(3, 8)) for n in range(3)]
    mod = relay.IRModule.from_expr(relay.Tuple([relay.nn.dense(x, w) for w in weights]))
    with transform.PassContext(opt_level=4):
        assert relay.analysis.list_op_freqs(transform.BatchingOps()(mod))["nn.batch_matmul"] == 1


def test_the_first_name_of_contexts() -> None:
    with transform.build_config(opt_level=3, disabled_pass=["FoldConstant"]) as context:
        assert transform.PassContext.current() is context
        assert (context.opt_level, context.disabled_pass) == (3, ["FoldConstant"])
    with pytest.raises(CompileError, match="build_config has no option trace"):
        transform.build_config(trace=print)


@pytest.mark.parametrize("name", ["BindRelayExprName", "ManifestAlloc", "CollagePartition", "QnnLegalize"])
def test_what_is_not_here_says_why(name: str) -> None:
    with pytest.raises(AttributeError, match=f"there is no pass {name}: "):
        getattr(transform, name)
