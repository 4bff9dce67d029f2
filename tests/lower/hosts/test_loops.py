"""Functions that call themselves in tail position: what becomes of their parameters from turn to turn."""

from __future__ import annotations

from tests.lower.hosts.programs import agree, lowered
from tests.lower.test_programs import floats, int32

ROTATE = """
    def @loop(%i: int32, %a: Tensor[(8,), float32], %b: Tensor[(8,), float32], %c: Tensor[(8,), float32]) {
      if (less(%i, 1)) { (%a, %b, %c) } else { @loop(subtract(%i, 1), %b, %c, %a) }
    }
    def @main(%i: int32, %a: Tensor[(8,), float32]) { @loop(%i, %a, tanh(%a), exp(%a)) }"""


def test_parameters_that_rotate_need_one_copy_more() -> None:
    agree(ROTATE, *([int32(n), floats(8)] for n in (0, 1, 2, 7)))
    turn = str(lowered(ROTATE).functions["loop"]).split("} else {")[1]
    assert turn.count("launch") == 4
