"""What programs state about expressions: `on_device`, and the regions of other code generators, `compiler_begin(data,
compiler)` and `compiler_end`."""

from __future__ import annotations

from typing import Any

from legato.base.device import as_device
from legato.ir.expr import Expr
from legato.relay.op._functions import function, namespace


def on_device(body: Expr, device: Any, constrain_result: bool = False, constrain_body: bool = True) -> Any:
    """`body`, which is computed on `device` (`constrain_body`), lies there (`constrain_result`), or both.

    A device is a name ("cuda", "cuda:1"), one of `legato.relay.VirtualDevice`, or an object with `device_type` and
    `device_id`. CompileError for anything else.
    """
    return function("on_device")(body, str(as_device(device)), constrain_result, constrain_body)


__getattr__, __dir__ = namespace("annotation.", globals())
