"""Random modules of PyTorch, exported and imported: interpreted as eager has them, a part compiled."""

from __future__ import annotations

import os
from collections import Counter

import pytest

pytest.importorskip("torch")

from tests.frontend.torch.module_judge import outcome  # after torch is there
from tests.frontend.torch.random_modules import draw
from tests.heavy import amount

COUNT = int(os.environ.get("LEGATO_FUZZ", amount(8, 32)))
BATCH = 8


@pytest.mark.sized
@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_modules(first: int, record_property: pytest.RecordProperty) -> None:
    seeds = range(first, min(first + BATCH, COUNT))
    found = Counter(outcome(draw(seed), compiled=seed % 8 == 3) for seed in seeds)
    for (kind, reason), count in found.items():
        record_property(f"{kind}: {reason}", count)
    assert sum(count for (kind, _), count in found.items() if kind == "agrees") > 0
