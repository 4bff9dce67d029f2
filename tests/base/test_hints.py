"""Annotations behind aliases: what is meant, however it was named."""

from __future__ import annotations

from typing import Any, TypeVar, get_origin

import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import TypeAliasType  # `type X = …` of Python 3.12

from legato.base.hints import unaliased

A, B = TypeVar("A"), TypeVar("B")
Ints = TypeAliasType("Ints", tuple[int, ...])
Array = TypeAliasType("Array", np.ndarray[Any, np.dtype[A]], type_params=(A,))
Swapped = TypeAliasType("Swapped", tuple[B, A], type_params=(A, B))


@pytest.mark.parametrize(
    ("hint", "meant"),
    [
        (int, int),
        (Any, Any),
        (tuple[int, ...], tuple[int, ...]),
        (Ints, tuple[int, ...]),
        (Ints | None, tuple[int, ...] | None),
        (tuple[Ints, Ints | float], tuple[tuple[int, ...], tuple[int, ...] | float]),
        (Array[Any], np.ndarray[Any, np.dtype[Any]]),
        (Swapped[int, str], tuple[str, int]),
        (TypeAliasType("Again", Ints), tuple[int, ...]),
    ],
)
def test_an_alias_is_what_it_stands_for(hint: Any, meant: Any) -> None:
    assert unaliased(hint) == meant


def test_the_arrays_of_this_numpy_are_arrays() -> None:
    assert get_origin(unaliased(NDArray[Any])) is np.ndarray
