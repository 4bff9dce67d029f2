"""Sorting and selection; as elsewhere, every operator of relay itself.

The split is kept for programs that import from it.
"""

from __future__ import annotations

from legato.relay.op._functions import namespace

__getattr__, __dir__ = namespace("", globals())
