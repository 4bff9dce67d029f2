"""What notebooks show of a module."""

from __future__ import annotations

from html import escape

from legato.ir.module import Module
from legato.ir.printer import show
from legato.viz.build import graph_of
from legato.viz.svg import svg

__all__ = ["notebook_html"]

DRAWN = 60  # nodes of a graph that is drawn
LONGEST = 100_000  # characters of the text that are shown


def notebook_html(mod: Module) -> str:
    """The graph of a small module as a picture; of a larger one its size, and its text behind a click."""
    graph = graph_of(mod)
    if len(graph.nodes) <= DRAWN:
        return f'<div style="overflow:auto">{svg(graph)}</div>'
    text = show(mod, metadata=False)
    cut = f"{text[:LONGEST]}\n…" if len(text) > LONGEST else text
    names = ", ".join(f"@{gv.name}" for gv in mod.functions)
    counts = f"{graph.functions} functions ({names[:200]}), {graph.computing} operations"
    return f"<details><summary>{escape(counts)}</summary><pre>{escape(cut)}</pre></details>"
