"""Element types."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields, replace

import pytest

from legato.base.dtype import ALL_DTYPES, DType


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_a_copy_knows_what_follows_from_the_fields(dtype: DType) -> None:
    same = [pickle.loads(pickle.dumps(dtype)), copy.deepcopy(dtype), replace(dtype)]
    facts = [(d, d.bytes, d.is_float, d.is_int, d.is_bool, d.is_storage) for d in same]
    assert facts == [(dtype, dtype.bytes, dtype.is_float, dtype.is_int, dtype.is_bool, dtype.is_storage)] * 3


def test_only_what_a_dtype_is_made_of_are_fields() -> None:
    """Attributes are copied and compared by the fields of what they hold."""
    assert [f.name for f in fields(DType)] == ["name", "kind", "bits"]
