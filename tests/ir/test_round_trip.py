"""parse(print(m)) is m."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from legato.ir.equal import alpha_equal, structural_hash
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.printer import show_with_tensors
from tests.ir.programs import OPS, modules

_slow = settings(max_examples=60, deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck))


@_slow
@given(modules())
def test_text_gives_the_module_back(module: Module) -> None:
    text, tensors = show_with_tensors(module)
    again = parse(text, ops=OPS, constants=tensors)
    assert alpha_equal(again, module)
    assert alpha_equal(module, again)
    assert structural_hash(again) == structural_hash(module)
    assert show_with_tensors(again)[0] == text
