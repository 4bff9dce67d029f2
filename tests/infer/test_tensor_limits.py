"""Tensors that no array can hold are type errors: stated, or as the result of an operator."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.arith.expr import const
from legato.base import dtype as dt
from legato.base.errors import TypeCheckError
from legato.ir.kinds import tensor_fault
from legato.ir.types import TensorType, TupleType

ONES = "1, " * 64


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("(%x: Tensor[(-1, 784), float32]) { %x }", "no extent is negative, got Tensor[(-1, 784), float32]"),
        ("(%x: int32) { let %f = fn (%y: Tensor[(-2), int8]) { %y }; %x }", "no extent is negative"),
        (
            "(%x: Tensor[(4611686018427387904, 0), float32]) { %x }",
            "a tensor has at most 2^63 bytes, its extents of 0 left out",
        ),
        ("() { ones(shape=[4611686018427387904, 0]) }", "ones: the result: a tensor has at most 2^63 bytes"),
        (f"(%x: float32) {{ reshape(%x, newshape=[{ONES}1]) }}", "reshape: the result: a tensor has at most 64"),
        ("(%x: float32) { expand_dims(%x, axis=0, num_newaxis=4294967296) }", "expand_dims: a tensor has at most 64"),
        ("(%x: Tensor[(4294967296), int8]) { split(%x, indices_or_sections=4294967296).0 }", "split: a tuple has"),
    ],
)  # fmt: skip
def test_refused(body: str, message: str) -> None:
    with pytest.raises(TypeCheckError) as error:
        legato.parse(f'#[version = "0.0.5"]\ndef @main{body}')
    assert error.value.message.startswith(message)
    assert error.value.span is not None


@pytest.mark.parametrize(
    "shape",
    [(), (0,), (2**62, 0), (2**61, 0), (2**61 - 1, 0), (2**60, 2, 0), (1,) * 64, (1,) * 65, (0, 2**31, 2**31)],
    ids=str,
)
def test_limits_are_those_of_arrays(shape: tuple[int, ...]) -> None:
    ty = TensorType(tuple(map(const, shape)), dt.float32)
    for each in (ty, TupleType((ty, ty))):
        if tensor_fault(each) is None:
            np.empty(shape, np.float32)
        else:
            with pytest.raises(ValueError, match="maximum"):
                np.empty(shape, np.float32)
