"""Changes of programs together with their parameters, one per file: `convert(func, params)`."""

from __future__ import annotations

from legato.relay.data_dep_optimization import bsr_conv2d, bsr_dense, simplify_fc_transpose, utils

__all__ = ["bsr_conv2d", "bsr_dense", "simplify_fc_transpose", "utils"]
