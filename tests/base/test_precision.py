"""The precision option: names, what it says of others, and which numbers it keeps."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError
from legato.base.precision import Precision, precision
from tests.machines import EVERY_NAME

HALVES = """#[version = "0.0.5"]
def @main(%x: Tensor[(65536), float16], %y: Tensor[(65536), float32]) {
  (cast(%x, dtype="float32"), cast(%y, dtype="float16"), multiply(%y, 2f))
}"""


@pytest.mark.parametrize("one", list(Precision), ids=lambda p: p.value)
def test_names(one: Precision) -> None:
    assert precision(one.value) is one
    assert precision(one) is one


def test_none_is_the_default() -> None:
    assert precision(None) is Precision.DEFAULT


def test_unknown_names() -> None:
    text = '#[version = "0.0.5"] def @main(%x: Tensor[(2), float32]) { %x }'
    with pytest.raises(CompileError) as caught:
        legato.compile(legato.parse(text), precision="half")
    names = ", ".join(p.value for p in Precision)
    assert str(caught.value) == f"error: unknown precision 'half'\n  hint: one of {names}"


@pytest.mark.parametrize("target", EVERY_NAME)
@pytest.mark.parametrize("precision", [None, "exact"])
def test_subnormal_numbers_are_kept_by_exact_only_those_of_float16_always(target: str, precision: str | None) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    numbers = np.concatenate(
        [np.nan_to_num(halves[::2]).astype(np.float32), np.geomspace(1e-44, 1e-6, 1 << 15, dtype=np.float32)]
    )
    wide, narrow, twice = legato.compile(legato.parse(HALVES), target=target, precision=precision)(halves, numbers)
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    np.testing.assert_array_equal(narrow, numbers.astype(np.float16))
    kept = numbers if precision == "exact" else np.where(np.abs(numbers) < np.finfo(np.float32).tiny, 0, numbers)
    np.testing.assert_array_equal(twice, kept * 2)
