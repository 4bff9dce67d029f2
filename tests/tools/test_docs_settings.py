"""docs/settings.md has every setting: of the environment, of legato.compile, of the command line."""

from __future__ import annotations

import inspect
from dataclasses import fields

import legato
from legato.base.config import Config
from legato.cli._main import make_parser
from tools.docs_settings import PAGE, environment, main, options


def test_the_page_is_as_it_would_be_written() -> None:
    assert main(["--check"]) == 0, "python -m tools.docs_settings"


def test_defaults_are_written_as_they_are_given() -> None:
    assert {options()[name][0] for name in ("frozen", "donate", "memory_limit")} == {"True", "", "0"}
    booleans = [f"LEGATO_{f.name.upper()}" for f in fields(Config) if isinstance(f.default, bool)]
    assert booleans
    assert {environment()[name][0] for name in booleans} <= {"0", "1"}


def test_every_setting_is_on_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = [f"LEGATO_{f.name.upper()}" for f in fields(Config)]
    names += [name for name in inspect.signature(legato.compile).parameters if name != "model"]
    assert [name for name in names if f"| `{name}` |" not in text] == []
    rows = [line for line in text.splitlines() if line.startswith("| `-")]
    verbs = next(a for a in make_parser()._actions if a.dest == "verb").choices
    assert isinstance(verbs, dict)
    for verb, own in verbs.items():
        for action in own._actions:
            for flag in action.option_strings:
                found = [row for row in rows if flag in row.split("`")[1].replace(",", "").split(" ")]
                assert any(f"`{verb}`" in row or "| all |" in row for row in found), (verb, flag)
