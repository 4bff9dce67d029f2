"""Relax's operators by their names: `relax.op.matmul(x, w)`, `relax.op.nn.relu(x)`.

They are those of scripts (`R.matmul`), with the same parameters; calls are typed when they are made.
"""

from __future__ import annotations

from legato.relax.op import _functions, image, nn, vision
from legato.relax.op.calls import (
    assert_op,
    call_dps_packed,
    call_packed,
    call_pure_packed,
    call_tir,
    call_tir_inplace,
    print,
)

__all__ = ["assert_op", "call_dps_packed", "call_packed", "call_pure_packed", "call_tir", "call_tir_inplace", "image",
           "nn", "print", "vision"]  # fmt: skip

__getattr__, __dir__ = _functions.namespace("", globals())
