"""Options of the tests. Everywhere in them, programs are verified after every pass and once more as loops."""

from __future__ import annotations

import os

import pytest

os.environ["LEGATO_VERIFY"] = "1"  # before anything reads the configuration; processes that tests start inherit it


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` rewrites the expected part of golden files instead of comparing it."""
    parser.addoption("--update-golden", action="store_true", help="rewrite what golden files expect")
