"""The quantised dialect: `relay.qnn.op.conv2d` and the like build calls of operators on codes.

`relay.qnn.transform` has the passes that make integer arithmetic of them; compiling does that by itself. Operators are
names of this package too, as in the original: `relay.qnn.requantize`.
"""

from __future__ import annotations

from typing import Any

from legato.relay.qnn import op, transform
from legato.relay.qnn.op import requantize_config

__all__ = ["op", "requantize_config", "transform"]


def __getattr__(name: str) -> Any:
    return getattr(op, name)


def __dir__() -> list[str]:
    return sorted({*dir(op), *__all__})
