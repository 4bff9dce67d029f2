"""One small program for each name of names.tsv: what the original did with it, done here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from legato import relay

EXERCISES: dict[str, Callable[[Any], None]] = {}


def exercise(*names: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """A decorator: the function, given what a name means, uses it."""

    def add(use: Callable[[Any], None]) -> Callable[[Any], None]:
        for name in names:
            assert name not in EXERCISES, name
            EXERCISES[name] = use
        return use

    return add


def typed(expr: Any) -> str:
    """The result type that inference finds, as text."""
    mod = relay.transform.InferType()(relay.IRModule.from_expr(expr))
    return str(mod["main"].ret_type)


def x(*shape: Any, dtype: str = "float32", name: str = "x") -> Any:
    return relay.var(name, shape=shape, dtype=dtype)


def tree() -> tuple[relay.IRModule, Any, Any, Any]:
    """A module with a polymorphic list type, and its parts."""
    header, a = relay.GlobalTypeVar("Chain"), relay.TypeVar("a")
    nil = relay.Constructor("End", [], header)
    cons = relay.Constructor("Link", [a, relay.TypeCall(header, [a])], header)
    mod = relay.IRModule()
    mod[header] = relay.TypeData(header, [a], [nil, cons])
    return mod, header, nil, cons


# ------------------------------------------------------------------ namespaces


@exercise("relay", "relay.transform", "relay.op", "relay.op.op")
def _(found: Any) -> None:
    wanted = {"legato.relay": "var", "legato.relay.transform": "InferType", "legato.relay.op": "get"}
    assert callable(getattr(found, wanted.get(found.__name__, "get")))


# ------------------------------------------------------------------ expressions


@exercise("relay.var")
def _(found: Any) -> None:
    assert str(found("x", shape=(2, 3), dtype="int8").type_annotation) == "Tensor[(2, 3), int8]"
    assert str(found("x", "float32").type_annotation) == "float32"
    assert found("x", relay.TupleType([])).type_annotation == relay.TupleType([])
    assert found("x").type_annotation is None
    assert found("x").name_hint == "x"
    assert found("x") != found("x")


@exercise("relay.const")
def _(found: Any) -> None:
    dtypes = [str(found(v).checked_type) for v in (1, 1.0, True, [1, 2], np.zeros(2), np.int64(1))]
    assert dtypes == ["int32", "float32", "bool", "Tensor[(2,), int32]", "Tensor[(2,), float64]", "int32"]
    assert str(found(1, "int8").checked_type) == "int8"


@exercise("relay.Constant")
def _(found: Any) -> None:
    node = found(np.array([1, 2], "int16"))
    assert isinstance(node, found)
    assert node.data.tolist() == [1, 2]
    assert isinstance(relay.const(1), found)


@exercise("relay.Var")
def _(found: Any) -> None:
    v = found("v", relay.TensorType((2,)))
    assert isinstance(v, found)
    assert isinstance(relay.var("w"), found)
    assert not isinstance(relay.const(1), found)


@exercise("relay.GlobalVar")
def _(found: Any) -> None:
    f = found("f")
    mod = relay.IRModule({f: relay.Function([v := x(2)], relay.nn.relu(v))})
    mod["main"] = relay.Function([w := x(2)], relay.Call(f, [w]))
    assert str(relay.transform.InferType()(mod)["main"].ret_type) == "Tensor[(2,), float32]"
    assert mod.get_global_var("f") == f != found("f")
    assert f.name_hint == "f"


@exercise("relay.Function")
def _(found: Any) -> None:
    a, b = x(2, name="a"), x(2, name="b")
    func = found([a, b], a + b, attrs={"Primitive": 1})
    assert (list(func.params), func.ret_type, dict(func.attrs)) == ([a, b], None, {"Primitive": 1})
    assert dict(func.without_attr("Primitive").with_attr("Inline", 1).attrs) == {"Inline": 1}
    assert isinstance(func, found)
    assert typed(func) == "Tensor[(2,), float32]"


@exercise("relay.Call")
def _(found: Any) -> None:
    call = found(relay.op.get("nn.softmax"), [x(2, 3)], {"axis": 0})
    assert isinstance(call, found)
    assert (call.op.name, len(call.args), call.attrs.axis) == ("nn.softmax", 1, 0)
    assert typed(call) == "Tensor[(2, 3), float32]"
    func = relay.Function([v := x(2)], v)
    assert typed(found(func, [x(2)])) == "Tensor[(2,), float32]"


@exercise("relay.Let")
def _(found: Any) -> None:
    v = relay.var("v")
    let = found(v, relay.nn.relu(x(2)), relay.tanh(v))
    assert let.var == v
    assert isinstance(let.body, relay.Call)
    assert typed(let) == "Tensor[(2,), float32]"


@exercise("relay.If")
def _(found: Any) -> None:
    cond = relay.var("c", "bool")
    node = found(cond, relay.const(1), relay.const(2))
    assert (node.cond, node.true_branch.data, node.false_branch.data) == (cond, 1, 2)
    run = relay.create_executor("debug", relay.IRModule.from_expr(node)).evaluate()
    assert [int(run(np.bool_(v))) for v in (True, False)] == [1, 2]


@exercise("relay.Tuple")
def _(found: Any) -> None:
    a, b = x(2), x(3, name="y")
    tup = found([a, b])
    assert tup.fields == (a, b)
    assert tup[1] is b
    assert typed(tup) == "(Tensor[(2,), float32], Tensor[(3,), float32])"
    assert typed(found([])) == "()"


@exercise("relay.TupleGetItem")
def _(found: Any) -> None:
    tup = relay.var("t", relay.TupleType([relay.TensorType((2,)), relay.TensorType((3,))]))
    node = found(tup, 1)
    assert (node.tuple_value, node.index) == (tup, 1)
    assert typed(node) == "Tensor[(3,), float32]"


# ------------------------------------------------------------------ types


@exercise("relay.TensorType", "relay.ty.TensorType")
def _(found: Any) -> None:
    ty = found((1, 2), "int8")
    assert isinstance(ty, found)
    assert ([int(d) for d in ty.shape], ty.dtype, ty.concrete_shape) == ([1, 2], "int8", (1, 2))
    assert ty.shape[1] == 2
    assert ty == found([1, 2], "int8") != found((1, 3), "int8")
    assert found((2,)).dtype == "float32"


@exercise("relay.TupleType", "relay.ty.TupleType")
def _(found: Any) -> None:
    part = relay.TensorType((2,))
    assert found([part, part]).fields == (part, part)
    assert isinstance(found([]), found)


@exercise("relay.FuncType")
def _(found: Any) -> None:
    a = relay.TypeVar("a")
    ty = found([a, relay.scalar_type("int32")], a, [a])
    assert (len(ty.arg_types), ty.ret_type, ty.type_params, ty.type_constraints) == (2, a, (a,), ())
    assert str(ty) == "fn <A>(A, int32) -> A" or "int32) -> " in str(ty)


@exercise("relay.TypeVar")
def _(found: Any) -> None:
    a = found("a")
    assert (a.name_hint, a.kind) == ("a", relay.TypeKind.Type)
    assert a != found("a")
    v = relay.var("v", a)
    identity = relay.Function([v], v, a, [a])
    mod = relay.transform.InferType()(relay.IRModule({"id": identity}))
    mod["main"] = relay.Call(mod.get_global_var("id"), [relay.const(1)])
    assert str(relay.transform.InferType()(mod)["main"].ret_type) == "int32"


@exercise("relay.GlobalTypeVar")
def _(found: Any) -> None:
    assert (found("T").name_hint, found("T").kind) == ("T", relay.TypeKind.AdtHandle)
    mod, header, _, _ = tree()
    assert mod.get_global_type_var("Chain") is header


@exercise("relay.scalar_type")
def _(found: Any) -> None:
    assert found("int8") == relay.TensorType((), "int8")


@exercise("relay.Any")
def _(found: Any) -> None:
    a, b = found(), found()
    assert a is not b
    assert isinstance(a, found)
    assert not isinstance(relay.TensorType((2,)).shape[0], found)
    y = relay.var("y", shape=(a, 4))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.nn.relu(y)))
    assert mod["main"].ret_type.shape[0] is a


@exercise("relay.TypeCall", "relay.TypeData", "relay.Constructor")
def _(found: Any) -> None:
    mod, header, nil, cons = tree()
    assert [c.tag for c in mod[header].constructors] == [0, 1]
    assert (cons.name_hint, cons.belong_to, mod.get_type("Chain")) == ("Link", header, (header, nil, cons))
    mod["main"] = relay.Function([], cons(relay.const(1), nil()))
    made = relay.transform.InferType()(mod)["main"]
    assert made.ret_type == relay.TypeCall(header, [relay.scalar_type("int32")])
    assert any(isinstance(v, found) for v in (made.ret_type, mod[header], cons))


# ------------------------------------------------------------------ match


@exercise("relay.Match", "relay.Clause", "relay.PatternConstructor", "relay.PatternVar", "relay.PatternWildcard")
def _(found: Any) -> None:
    mod, _, nil, cons = tree()
    head = relay.var("head")
    some = relay.Clause(relay.PatternConstructor(cons, [relay.PatternVar(head), relay.PatternWildcard()]), head)
    none = relay.Clause(relay.PatternConstructor(nil), relay.const(-1))
    parts = [relay.Match(cons(relay.const(7), nil()), [some, none]), some, some.lhs, *some.lhs.patterns]
    assert any(isinstance(part, found) for part in parts)
    assert (some.rhs, none.lhs.patterns, parts[0].complete) == (head, (), True)
    mod["main"] = relay.Function([], parts[0])
    assert int(relay.create_executor("debug", mod).evaluate()()) == 7
    only_some = relay.Match(nil(), [some], complete=False)
    assert [p.constructor for p in relay.analysis.unmatched_cases(only_some, mod)] == [nil]
    assert relay.analysis.unmatched_cases(parts[0], mod) == []


# ------------------------------------------------------------------ operators


OPERATORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "relay.add": (lambda f: f(x(2, 3), x(3, name="y")), "Tensor[(2, 3), float32]"),
    "relay.op.add": (lambda f: f(x(2), x(1, name="y")), "Tensor[(2,), float32]"),
    "relay.subtract": (lambda f: f(x(2), x(2, name="y")), "Tensor[(2,), float32]"),
    "relay.multiply": (lambda f: f(x(2), x(2, name="y")), "Tensor[(2,), float32]"),
    "relay.divide": (lambda f: f(x(2), x(2, name="y")), "Tensor[(2,), float32]"),
    "relay.equal": (lambda f: f(x(2), x(2, name="y")), "Tensor[(2,), bool]"),
    "relay.less": (lambda f: f(x(2), x(2, name="y")), "Tensor[(2,), bool]"),
    "relay.abs": (lambda f: f(x(2)), "Tensor[(2,), float32]"),
    "relay.exp": (lambda f: f(x(2)), "Tensor[(2,), float32]"),
    "relay.tanh": (lambda f: f(x(2)), "Tensor[(2,), float32]"),
    "relay.nn.relu": (lambda f: f(x(2)), "Tensor[(2,), float32]"),
    "relay.cast": (lambda f: f(x(2), "int8"), "Tensor[(2,), int8]"),
    "relay.clip": (lambda f: f(x(2), 0.0, a_max=6.0), "Tensor[(2,), float32]"),
    "relay.reshape": (lambda f: f(x(2, 6), newshape=(3, -1)), "Tensor[(3, 4), float32]"),
    "relay.transpose": (lambda f: f(x(2, 6)), "Tensor[(6, 2), float32]"),
    "relay.expand_dims": (lambda f: f(x(2), axis=0, num_newaxis=2), "Tensor[(1, 1, 2), float32]"),
    "relay.squeeze": (lambda f: f(x(1, 2, 1), axis=[0]), "Tensor[(2, 1), float32]"),
    "relay.strided_slice": (lambda f: f(x(8, 4), [2, 1], [6, 4], strides=[2, 1]), "Tensor[(2, 3), float32]"),
    "relay.concatenate": (lambda f: f([x(2, 3), x(4, 3, name="y")], axis=0), "Tensor[(6, 3), float32]"),
    "relay.op.concatenate": (lambda f: f((x(2, 3), x(2, 4, name="y")), 1), "Tensor[(2, 7), float32]"),
    "relay.layout_transform": (lambda f: f(x(1, 32, 4, 5), "NCHW", "NCHW16c"), "Tensor[(1, 2, 4, 5, 16), float32]"),
    "relay.nn.conv2d": (
        lambda f: f(x(1, 8, 9, 9), x(4, 8, 3, 3, name="w"), strides=2, padding=1),
        "Tensor[(1, 4, 5, 5), float32]",
    ),
    "relay.op.nn.conv2d": (
        lambda f: f(x(1, 9, 9, 8), relay.var("w"), channels=4, kernel_size=3, data_layout="NHWC", kernel_layout="HWIO"),
        "Tensor[(1, 7, 7, 4), float32]",
    ),
    "relay.nn.dense": (lambda f: f(x(2, 3), relay.var("w"), units=5), "Tensor[(2, 5), float32]"),
    "relay.nn.bias_add": (lambda f: f(x(2, 3), x(3, name="b")), "Tensor[(2, 3), float32]"),
    "relay.nn.softmax": (lambda f: f(x(2, 3)), "Tensor[(2, 3), float32]"),
    "relay.nn.max_pool2d": (lambda f: f(x(1, 2, 8, 8), (2, 2), (2, 2)), "Tensor[(1, 2, 4, 4), float32]"),
    "relay.nn.batch_norm": (
        lambda f: f(x(1, 2, 3, 3), *(relay.var(n) for n in ("gamma", "beta", "mean", "var")))[0],
        "Tensor[(1, 2, 3, 3), float32]",
    ),
}


def _operator(name: str) -> None:
    call, want = OPERATORS[name]

    def use(found: Any) -> None:
        assert typed(call(found)) == want

    EXERCISES[name] = use


for _name in OPERATORS:
    _operator(_name)


@exercise("relay.op.get", "relay.op.op.get")
def _(found: Any) -> None:
    assert isinstance(found("nn.conv2d"), relay.op.Op)
    assert found("nn.conv2d") is relay.op.Op.get("nn.conv2d")
    assert found("nn.conv2d").name == "nn.conv2d"


# ------------------------------------------------------------------ text, analyses, passes


@exercise("relay.parse", "relay.fromtext")
def _(found: Any) -> None:
    mod = found('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { nn.relu(%x) }')
    assert str(mod["main"].checked_type) == "fn (Tensor[(2,), float32]) -> Tensor[(2,), float32]"
    assert relay.structural_equal(found(mod.astext()), mod)
    uses_the_library = found('#[version = "0.0.5"]\ndef @main(%l: List[int32]) { @length(%l) }')
    assert "length" in uses_the_library


@exercise("relay.Span")
def _(found: Any) -> None:
    span = found("file.relay", 1, 1, 2, 5)
    assert isinstance(span, found)
    assert str(relay.Var("v", span=span).span) == "file.relay:1:2"


@exercise("relay.analysis.free_vars")
def _(found: Any) -> None:
    a, b, c = (x(2, name=n) for n in "abc")
    assert list(found(relay.Let(b, a, b + c))) == [a, c]
    assert list(found(relay.Function([a], a + c))) == [c]


@exercise("relay.ScopeBuilder")
def _(found: Any) -> None:
    sb, cond = found(), relay.var("c", "bool")
    with sb.if_scope(cond):
        sb.ret(sb.let("two", relay.const(2)))
    with sb.else_scope():
        sb.ret(relay.const(3))
    mod = relay.IRModule.from_expr(sb.get())
    assert [int(relay.create_executor("debug", mod).evaluate()(np.bool_(v))) for v in (True, False)] == [2, 3]


@exercise("relay.prelude.Prelude")
def _(found: Any) -> None:
    mod = relay.IRModule()
    p = found(mod)
    _, cons, nil = mod.get_type("List")
    assert p.get_ctor("List", "cons") is cons
    mod["main"] = relay.Function([], p.length(cons(relay.const(1), cons(relay.const(2), nil()))))
    assert int(relay.create_executor("debug", mod).evaluate()()) == 2


@exercise("relay.build_module.bind_params_by_name")
def _(found: Any) -> None:
    a, b = x(2, name="a"), x(2, name="b")
    func = found(relay.Function([a, b], a + b), {"b": np.ones(2, "float32")})
    assert [p.name_hint for p in func.params] == ["a"]
    run = relay.create_executor("debug", relay.IRModule.from_expr(func)).evaluate()
    assert run(np.zeros(2, "float32")).tolist() == [1, 1]


@exercise("relay.transform.InferType")
def _(found: Any) -> None:
    w = relay.var("w")
    mod = relay.IRModule.from_expr(relay.nn.dense(x(2, 3), w, units=4))
    new = found()(mod)
    assert str(new["main"].params[1].checked_type) == "Tensor[(4, 3), float32]"
    assert mod["main"].params[1].type_annotation is None, "the module that was given is as it was"


@exercise("relay.transform.FuseOps")
def _(found: Any) -> None:
    mod = relay.IRModule.from_expr(relay.tanh(relay.nn.relu(relay.nn.dense(x(2, 3), x(4, 3, name="w")))))
    fused = found()(mod)
    assert relay.analysis.list_op_freqs(fused) == {"nn.dense": 1, "nn.relu": 1, "tanh": 1}
    assert len(_primitives(fused)) == 1
    with relay.transform.PassContext(config={"relay.FuseOps.max_depth": 1}):
        assert len(_primitives(found()(mod))) == 3
    assert found(0)(mod) is mod


def _primitives(mod: relay.IRModule) -> list[Any]:
    found: list[Any] = []
    relay.analysis.post_order_visit(mod["main"], found.append)
    return [n for n in found if isinstance(n, relay.Function) and n.attrs.get("Primitive")]


@exercise("relay.transform.EliminateCommonSubexpr")
def _(found: Any) -> None:
    v = x(2)
    mod = relay.IRModule.from_expr(relay.add(relay.tanh(v), relay.tanh(v)))
    assert relay.analysis.list_op_freqs(found()(mod)) == {"add": 1, "tanh": 1}


@exercise("relay.transform.AnnotateSpans")
def _(found: Any) -> None:
    mod = found()(relay.IRModule.from_expr(relay.tanh(x(2))))
    assert str(mod["main"].body.span).startswith("GeneratedSource:4:")


# ------------------------------------------------------------------ testing


@exercise("relay.testing.run_infer_type", "relay.testing.run_opt_pass")
def _(found: Any) -> None:
    expr = relay.nn.relu(relay.const([1.0]))
    args = (relay.transform.FoldConstant(),) if found is relay.testing.run_opt_pass else ()
    assert str(found(expr, *args).checked_type) == "Tensor[(1,), float32]"
    func = found(relay.Function([v := x(2)], relay.tanh(v)), *args)
    assert isinstance(func, relay.Function)


@exercise("relay.testing.create_workload")
def _(found: Any) -> None:
    data, weight = x(2, 3, name="data"), relay.var("fc_weight")
    mod, params = found(relay.Function([data, weight], relay.nn.dense(data, weight, units=4)))
    assert {name: v.shape for name, v in params.items()} == {"fc_weight": (4, 3)}
    assert str(mod["main"].ret_type) == "Tensor[(2, 4), float32]"


@exercise("relay.testing.resnet.get_workload")
def _(found: Any) -> None:
    mod, params = found(batch_size=1, num_layers=18)
    assert isinstance(mod, relay.IRModule)
    assert str(mod["main"].ret_type) == "Tensor[(1, 1000), float32]"
    assert params["conv0_weight"].shape == (64, 3, 7, 7)


# ------------------------------------------------------------------ rules of operators


def narrow(attrs: Any, inputs: Any, types: Any) -> Any:
    """A rule: a softmax of float16 is computed in float32."""
    if types[0].dtype != "float16":
        return None
    return relay.cast(relay.nn.softmax(relay.cast(inputs[0], "float32"), **attrs), types[-1].dtype)


@exercise("relay.testing.temp_op_attr.TempOpAttr", "relay.transform.Legalize")
def _(found: Any) -> None:
    temporary, legalize = relay.testing.temp_op_attr.TempOpAttr, relay.transform.Legalize()
    assert found in (temporary, relay.transform.Legalize)
    v, w = x(2, 3, dtype="float16"), x(2, 3)
    func = relay.Function([v, w], relay.Tuple([relay.nn.softmax(relay.exp(v), axis=0), relay.nn.softmax(w)]))
    with temporary("nn.softmax", "FTVMLegalize", narrow):
        new = relay.testing.run_opt_pass(func, legalize)
        with temporary("nn.softmax", "FTVMLegalize", None):
            same = relay.testing.run_opt_pass(func, legalize)
    wide = relay.cast(relay.nn.softmax(relay.cast(relay.exp(v), "float32"), axis=0), "float16")
    expected = relay.testing.run_infer_type(relay.Function([v, w], relay.Tuple([wide, relay.nn.softmax(w)])))
    relay.assert_structural_equal(new, expected)
    relay.assert_structural_equal(same, relay.testing.run_infer_type(func))
    relay.assert_structural_equal(relay.testing.run_opt_pass(func, legalize), same)
