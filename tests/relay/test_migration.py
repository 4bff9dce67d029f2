"""docs/migration*.md: their tables are those of the package, and the programs run."""

from __future__ import annotations

import dataclasses
import io
import pydoc
import re
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from legato import relay
from legato.cli import main
from legato.ir._relay_ops import RENAMED
from legato.ir.op import Op
from legato.ops import table
from tests.relay.migration import DOCUMENTS, REGISTRIES, TVMC, operators, rows_of, written


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda p: p.stem)
def test_tables_are_up_to_date(page: Path) -> None:
    text = page.read_text()
    assert text == written(text), "run python tests/relay/migration.py"


def test_each_table_is_in_a_page() -> None:
    text = "".join(page.read_text() for page in DOCUMENTS)
    assert re.findall("<!-- ([a-z]+) -->\n\n[|*]", text) == ["registries", "tvmc", "names", "operators", "lists"]
    assert "`tvm.relay.nn.conv2d`" in text


def test_the_flags_that_stand_for_those_of_tvmc_exist() -> None:
    rows = rows_of(TVMC)
    assert {row[0] for row in rows} == {"all", "compile", "run", "tune", "micro"}
    for _, options, here, difference in rows:
        assert options
        for command in [here, *re.findall(r"`(legato [^`]*)`", difference)]:
            if command != "-":
                require_flags(command)


def require_flags(written: str) -> None:
    """That `legato VERB … --flag` is the command line of a verb that there is, with flags that it has."""
    _, verb, *rest = written.split()
    if verb == "--version":
        return
    shown = run_cli(verb)
    assert [part for part in rest if re.match(r"--?[a-z]", part) and not re.search(rf"{part}\b", shown)] == [], written


@cache
def run_cli(verb: str) -> str:
    """The help of a verb."""
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0, verb
    return printed.getvalue()


def test_what_stands_for_registries_exists() -> None:
    """Names in backticks are of the package, fields of an operator's record, or Python."""
    fields = {f.name for f in dataclasses.fields(Op)} | {"ops", "custom", "packed", "generators"}
    names = [n for _, here, difference in rows_of(REGISTRIES) for n in re.findall(r"`([^`]+)`", f"{here} {difference}")]
    assert len(names) > 40
    for name in names:
        if field := re.match(r"(\w+)=", name):
            assert field[1] in fields, name
        elif dotted := re.match(r"(?:legato\.|relay\.)[\w.]*\w", name):
            assert pydoc.locate(dotted[0] if dotted[0].startswith("legato") else f"legato.{dotted[0]}"), name


@pytest.mark.parametrize(
    ("page", "made"), [(DOCUMENTS[0], "result"), (DOCUMENTS[1], "lib")], ids=["language", "running"]
)
def test_the_programs_run(page: Path, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, as somebody does who reads the page."""
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.S)), found)
    assert made in found


def test_every_operator_of_relay_is_here_or_has_a_reason() -> None:
    listed = operators()
    assert len(listed) == 304
    absent = {name for name in listed if name not in table() and name not in RENAMED}
    assert {name for name, reason in listed.items() if reason} == absent
    assert len(absent) == 31


def test_every_operator_of_relay_that_is_here_is_a_function_of_its_name() -> None:
    """dyn.X is X, given a tensor; contrib_reverse_reshape is a function of another name in Relay, too."""
    for name, reason in operators().items():
        if not reason and not name.startswith("dyn."):
            found: object = relay
            for part in name.split("."):
                found = getattr(found, part)
            assert callable(found), name
