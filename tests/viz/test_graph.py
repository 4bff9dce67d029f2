"""The graph of a module: what its nodes are, what they read, what they lie in."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given

import legato
from legato.ir.expr import Call, Expr, Function, GlobalVar, If, Let, RefCreate, RefRead, Tuple, Var, constant
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.printer import show, show_with_lines
from legato.ir.scope import place
from legato.ops import table
from legato.viz import Graph, Node, Stage, dot, graph_of, layout, page, pdf, svg, tree
from legato.viz.graph import contents
from legato.viz.layout import Box, lay_out, plan
from tests.heavy import amount
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs
from tests.viz.graphs import FUSED, named, node, reads

ABS = table()["abs"]


def test_nodes_of_an_expression() -> None:
    graph = graph_of(legato.parse("def @main(%x: Tensor[(n, 4), float32]) { nn.softmax(%x * 2f, axis=0) }"))
    assert [(n.kind, n.label, n.type, n.detail) for n in graph.nodes] == [
        ("parameter", "%x", "float32[n, 4]", ""),
        ("constant", "2f", "float32", ""),
        ("operator", "multiply", "float32[n, 4]", ""),
        ("operator", "nn.softmax", "float32[n, 4]", "axis=0"),
    ]
    assert [n.inputs for n in graph.nodes] == [(), (), (0, 1), (2,)]
    (main,) = graph.clusters
    assert (main.kind, main.label, main.type, main.result) == ("function", "@main", "float32[n, 4]", 3)
    assert (graph.functions, graph.computing) == (1, 2)


def test_names_of_lets_are_no_nodes() -> None:
    text = "def @main(%x: Tensor[(4,), float32]) { let %a = abs(%x); let %b = %a; (%b, %a + %b) }"
    graph = graph_of(legato.parse(text))
    assert [n.label for n in graph.nodes] == ["%x", "abs", "add", "tuple"]
    assert reads(graph, "add") == ["abs", "abs"]
    assert reads(graph, "tuple") == ["abs", "add"]


def test_a_fused_group_stands_where_it_is_called() -> None:
    graph = graph_of(legato.parse(FUSED))
    group = next(c for c in graph.clusters if c.kind == "group")
    assert (group.label, group.type, group.operators) == (
        "nn.dense + nn.relu",
        "float32[2, 3]",
        ("nn.dense", "nn.relu"),
    )
    assert graph.nodes[group.result].label == "nn.relu"
    assert reads(graph, "nn.dense") == ["%x", "%w"]  # through the group's parameters, which are no nodes
    assert reads(graph, "abs") == ["nn.relu"]
    assert {n.label for n in named(graph, "parameter")} == {"%x", "%w"}


def test_a_group_that_is_called_twice_is_a_function() -> None:
    x = Var("x", ty=constant([1.0, 2.0]).ty)
    y = Var("y", ty=x.ty)
    group = Function((y,), Call(ABS, (y,), ty=x.ty), x.ty, attrs={"Primitive": 1})
    mod = Module({GlobalVar("main"): Function((x,), Call(group, (Call(group, (x,), ty=x.ty),), ty=x.ty))})
    graph = graph_of(mod)
    assert [(n.kind, n.label) for n in graph.nodes[-3:]] == [
        ("function", "fn (%y)"),
        ("call", "call"),
        ("call", "call"),
    ]
    assert len(named(graph, "operator")) == 1


def test_branches_matches_and_closures() -> None:
    graph = graph_of(legato.parse("""
def @main(%c: bool, %x: Tensor[(2,), float32], %l: List[int32]) {
  let %f = fn (%a: Tensor[(2,), float32]) { %a * %x };
  let %n = match (%l) { Cons(%h, %t) => %h, Nil => 0 };
  (if (%c) { abs(%x) } else { %f(%x) }, %n)
}"""))  # fmt: skip
    assert {c.label for c in graph.clusters} >= {"@main", "fn", "then", "else", "Cons(%h, %t)", "Nil"}
    assert reads(graph, "if") == ["%c", "abs", "call"]
    assert reads(graph, "match") == ["%l", "%h", "0"]
    assert reads(graph, "%h") == ["%l"]
    assert reads(graph, "call") == ["fn (%a)", "%x"]
    assert reads(graph, "multiply") == ["%a", "%x"]
    inside = {graph.clusters[node(graph, name).cluster].label for name in ("multiply", "abs", "%h")}
    assert inside == {"fn", "then", "Cons(%h, %t)"}


def test_calls_of_functions_and_of_themselves() -> None:
    graph = graph_of(legato.parse("""
def @down(%i: int32) -> int32 { if (%i > 0) { @down(%i - 1) } else { %i } }
def @main(%i: int32) {
  let %loop = fn (%k: int32) -> int32 { if (%k > 0) { %loop(%k - 1) } else { %k } };
  (@down(%i), %loop(%i))
}"""))  # fmt: skip
    assert [n.label for n in named(graph, "call")].count("@down") == 2
    (recursion,) = named(graph, "recursion")
    assert recursion.label == "%loop"
    assert graph.clusters[recursion.cluster].label == "fn"
    inner, outer = (n for n in named(graph, "call") if n.label == "call")
    assert [graph.nodes[n].label for n in inner.inputs] == ["%loop", "subtract"]
    assert [graph.nodes[n].label for n in outer.inputs] == ["fn (%k)", "%i"]  # outside the name means the closure
    assert graph.functions == 2


def test_cells_and_operators_that_are_values() -> None:
    cell = Var("r")
    body = Let(cell, RefCreate(constant(1.0)), Tuple((RefRead(cell), ABS)))
    graph = graph_of(Module({GlobalVar("main"): Function((), body)}))
    assert [(n.kind, n.label) for n in graph.nodes] == [
        ("constant", "1f"), ("reference", "ref"), ("reference", "ref_read"), ("global", "abs"), ("tuple", "tuple"),
    ]  # fmt: skip
    assert all(n.type == "" for n in graph.nodes[1:])  # nothing is typed


def test_lines_of_the_text() -> None:
    mod = legato.parse(FUSED)
    text, lines = show_with_lines(mod)
    assert text == show(mod, metadata=False)
    graph, shown = graph_of(mod, lines), text.split("\n")
    for n in graph.nodes:
        if n.kind == "operator":
            assert n.label in shown[n.line]
    for cluster in graph.clusters:
        assert ("def @main" if cluster.kind == "function" else "Primitive=1") in shown[cluster.line]


# ------------------------------------------------------------------ random programs


def graphs(program: Program) -> list[Graph]:
    """A few forms of it: as it is written, and in let form with groups."""
    from legato.pipelines import DEFAULT
    from legato.transform.pass_ import run

    return [graph_of(program.module), graph_of(run(program.module, DEFAULT[:12]))]


@examples(15)
@given(programs())
def test_every_call_is_a_node_behind_what_it_reads(program: Program) -> None:
    graph = graph_of(program.module)
    wanted = Counter(
        n.op.name
        for _, func in program.module.graph_functions()
        for n in place(func).order
        if isinstance(n, Call) and isinstance(n.op, Op) and n.op.name != "call_tir"
    )
    assert Counter(n.label for n in graph.nodes if n.kind == "operator") == wanted
    for number, n in enumerate(graph.nodes):
        assert all(source < number for source in n.inputs)
    for number, cluster in enumerate(graph.clusters):
        assert cluster.parent < number
    nodes, inner = contents(graph)
    assert sorted(n for members in nodes for n in members) == list(range(len(graph.nodes)))
    holding = {c for n in graph.nodes for c in around(graph, n.cluster)}
    assert sorted(c for members in inner for c in members) == sorted(holding)  # each that holds any, once


def around(graph: Graph, cluster: int) -> list[int]:
    """A cluster, and those that it lies in."""
    found = []
    while cluster >= 0:
        found.append(cluster)
        cluster = graph.clusters[cluster].parent
    return found


@examples(15)
@given(programs())
def test_text_with_lines_is_the_text(program: Program) -> None:
    text, lines = show_with_lines(program.module)
    assert text == show(program.module, metadata=False)
    assert all(0 <= line < text.count("\n") for line in lines.values())


@examples(15)
@given(programs())
def test_boxes_lie_apart_and_inside(program: Program) -> None:
    for graph in graphs(program):
        layout = lay_out(graph)
        assert layout.nodes.keys() == set(range(len(graph.nodes)))
        for n, box in layout.nodes.items():
            assert within(box, layout.clusters[graph.nodes[n].cluster])
        for c, box in layout.clusters.items():
            parent = graph.clusters[c].parent
            assert within(box, layout.clusters[parent] if parent >= 0 else Box(0, 0, layout.width, layout.height))
        boxes = list(layout.nodes.values())
        assert not any(overlap(a, b) for k, a in enumerate(boxes) for b in boxes[:k])
        for source, target, _ in layout.edges:  # what is read lies above
            assert layout.nodes[source].y < layout.nodes[target].y


def within(box: Box, around: Box) -> bool:
    near = 1e-6
    return (
        box.x >= around.x - near
        and box.y >= around.y - near
        and box.x + box.width <= around.x + around.width + near
        and box.y + box.height <= around.y + around.height + near
    )


def overlap(a: Box, b: Box) -> bool:
    near = 1e-6
    return (
        a.x + near < b.x + b.width
        and b.x + near < a.x + a.width
        and a.y + near < b.y + b.height
        and b.y + near < a.y + a.height
    )


# ------------------------------------------------------------------ large ones


@pytest.mark.sized
@pytest.mark.parametrize("binds", [False, True])
def test_a_deep_chain(binds: bool) -> None:
    """Calls, each of the one before: as one expression, and bound by lets."""
    x = Var("x", ty=constant(1.0).ty)
    value, bound, length = x, [], amount(5000, 100_000)
    for n in range(length):
        call = Call(ABS, (value,), ty=x.ty)
        if binds:
            bound.append((Var(f"y{n}", ty=x.ty), call))
        value = bound[-1][0] if binds else call
    for var, call in reversed(bound):
        value = Let(var, call, value, ty=x.ty)
    graph = graph_of(Module({GlobalVar("main"): Function((x,), value, x.ty)}))
    assert len(graph.nodes) == length + 1
    (ranks, _) = plan(graph).ranks
    assert len(ranks) == length + 1


def test_deep_nesting() -> None:
    """Branches in branches: every picture of them is made without recursion."""
    c, x = Var("c", ty=constant(True).ty), Var("x", ty=constant(1.0).ty)
    value: Expr = x
    for _ in range(1500):
        value = If(c, Call(ABS, (value,), ty=x.ty), x, ty=x.ty)
    mod = Module({GlobalVar("main"): Function((c, x), value, x.ty)})
    graph = graph_of(mod)
    assert [c.kind for c in graph.clusters].count("branch") == 3000
    assert len(tree(graph).splitlines()) == 1 + 3 * 1500  # one branch of each is empty
    assert svg(graph).count("<rect") == 1 + len(graph.nodes) + 1501
    assert len(pdf(graph)) > 100_000
    assert dot(graph).count("subgraph") == 1501
    assert len(page("deep", [Stage("imported", mod)])) > 100_000


def test_edges_within_a_cluster_always_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of steps between clusters, edges between these do not."""
    text = (
        "def @main(%x: float32, %c: bool) { let %a = abs(%x); let %b = exp(%a); if (%c) { nn.relu(%b) } else { %a } }"
    )
    graph = graph_of(legato.parse(text))
    monkeypatch.setattr(layout, "_CROSS", -1)
    found = plan(graph)
    labels = [[graph.nodes[n].label for kind, n in edge if kind == "node"] for edge in found.edges[0]]
    assert labels == [["%x", "abs"], ["abs", "exp"], ["%c", "if"], ["abs", "if"]]
    assert lay_out(graph).nodes.keys() == set(range(len(graph.nodes)))


def test_a_wide_layer() -> None:
    nodes = [Node("parameter", "%x", cluster=0)]
    nodes += [Node("operator", "abs", inputs=(0,), cluster=0) for _ in range(3000)]
    nodes.append(Node("tuple", "tuple", inputs=tuple(range(1, 3001)), cluster=0))
    main = graph_of(legato.parse("def @main() { 1 }")).clusters
    layout = lay_out(Graph(tuple(nodes), main))
    row = sorted((layout.nodes[n] for n in range(1, 3001)), key=lambda box: box.x)
    assert all(a.x + a.width < b.x for a, b in itertools.pairwise(row))
    middle = layout.nodes[3001].x + layout.nodes[3001].width / 2
    assert middle == pytest.approx(layout.width / 2, rel=0.02)
