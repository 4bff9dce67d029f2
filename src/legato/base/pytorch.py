"""PyTorch, which the extra `torch` brings. To import this module is a MissingError where it is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from legato.base.errors import MissingError

if find_spec("torch") is None:
    raise MissingError('this takes PyTorch: not installed\n  hint: pip install "legato[torch]"', name="torch")
