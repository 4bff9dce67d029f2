"""A program at every stage of its compilation, as one HTML file that needs nothing else.

The page holds the graphs and texts of all stages as JSON, and draws what is looked at. Strings are there once, and
lines of text without the numbers of graph bindings. Lines are compared without names, by what stands in them and which
constants their nodes read: a pass that removes one binding renumbers the rest, and one that puts operators into a group
names what they read anew. So operands that change places are not seen.
Names in a model are a stranger's: the page puts them in as text alone, and its policy lets nothing run or load but what
this package brings.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

import numpy as np

from legato.base.strings import bits
from legato.ir.printer import show_with_lines
from legato.profile.html import COLOURS
from legato.viz.build import graph_of
from legato.viz.graph import Cluster, Graph, Node
from legato.viz.layout import Unit, plan
from legato.viz.stages import Stage
from legato.viz.style import CLUSTERS, LEAST, NODES

__all__ = ["page"]

Array = np.ndarray[Any, Any]
Shares = Callable[[Graph], Graph]

_NUMBER: Final = re.compile(r"%(0|[1-9][0-9]{0,8})(?![A-Za-z0-9_/])")  # a graph binding
_HOLE: Final = "\1"
_BINDING: Final = re.compile(
    r'(?:let )?(?:%(?:"(?:[^"\\]|\\.)*"|[A-Za-z0-9_/]+)|\x01)(?:: [^={]*)? = '
)  # `let %x: T = `
_NAME: Final = re.compile(r'%"(?:[^"\\]|\\.)*"|%[A-Za-z0-9_/]+|\x01|meta\[relay\.Constant\]\[[0-9]+\]')
_HIDDEN: Final = frozenset({"constant"})  # what is told of its readers
_SCRIPTS: Final = ("layout.js", "diff.js", "page.js")


def page(title: str, stages: Sequence[Stage], *, note: str = "", start: int = 0, shares: Shares | None = None) -> str:
    """The page, in UTF-8. `start`: the stage that it opens with; `shares`: puts shares of time, or
    other marks, into a graph."""
    data = _Data()
    shown = [data.stage(stage, shares) for stage in stages]
    held = {
        "stages": shown,
        "start": start,
        "strings": list(data.strings),
        "templates": list(data.templates),
    }
    package = files("legato.viz")
    scripts = (package.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = "\n".join((f'"use strict";\nconst LEAST = {LEAST};', *scripts))
    style = COLOURS + package.joinpath("page.css").read_text(encoding="utf-8") + _colours()
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}"
    name = escape(title.encode("utf-8", "replace").decode())
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{style}</style></head>\n<body>\n"
        f"{_BODY.format(title=name, note=escape(note.encode('utf-8', 'replace').decode()))}"
        f'<script type="application/json" id="data">{_json(held)}</script>\n'
        f"<script>{script}</script>\n</body></html>\n"
    )


_BODY = """<header><h1>{title}</h1>
<label>stage <input type="range" id="stage" min="0" value="0"></label><span id="name"></span><span id="changed"></span>
<label><input type="checkbox" id="removed"> lines that are gone</label>
<input type="search" id="search" placeholder="search: operators, names, shapes"><button id="next">next</button>
<span id="found"></span>
<button id="fold">close all</button><button id="unfold">open all</button><button id="fit">fit</button>
<button id="home">start</button><div id="note">{note}</div></header>
<main><section id="graph"><svg id="canvas"></svg></section>
<section id="text"><div id="space"><div id="lines"></div></div></section></main>
<footer><dl id="told"></dl></footer>
"""


def _hash(content: str) -> str:
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _json(data: Mapping[str, Any]) -> str:
    """JSON inside an element: what could end the element, or begin a comment in it, is written as an escape."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _colours() -> str:
    kinds = [*((f"k-{kind}", c) for kind, c in NODES.items()), *((f"c-{kind}", c) for kind, c in CLUSTERS.items())]
    return "\n".join(f".{name} {{ fill: {ground}; stroke: {edge}; }}" for name, (ground, edge) in kinds) + (
        "\n#canvas text { stroke: none; }\n"
    )


def _compared(template: str) -> str:
    """What lines have in common that differ only in how deep they stand, and in the names of what they bind and read;
    constants are names, too: in a group they are parameters."""
    line = template.strip().removesuffix(";")
    bound = _BINDING.match(line)
    return _NAME.sub("%", line[bound.end() :] if bound else line)


def _constants(graph: Graph) -> dict[int, list[Array]]:
    """The constants that the nodes of each line read, in order."""
    found: dict[int, list[Array]] = {}
    for node in graph.nodes:
        read = [graph.nodes[n].data for n in node.inputs]
        found.setdefault(node.line, []).extend(data for data in read if data is not None)
    return found


class _Data:
    """What stages have in common: strings and lines, by number."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.templates: dict[str, int] = {}
        self.compared: list[str] = []  # by number of the template
        self.keys: dict[tuple[str, tuple[str, ...]], int] = {}
        self.digests: dict[int, tuple[Array, str]] = {}  # by id of the array

    def stage(self, stage: Stage, shares: Shares | None) -> dict[str, Any]:
        """One stage as JSON data."""
        text, lines = show_with_lines(stage.module)
        graph = graph_of(stage.module, lines)
        if shares is not None:
            graph = shares(graph)
        planned = plan(graph, _HIDDEN)
        constants = _constants(graph)
        shown = [self._line(line) for line in text.rstrip("\n").split("\n")]
        return {
            "name": stage.name,
            "lines": shown,
            "keys": [self._key(template, constants.get(n, ())) for n, (template, *_) in enumerate(shown)],
            "nodes": [[*self._told(n), n.cluster, n.line, _rounded(n.share), n.inputs] for n in graph.nodes],
            "clusters": [[*self._told(c), c.parent, c.line, _rounded(c.share)] for c in graph.clusters],
            "ranks": [[[_number(unit) for unit in rank] for rank in ranks] for ranks in planned.ranks],
            "edges": [[_number(unit) for edge in edges for unit in edge] for edges in planned.edges],
        }

    def _line(self, line: str) -> list[int]:
        template = _NUMBER.sub(_HOLE, line)
        known = self.templates.setdefault(template, len(self.templates))
        if known == len(self.compared):
            self.compared.append(_compared(template))
        return [known, *map(int, _NUMBER.findall(line))]

    def _key(self, template: int, constants: Sequence[Array]) -> int:
        """A number that lines have in common which no pass has changed."""
        key = self.compared[template], tuple(map(self._digest, constants))
        return self.keys.setdefault(key, len(self.keys))

    def _digest(self, data: Array) -> str:
        if id(data) not in self.digests:
            found = hashlib.blake2b(bits(data), digest_size=16).hexdigest()
            self.digests[id(data)] = data, f"{data.dtype} {data.shape} {found}"
        return self.digests[id(data)][1]

    def _told(self, part: Node | Cluster) -> list[int]:
        texts = (part.kind, part.label, part.type, part.detail, part.span)
        return [self.strings.setdefault(text, len(self.strings)) for text in texts]


def _number(unit: Unit) -> int:
    """Nodes by their number, clusters behind -1."""
    kind, number = unit
    return number if kind == "node" else -1 - number


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 5)
