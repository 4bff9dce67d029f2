"""Wrong scripts of both levels, and what is said of each, at the line of the script.

`wrong_scripts.txt` has a line `== name`, a script, a line `--`, and the message. `pytest --update-golden` rewrites the
messages. A script that begins with neither a decorator nor a class is the body of a tensor program over `X`, `Y` of n
elements and `W` of n × m.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from legato.base.errors import CompileError, InternalError
from legato.script import parse

PATH = Path(__file__).with_name("wrong_scripts.txt")
HEAD = """@T.prim_func
def k(x: T.handle, w: T.handle, Y: T.Buffer(("n",), "float32")):
    n, m = T.int64(), T.int64()
    X = T.match_buffer(x, (n,), "float32")
    W = T.match_buffer(w, (n, m), "float32")
"""


def cases() -> dict[str, tuple[str, str]]:
    """The scripts and messages, by name."""
    found = {}
    for block in re.split(r"^== ", PATH.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        script, _, message = rest.partition("\n--\n")
        assert name not in found
        found[name] = (script, message.strip())
    return found


def message_of(script: str) -> str:
    """What is said of a script."""
    if not script.startswith(("@", "class", "def", "import", "x =")):
        script = HEAD + "".join(f"    {line}\n" for line in script.splitlines())
    try:
        parse(script)
    except InternalError:
        raise
    except CompileError as error:
        return str(error)
    pytest.fail("nothing is said")


@pytest.mark.parametrize("name", cases())
def test_message(name: str, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        pytest.skip("rewritten by test_update")
    script, expected = cases()[name]
    assert message_of(script) == expected


def test_update(request: pytest.FixtureRequest) -> None:
    found = cases()
    assert len(found) >= 40
    if request.config.getoption("--update-golden"):
        blocks = [f"== {name}\n{script}\n--\n{message_of(script)}\n" for name, (script, _) in found.items()]
        PATH.write_text("\n".join(blocks), encoding="utf-8")
