"""Programs come back from text and from JSON."""

from __future__ import annotations

from legato.infer.infer import infer
from legato.ir.equal import alpha_equal
from legato.ir.json_load import load_json
from legato.ir.json_save import save_json
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.printer import show
from legato.ir.verify import Stage, verify
from legato.ops import table

__all__ = ["check_returning"]


def check_returning(module: Module) -> None:
    """The text of a typed module, typed, is the module; its JSON is the module with its types."""
    verify(module, Stage.TYPED)
    text = show(module, inline=None)
    again = infer(parse(text, ops=table()))
    assert alpha_equal(again, module)
    assert show(again, inline=None) == text
    saved = save_json(module)
    loaded = load_json(saved, ops=table())
    assert alpha_equal(loaded, module)
    assert save_json(loaded) == saved
    assert show(infer(loaded), inline=None) == text
