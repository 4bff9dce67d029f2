"""Reads a scanned page with PP-OCR's three networks, compiled by Legato and run by ONNX Runtime, side by side.

Usage: python -m tools.demo [PICTURE] [--threads N] [-o out/page.png]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.table import Table

import legato
from legato.cli._progress import progress
from tools.models import get
from tools.models.images import image
from tools.models.page import Line, Run, read_page
from tools.models.record import Array

Tell = Callable[[str], None]
NETWORKS = ("ppocr_det", "ppocr_cls", "ppocr_rec")
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Reader:
    """Three networks, ready to run: where is text, which way up is it, what does it say."""

    name: str
    networks: tuple[Run, Run, Run]
    ready: float  # seconds from the files to here
    cpu: float  # of processors, those of compile workers among them

    def read(self, page: Image.Image) -> tuple[list[Line], float]:
        """The lines of `page`, and the seconds that reading took."""
        start = time.perf_counter()
        lines = read_page(page, *self.networks)
        return lines, time.perf_counter() - start


def reader(name: str, prepare: Callable[[Path, Tell], Run], tell: Tell) -> Reader:
    """A reader whose networks `prepare` makes from their files; `tell` hears which, and how far it is."""
    start, before, networks = time.perf_counter(), cpu_seconds(), list[Run]()
    for network in NETWORKS:
        tell(what := f"{name} gets {network} ready")
        networks.append(prepare(get(network).path(), lambda part, what=what: tell(f"{what}: {part}")))  # type: ignore[misc]
    detect, classify, recognise = networks
    return Reader(name, (detect, classify, recognise), time.perf_counter() - start, cpu_seconds() - before)


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for, outside of the system."""
    return sum(getrusage(who).ru_utime for who in (RUSAGE_SELF, RUSAGE_CHILDREN))


def with_legato(path: Path, threads: int, tell: Tell) -> Run:
    """One network, compiled for pictures of any size."""
    run = legato.compile(path, threads=threads, progress=tell)

    def call(x: Array) -> Array:
        y = run(x)
        assert isinstance(y, np.ndarray)
        return y

    return call


def with_onnxruntime(path: Path, threads: int) -> Run:
    """One network in ONNX Runtime, with as many threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def call(x: Array) -> Array:
        y: Array = session.run(None, {name: x})[0]
        return y

    return call


def measure(readers: tuple[Reader, Reader], page: Image.Image, tell: Tell) -> list[tuple[list[Line], float]]:
    """What each reader reads, and its median time of some rounds in turn, after one to warm up."""
    tell("reading the page")
    read = [reader.read(page)[0] for reader in readers]
    times: list[list[float]] = [[], []]
    for number in range(ROUNDS):
        tell(f"reading the page: round {number + 1} of {ROUNDS}")
        for index, each in enumerate(readers):
            times[index].append(each.read(page)[1])
    return [(lines, statistics.median(taken)) for lines, taken in zip(read, times, strict=True)]


def draw(page: Image.Image, lines: list[Line], path: Path) -> None:
    """Write the page with boxes, and below it what was read, each line where it stands."""
    scale = max(1, 1200 // page.width)
    picture = page.resize((page.width * scale, page.height * scale), Image.Resampling.LANCZOS)
    sheet = Image.new("RGB", (picture.width, 2 * picture.height), "white")
    sheet.paste(picture)
    pen = ImageDraw.Draw(sheet, "RGBA")
    for line in lines:
        corners = [(x * picture.width, y * picture.height) for x, y in line.box]
        pen.polygon(corners, fill=(46, 134, 222, 40), outline=(46, 134, 222, 255), width=2)
        width, height = corners[1][0] - corners[0][0], corners[3][1] - corners[0][1]
        ten = ImageFont.load_default(10).getlength(line.text) / 10
        font = ImageFont.load_default(max(8, min(0.72 * height, width / ten)))
        middle = (corners[0][1] + corners[3][1]) / 2 + picture.height
        pen.text((corners[0][0], middle), line.text, fill=(20, 20, 20, 255), font=font, anchor="lm")
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)


def report(console: Console, readers: tuple[Reader, Reader], results: list[tuple[list[Line], float]]) -> bool:
    """Print the text, the agreement and the times; whether both read the same."""
    (ours, our_time), (theirs, their_time) = results
    equal = [line.text for line in ours] == [line.text for line in theirs]
    text = Table(title="What the page says", title_justify="left")
    text.add_column("line", justify="right")
    for each in readers:
        text.add_column(each.name)
    for index in range(max(len(ours), len(theirs))):
        pair = [lines[index].text if index < len(lines) else "" for lines in (ours, theirs)]
        text.add_row(str(index + 1), pair[0], "same" if pair[0] == pair[1] else pair[1])
    times = Table(title="How long it takes", title_justify="left")
    for column in ("", "ready after", "of CPU", "reads the page in"):
        times.add_column(column, justify="right" if column else "left")
    for each, (_, taken) in zip(readers, results, strict=True):
        times.add_row(each.name, f"{each.ready:.2f} s", f"{each.cpu:.1f} s", f"{taken * 1e3:.0f} ms")
    console.print(text, times)
    faster = f"{their_time / our_time:.2f} times as fast as" if our_time <= their_time else "slower than"
    ratio = "" if our_time <= their_time else f" by {our_time / their_time:.2f}"
    console.print(
        f"Both read {'the same text' if equal else 'DIFFERENT TEXT'}; Legato is {faster} ONNX Runtime{ratio}."
    )
    return equal


def main() -> int:
    """Read the page; 0 if Legato and ONNX Runtime agree."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=__doc__)
    parser.add_argument("picture", nargs="?", type=Path, help="a page of your own; else the one of scikit-image")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-o", "--output", type=Path, default=Path("out/page.png"))
    args = parser.parse_args()
    console = Console()
    page = Image.open(args.picture).convert("RGB") if args.picture else image("page.png")
    with progress("demo", quiet=False, plain=True) as tell:
        tell("three networks are compiled first, some 25 s of CPU; later the kernel cache has them")
        readers = (
            reader("Legato", lambda path, tell: with_legato(path, args.threads, tell), tell),
            reader("ONNX Runtime", lambda path, tell: with_onnxruntime(path, args.threads), tell),
        )
        results = measure(readers, page, tell)
    equal = report(console, readers, results)
    draw(page, results[0][0], args.output)
    console.print(f"The page with its boxes, and what was read: {args.output}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
