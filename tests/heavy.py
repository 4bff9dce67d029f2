"""What the default run leaves out: one place for the marker, the share of samples, and the models that are large.

    @pytest.mark.heavy                                     a test of its own
    @pytest.mark.parametrize("x", light(XS, LIGHT))        all of XS, those not in LIGHT heavy
    @pytest.mark.parametrize("x", share(XS, 3, str))       all of XS, one in three light: the same in every run
    @pytest.mark.shared(3)                                 all sets of parameters, one in three light, and one at least

Tests that are heavy repeat what lighter ones of the same kind check: other targets, more sizes, larger models.
`make heavy` runs them; so does LEGATO_HEAVY=1, and LEGATO_FUZZ, which asks for more than that.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Container, Iterable
from itertools import groupby
from typing import Any

import pytest

__all__ = ["BIG", "HEAVY", "amount", "light", "mark_shared", "marked", "picked", "share"]

HEAVY = any(os.environ.get(f"LEGATO_{name}", "0") not in ("", "0") for name in ("HEAVY", "FUZZ"))

# Models that take the interpreter seconds. The default run compiles them and compares with ONNX Runtime.
BIG = frozenset({
    "bert_base", "bert_base_batch", "convnext_tiny", "densenet121", "inception_v3", "resnet50_batch", "vgg16",
    "vgg16_batch", "vit_b_16",
})  # fmt: skip


def amount(few: Any, many: Any) -> Any:
    """`few` in the default run, `many` in `make heavy`: for tests that are marked `sized`."""
    return many if HEAVY else few


def marked(*values: Any, heavy: bool, name: str | None = None) -> Any:
    """One set of parameters, heavy or not."""
    return pytest.param(*values, id=name, marks=pytest.mark.heavy if heavy else ())


def light(values: Iterable[Any], wanted: Container[Any]) -> list[Any]:
    """`values` as parameters: those that are not `wanted` in the default run are heavy."""
    return [marked(value, heavy=value not in wanted) for value in values]


def picked(name: str, one_in: int) -> bool:
    """Whether this is the one in so many that the default run tries: the same in every run."""
    return zlib.crc32(name.encode()) % one_in == 0


def share(values: Iterable[Any], one_in: int, name: Callable[[Any], str] = str) -> list[Any]:
    """`values` as parameters: one in so many, by its name, is light."""
    return [marked(v, heavy=not picked(name(v), one_in)) for v in values]


def mark_shared(items: Iterable[pytest.Item]) -> None:
    """Marks as heavy what `shared` leaves out."""
    found = [item for item in items if item.get_closest_marker("shared") is not None]
    for _, group in groupby(found, lambda item: item.nodeid.partition("[")[0]):
        for item in sorted(group, key=_is_left_out)[1:]:
            if _is_left_out(item):
                item.add_marker("heavy")


def _is_left_out(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("shared")
    assert mark is not None
    return not picked(item.name, *mark.args)
