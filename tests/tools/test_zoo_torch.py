"""Architectures from PyTorch's modules: what the plans say, and that a few small ones agree with eager."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import legato
from tests.heavy import light
from tools.zoo import _torch_backend
from tools.zoo._torch_backend import backed
from tools.zoo._torch_export import checked
from tools.zoo._torch_plans import PLANS, Plan, inputs_of
from tools.zoo._torch_rows import Backed, Found, summary
from tools.zoo.torch import BEGIN, END, kept, main, paragraph

pytestmark = pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")  # PyTorch's, of itself

ROOT = Path(__file__).parents[2]
SMALL = {
    "distilbert": {"n_layers": 1, "dim": 64, "hidden_dim": 96, "n_heads": 2},
    "gpt2": {"n_layer": 1, "n_embd": 64, "n_head": 2},
    "t5": {"num_layers": 1, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_heads": 4},
    "mamba": {"num_hidden_layers": 1, "hidden_size": 64},
}


def small(name: str) -> Plan:
    plan = PLANS[name]
    return replace(plan, row=replace(plan.row, args={**plan.row.args, **SMALL[name]}))


def test_there_are_as_many_as_are_to_be() -> None:
    assert len(PLANS) >= 70
    dynamic = [plan for plan in PLANS.values() if plan.axes]
    assert len(dynamic) >= 25
    assert all(len(plan.sizes) >= 3 for plan in dynamic)
    assert {plan.row.package for plan in PLANS.values()} == {"torchvision", "timm", "transformers"}


@pytest.mark.parametrize("name", light(["distilbert", "t5", "mamba"], ["mamba"]))
def test_agrees_with_eager(name: str) -> None:
    found = checked(small(name))
    assert found.stage == "agrees", found.why
    assert len(found.errors) == len(PLANS[name].sizes)


def test_inputs_have_the_sizes_and_masks_are_not_whole() -> None:
    plan = PLANS["t5"]
    found = inputs_of(plan, plan.sizes[2])
    assert {name: tuple(x.shape) for name, x in found.items()} == {
        "input_ids": (3, 40),
        "attention_mask": (3, 40),
        "decoder_input_ids": (3, 5),
    }
    assert found["attention_mask"].sum(1).tolist() == [40, 37, 34]


def test_other_results_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(program: Any) -> Any:
        module = program.module()

        def call(*args: Any, **kwargs: Any) -> Any:
            found = module(*args, **kwargs)
            return type(found)(last_hidden_state=found[0] * 1.01)

        return call

    monkeypatch.setattr(legato, "compile", compiled)
    found = checked(small("distilbert"))
    assert (found.stage, found.why) == ("compare", "WRONG")
    assert max(found.errors) > 1e-3


def test_what_cannot_be_exported_is_told() -> None:
    plan = replace(small("gpt2"), axes={"input_ids": ["batch", "length"], "attention_mask": ["batch"]})
    found = checked(plan)
    assert found.stage == "export"
    assert found.why.startswith("RuntimeError: ")  # PyTorch's
    assert "export: RuntimeError" in str(found)


def test_summary_counts_stages() -> None:
    rows = [Found("a", "agrees"), Found("b", "agrees", sizes=({"n": 1}, {"n": 2})), Found("c", "compile", "x")]
    assert summary(rows) == "2 of 3 agree with eager, 1 of them at several sizes; 1 end at compile"


def test_agrees_with_eager_through_the_backend() -> None:
    plan = small("distilbert")
    found = backed(replace(plan, sizes=plan.sizes[::2]))
    assert found.stage == "agrees", found.why
    assert len(found.errors) == 2
    assert (found.eager, found.breaks, found.native) == ({}, {}, found.operators)
    assert (found.graphs, found.programs) == (1, 1)
    assert f"{found.native} of {found.operators} operators" in str(found)


def test_what_stays_in_eager_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    class Net(torch.nn.Module):
        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            torch._dynamo.graph_break()
            return torch.linalg.qr(input_ids.float() @ attention_mask.float().t())[1] + 1

    monkeypatch.setattr(_torch_backend, "plain", lambda row: Net())
    found = backed(small("gpt2"))
    assert found.stage == "agrees", found.why
    assert any("linalg_qr" in operator for operator in found.eager)
    assert sum(found.breaks.values()) == 1
    assert 0 < found.native < found.operators


def test_the_page_counts() -> None:
    exported = {"a": Found("a", "agrees"), "b": Found("b", "compile", "x")}
    through = {
        "a": Backed("a", "agrees", graphs=2, again=1, operators=9, native=9),
        "b": Backed("b", "agrees", operators=3, native=2, eager={"1 aten::qr": "no converter"}),
    }
    text = paragraph({"rows": exported, "backend": through})
    assert "Compiled ahead of time, 1 of 2 agree with eager" in text
    assert "Through `torch.compile`, 2 of 2 agree" in text
    assert "1 run without an operator in eager" in text
    assert "11 of 12 operators" in text


def test_a_pattern_that_finds_none_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--only", "no such architecture"])
    assert raised.value.code == 2
    assert "--only no such architecture: found in no package.family.name" in capsys.readouterr().err


def test_the_page_says_what_the_file_has_and_nothing_is_wrong() -> None:
    rows = kept(ROOT / "docs" / "zoo_torch.json")
    for way in rows.values():
        assert list(way) == list(PLANS)
        assert {row.stage for row in way.values()} == {"agrees"}
    assert f"{BEGIN}\n{paragraph(rows)}\n{END}" in (ROOT / "docs" / "pytorch_limits.md").read_text("utf-8")
