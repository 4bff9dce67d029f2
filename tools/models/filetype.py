"""Magika: which of 214 kinds of content some bytes are (the preparation is that of the package `magika`)."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import cache

import numpy as np
from PIL import Image

from tools.models.record import Array, Feeds, Model, cached

SIDE, BLOCK, PADDING = 1024, 4096, 256

PYTHON = b'"""Counts words."""\n\nimport sys\nfrom collections import Counter\n\n\ndef main() -> None:\n' + (
    b"    words = Counter(sys.stdin.read().split())\n    for word, count in words.most_common(10):\n"
    b'        print(f"{count:6d} {word}")\n\n\nif __name__ == "__main__":\n    main()\n'
)
C = b"#include <stdio.h>\n#include <stdlib.h>\n\nstatic int square(int x) { return x * x; }\n\n" + (
    b'int main(int argc, char **argv) {\n    for (int i = 1; i < argc; i++)\n        printf("%d\\n", '
    b"square(atoi(argv[i])));\n    return EXIT_SUCCESS;\n}\n"
)
HTML = b"<!DOCTYPE html>\n<html lang='en'>\n<head><title>Notes</title></head>\n" + (
    b"<body><h1>Legato</h1><p>Notes tied together <em>without a gap</em>.</p></body>\n</html>\n"
)
SHELL = b'#!/usr/bin/env bash\nset -euo pipefail\ncd "$(dirname "$0")"\nfor f in *.txt; do\n  wc -l "$f"\ndone\n'


def png() -> bytes:
    """A small picture, as a PNG file."""
    file = io.BytesIO()
    Image.fromarray(np.add.outer(np.arange(64), 3 * np.arange(64)).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def document() -> bytes:
    """Some records, as JSON."""
    rows = [{"id": row, "name": f"row {row}", "values": [row, row * row], "even": row % 2 == 0} for row in range(40)]
    return json.dumps({"version": 1, "rows": rows}, indent=2).encode()


def samples() -> list[bytes]:
    """Files of eight kinds."""
    dockerfile = b'FROM debian:12\nRUN apt-get update && apt-get install -y python3\nCOPY . /app\nCMD ["/app/run"]\n'
    table = b"id,name,price\n" + b"".join(b"%d,item %d,%d.50\n" % (row, row, row) for row in range(60))
    return [PYTHON, png(), document(), C, HTML, SHELL, table, dockerfile]


def features(content: bytes) -> Array:
    """The first and the last 1024 bytes without white space at the ends, padded inwards: int32 [2048]."""
    begin = content[:BLOCK].lstrip()[:SIDE]
    end = content[-BLOCK:].rstrip()[-SIDE:]
    row = np.full(2 * SIDE, PADDING, np.int32)
    row[: len(begin)] = np.frombuffer(begin, np.uint8)
    row[2 * SIDE - len(end) :] = np.frombuffer(end, np.uint8)
    return row


@cache
def labels() -> list[str]:
    """The model's kinds of content, in the order of its scores."""
    return list(json.loads(cached("magika.json").read_text())["target_labels_space"])


def decode(outputs: Sequence[Array]) -> tuple[str, ...]:
    """The most likely kind of each row."""
    return tuple(labels()[index] for index in outputs[0].argmax(axis=-1))


def cases() -> tuple[Feeds, ...]:
    """The samples, one alone, three, and eight at a time."""
    rows = np.stack([features(content) for content in samples()])
    return tuple({"bytes": rows[:count]} for count in (1, 3, 8))


KINDS = ("python", "png", "json", "c", "html", "shell", "csv", "dockerfile")
MODELS = (Model("magika", "kinds of file content", cases, decode, (KINDS[:1], KINDS[:3], KINDS), 15, ("batch",)),)
