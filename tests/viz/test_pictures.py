"""SVG, PDF, Graphviz and trees: each can be read again, and holds every node; names of a stranger do no harm."""

from __future__ import annotations

import re
import zlib
from xml.etree import ElementTree

import pytest

import legato
from legato.ir.expr import Call, Function, GlobalVar, Var, constant
from legato.ir.module import Module
from legato.ops import table
from legato.viz import dot, graph_of, notebook_html, pdf, svg, tree
from legato.viz.graph import with_shares
from tests.viz.graphs import FUSED

ABS = table()["abs"]

SVG = "{http://www.w3.org/2000/svg}"
NASTY = [
    "</title><script>alert(1)</script>",
    '"; }',
    "a\\",
    "\n\0\x0b",
    "]]>",
    "&amp;",
    "ü∀😀",
    "\ud800",
    "x" * 500,
    "%s{}",
]


def strange(name: str) -> Module:
    """A module of which a function and a parameter are called so."""
    x = Var(name, ty=constant(1.0).ty)
    return Module({GlobalVar(name): Function((x,), Call(ABS, (x,), ty=x.ty), x.ty)})


def test_svg_holds_every_node() -> None:
    graph = graph_of(legato.parse(FUSED))
    root = ElementTree.fromstring(svg(graph))
    boxes = root.findall(f"{SVG}g")
    assert len(boxes) == len(graph.nodes) + len(graph.clusters)
    texts = {t.text for t in root.iter(f"{SVG}text")}
    assert {"@main", "nn.dense + nn.relu", "nn.dense", "nn.relu", "float32[2, 3]", "%x"} <= texts
    assert len(root.findall(f"{SVG}path")) == sum(len(n.inputs) for n in graph.nodes)


def test_shares_of_time_are_shown() -> None:
    graph = with_shares(graph_of(legato.parse(FUSED)), {}, {1: 1e-5})
    assert tree(graph).splitlines()[1].endswith("float32[2, 3] <0.1 %")
    graph = with_shares(graph_of(legato.parse(FUSED)), {}, {1: 0.375})
    assert "nn.dense + nn.relu 37.5 %" in svg(graph)
    assert "nn.dense + nn.relu 37.5 %" in dot(graph)
    assert b"nn.dense + nn.relu 37.5 %" in pdf(graph)
    assert "fused: nn.dense + nn.relu  float32[2, 3] 37.5 %" in tree(graph)


@pytest.mark.parametrize("name", NASTY)
def test_names_of_a_stranger(name: str) -> None:
    graph = graph_of(strange(name))
    root = ElementTree.fromstring(svg(graph).encode())
    assert {e.tag.removeprefix(SVG) for e in root.iter()} == {"svg", "rect", "g", "title", "text", "path"}
    require_pdf(pdf(graph))
    require_dot(dot(graph))
    assert len(tree(graph).splitlines()) >= 2
    assert "<script" not in notebook_html(strange(name))


def test_dot() -> None:
    text = dot(graph_of(legato.parse(FUSED)))
    require_dot(text)
    assert 'label="nn.dense + nn.relu"' in text
    assert 'label="nn.dense\\nfloat32[2, 3]"' in text
    assert text.count("->") == 4
    assert text.count("subgraph") == 2


def require_dot(text: str) -> None:
    """Strings end where they should, and braces are closed."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "s", text)
    assert '"' not in bare
    assert bare.count("{") == bare.count("}")
    assert re.fullmatch(r"[\w\s{}=\[\];,>-]*", bare), bare


def test_pdf() -> None:
    graph = graph_of(legato.parse(FUSED))
    content = require_pdf(pdf(graph))
    for text in ("(nn.dense)", "(float32[2, 3])", "(@main)"):
        assert text.encode() in content
    assert content.count(b" c S") == 4
    assert content.count(b" re B") == len(graph.nodes) + len(graph.clusters)


def require_pdf(data: bytes) -> bytes:
    """The table says where the objects are, and parentheses of strings are closed; what draws the page."""
    assert data.startswith(b"%PDF-1.6\n")
    assert data.endswith(b"%%EOF\n")
    place = int(re.search(rb"startxref\n(\d+)", data)[1])  # type: ignore[index]  # there is one
    table = data[place:]
    assert table.startswith(b"xref\n0 7\n")
    entries = re.findall(rb"(\d{10}) 00000 n \n", table)
    assert len(entries) == 6
    for n, entry in enumerate(entries, 1):
        assert data[int(entry) :].startswith(b"%d 0 obj\n" % n)
    length, content = re.search(rb"/Length (\d+) >>\nstream\n(.*)\nendstream", data, re.DOTALL).groups()  # type: ignore[union-attr]
    assert int(length) == len(content)
    for string in re.findall(rb"Tm \((.*)\) Tj", content):
        assert re.fullmatch(rb"(?:[^()\\]|\\.)*", string)
    assert content.count(b"BT") == content.count(b" Tj ET")
    return bytes(content)


def test_a_picture_that_is_larger_than_pages_may_be() -> None:
    value = x = Var("x", ty=constant(1.0).ty)
    for _ in range(400):
        value = Call(ABS, (value,), ty=x.ty)
    data = pdf(graph_of(Module({GlobalVar("main"): Function((x,), value, x.ty)})))
    require_pdf(data)
    height = float(re.search(rb"/MediaBox \[0 0 \S+ (\S+)\]", data)[1])  # type: ignore[index]
    unit = float(re.search(rb"/UserUnit (\S+)", data)[1])  # type: ignore[index]
    assert height <= 14400
    assert unit > 1


def test_the_same_picture_every_time() -> None:
    digests = {zlib.crc32(pdf(graph_of(legato.parse(FUSED)))) for _ in range(2)}
    assert len(digests) == 1


# ------------------------------------------------------------------ trees


def test_tree() -> None:
    assert tree(graph_of(legato.parse(FUSED))) == (
        "@main(%x: float32[2, 4], %w: float32[3, 4]) -> float32[2, 3]\n"
        "├─ fused: nn.dense + nn.relu  float32[2, 3]\n"
        "│  ├─ nn.dense  float32[2, 3]\n"
        "│  └─ nn.relu  float32[2, 3]\n"
        "└─ abs  float32[2, 3]"
    )


def test_tree_of_branches() -> None:
    text = """
def @main(%c: bool, %x: Tensor[(2,), float32]) {
  nn.relu(if (%c) { abs(%x) } else { nn.softmax(%x, axis=0) })
}"""
    assert tree(graph_of(legato.parse(text))) == (
        "@main(%c: bool, %x: float32[2]) -> float32[2]\n"
        "├─ then\n"
        "│  └─ abs  float32[2]\n"
        "├─ else\n"
        "│  └─ nn.softmax  float32[2]  {axis=0}\n"
        "├─ if  float32[2]\n"
        "└─ nn.relu  float32[2]"
    )


def test_tree_of_loop_programs() -> None:
    from legato.base.target import host
    from legato.driver import CompileOptions
    from legato.viz import stages

    found = stages(legato.parse("def @main(%x: Tensor[(2,), float32]) { nn.relu(%x) }"), CompileOptions(host()))
    assert found.note == ""
    assert tree(graph_of(found.stages[-1].module)) == (
        "@main(%x: float32[2]) -> float32[2]\n└─ @relu_0  float32[2]  {nn.relu}\nloop programs: @relu_0"
    )


# ------------------------------------------------------------------ notebooks


def test_notebooks_show_small_modules_as_pictures() -> None:
    shown = legato.parse(FUSED)._repr_html_()
    assert shown == notebook_html(legato.parse(FUSED))
    assert "<svg" in shown
    assert "nn.dense" in shown


def test_notebooks_show_large_modules_as_text() -> None:
    value = x = Var("x", ty=constant(1.0).ty)
    for _ in range(100):
        value = Call(ABS, (value,), ty=x.ty)
    shown = Module({GlobalVar("main"): Function((x,), value, x.ty)})._repr_html_()
    assert shown.startswith("<details><summary>1 functions (@main), 100 operations</summary><pre>")
    assert "abs(%x)" in shown
    assert "<svg" not in shown
