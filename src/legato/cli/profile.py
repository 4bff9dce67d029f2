"""where the time goes: each kernel's, against this machine's roofline

Runs the program again and again, takes the time of every kernel, and compares it with the least that this machine
needs, by its measured multiply-add rate and the bandwidth of the cache or memory in which the operands lie. Sorted by
the time lost; kernels below 70 % of their roofline are listed with the cause."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from legato.cli import _arguments
from legato.cli._answer import Answer, Tell, rows, seconds, size
from legato.cli._files import write_text
from legato.cli._generators import add_generators, take_generators

if TYPE_CHECKING:
    from legato.profile import KernelProfile, Profile

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """F, inputs, how long to run, and what to write."""
    parser.add_argument("model", type=Path, metavar="F", help="a model, or a .legato file")
    _arguments.add_inputs(parser, fill="random")
    _arguments.add_compile(parser)
    add_generators(parser)
    parser.add_argument("--seconds", type=_arguments.duration, default=2.0, help="how long to run (default: 2)")
    parser.add_argument(
        "--best", action="store_true", help="take the fastest run of each kernel, not the median: for busy machines"
    )
    parser.add_argument("--all", action="store_true", help="show all kernels, not only those that lose most")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a trace for Perfetto or chrome://tracing")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file with the table and charts")


def run(args: argparse.Namespace, tell: Tell) -> Answer:
    """Profiles the program."""
    from legato.profile import profile
    from legato.runtime.fill import feeds

    _arguments.require_use_of_inputs(args)
    exe = _arguments.executable(args, tell, take_generators(args))
    arrays = None if args.input is None else _arguments.read_arrays(args.input)
    given = feeds(exe.program.functions[exe.function], arrays, args.fill, dims=dict(args.dim), seed=args.seed)
    found = profile(exe, given, seconds=args.seconds, best=args.best, progress=tell)
    inputs = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in given.items())
    data = {"model": str(args.model), "inputs": inputs, **found.to_json()}
    if args.trace is not None:
        from legato.profile.trace import trace_json

        write_text(args.trace, trace_json(found))
    if args.html is not None:
        from legato.profile.html import html

        write_text(args.html, html(found, str(args.model), inputs))
    return Answer(data, _text(found, str(args.model), inputs, FEW if not args.all else len(found.kernels)))


FEW = 24  # kernels that are shown
HEADINGS = ("kernel", "calls", "time", "share", "GFLOP/s", "GB/s", "of peak", "bound by", "lost", "made of")


def _text(p: Profile, model: str, inputs: str, shown: int) -> str:
    head = [("model", model), ("inputs", inputs), ("machine", p.on)]
    if p.machine is not None:
        m = p.machine
        peaks = ", ".join(f"{level} {rate / 1e9:.0f}" for level, rate in m.bandwidths.items())
        head.append(("peaks", f"{m.flops / 1e9:.0f} GFLOP/s; GB/s: {peaks}"))
    head.append(("run", f"{seconds(p.seconds)} ({p.statistic} of {p.runs}), {_percent(p.share)} of the roofline"))
    table: list[tuple[str, ...]] = [HEADINGS, *(_row(k, p.total) for k in p.kernels[:shown])]
    rest = p.kernels[shown:]
    if rest:
        table.append(_part(f"{len(rest)} more (--all)", sum(k.calls for k in rest), sum(k.seconds for k in rest), p))
    table.append(_part("outside kernels", None, p.overhead, p))
    table.append(_part("sum", sum(k.calls for k in p.kernels), p.total, p))
    parts = [rows(head), "", rows(table, right=(1, 2, 3, 4, 5, 6, 8)), *filter(None, [p.busy])]
    slow = [k for k in p.kernels if k.causes]
    if slow:
        parts += ["", "below 70 % of the roofline", *(_slow(k) for k in slow[:shown])]
    if p.note:
        parts += ["", p.note]
    return "\n".join(parts)


def _part(name: str, calls: int | None, time: float, p: Profile) -> tuple[str, ...]:
    """A row that is no kernel's."""
    return name, "" if calls is None else str(calls), seconds(time), _percent(time / p.total)


def _row(k: KernelProfile, total: float) -> tuple[str, ...]:
    rates = [f"{n / k.seconds / 1e9:.1f}" if n and k.seconds else "" for n in (k.flops, k.bytes)]
    bound = "" if k.bound is None else k.bound.by
    lost = "" if k.bound is None else seconds(k.lost)
    return (
        k.name, str(k.calls), seconds(k.seconds), _percent(k.seconds / total), *rates, _percent(k.share), bound, lost,
        k.made_of,
    )  # fmt: skip


def _slow(k: KernelProfile) -> str:
    lines = [f"  {k.name}: {_percent(k.share)}, {seconds(k.lost)} lost, {k.threads:.1f} threads busy, {size(k.bytes)}"]
    lines += [f"    {seconds(c.seconds)}  {c.what}" for c in k.causes]
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
