"""docs/cli*.md has the keys of every answer in JSON, which are public (docs/versions.md)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from legato import cli
from tests.cli.test_cli import save_onnx

DOCS = Path(__file__).parents[2] / "docs"
PAGES = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("cli.md", "cli_measure.md"))
SECTIONS = {m[1]: m[2] for m in re.finditer(r"^## legato ([^\n]+)\n(.*?)(?=^## |\Z)", PAGES, re.MULTILINE | re.DOTALL)}
COMMON = {"legato", "verb", "exit", "model"}


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("check", "check model.onnx"),
        ("compile", "compile model.onnx"),
        ("run", "run model.onnx --fill random -o out.npz"),
        ("run", "run model.onnx --fill random --dump folder"),
        ("verify", "verify model.onnx"),
        ("verify", "verify compiled.legato"),
        ("bench", "bench compiled.legato --rounds 1 --max-rounds 1 --block 0.001"),
        ("profile", "profile compiled.legato --seconds 0.01"),
        ("show", "show model.onnx"),
        ("show", "show model.onnx --html page.html"),
        ("show, of a compiled file", "show compiled.legato"),
        ("opt", "opt model.onnx -p default"),
        ("opt", "opt --list"),
        ("doctor", "doctor"),
        ("completion", "completion bash"),
        ("cache", "cache ls"),
    ],
)
def test_the_keys_of_an_answer_are_on_the_page(section: str, line: str, call: Any) -> None:
    save_onnx()
    if "compiled.legato" in line:
        assert call("compile", "model.onnx", "-o", "compiled.legato").code == 0
    done = call(*line.split(), "--json")
    assert done.code == 0, done.err
    keys = set(done.json) - COMMON
    assert keys
    assert {key for key in keys if f"`{key}`" not in SECTIONS[section]} == set()


def test_every_verb_has_a_section() -> None:
    verbs = {verb.__name__.rpartition(".")[2] for verb in cli.VERBS}
    assert {section.partition(",")[0] for section in SECTIONS} == verbs
