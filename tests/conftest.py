"""Options of the tests. Everywhere in them, programs are verified after every pass and once more as loops.

Properties try the same programs in every run, so that one commit gives one answer; LEGATO_FUZZ, as `make fuzz` and its
like set it, says how many new ones they try instead. No test depends on the clock: there are no deadlines, and growth
is counted in steps (`tests.steps`).
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fuzz", deadline=None)
settings.load_profile("fuzz" if os.environ.get("LEGATO_FUZZ") else "repeatable")

os.environ["LEGATO_VERIFY"] = "1"  # before anything reads the configuration; processes that tests start inherit it


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` rewrites the expected part of golden files instead of comparing it."""
    parser.addoption("--update-golden", action="store_true", help="rewrite what golden files expect")
