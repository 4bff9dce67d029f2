"""What was measured, as a line on the terminal and as the README's table."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from legato.bench.statistics import ENOUGH, Ratio
from legato.bench.table import Row, Table

__all__ = [
    "BEGIN",
    "END",
    "NAMES",
    "add_markdown",
    "add_outputs",
    "footer",
    "line",
    "markdown",
    "milliseconds",
    "publish",
    "write_region",
]

NAMES = {
    "legato": "Legato",
    "legato-exact": "Legato, exact",
    "legato-fast": "Legato, fast",
    "legato-bfloat16": "Legato, bfloat16",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "openvino-bf16": "OpenVINO, bfloat16",
    "torch": "PyTorch",
    "tensorflow": "TensorFlow",
    "tensorflow-xla": "TensorFlow, XLA",
    "mxnet": "MXNet",
    "tvm": "TVM",
}
BEGIN = "<!-- benchmarks: written by tools.bench from its JSON in docs -->"
END = "<!-- end of benchmarks -->"
NONE = "–"


def milliseconds(value: float | None) -> str:
    """A time in milliseconds, to three digits or more."""
    if value is None:
        return NONE
    ms = value * 1e3
    return f"{ms:.1f}" if ms >= 100 else f"{ms:.2f}" if ms >= 1 else f"{ms:.3f}"


def engines(table: Table) -> list[str]:
    """The engines that some row has, in the order of `NAMES`."""
    found = {engine for row in table.rows for engine in [*row.seconds, *row.missing]}
    return [engine for engine in NAMES if engine in found]


# ------------------------------------------------------------------------------------------------- on the terminal


def line(row: Row) -> str:
    """Everything about one row, in a few lines."""
    times = "  ".join(f"{engine} {milliseconds(value)}" for engine, value in row.seconds.items())
    place = f"fork-join {row.fork_join * 1e6:.2f} µs, {row.within} of {row.rounds} rounds"
    lines = [f"{row.name:20} {times} ms  ({place})" if times else f"{row.name:20} nothing ran"]
    lines += [f"{'':20} {ratio.median:.3f}× {engine} {interval(ratio)}" for engine, ratio in row.ratios.items()]
    lines += [f"{'':20} {engine} did not run: {why}" for engine, why in row.missing.items()]
    lines += [f"{'':20} OUTPUTS DIFFER from {engine}'s by {row.distances[engine]}" for engine in row.differ]
    return "\n".join([*lines, f"{'':20} {verdict(row)}"])


def interval(ratio: Ratio) -> str:
    """Where the true median is, and how sure that is."""
    return f"({ratio.low:.3f} to {ratio.high:.3f}, confidence {ratio.confidence:.1%})"


def verdict(row: Row) -> str:
    """Whether the row counts, and what it says."""
    if row.ratio is None:
        return "does not count: there is nothing to compare"
    if row.differ:
        return "does not count: outputs differ"
    if row.within < ENOUGH:
        return f"does not count: {row.within} rounds in one mode, {ENOUGH} are wanted"
    if not row.counts:
        return "does not count: the interval is wider than ±2 %"
    return f"counts: {'at least as fast as' if row.reached else 'SLOWER than'} {row.rival}"


def footer(table: Table) -> str:
    """What all rows say together."""
    rows = [row for row in table.rows if row.scored]
    counting = [row for row in rows if row.counts]
    mean = "" if table.mean is None else f"; geometric mean {table.mean:.3f}× over {len(table.scored)}"
    return (
        f"{len(rows)} models of the table: {len(counting)} count, {sum(row.reached for row in rows)} at least as fast "
        f"as the faster of ONNX Runtime and OpenVINO{mean}"
    )


# -------------------------------------------------------------------------------------------------- in the README


def markdown(table: Table) -> str:
    """The table as Markdown, and below it what it was measured with."""
    columns = engines(table)
    head = ["model", *(NAMES[engine] for engine in columns), "ratio", "rounds", "fork-join", "compile"]
    lines = [cells(head), cells(["---", *["--:"] * (len(head) - 1)])]
    for row in table.rows:
        times = [milliseconds(row.seconds.get(engine)) for engine in columns]
        place = [str(row.within), f"{row.fork_join * 1e6:.2f} µs"]
        lines.append(cells([row.title, *times, shown(row), *place, compiled(row)]))
    return "\n".join([*lines, "", *legend(table)])


def cells(values: Sequence[str]) -> str:
    """One line of a table."""
    return f"| {' | '.join(values)} |"


def shown(row: Row) -> str:
    """The ratio: alone if the row counts, else its interval in parentheses."""
    if row.ratio is None:
        return NONE
    if row.differ:
        return "outputs differ"
    if row.counts:
        return f"{row.ratio.median:.2f}×"
    return f"({row.ratio.low:.2f}–{row.ratio.high:.2f})"


def compiled(row: Row) -> str:
    """Seconds to compile, cold and from the kernel cache."""
    return NONE if row.cold is None or row.cached is None else f"{row.cold:.1f} / {row.cached:.1f} s"


def legend(table: Table) -> list[str]:
    """What the figures mean; the mean ratio."""
    versions = ", ".join(f"{NAMES[engine]} {version}" for engine, version in table.versions.items() if engine in NAMES)
    text = [
        f"Machine: {table.machine} ({table.target}), {table.threads} threads; {versions}.",
        "Milliseconds of one call at batch 1, medians. The ratio is the time of the faster of ONNX Runtime and",
        "OpenVINO divided by Legato's: the median over rounds in which both run side by side, known within ±2 % (the",
        "sign test's interval of 95 %). It is that interval in parentheses where the row does not count, because it is",
        "wider or there are fewer than 30 rounds in which the cores were equally near each other (the fork-join time",
        "shows how near). Compile times are of a fresh process, imports included, with an empty and with a full kernel",
        "cache.",
    ]
    if table.mean is not None:
        text.append(
            f"Geometric mean of the ratios of {len(table.scored)} models with random weights: {table.mean:.2f}×."
        )
    return text


def write_region(path: Path, content: str, begin: str = BEGIN, end: str = END) -> None:
    """Put `content` between the markers of a file; ValueError where it has none."""
    before, behind = _around_region(path, begin, end)
    path.write_text(f"{before}{content}\n{behind}", "utf-8")


def _around_region(path: Path, begin: str, end: str) -> tuple[str, str]:
    """The text of a file up to its one region between the markers, and behind it; ValueError where it has none."""
    text = path.read_text("utf-8")
    found = list(re.finditer(rf"(?<={re.escape(begin)}\n).*?(?={re.escape(end)})", text, re.DOTALL))
    if len(found) != 1:
        raise ValueError(f"{path} has {len(found)} regions between {begin} and {end}, not one")
    return text[: found[0].start()], text[found[0].end() :]


def add_markdown(parser: ArgumentParser, begin: str = BEGIN, end: str = END) -> None:
    """The flag for a file with one region between the markers, which is looked at before anything is measured."""

    def page(text: str) -> Path:
        path = Path(text)
        try:
            _around_region(path, begin, end)
        except OSError as error:
            raise ArgumentTypeError(f"{text!r} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None
        return path

    parser.add_argument("--markdown", type=page, metavar="F", help="write the table between the markers of this file")


def add_outputs(parser: ArgumentParser, begin: str, end: str) -> None:
    """The flags that say where figures go."""
    parser.add_argument("--json", type=Path, metavar="F", help="write the figures here")
    add_markdown(parser, begin, end)


def publish(args: Namespace, figures: Mapping[str, Any], table: str, begin: str, end: str) -> None:
    """Print the table; write it and the figures where the flags of `add_outputs` say."""
    print(table)
    if args.json is not None:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")
    if args.markdown is not None:
        write_region(args.markdown, table, begin, end)
