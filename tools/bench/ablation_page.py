"""What an ablation has found: as JSON, as the tables of docs/passes_ablation.md, and as its chart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from html import escape
from itertools import cycle
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.bench.statistics import Ratio
from tools.bench.report import cells, milliseconds

__all__ = ["BEGIN", "END", "LAYOUTS", "Figures", "Model", "Step", "chart", "markdown", "slower"]

BEGIN: Final = "<!-- ablation: written by `python -m tools.bench.ablation` from docs/passes_ablation.json -->"
END: Final = "<!-- end of ablation -->"
LAYOUTS: Final = "buffer layouts"
SLOWER: Final = 0.03  # a pass that costs more of a model's time than this share is named
NONE: Final = "·"


@dataclass(frozen=True, slots=True)
class Step:
    """A program of the stack: milliseconds of one call, the median over blocks; its kernels; how many times as fast it
    is as the one before and as the first (None: it is the same program)."""

    name: str
    milliseconds: float
    kernels: int
    before: Ratio | None
    first: Ratio | None

    @property
    def is_slower(self) -> bool:
        """Whether what was added makes the program slower by more than `SLOWER`, outside the noise."""
        return self.before is not None and self.before.clear and self.before.median < 1 / (1 + SLOWER)

    @property
    def gain(self) -> float:
        """How many times as fast as the first."""
        return 1.0 if self.first is None else self.first.median


@dataclass(frozen=True, slots=True)
class Model:
    """The stack of one model; rounds: blocks of each program."""

    name: str
    title: str
    rounds: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """Models that were measured on one machine, on as many threads."""

    machine: str
    threads: int
    models: tuple[Model, ...]

    def with_model(self, model: Model, order: Sequence[str]) -> Figures:
        """The figures with `model` in place of the one of its name, all in `order`."""
        kept = [other for other in self.models if other.name != model.name]
        return replace(self, models=tuple(sorted([*kept, model], key=lambda m: order.index(m.name))))

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON data."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Figures:
        """The figures that `to_json` gave."""
        return Figures(data["machine"], data["threads"], tuple(map(_model, data["models"])))


def _model(data: Mapping[str, Any]) -> Model:
    return Model(data["name"], data["title"], data["rounds"], tuple(map(_step, data["steps"])))


def _step(data: Mapping[str, Any]) -> Step:
    ratios = (None if data[name] is None else Ratio(**data[name]) for name in ("before", "first"))
    return Step(data["name"], data["milliseconds"], data["kernels"], *ratios)


def slower(model: Model) -> list[str]:
    """A line for each step that makes the model slower by more than `SLOWER`."""
    ratios = [(step.name, step.before) for step in model.steps if step.is_slower]
    return [f"{name} makes {model.title} slower: {r.median:.2f}× ({r.low:.2f}–{r.high:.2f})" for name, r in ratios if r]


# ------------------------------------------------------------------------------------------------------------- tables


def markdown(figures: Figures) -> str:
    """Milliseconds and gains, a row for each step; then what is slower, and how it was measured."""
    names = _names(figures)
    head = [cells(["with", *(m.title for m in figures.models)]), cells(["---", *["--:"] * len(figures.models)])]
    idle = _idle(figures)
    rows = [cells([name, *(_cell(m, name) for m in figures.models)]) for name in names if name not in idle]
    total = cells(["in all", *(f"{m.steps[-1].gain:.2f}×" for m in figures.models)])
    kernels = cells(["kernels", *(f"{m.steps[0].kernels} → {m.steps[-1].kernels}" for m in figures.models)])
    named = [line for m in figures.models for line in slower(m)]
    share = f"{100 * SLOWER:.0f} %"
    told = (
        [f"Slower by more than {share}:", "", *(f"- {line}" for line in named)]
        if named
        else [f"No step makes a model slower by more than {share}."]
    )
    told += ["", f"The same programs with and without: {', '.join(idle)}."] if idle else []
    threads = "one thread" if figures.threads == 1 else f"{figures.threads} threads"
    rounds = min((m.rounds for m in figures.models), default=0)
    legend = (
        f"Milliseconds of one call, medians over at least {rounds} blocks, on {threads} of "
        f"{figures.machine}; behind them how many times as fast as the row above. {NONE} is the same program as above."
    )
    return "\n".join([*head, *rows, total, kernels, "", *told, "", legend])


def _names(figures: Figures) -> list[str]:
    """The names of all steps, in order."""
    return list(dict.fromkeys(step.name for model in figures.models for step in model.steps))


def _idle(figures: Figures) -> list[str]:
    """The names of the steps that change no program."""
    return [name for name in _names(figures) if all(_cell(m, name) == NONE for m in figures.models)]


def _cell(model: Model, name: str) -> str:
    step = next((s for s in model.steps if s.name == name), None)
    if step is None or (step.before is None and step is not model.steps[0]):
        return NONE
    time = milliseconds(step.milliseconds / 1e3)
    return time if step.before is None else f"{time} ({step.before.median:.2f}×)"


# -------------------------------------------------------------------------------------------------------------- chart

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 960, 480, 50, 20, 110, 150
GRID = 4  # lines from one power of two to the next
COLOURS = ("#1b6ca8", "#c8553d", "#2e8b57", "#8e44ad", "#b8860b", "#444444", "#d6336c")


def chart(figures: Figures) -> str:
    """How many times as fast as the first each program of the stack is, a line for each model, as SVG."""
    names = [name for name in _names(figures) if name not in _idle(figures)]
    axes = _Axes(names, [step.gain for model in figures.models for step in model.steps])
    labels = _apart([axes.y(model.steps[-1].gain) for model in figures.models])
    lines = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', *axes.drawn()]
    for model, colour, label in zip(figures.models, cycle(COLOURS), labels, strict=False):
        points = " ".join(f"{axes.x(s.name):.1f},{axes.y(s.gain):.1f}" for s in model.steps if s.name in names)
        told = f"{model.title.partition(',')[0]} {model.steps[-1].gain:.2f}×"
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines.append(_text(WIDTH - RIGHT + 8, label + 4, told, f'fill="{colour}"'))
    inside = "\n".join(lines)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n{inside}\n</svg>\n'


class _Axes:
    """Steps from left to right; gains upwards, logarithmic."""

    def __init__(self, names: Sequence[str], gains: Sequence[float]) -> None:
        self.names = names
        self.low = math.floor(GRID * math.log2(min(gains, default=1.0)))
        self.high = max(self.low + 1, math.ceil(GRID * math.log2(max(gains, default=1.0))))

    def x(self, name: str) -> float:
        """Where a step is."""
        return LEFT + self.names.index(name) * (WIDTH - LEFT - RIGHT) / max(1, len(self.names) - 1)

    def y(self, gain: float) -> float:
        """Where a gain is."""
        return TOP + (self.high - GRID * math.log2(gain)) * (HEIGHT - TOP - BOTTOM) / (self.high - self.low)

    def drawn(self) -> Iterator[str]:
        """Lines of the grid, and the names of the steps."""
        for line in range(self.low, self.high + 1):
            gain = 2.0 ** (line / GRID)
            y = self.y(gain)
            yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            yield _text(LEFT - 6, y + 4, f"{gain:.2f}×", 'text-anchor="end"')
        for name in self.names:
            x, y = self.x(name), HEIGHT - BOTTOM + 16.0
            yield _text(x, y, name, f'text-anchor="end" transform="rotate(-40 {x:.1f} {y:.1f})"')


def _text(x: float, y: float, text: str, more: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-family="sans-serif" font-size="12" {more}>{escape(text)}</text>'


def _apart(places: Sequence[float], least: float = 14.0) -> list[float]:
    """`places`, moved down where labels would lie on each other."""
    found = list(places)
    last = -math.inf
    for n in sorted(range(len(found)), key=lambda n: found[n]):
        last = found[n] = max(found[n], last + least)
    return found
