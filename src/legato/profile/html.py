"""A profile as one HTML file that needs nothing else: a table, where the time goes, and the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from legato.profile.charts import BARS, bars, roofline
from legato.profile.report import KernelProfile, Profile

__all__ = ["COLOURS", "html"]

COLOURS = """
:root { color-scheme: light dark; --ground: #fff; --text: #222; --note: #666; --faint: #ddd; --line: #888;
  --hover: #f2f4f8; --slow: #b00020; --needed: #3b6fb6; --lost: #e0803a; }
@media (prefers-color-scheme: dark) { :root { --ground: #16181c; --text: #ddd; --note: #999; --faint: #333;
  --hover: #23262d; --slow: #ff8a80; --needed: #5b8fd6; } }
"""  # of pages: light and dark
_STYLE = (
    COLOURS
    + """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 84em; padding: 0 1em;
  color: var(--text); background: var(--ground); }
h1 { font-size: 1.4em; overflow-wrap: anywhere; } h2 { font-size: 1.1em; margin: 2em 0 .5em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1.5em; }
dt { color: var(--note); } dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } .note { color: var(--note); } .slow { color: var(--slow); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
p, ul { max-width: 60em; }
th, td { padding: .15em .7em; text-align: right; white-space: nowrap; vertical-align: top; }
th:first-child, td:first-child { padding-left: 0; }
th { border-bottom: 1px solid var(--line); } tbody tr:hover td { background: var(--hover); }
tfoot tr:first-child td { border-top: 1px solid var(--line); }
.text { text-align: left; } td.wide { text-align: left; white-space: normal; overflow-wrap: anywhere; }
@media (max-width: 60em) { td.wide { white-space: nowrap; } }
li { margin: .2em 0; } .key { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
svg { display: block; min-width: 720px; max-width: 100%; }
svg text { font: 11px system-ui, sans-serif; fill: var(--text); paint-order: stroke; stroke: var(--ground);
  stroke-width: 3px; stroke-linejoin: round; }
.needed { fill: var(--needed); background: var(--needed); } .lost { fill: var(--lost); background: var(--lost); }
.grid { stroke: var(--faint); stroke-width: .7; } .roof { stroke: var(--line); fill: none; }
"""
)


def html(p: Profile, model: str, inputs: str) -> str:
    """The page: text in UTF-8, no scripts, no references to anything outside."""
    parts = [
        f"<h1>{escape(model)}</h1>",
        _facts(p, inputs),
        *(f'<p class="note">{escape(note)}</p>' for note in (p.note, p.busy) if note),
        "<h2>Where the time goes</h2>" + bars(p) + _bars_key(p),
        "<h2>Roofline</h2>" + roofline(p) + _ROOFLINE_KEY if p.machine is not None else "",
        "<h2>Kernels, by the time they lose</h2>" + _table(p),
        _causes(p),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(model)}: profile</title><style>{_STYLE}</style>"
    )
    body = "\n".join(filter(None, parts))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _facts(p: Profile, inputs: str) -> str:
    share = "" if p.share is None else f", {100 * p.share:.0f} % of the roofline"
    facts = [
        ("inputs", inputs),
        ("machine", p.on),
        ("run", f"{p.seconds * 1e3:.3f} ms ({p.statistic} of {p.runs}){share}"),
    ]
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts) + "</dl>"


def _bars_key(p: Profile) -> str:
    few = f"The {BARS} longest of {len(p.kernels)} kernels. " if len(p.kernels) > BARS else ""
    colours = '<i class="key needed"></i>needed by this machine at least, <i class="key lost"></i>lost beyond that'
    text = few + (colours if p.machine is not None else "")
    return f'<p class="note">{text}</p>' if text else ""


_ROOFLINE_KEY = (
    '<p class="note">A circle is a kernel, its area the time; <i class="key lost"></i>below 70 % of its bound.'
    " Bytes count once, wherever they lie. Rest the pointer on a circle or a bar to see what it is.</p>"
)


# ---------------------------------------------------------------------------------------------------- table


_HEADS = ("kernel", "calls", "µs", "share", "GFLOP/s", "GB/s", "of peak", "bound by", "lost µs", "made of")
_LEFT = ("kernel", "bound by", "made of")


def _table(p: Profile) -> str:
    head = "".join(f'<th class="text">{h}</th>' if h in _LEFT else f"<th>{h}</th>" for h in _HEADS)
    rows = [_row(_cells(k, p.total), "slow" if k.causes else "") for k in p.kernels]
    rest = [
        ("outside kernels", "", f"{p.overhead * 1e6:.1f}", _percent(p.overhead / p.total)),
        ("sum", str(sum(k.calls for k in p.kernels)), f"{p.total * 1e6:.1f}", _percent(1)),
    ]
    slow = any(k.causes for k in p.kernels)
    key = '<p class="note"><span class="slow">Red</span>: below 70 % of the roofline.</p>' if slow else ""
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>' + "\n".join(rows) + "</tbody>\n"
        "<tfoot>" + "".join(_row(cells) for cells in rest) + f"</tfoot></table></div>{key}"
    )


def _row(cells: Sequence[str], kind: str = "") -> str:
    kinds = {"kernel": "text", "bound by": "text", "made of": "wide"}
    filled = [*cells, *[""] * (len(_HEADS) - len(cells))]
    shown = [
        f'<td class="{kinds[h]}">{escape(c)}</td>' if h in kinds else f"<td>{escape(c)}</td>"
        for h, c in zip(_HEADS, filled, strict=True)
    ]
    return (f'<tr class="{kind}">' if kind else "<tr>") + "".join(shown) + "</tr>"


def _cells(k: KernelProfile, total: float) -> list[str]:
    rates = [f"{n / k.seconds / 1e9:.1f}" if n and k.seconds else "" for n in (k.flops, k.bytes)]
    bound = ["", "", ""] if k.bound is None else [f"{100 * (k.share or 0):.0f} %", k.bound.by, f"{k.lost * 1e6:.1f}"]
    return [k.name, str(k.calls), f"{k.seconds * 1e6:.1f}", _percent(k.seconds / total), *rates, *bound, k.made_of]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _causes(p: Profile) -> str:
    slow = [k for k in p.kernels if k.causes]
    if not slow:
        return ""
    items = [
        f"<li><b>{escape(k.name)}</b>, {k.lost * 1e6:.1f} µs lost: "
        + "; ".join(f"{c.seconds * 1e6:.1f} µs {escape(c.what)}" for c in k.causes)
        + "</li>"
        for k in slow
    ]
    return "<h2>Below 70 % of the roofline</h2><ul>" + "\n".join(items) + "</ul>"
