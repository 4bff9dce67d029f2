"""A profile as one HTML file that needs nothing else: a table, where the time goes, and the roofline."""

from __future__ import annotations

import math
from html import escape

from legato.profile.report import KernelProfile, Profile

__all__ = ["html"]

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15em .7em; text-align: right; white-space: nowrap; }
th { border-bottom: 1px solid #888; cursor: default; } tr:hover td { background: #f2f4f8; }
.name { text-align: left; } .slow td { color: #b00020; } .note { color: #666; }
svg text { font: 11px system-ui, sans-serif; fill: #333; } svg { max-width: 100%; }
@media (prefers-color-scheme: dark) {
  body { background: #16181c; color: #ddd; } tr:hover td { background: #23262d; } svg text { fill: #ccc; }
  .slow td { color: #ff8a80; }
}
"""
_BARS = 40  # kernels in the chart of times
_WIDTH, _HEIGHT, _MARGIN = 900, 420, 60


def html(p: Profile, model: str, inputs: str) -> str:
    """The page: text in UTF-8, no scripts, no references to anything outside."""
    facts = f"{inputs} · {p.target} · {p.threads} threads · {p.statistic} of {p.runs} runs: {p.seconds * 1e3:.3f} ms"
    parts = [
        f"<h1>{escape(model)}</h1><p>{escape(facts)}</p>",
        f'<p class="note">{escape(p.note)}</p>' if p.note else "",
        "<h2>Where the time goes</h2>",
        _bars(p),
        "<h2>Roofline</h2>" + _roofline(p) if p.machine is not None else "",
        "<h2>Kernels, by the time they lose</h2>",
        _table(p),
        _causes(p),
    ]
    head = f'<meta charset="utf-8"><title>{escape(model)}: profile</title><style>{_STYLE}</style>'
    return (
        f"<!DOCTYPE html>\n<html><head>{head}</head>\n<body>\n" + "\n".join(filter(None, parts)) + "\n</body></html>\n"
    )


# ---------------------------------------------------------------------------------------------------- table


def _table(p: Profile) -> str:
    heads = ["kernel", "calls", "µs", "share", "GFLOP/s", "GB/s", "of peak", "bound by", "lost µs", "made of"]
    total = p.overhead + sum(k.seconds for k in p.kernels)
    lines = ["".join(f'<th class="name">{h}</th>' if h in ("kernel", "made of") else f"<th>{h}</th>" for h in heads)]
    lines += [_cells(k, total) for k in p.kernels]
    over = f'<td class="name">overhead</td><td></td><td>{p.overhead * 1e6:.1f}</td><td>{p.overhead / total:.1%}</td>'
    rows = [f"<tr{_class(k)}>{line}</tr>" for k, line in zip([None, *p.kernels], lines, strict=True)]
    return "<table>" + "\n".join([*rows, f"<tr>{over}</tr>"]) + "</table>"


def _class(k: KernelProfile | None) -> str:
    return ' class="slow"' if k is not None and k.causes else ""


def _cells(k: KernelProfile, total: float) -> str:
    rates = [f"{n / k.seconds / 1e9:.1f}" if n and k.seconds else "" for n in (k.flops, k.bytes)]
    bound = ("", "", "") if k.bound is None else (f"{k.share or 0:.0%}", k.bound.by, f"{k.lost * 1e6:.1f}")
    cells = [str(k.calls), f"{k.seconds * 1e6:.1f}", f"{k.seconds / total:.1%}", *rates, *bound]
    made = escape(" ".join(k.operators))
    return (
        f'<td class="name">{escape(k.name)}</td>{"".join(f"<td>{c}</td>" for c in cells)}<td class="name">{made}</td>'
    )


def _causes(p: Profile) -> str:
    slow = [k for k in p.kernels if k.causes]
    if not slow:
        return ""
    items = [
        f"<li>{escape(k.name)}: {'; '.join(f'{c.seconds * 1e6:.1f} µs: {escape(c.what)}' for c in k.causes)}</li>"
        for k in slow
    ]
    return "<h2>Below 70 % of the roofline</h2><ul>" + "\n".join(items) + "</ul>"


# ---------------------------------------------------------------------------------------------------- charts


def _bars(p: Profile) -> str:
    """A bar for each kernel: what its bound allows, and what it loses."""
    kernels = sorted(p.kernels, key=lambda k: -k.seconds)[:_BARS]
    longest = max((k.seconds for k in kernels), default=0.0) or 1.0
    lines = []
    for n, k in enumerate(kernels):
        y, width = 20 * n, 560 * k.seconds / longest
        needed = width if k.bound is None else min(width, 560 * k.bound.seconds / longest)
        lines.append(
            f'<text x="200" y="{y + 14}" text-anchor="end">{escape(k.name)}</text>'
            f'<rect x="208" y="{y + 2}" width="{needed:.1f}" height="15" fill="#3b6fb6"/>'
            f'<rect x="{208 + needed:.1f}" y="{y + 2}" width="{width - needed:.1f}" height="15" fill="#e0803a"/>'
            f'<text x="{214 + width:.1f}" y="{y + 14}">{k.seconds * 1e6:.1f} µs</text>'
        )
    legend = '<p class="note">blue: what this machine needs at least; orange: lost</p>' if p.machine is not None else ""
    return f'<svg viewBox="0 0 {_WIDTH} {20 * len(kernels)}" width="{_WIDTH}">{"".join(lines)}</svg>{legend}'


def _roofline(p: Profile) -> str:
    """Operations per second over operations per byte, both logarithmic; areas of circles are times."""
    assert p.machine is not None
    points = [k for k in p.kernels if k.flops and k.bytes and k.seconds]
    peak = p.machine.flops
    axes = _Axes(
        [k.flops / k.bytes for k in points] + [peak / b for b in p.machine.bandwidths.values()],
        [k.flops / k.seconds for k in points] + [peak],
    )
    lines = axes.grid()
    for level, rate in p.machine.bandwidths.items():
        lines.append(axes.line(axes.left, rate * axes.left, peak / rate, peak, level))
    lines.append(
        axes.line(min(peak / b for b in p.machine.bandwidths.values()), peak, axes.right, peak, "multiply-add")
    )
    most = max((k.seconds for k in points), default=1.0)
    for k in sorted(points, key=lambda k: -k.seconds):
        x, y = axes.at(k.flops / k.bytes, k.flops / k.seconds)
        radius = 3 + 12 * math.sqrt(k.seconds / most)
        color = "#e0803a" if k.causes else "#3b6fb6"
        title = f"{k.name}: {k.flops / k.seconds / 1e9:.1f} GFLOP/s, {k.seconds * 1e6:.1f} µs"
        lines.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{color}" fill-opacity=".55">'
            f"<title>{escape(title)}</title></circle>"
        )
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}">{"".join(lines)}</svg>'


class _Axes:
    """Logarithmic axes over decades."""

    def __init__(self, xs: list[float], ys: list[float]) -> None:
        self.left, self.right = 10.0 ** math.floor(math.log10(min(xs))), 10.0 ** math.ceil(math.log10(max(xs)) + 0.2)
        self.low, self.high = 10.0 ** math.floor(math.log10(min(ys))), 10.0 ** math.ceil(math.log10(max(ys)))

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point in the picture; what is below is on the edge."""
        across = math.log(x / self.left) / math.log(self.right / self.left)
        up = math.log(max(y, self.low) / self.low) / math.log(self.high / self.low)
        return _MARGIN + across * (_WIDTH - 2 * _MARGIN), _HEIGHT - 40 - up * (_HEIGHT - 60)

    def line(self, x0: float, y0: float, x1: float, y1: float, name: str) -> str:
        """A line with its name at the end; the part below the lowest decade is left out."""
        if y0 < self.low:
            x0, y0 = x0 * self.low / y0, self.low
        (a, b), (c, d) = self.at(x0, y0), self.at(x1, y1)
        return (
            f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" stroke="#888"/>'
            f'<text x="{(a + c) / 2:.1f}" y="{(b + d) / 2 - 6:.1f}" text-anchor="end">{name}</text>'
        )

    def grid(self) -> list[str]:
        """Decades with their labels."""
        lines = []
        for n in range(round(math.log10(self.left)), round(math.log10(self.right)) + 1):
            x, y = self.at(10.0**n, self.low)
            lines.append(
                f'<line x1="{x:.1f}" y1="20" x2="{x:.1f}" y2="{y:.1f}" stroke="#ccc" stroke-width=".5"/>'
                f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{10.0**n:g}</text>'
            )
        for n in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1):
            x, y = self.at(self.left, 10.0**n)
            lines.append(
                f'<path d="M{x:.1f} {y:.1f}H{_WIDTH - _MARGIN}" stroke="#ccc" stroke-width=".5"/>'
                f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** (n - 9):g}</text>'
            )
        lines.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 6}" text-anchor="middle">operations per byte</text>')
        lines.append('<text x="6" y="12">GFLOP/s</text>')
        return lines
