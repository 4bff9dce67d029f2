"""Wrong programs, and what is said of each: every mistake has one message, at its place.

A file has the cases of one kind of mistake. A case is a line `== name`, a program without its version line (so what it
begins with stands in line 2), a line `--`, and the message. `pytest --update-golden` rewrites the messages.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import legato
from legato.base.errors import CompileError, ParseError, TypeCheckError

VERSION = '#[version = "0.0.5"]\n'
FILES = sorted(Path(__file__).parent.glob("*.txt"))


def cases(path: Path) -> dict[str, tuple[str, str]]:
    """The programs and messages of a file, by name."""
    found = {}
    for block in re.split(r"^== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        program, _, message = rest.partition("\n--\n")
        assert name not in found
        found[name] = (program, message.strip())
    return found


def message_of(program: str) -> str:
    """What is said of a program."""
    with pytest.raises(CompileError) as caught:
        legato.parse(VERSION + program)
    assert isinstance(caught.value, ParseError | TypeCheckError)
    return str(caught.value)


ALL = [(path, name) for path in FILES for name in cases(path)]


@pytest.mark.parametrize(("path", "name"), ALL, ids=lambda p: p.stem if isinstance(p, Path) else p)
def test_message(path: Path, name: str, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        pytest.skip("rewritten by test_update")
    program, expected = cases(path)[name]
    found = message_of(program)
    assert found == expected
    mistakes = len(re.findall(r"^\w+ error: ", found, flags=re.MULTILINE))
    assert mistakes == (2 if path.stem == "several" else 1)
    assert "  | " in found, "a message quotes the line"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_update(path: Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--update-golden"):
        assert cases(path)
        return
    blocks = [f"== {name}\n{program}\n--\n{message_of(program)}\n" for name, (program, _) in cases(path).items()]
    path.write_text("\n".join(blocks), encoding="utf-8")


def test_there_are_enough() -> None:
    assert len(ALL) >= 60
