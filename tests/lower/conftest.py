"""Compiling in the tests of this folder: in this process, without the kernel cache of the user."""

from __future__ import annotations

from dataclasses import replace

import pytest

from legato.base.config import config
from legato.codegen import build, cache


@pytest.fixture(autouse=True, scope="session")
def compile_here() -> object:
    """Many small programs compile faster than a worker starts, and random ones would only fill the cache."""
    settings = replace(config(), jobs=1, cache_bytes=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "config", lambda: settings)
        patch.setattr(cache, "config", lambda: settings)
        yield
