"""If, Loop and Scan as ONNX Runtime has them, and as programs: typed, printed, parsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import legato
from legato.base.errors import ImportModelError, TypeCheckError, UnsupportedError
from legato.frontend.onnx import check, from_onnx
from legato.frontend.onnx.importer import Importer
from legato.frontend.onnx.reader import read
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.types import TensorType
from tests.frontend.onnx.peer import Array, legato_outputs, model, ort_outputs, value

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def node(operator: str, reads: str, makes: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(operator, reads.split(), makes.split(), **attributes)


def graph(
    nodes: Sequence[onnx.NodeProto], reads: str, makes: str, weights: Mapping[str, Array] | None = None
) -> onnx.GraphProto:
    """A body. Nothing is said of types, as exporters may leave it."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    values = [[onnx.ValueInfoProto(name=name) for name in text.split()] for text in (reads, makes)]
    return helper.make_graph(list(nodes), "body", values[0], values[1], tensors)


def agree(proto: onnx.ModelProto, *cases: Mapping[str, Array]) -> legato.Module:
    """The model gives what ONNX Runtime gives, also as inference types it and when it was printed and read."""
    module = from_onnx(proto)
    typed = infer(module)
    again = legato.parse(str(typed))
    assert alpha_equal(again, typed)
    for feeds in cases:
        wanted = ort_outputs(proto, feeds)
        for program in (module, typed):
            result = evaluate(program, [feeds[p.name] for p in program["main"].params])
            found = result if isinstance(result, tuple) else (result,)
            assert [(f.shape, f.dtype) for f in found] == [(w.shape, w.dtype) for w in wanted]
            for got, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    return module


# ------------------------------------------------------------------ If


def branch(nodes: Sequence[onnx.NodeProto], makes: str, weights: Mapping[str, Array] | None = None) -> onnx.GraphProto:
    return graph(nodes, "", makes, weights)


def choice(then: onnx.GraphProto, orelse: onnx.GraphProto, makes: str = "y") -> onnx.NodeProto:
    return helper.make_node("If", ["c"], makes.split(), name="choice", then_branch=then, else_branch=orelse)


CASES = [{"x": X, "c": np.array(flag)} for flag in (True, False)]
INPUTS = [value("x", (3, 4)), value("c", (), "bool")]


def test_branches() -> None:
    then = branch([node("Neg", "x", "r"), node("Add", "r w", "s")], "s r", {"w": np.float32(2)})
    orelse = branch([node("Abs", "h", "r"), node("Mul", "r h", "s")], "r s")
    nodes = [node("Exp", "x", "h"), choice(then, orelse, "y z")]
    agree(model(nodes, INPUTS, ("y", "z")), *CASES)


def test_names_of_one_branch_are_others_in_the_other() -> None:
    """An initializer, and an input of a loop's body, have a name that the other branch reads of the surroundings."""
    then, orelse = (
        branch([node("Add", "x w", "t")], "t", {"w": np.float32([5, 6, 7])}),
        branch([node("Mul", "x w", "e")], "e"),
    )
    inputs = [value("x", (3,)), value("c", (), "bool")]
    feeds = [{"x": np.float32([1, 2, 3]), "c": np.array(flag)} for flag in (True, False)]
    agree(model([choice(then, orelse)], inputs, weights={"w": np.float32([10, 20, 30])}), feeds[1])
    doubled = graph([node("Identity", "ci", "co"), node("Add", "a a", "ao")], "", "co ao")
    doubled.input.extend([value("i", (), "int64"), value("ci", (), "bool"), value("a", (3,))])
    then = branch([helper.make_node("Loop", ["M", "", "x"], ["t"], body=doubled)], "t")
    orelse = branch([node("Abs", "a", "e")], "e")
    agree(model([node("Neg", "x", "a"), choice(then, orelse)], inputs, weights={"M": np.array(2)}), *feeds)


def test_branches_inside_branches() -> None:
    deep = choice(branch([node("Neg", "h", "r")], "r"), branch([node("Abs", "h", "r")], "r"), "inner")
    then = branch([node("Exp", "x", "h"), deep, node("Add", "inner h", "s")], "s")
    agree(model([choice(then, branch([node("Neg", "x", "r")], "r"))], INPUTS), *CASES)


def test_branches_of_several_extents() -> None:
    then = branch([node("Concat", "x x", "r", axis=0)], "r")
    nodes = [choice(then, branch([node("Neg", "x", "r")], "r"), "h"), node("ReduceSum", "h", "y", keepdims=0)]
    agree(model(nodes, INPUTS), *CASES)


def test_a_condition_of_one_element() -> None:
    proto = model(
        [choice(branch([node("Neg", "x", "r")], "r"), branch([node("Abs", "x", "r")], "r"))],
        [value("x", (3, 4)), value("c", (1,), "bool")],
    )
    agree(proto, *({"x": X, "c": np.array([flag])} for flag in (True, False)))


# ------------------------------------------------------------------ Loop


def loop(reads: str, makes: str, body: onnx.GraphProto) -> onnx.NodeProto:
    """A Loop; ONNX Runtime wants the types of what its body takes."""
    if len(body.input) > 2:
        types = [("int64", ()), ("bool", ()), *[("float32", None)] * (len(body.input) - 2)]
        found = [value(v.name, shape, dtype) for v, (dtype, shape) in zip(body.input, types, strict=True)]
        del body.input[:]
        body.input.extend(found)
    return helper.make_node("Loop", ["" if name == "-" else name for name in reads.split()], makes.split(), body=body)


SCALE = {"half": np.float32(0.5)}


def test_loops_of_known_and_unknown_length() -> None:
    body = graph(
        [node("Identity", "c", "d"), node("Mul", "a half", "b"), node("Add", "b h", "e")], "i c a", "d e b", SCALE
    )
    nodes = [node("Exp", "x", "h"), loop("n - x", "y ys", body)]
    inputs = [value("x", (3, 4)), value("n", (), "int64")]
    counts = [{"x": X, "n": np.array(n)} for n in (1, 5)]  # of 0 rounds the peer gives no shape
    agree(model(nodes, inputs, ("y", "ys")), *counts)
    module = agree(model(nodes, inputs[:1], ("y", "ys"), {"n": np.array(5)}), {"x": X})
    assert str(module["main"].ret_type.fields[1]) == "Tensor[(5, 3, 4), float32]"


@pytest.mark.parametrize(("declared", "rest"), [((None, None), 0), ((2, "k"), 0), ((2, 5), 5)], ids=str)
@pytest.mark.parametrize("over", ["count", "rows"])
def test_what_no_round_yields_has_the_extents_that_are_declared(
    declared: Sequence[int | str | None], rest: int, over: str
) -> None:
    """Where these depend on what a round computes: with rounds they are what it is."""
    if over == "count":
        body = graph([node("Identity", "c", "d"), node("NonZero", "x", "p")], "i c", "d p")
        made, inputs, feed = loop("n -", "ps", body), [value("n", (), "int64")], np.array
    else:
        body = graph([node("NonZero", "x", "p")], "a", "p")
        made, inputs, feed = scan("n", "ps", body, 1), [value("n", ("n",))], partial(np.zeros, dtype=np.float32)
    body.output[-1].CopyFrom(value("p", declared, "int64"))
    made.attribute[0].g.CopyFrom(body)
    proto = model([made], [value("x", (3, 4)), *inputs], ("ps",))
    results = [legato_outputs(proto, {"x": X, "n": feed(n)})[0] for n in (0, 2)]
    assert [r.shape for r in results] == [(0, 2, rest), (2, 2, np.count_nonzero(X))]


@pytest.mark.parametrize("declared", [None, (7, 7, 7)])
def test_what_no_round_yields_has_no_extents_that_do_not_fit(declared: Sequence[int] | None) -> None:
    body = graph([node("Identity", "c", "d"), node("NonZero", "x", "p")], "i c", "d p")
    body.output[-1].CopyFrom(value("p", declared, "int64"))
    proto = model([loop("n -", "ps", body)], [value("x", (3, 4)), value("n", (), "int64")], ("ps",))
    assert legato_outputs(proto, {"x": X, "n": np.array(0)})[0].shape == (0, 2, 0)


def test_extents_that_are_declared_have_bounds() -> None:
    body = graph([node("Identity", "c", "d"), node("NonZero", "x", "p")], "i c", "d p")
    body.output[-1].CopyFrom(value("p", (1 << 40, 1 << 40), "int64"))
    with pytest.raises(ImportModelError, match="elements"):
        from_onnx(model([loop("n -", "ps", body)], [value("x", (3, 4)), value("n", (), "int64")], ("ps",)))


def test_loops_that_end_by_a_condition() -> None:
    body = graph(
        [node("Add", "a a", "b"), node("ReduceSum", "b", "s", keepdims=0), node("Less", "s most", "d")],
        "i c a",
        "d b s",
        {"most": np.float32(100)},
    )
    proto = model([loop("- c x", "y ys", body)], INPUTS, ("y", "ys"))
    for flag in (True, False):
        agree(proto, {"x": abs(X), "c": np.array(flag)})


def test_loops_that_grow_what_they_carry() -> None:
    body = graph([node("Identity", "c", "d"), node("Concat", "a x", "b", axis=0)], "i c a", "d b")
    nodes = [loop("n - x", "z", body), node("ReduceSum", "z", "y", keepdims=0)]
    inputs = [value("x", (3, 4)), value("n", (), "int64")]
    agree(model(nodes, inputs), *({"x": X, "n": np.array(n)} for n in (0, 3)))


def test_loops_in_loops() -> None:
    inner = graph(
        [
            node("Identity", "c2", "d2"),
            node("Cast", "i2", "f", to=1),
            node("Add", "a2 h", "b2"),
            node("Mul", "f o", "p"),
        ],
        "i2 c2 a2",
        "d2 b2 p",
    )
    outer = graph(
        [
            node("Identity", "c", "d"),
            node("Cast", "i", "o", to=1),
            node("Exp", "o", "g"),
            node("Mul", "g half", "h"),
            loop("three - a", "e es", inner),
        ],
        "i c a",
        "d e es",
        SCALE,
    )
    proto = model(
        [loop("n - x", "y ys", outer)],
        [value("x", (3, 4)), value("n", (), "int64")],
        ("y", "ys"),
        {"three": np.array(3)},
    )
    agree(proto, *({"x": X, "n": np.array(n)} for n in (1, 2)))


def test_branches_in_loops() -> None:
    body = graph(
        [
            node("Less", "i two", "c"),
            choice(branch([node("Neg", "a", "r")], "r"), branch([node("Add", "a x", "r")], "r"), "b"),
            node("Identity", "go", "d"),
        ],
        "i go a",
        "d b",
        {"two": np.array(2)},
    )
    proto = model([loop("n - x", "y", body)], [value("x", (3, 4)), value("n", (), "int64")])
    agree(proto, *({"x": X, "n": np.array(n)} for n in (1, 5)))


def test_what_loops_need_of_the_outside_is_computed_once() -> None:
    body = graph([node("Identity", "c", "d"), node("Add", "a h", "b")], "i c a", "d b")
    module = from_onnx(
        model([node("Exp", "x", "h"), loop("n - x", "y", body)], [value("x", (3, 4)), value("n", (), "int64")])
    )
    seen: list[str] = []
    evaluate(module, [X, np.array(4)], observe=lambda n, v: seen.append(getattr(getattr(n, "op", None), "name", "")))
    assert (seen.count("exp"), seen.count("add")) == (1, 8)  # rounds are counted, too


# ------------------------------------------------------------------ Scan


def scan(reads: str, makes: str, body: onnx.GraphProto, inputs: int, **attributes: object) -> onnx.NodeProto:
    names = ["" if name == "-" else name for name in reads.split()]
    return helper.make_node("Scan", names, makes.split(), body=body, num_scan_inputs=inputs, **attributes)


STEP = graph([node("Add", "s a", "t"), node("Mul", "t b", "u"), node("Neg", "t", "v")], "s a b", "t u v")


@pytest.mark.parametrize("reverse", [0, 1])
def test_scans_along_axes_and_directions(reverse: int) -> None:
    step = graph([node("Add", "s a", "t"), node("MatMul", "t b", "u"), node("Neg", "t", "v")], "s a b", "t u v")
    made = scan(
        "s0 x z",
        "y u t",
        step,
        2,
        scan_input_axes=[1, 0],
        scan_input_directions=[reverse, 0],
        scan_output_axes=[-1, 1],
        scan_output_directions=[1 - reverse, reverse],
    )
    z = np.linspace(-1, 1, 60, dtype=np.float32).reshape(4, 3, 5)
    proto = model([made], [value("s0", (3,)), value("x", (3, 4)), value("z", (4, 3, 5))], ("y", "u", "t"))
    agree(proto, {"s0": X[:, 0], "x": X, "z": z})


def test_scans_of_symbolic_length() -> None:
    proto = model(
        [scan("s0 x z", "y u t", STEP, 2)],
        [value("s0", (4,)), value("x", ("n", 4)), value("z", ("n", 4))],
        ("y", "u", "t"),
    )
    agree(proto, *({"s0": X[0], "x": X[:n], "z": X[:n] * 2} for n in (1, 3)))


@pytest.mark.parametrize("lengths", [False, True])
def test_batched_scans(lengths: bool) -> None:
    step = graph([node("Add", "s a", "t"), node("Neg", "t", "u")], "s a", "t u")
    made = scan("l s0 x" if lengths else "- s0 x", "y u", step, 1, directions=[1])
    inputs = [value("s0", (2, 4)), value("x", (2, 3, 4)), *([value("l", (2,), "int64")] if lengths else [])]
    feeds = {"s0": X[:2], "x": np.stack([X, -X * 2]), "l": np.array([3, 3])}
    agree(
        model([made], inputs, ("y", "u"), opset=8, ir_version=3),
        {k: v for k, v in feeds.items() if lengths or k != "l"},
    )


def nested(depth: int) -> onnx.ModelProto:
    """Loops in loops around something that grows in each round."""
    inner = node("Concat", f"s{depth} s{depth}", f"o{depth}", axis=0)
    for k in reversed(range(1, depth + 1)):
        body = graph([node("Identity", f"c{k}", f"e{k}"), inner], "", f"e{k} o{k}")
        body.input.extend([value(f"i{k}", (), "int64"), value(f"c{k}", (), "bool"), value(f"s{k}", None)])
        inner = loop(f"t - s{k - 1}", f"o{k - 1}", body)
    return model([inner], [value("s0", ("n",)), value("t", (), "int64")], ["o0"])


def test_nested_loops_are_imported_a_few_times_each() -> None:
    """What the rounds of a loop change of its state is remembered when the loop around it imports it again."""

    def steps(depth: int) -> int:
        importer = Importer(read(nested(depth)), None, None)
        assert importer.run() is not None
        return importer._count

    assert steps(16) <= 4 * steps(8) <= 16 * steps(4)
    feeds = {"s0": np.ones(2, np.float32), "t": np.array(2)}
    assert legato_outputs(nested(2), feeds)[0].shape == ort_outputs(nested(2), feeds)[0].shape == (32,)


def test_slices_by_the_counter() -> None:
    """Row i of x, in a loop over its rows, or over as many as the data says."""
    cut = [node("Unsqueeze", "i zero", "at"), node("Add", "at one", "end"), node("Slice", "x at end one", "row")]
    body = graph(
        [node("Identity", "c", "d"), *cut, node("Squeeze", "row one", "r"), node("Add", "a r", "b")], "i c a", "d b"
    )
    sizes = [node("Shape", "x", "s"), node("Gather", "s index", "n"), node("ReduceMax", "x", "h", axes=[1], keepdims=0)]
    weights = {"zero": np.array([0]), "one": np.array([1]), "index": np.array(1)}
    proto = model([*sizes, loop("n - h", "y", body)], [value("x", ("b", "t", 4))], weights=weights)
    rng = np.random.default_rng(0)
    agree(proto, *({"x": rng.standard_normal((2, t, 4)).astype(np.float32)} for t in (1, 3)))
    longer = model(
        [*sizes, loop("m - h", "y", body)], [value("x", ("b", "t", 4)), value("m", (), "int64")], weights=weights
    )
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    agree(longer, *({"x": x, "m": np.array(m)} for m in (0, 1, 3)))


def test_branches_of_two_ranks_name_the_way_out() -> None:
    decides = [node("Shape", "x", "s", start=1), node("Equal", "s one", "c")]
    then, orelse = branch([node("Squeeze", "x one", "t")], "t"), branch([node("Identity", "x", "e")], "e")
    proto = model([*decides, choice(then, orelse)], [value("x", ("b", "t"))], weights={"one": np.array([1])})
    with pytest.raises(UnsupportedError) as caught:
        from_onnx(proto)
    assert caught.value.details == (
        "choice: ai.onnx.If of operator set 17: its output number 1 has several types: Tensor[(b,), float32] and "
        "Tensor[(b, t), float32] (say what t is, as in shapes={'x': (None, 1)} or shapes={'x': (None, 't:2..')})",
    )
    for last, rank in ((1, 1), ("t:2..", 2), (3, 2)):
        ty = from_onnx(proto, shapes={"x": (None, last)})["main"].body.ty
        assert isinstance(ty, TensorType)
        assert ty.rank == rank


# ------------------------------------------------------------------ what is wrong or cannot be done


def nest(inner: onnx.NodeProto, depth: int) -> None:
    """Ifs inside each other, made in place: protobuf neither reads nor copies what nests so deep."""
    for _ in range(depth):
        for name in ("else_branch", "then_branch"):
            part = inner.attribute.add(name=name, type=onnx.AttributeProto.GRAPH).g
            part.node.add(op_type="Neg", input=["x"], output=["o"])
            part.output.add(name="o")
        part.node[0].op_type, part.node[0].input[:] = "If", ["c"]
        inner = part.node[0]


BODY = graph([node("Identity", "c", "d"), node("Add", "a a", "b")], "i c a", "d b")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (choice(branch([], "x x"), branch([], "x")), "a body of If gives 2 outputs, wanted 1"),
        (
            choice(branch([node("Neg", "gone", "r")], "r"), branch([], "x")),
            "the model: choice reads 'gone', which nothing defines",
        ),
        (choice(branch([], "gone"), branch([], "x")), "reads 'gone', which nothing defines"),
        (node("If", "c", "y"), "If lacks its attribute then_branch"),
        (node("If", "c", "y", then_branch=3, else_branch=4), "If lacks its attribute then_branch"),
        (
            helper.make_node("If", [], ["y"], then_branch=branch([], "x"), else_branch=branch([], "x")),
            "If lacks its condition",
        ),
        (
            helper.make_node("If", ["x"], ["y"], then_branch=branch([], "x"), else_branch=branch([], "x")),
            "the condition of dtype float32, wanted bool",
        ),
        (helper.make_node("Loop", ["n"], ["y"], body=BODY), "Loop has 1 inputs, wanted at least 2"),
        (loop("n c x x", "y", BODY), "a body of Loop takes 3 inputs, wanted 4"),
        (loop("n c x", "y z z2", BODY), "a body of Loop gives 2 outputs, wanted 4"),
        (loop("n c -", "y", BODY), "Loop lacks an input, or a body of it an output"),
        (loop("n c x", "y", graph([], "i i a", "c a")), "graph body: an input is defined twice"),
        (loop("x c x", "y", BODY), "the trip count has shape Tensor[(3, 4), float32], wanted one element"),
        (scan("x", "y", BODY, 4), "Scan has 1 inputs, of which 4 are read part by part"),
        (scan("n", "y", graph([], "a", "a"), 1), "axis 0 is out of range for rank 0"),
        (scan("x", "y", graph([], "a", "a"), 1, scan_input_axes=[2]), "axis 2 is out of range for rank 2"),
        (
            scan("x", "y", graph([], "a", "a"), 1, scan_input_axes=[0, 1]),
            "attribute scan_input_axes of Scan: wanted 1 integers",
        ),
        (choice(branch([], "x"), graph([], "a", "a")), "a body of If takes 1 inputs, wanted 0"),
        (helper.make_node("SequenceMap", [], ["y"], body=graph([], "", "x")), "SequenceMap lacks its sequence"),
    ],
)
def test_malformed_bodies(made: onnx.NodeProto, text: str) -> None:
    proto = model([made], [*INPUTS, value("n", (), "int64")], (made.output[0],))
    with pytest.raises(ImportModelError) as caught:
        from_onnx(proto)
    assert text in caught.value.message


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            choice(branch([], "x"), branch([node("Shape", "x", "r")], "r")),
            "its output number 1 has several types: Tensor[(3, 4), float32] and Tensor[(2,), int64]",
        ),
        (
            loop("n c x", "y", graph([node("ReduceSum", "a", "b", keepdims=0)], "i c a", "c b")),
            "a value that it changes has several types: Tensor[(3, 4), float32] and float32",
        ),
        (scan("x x", "y", graph([node("Concat", "a s", "b", axis=0)], "s a", "b"), 1), ""),
    ],
)
def test_what_cannot_be_done_is_listed(made: onnx.NodeProto, text: str) -> None:
    proto = model([made], [*INPUTS, value("n", (), "int64")], tuple(made.output))
    (listed,) = check(proto).unsupported
    assert text in listed.reason
    with pytest.raises(UnsupportedError if text else legato.base.errors.CompileError):
        from_onnx(proto)


def test_bodies_that_nest_too_deep() -> None:
    proto = model([node("Neg", "x", "z")], INPUTS)
    del proto.graph.node[:]
    nest(proto.graph.node.add(op_type="If", input=["c"], output=["y"]), 120)
    with pytest.raises(ImportModelError, match="branches and loops nest more than 100 deep"):
        from_onnx(proto)


def test_nodes_in_bodies_that_cannot_be_converted_are_listed() -> None:
    deep = branch([node("Spin", "x", "r")], "r")
    body = graph([choice(deep, branch([node("Turn", "a", "r")], "r"), "b")], "i go a", "go b")
    proto = model([node("Hop", "x", "h"), loop("n - h", "y", body)], [*INPUTS, value("n", (), "int64")])
    assert [(u.node, u.operator) for u in check(proto).unsupported] == [
        ("Op_0 (Hop)", "Hop"),
        ("Op_1 (Loop)/choice/Op_0 (Spin)", "Spin"),
        ("Op_1 (Loop)/choice/Op_0 (Turn)", "Turn"),
    ]


def test_loops_of_many_rounds_are_not_run_at_import() -> None:
    body = graph([node("Identity", "c", "d"), node("Neg", "a", "b")], "i c a", "d b")
    from_onnx(model([loop("n - x", "y", body)], INPUTS[:1], weights={"n": np.array(2**62)}))
    stacked = graph([node("Identity", "c", "d"), node("Neg", "a", "b")], "i c a", "d b b")
    with pytest.raises(TypeCheckError, match=r"at most 2\^63 bytes"):
        from_onnx(model([loop("n - x", "y z", stacked)], INPUTS[:1], ("y", "z"), {"n": np.array(2**62)}))
