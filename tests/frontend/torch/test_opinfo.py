"""A part of PyTorch's own samples of its core operators, the same in every run; `make torch-opinfo` takes all."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")  # which PyTorch's samples need

from tests.frontend.torch.opinfo import DTYPES, Outcome, infos, misses, outcomes, reason_of
from tests.heavy import amount, picked

pytestmark = [pytest.mark.sized, pytest.mark.filterwarnings("ignore")]  # of PyTorch's samples


@pytest.mark.parametrize(
    ("dtype", "compiled"), [*((dtype, False) for dtype in DTYPES), (DTYPES[0], True), (DTYPES[2], True)], ids=str
)
def test_samples_agree_or_stand_in_the_list(dtype: Any, compiled: bool) -> None:
    one_in = amount(40, 8) if compiled else amount(20, 2)
    found: list[Outcome] = []
    for info in infos():
        name = f"{info.name} {info.variant_test_name} {dtype} {compiled}"
        if picked(name, one_in):
            found += outcomes(info, dtype, compiled=compiled, wanted=lambda n, name=name: picked(f"{name} {n}", 4))
    missed = [o for o in found if o.kind in ("refused", "wrong")]
    assert [o for o in missed if reason_of(o) is None] == []
    kinds = Counter(o.kind for o in found)
    assert kinds["agrees"] > 0.9 * (kinds["agrees"] + kinds["refused"])


def test_every_entry_of_the_list_names_an_operator() -> None:
    names = [Outcome(f"{i.name}.{i.variant_test_name}".rstrip("."), DTYPES[0], 0, "refused") for i in infos()]
    assert [m.operator for m in misses() if not any(m.names(n) for n in names)] == []
