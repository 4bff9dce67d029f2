"""PyTorch's modules, compiled: called as they are, tensors in and out.

    net = legato.compile(module, args=(x,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    y = net(x)

`compiled` is what `legato.compile` gives, `tensors` goes between tensors and arrays.
"""

from __future__ import annotations

from legato.torch.compiled import CompiledModule, compile_module

__all__ = ["CompiledModule", "compile_module"]
