"""PyTorch's modules, compiled: called as they are, tensors in and out.

    net = legato.compile(module, args=(x,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    y = net(x)
    net.save("net.module")
    net = legato.torch.load("net.module")

`compiled` is what `legato.compile` gives, `backend` what `torch.compile(module, backend="legato")` runs, `explain` says
what that compiles and what stays in eager, `tensors` goes between tensors and arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from legato.base import compiler as _compiler  # noqa: F401  # a MissingError where its packages are not
from legato.base import pytorch as _pytorch  # noqa: F401  # one where PyTorch is not
from legato.torch.compiled import CompiledModule, compile_module, load

if TYPE_CHECKING:
    from legato.torch.report import Explanation as Explanation
    from legato.torch.report import explain as explain
else:

    def __getattr__(name: str) -> Any:
        """`explain` and its report, with which Dynamo is imported."""
        if name in ("Explanation", "explain"):
            from importlib import import_module

            return getattr(import_module("legato.torch.report"), name)
        raise AttributeError(f"module 'legato.torch' has no attribute {name!r}")


__all__ = ["CompiledModule", "Explanation", "compile_module", "explain", "load"]
