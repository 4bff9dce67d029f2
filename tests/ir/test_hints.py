"""What other languages write is refused with what to write here: one message, at its place, with a hint.

Cases are written as in tests/errors. `pytest --update-golden` rewrites the messages.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import legato
from tests.errors.test_messages import VERSION, cases, message_of

FILE = Path(__file__).with_name("hints.txt")
CASES = cases(FILE)


@pytest.mark.parametrize("name", CASES)
def test_hint(name: str, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        pytest.skip("rewritten by test_update")
    program, expected = CASES[name]
    assert message_of(program) == expected
    assert expected.startswith("parse error: ")
    assert expected.count("\n  hint: ") == 1


def test_update(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--update-golden"):
        assert len(CASES) >= 50
        return
    blocks = [f"== {name}\n{program}\n--\n{message_of(program)}\n" for name, (program, _) in CASES.items()]
    FILE.write_text("\n".join(blocks), encoding="utf-8")


def test_comments_are_no_divisions() -> None:
    """A let whose `;` is missing has that hint, though a comment stands behind it."""
    program = "def @main(%x: int32) { let %y = %x // the argument\n  %y }"
    assert "hint: `;` ends a let" in message_of(program)


def test_tensor_programs_have_their_own_words() -> None:
    """Hints at Relay's words are for text in Relay; behind a tensor program they are back."""
    kernel = "kernel @k(A: float32[4]) { for i in 4 { A[i] = 0f } and }\n"
    assert "hint: " not in message_of(kernel)


def test_names_of_the_program_come_first() -> None:
    mod = legato.parse(VERSION + "type T { while(int32) }\ndef @main() { while(1) }")
    assert "main" in mod
