"""Relax's operators by their names: `relax.op.matmul(x, w)`, `relax.op.nn.relu(x)`.

They are those of scripts (`R.matmul`), with the same parameters; calls are typed when they are made.
"""

from __future__ import annotations

from legato.relax.op import _functions, image, nn
from legato.relax.op.calls import call_tir, call_tir_inplace

__all__ = ["call_tir", "call_tir_inplace", "image", "nn"]

__getattr__, __dir__ = _functions.namespace("", globals())
