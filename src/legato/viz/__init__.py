"""Pictures of programs: the graph of a module as data, and what is drawn of it.

`graph_of(mod)` is the data; `svg`, `pdf`, `dot` and `tree` draw it, and `page` makes one HTML file that shows a program
at every stage of its compilation. `legato show` and `legato.contrib.relay_viz` are made of these.
"""

from __future__ import annotations

from legato.viz.build import graph_of
from legato.viz.dot import dot
from legato.viz.graph import Cluster, Graph, Node
from legato.viz.notebook import notebook_html
from legato.viz.page import page
from legato.viz.pdf import pdf
from legato.viz.stages import Stage, Stages, stages
from legato.viz.svg import svg
from legato.viz.tree import tree

__all__ = [
    "Cluster",
    "Graph",
    "Node",
    "Stage",
    "Stages",
    "dot",
    "graph_of",
    "notebook_html",
    "page",
    "pdf",
    "stages",
    "svg",
    "tree",
]
