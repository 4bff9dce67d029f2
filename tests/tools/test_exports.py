"""Exports of architectures: one made, compiled and compared; inputs of every entry have their sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.exports.__main__ import AGREES, feeds, one
from tools.exports.architectures import ARCHITECTURES


def test_an_export_agrees(torch: Any, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    row = one("roberta", "torchscript", tmp_path)
    assert row["outcome"] == AGREES, json.dumps(row)
    assert row["inputs"][0].startswith("input_ids: int64[batch, length]")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_inputs_have_the_sizes(name: str) -> None:
    of = ARCHITECTURES[name]
    assert len(of.sizes) >= 3
    for sizes in of.sizes:
        for array, (_, shape) in zip(feeds(of, sizes).values(), of.inputs.values(), strict=True):
            assert array.shape == tuple(sizes.get(d, d) for d in shape)
