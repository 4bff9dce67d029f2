"""Annotations of regions for other code generators: `compiler_begin(data, compiler)` and `compiler_end`."""

from __future__ import annotations

from legato.relay.op._functions import namespace

__getattr__, __dir__ = namespace("annotation.", globals())
