"""Programs that passes once changed the meaning of, refused with no error of their own, or lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import CompileError, TypeCheckError, UnsupportedError
from legato.interp import evaluate
from legato.ir.module import Module
from legato.relay.instrument import DumpIR
from legato.relay.testing.temp_op_attr import TempOpAttr
from legato.transform import module_pass, read_passes, table
from tests.graphs import leaves

RNG = np.random.default_rng(11)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


CASES: dict[str, tuple[str, str, list[Any]]] = {
    "a cell that each branch hands on": (
        "partial-evaluate",
        """def @w(%c: ref(int32), %n: int32) -> () {
             if (%n == 0) { () } else { let %z = ref_write(%c, 99); @w(%c, %n - 1) } }
           def @main(%p: bool, %q: bool, %n: int32) -> int32 {
             let %c = ref(1);
             if (%p) { let %u = if (%q) { ref_write(%c, 2) } else { ref_write(%c, 3) }; let %v = @w(%c, %n); 0 }
             else { let %v = @w(%c, %n); ref_read(%c) } }""",
        [np.bool_(False), np.bool_(True), np.int32(1)],
    ),
    "a norm of each image, images not first": (
        'convert-layout{layouts=["nn.conv2d:HWNC"]}',
        """def @main(%x: Tensor[(2, 4, 3, 3), float32], %w: Tensor[(4, 4, 1, 1), float32],
                     %g: Tensor[(4), float32], %b: Tensor[(4), float32]) {
             nn.instance_norm(nn.conv2d(%x, %w), %g, %b) }""",
        [f32(2, 4, 3, 3), f32(4, 4, 1, 1), f32(4), f32(4)],
    ),
    "a scale of 0 beside a shift": (
        "fold-scale-forward{computed=true}",
        """def @main(%x: Tensor[(2, 2), float32], %s: Tensor[(2), float32], %c: Tensor[(2), float32],
                     %w: Tensor[(3, 2), float32]) { nn.dense(add(multiply(%x, %s), %c), %w) }""",
        [f32(2, 2), np.array([0, 1], np.float32), f32(2), f32(3, 2)],
    ),
    "a factor that is read before a write": (
        "fold-scale-backward{computed=true}",
        """def @main(%x: Tensor[(2, 2), float32], %w: Tensor[(3, 2), float32], %s: float32) {
             let %r = ref(%s);
             multiply(ref_read(%r), nn.dense({ let %z = ref_write(%r, %s + 1f); %x }, %w)) }""",
        [f32(2, 2), f32(3, 2), np.float32(2)],
    ),
    "parameters of a norm, each read and changed": (
        "canonicalize{computed=true}",
        """def @rd(%c: ref(Tensor[(2), float32])) -> Tensor[(2), float32] {
             let %v = ref_read(%c); let %z = ref_write(%c, %v * 3f); %v }
           def @main(%x: Tensor[(1, 2), float32], %s: Tensor[(2), float32]) {
             let %c = ref(%s); nn.batch_norm(%x, @rd(%c), @rd(%c), @rd(%c), @rd(%c)).0 }""",
        [f32(1, 2), np.ones(2, np.float32)],
    ),
    "a constant that would be 0, and a dtype that is stated": (
        "mixed-precision",
        """def @main(%x: Tensor[(2, 2), float32], %w: Tensor[(2, 2), float32]) {
             (divide(nn.dense(%x, %w), 1e-8f), nn.dense(%x, %w, out_dtype="float64"),
              add(nn.dense(%x, %w), full(1e6f, shape=[2, 2]))) }""",
        [np.array([[1, -2], [3, 4]], np.float32), np.ones((2, 2), np.float32)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_meaning_stays(name: str) -> None:
    passes, text, args = CASES[name]
    old = new = legato.parse(text)
    for step in read_passes(passes):
        new = step(new)
    for got, wanted in zip(leaves(evaluate(new, args)), leaves(evaluate(old, args)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "text",
    [
        "def @main(%x: Tensor[(5), int32]) { argwhere(%x) }",
        """def @main(%x: Tensor[(5), int32], %b: bool) {
             let %i = argwhere(%x); let %y = if (%b) { %i } else { %i }; %y + %i }""",
        "def @f(%x: Tensor[(5), int32]) { argwhere(%x) } def @main(%x: Tensor[(5), int32]) { @f(%x) }",
    ],
)
def test_continuations_of_dims_that_data_tells(text: str) -> None:
    with pytest.raises(UnsupportedError, match="whose dims depend on data"):
        table()["to-cps"]()(legato.parse(text))


def test_a_main_that_is_a_value_keeps_its_type() -> None:
    mod = legato.parse("""
      def @ap(%f: fn (Tensor[(2, 2), float32]) -> Tensor[(2, 2), float32], %x: Tensor[(2, 2), float32]) { %f(%x) }
      def @main(%x: Tensor[(2, 2), float32]) -> Tensor[(2, 2), float32] { nn.dense(%x, %x) }
      def @g(%x: Tensor[(2, 2), float32]) { @ap(@main, %x) }""")
    (step,) = read_passes("mixed-precision{narrow-output=true}")
    assert step(mod)["main"].ty == mod["main"].ty  # type: ignore[union-attr]  # functions


def _first(attrs: Any, inputs: Any, infos: Any, out: Any) -> Any:
    return inputs[0]


def test_a_rule_that_gives_an_operand_of_another_type() -> None:
    mod = relay.IRModule(
        legato.parse("def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) { nn.dense(%x, %w) }")
    )
    with TempOpAttr("nn.dense", "FTVMAlterOpLayout", _first), pytest.raises(TypeCheckError, match="changes the type"):
        relay.transform.AlterOpLayout()(mod)


def test_a_folder_of_texts_is_no_folder_of_dumps(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(CompileError, match="files that are no dumps"):
        DumpIR(tmp_path, refresh=True)
    with pytest.raises(CompileError, match="is no folder"):
        DumpIR(tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_options_are_called_otherwise_than_what_passes_have() -> None:
    def own(mod: Module, *, name: str = "x") -> Module:
        return mod

    with pytest.raises(CompileError, match="option name of pass own is what passes have"):
        module_pass(own)


@pytest.mark.parametrize(
    "text",
    ["rematerialize{extra=-1}", "partial-evaluate{fuel=-5}", "dense-to-sparse{height=0}",
     "conv2d-to-sparse{sparsity=2}", "convert-layout{skip-layers=[-1]}"],
)  # fmt: skip
def test_options_without_a_meaning(text: str) -> None:
    with pytest.raises(CompileError):
        read_passes(text)


@pytest.mark.parametrize("target", [{"kind": "x86-64-v3", "mcpu": "znver1"}, "llvm mcpu=skylake"])
def test_targets_with_options_that_nothing_follows(target: Any) -> None:
    with pytest.raises(CompileError):
        legato.target.Target(target)
