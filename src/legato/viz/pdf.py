"""A graph as a PDF of one page, drawn with lines, boxes and the font Courier that every reader of PDF has."""

from __future__ import annotations

from typing import Final

from legato.viz.graph import Graph
from legato.viz.layout import CHARACTER, Box, Layout, curve, lay_out, shortened, title
from legato.viz.style import CLUSTERS, EDGE, NODES, TEXT

__all__ = ["pdf"]

_SIZE: Final = 11  # of the font, whose characters are 0.6 as wide
_LARGEST: Final = 14_400.0  # units of a side that readers take; a unit of a larger page is longer


def pdf(graph: Graph) -> bytes:
    """The picture as the content of a file. Characters that are not in Latin-1 are shown as ?."""
    layout = lay_out(graph)
    unit = max(1.0, layout.width / _LARGEST, layout.height / _LARGEST)
    box = f"[0 0 {layout.width / unit:.2f} {layout.height / unit:.2f}]"
    page = f"<< /Type /Page /Parent 2 0 R /MediaBox {box} /Contents 4 0 R /UserUnit {unit:.4f} "
    page += "/Resources << /Font << /F 5 0 R /B 6 0 R >> >> >>"
    drawing = _drawing(graph, layout, unit).encode("latin-1", "replace")
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /{} /Encoding /WinAnsiEncoding >>"
    return _file([
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        page.encode(),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing),
        font.format("Courier").encode(),
        font.format("Courier-Bold").encode(),
    ])  # fmt: skip


def _file(objects: list[bytes]) -> bytes:
    """A file of these objects, with the table of where they are."""
    out = bytearray(b"%PDF-1.6\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for n, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (n, content)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(out)


def _drawing(graph: Graph, layout: Layout, unit: float) -> str:
    """What draws the page: its y axis points down, as that of the layout."""
    scale = 1 / unit
    parts = [f"{scale:.6f} 0 0 {-scale:.6f} 0 {layout.height * scale:.2f} cm 0.8 w"]
    for c, box in sorted(layout.clusters.items()):
        cluster = graph.clusters[c]
        parts.append(_box(box, *CLUSTERS[cluster.kind]))
        parts.append(_text(title(cluster), box.x + 8, box.y + 15, "B"))
    parts.append(f"{_colour(EDGE)} RG")
    for source, target, port in layout.edges:
        x = curve(layout.nodes[source], layout.nodes[target], port, len(graph.nodes[target].inputs))
        parts.append("{:.1f} {:.1f} m {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} c S".format(*x))
    for n, box in layout.nodes.items():
        node = graph.nodes[n]
        parts.append(_box(box, *NODES[node.kind]))
        parts.append(_centred(title(node), box, 15, "B"))
        if node.type:
            parts.append(_centred(shortened(node.type), box, 29, "F"))
    return "\n".join(parts)


def _box(box: Box, ground: str, edge: str) -> str:
    place = f"{box.x:.1f} {box.y:.1f} {box.width:.1f} {box.height:.1f}"
    return f"{_colour(ground)} rg {_colour(edge)} RG {place} re B"


def _centred(text: str, box: Box, down: float, font: str) -> str:
    return _text(text, box.x + (box.width - CHARACTER * len(text)) / 2, box.y + down, font)


def _text(text: str, x: float, y: float, font: str) -> str:
    plain = "".join(c if c.isprintable() else "?" for c in text.replace("…", "..."))
    escaped = plain.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return f"{_colour(TEXT)} rg BT /{font} {_SIZE} Tf 1 0 0 -1 {x:.1f} {y:.1f} Tm ({escaped}) Tj ET"


def _colour(code: str) -> str:
    """`#rrggbb` as three numbers from 0 to 1."""
    return " ".join(f"{int(code[n : n + 2], 16) / 255:.3f}" for n in (1, 3, 5))
