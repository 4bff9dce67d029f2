"""Python that cannot become Relay, and wrong programs: what is said of each, at the line of Python.

`messages.txt` has a line `== name`, a program, a line `--`, and the message for its function or model `f` (in a file of
the name `wrong.py`; the program stands behind three lines of imports). `pytest --update-golden` rewrites the messages.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from legato.base.errors import CompileError

PATH = Path(__file__).with_name("messages.txt")
HEAD = "import numpy as np\nfrom legato import relay\nfrom legato.relay import Tensor, relay_model\n"


def cases() -> dict[str, tuple[str, str]]:
    """The programs and messages, by name."""
    found = {}
    for block in re.split(r"^== ", PATH.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        program, _, message = rest.partition("\n--\n")
        assert name not in found
        found[name] = (program, message.strip())
    return found


def message_of(folder: Path, program: str) -> str:
    """What is said of a program, its folder left out."""
    path = folder / "wrong.py"
    path.write_text(HEAD + program + "\n")
    spec = importlib.util.spec_from_file_location(f"wrong_{abs(hash(program))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        _ = module.f.module
    except CompileError as error:
        return str(error).replace(f"{folder}/", "")
    pytest.fail("nothing is said")


@pytest.mark.parametrize("name", cases())
def test_message(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        pytest.skip("rewritten by test_update")
    program, expected = cases()[name]
    assert message_of(tmp_path, program) == expected


def test_update(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found = cases()
    assert len(found) >= 60
    if request.config.getoption("--update-golden"):
        blocks = []
        for n, (name, (text, _)) in enumerate(found.items()):
            folder = tmp_path / str(n)  # Python keeps compiled files by their names
            folder.mkdir()
            blocks.append(f"== {name}\n{text}\n--\n{message_of(folder, text)}\n")
        PATH.write_text("\n".join(blocks), encoding="utf-8")
