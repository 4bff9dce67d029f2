"""Codes of bfloat16 and of what only stores, by NumPy alone, against ml_dtypes."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from legato.base import codes
from legato.base.codes import as_kind, decode, encode, has_codes, restored, stored
from legato.base.dtype import BY_NAME, STORAGE_DTYPES, DType, bfloat16, dtype, float32
from legato.base.formats import IntFormat

KINDS = (bfloat16, *STORAGE_DTYPES)
RNG = np.random.default_rng(0)
BITS = RNG.integers(0, 1 << 32, 1 << 16, np.uint64).astype(np.uint32).view(np.float32)  # NaN and infinities among them
EDGES = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 2**-149, -(2**-126), 2**-127, 1.5 * 2**-127, 3.4e38])
NEAR_CODES = RNG.normal(size=1 << 14).astype(np.float32)


def ids(kind: DType) -> str:
    return kind.name


def halves(kind: DType) -> np.ndarray:
    """The numbers of all codes, and what lies in the middle of two of them: ties."""
    with np.errstate(all="ignore"):
        numbers = np.sort(decode(every(kind)).astype(np.float64))
    numbers = numbers[np.isfinite(numbers)]
    return np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2])


def every(kind: DType) -> np.ndarray:
    """Every code, as ml_dtypes has them."""
    count = 1 << kind.width
    return np.arange(count, dtype=np.uint16 if kind.bits == 16 else np.uint8).view(kind.numpy)


def same(got: np.ndarray, wanted: np.ndarray, numbers: np.ndarray) -> None:
    """The same codes; those of what is no number are any."""
    with np.errstate(all="ignore"):
        ours, theirs = decode(got), decode(wanted)
    np.testing.assert_array_equal(ours, theirs)
    kind = dtype(wanted.dtype)
    bits, mask = np.uint16 if kind.bits == 16 else np.uint8, (1 << kind.width) - 1
    numbers = numbers & ~np.isnan(theirs.astype(np.float64))
    np.testing.assert_array_equal((got.view(bits) & mask)[numbers], (wanted.view(bits) & mask)[numbers])


@pytest.mark.parametrize("kind", KINDS, ids=ids)
def test_every_code_is_its_number(kind: DType) -> None:
    wanted = every(kind).astype(np.int32 if kind.is_storage and isinstance(kind.format, IntFormat) else np.float32)
    for form in (kind.codes, kind.numpy):
        found = decode(every(kind).view(form))
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))  # the signs of 0 and NaN, too


@pytest.mark.parametrize("kind", KINDS, ids=ids)
def test_numbers_become_the_nearest_code(kind: DType) -> None:
    for x in (BITS, EDGES, NEAR_CODES, 100 * NEAR_CODES, halves(kind).astype(np.float32)):
        with np.errstate(all="ignore"):
            found = codes._bfloat16(x) if kind is bfloat16 else codes._codes(x, kind)
        same(found.view(kind.numpy), encode(x, kind), ~np.isnan(x))


def test_doubles_are_rounded_once() -> None:
    x = np.concatenate([halves(bfloat16)[::97], RNG.normal(size=1000)])
    x = np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)])
    x = x[np.abs(x) < 1e38]
    found = decode(encode(x, "bfloat16")).astype(np.float64)
    below = np.abs(found - x)
    for other in (-1, 1):  # the neighbours are no nearer
        bits = encode(x, "bfloat16").view(np.int16) + np.int16(other)
        neighbour = decode(bits.view(bfloat16.numpy)).astype(np.float64)
        fits = np.isfinite(neighbour) & np.isfinite(found)
        assert (below <= np.abs(neighbour - x))[fits].all()


def test_other_arrays_are_as_they_are() -> None:
    x = np.arange(3, dtype=np.int16)
    assert decode(x) is x
    record = np.zeros(2, [("bfloat16", "<u4")])
    assert decode(record) is record
    assert encode([1.5, 2], float32).tolist() == [1.5, 2.0]
    assert encode(np.array(1.0), "bfloat16").shape == ()
    assert decode(encode(1.5, "float8_e5m2")).tolist() == 1.5


def test_the_other_form_of_codes() -> None:
    x = np.array([1, 2], ml_dtypes.bfloat16)
    assert as_kind(x.view(bfloat16.codes), bfloat16).tolist() == [1, 2]
    assert as_kind(x, bfloat16) is x
    assert [name for name, kind in BY_NAME.items() if has_codes(kind)] == [
        "bfloat16",
        *(k.name for k in STORAGE_DTYPES),
    ]
    with pytest.raises(Exception, match="unknown dtype 'void16'"):
        dtype(bfloat16.codes)  # with ml_dtypes, records are no dtype of the language


@pytest.mark.parametrize("kind", [*KINDS, float32], ids=ids)
def test_arrays_come_back_from_files(kind: DType, tmp_path: Path) -> None:
    array = encode(np.float32([[1, 0, 1]]), kind)
    np.save(tmp_path / "x.npy", stored(array, "x"), allow_pickle=False)
    found = np.load(tmp_path / "x.npy", allow_pickle=False)
    again = restored(found, kind)
    assert again.dtype == array.dtype
    assert again.tobytes() == array.tobytes()
    assert restored(again, kind) is again
    assert stored(found, "x").dtype == found.dtype
    assert restored(found).dtype == (found.dtype if kind.is_storage else array.dtype)
    other = restored(np.zeros(2, "V4"), kind)
    assert other.dtype == "V4", "bytes of another size are left as they are"
