"""Operators on tensors of a method that is traced: `nn.op.relu(x)`.

Each binds what it computes; `name` is what the variable is called like.
"""

from __future__ import annotations

from legato.relax.frontend.nn.op import calls, elementwise, layers, shapes
from legato.relax.frontend.nn.op.calls import *  # noqa: F403
from legato.relax.frontend.nn.op.elementwise import *  # noqa: F403
from legato.relax.frontend.nn.op.layers import *  # noqa: F403
from legato.relax.frontend.nn.op.shapes import *  # noqa: F403
from legato.relax.frontend.nn.tensor import wrap_nested

__all__ = [*calls.__all__, *elementwise.__all__, *layers.__all__, *shapes.__all__, "wrap_nested"]
