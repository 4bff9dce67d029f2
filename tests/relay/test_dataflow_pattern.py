"""The pattern language under Relay's names: what its users write, and the rules of the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError
from legato.interp import evaluate
from legato.ir.expr import Call, Expr, Function
from legato.relay import dataflow_pattern as dfp
from legato.relay.dataflow_pattern import (
    DFPattern,
    DFPatternCallback,
    has_attr,
    is_constant,
    is_op,
    is_tuple,
    is_var,
    rewrite,
    wildcard,
)
from tests.relay.test_names import imported

x = relay.var("x", shape=(1, 4, 6, 6))
w = relay.var("w", shape=(4, 4, 3, 3))
b = relay.var("b", shape=(4,))
NAMES = [
    "is_var", "is_constant", "is_expr", "is_op", "is_tuple", "is_tuple_get_item", "is_if", "is_let", "wildcard",
    "has_type", "has_dtype", "has_shape", "has_attr", "dominates", "rewrite", "partition", "match", "DFPattern",
    "DFPatternCallback", "ExprPattern", "VarPattern", "ConstantPattern", "CallPattern", "FunctionPattern",
    "IfPattern", "LetPattern", "TuplePattern", "TupleGetItemPattern", "AltPattern", "WildcardPattern",
    "TypePattern", "DataTypePattern", "ShapePattern", "AttrPattern", "DominatorPattern",
]  # fmt: skip


def test_the_names() -> None:
    assert sorted(NAMES) == sorted(dfp.__all__)
    assert all(getattr(relay.dataflow_pattern, name) is getattr(dfp, name) for name in NAMES)
    assert "legato.patterns.equation" not in imported("import legato, legato.driver, legato.relay, legato.relax")
    with pytest.raises(AttributeError, match="has no register_df_node: patterns are Python objects"):
        _ = dfp.register_df_node
    with pytest.raises(AttributeError, match=r"relay\.dataflow_pattern has no nothing"):
        _ = dfp.nothing


def test_matching() -> None:
    pattern = is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard())
    either = pattern.optional(lambda y: is_op("nn.relu")(y))
    e = relay.nn.bias_add(relay.nn.conv2d(x, w), b)
    assert pattern.match(e)
    assert either.match(relay.nn.relu(e))
    assert not pattern.match(relay.nn.relu(e))
    assert dfp.match(pattern, e) is True
    assert dfp.CallPattern(dfp.ExprPattern(relay.op.get("exp")), [dfp.VarPattern("x")]).match(relay.exp(x))
    assert dfp.TuplePattern([dfp.WildcardPattern()]).match(relay.Tuple([x]))
    assert dfp.AltPattern(is_constant(), is_var()).match(x)
    assert dfp.ShapePattern(wildcard(), (1, 4, 6, 6)).match(x)
    assert dfp.DataTypePattern(wildcard(), "float32").match(x)
    assert dfp.TypePattern(wildcard(), x.ty).match(x)
    assert dfp.AttrPattern(wildcard(), {"axis": 1}).match(e)


def test_attributes_of_patterns() -> None:
    p, q, r = wildcard(), wildcard(), wildcard()
    choice, field = dfp.is_if(p, q, r), dfp.is_tuple_get_item(is_tuple([p]), 1)
    assert (choice.cond, choice.true_branch, choice.false_branch) == (p, q, r)
    assert isinstance(field.tuple, dfp.TuplePattern)
    assert (field.index, is_var("x").name) == (1, "x")
    assert dfp.has_dtype("float16").dtype == "float16"
    assert dfp.has_type(x.ty).type == x.ty
    assert is_op("add").has_attr({"TOpPattern": 1}).attrs["TOpPattern"] == 1


def test_a_constant_that_may_be_one_is_embedded() -> None:
    e = relay.multiply(x, relay.const(2.0))
    found = is_op("multiply")(wildcard(), wildcard() | is_constant()).partition(e)
    assert isinstance(found, Call)
    assert found.args == (x,)


def test_partitioning_of_a_composite() -> None:
    e = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w), b))
    pattern = is_op("nn.relu")(is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard()))
    for found in (pattern.partition(e, {"Composite": "ccompiler.conv"}), dfp.partition(pattern, e)):
        assert isinstance(found, Call)
        assert isinstance(found.op, Function)
        assert found.op.attrs["PartitionedFromPattern"] == "nn.conv2d_nn.bias_add_nn.relu_"
    assert pattern.partition(e, check=lambda e: False) is e


class BatchNorm(DFPatternCallback):
    """gamma · (x − mean) / sqrt(var + eps) + beta becomes nn.batch_norm."""

    def __init__(self, require_type: bool = False) -> None:
        super().__init__(require_type)
        self.x, self.var, self.mean = wildcard(), wildcard(), wildcard()
        self.gamma, self.beta, self.eps = wildcard(), wildcard(), is_constant()
        scaled = self.gamma * (self.x - self.mean) / is_op("sqrt")(self.var + self.eps)
        self.pattern = scaled + self.beta

    def callback(self, pre: Expr, post: Expr, node_map: Mapping[DFPattern, Sequence[Expr]]) -> Expr:
        args = (node_map[part][0] for part in (self.x, self.gamma, self.beta, self.mean, self.var))
        eps = node_map[self.eps][0].data.item()  # type: ignore[attr-defined]  # a constant
        return relay.nn.batch_norm(*args, epsilon=eps)[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("order", [False, True])
def test_a_callback(order: bool) -> None:
    names = [relay.var(name, shape=(4, 1, 1)) for name in ("var", "mean", "gamma", "beta")]
    var, mean, gamma, beta = names
    scaled = (x - mean) * gamma if order else gamma * (x - mean)
    e = relay.exp(scaled / relay.sqrt(relay.const(1e-3) + var) + beta)
    func = relay.Function([x, *names], e)

    class Flat(BatchNorm):
        def callback(self, pre: Expr, post: Expr, node_map: Mapping[DFPattern, Sequence[Expr]]) -> Expr:
            given = {part: node_map[part][0] for part in (self.x, self.gamma, self.beta, self.mean, self.var)}
            vectors = [relay.reshape(v, newshape=[4]) for part, v in given.items() if part is not self.x]
            return relay.nn.batch_norm(given[self.x], *vectors, epsilon=1e-3)[0]  # type: ignore[no-any-return]

    new = rewrite(Flat(), func)
    assert "nn.batch_norm" in str(new)
    rng = np.random.default_rng(0)
    args = [rng.random(p.checked_type.concrete_shape, "float32") for p in func.params]
    modules = (relay.transform.InferType()(relay.IRModule.from_expr(f)).module for f in (func, new))
    np.testing.assert_allclose(*(evaluate(m, args) for m in modules), rtol=1e-5)
    assert BatchNorm().rewrite(x) is x


def test_classes_of_operators_and_tuples() -> None:
    elementwise = has_attr({"TOpPattern": 0})(None)
    assert elementwise.match(relay.exp(x))
    assert is_op("concatenate")(is_tuple(None)).match(relay.concatenate([x, x], axis=0))


def test_errors() -> None:
    class Nothing(DFPatternCallback):
        pass

    with pytest.raises(CompileError, match=r"Nothing has no pattern\n  hint: set self\.pattern in its __init__"):
        rewrite(Nothing(), x)
    without = Nothing()
    without.pattern = wildcard()
    with pytest.raises(CompileError, match="Nothing has no callback"):
        rewrite([without], x)
