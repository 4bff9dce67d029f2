"""Verification: the rule by which outputs hold, and who is to blame where they do not."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import legato
from legato.base.errors import CompileError, RunError
from legato.base.precision import NEAR, Precision, near_of
from legato.base.target import host
from legato.compare import peer, verify
from legato.compare.bisect import blame
from legato.compare.exact import interpret
from legato.compare.report import judge, nearness
from legato.driver import CompileOptions
from legato.infer.infer import infer
from legato.ir.expr import Call, Constant, Expr, Function
from legato.ir.files import load_text, save_text
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.parser import parse
from legato.ir.visit import nodes
from legato.ops import table
from legato.ops._families import unary
from legato.patterns import Callback, is_op, rewrite, wildcard
from legato.pipelines import DEFAULT, as_passes
from legato.runtime.fill import feeds, fill
from legato.runtime.program import Constraint, DimInfo, FunctionInfo, TensorInfo
from legato.runtime.size import Size, compile_size
from legato.te import math as te
from legato.transform import function_pass
from legato.transform.pass_ import Pass
from legato.transform.to_graph import ToGraph

MLP = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) -> Tensor[(n, 3), float32] {
  %0 = nn.dense(%x, %w);
  nn.softmax(nn.relu(%0))
}
"""


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# ------------------------------------------------------------------ the rule


@pytest.mark.parametrize(
    ("got", "exact", "peer", "holds"),
    [
        (f32(1, 2), [1, 2], f32(1, 2), True),
        (f32(1, 2.00001), [1, 2], f32(1, 2), True),  # 1e-5 of the range is always allowed
        (f32(1, 2.0001), [1, 2], f32(1, 2), False),
        (f32(1, 2.0001), [1, 2], f32(1, 2.00006), True),  # twice the peer's own error
        (f32(1, 2.01), [1, 2.01], f32(1, 2), True),  # far from the other implementation, which is off
        (f32(np.nan, 2), [np.nan, 2], f32(np.nan, 2), True),
        (f32(np.nan, 2), [1, 2], f32(1, 2), False),
        (f32(np.inf, 2), [1e300, 2], f32(np.inf, 2), True),  # what does not fit is infinite
        (f32(np.inf, 2), [-np.inf, 2], f32(-np.inf, 2), False),
        (f32(), [], f32(), True),
        (f32(0, 0), [0, 0], f32(0, 0), True),
        (f32(1, 2), [1, 2, 3], f32(1, 2, 3), False),
    ],
)
def test_floats_hold_by_error_and_distance(got: np.ndarray, exact: list[float], peer: np.ndarray, holds: bool) -> None:
    with np.errstate(all="ignore"):
        native = np.array(exact, np.float64).astype(np.float32)
    assert judge("y", got, np.array(exact, np.float64), peer, native=native).holds is holds


def test_a_peer_that_is_off_is_named() -> None:
    """The interpreter says who is right, at infinities and in ranges that round away, too."""
    for exact, off in (([1.0, 2.01], f32(1, 2)), ([8e-10, 1e-10], f32(0, 0)), ([np.nan, 1], f32(0, 1)),
                       ([np.inf, 1], f32(np.nan, 1)), ([1.0], f32(1, 1))):  # fmt: skip
        wide, right = np.array(exact), f32(*exact)
        found = judge("y", right, wide, off, native=right)
        assert (found.holds, found.peer_off) == (True, True)
        assert not judge("y", right + 1, wide, off, native=right).holds
        both = judge("y", off, wide, off, native=right)
        assert not both.holds
        assert both.peer_off
    with_exact = judge("y", f32(0.3, 2), np.array([0.3, 2]), f32(0, 2), native=f32(0, 2))
    assert not with_exact.holds, "rounding is part of the meaning: interpreter and peer agree on it"


def test_onnxruntime_is_named_where_it_is_off() -> None:
    """It gives 0 for sigmoids of which float32 has 8e-10, and for the mean of nothing."""
    nodes = [helper.make_node("Sub", ["x", "c"], ["a"]), helper.make_node("Sigmoid", ["a"], ["y"])]
    proto = onnx_model(nodes, {"c": np.float32([22])})
    report = verify(proto)
    assert report
    if report.peer_off:
        assert report.peer_off.startswith("ONNX Runtime is off, or the model is read as it does not read it: y (by ")
        assert report.to_json()["peer_off"] == ["y"]
        assert report.peer_off in str(report)
    weights = {"s": np.array([0]), "e": np.array([0]), "a": np.array([0])}
    nodes = [
        helper.make_node("Slice", ["x", "s", "e", "a"], ["v"]),
        helper.make_node("ReduceMean", ["v"], ["y"], axes=[0]),
    ]
    assert verify(onnx_model(nodes, weights))


def onnx_model(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """From x, of n elements, to y."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_without_another_implementation_there_is_no_distance() -> None:
    assert judge("y", f32(1, 2.01), np.array([1, 2.01]), f32(1, 2.008)).holds


def test_narrow_floats_may_miss_by_a_unit_in_the_last_place() -> None:
    got = np.array([1.0078125, 2], ml_dtypes.bfloat16)
    assert judge("y", got, np.array([1.0, 2.0]), np.array([1, 2], ml_dtypes.bfloat16)).holds
    assert not judge("y", got * 2, np.array([1.0, 2.0]), np.array([1, 2], ml_dtypes.bfloat16)).holds


def test_integers_are_exact_or_the_peers() -> None:
    exact = np.array([1, 2, 3])
    assert judge("y", np.array([1, 2, 3]), exact, np.array([1, 2, 4])).holds
    assert judge("y", np.array([1, 2, 4]), exact, np.array([1, 2, 4])).holds
    wrong = judge("y", np.array([1, 5, 6]), exact, np.array([1, 2, 4]))
    assert (wrong.holds, wrong.error) == (False, 2)


def test_nearness_is_a_share_of_the_range() -> None:
    assert nearness(f32(0, 100), f32(0, 100.05)) == (pytest.approx(5e-4, rel=0.01), True)
    assert nearness(f32(0, 1), f32(0, 1.01))[1] is False
    assert nearness(np.array([1, 2]), np.array([1, 3])) == (0.5, False)
    assert nearness(f32(1), f32(1, 2)) == (float("inf"), False)


# ------------------------------------------------------------------ inputs

SIGNATURE = FunctionInfo(
    0,
    (
        TensorInfo("x", "float32", ("n", ("*", 2, "m"))),
        TensorInfo("k", "int64", ("n",)),
        TensorInfo("b", "bool", ("m",)),
    ),
    (),
    (),
    (DimInfo("n", 1, 3), DimInfo("m", 1, None)),
    (),
)


def test_made_up_inputs_fit_the_signature() -> None:
    made = fill(SIGNATURE, dims={"m": 5}, seed=1)
    assert {name: (a.dtype.name, a.shape) for name, a in made.items()} == {
        "x": ("float32", (3, 10)), "k": ("int64", (3,)), "b": ("bool", (5,)),
    }  # fmt: skip
    assert set(made["k"]) <= {0, 1}
    assert all(np.array_equal(made[name], again) for name, again in fill(SIGNATURE, dims={"m": 5}, seed=1).items())
    assert not np.array_equal(made["x"], fill(SIGNATURE, dims={"m": 5}, seed=2)["x"])
    assert fill(SIGNATURE, "ones")["x"].tolist() == [[1.0] * 8] * 3
    assert not fill(SIGNATURE, "zeros")["k"].any()


def test_bytes_are_drawn_from_their_whole_range() -> None:
    info = FunctionInfo(0, (TensorInfo("x", "int8", (1000,)),), (), (), (), ())
    assert set(np.sign(fill(info)["x"])) == {-1, 0, 1}


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"q": 1}, "'q' is not a dim of an input\n  hint: the inputs' dims are m, n"),
        ({"n": 4}, "dim n: got 4, wanted 1 <= n <= 3"),
    ],
)
def test_dims_that_do_not_fit(dims: dict[str, int], message: str) -> None:
    with pytest.raises(RunError) as error:
        fill(SIGNATURE, dims=dims)
    assert str(error.value) == message


MADE_UP = """#[version = "0.0.5"]
def @main(%x: Tensor[(n, 2, k), float32], %y: Tensor[(m, 2, k), float32]) { %x + reshape(%y, newshape=[n, 2, k]) }
"""


def test_defaults_that_do_not_fit_are_told() -> None:
    info = legato.compile(legato.parse(MADE_UP)).program.functions["main"]
    with pytest.raises(RunError) as error:
        feeds(info, None, dims={"n": 6, "m": 4})
    assert str(error.value) == (
        "reshape: number of elements: the sizes do not fit\n  got:    4 and 6\n"
        '  wanted: m = n, where m = 4 (dimension 0 of input "y"), n = 6 (dimension 0 of input "x")\n'
        "  hint: k = 4 by default; give what fits, as in dims={'k': …}"
    )
    assert feeds(info, None, dims={"n": 6})["y"].shape == (6, 2, 4)  # m is what fits
    assert feeds(info, None, dims={"n": 6, "m": 6})["y"].shape == (6, 2, 4)
    assert feeds(info, None, dims={"n": 6, "m": 5, "k": 1})["y"].shape == (5, 2, 1)  # all said: the call refuses them


@pytest.mark.parametrize("constraints", [
    [("f", 15)], [("f", 9000)], [("n", "m"), ("m", ("*", 3, "k")), ("k", 5)],
    [(("+", "n", "m"), 11), (("*", "n", "m"), 30)],
    [(("%", "n", 3), 0), (("//", "n", 3), "m")], [(("min", "n", 7), "n"), (("+", "n", 1), ("*", 2, "m"))],
])  # fmt: skip
def test_made_up_dims_solve_the_constraints(constraints: list[tuple[Size, Size]]) -> None:
    dims = tuple(DimInfo(name, 0, None) for name in "nmkf")
    tensors = tuple(TensorInfo(name, "bool", (name,)) for name in "nmkf")
    equal = tuple(Constraint(a, b, "it") for a, b in constraints)
    made = fill(FunctionInfo(0, tensors, (), (), dims, (), constraints=equal))
    values = [made[name].shape[0] for name in "nmkf"]
    assert all(compile_size(a, "nmkf")(values) == compile_size(b, "nmkf")(values) for a, b in constraints)


def test_onnx_models_are_verified_at_sizes_that_they_admit() -> None:
    """A symbolic (n, f) times a constant of 15 rows."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "f"])]
    weight = numpy_helper.from_array(np.ones((15, 3), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")], [weight])
    assert verify(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


@pytest.mark.parametrize(("n", "shape"), [(2**62, f"({2**62},)"), (10**30, f"({10**30},)")])
def test_dims_that_are_too_large(n: int, shape: str) -> None:
    info = FunctionInfo(0, (TensorInfo("x", "float32", ("n",)),), (), (), (DimInfo("n"),), ())
    with pytest.raises(RunError) as error:
        fill(info, dims={"n": n})
    assert str(error.value) == f'input "x": there can be no float32[n] of the shape {shape}'


@pytest.mark.parametrize(
    ("given", "got"),
    [({"x": f32(1)}, "x"), ({}, "none"), ([f32(1)], "1 arrays"), ({"x": 1, "k": 1, "b": 1, "z": 1}, "x, k, b, z")],
)
def test_inputs_must_be_complete(given: object, got: str) -> None:
    with pytest.raises(RunError) as error:
        feeds(SIGNATURE, given)
    assert str(error.value) == f"inputs: got {got}, wanted x: float32[n, 2*m], k: int64[n], b: bool[m]"


# ------------------------------------------------------------------ verify


def test_a_right_program_holds() -> None:
    report = legato.verify(legato.parse(MLP), dims={"n": 7})
    assert report
    assert report.holds
    assert report.peer == "interpreter"
    assert [(o.name, o.type) for o in report.outputs] == [("output", "float32[7, 3]")]
    assert report.to_json()["holds"] is True
    assert str(report).startswith("holds  output: float32[7, 3]  error ")


def test_inputs_by_name_and_in_order_are_the_same() -> None:
    x, w = np.ones((2, 4), np.float32), np.eye(3, 4, dtype=np.float32)
    assert legato.verify(legato.parse(MLP), [x, w]) == legato.verify(legato.parse(MLP), {"w": w, "x": x})


def test_tuples_of_tuples() -> None:
    mod = legato.parse(
        '#[version = "0.0.5"]\n'
        "def @main(%x: (Tensor[(2,), float32], Tensor[(3,), int32])) {\n"
        "  (%x.1, (add(%x.0, %x.0), negative(%x.1)))\n"
        "}"
    )
    report = legato.verify(mod)
    assert report
    assert [o.type for o in report.outputs] == ["int32[3]", "float32[2]", "int32[3]"]


def dense_onnx(operator: str = "Relu") -> onnx.ModelProto:
    """relu(x · w) as an ONNX model."""
    w = helper.make_tensor("w", TensorProto.FLOAT, (4, 3), np.linspace(-1, 1, 12, dtype=np.float32))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node(operator, ["h"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 4))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n", 3))
    graph = helper.make_graph(nodes, "g", [x], [y], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_onnx_models_are_compared_with_onnxruntime() -> None:
    report = legato.verify(dense_onnx())
    assert report
    assert (report.peer, report.note) == ("onnxruntime", "")
    assert legato.verify(dense_onnx(), against="interpreter").peer == "interpreter"
    assert legato.verify(dense_onnx().SerializeToString(), shapes={"x": (2, 4)}).outputs[0].type == "float32[2, 3]"


def test_where_onnxruntime_is_not_installed_nobody_says_that_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    assert legato.verify(dense_onnx(), progress=said.append).peer == "onnxruntime"
    assert "running ONNX Runtime" in said
    said.clear()
    monkeypatch.setattr(peer, "find_spec", lambda name: None)
    report = legato.verify(dense_onnx(), progress=said.append)
    assert (report.peer, report.note) == ("interpreter", "ONNX Runtime is not installed; the peer is the interpreter")
    assert "running ONNX Runtime" not in said


def test_where_onnxruntime_refuses_the_note_says_why() -> None:
    twice = {"my::Twice": lambda b, x: b.multiply(x, 2.0)}
    model = dense_onnx()
    model.graph.node[1].op_type, model.graph.node[1].domain = "Twice", "my"
    model.opset_import.append(helper.make_opsetid("my", 1))
    report = legato.verify(model, custom=twice)
    assert report
    assert report.peer == "interpreter"
    assert report.note.startswith("ONNX Runtime cannot load the model: ")
    with pytest.raises(RunError, match="ONNX Runtime cannot load the model"):
        legato.verify(model, custom=twice, against="onnxruntime")


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ("tvm", "against: got 'tvm', wanted 'onnxruntime' or 'interpreter'"),
        ("onnxruntime", "ONNX Runtime reads ONNX models only, not a Module"),
    ],
)
def test_peers_that_cannot_be(against: str, message: str) -> None:
    with pytest.raises(RunError) as error:
        legato.verify(legato.parse(MLP), against=against)
    assert str(error.value) == message


def test_shapes_belong_to_onnx() -> None:
    with pytest.raises(CompileError) as error:
        legato.verify(legato.parse(MLP), shapes={"x": (1, 4)})
    assert str(error.value).splitlines() == [
        "error: shapes are given for ONNX models; a program in Relay has its own",
        "  hint: its dims: n",
    ]


# ------------------------------------------------------------------ blame

# What it means and what it compiles to are not the same.
liar = unary("test.liar", lambda x: x * 2, lambda x: x * te.literal(3, x), doc="Wrong.")
CHAIN = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 8), float32], %w: Tensor[(8, 8), float32]) -> Tensor[(n, 8), float32] {
  let %a = nn.dense(%x, %w);
  let %b = nn.softmax(%a);
  let %c = nn.dense(%b, %w);
  let %d = test.liar(%c);
  let %e = nn.dense(%d, %w);
  let %f = nn.softmax(%e);
  nn.dense(%f, %x)
}
""".replace("nn.dense(%f, %x)", "nn.dense(%f, %w)")


def test_the_guilty_binding_is_found(tmp_path: Path) -> None:
    mod = legato.parse(CHAIN, ops=[liar])
    report = legato.verify(mod, dims={"n": 5}, bisect=True, ops=[liar])
    assert not report
    culprit = report.culprit
    assert culprit is not None
    assert culprit.stage == "code"
    assert "test.liar" in culprit.text
    assert culprit.text.count("nn.dense") <= 1
    what = f"the code for nn.dense, test.liar at <text>:6:12, <text>:7:12 (%{culprit.node})"
    assert str(culprit) == f"{what} computes something else than its operators"
    # The reproducer, written and read again, shows it too.
    save_text(culprit.program, tmp_path / "small.relay")
    again = load_text(tmp_path / "small.relay", ops={**table(), liar.name: liar})
    assert not verify(again, culprit.inputs, ops=[liar])
    assert report.to_json()["culprit"]["stage"] == "code"


def test_a_right_program_has_no_culprit() -> None:
    assert legato.verify(legato.parse(MLP), bisect=True).culprit is None


@dataclass(frozen=True, slots=True)
class Spoil(Pass):
    """Negates every softmax."""

    name = "spoil"

    def __call__(self, mod: Module) -> Module:
        return mod.with_functions({
            gv: replace(f, body=Call(table()["negative"], (f.body,))) if isinstance(f, Function) else f
            for gv, f in mod.functions.items()
        })  # fmt: skip


def test_the_guilty_pass_is_found() -> None:
    mod = legato.parse(MLP)
    inputs = list(fill(legato.compile(mod).program.functions["main"]).values())
    options = CompileOptions(host(), passes=(*DEFAULT[:3], Spoil(), *DEFAULT[:1], *DEFAULT[3:]))
    culprit = blame(mod, inputs, options)
    assert (culprit.stage, culprit.node) == ("spoil", "")
    assert str(culprit) == "pass spoil changes what the program computes"
    assert "negative" not in culprit.text  # the program before the pass


@function_pass
def wrong(func: Function, mod: Module) -> Expr:
    """A softmax of a product is its sigmoid."""
    x = wildcard()
    product = is_op("nn.softmax")(is_op("nn.dense")(x, wildcard()))
    return rewrite(Callback(product, lambda old, now, found: Call(table()["sigmoid"], now.args), once=True), func, mod)


def test_the_node_that_a_pass_gets_wrong_is_found(tmp_path: Path) -> None:
    mod = ToGraph()(legato.parse(CHAIN.replace("test.liar", "exp")))
    inputs = list(fill(legato.compile(mod).program.functions["main"], dims={"n": 3}).values())
    culprit = blame(mod, inputs, CompileOptions(host(), passes=as_passes([wrong, "default"])))
    assert culprit.stage == "wrong"
    said = rf"pass wrong changes what nn.softmax at <text>:5:12 \(%{culprit.node}\) computes"
    assert re.fullmatch(said, str(culprit))
    assert [culprit.text.count(name) for name in ("nn.dense", "nn.softmax", "exp")] == [1, 1, 0]
    # The reproducer shows it, too: the pass changes what it computes.
    given = list(culprit.inputs.values())
    (right,), (got,) = (interpret(m, given, float64=True) for m in (culprit.program, wrong(culprit.program)))
    assert np.abs(right - got).max() > 0.1


@dataclass(frozen=True, slots=True)
class Cancel(Pass):
    """Turns (x + c) - c into x, which is right but for what rounding makes of it."""

    name = "cancel"

    def __call__(self, mod: Module) -> Module:
        def body(f: Function) -> Expr:
            return f.params[0] if isinstance(f.body, Call) and f.body.op is table()["subtract"] else f.body

        return mod.with_functions({gv: replace(f, body=body(f)) if isinstance(f, Function) else f
                                   for gv, f in mod.functions.items()})  # fmt: skip


def test_a_pass_that_changes_rounding_alone_is_found() -> None:
    mod = legato.parse("""#[version = "0.0.5"]
def @main(%x: Tensor[(4,), float32]) { (%x + 12582912f) - 12582912f }
""")
    options = CompileOptions(host(), passes=(*DEFAULT[:1], Cancel(), *DEFAULT[-8:]))
    culprit = blame(infer(mod), [f32(0.3, 0.6, 1.2, 3.4)], options)
    assert (culprit.stage, culprit.node) == ("cancel", "")  # it takes the whole program


def test_a_module_unlike_onnxruntime_is_the_importers() -> None:
    mod = infer(legato.from_onnx(dense_onnx()))
    x = np.ones((2, 4), np.float32)
    culprit = blame(mod, [x], CompileOptions(host()), [np.zeros((2, 3), np.float32) + 9])
    assert culprit.stage == "import"
    assert list(culprit.inputs) == ["x"]


def test_constants_stay_in_the_reproducer() -> None:
    op: Op = liar
    mod = legato.parse(CHAIN.replace(", %w: Tensor[(8, 8), float32]", "").replace("%w", "meta[relay.Constant][0]") + (
        '\n#[metadata]\n{"relay.Constant": [{"dtype": "float32", "shape": [8, 8], "data": '
        + str([float(n % 5) for n in range(64)]) + "}]}\n"
    ), ops=[op])  # fmt: skip
    report = legato.verify(mod, dims={"n": 3}, bisect=True, ops=[op])
    assert report.culprit is not None
    main = report.culprit.program["main"]
    assert isinstance(main, Function)
    assert len(report.culprit.inputs) == len(main.params)
    assert sum(isinstance(node, Constant) for node in nodes(main)) <= 1
    exact = interpret(report.culprit.program, list(report.culprit.inputs.values()), float64=True)
    assert all(np.isfinite(e).all() for e in exact)


def test_factors_of_16_bits_are_allowed_more() -> None:
    exact, peer = np.array([0.0, 1.0]), f32(0, 1)
    for error, narrow in ((0.0005, True), (0.04, True), (0.06, False)):
        got = f32(error, 1)
        assert not judge("y", got, exact, peer).holds
        assert judge("y", got, exact, peer, near=near_of(Precision.BFLOAT16)).holds is narrow
        assert judge("y", got, exact, peer, near=0.05, rounded=f32(0.04, 1)).holds
    assert near_of(Precision.FAST) == near_of(Precision.DEFAULT) == NEAR


def test_bfloat16_is_verified_against_float32() -> None:
    mod = infer(parse("""#[version = "0.0.5"]
def @main(%x: Tensor[(9, 40), float32], %w: Tensor[(8, 40), float32]) { tanh(nn.dense(%x, %w)) }
""", ops=table()))  # fmt: skip
    (output,) = verify(mod, precision="bfloat16").outputs
    assert output.holds
    assert output.error > 1e-3
    assert output.allowed == pytest.approx(0.05 * output.range)
    (output,) = verify(mod).outputs
    assert output.error < 1e-5
