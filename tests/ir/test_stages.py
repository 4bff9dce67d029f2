"""Every stage of the pipeline is well-formed, typed, and comes back from its text and its JSON."""

from __future__ import annotations

import pytest

import legato
from legato.base.target import host
from legato.driver import CompileOptions, lower_module, operators
from legato.ir.equal import alpha_equal, structural_hash
from legato.ir.json_load import load_json
from legato.ir.json_save import save_json
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.printer import show_with_tensors
from legato.ir.verify import Stage, verify
from legato.pipelines import DEFAULT
from legato.transform.pass_ import Observer, run

_PROGRAMS = {
    "a multi-layer perceptron": """
        def @main[n: ShapeVar(1, 512)](%x: Tensor[(n, 8), float32], %w: Tensor[(16, 8), float32]) {
          nn.softmax(nn.relu(nn.dense(%x, %w) + 0.5f), axis=-1)
        }""",
    "a convolution and its residual": """
        def @main(%x: Tensor[(n, 4, h, w), float32], %w: Tensor[(4, 4, 3, 3), float32]) {
          %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1]);
          %1 = nn.relu(%0);
          (%1 + %0, shape_of(%x))
        }""",
    "branches and recursion": """
        def @power(%x: Tensor[(3,), float32], %n: int32) -> Tensor[(3,), float32] {
          if (%n == 0) { %x } else { @power(%x * 2f, %n - 1) }
        }
        def @main(%x: Tensor[(3,), float32]) { @power(%x, 3) }""",
}


class _Checked(Observer):
    """Checks what every pass leaves."""

    def after(self, name: str, old: Module, new: Module, seconds: float) -> None:
        _check(new)


def _check(module: Module) -> None:
    verify(module, Stage.TYPED)
    text, tensors = show_with_tensors(module)
    again = parse(text, ops=operators(), constants=tensors)
    assert alpha_equal(again, module)
    assert structural_hash(again) == structural_hash(module)
    saved = save_json(module)
    loaded = load_json(saved, ops=operators())
    assert alpha_equal(loaded, module)
    assert save_json(loaded) == saved
    verify(loaded, Stage.TYPED)


@pytest.mark.parametrize("name", _PROGRAMS)
def test_stages(name: str) -> None:
    module = legato.parse(f'#[version = "0.0.5"]{_PROGRAMS[name]}')
    _check(module)
    module = run(module, DEFAULT, _Checked())
    observer = _Checked(keep=frozenset({"*"}))
    lower_module(module, CompileOptions(target=host(), keep=observer.keep), observer)
    for stage in ("lower", "tir"):
        _check(observer.kept[stage])
