"""Architectures from PyTorch's modules: what the plans say, and that a few small ones agree with eager."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.heavy import light
from tools.zoo import torch as zoo
from tools.zoo.torch import PLANS, Found, Plan, checked, inputs_of, line, summary

pytestmark = pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")  # PyTorch's, of itself

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

    monkeypatch.setattr(zoo.legato, "compile", compiled)
    found = checked(small("distilbert"))
    assert (found.stage, found.why) == ("compare", "WRONG")
    assert max(found.errors) > 1e-3


def test_what_cannot_be_exported_is_told() -> None:
    plan = replace(small("gpt2"), axes={"input_ids": ["batch", "length"], "attention_mask": ["batch"]})
    found = checked(plan)
    assert found.stage == "export"
    assert found.why.startswith("RuntimeError: ")  # PyTorch's
    assert "export: RuntimeError" in line(found)


def test_summary_counts_stages() -> None:
    rows = [Found("a", "agrees"), Found("b", "agrees", sizes=({"n": 1}, {"n": 2})), Found("c", "compile", "x")]
    assert summary(rows) == "2 of 3 agree with eager, 1 of them at several sizes; 1 end at compile"
