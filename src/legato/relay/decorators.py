"""Python functions and classes as programs: `@relay`, `@relay_model` and the annotation `Tensor` (see `legato.script`).

The package itself is the decorator, so that one name serves for both, as in Relay's first paper:

    from legato import relay
    from legato.relay import Tensor

    @relay
    def linear_loss(a: float, b: float, x: Tensor[("n",)], y: Tensor[("n",)]):
        error = relay.add(relay.multiply(a, x), b) - y
        return error * error
"""

from __future__ import annotations

import sys
from typing import Any

from legato.script import ScriptFunction, ScriptModel, Tensor, relay_model

__all__ = ["ScriptFunction", "ScriptModel", "Tensor", "relay", "relay_model"]

relay: Any = sys.modules["legato.relay"]
