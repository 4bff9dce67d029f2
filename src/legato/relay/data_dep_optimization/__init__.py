"""Changes of programs together with their parameters, one per file: `convert(func, params)`."""

from __future__ import annotations

from legato.relay.data_dep_optimization import simplify_fc_transpose

__all__ = ["simplify_fc_transpose"]
