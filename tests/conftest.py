"""Everywhere in the tests, programs are verified after every pass and once more as loops."""

from __future__ import annotations

import os

os.environ["LEGATO_VERIFY"] = "1"  # before anything reads the configuration; processes that tests start inherit it
