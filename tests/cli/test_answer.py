"""Answers as text: tables, sizes and times."""

from __future__ import annotations

import pytest

from legato.cli._answer import rows, seconds, size


def test_rows() -> None:
    assert rows([("a", "1"), ("bcd", "22")], right=(1,)) == "a     1\nbcd  22"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (46_800_000, "46.8 MB"), (2 * 10**12, "2000.0 GB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(("value", "text"), [(65e-9, "0.1 µs"), (0.00123, "1.23 ms"), (2.1, "2.10 s")])
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text
