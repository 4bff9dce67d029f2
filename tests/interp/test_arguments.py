"""Arguments of data types: all through of their type, as compiled programs want them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.base.errors import RunError
from legato.infer.infer import infer
from legato.interp import Data, evaluate
from legato.ir.parser import parse
from legato.ops import table

MODULE = infer(
    parse(
        """#[version = "0.0.5"]
type List[A] { Nil, Cons(A, List[A]) }
type Square { Square(Tensor[(a, a), float32]) }
def @main(%l: List[Square]) { match (%l) { Cons(Square(%x), _) => sum(%x), Nil => 0f } }
""",
        ops=table(),
    )
)
CON = {c.name: c for data in MODULE.types.values() for c in data.constructors}
NIL = Data(CON["Nil"], ())


def _square(shape: tuple[int, ...], dtype: str = "float32") -> Data:
    return Data(CON["Square"], (np.ones(shape, dtype),))


def test_long_lists() -> None:
    value = NIL
    for _ in range(5000):
        value = Data(CON["Cons"], (_square((2, 2)), value))
    assert evaluate(MODULE, [value]) == 4


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones(2, np.float32), "got a ndarray, wanted a value of List[Square]"),
        (_square((2, 2)), "Square is no constructor of List[Square]"),
        (Data(CON["Cons"], (NIL, NIL)), "Nil is no constructor of Square"),
        (Data(CON["Cons"], (NIL,)), "Cons has 1 fields, wanted 2"),
        (Data(CON["Cons"], (_square((2, 3)), NIL)), "field 0 of Square: dim 1 is 3, wanted a = 2"),
        (Data(CON["Cons"], (_square((2, 2), "float64"), NIL)), "field 0 of Square: got dtype float64, wanted float32"),
        (Data(CON["Cons"], (_square((2, 2)), None)), "got a NoneType, wanted a value of List[Square]"),
    ],
)
def test_refused(value: Any, message: str) -> None:
    with pytest.raises(RunError) as caught:
        evaluate(MODULE, [value])
    assert str(caught.value) == f"@main, %l: {message}"
