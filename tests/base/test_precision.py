"""The precision option: names, and what it says of others."""

from __future__ import annotations

import pytest

import legato
from legato.base.errors import CompileError
from legato.base.precision import Precision, precision


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
