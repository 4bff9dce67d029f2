"""Options of the tests. Everywhere in them, programs are verified after every pass and once more as loops.

Properties try the same programs in every run, so that one commit gives one answer; LEGATO_FUZZ, as `make fuzz` and its
like set it, says how many new ones they try instead. No test depends on the clock: there are no deadlines, and growth
is counted in steps (`tests.steps`). What is marked heavy is left out, unless it is asked for (`tests.heavy`).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import settings

from tests.heavy import HEAVY, mark_shared

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fuzz", deadline=None)
settings.load_profile("fuzz" if os.environ.get("LEGATO_FUZZ") else "repeatable")

os.environ["LEGATO_VERIFY"] = "1"  # before anything reads the configuration; processes that tests start inherit it


@pytest.fixture(autouse=True, scope="session")
def compile_here() -> Iterator[None]:
    """Compiles in this process and without the user's kernel cache: programs of tests are small and many. They compile
    faster than a worker starts, and hardly one comes twice."""
    from legato.base.config import config
    from legato.codegen import build, cache

    settings = replace(config(), jobs=1, cache_bytes=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "config", lambda: settings)
        patch.setattr(cache, "config", lambda: settings)
        yield


@pytest.fixture
def torch() -> Any:
    """PyTorch. Not every Python has a build of it: tests that need one are skipped where it is not installed."""
    return pytest.importorskip("torch")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Skips what needs a model file that is not there because PyTorch, which exports it, is not."""
    try:
        return (yield)
    except FileNotFoundError as error:
        if item.get_closest_marker("models") is None or find_spec("torch") is not None:
            raise
        pytest.skip(str(error))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` rewrites the expected part of golden files instead of comparing it."""
    parser.addoption("--update-golden", action="store_true", help="rewrite what golden files expect")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is heavy."""
    mark_shared(items)
    if HEAVY:
        return
    heavy = [item for item in items if item.get_closest_marker("heavy") is not None]
    if heavy:
        items[:] = [item for item in items if item.get_closest_marker("heavy") is None]
        config.hook.pytest_deselected(items=heavy)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    """Tens of thousands of tests stay for the whole run: the garbage collector need not walk over them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
