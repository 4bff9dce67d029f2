"""The zoo: what the table says, and that a row is one module with one set of inputs, each time."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.bench.statistics import Ratio
from legato.bench.table import Row, Table
from tools.zoo.report import Figures, is_right, line, markdown
from tools.zoo.row import Found, _kernel, failed
from tools.zoo.table import TABLE, Architecture, Input

ROOT = Path(__file__).parents[2]
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


# ------------------------------------------------------------------ the benchmark


def test_small_architectures_agree_with_onnx_runtime(torch: Any, tmp_path: Path, capsys: Any) -> None:
    from tools.zoo.__main__ import main

    pytest.importorskip("onnxruntime")
    path = tmp_path / "zoo.json"
    only = r"\.(albert|mobilebert)$"
    command = ["--only", only, "--rounds", "0", "--threads", "1", "--folder", str(tmp_path), "--json", str(path)]
    assert main(command) == 0, capsys.readouterr().out
    figures = Figures.from_json(json.loads(path.read_text()))
    assert [row.name for row in figures.table.rows] == ["albert", "mobilebert"]
    for row in figures.table.rows:
        far = row.distances["onnxruntime"]
        assert far is not None
        assert far < 1e-3
        assert not row.missing
    assert "2 architectures: 2 are imported, compiled and agree." in capsys.readouterr().out


def test_the_kernel_that_loses_most_is_named_with_its_share(tmp_path: Path) -> None:
    text = "def @main(%x: Tensor[(64, 64), float32]) -> Tensor[(64, 64), float32] { nn.softmax(nn.dense(%x, %x)) }"
    (tmp_path / "net.relay").write_text(f'#[version = "0.0.5"]\n{text}')
    exe = legato.compile(tmp_path / "net.relay", threads=1)
    told = _kernel(exe, {"x": np.ones((64, 64), np.float32)})
    assert re.match(r"(nn\.dense|nn\.softmax).*: \d+% of the time", told), told


def test_an_export_is_kept_until_its_row_changes(torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.zoo import export

    made: list[str] = []

    def write(row: Architecture, path: Path) -> None:
        made.append(row.name)
        path.write_text("")
        if row.args == {"wrong": 1}:
            raise RuntimeError("no such argument\nand more")

    monkeypatch.setattr(export, "_export", write)
    first = export.exported(TABLE["bert"], tmp_path)
    assert export.exported(TABLE["bert"], tmp_path) == first
    changed = replace(TABLE["bert"], args={})
    assert export.exported(changed, tmp_path) != first
    assert made == ["bert", "bert"]
    assert len([*tmp_path.iterdir()]) == 1
    with pytest.raises(export.ExportError, match=r"^RuntimeError: no such argument$"):
        export.exported(replace(changed, args={"wrong": 1}), tmp_path)
    assert not [*tmp_path.iterdir()]


def row(name: str, median: float, **changed: Any) -> Row:
    """A row in which Legato is `median` times as fast as ONNX Runtime, and faster than OpenVINO."""
    ratios = {"onnxruntime": Ratio(median, median - 0.1, median + 0.1, 0.98, 10), "openvino": Ratio(9, 8, 10, 0.98, 10)}
    seconds = {"legato": 1.0, "onnxruntime": median, "openvino": 9.0}
    found = Row(name, "timm, mixers", True, seconds, ratios, {}, {"onnxruntime": 1e-6, "openvino": 1e-6}, (), 10, 10,
                0.0, (), 2.0, None, None)  # fmt: skip
    return replace(found, **changed)


def figures(*found: Found) -> Figures:
    made = Figures(Table("a machine", "x86-64-v4", 2, {}), {})
    for one in found:
        made = made.with_found(one)
    return made


def test_the_slower_ones_are_named_with_what_they_lose_most_by() -> None:
    made = figures(
        Found(row("resmlp_12_224", 0.5), "nn.conv2d @ /a: 40 % of the time", {"legato": "1"}),
        Found(row("bert", 2.0), None, {"onnxruntime": "2"}),
        failed("vit", "it is not exported: no"),
        Found(row("alexnet", 8.0, differ=("onnxruntime",), distances={"onnxruntime": 0.5}), None, {}),
    )
    assert [r.name for r in made.table.rows] == ["alexnet", "resmlp_12_224", "bert", "vit"]
    told = markdown(made).splitlines()
    assert "4 architectures: 2 are imported, compiled and agree." in told
    assert any("2.00× over 3; Legato is slower in 1." in line for line in told)
    assert "- resmlp_12_224 0.50 (0.40–0.60): nn.conv2d @ /a: 40 % of the time" in told
    assert "- vit: Legato does not run it: it is not exported: no" in told
    assert "- alexnet: ONNX Runtime has other outputs: 5.0e-01 of a range" in told
    assert "Milliseconds of one call on 2 threads of a machine; Legato 1, ONNX Runtime 2." in told
    assert Figures.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_a_row_that_became_faster_has_no_kernel_left() -> None:
    slow = Found(row("bert", 0.5), "nn.dense", {})
    assert figures(slow).kernels == {"bert": "nn.dense"}
    assert figures(slow, Found(row("bert", 1.5), None, {})).kernels == {}


def test_lines_say_what_is_wrong() -> None:
    assert line(row("bert", 2.0)).endswith(
        "agrees  Legato 1000.0  ONNX Runtime 2000.0  OpenVINO 9000.0  2.00× ONNX Runtime"
    )
    assert "WRONG" in line(row("bert", 2.0, differ=("openvino",), distances={"openvino": None}))
    assert "OpenVINO has other outputs: shapes or infinities" in line(
        row("bert", 2.0, differ=("openvino",), distances={"openvino": None})
    )


def test_what_is_compared_with_nothing_does_not_agree() -> None:
    alone = row("bert", 2.0, missing={"onnxruntime": "no", "openvino": "no"}, distances={}, seconds={"legato": 1.0})
    assert not is_right(alone)
    assert "WRONG" in line(alone)
    assert "nothing else runs it" in line(alone)
    assert "1 architectures: 0 are imported, compiled and agree." in markdown(figures(Found(alone, None, {})))


def test_an_architecture_that_is_not_there(torch: Any, capsys: Any) -> None:
    from tools.zoo.__main__ import main

    with pytest.raises(SystemExit):
        main(["--only", "no_such_net"])
    assert "--only: there is no 'no_such_net'" in capsys.readouterr().err


# ------------------------------------------------------------------ packages


def test_the_packages_are_the_pinned_ones() -> None:
    packages = pytest.importorskip("tools.zoo.packages")
    if not packages.FOLDER.exists():
        pytest.skip("`make .zoo/.made` installs them")
    for pin in packages.pins():
        name, _, version = pin.partition("==")
        assert (packages.FOLDER / f"{name}-{version}.dist-info").exists()


def test_folder_is_ignored() -> None:
    assert ".zoo" in (ROOT / ".gitignore").read_text().split()


@pytest.mark.parametrize("file", ["README.md", "docs/zoo.md", "Makefile"])
def test_pages_say_how_many_there_are(file: str) -> None:
    assert re.findall(r"\b(\d+) architectures", (ROOT / file).read_text("utf-8"))[0] == str(len(TABLE))
