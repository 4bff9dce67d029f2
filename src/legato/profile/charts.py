"""Where the time of a profile goes, and its roofline, as SVG; colours are classes that the page defines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from legato.profile.report import KernelProfile, Profile

__all__ = ["BARS", "bars", "roofline"]

BARS = 40  # kernels in the chart of times
_WIDTH, _HEIGHT, _MARGIN = 900, 440, 60
_NAME = 32  # characters of a name that are shown
_CHARACTER = 6.4  # about the width of one
_NAMED = 6  # kernels whose names stand in the roofline, where there is room


def bars(p: Profile) -> str:
    """A bar for each of the longest kernels: what its bound allows, and what it loses."""
    kernels = sorted(p.kernels, key=lambda k: -k.seconds)[:BARS]
    longest = max((k.seconds for k in kernels), default=0.0) or 1.0
    end = round(_CHARACTER * max((len(_short(k.name)) for k in kernels), default=0))  # of the names
    start, scale = end + 8, (_WIDTH - end - 100) / longest
    lines = []
    for n, k in enumerate(kernels):
        y, width = 20 * n, scale * k.seconds
        needed = width if k.bound is None else min(width, scale * k.bound.seconds)
        lines.append(
            f"<g><title>{escape(_told(k))}</title>"
            f'<text x="{end}" y="{y + 14}" text-anchor="end">{escape(_short(k.name))}</text>'
            f'<rect x="{start}" y="{y + 2}" width="{needed:.1f}" height="15" class="needed"/>'
            f'<rect x="{start + needed:.1f}" y="{y + 2}" width="{width - needed:.1f}" height="15" class="lost"/>'
            f'<text x="{start + width + 6:.1f}" y="{y + 14}">{k.seconds * 1e6:.1f} µs</text></g>'
        )
    return _svg(lines, 20 * len(kernels), "time of each kernel")


def roofline(p: Profile) -> str:
    """Operations per second over operations per byte, both logarithmic; areas of circles are times.

    The machine of `p` is known. Kernels without arithmetic are not in it.
    """
    assert p.machine is not None
    points = sorted((k for k in p.kernels if k.flops and k.bytes and k.seconds), key=lambda k: -k.seconds)
    peak, bandwidths = p.machine.flops, p.machine.bandwidths
    axes = _Axes(
        [k.flops / k.bytes for k in points] + [peak / b for b in bandwidths.values()],
        [k.flops / k.seconds for k in points] + [peak],
    )
    lines = axes.grid()
    lines += [axes.slope(rate, peak, f"{level} {rate / 1e9:.0f} GB/s") for level, rate in bandwidths.items()]
    ridge = min((peak / b for b in bandwidths.values()), default=axes.left)
    lines.append(axes.level(ridge, peak, f"multiply-add {peak / 1e9:.0f} GFLOP/s"))
    lines += [*_circles(points, axes), *_names(points, axes)]
    return _svg(lines, _HEIGHT, "operations per second over operations per byte")


def _circles(points: Sequence[KernelProfile], axes: _Axes) -> list[str]:
    """A circle for each kernel, the longest first."""
    circles = []
    for k in points:
        x, y = axes.at(k.flops / k.bytes, k.flops / k.seconds)
        kind = "lost" if k.causes else "needed"
        circles.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_radius(k, points):.1f}" class="{kind}" fill-opacity=".55">'
            f"<title>{escape(_told(k))}</title></circle>"
        )
    return circles


def _names(points: Sequence[KernelProfile], axes: _Axes) -> list[str]:
    """Names beside the circles of those that lose most, unless a name is there already."""
    placed: list[tuple[float, float]] = []
    names = []
    for k in sorted((k for k in points if k.causes), key=lambda k: -k.lost)[:_NAMED]:
        x, y = axes.at(k.flops / k.bytes, k.flops / k.seconds)
        name = _short(k.name)
        if all(abs(x - a) > _CHARACTER * (len(name) + 4) or abs(y - b) > 12 for a, b in placed):
            placed.append((x, y))
            names.append(f'<text x="{x + _radius(k, points) + 3:.1f}" y="{y + 4:.1f}">{escape(name)}</text>')
    return names


def _radius(k: KernelProfile, points: Sequence[KernelProfile]) -> float:
    return 3 + 12 * math.sqrt(k.seconds / points[0].seconds)


def _told(k: KernelProfile) -> str:
    """What is said of a kernel where the pointer rests."""
    calls = f"{k.calls} launches, {k.seconds * 1e6:.1f} µs"
    rate = f", {k.flops / k.seconds / 1e9:.1f} GFLOP/s" if k.flops and k.seconds else ""
    share = "" if k.share is None else f", {100 * k.share:.0f} % of the roofline"
    return f"{k.name}: {k.made_of}\n{calls}{rate}{share}"


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _svg(parts: Sequence[str], height: int, label: str) -> str:
    return (
        f'<div class="scroll"><svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img" aria-label="{label}">\n'
        + "\n".join(parts)
        + "\n</svg></div>"
    )


class _Axes:
    """Logarithmic axes over decades."""

    def __init__(self, xs: list[float], ys: list[float]) -> None:
        self.left, self.right = 10.0 ** math.floor(math.log10(min(xs))), 10.0 ** math.ceil(math.log10(max(xs)) + 0.2)
        self.low, self.high = 10.0 ** math.floor(math.log10(min(ys))), 10.0 ** math.ceil(math.log10(max(ys)) + 0.05)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point in the picture; what is below is on the edge."""
        across = math.log(x / self.left) / math.log(self.right / self.left)
        up = math.log(max(y, self.low) / self.low) / math.log(self.high / self.low)
        return _MARGIN + across * (_WIDTH - 2 * _MARGIN), _HEIGHT - 40 - up * (_HEIGHT - 60)

    def slope(self, rate: float, peak: float, name: str) -> str:
        """A bandwidth up to where arithmetic is the bound, its name along it; what is below the axis is left out."""
        start = max(self.left, self.low / rate)
        (a, b), (c, d) = self.at(start, rate * start), self.at(peak / rate, peak)
        angle = math.degrees(math.atan2(d - b, c - a))
        return (
            f'<path d="M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" class="roof"/>'
            f'<text transform="translate({a:.1f} {b:.1f}) rotate({angle:.1f})" x="10" y="-4">{name}</text>'
        )

    def level(self, ridge: float, peak: float, name: str) -> str:
        """The peak of arithmetic, its name at the right end."""
        (a, b), (c, _) = self.at(ridge, peak), self.at(self.right, peak)
        return (
            f'<path d="M{a:.1f} {b:.1f}H{c:.1f}" class="roof"/>'
            f'<text x="{c:.1f}" y="{b - 5:.1f}" text-anchor="end">{name}</text>'
        )

    def grid(self) -> list[str]:
        """Decades with their labels."""
        lines = []
        for n in range(round(math.log10(self.left)), round(math.log10(self.right)) + 1):
            x, y = self.at(10.0**n, self.low)
            lines.append(
                f'<path d="M{x:.1f} 20V{y:.1f}" class="grid"/>'
                f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{10.0**n:g}</text>'
            )
        for n in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1):
            x, y = self.at(self.left, 10.0**n)
            lines.append(
                f'<path d="M{x:.1f} {y:.1f}H{_WIDTH - _MARGIN}" class="grid"/>'
                f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** (n - 9):g}</text>'
            )
        lines.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 6}" text-anchor="middle">operations per byte</text>')
        lines.append('<text x="6" y="12">GFLOP/s</text>')
        return lines
