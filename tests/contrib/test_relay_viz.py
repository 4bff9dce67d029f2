"""`contrib.relay_viz`: what scripts for TVM do with it, as seeds have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from legato import relay
from legato.base.errors import ArtifactError, CompileError, UnsupportedError
from legato.contrib import relay_viz
from legato.contrib.relay_viz import VizEdge, VizNode

TEXT = """
#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) { nn.relu(nn.dense(%x, %w)) }
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written into an empty folder."""
    monkeypatch.chdir(tmp_path)


# As people write it, with the import changed.
LISTING = """
from legato.contrib import relay_viz
# Generate a graphviz DOT visualization
viz = relay_viz.RelayVisualizer(mod)
viz.render("relay_graph")  # Creates relay_graph.pdf
# Or as SVG for notebooks
viz.render("relay_graph", format="svg")
"""


def test_the_listing() -> None:
    exec(LISTING, {"mod": relay.parse(TEXT)})
    assert Path("relay_graph.pdf").read_bytes().startswith(b"%PDF")
    assert "nn.dense" in Path("relay_graph.svg").read_text()


def test_formats(capsys: pytest.CaptureFixture[str]) -> None:
    viz = relay_viz.RelayVisualizer(relay.parse(TEXT), {"w": 1})
    assert viz.render("g", "dot") == "g.dot"
    assert "a parameter that is given" in Path("g.dot").read_text()
    assert viz.render("g", format="html") == "g.html"
    html = Path("g.html").read_text()
    assert "</html>" in html
    assert "a parameter that is given" in html
    assert viz.render() is None
    assert capsys.readouterr().out.startswith("@main(%x: float32[2, 3]")
    with pytest.raises(CompileError, match="no format 'png'\n  hint: one of pdf, svg, dot, html"):
        viz.render("g", format="png")


def test_types_are_inferred() -> None:
    x = relay.var("x", shape=(2, 3))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    relay_viz.RelayVisualizer(mod).render("g", format="svg")
    assert "float32[2, 3]" in Path("g.svg").read_text()


def test_plotters_of_ones_own() -> None:
    drawn: list[Any] = []

    class Graph:
        def node(self, viz_node: VizNode) -> None:
            drawn.append((viz_node.identity, viz_node.type_name))

        def edge(self, viz_edge: VizEdge) -> None:
            drawn.append((viz_edge.start, "->", viz_edge.end))

    class Plotter:
        def create_graph(self, name: str) -> Graph:
            drawn.append(name)
            return Graph()

        def render(self, filename: str | None) -> None:
            drawn.append(filename)

    relay_viz.RelayVisualizer(relay.parse(TEXT), plotter=Plotter()).render("f")
    assert drawn == [
        "main", ("0", "parameter"), ("1", "parameter"), ("2", "operator"), ("0", "->", "2"), ("1", "->", "2"),
        ("3", "operator"), ("2", "->", "3"), "f",
    ]  # fmt: skip


def test_what_is_refused() -> None:
    mod = relay.parse(TEXT)
    with pytest.raises(UnsupportedError, match="parsers of one's own"):
        relay_viz.RelayVisualizer(mod, parser=object())
    with pytest.raises(CompileError, match="draws a module, got a str"):
        relay_viz.RelayVisualizer("m.relay")
    with pytest.raises(CompileError, match="relay_param: got a list"):
        relay_viz.RelayVisualizer(mod, ["w"])  # type: ignore[arg-type]
    wanted = "relay_param: the module has no parameter 'a', 'v'\n  hint: its parameters are w, x$"
    with pytest.raises(CompileError, match=wanted):
        relay_viz.RelayVisualizer(mod, {"v": 1, "w": 1, "a": 1})
    with pytest.raises(ArtifactError, match=r"^cannot write no/such/folder/g\.svg: No such file or directory$"):
        relay_viz.RelayVisualizer(mod).render("no/such/folder/g", format="svg")


def test_notebooks() -> None:
    assert "<svg" in relay.parse(TEXT)._repr_html_()
