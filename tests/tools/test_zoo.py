"""The zoo: what the table says, and that a row is one module with one set of inputs, each time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tools.zoo.table import TABLE, Architecture, Input

FAMILIES = {  # what frontends and benchmarks promise, at least
    "torchvision": {"classification": 20, "segmentation": 3, "detection": 4, "video": 4},
    "timm": {"convolutional": 20, "attention": 20},
    "transformers": {"encoders": 10, "decoders": 10, "pairs": 2, "speech": 3, "vision": 6},
}


def test_the_table_has_enough_of_each_family() -> None:
    found = Counter((row.package, row.family) for row in TABLE.values())
    assert len(TABLE) >= 100
    for package, families in FAMILIES.items():
        for family, least in families.items():
            assert found[package, family] >= least, (package, family)


def test_rows_say_all_that_is_needed() -> None:
    for name, row in TABLE.items():
        assert row.inputs, name
        for of in row.inputs.values():
            assert of.dtype in ("float32", "int64"), name
            assert of.shape, name
            assert min(of.shape) > 0, name


def test_a_section_fills_in_what_a_row_leaves_out() -> None:
    assert TABLE["resnet18"] == Architecture(
        "resnet18", "torchvision", "classification", "resnet18", {"x": Input("float32", (1, 3, 224, 224))}
    )
    albert = TABLE["albert"]
    assert albert.make == "AlbertModel"
    assert albert.args["embedding_size"] == 128
    assert albert.args["hidden_size"] == TABLE["bert"].args["hidden_size"]


@pytest.fixture
def torch(torch: Any) -> Any:
    pytest.importorskip("transformers")
    return torch


@pytest.mark.parametrize("name", ["albert", "mobilebert"])
def test_a_row_is_the_same_module_each_time(torch: Any, name: str) -> None:
    from tools.zoo.build import built

    (one, inputs), (other, again) = built(TABLE[name]), built(TABLE[name])
    with torch.no_grad():
        for ours, theirs in zip(one(*inputs.values()), other(*again.values()), strict=True):
            assert torch.equal(ours, theirs)
            assert ours.std() > 1e-3
    assert all((weight.numel() == 1) or (weight != weight.flatten()[0]).any() for weight in one.parameters())


def test_batch_norms_are_given_what_they_see(torch: Any) -> None:
    from tools.zoo.build import _calibrate

    norm, seen = torch.nn.BatchNorm2d(3), torch.randn(1, 3, 16, 16) * torch.tensor([5.0, 1.0, 0.0])[:, None, None] + 2
    _calibrate(norm.eval(), (seen,))
    spread = norm(seen).std(dim=(0, 2, 3))
    assert 0.7 < spread[0] < 1.2
    assert 0.5 < spread[1] < 1.2
    assert spread[2] == 0
    assert abs(norm(seen)).max() < 10


def test_the_packages_are_the_pinned_ones() -> None:
    packages = pytest.importorskip("tools.zoo.packages")
    if not packages.FOLDER.exists():
        pytest.skip("`make .zoo/.made` installs them")
    for pin in packages.pins():
        name, _, version = pin.partition("==")
        assert (packages.FOLDER / f"{name}-{version}.dist-info").exists()


def test_folder_is_ignored() -> None:
    assert ".zoo/" in (Path(__file__).parents[2] / ".gitignore").read_text().split()
